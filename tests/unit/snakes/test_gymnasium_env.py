"""The Gymnasium interfaces: its own check, autoreset in the same step, both views, frozen opponents."""

import sys
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from samples import wild_actor

from lib.errors import UserError
from lib.snakes import SnakesVec, SnakesVectorEnv
from lib.snakes.gymnasium_env import NAME, SnakesEnv
from lib.snakes.players import NetworkPlayer
from lib.snakes.rules import FEATURES


def random_actions(env, rng):
    return rng.integers(0, 4, env.action_space.shape)


def test_the_check_of_gymnasium():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(NAME).unwrapped, skip_render_check=True)
        check_env(SnakesEnv(opponent="random", side="right", features="jidi26"), skip_render_check=True)


def test_the_registered_vector_entry():
    env = gymnasium.make_vec(NAME, num_envs=4, vectorization_mode="vector_entry_point", opponent="evasion")
    observations, _ = env.reset(seed=1)
    assert observations.shape == (4, 3, FEATURES["team"]) and env.observation_space.contains(observations)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP


@pytest.mark.parametrize("view", ["team", "snake"])
def test_autoreset_in_the_same_step(view):
    env = SnakesVectorEnv(6, view=view, opponent="greedy", side="both", episode_steps=200)
    games = 6 if view == "team" else 2
    observations, infos = env.reset(seed=2)
    rng = np.random.default_rng(0)
    total = np.zeros(6)
    for step in range(200):
        before = observations
        observations, rewards, terminated, truncated, infos = env.step(random_actions(env, rng))
        total += rewards
        assert observations.dtype == np.float32 and env.observation_space.contains(observations)
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, bool, bool)
        assert ("final_obs" in infos) == (step == 199) == terminated.all() and not truncated.any()
    assert infos["_final_obs"].all() and infos["_final_info"].all()
    clock = [infos["final_obs"][index].reshape(-1, FEATURES["team"])[0, 5] for index in range(6)]
    assert clock == [1.0] * 6 and (observations.reshape(-1, FEATURES["team"])[:, 5] == 0).all()
    assert (before.reshape(-1, FEATURES["team"])[:, 5] == np.float32(199 / 200)).all()
    final = infos["final_info"]
    difference = final["score"] - final["score_against"]
    assert (final["outcome"] == np.sign(difference)).all() and final["_score"].all() and (difference != 0).any()
    if view == "team":
        assert (total == difference).all()
    else:
        assert (total.reshape(games, 3).sum(1) == final["score"][::3]).all()


def test_both_views_and_the_core_play_the_same_games():
    rng = np.random.default_rng(1)
    team = SnakesVectorEnv(4, opponent="greedy", reward="own")
    snake = SnakesVectorEnv(12, view="snake", opponent="greedy")
    vec = SnakesVec(4, seed=7, right="greedy")
    by_team, by_snake = team.reset(seed=7)[0], snake.reset(seed=7)[0]
    features = vec.reset()
    for _ in range(230):
        np.testing.assert_array_equal(by_team, features[:, 0].numpy())
        np.testing.assert_array_equal(by_snake.reshape(4, 3, FEATURES["team"]), by_team)
        actions = random_actions(team, rng)
        vec.actions[:, :3] = torch.from_numpy(actions).to(torch.int32)
        vec.step()
        by_team, team_rewards, *_ = team.step(actions)
        by_snake, snake_rewards, *_ = snake.step(actions.reshape(-1))
        assert (snake_rewards.reshape(4, 3) == vec.rewards[:, :3].numpy()).all()
        assert (team_rewards == snake_rewards.reshape(4, 3).sum(1)).all()


def test_a_frozen_network_opponent_on_the_other_side():
    """The opponent's moves are those of its actor on its own features; ours are the ones that were given."""
    actor = wild_actor(mask=False)
    env = SnakesVectorEnv(4, opponent=NetworkPlayer(actor), side="both")
    env.reset(seed=1)
    rng = np.random.default_rng(2)
    for _ in range(20):
        with torch.no_grad():
            expected = actor(env.game.features).argmax(-1)  # (games, teams, 3)
        actions = random_actions(env, rng)
        env.step(actions)
        played = env.game.actions.reshape(4, 2, 3)
        for game in range(4):
            own = game % 2
            assert played[game, own].tolist() == actions[game].tolist()
            assert played[game, 1 - own].tolist() == expected[game, 1 - own].tolist()


