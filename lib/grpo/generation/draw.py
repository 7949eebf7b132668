"""Seeded draws, the same in every process and every Python: only `random.Random.random` is relied on."""

import random
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """Independent draws for every list of names."""

    __slots__ = ("_random",)

    def __init__(self, *names: str | int):
        digest = blake2b("\0".join(f"{type(name).__name__}:{name}" for name in names).encode(), digest_size=8)
        self._random = random.Random(int.from_bytes(digest.digest(), "little")).random

    def below(self, count: int) -> int:
        """From 0 to count - 1."""
        return int(self._random() * count)

    def between(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items, in random order."""
        left = list(items)
        return [left.pop(int(self._random() * len(left))) for _ in range(count)]

    def weighted(self, weights: dict[Item, float]) -> Item:
        """A key, with probability in proportion to its weight."""
        place = self._random() * sum(weights.values())
        for item, weight in weights.items():
            place -= weight
            if place < 0:
                return item
        return item

    def digits(self, count: int) -> str:
        """A number of `count` digits without a leading zero, as text."""
        low = 10 ** (count - 1)
        return str(low + int(self._random() * 9 * low))
