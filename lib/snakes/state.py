"""One game as plain Python data: what `SnakesVec.snapshot` returns and `SnakesVec.inject` takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from lib.errors import UserError
from lib.snakes.rules import BEANS, CELLS, SNAKES, START_LENGTH, neighbour

DOWN, RIGHT = 1, 3


@dataclass
class GameState:
    """A game between two steps; everything is copied, nothing is live.

    snakes: six lists of cells, head first (an empty list only when a respawn found no place: the game is over).
    beans: cells in list order. directions: 0..3 per snake. last_directions: directions before the last step's move,
    None at the start of a game. step: steps made. episode: games finished in this slot before this one.
    """

    snakes: list[list[int]]
    beans: list[int]
    directions: list[int]
    last_directions: list[int] | None = None
    step: int = 0
    episode: int = 0
    scores: list[int] = field(init=False)

    def __post_init__(self):
        self.scores = [len(snake) - START_LENGTH for snake in self.snakes]

    def check(self) -> None:
        """UserError when the six bodies and the beans cannot be a position of this game."""
        if len(self.snakes) != SNAKES or len(self.directions) != SNAKES:
            raise UserError(
                f"a game has {SNAKES} snakes: found {len(self.snakes)} and {len(self.directions)} directions"
            )
        if len(self.beans) > BEANS:
            raise UserError(f"{len(self.beans)} beans: expected at most {BEANS}")
        if any(direction not in range(4) for direction in [*self.directions, *(self.last_directions or [])]):
            raise UserError(f"directions {self.directions}: expected numbers 0 to 3")
        cells = [cell for snake in self.snakes for cell in snake] + list(self.beans)
        if any(cell not in range(CELLS) for cell in cells):
            raise UserError(f"a cell outside 0 to {CELLS - 1}: cells are row * 20 + column")
        if len(set(cells)) != len(cells):
            raise UserError("two segments or beans on one cell: expected a position between two steps")
        for index, snake in enumerate(self.snakes):
            _check_body(index, snake)


def _check_body(index: int, snake: list[int]) -> None:
    if 0 < len(snake) < START_LENGTH:
        raise UserError(f"snake {index} has {len(snake)} segments: expected none or at least {START_LENGTH}")
    for place, (cell, previous) in enumerate(zip(snake[1:], snake)):
        if link(cell, previous) < 0 or (link(cell, previous) > 3 and place != len(snake) - 2):
            raise UserError(f"snake {index}: segments {previous} and {cell} do not touch")


def link(cell: int, toward: int) -> int:
    """How to get from a segment to the next one toward the head: 0..3 a step in that direction, 4 or 5 two steps
    right or down (the two bodies that a respawn with free cells on opposite sides leaves), -1 when neither."""
    for action in range(4):
        if neighbour(cell, action) == toward:
            return action
    if neighbour(neighbour(cell, RIGHT), RIGHT) == toward:
        return 4
    if neighbour(neighbour(cell, DOWN), DOWN) == toward:
        return 5
    return -1
