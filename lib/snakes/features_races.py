"""Races: whether a snake can be shut in by the heads around it; part of the "team" features, as Warp functions.

A pocket (`features_pockets.py`) is closed already. Most deaths of a trained team began a little earlier: in room that
was open, but that other snakes, mates too, reach first. So the snake and all other heads spread over the board, one
cell a step. Only for snakes of some length: a short one has next to nothing to lose.
"""

# ruff: noqa: RUF046, UP018 (in a Warp function `int(...)` makes a local that a loop may change)
import warp as wp

from lib.snakes.features_pockets import closed_rows, moved, vec4f
from lib.snakes.kernel_board import FULL_ROW, HEAD, LENGTH, place_at
from lib.snakes.kernel_regions import Rows, beside, count_cells, is_open
from lib.snakes.rules import HEIGHT, SNAKES

RACE_STEPS = 8
RACE_LENGTH = 6  # shorter snakes do not race


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
def race(closed: Rows, others: Rows, start: int) -> float:
    """How soon a snake that goes to `start` may be shut in: 0 never, 1 at once; `others`: what they reach by then."""
    own = Rows()
    own[start >> 5] = 1 << (start & 31)
    cells = int(1)
    step = int(1)
    # With so many cells as there are steps the race is won; nearly always that is so after three.
    while cells >= step and cells < RACE_STEPS and step < RACE_STEPS:
        step += 1
        others = grown(others, closed)
        taken = Rows()
        for r in range(HEIGHT):
            taken[r] = closed[r] | others[r]
        own = grown(own, taken)
        cells = count_cells(own)
    return wp.where(cells < step, float(RACE_STEPS + 1 - step) / float(RACE_STEPS), 0.0)


@wp.func
def write_races(words: wp.array(dtype=int), leavers: int, snake: int, numbers: wp.array(dtype=vec4f)):
    """Four numbers of a snake; leavers: bit s, the tail of snake s leaves."""
    closed = closed_rows(words, leavers)
    heads = Rows()
    for other in range(SNAKES):
        if other != snake and words[LENGTH + other] > 0:
            place = place_at(words, HEAD + other)
            heads[place >> 5] = heads[place >> 5] | (1 << (place & 31))
    others = grown(heads, closed)
    shares = vec4f()
    m = int(0)
    while m < 4:
        start = moved(place_at(words, HEAD + snake), m)
        if is_open(closed, start) == 1:
            shares[m] = race(closed, others, start)
        else:
            shares[m] = 1.0
        m += 1
    numbers[0] = shares
