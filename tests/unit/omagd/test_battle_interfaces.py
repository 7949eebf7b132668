"""One battle behind SMAC's interface and behind PettingZoo's."""

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from lib.errors import UserError
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.pettingzoo_env import ParallelBattle
from lib.omagd.battle.smac_env import BattleEnv


def random_actions(environment: BattleEnv, rng: np.random.Generator) -> list[int]:
    return [int(rng.choice(np.flatnonzero(mask))) for mask in environment.get_avail_actions()]


def test_an_episode_as_a_learner_of_smac_plays_it():
    environment, rng = BattleEnv("3m", seed=2), np.random.default_rng(0)
    info = environment.get_env_info()
    assert info["obs_shape"] == 30 and info["state_shape"] == 48 and info["n_actions"] == 9
    assert info["episode_limit"] == 60 and info["obs_component"] == [4, (3, 5), (2, 5), 1]
    for _ in range(3):
        obs, state = environment.reset()
        assert len(obs) == 3 and obs[0].shape == (30,) and state.shape == (48,) and obs[0].dtype == np.float32
        over, total, steps = False, 0.0, 0
        while not over:
            reward, over, said = environment.step(random_actions(environment, rng))
            total, steps = total + reward, steps + 1
            assert set(said) == {"battle_won", "dead_allies", "dead_enemies"}
        assert steps <= 60 and total == pytest.approx(float(environment.battle.final_returns[0]), abs=1e-5)
    assert said["dead_allies"] == 3 or steps == 60
    stats = environment.get_stats()
    assert stats["battles_game"] == 3 and stats["win_rate"] == stats["battles_won"] / 3
    with pytest.raises(UserError, match=r"the battle is over: call reset\(\) first"):
        environment.step([0, 0, 0])
    environment.reset()
    with pytest.raises(UserError, match=r"agent 0 cannot take action 0; available are \[1, 2, 3, 4, 5\]"):
        environment.step([0, 1, 1])
    assert int(environment.battle.step_count[0]) == 0  # nothing has happened


def test_it_is_the_battle_of_the_batch():
    environment, battles = BattleEnv("2s3z", seed=4, sight=5.0), BattleVec("2s3z", 1, seed=4, sight=5.0)
    environment.reset()
    battles.reset()
    for _ in range(12):
        battles.script("nearest")
        reward, _, _ = environment.step(battles.actions[0].tolist())
        battles.step()
        assert reward == float(battles.rewards[0])
        assert np.array_equal(np.stack(environment.get_obs()), battles.obs[0].numpy())
        assert np.array_equal(np.stack(environment.get_obs(no_range_limit=True)), battles.full_obs[0].numpy())
        assert np.array_equal(environment.get_visibility_matrix(), battles.visible[0].numpy() != 0)
        assert environment.get_avail_actions() == battles.avail[0].tolist()
    assert not np.array_equal(battles.obs, battles.full_obs)


def test_the_limit_is_said_where_it_does_not_end_the_task():
    for continuing in (False, True):
        environment = BattleEnv("3m", limit=3, continuing_episode=continuing)
        environment.reset()
        ends = [environment.step([1, 1, 1]) for _ in range(3)]
        assert [over for _, over, _ in ends] == [False, False, True]
        said = ends[-1][2]
        assert said.get("episode_limit", False) is continuing
        assert environment.get_stats()["timeouts"] == 1


def test_pettingzoo_accepts_it():
    parallel_api_test(ParallelBattle("3m"), num_cycles=200)
    one, other = ParallelBattle("2s3z", seed=1), ParallelBattle("2s3z", seed=2)
    first, again = one.reset(seed=7)[0], other.reset(seed=7)[0]
    for agent in first:
        assert np.array_equal(first[agent]["observation"], again[agent]["observation"])
    assert np.array_equal(one.reset()[0]["ally_0"]["observation"], first["ally_0"]["observation"])  # it has not begun
    one.step(dict.fromkeys(one.agents, 1))
    assert not np.array_equal(one.reset()[0]["ally_0"]["observation"], first["ally_0"]["observation"])
    with pytest.raises(UserError, match="no action for ally_4: the dead take 0"):
        one.step({f"ally_{number}": 1 for number in range(4)})


def test_the_parallel_battle_tells_terminated_and_truncated_apart():
    environment = ParallelBattle("3m", limit=2)
    observations, _ = environment.reset(seed=3)
    assert list(observations) == ["ally_0", "ally_1", "ally_2"]
    assert observations["ally_0"]["action_mask"].tolist() == [0, 1, 1, 1, 1, 1, 0, 0, 0]
    assert environment.state().shape == (48,)
    still = dict.fromkeys(environment.agents, 1)
    _, rewards, ended, cut, _ = environment.step(still)
    assert not any(ended.values()) and not any(cut.values()) and set(rewards.values()) == {0.0}
    _, _, ended, cut, _ = environment.step(still)
    assert not any(ended.values()) and all(cut.values()) and environment.agents == []
