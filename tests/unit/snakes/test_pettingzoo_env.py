"""The PettingZoo interface: its own checks, and what the agents are told."""

import sys
import warnings

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import lib.snakes
from lib.errors import UserError
from lib.snakes import SnakesVec, parallel_env
from lib.snakes.pettingzoo_env import AGENTS
from lib.snakes.planes import PLANES, grid_planes, open_moves
from lib.snakes.rules import FEATURES
from lib.snakes.state import GameState


@pytest.mark.parametrize("observations", ["team", "jidi26", "grid"])
def test_the_checks_of_pettingzoo(observations, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(parallel_env(observations=observations), num_cycles=250)
        parallel_seed_test(lambda: parallel_env(observations=observations), num_cycles=60)
    assert "Passed Parallel API test" in capsys.readouterr().out


def play(env, seed: int | None, steps: int = 300):
    """Rewards, deaths and the last answer of a game of fixed moves."""
    env.reset(seed=seed)
    rng = np.random.default_rng(0)
    rewards, deaths = np.zeros(6), np.zeros(6)
    while env.agents and steps:
        last = env.step(dict(zip(AGENTS, rng.integers(0, 4, 6).tolist())))
        rewards += [last[1][agent] for agent in AGENTS]
        deaths += [last[4][agent]["died"] for agent in AGENTS]
        steps -= 1
    return rewards, deaths, last, env.game.snapshot(0)


def test_a_game_ends_at_once_for_all_and_rewards_add_up_to_scores():
    env = parallel_env()
    rewards, deaths, (_, _, terminated, truncated, infos), state = play(env, 3)
    assert env.agents == [] and all(terminated.values()) and not any(truncated.values())
    assert state.step == 200 and deaths.sum() > 5
    assert rewards.tolist() == state.scores == [infos[agent]["score"] for agent in AGENTS]
    with pytest.raises(UserError, match=r"call reset\(\) first"):
        env.step(dict.fromkeys(AGENTS, 0))


def test_seeds_and_episodes():
    env = parallel_env(seed=3)
    first = play(env, None)[3]
    second = play(env, None)[3]
    again = play(env, 3)[3]
    assert first.snakes == again.snakes and first.beans == again.beans
    assert first.snakes != second.snakes
    assert play(env, None)[3].snakes == second.snakes
    assert play(env, 4)[3].snakes != first.snakes


def test_a_shorter_game_is_cut_off():
    env = parallel_env(episode_steps=20)
    _, _, (_, _, terminated, truncated, _), state = play(env, 1)
    assert state.step == 20 and all(truncated.values()) and not any(terminated.values())


def test_observations_are_the_kernels_and_do_not_change_later():
    env = parallel_env(seed=5)
    vec = SnakesVec(1, seed=5, observe="both", right="external")
    features = vec.reset().reshape(6, FEATURES["team"]).clone()
    observations, _ = env.reset(seed=5)
    kept = {agent: observation.copy() for agent, observation in observations.items()}
    for snake, agent in enumerate(AGENTS):
        np.testing.assert_array_equal(observations[agent], features[snake])
    np.testing.assert_array_equal(env.state(), features.reshape(-1))
    env.step(dict.fromkeys(AGENTS, 0))
    assert all((observations[agent] == kept[agent]).all() for agent in AGENTS)
    assert env.observation_space("team1_2").shape == (FEATURES["team"],)


def board() -> GameState:
    """Snake 0 heads right at (0, 19): across the edge lies snake 3's tail, below its mate's body, above nothing."""
    snakes = [
        [19, 18, 17, 16],
        [38, 39, 59, 79],
        [100, 101, 102],
        [2, 1, 0],
        [150, 151, 152],
        [170, 171, 172],
    ]
    return GameState(snakes, [199, 60, 61, 62, 63], [3, 2, 2, 3, 2, 2], None, step=50)


def test_the_mask_of_moves():
    # up: the bean at (9, 19); down: the mate's body; left: the own neck; right: a tail that may leave.
    assert open_moves(board(), 0).tolist() == [1, 0, 0, 1]
    env = parallel_env()
    env.reset(seed=0)
    for _ in range(30):
        _, _, _, _, infos = env.step(dict.fromkeys(AGENTS, 1))
        blocked = env.game.features.reshape(6, FEATURES["team"])[:, 8:28:5].numpy() >= 0.9
        for snake, agent in enumerate(AGENTS):
            mask = infos[agent]["action_mask"]
            assert mask.dtype == np.int8
            assert mask.tolist() == ((~blocked[snake]) | blocked[snake].all()).astype(int).tolist()


def test_the_planes_of_a_board():
    planes = grid_planes(board(), 0)
    plane = {name: planes[:, :, index] for index, name in enumerate(PLANES)}
    assert planes.shape == (10, 20, 9) and planes.dtype == np.float32
    # The head (0, 19) moves to (5, 10): rows + 5, columns - 9.
    assert np.argwhere(plane["own body"]).tolist() == [[5, 7], [5, 8], [5, 9], [5, 10]]
    assert plane["mates' bodies"].sum() == 7 and plane["enemies' bodies"].sum() == 9
    assert plane["mates' heads"][6, 9] == 1 and plane["mates' heads"].sum() == 2
    assert plane["enemies' heads"][5, 13] == 1 and plane["enemies' heads"].sum() == 3
    assert plane["tails"].sum() == 6 and plane["tails"][5, 7] == 1 and plane["tails"][5, 11] == 1
    assert plane["beans"][4, 10] == 1 and plane["beans"].sum() == 5
    assert np.argwhere(plane["ahead"]).tolist() == [[5, 11]]
    assert (plane["clock"] == np.float32(0.25)).all()
    assert grid_planes(GameState([[], *board().snakes[1:]], [1], [0] * 6), 0).sum() == 0


def test_bad_input():
    with pytest.raises(UserError, match="expected one of team, jidi26, grid"):
        parallel_env(observations="pixels")
    with pytest.raises(UserError, match="expected ansi or None"):
        parallel_env(render_mode="human")
    env = parallel_env()
    env.reset(seed=0)
    with pytest.raises(UserError, match="action of team0_1 is 4: expected 0 to 3"):
        env.step({**dict.fromkeys(AGENTS, 0), "team0_1": 4})
    with pytest.raises(UserError, match="expected one for each of team0_0"):
        env.step({"team0_0": 1})


def test_the_text_of_the_board():
    env = parallel_env(render_mode="ansi")
    env.reset(seed=0)
    assert len(env.render().splitlines()) >= 10
    assert parallel_env().render() is None


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "lib.snakes.pettingzoo_env")
    with pytest.raises(UserError, match="pip install pettingzoo"):
        _ = lib.snakes.parallel_env
