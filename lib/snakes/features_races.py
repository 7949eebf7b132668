"""Races: whether a snake can be shut in by the heads around it; part of the "team" features, as Warp functions.

A pocket (`features_pockets.py`) is closed already. Most deaths of a trained team began a little earlier: in room that
was open, but that other snakes, mates too, reached first. So the snake and all other heads spread over the board, one
cell a step, while the bodies go on and leave one cell a step. Only for snakes of some length: a short one has next to
nothing to lose.
"""

import warp as wp

from lib.snakes.features_pockets import closed_rows, vec4f
from lib.snakes.kernel_board import FULL_ROW, HEAD, LENGTH, TAIL, place_at, step_from
from lib.snakes.kernel_regions import Rows, beside, count_cells, is_open
from lib.snakes.rules import HEIGHT, SNAKES

RACE_STEPS = 12
RACE_LENGTH = 6  # shorter snakes do not race
FourRows = wp.types.vector(length=4 * HEIGHT, dtype=int)
vec6 = wp.types.vector(length=SNAKES, dtype=int)


@wp.func
def grown(cells: Rows, closed: Rows) -> Rows:
    """The cells and their neighbours that are not closed."""
    rows = Rows()
    above = cells[HEIGHT - 1]
    for r in range(HEIGHT):
        row = cells[r]
        below = cells[wp.where(r == HEIGHT - 1, 0, r + 1)]
        rows[r] = row | ((above | below | beside(row)) & ~closed[r] & FULL_ROW)
        above = row
    return rows


@wp.func
def other_heads(words: wp.array(dtype=int), snake: int) -> Rows:
    """The cells of all other heads."""
    rows = Rows()
    for other in range(SNAKES):
        if other != snake and words[LENGTH + other] > 0:
            place = place_at(words, HEAD + other)
            rows[place >> 5] = rows[place >> 5] | (1 << (place & 31))
    return rows


@wp.func
def first_cells(words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16), closed: Rows, snake: int) -> FourRows:
    """For each move the cell it leads to, nothing when that is not open."""
    cells = FourRows()
    for m in range(4):
        place = step_from(neighbours, place_at(words, HEAD + snake), m)
        cells[HEIGHT * m + (place >> 5)] = is_open(closed, place) << (place & 31)
    return cells


@wp.func
def cells_of(cells: FourRows, move: int) -> Rows:
    """The cells of one of the four moves."""
    rows = Rows()
    for r in range(HEIGHT):
        rows[r] = cells[HEIGHT * move + r]
    return rows


@wp.func
def write_races(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    leavers: int,
    snake: int,
    numbers: wp.array(dtype=vec4f),
):
    """Four numbers of a snake, how soon it may be shut in after each move: 1 when its cell is not open, 0 never.

    leavers: bit s, the tail of snake s leaves with the first step.
    """
    closed = closed_rows(words, leavers)
    others = grown(other_heads(words, snake), closed)
    cells = first_cells(words, neighbours, closed, snake)
    lasts = vec6()  # of each body the segment that leaves next
    lengths = vec6()  # and how many are left
    for other in range(SNAKES):
        lasts[other] = place_at(words, TAIL + other)
        lengths[other] = words[LENGTH + other]
        if ((leavers >> other) & 1) == 1 and lengths[other] > 0:
            lasts[other] = step_from(neighbours, lasts[other], int(codes[lasts[other]]) & 7)
            lengths[other] = lengths[other] - 1
    shares = vec4f()
    racing = int(15)
    step = int(0)
    while racing != 0 and step < RACE_STEPS:
        step += 1
        taken = Rows()
        if step > 1:
            for other in range(SNAKES):
                if lengths[other] > 1:
                    last = lasts[other]
                    closed[last >> 5] = closed[last >> 5] & ~(1 << (last & 31))
                    lasts[other] = step_from(neighbours, last, int(codes[last]) & 7)
                    lengths[other] = lengths[other] - 1
            others = grown(others, closed)
            for r in range(HEIGHT):
                taken[r] = closed[r] | others[r]
        for m in range(4):
            if ((racing >> m) & 1) == 1:
                own = cells_of(cells, m)
                if step > 1:
                    own = grown(own, taken)
                    for r in range(HEIGHT):
                        cells[HEIGHT * m + r] = own[r]
                count = count_cells(own)
                if count < step:
                    shares[m] = float(RACE_STEPS + 1 - step) / float(RACE_STEPS)
                # With as many cells as there are steps the race is won; nearly always that is so after four.
                if count < step or count >= RACE_STEPS:
                    racing = racing & ~(1 << m)
    numbers[0] = shares
