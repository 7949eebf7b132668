"""Many environments of a game of others: draws, ends, failures, tests; on stand-ins."""

import numpy as np
import pytest
import torch
from fake_smaclite import FakeSMACliteEnv
from foreign_samples import MAPS, begun, fails

from lib.errors import UserError
from lib.omagd.battles import make_battles
from lib.omagd.evaluation import Tally, Trials, play_share
from lib.omagd.foreign.game import GameCrashed
from lib.omagd.foreign.players import nearest_actions
from lib.omagd.foreign.slot import Slot
from lib.omagd.learning.collector import Collector
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.learning.replay import EpisodeReplay
from lib.omagd.players import ScriptedPlayer, greedy
from lib.omagd.senses import Senses


def test_draws_follow_seed_battle_episode_and_step(games):
    """Of two environments those of three are the first two, whatever begins beside them."""
    for env, name in (("smac", "2s3z"), ("smacv2", "protoss_5_vs_5"), ("smaclite", "2s3z")):
        several, few, last = (
            make_battles(env, name, count, seed=4, first_battle=first) for count, first in ((3, 0), (2, 0), (1, 2))
        )
        told = torch.cat([few.obs, last.obs])
        assert torch.equal(several.obs, told) and not torch.equal(several.obs[0], several.obs[1])
        for step in range(45):
            for battles in (several, few, last):
                if step % 2:
                    battles.choose(torch.zeros_like(battles.avail, dtype=torch.float32), 0.5)
                else:
                    battles.script("nearest", 0.3)
                battles.step()
            assert torch.equal(several.actions, torch.cat([few.actions, last.actions]))
            assert torch.equal(several.state, torch.cat([few.state, last.state]))
            assert torch.equal(several.rewards, torch.cat([few.rewards, last.rewards]))
        assert int(several.episode.min()) >= 1
        other = make_battles(env, name, 3, seed=5)
        assert not torch.equal(other.obs, told)
        for battles in (several, few, last, other):
            battles.close()


def test_ends_of_battles_are_told_as_by_the_embedded(games):
    for env in ("smac", "smaclite"):
        battles = make_battles(env, "2s3z", 2, seed=1)
        returns, lengths, ended = torch.zeros(2), torch.zeros(2), 0
        for _ in range(100):
            battles.script("nearest")
            battles.step(check=True)
            returns += battles.rewards
            lengths += 1
            for slot in battles.done.nonzero().squeeze(1).tolist():
                assert battles.final_returns[slot] == pytest.approx(float(returns[slot]), rel=1e-5)
                won, late, _, dead_enemies = battles.info[slot].tolist()
                assert (won, late, dead_enemies) == (1, 0, 5) and battles.alive[slot].all()  # another has begun
                assert battles.step_count[slot] == 0 and battles.returns[slot] == 0 and lengths[slot] <= battles.limit
                returns[slot], lengths[slot], ended = 0.0, 0.0, ended + 1
        assert ended > 4
        battles.close()


def test_the_limit_ends_battles_of_a_game_that_has_none(games):
    games.setattr(
        FakeSMACliteEnv, "step", lambda env, actions: (env.get_obs(), 0.0, False, False, {"battle_won": False})
    )
    battles = make_battles("smaclite", "2s3z", 1, autoreset=False)
    for _ in range(battles.limit):
        assert not battles.done[0]
        battles.script("random")
        battles.step()
    assert (
        battles.done[0] and battles.info[0].tolist() == [0, 1, 0, 0] and battles.step_count[0] == battles.limit == 120
    )
    before = battles.obs.clone()
    battles.step(torch.ones_like(battles.actions))  # stands still
    assert battles.done[0] and battles.step_count[0] == 120 and torch.equal(battles.obs, before)


