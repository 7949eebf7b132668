"""lib.recent: what is said of updates whose numbers are not finite, asked rarely."""

import math

import pytest
import torch

from lib.errors import UserError
from lib.recent import RecentUpdates


class Alone:
    """The ranks of one process."""

    def any(self, flag):
        return flag

    def sums(self, values):
        return values

    def gather(self, rows):
        return rows


def added(bad: dict[int, list[bool]], norms: dict[int, float]) -> tuple[RecentUpdates, torch.Tensor]:
    """Five updates of three records each, and what was told of the last."""
    recent = RecentUpdates(Alone(), "lower --lr")
    for step in range(1, 6):
        finite = ~torch.tensor(bad.get(step, [False] * 3))
        told = recent.met(finite)
        recent.add(step, torch.arange(3) + 10 * step, finite, torch.tensor(norms.get(step, 1.0)))
    return recent, told


def name_of(number: int) -> str:
    return f"record-{number}"


def test_finite_numbers_are_forgotten():
    recent, told = added({}, {})
    recent.judge(bool(told), name_of, 0)
    assert not told and len(recent) == 0
    assert recent.look(True, name_of, 0) and not recent.look(False, name_of, 0)


@pytest.mark.parametrize("ask", ["judge", "look"])
def test_the_first_of_several_is_named(ask):
    """What is told with the last update knows of the second."""
    recent, told = added({2: [False, True, False], 4: [True] * 3}, {})
    assert told
    with pytest.raises(UserError, match="not finite at step 2, records record-21: nothing after step 1 was saved"):
        getattr(recent, ask)(bool(told) if ask == "judge" else False, name_of, 1)


@pytest.mark.parametrize("norm", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite(norm):
    """It is of all processes: each knows without being told."""
    recent, told = added({}, {3: norm})
    assert not told
    with pytest.raises(UserError, match="lower --lr"):
        recent.judge(bool(told), name_of, 0)
