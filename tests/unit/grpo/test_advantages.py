"""Advantages by hand, constant groups by exact equality, counts."""

import random
import statistics

import pytest
import torch

from lib.grpo.learning.advantages import EPSILON, compute_advantages

REWARDS = [1.0, 0.0, 0.0, 1.0, 0.2, 0.2, 0.2, 0.2, 0.0, 0.0, 0.0, 0.6, 1.0, 1.0, 1.0, 1.0]
GROUPS = [at // 4 for at in range(16)]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_values_are_those_of_the_formula(scale):
    found = compute_advantages(REWARDS, GROUPS, scale)
    for group in (0, 2):
        own = REWARDS[4 * group : 4 * group + 4]
        spread = {"group": statistics.stdev(own), "batch": statistics.stdev(REWARDS), "none": 1 - EPSILON}[scale]
        expected = [(reward - statistics.mean(own)) / (spread + EPSILON) for reward in own]
        assert found.values[4 * group : 4 * group + 4] == pytest.approx(expected, rel=1e-12)
    assert found.live == [group in (0, 2) for group in GROUPS]
    assert (found.groups, found.zero_std, found.all_zero, found.all_one) == (4, 0.5, 0.0, 0.25)


def test_constant_groups_give_exactly_zero():
    """Three times 0.1 has a mean that differs from it in floats, so r - mean is not 0."""
    value = 0.1
    assert sum([value] * 3) / 3 != value
    found = compute_advantages([value] * 3, [0] * 3)
    assert found.values == [0.0] * 3 and found.live == [False] * 3 and found.zero_std == 1.0


def test_the_smallest_difference_is_one():
    found = compute_advantages([1.0, 1.0 + 2**-52], ["a", "a"], "none")
    assert found.live == [True, True] and found.zero_std == 0.0


def test_order_and_container_do_not_matter():
    """Ranks hold parts of groups: any order of the gathered rewards gives every episode the same number."""
    order = list(range(16))
    random.Random(3).shuffle(order)
    expected = compute_advantages(REWARDS, GROUPS).values
    gathered = torch.tensor(REWARDS, dtype=torch.float64)[order], torch.tensor(GROUPS)[order]
    assert compute_advantages(*gathered).values == [expected[at] for at in order]


def test_a_group_of_one_is_constant_and_nobody_is_nothing():
    assert compute_advantages([0.7], [0]).live == [False]
    nothing = compute_advantages([], [])
    assert (nothing.values, nothing.groups, nothing.zero_std) == ([], 0, 0.0)


def test_successes_are_counted_apart_from_shaped_rewards():
    found = compute_advantages([0.1, 0.3, 1.1, 1.2], [0, 0, 1, 1], successes=[0, 0, 1, 1])
    assert (found.zero_std, found.all_zero, found.all_one) == (0.0, 0.5, 0.5)