def test_actions_that_are_not_available(games):
    battles = make_battles("smac", "3m", 2, seed=1)
    with pytest.raises(UserError, match=r"battle 0: agent 0 cannot take action 0; available are \[1, 2"):
        battles.step(torch.zeros(2, 3, dtype=torch.int64))
    assert battles.step_count.tolist() == [0, 0]  # nothing was played
    with pytest.raises(UserError, match="agent 2 cannot take action 9"):
        battles.step(torch.tensor([[1, 1, 1], [1, 1, 9]]))
    with pytest.raises(UserError, match=r"expected whole numbers \(2, 3\)"):
        battles.step(torch.zeros(2, 4, dtype=torch.int64))
    battles.actions.fill_(8)
    battles.step(check=False)  # counts as stop
    assert battles.step_count.tolist() == [1, 1] and battles.state[0, -27:].tolist() == ([0, 1] + [0] * 7) * 3
    with pytest.raises(UserError, match="'kite' is not known: there are random, nearest"):
        battles.script("kite")
    with pytest.raises(UserError, match="values have shape"):
        battles.choose(torch.zeros(2, 3, 8))
    best = torch.arange(9.0).repeat(2, 3, 1)
    battles.choose(best)
    assert torch.equal(battles.actions.long(), battles.avail.long().mul(torch.arange(1, 10)).argmax(-1))


def test_healers_and_targets_of_the_script(games):
    game = begun("smac", "MMM", ally_1=(9, 15, 20), ally_2=(9, 16, 45), enemy_0=(14, 15, 45), enemy_1=(12, 14, 150))
    found = nearest_actions(game, np.full(4, -1))
    assert found[3] == 6 + 1  # the medivac heals the wounded marine
    assert found[1] == 6 + 1 and found[0] == 6 + 0  # the nearest is the enemy's medivac, which a marauder cannot hit
    assert nearest_actions(game, np.array([-1, 6, -1, -1]))[1] == 6  # keeps whom it attacked


@pytest.mark.parametrize("how", ["silent", "raise"])
def test_a_game_that_fails_is_started_anew_and_its_episode_dropped(games, how):
    fails(games, game_2=(7, how))
    lines = []
    battles = make_battles("smac", "3m", 2, seed=1, log=lines.append)
    replay = EpisodeReplay(battles.layout, 100, 1000, slots=2)
    layout = battles.layout
    collector = Collector(battles, replay)
    agent = Agent(AgentConfig(layout.obs_size, layout.n_actions, layout.n_agents, hidden=8))
    for _ in range(6):
        collector.step(agent, 1.0)
    assert collector.lengths[1] == 6 and not lines
    collector.step(agent, 1.0)
    assert battles.dropped == [1] and battles.restarts == 1 and int(collector.lengths[1]) == 0
    assert not collector.hidden.view(2, 3, -1)[1].any() and (collector.last_actions[1] == 9).all()
    assert battles.episode.tolist()[1] == 1 and not battles.done[1] and battles.alive[1].all()
    words = "StarCraft II has ended" if how == "silent" else "Connection already closed. SC2 probably crashed"
    assert len(lines) == 1 and lines[0].startswith("environment 1 of smac failed (") and words in lines[0]
    for _ in range(60):
        collector.step(agent, 1.0)
        assert not battles.dropped
    lengths = [length for _, length, slot in replay.kept if slot == 1]
    assert len(lengths) > 1 and sum(lengths) + int(collector.lengths[1]) == 60  # nothing of the dropped one
    assert collector.look()["episodes"] == len(replay)


def test_two_failures_in_a_row_end_the_run(games):
    fails(games, game_1=(3, "raise"), game_2=(0, "raise"))
    battles = make_battles("smac", "3m", 1, log=list)
    with pytest.raises(
        UserError, match="environment 0 of smac failed twice in a row, last by ConnectionError: no port"
    ):
        for _ in range(3):
            battles.script("random")
            battles.step()
    fails(games, game_1=(3, "raise"), game_2=(4, "raise"))
    battles = make_battles("smaclite", "2s3z", 1, log=list)
    with pytest.raises(UserError, match="failed twice in a row, last by ValueError: the tree is empty"):
        for _ in range(7):
            battles.script("random")
            battles.step()
    assert battles.restarts == 1
    fails(games, game_1=(3, "raise"), game_2=(30, "raise"))  # an episode has come to its end between
    battles = make_battles("smac", "3m", 1, log=list)
    for _ in range(40):
        battles.script("random")
        battles.step()
    assert battles.restarts == 2
    fails(games, game_1=(0, "raise"))
    lines = []
    make_battles("smac", "3m", 1, log=lines.append)
    (line,) = lines
    assert line.startswith("environment 0 of smac failed (ConnectionError: no port is free (fake_starcraft.py:")
    assert line.endswith(")): it was started anew")


