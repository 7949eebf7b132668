"""Advantages of a step from the rewards of all its episodes, on all ranks the same."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

SCALES = ("group", "batch", "none")
# Keeps the division finite; the value that TRL uses, so that runs can be compared.
EPSILON = 1e-4


@dataclass(frozen=True)
class Advantages:
    """`values[i]` of episode i; `live[i]` is False where its group says nothing: all rewards exactly equal.

    The fractions are of groups: `zero_std` of constant ones, `all_zero` and `all_one` of those whose successes are.
    """

    values: list[float]
    live: list[bool]
    groups: int
    zero_std: float
    all_zero: float
    all_one: float


def compute_advantages(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    scale: str = "group",
    successes: Sequence[float] | None = None,
) -> Advantages:
    """A_i = r_i - mean of its group, over (std + 1e-4) of its group (`group`), of all rewards (`batch`) or 1 (`none`).

    rewards, groups: one entry for each episode of all ranks, in any order (lists, or tensors of one dimension).
    successes: what all-zero and all-one are counted on, by default the rewards. The standard deviation has n - 1 in
    its denominator, as in torch. A constant group is found by max == min, never by a float std, and gets exactly 0.
    """
    assert scale in SCALES, f"scale is one of {SCALES}, not {scale!r}"
    rewards = [float(reward) for reward in rewards]
    keys = [group.item() if hasattr(group, "item") else group for group in groups]
    outcomes = rewards if successes is None else [float(success) for success in successes]
    assert len(rewards) == len(keys) == len(outcomes), "one reward, group and success for each episode"
    members: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        members.setdefault(key, []).append(at)
    batch_std = _std(rewards)
    values, live = [0.0] * len(rewards), [False] * len(rewards)
    for chosen in members.values():
        own = [rewards[at] for at in chosen]
        if max(own) == min(own):
            continue
        mean = math.fsum(own) / len(own)
        divisor = {"group": _std(own) + EPSILON, "batch": batch_std + EPSILON, "none": 1.0}[scale]
        for at in chosen:
            values[at], live[at] = (rewards[at] - mean) / divisor, True
    fractions = [
        _fraction(members, lambda chosen: not live[chosen[0]]),
        _fraction(members, lambda chosen: all(outcomes[at] == 0 for at in chosen)),
        _fraction(members, lambda chosen: all(outcomes[at] == 1 for at in chosen)),
    ]
    return Advantages(values, live, len(members), *fractions)


def _std(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _fraction(members: dict[Hashable, list[int]], test) -> float:
    return sum(test(chosen) for chosen in members.values()) / len(members) if members else 0.0
