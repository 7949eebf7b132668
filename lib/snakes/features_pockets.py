"""Pockets: how much room lies behind each move of a snake; part of the "team" features, as Warp functions.

Most moves lead into the open. That is found out in the 7 x 7 window around the head, whose cells are one number of 64
bits (bit 7 row + column); only where the window does not have room enough the whole board is searched.
"""

import warp as wp

from lib.snakes.kernel_board import DIRECTION, HEAD, LENGTH, TAIL, place_at
from lib.snakes.kernel_regions import Rows, body_rows, count_cells, region, touches
from lib.snakes.rules import HEIGHT, SNAKES, WIDTH

SPARE_CELLS = 2
SIDE = 7  # cells of a row of the window
INSIDE = (1 << 49) - 1 - (1 << 24)  # the head is not open
NOT_RIGHT = sum(1 << bit for bit in range(49) if bit % SIDE != SIDE - 1)
NOT_LEFT = sum(1 << bit for bit in range(49) if bit % SIDE != 0)
BESIDE_HEAD = 1 << 17 | 1 << 31 | 1 << 23 | 1 << 25
vec4f = wp.types.vector(length=4, dtype=wp.float32)


@wp.func
def closed_rows(words: wp.array(dtype=int), leavers: int) -> Rows:
    """The cells with a segment but for tails that are sure to leave (bit s: of snake s)."""
    rows = body_rows(words)
    for snake in range(SNAKES):
        if ((leavers >> snake) & 1) == 1 and words[LENGTH + snake] > 0:
            tail = words[TAIL + snake]
            rows[tail >> 5] = rows[tail >> 5] & ~(1 << (tail & 31))
    return rows


@wp.func
def spread(cells: wp.uint64, room: wp.uint64) -> wp.uint64:
    """The cells, and those of their neighbours that are open."""
    sideways = ((cells & wp.uint64(NOT_RIGHT)) << wp.uint64(1)) | ((cells & wp.uint64(NOT_LEFT)) >> wp.uint64(1))
    return cells | ((sideways | (cells << wp.uint64(SIDE)) | (cells >> wp.uint64(SIDE))) & room)


@wp.func
def room_near(cells: wp.uint64, room: wp.uint64, others: wp.uint64, wanted: int) -> int:
    """1 when `wanted` cells of the window, and all of `others`, are found from `cells`."""
    for _ in range(3):
        cells = spread(cells, room)
    if int(wp.bit_count(cells)) < wanted or (cells & others) != others:
        for _ in range(5):
            cells = spread(cells, room)
    return wp.where(int(wp.bit_count(cells)) >= wanted and (cells & others) == others, 1, 0)


@wp.func
def write_room(words: wp.array(dtype=int), window: wp.uint64, snake: int, numbers: wp.array(dtype=vec4f)) -> int:
    """Writes the twelve numbers of a snake as if there were room behind all open moves; 1 when there may not be.

    window: the open cells around its head, with rubbish beyond its 49 bits.
    """
    wanted = words[LENGTH + snake] + SPARE_CELLS
    room = window & wp.uint64(INSIDE)
    starts = room & wp.uint64(BESIDE_HEAD)
    ahead = wp.uint64(1) << wp.uint64(start_bit(words[DIRECTION + snake]))
    first = wp.where((starts & ahead) != wp.uint64(0), ahead, starts & (~starts + wp.uint64(1)))
    shares = vec4f()
    for m in range(4):
        shares[m] = wp.where((starts & (wp.uint64(1) << wp.uint64(start_bit(m)))) == wp.uint64(0), 1.0, 0.0)
    numbers[0] = shares
    numbers[1] = vec4f()
    numbers[2] = vec4f()
    narrow = int(0)
    # Nearly always the moves are connected and one look suffices; else each may have room of its own.
    if starts != wp.uint64(0) and room_near(first, room, starts, wanted) == 0:
        while starts != wp.uint64(0):
            first = starts & (~starts + wp.uint64(1))
            narrow = narrow | (1 - room_near(first, room, first, wanted))
            starts = starts ^ first
    return narrow


@wp.func
def write_pockets(words: wp.array(dtype=int), leavers: int, snake: int, numbers: wp.array(dtype=vec4f)):
    """Twelve numbers of a snake: missing share of each move, own tail at its pocket, any tail at it.

    leavers: bit s, the tail of snake s leaves; numbers: what `write_room` left there.
    """
    shares = numbers[0]
    own_tail = vec4f()
    any_tail = vec4f()
    closed = closed_rows(words, leavers)
    m = int(0)
    while m < 4:
        if shares[m] == 0.0:
            pocket = pocket_of(words, closed, snake, m, words[LENGTH + snake] + SPARE_CELLS)
            shares[m] = pocket[0]
            own_tail[m] = pocket[1]
            any_tail[m] = pocket[2]
        m += 1
    numbers[0] = shares
    numbers[1] = own_tail
    numbers[2] = any_tail


@wp.func
def start_bit(move: int) -> int:
    """The bit of the window that a move leads to."""
    return 24 + wp.where(move < 2, SIDE * (2 * move - 1), 2 * move - 5)


@wp.func
def pocket_of(words: wp.array(dtype=int), closed: Rows, snake: int, move: int, wanted: int) -> wp.vec3f:
    """Missing share, own tail, any tail of the region behind a move, by a search of the whole board."""
    found = wp.vec3f(0.0, 0.0, 0.0)
    cells = region(closed, moved(place_at(words, HEAD + snake), move), wanted)
    count = count_cells(cells)
    if count < wanted:
        found[0] = float(wanted - count) / float(wanted)
        found[1] = float(touches(cells, words[TAIL + snake]))
        for other in range(SNAKES):
            if words[LENGTH + other] > 0 and touches(cells, words[TAIL + other]) == 1:
                found[2] = 1.0
    return found


@wp.func
def moved(place: int, move: int) -> int:
    """The place a move leads to."""
    row = place >> 5
    column = place & 31
    if move == 0:
        row = wp.where(row == 0, HEIGHT - 1, row - 1)
    elif move == 1:
        row = wp.where(row == HEIGHT - 1, 0, row + 1)
    elif move == 2:
        column = wp.where(column == 0, WIDTH - 1, column - 1)
    else:
        column = wp.where(column == WIDTH - 1, 0, column + 1)
    return row * 32 + column
