"""The "jidi26" features: the 26 unscaled numbers of the original game's trainer, for either side, as Warp functions.

0-1    own head: row, column
2-5    ids of the cells up, down, left, right of the head: 0 free, 1 bean, 2-7 snake
6-15   five beans (row, column) in list order; 0, 0 for a missing one
16-25  heads of the other five snakes (row, column) in id order; 0, 0 for an empty body

Seen from the right side the ids 2-4 and 5-7 change places first, so a team always plays as 2-4 and the heads follow in
the changed order. An empty body has 26 zeros. (The original did not change ids on the right side.)
"""

import warp as wp

from lib.snakes.kernel_board import BEAN, BEAN_COUNT, HEAD, LENGTH, NOWHERE, on_bean, on_body, step_from
from lib.snakes.rules import BEANS, FEATURES, SNAKES, TEAM

COUNT = FEATURES["jidi26"]


@wp.func
def owner(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    place: int,
) -> int:
    """The snake whose segment lies on a place that holds one."""
    found = int(codes[place]) >> 3
    for snake in range(SNAKES):
        if words[HEAD + snake] == place:
            found = snake
    return found


@wp.func
def write_place(row: wp.array(dtype=float), offset: int, place: int):
    """Row and column of a place; 0, 0 for NOWHERE."""
    if place == NOWHERE:
        row[offset] = 0.0
        row[offset + 1] = 0.0
    else:
        row[offset] = float(place >> 5)
        row[offset + 1] = float(place & 31)


@wp.func
def write_jidi_snake(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    team: int,
    own: int,
    row: wp.array(dtype=float),
):
    """One row of 26 numbers: snake `own` (0..2) of a team."""
    head = words[HEAD + TEAM * team + own]
    write_place(row, 0, head)
    for move in range(4):
        place = step_from(neighbours, head, move)
        identity = on_bean(words, place)
        if on_body(words, place) != 0:
            identity = 2 + (owner(words, codes, place) + TEAM * team) % SNAKES
        row[2 + move] = float(identity)
    for j in range(BEANS):
        place = int(NOWHERE)
        if j < words[BEAN_COUNT]:
            place = words[BEAN + j]
        write_place(row, 6 + 2 * j, place)
    offset = int(16)
    for other in range(SNAKES):
        if other != own:
            write_place(row, offset, words[HEAD + (other + TEAM * team) % SNAKES])
            offset += 2


@wp.func
def write_jidi(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    team: int,
    out: wp.array(dtype=float),
):
    """The three rows of a team, [3 * 26] numbers."""
    for own in range(TEAM):
        row = wp.array(ptr=out.ptr + wp.uint64(4 * COUNT * own), shape=(COUNT,), dtype=float)
        if words[LENGTH + TEAM * team + own] == 0:
            for k in range(COUNT):
                row[k] = 0.0
        else:
            write_jidi_snake(words, codes, neighbours, team, own, row)
