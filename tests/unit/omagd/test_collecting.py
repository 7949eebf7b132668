"""Playing and keeping episodes: nothing lost, nothing mixed up, drawn by the seed."""

import pytest
import torch

from lib.errors import UserError
from lib.omagd.battle.battle import BattleVec
from lib.omagd.learning.collector import Collector
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.learning.replay import EpisodeReplay, pick, step_arrays
from lib.omagd.senses import Senses


def team(battles: BattleVec) -> Agent:
    torch.manual_seed(0)
    layout = battles.layout
    return Agent(AgentConfig(layout.obs_size, layout.n_actions, layout.n_agents, hidden=8))


def filled(episodes: list[int], kept: int, capacity: int) -> EpisodeReplay:
    """A replay to which episodes of these lengths were added; number k has k in its rewards and t in its actions."""
    layout = BattleVec("3m", 1).layout
    replay = EpisodeReplay(layout, kept, capacity, slots=2)
    for number, length in enumerate(episodes):
        source = step_arrays(layout, 2, max(episodes))
        source["rewards"][1] = number
        source["actions"][1, :, 0] = torch.arange(max(episodes))
        source["ends"][1, length - 1] = 1.0
        replay.add(source, 1, length)
    return replay


def test_the_ring_keeps_the_newest_whole_episodes():
    replay = filled([4, 3, 5, 2, 6, 3], kept=10, capacity=16)
    # 4, 3, 5, 2 fill 14 places; 6 begins anew over the first two, and 3 follows over the third.
    batch = replay.sample(len(replay), seed=0, update=0)
    assert sorted(set(batch.rewards.tolist())) == [3.0, 4.0, 5.0] and replay.added == 6
    assert len(batch.rewards) == 2 + 6 + 3
    few = filled([4, 3, 5, 2, 6, 3], kept=2, capacity=100)
    assert sorted(set(few.sample(2, 0, 0).rewards.tolist())) == [4.0, 5.0]


def test_a_batch_lies_in_time_with_the_longest_first():
    replay = filled([2, 5, 3, 4], kept=10, capacity=100)
    batch = replay.sample(4, seed=3, update=1)
    assert batch.batch_sizes == (4, 4, 3, 2, 1) and sum(batch.batch_sizes) == len(batch.rewards)
    assert batch.rewards[:4].tolist() == [1.0, 3.0, 2.0, 0.0] and batch.rewards[-1].item() == 1.0
    times = batch.actions[:, 0].tolist()
    assert times == [0] * 4 + [1] * 4 + [2] * 3 + [3] * 2 + [4]
    none = replay.layout.n_actions
    assert batch.last_actions[:, 0].tolist() == [none] * 4 + [0] * 4 + [1] * 3 + [2] * 2 + [3]
    assert batch.ends.nonzero().squeeze(1).tolist() == [7, 10, 12, 13]


def test_draws_follow_seed_and_update():
    replay = filled([3] * 40, kept=50, capacity=500)
    drawn = {key: tuple(replay.sample(8, *key).rewards[:8].tolist()) for key in ((0, 0), (0, 1), (1, 0))}
    assert len(set(drawn.values())) == 3
    assert all(len(set(each)) == 8 for each in drawn.values())  # no episode twice
    assert drawn[0, 0] == tuple(replay.sample(8, 0, 0).rewards[:8].tolist())


def slotted(slots: range, all_slots: int) -> EpisodeReplay:
    """Three episodes of each slot, in whose rewards its number among `all_slots` stands, and the episode's."""
    layout = BattleVec("3m", 1).layout
    replay = EpisodeReplay(layout, 1000, 10_000, slots=len(slots), first_slot=slots.start)
    for episode in range(3):
        for slot in slots:
            source = step_arrays(layout, len(slots), 5)
            source["rewards"][slot - slots.start] = slot + all_slots * episode
            replay.add(source, slot - slots.start, 2 + (slot + episode) % 3)
    return replay


def test_many_processes_draw_what_one_with_all_their_battles_would():
    whole, parts = slotted(range(8), 8), [slotted(range(4), 8), slotted(range(4, 8), 8)]
    seen = set()
    for update in range(12):
        one = sorted(whole.sample(8, 5, update).rewards.tolist())
        assert one == sorted(value for part in parts for value in part.sample(4, 5, update).rewards.tolist())
        seen |= set(one)
    assert len(seen) == 24  # every episode of every slot was drawn some time
    few = {int(value) % 8 for update in range(4) for value in whole.sample(2, 5, update).rewards.tolist()}
    assert few == set(range(8))  # the slots take turns