@pytest.mark.parametrize("env", ["smac", "smaclite"])
def test_a_fault_of_ours_is_no_failure_of_the_game(games, env):
    """It comes through as it is, with its own traceback, instead of a line in the log."""
    lines = []
    battles = make_battles(env, MAPS[env][0], 2, log=lines.append)

    def wrong(*_):
        raise KeyError("a block that is not there")

    games.setattr("lib.omagd.foreign.game.full_observations", wrong)
    battles.script("random")
    with pytest.raises(KeyError, match="a block that is not there"):
        battles.step()
    assert not lines and battles.restarts == 0


def test_saved_counts_begin_other_battles(games):
    """A game cannot be saved: what follows is the next episode, and what had begun is forgotten."""
    battles = make_battles("smaclite", "2s3z", 2, seed=3)
    layout = battles.layout
    collector = Collector(battles, EpisodeReplay(layout, 50, 2000, slots=2))
    agent = Agent(AgentConfig(layout.obs_size, layout.n_actions, layout.n_agents, hidden=8))
    while len(collector.replay) < 3:
        collector.step(agent, 0.6)
    state = collector.get_state()
    other = Collector(make_battles("smaclite", "2s3z", 2, seed=3), EpisodeReplay(layout, 50, 2000, slots=2))
    other.set_state(state)
    assert other.battles.episode.tolist() == [number + 1 for number in battles.episode.tolist()]
    assert other.lengths.tolist() == [0, 0] and not other.hidden.any() and len(other.replay) == len(collector.replay)
    battles.reset()
    assert torch.equal(other.battles.obs, battles.obs)
    with pytest.raises(UserError, match="2 battles are saved, and this has 3"):
        make_battles("smaclite", "2s3z", 3).set_state(battles.get_state())


def test_tests_are_the_same_on_any_number_of_processes_and_at_once(games):
    def share(rank: int, processes: int, at_once: int) -> Tally:
        test = Trials(
            "2s3z", 5, seed=3, rank=rank, processes=processes, device="cpu", env="smaclite", at_once=at_once
        )  # fmt: skip
        found = [play_share(test, ScriptedPlayer(name).start) for name in ("nearest", "random", "nearest")]
        assert found[0] == found[2] and (test.battles.num_battles <= at_once)
        test.close()
        return found[1]

    whole = share(0, 1, 5)
    assert whole.battles == 5 and whole == share(0, 1, 2)
    parts = share(0, 2, 2) + share(1, 2, 2)
    assert (parts.battles, parts.won, parts.steps) == (whole.battles, whole.won, whole.steps)
    assert parts.returns == pytest.approx(whole.returns)
    fails(games, game_1=(4, "raise"))
    test = Trials("3m", 3, seed=3, rank=0, processes=1, device="cpu", strict=True, env="smac", at_once=2, log=list)
    agent = Agent(AgentConfig(30, 9, 3, hidden=8))
    assert (
        play_share(test, lambda battles: greedy(agent, battles, Senses(battles, True))).battles == 3
        and test.battles.restarts == 1
    )  # the dropped one is played again


def test_a_game_that_cannot_even_end_is_started_anew():
    """What closing a crashed game raises is said and survived; what making the next one raises counts as a failure."""

    class Stuck:
        name = "stuck"

        def reset(self, seed):
            begun.append(seed)

        def close(self):
            raise RuntimeError("no such process")

    def make(seed):
        if fails:
            raise OSError(fails.pop())
        return Stuck()

    begun, fails = [], []
    slot = Slot(make, 1, 7)
    slot.begin()
    line = slot.restart(GameCrashed("it has ended"), lost=True)
    assert "environment 7 of stuck failed (it has ended) (its end, too: RuntimeError: no such process" in line
    assert line.endswith("it was started anew, its episode is dropped") and len(begun) == 2
    slot.failed, fails = False, ["no port is free"]
    with pytest.raises(UserError, match=r"failed twice in a row, last by OSError: no port is free"):
        slot.restart(GameCrashed("it has ended"), lost=True)
