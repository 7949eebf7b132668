"""One game in memory, as Warp functions see it, and the moves on it that are not rules: bits, beans, table look-ups.

Inside the kernels a *place* stands for a cell: `row * 32 + column`, so that row and column are a shift and a mask.
A game is one row of two arrays, given to the functions as one-dimensional arrays of fixed shape:

words, int32 [64]
    BODY + r       bit c: a segment lies on (r, c)         BEAN_ROW + r   bit c: a bean lies on (r, c)
    HEAD + s, TAIL + s, LENGTH + s, DIRECTION + s, LAST + s    snake s = 0..5: places of head and last segment, length,
                                                            direction 0..3, direction before the last step (-1: none)
    BEAN + j       place of the j-th bean, j < words[BEAN_COUNT], in list order
    KEY_A, KEY_B   key words of the random numbers        STEP  steps made        EPISODE  games finished in this slot
    OVER           1: the game has ended and waits for `reset` (only without autoreset)
codes, uint8 [320], by place
    where a segment lies: (snake << 3) | how to get to the next segment toward the head: 0..3 a step in that direction,
    4 two steps right, 5 two steps down (bodies that a respawn left broken). Meaningless at heads and elsewhere.
neighbours, int16 [2560]
    neighbours[place * 8 + code], code 0..5 as in codes: the place reached, wrapping

An empty body (a respawn that found no place) has LENGTH 0 and HEAD = TAIL = NOWHERE.
"""

import numpy as np
import warp as wp

from lib.snakes.rules import BEANS, HEIGHT, MOVES, SNAKES, WIDTH
from lib.warp_noise import bounded, draw

WORDS = 64
PLACES = HEIGHT * 32
NOWHERE = 19 * 32
PLACE_MASK = 1023
"""No place has other bits. Masked, an index is known to be positive (Warp counts negative ones from the end)."""

BODY = 0
BEAN_ROW = 10
HEAD = 20
TAIL = 26
LENGTH = 32
DIRECTION = 38
LAST = 44
BEAN = 50
BEAN_COUNT = 55
KEY_A = 56
KEY_B = 57
STEP = 58
EPISODE = 59
OVER = 60

FULL_ROW = (1 << WIDTH) - 1


def place_of(cell: int) -> int:
    """The place of a cell."""
    return cell // WIDTH * 32 + cell % WIDTH


def cell_of(place: int) -> int:
    """The cell of a place."""
    return (place >> 5) * WIDTH + (place & 31)


def neighbour_table() -> np.ndarray:
    """int16 [PLACES * 8]: see the module docstring."""
    table = np.zeros((PLACES, 8), np.int16)
    jumps = (*MOVES, (0, 2), (2, 0))
    for row in range(HEIGHT):
        for column in range(WIDTH):
            for code, (down, right) in enumerate(jumps):
                table[row * 32 + column, code] = (row + down) % HEIGHT * 32 + (column + right) % WIDTH
    return table.reshape(-1)


@wp.func
def step_from(neighbours: wp.array(dtype=wp.int16), place: int, code: int) -> int:
    """The place reached from `place` by a direction or a code."""
    return int(neighbours[(place << 3) + code]) & PLACE_MASK


@wp.func
def place_at(words: wp.array(dtype=int), index: int) -> int:
    """The place that words[index] holds: a head, a tail or a bean."""
    return words[index] & PLACE_MASK


@wp.func
def on_body(words: wp.array(dtype=int), place: int) -> int:
    """1 when a segment lies on the place, else 0."""
    return (words[BODY + ((place >> 5) & 31)] >> (place & 31)) & 1


@wp.func
def on_bean(words: wp.array(dtype=int), place: int) -> int:
    """1 when a bean lies on the place, else 0."""
    return (words[BEAN_ROW + ((place >> 5) & 31)] >> (place & 31)) & 1


@wp.func
def set_bit(words: wp.array(dtype=int), plane: int, place: int):
    """Sets the bit of a place in the rows that begin at `plane`."""
    index = plane + ((place >> 5) & 31)
    words[index] = words[index] | (1 << (place & 31))


@wp.func
def clear_bit(words: wp.array(dtype=int), plane: int, place: int):
    """Clears the bit of a place in the rows that begin at `plane`."""
    index = plane + ((place >> 5) & 31)
    words[index] = words[index] & ~(1 << (place & 31))


@wp.func
def free_row(words: wp.array(dtype=int), row: int) -> int:
    """The columns of a row, as bits, without segment and without bean."""
    return ~(words[BODY + row] | words[BEAN_ROW + row]) & FULL_ROW


@wp.func
def lowest_bit(bits: int) -> int:
    """Index of the lowest set bit; bits is not 0."""
    return wp.bit_count((bits & (-bits)) - 1)


@wp.func
def sort_five(a: int, b: int, c: int, d: int, e: int):
    """Five numbers in ascending order, by a network of nine comparisons."""
    a1 = wp.min(a, b)
    b1 = wp.max(a, b)
    d1 = wp.min(d, e)
    e1 = wp.max(d, e)
    c2 = wp.min(c, e1)
    e2 = wp.max(c, e1)
    c3 = wp.min(c2, d1)
    d3 = wp.max(c2, d1)
    b4 = wp.min(b1, e2)
    e4 = wp.max(b1, e2)
    a5 = wp.min(a1, d3)
    d5 = wp.max(a1, d3)
    a6 = wp.min(a5, c3)
    c6 = wp.max(a5, c3)
    b7 = wp.min(b4, d5)
    d7 = wp.max(b4, d5)
    return a6, wp.min(b7, c6), wp.max(b7, c6), d7, e4


@wp.func
def place_bean(words: wp.array(dtype=int), random: wp.uint32, free: int):
    """Appends a bean on the bounded(random, free)-th of the `free` free cells in scan order."""
    left = bounded(random, free)
    row = int(0)
    bits = free_row(words, 0)
    count = wp.bit_count(bits)
    while left >= count:
        left -= count
        row += 1
        bits = free_row(words, row)
        count = wp.bit_count(bits)
    for _ in range(left):
        bits = bits & (bits - 1)
    place = (row << 5) + lowest_bit(bits)
    set_bit(words, BEAN_ROW, place)
    beans = words[BEAN_COUNT]
    words[BEAN + beans] = place
    words[BEAN_COUNT] = beans + 1


@wp.func
def take_bean(words: wp.array(dtype=int), place: int):
    """Removes the bean on a place; the later ones of the list move up."""
    clear_bit(words, BEAN_ROW, place)
    beans = words[BEAN_COUNT] - 1
    words[BEAN_COUNT] = beans
    found = int(0)
    for j in range(beans):
        if words[BEAN + j] == place:
            found = 1
        words[BEAN + j] = words[BEAN + j + found]


@wp.func
def total_length(words: wp.array(dtype=int)) -> int:
    """Segments of all six snakes."""
    total = int(0)
    for snake in range(SNAKES):
        total += words[LENGTH + snake]
    return total


@wp.func
def place_beans(words: wp.array(dtype=int), a: wp.uint32, b: wp.uint32, stream: int, step: int, first: int):
    """Beans up to BEANS, or as many as there are free cells; the first draw has the counter `first`."""
    wanted = BEANS - words[BEAN_COUNT]
    free = HEIGHT * WIDTH - total_length(words) - words[BEAN_COUNT]
    for j in range(wp.min(wanted, free)):
        place_bean(words, draw(a, b, stream, step, first + j), free - j)
