"""Shortest ways on a ground with walls in plain Python, to measure `lib/omagd/battle/paths.py` against."""

import functools
import heapq
import math
from fractions import Fraction

from lib.omagd.battle.terrain import walkable

Cell = tuple[int, int]  # x, y


class Ways:
    """Of one ground: what is asked for is worked out when it is asked for, by Dijkstra's search from the goal."""

    def __init__(self, terrain: str):
        rows = walkable(terrain)
        self.cells = {(x, y) for y, row in enumerate(rows) for x, free in enumerate(row) if free}
        self.corners = sorted((cell for cell in self.cells if self._is_corner(*cell)), key=lambda cell: cell[::-1])
        self._lines: dict[tuple[Cell, Cell], bool] = {}
        self._first: dict[tuple[Cell, Cell], Cell | None] = {}
        self._rest: dict[Cell, dict[Cell, float]] = {}

    def _is_corner(self, x: int, y: int) -> bool:
        return any(
            (x + dx, y + dy) not in self.cells and (x + dx, y) in self.cells and (x, y + dy) in self.cells
            for dx in (-1, 1)
            for dy in (-1, 1)
        )

    def free(self, a: Cell, b: Cell) -> bool:
        """Whether all 129 points of the line between the centres are on walkable cells."""
        if (a, b) not in self._lines:
            half = Fraction(1, 2)
            points = (
                tuple(
                    math.floor(one + half + Fraction(k, 128) * (other - one)) for one, other in zip(a, b, strict=True)
                )
                for k in range(129)
            )
            self._lines[a, b] = all(point in self.cells for point in points)
        return self._lines[a, b]

    def rest(self, goal: Cell) -> dict[Cell, float]:
        """How far it is from every corner to the goal."""
        if goal not in self._rest:
            found, open_ones = {}, [(math.dist(c, goal), c) for c in self.corners if self.free(c, goal)]
            heapq.heapify(open_ones)
            while open_ones:
                length, corner = heapq.heappop(open_ones)
                if corner not in found:
                    found[corner] = length
                    for other in self.corners:
                        if other not in found and self.free(other, corner):
                            heapq.heappush(open_ones, (length + math.dist(other, corner), other))
            self._rest[goal] = found
        return self._rest[goal]

    def first_corner(self, here: Cell, goal: Cell) -> Cell | None:
        """Where a shortest way bends first; None where it does not, or there is none."""
        if (here, goal) not in self._first:
            self._first[here, goal] = self._first_corner(here, goal)
        return self._first[here, goal]

    def _first_corner(self, here: Cell, goal: Cell) -> Cell | None:
        if here not in self.cells or goal not in self.cells or self.free(here, goal):
            return None
        rest = self.rest(goal)
        lengths = {
            corner: round(math.dist(here, corner) + rest[corner], 6)
            for corner in self.corners
            if corner != here and corner in rest and self.free(here, corner)
        }
        return min(lengths, key=lengths.get) if lengths else None


@functools.cache
def ways_on(terrain: str) -> Ways:
    return Ways(terrain)
