"""Divide work of unequal cost among processes. Pure arithmetic, so that domains may use it."""

import heapq
from collections.abc import Sequence


def split_balanced(costs: Sequence[int], parts: int) -> list[list[int]]:
    """Positions of `costs` in `parts` lists of nearly equal cost sums: the longest first, each to the lightest part.

    Deterministic; positions ascend inside a part; parts are empty when there are fewer items than parts. The largest
    sum is at most 4/3 of the best possible one (Graham 1969).
    """
    if parts < 1:
        raise ValueError(f"split_balanced: parts must be at least 1, got {parts}")
    shares: list[list[int]] = [[] for _ in range(parts)]
    loads = [(0, 0, part) for part in range(parts)]
    for position in sorted(range(len(costs)), key=lambda index: (-costs[index], index)):
        load, count, part = heapq.heappop(loads)
        shares[part].append(position)
        # The count spreads items without cost too.
        heapq.heappush(loads, (load + costs[position], count + 1, part))
    return [sorted(share) for share in shares]
