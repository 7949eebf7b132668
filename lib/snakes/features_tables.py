"""Constant tables of the "team" features (`features_team.py`).

Everything about a pair of places is one look-up in `deltas`, whose index is the difference of the two numbers
`row * 64 + column`; an entry packs the fields below. NOWHERE is so far away that it falls on entries of its own.
"""

import numpy as np

from lib.snakes.kernel_board import NOWHERE
from lib.snakes.rules import HEIGHT, MOVES, WIDTH

WIDE_NOWHERE = NOWHERE >> 5 << 6
DELTAS = 4096
DELTA_MASK = DELTAS - 1

# Fields of an entry of `deltas`, from bit 0: two bits that stay 0 (for the flags of a bean), relative cell, three bits
# that stay 0 (for the number of a bean), distance, which of the four moves lead onto the cell, and for each move, in
# two bits, 1 when the cell it leads to is at distance 1 from the cell.
RELATIVE, NUMBER, DISTANCE, UNIT, BESIDE = 2, 10, 13, 18, 22
KEY_MASK = (1 << UNIT) - 1
MISSING = HEIGHT * WIDTH
HIDDEN = MISSING + 1
# Rows of `fact_table`: 256 for relative cells, 32 for moves, 256 for lengths, 256 for the moves toward relative cells.
MOVE_FACTS, LENGTH_FACTS, TOWARD_FACTS, FACTS = 256, 288, 544, 800
MISSING_KEY = MISSING << RELATIVE | 31 << DISTANCE


def torus_delta(down: int, right: int) -> tuple[int, int]:
    """Wrapped row and column difference: -5..4 and -10..9."""
    return (down + 5) % HEIGHT - 5, (right + 10) % WIDTH - 10


def torus_distance(down: int, right: int) -> int:
    """Steps between two cells with this row and column difference, wrapping."""
    down, right = torus_delta(down, right)
    return abs(down) + abs(right)


def delta_table() -> np.ndarray:
    """int32 [DELTAS + 256]: the packed facts of a place relative to another, by the difference of their wide numbers;
    then by relative cell the bit 7 row + column of the 7 x 7 window around the origin, 63 outside."""
    table = np.full(DELTAS + 256, HIDDEN << RELATIVE | 31 << DISTANCE, np.int32)
    table[DELTAS:] = 63
    for row in range(7):
        for column in range(7):
            table[DELTAS + (row + 2) * WIDTH + column + 7] = 7 * row + column
    for down in range(1 - HEIGHT, HEIGHT):
        for right in range(1 - WIDTH, WIDTH):
            rows, columns = torus_delta(down, right)
            entry = ((rows + 5) * WIDTH + columns + 10) << RELATIVE | torus_distance(down, right) << DISTANCE
            for move, (move_down, move_right) in enumerate(MOVES):
                apart = torus_distance(rows - move_down, columns - move_right)
                entry |= (apart == 0) << (UNIT + move) | (apart == 1) << (BESIDE + 2 * move)
            table[WIDE_NOWHERE + down * 64 + right] = entry
    return table


def relative_table() -> np.ndarray:
    """float32 [HIDDEN + 1, 4]: dr / 5, dc / 10, distance / 15, 0 of a relative cell, a missing bean, an empty body."""
    table = np.zeros((HIDDEN + 1, 4))
    for row in range(HEIGHT):
        for column in range(WIDTH):
            distance = torus_distance(row - 5, column - 10)
            table[row * WIDTH + column, :3] = (row - 5) / 5, (column - 10) / 10, distance / 15
    table[MISSING, 2] = 1
    return table.astype(np.float32)


def toward_table() -> np.ndarray:
    """float32 [HIDDEN + 1, 4]: 1 for each move that leads nearer to a relative cell."""
    table = np.zeros((HIDDEN + 1, 4), np.float32)
    for row in range(HEIGHT):
        for column in range(WIDTH):
            rows, columns = row - 5, column - 10
            for move, (down, right) in enumerate(MOVES):
                nearer = torus_distance(rows - down, columns - right) < torus_distance(rows, columns)
                table[row * WIDTH + column, move] = nearer
    return table


def move_table() -> np.ndarray:
    """float32 [32, 4]: blocked, bean, free neighbours / 4, 0; by body | tail << 1 | bean << 2 | taken << 3."""
    index = np.arange(32)
    blocked = (index & 1) * (1 - 0.5 * (index >> 1 & 1))
    return np.stack([blocked, index >> 2 & 1, (3 - (index >> 3)) / 4, 0 * index], 1).astype(np.float32)


def length_table() -> np.ndarray:
    """float32 [201, 4]: length / 20, 0, 0, (length - 3) / 10."""
    length = np.arange(HEIGHT * WIDTH + 1)
    return np.stack([length / 20, 0 * length, 0 * length, (length - 3) / 10], 1).astype(np.float32)


def fact_table() -> np.ndarray:
    """float32 [FACTS, 4]: relative cells, moves, lengths and moves toward relative cells one after the other."""
    table = np.zeros((FACTS, 4), np.float32)
    parts = (
        (0, relative_table()), (MOVE_FACTS, move_table()), (LENGTH_FACTS, length_table()),
        (TOWARD_FACTS, toward_table()),
    )  # fmt: skip
    for offset, part in parts:
        table[offset : offset + len(part)] = part
    return table