def test_the_mask_and_copies():
    env = SnakesVectorEnv(3, opponent="random")
    observations, infos = env.reset(seed=0)
    kept = observations.copy()
    assert infos["action_mask"].shape == (3, 3, 4) and infos["action_mask"].dtype == np.int8
    assert infos["_action_mask"].tolist() == [True] * 3
    blocked = observations[..., [8, 13, 18, 23]] >= 0.9
    assert ((infos["action_mask"] == 0) == (blocked & ~blocked.all(-1, keepdims=True))).all() and blocked.any()
    env.step(np.zeros((3, 3), dtype=int))
    assert (observations == kept).all()
    assert "action_mask" not in SnakesVectorEnv(3, features="jidi26").reset(seed=0)[1]


def test_seeds_episodes_and_the_cut_off():
    env, twin = (SnakesVectorEnv(2, opponent="greedy", episode_steps=15) for _ in range(2))
    first, _ = env.reset(seed=9)
    np.testing.assert_array_equal(first, twin.reset(seed=9)[0])
    rng = np.random.default_rng(0)
    for _ in range(15):
        actions = random_actions(env, rng)
        left, right = env.step(actions), twin.step(actions)
        np.testing.assert_array_equal(left[0], right[0])
    assert left[3].all() and not left[2].any()
    assert (left[0] != first).any(), "the next game is another one"
    np.testing.assert_array_equal(env.reset(seed=9)[0], first)
    assert (env.reset(seed=10)[0] != first).any()


def test_one_environment_goes_on_where_the_last_game_ended():
    env = SnakesEnv(opponent="greedy", episode_steps=10)
    first, _ = env.reset(seed=4)
    for _ in range(10):
        last, _, terminated, truncated, info = env.step(np.array([0, 0, 0]))
    assert truncated and not terminated and last[0, 5] == np.float32(10 / 200)
    assert info["outcome"] == np.sign(info["score"] - info["score_against"])
    second, info = env.reset()
    assert (second != first).any() and (second[:, 5] == 0).all() and info["action_mask"].shape == (3, 4)
    np.testing.assert_array_equal(env.reset(seed=4)[0], first)


BAD_OPTIONS = [
    ({"view": "bird"}, "view is 'bird': expected one of team, snake"),
    ({"side": "top"}, "side is 'top'"),
    ({"features": "pixels"}, "features is 'pixels'"),
    ({"opponent": "gredy"}, "nearest team is greedy"),
    ({"view": "snake", "num_envs": 4}, "multiple of 3"),
    ({"view": "snake", "num_envs": 3, "reward": "difference"}, "expected own"),
    ({"num_envs": 0}, "at least 1"),
]


@pytest.mark.parametrize(("options", "said"), BAD_OPTIONS)
def test_bad_options(options, said):
    with pytest.raises(UserError, match=said):
        SnakesVectorEnv(**options)


def test_bad_actions():
    env = SnakesVectorEnv(2)
    with pytest.raises(UserError, match=r"call reset\(\) first"):
        env.step(np.zeros((2, 3), dtype=int))
    env.reset(seed=0)
    for actions, said in (
        (np.zeros((2, 2), dtype=int), r"shape \(2, 2\) .*expected \(2, 3\)"),
        (np.zeros((2, 3)), "type float64"),
        (np.full((2, 3), 4), "an action is 4: expected 0 to 3"),
        (np.full((2, 3), -1), "an action is -1"),
    ):
        with pytest.raises(UserError, match=said):
            env.step(actions)
    with pytest.raises(UserError, match="one whole number"):
        env.reset(seed=[1, 2])
    with pytest.raises(UserError, match="sees jidi26, expected the features team"):
        SnakesVectorEnv(2, opponent=NetworkPlayer(wild_actor(features="jidi26")))


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "lib.snakes.gymnasium_env")
    with pytest.raises(UserError, match="pip install gymnasium"):
        import lib.snakes.gymnasium_env  # noqa: F401