def test_a_saved_replay_gives_the_same_batches():
    replay = filled([4, 3, 5, 2, 6, 3], kept=10, capacity=16)
    other = EpisodeReplay(replay.layout, 10, 16, slots=2)
    other.set_state({name: tensor.clone() for name, tensor in replay.get_state().items()})
    for update in range(5):
        one, two = replay.sample(3, 7, update), other.sample(3, 7, update)
        assert all(torch.equal(a, b) for a, b in zip(one[:-1], two[:-1], strict=True)) and one[-1] == two[-1]
    with pytest.raises(UserError, match="resume with the saved --buffer_steps and --batch_size_run"):
        EpisodeReplay(replay.layout, 10, 12, slots=2).set_state(replay.get_state())


def test_a_collector_continues_with_the_same_episodes():
    def collector() -> Collector:
        battles = BattleVec("3m", 4, seed=2)
        return Collector(battles, EpisodeReplay(battles.layout, 100, 5000, slots=4))

    one, other = collector(), collector()
    agent = team(one.battles)
    for _ in range(70):
        one.step(agent, 0.4)
    other.set_state({name: tensor.clone() for name, tensor in one.get_state().items()})
    assert other.sums == one.sums and one.sums["episodes"] > 0
    assert one.get_state()["replay.rewards"].shape[0] == one.replay.used < 5000  # what is empty is not saved
    for _ in range(40):
        one.step(agent, 0.4)
        other.step(agent, 0.4)
    assert one.look() == other.look()
    first, second = one.get_state(), other.get_state()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("full", [False, True])
def test_what_is_kept_is_what_was_played(full):
    """The kept actions, played again from the start of the same battles, give all that was kept."""
    battles = BattleVec("3m", 5, seed=6, sight=5.0)
    replay = EpisodeReplay(battles.layout, 1000, 20_000, slots=5)
    collector, agent = Collector(battles, replay, Senses(battles, full)), team(battles)
    ended = sum(collector.step(agent, 0.5) for _ in range(140))
    found = collector.look()
    assert found["episodes"] == ended == len(replay) > 5 and collector.look()["episodes"] == 0
    lengths = [length for _, length, _ in replay.kept]
    assert found["lengths"] == sum(lengths)
    # Episode k of slot s: the order in which they ended is not that of their slots.
    again, at, checked = BattleVec("3m", 5, seed=6, sight=5.0), {}, 0
    first_steps = {
        replay.arrays["obs"][first].numpy().tobytes(): number for number, (first, *_) in enumerate(replay.kept)
    }
    for _ in range(140):
        told = again.full_obs if full else again.obs
        for slot in range(5):
            if again.step_count[slot] == 0:
                at[slot] = (first_steps.get(told[slot].numpy().tobytes()), 0)
        for slot, (number, t) in at.items():
            again.actions[slot] = 0
            if number is None:  # had not ended when the collector stopped
                again.actions[slot] = again.avail[slot].argmax(-1).int()
                continue
            place = replay.kept[number][0] + t
            assert torch.equal(replay.arrays["obs"][place], told[slot])
            assert torch.equal(replay.arrays["state"][place], again.state[slot])
            assert torch.equal(replay.arrays["avail"][place], again.avail[slot])
            again.actions[slot] = replay.arrays["actions"][place].int()
        again.step()
        for slot, (number, t) in list(at.items()):
            if number is not None:
                place, length = replay.kept[number][0] + t, replay.kept[number][1]
                assert replay.arrays["rewards"][place] == again.rewards[slot]
                assert replay.arrays["ends"][place] == float(again.done[slot]) == float(t + 1 == length)
                checked += 1
                at[slot] = (number, t + 1)
    assert checked == sum(lengths)


def test_memory_begins_anew_with_every_episode():
    battles = BattleVec("3m", 3, seed=1, limit=4)
    collector, agent = Collector(battles, EpisodeReplay(battles.layout, 100, 1000, slots=3)), team(battles)
    for _ in range(4):
        collector.step(agent, 1.0)
    assert collector.lengths.tolist() == [0, 0, 0] and not collector.hidden.any()
    assert (collector.last_actions == battles.layout.n_actions).all()
    collector.step(agent, 1.0)
    assert collector.hidden.any() and torch.equal(collector.last_actions, battles.actions.long())
    assert collector.look()["limits"] == 3


def test_picks_are_different_as_long_as_there_are_others_and_all_are_as_likely():
    draws = torch.rand(3000, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64).tolist()
    found = [pick(row, 4) for row in draws]
    assert all(len(set(each)) == 3 for each in found)
    counts = torch.bincount(torch.tensor(found).flatten(), minlength=4)
    assert (counts - 9000 / 4).abs().max() < 4 * (9000 / 4) ** 0.5
    assert sorted(pick(draws[0], 2)[:2]) == [0, 1] and len(pick(draws[0], 2)) == 3


def test_a_replay_larger_than_the_memory_is_refused():
    layout = BattleVec("3m", 1).layout
    with pytest.raises(
        UserError, match=r"--buffer_steps 2000000000 needs .* GiB in each process .* give --buffer_steps"
    ):
        EpisodeReplay(layout, 5000, 2_000_000_000, slots=2, neighbours=2)
