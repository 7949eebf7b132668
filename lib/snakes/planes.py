"""A game as picture planes for convolutions, seen from one snake: numpy, one game at a time."""

import numpy as np

from lib.snakes.rules import HEIGHT, MOVES, SNAKES, STEPS, TEAM, WIDTH
from lib.snakes.state import GameState

PLANES = (
    "own body",
    "mates' bodies",
    "enemies' bodies",
    "mates' heads",
    "enemies' heads",
    "tails",
    "beans",
    "ahead",
    "clock",
)
SHAPE = (HEIGHT, WIDTH, len(PLANES))


def grid_planes(state: GameState, snake: int) -> np.ndarray:
    """float32 (rows, columns, planes) of 0 and 1, turned on the torus so that the own head lies in row 5, column 10.

    The planes are those of PLANES: bodies hold every segment, "tails" the last ones of all snakes, "ahead" the cell
    that the snake looks at, "clock" steps made / 200 in every cell. All 0 for an empty body.
    """
    planes = np.zeros(SHAPE, dtype=np.float32)
    if not state.snakes[snake]:
        return planes
    row, column = divmod(state.snakes[snake][0], WIDTH)
    shift = (HEIGHT // 2 - row, WIDTH // 2 - column)

    def mark(name: str, cells: list[int]) -> None:
        for cell in cells:
            planes[(cell // WIDTH + shift[0]) % HEIGHT, (cell % WIDTH + shift[1]) % WIDTH, PLANES.index(name)] = 1.0

    for other in range(SNAKES):
        body = state.snakes[other]
        whose = "own" if other == snake else "mates'" if other // TEAM == snake // TEAM else "enemies'"
        mark("own body" if other == snake else f"{whose} bodies", body)
        mark("tails", body[-1:])
        if other != snake:
            mark(f"{whose} heads", body[:1])
    mark("beans", state.beans)
    down, right = MOVES[state.directions[snake]]
    planes[HEIGHT // 2 + down, WIDTH // 2 + right, PLANES.index("ahead")] = 1.0
    planes[:, :, PLANES.index("clock")] = state.step / STEPS
    return planes


def open_moves(state: GameState, snake: int) -> np.ndarray:
    """int8 (4,): 1 where the move leads to no body (a tail counts as free, it may leave); all 1 when none is open."""
    solid = {cell for body in state.snakes for cell in body[:-1]}
    if not state.snakes[snake]:
        return np.ones(len(MOVES), dtype=np.int8)
    row, column = divmod(state.snakes[snake][0], WIDTH)
    cells = [(row + down) % HEIGHT * WIDTH + (column + right) % WIDTH for down, right in MOVES]
    mask = np.array([cell not in solid for cell in cells], dtype=np.int8)
    return mask if mask.any() else np.ones_like(mask)
