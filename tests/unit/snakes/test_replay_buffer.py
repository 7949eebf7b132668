"""The ring of steps and the n-step batches drawn from it, against sums written out by hand."""

import pytest
import torch

from lib.errors import UserError
from lib.snakes.replay_buffer import CUT, ENDED, RUNNING, ReplayBuffer
from lib.snakes.rules import FEATURES

GAMMA = 0.9


def filled(steps: int, seats: int = 4, capacity: int = 12, n_step: int = 3, ends=None) -> ReplayBuffer:
    """Step t of seat s has features t + s / 10, actions (t + snake) % 4, rewards 10 t + s + snake / 4."""
    buffer = ReplayBuffer(capacity * seats, seats, 2, n_step, GAMMA)
    snakes, places = torch.arange(3), torch.arange(seats)
    for time in range(steps):
        buffer.see(features(time, seats))
        rewards = 10.0 * time + places[:, None] + snakes / 4
        end = torch.full((seats,), RUNNING, dtype=torch.uint8)
        for seat, kind in (ends or {}).get(time, ()):
            end[seat] = kind
        buffer.complete(((time + snakes) % 4).expand(seats, 3), rewards, end)
    buffer.see(features(steps, seats))
    return buffer


def features(time: int, seats: int) -> torch.Tensor:
    value = time + torch.arange(seats) / 10
    return value[:, None, None].expand(seats, 3, 2)


def reward(time: int, seat: int, snake: int) -> float:
    return 10.0 * time + seat + snake / 4


def test_a_transition_holds_n_rewards_and_the_state_after_them():
    buffer = filled(8)
    batch = buffer.gather(torch.tensor([2, 5]), torch.tensor([1, 3]))
    for row, (time, seat) in enumerate(((2, 1), (5, 3))):
        for snake in range(3):
            expected = sum(GAMMA**k * reward(time + k, seat, snake) for k in range(3))
            assert batch.returns[row, snake].item() == pytest.approx(expected, rel=1e-6)
        assert batch.actions[row].tolist() == [(time + snake) % 4 for snake in range(3)]
        assert batch.features[row, 0, 0].item() == pytest.approx(time + seat / 10, abs=5e-3)
        assert batch.next_features[row, 0, 0].item() == pytest.approx(time + 3 + seat / 10, abs=5e-3)
    assert batch.discount.flatten().tolist() == pytest.approx([GAMMA**3] * 2)
    assert batch.weight.flatten().tolist() == [1.0, 1.0]


def test_nothing_after_the_end_of_a_game_counts():
    buffer = filled(8, ends={3: [(1, ENDED)]})
    batch = buffer.gather(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 1, 1, 1]))
    for row, last in enumerate((3, 3, 3)):
        time = row + 1
        expected = sum(GAMMA**k * reward(time + k, 1, 0) for k in range(last - time + 1))
        assert batch.returns[row, 0].item() == pytest.approx(expected, rel=1e-6)
        assert batch.discount[row].item() == 0.0
    # The next game begins with the step after, and its first transition is whole.
    assert batch.discount[3].item() == pytest.approx(GAMMA**3)
    assert batch.weight.flatten().tolist() == [1.0] * 4


def test_a_game_that_was_cut_off_gives_no_target_from_beyond_the_cut():
    buffer = filled(8, ends={3: [(2, CUT)]})
    batch = buffer.gather(torch.tensor([0, 1, 2, 3, 4]), torch.full((5,), 2))
    assert batch.weight.flatten().tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("steps", [3, 4, 11, 12, 13, 30])
def test_every_step_that_can_be_drawn_is_and_no_other(steps):
    """The ring holds 12 slots, one of them for what is seen now."""
    buffer = filled(steps)
    first = max(0, steps + 1 - 12)
    seen = set()
    for update in range(400):
        batch, seats = buffer.sample(4, seed=0, update=update, rank=0, processes=1)
        assert seats.tolist() == [0, 1, 2, 3]
        times = (batch.features[:, 0, 0] - seats / 10).round().int().tolist()
        after = (batch.next_features[:, 0, 0] - seats / 10).round().int().tolist()
        assert [b - a for a, b in zip(times, after)] == [3] * 4
        seen.update(times)
    assert seen == set(range(first, steps - 2))


def test_too_few_steps_cannot_be_drawn():
    assert [filled(steps).drawable for steps in (0, 1, 2, 3, 4)] == [0, 0, 0, 1, 2]


@pytest.mark.parametrize("batch", [2, 4, 6, 8])
def test_the_global_batch_does_not_depend_on_the_number_of_processes(batch):
    """One process with 8 seats and the whole batch draws what two with 4 seats each and half of it draw."""
    whole, half = filled(9, seats=8), filled(9, seats=4)
    for update in range(20):
        _, seats = whole.sample(2 * batch, 3, update, 0, 1)
        times = torch.cat([half.sample(batch, 3, update, rank, 2)[0].actions for rank in range(2)])
        parts = torch.cat([half.sample(batch, 3, update, rank, 2)[1] + 4 * rank for rank in range(2)])
        assert seats.tolist() == parts.tolist()
        assert torch.equal(whole.sample(2 * batch, 3, update, 0, 1)[0].actions, times)


def test_draws_are_spread_over_seats_and_times():
    buffer = filled(11, seats=10)
    counts = torch.zeros(10)
    for update in range(300):
        counts += torch.bincount(buffer.sample(3, 0, update, 0, 1)[1], minlength=10)
    assert counts.sum() == 900 and counts.min() > 60 and counts.max() < 120


def test_state_comes_back_exactly():
    buffer, other = filled(30), filled(5)
    other.set_state(buffer.get_state())
    one, two = (each.sample(4, 0, 7, 0, 1)[0] for each in (buffer, other))
    assert all(torch.equal(a, b) for a, b in zip(one, two))
    with pytest.raises(UserError, match="--num_envs and --buffer_size"):
        filled(5, seats=5).set_state(buffer.get_state())


def test_sizes_that_cannot_be():
    with pytest.raises(UserError, match=r"--buffer_size 10 holds 2 steps of 4 games, expected 5 or more"):
        ReplayBuffer(10, 4, 2, 3, GAMMA)
    with pytest.raises(UserError, match=r"--buffer_size 1000000000000 needs .* GiB in each process and"):
        ReplayBuffer(10**12, 64, FEATURES["team"], 3, GAMMA)


def test_a_batch_that_can_never_be_drawn():
    with pytest.raises(UserError, match=r"--batch_size 64: a replay of --buffer_size 40 never has more than 28"):
        ReplayBuffer(40, 4, 2, 3, GAMMA, batch_size=64)
