"""Sets of cells of the board as rows of bits, and the cells that can be reached from one, as Warp functions."""

import warp as wp

from lib.snakes.kernel_board import BODY, FULL_ROW
from lib.snakes.rules import HEIGHT, WIDTH

Rows = wp.types.vector(length=HEIGHT, dtype=int)


@wp.func
def body_rows(words: wp.array(dtype=int)) -> Rows:
    """The cells with a segment."""
    rows = Rows()
    for r in range(HEIGHT):
        rows[r] = words[BODY + r]
    return rows


@wp.func
def is_open(closed: Rows, place: int) -> int:
    """1 when the bit of a place is not set."""
    return 1 - ((closed[place >> 5] >> (place & 31)) & 1)


@wp.func
def region(closed: Rows, start: int, limit: int) -> Rows:
    """Cells connected with `start` (in it too, closed or not); no longer complete once it has `limit` of them."""
    reached = Rows()
    reached[start >> 5] = 1 << (start & 31)
    before = int(0)
    count = int(1)
    while count > before and count < limit:
        before = count
        count = int(0)
        above = reached[HEIGHT - 1]
        for r in range(HEIGHT):
            row = reached[r]
            below = reached[wp.where(r == HEIGHT - 1, 0, r + 1)]
            row = row | ((above | below | beside(row)) & ~closed[r] & FULL_ROW)
            reached[r] = row
            above = row
            count += wp.bit_count(row)
    return reached


@wp.func
def beside(row: int) -> int:
    """The columns left and right of those of a row; bits above the last column are rubbish."""
    return (row << 1) | (row >> 1) | (row >> (WIDTH - 1)) | (row << (WIDTH - 1))


@wp.func
def count_cells(cells: Rows) -> int:
    """How many cells a set has."""
    count = int(0)
    for r in range(HEIGHT):
        count += wp.bit_count(cells[r])
    return count


@wp.func
def touches(cells: Rows, place: int) -> int:
    """1 when a place is in the set or beside a cell of it."""
    r = place >> 5
    row = cells[r]
    near = row | beside(row) | cells[wp.where(r == 0, HEIGHT - 1, r - 1)] | cells[wp.where(r == HEIGHT - 1, 0, r + 1)]
    return (near >> (place & 31)) & 1
