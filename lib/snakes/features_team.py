"""The "team" features: 140 float32 per snake, relative to the snake and its team, as Warp functions.

Seen from snake s of team t. The others are the two mates, then the three enemies, each in ascending order. Torus delta
of a cell x from the own head h: dr = ((x.row - h.row + 5) mod 10) - 5 in -5..4, dc = ((x.col - h.col + 10) mod 20) - 10
in -10..9; torus distance = min(|row difference|, 10 - |..|) + min(|column difference|, 20 - |..|).

0-3    own direction one-hot (up, down, left, right)
4      own length / 20
5      step / 200 (steps made in this game)
6      (sum of lengths of the own team - sum of lengths of the enemy team) / 20
7      (own length - 3) / 10
8-27   for each move m = up, down, left, right the cell c it leads to, five numbers (8 + 5 m + k): k = 0: 1 if c holds
       a segment that is not a tail, 0.5 if it holds a tail (last segment), else 0; k = 1: 1 if a bean lies on c;
       k = 2: number of the four neighbours of c without segment / 4; k = 3, 4: number of enemies' heads and of mates'
       heads at torus distance 1 from c
28-52  beans sorted by torus distance from the own head, ties in list order, five numbers each (28 + 5 j + k): dr / 5,
       dc / 10, distance / 15, 1 if a mate's head is strictly nearer to it, 1 if an enemy's head is nearer or as near;
       0, 0, 1, 0, 0 for each bean that is missing
53-67  others, three numbers each (53 + 3 j + k): dr / 5, dc / 10 of its head, its length / 20
68-115 the cells around the own head, rows -3 to 3, in each the columns -3 to 3, without the centre: 1 if the cell holds
       a segment, else 0
116-123 the snake's target, one of the beans: for each move 1 if it leads nearer to it; dr / 5, dc / 10, distance / 15;
       1 if an enemy's head is nearer or as near; 0, 0, 0, 0, 0, 0, 1, 0 when there are too few beans. The targets of a
       team are the three different beans with the least sum of distances, where one that an enemy's head is nearer to
       counts 8 more, one equally near 4 more; of equal sums the first in list order for the first snake, then the
       second, then the third
124-127 for each move the share missing in the pocket behind it: wanted are own length + 2 cells, found are those
       connected with c over open cells, c counted; open are cells without segment and tails of snakes with no bean
       beside their heads; 0 when enough are found, 1 when c itself is not open
128-131 for each move, when a share between 0 and 1 is missing: 1 if the own tail is in the pocket or beside it
132-135 the same for the tails of all snakes
136-139 for each move of a snake of 6 cells or more how soon it may be shut in: (13 - t) / 12 for the first step t from
       1 to 12 at which it has less than t cells, 0 when there is none. At step 1 it has c, if that is open, and the
       other heads have the open cells (as for pockets) beside them. At each later step the last segment of each body,
       unless it is the head, leaves its cell open, then the others spread to the open cells beside theirs, then the
       snake to those beside its own that no other has

An empty body (only after the end of a game, see the rules) counts as length 0 with head delta 0, 0; its own features
are all 0; it is 31 cells away from every bean.

The look-ups are explained in `features_tables.py`.
"""

import warp as wp

from lib.snakes.features_pockets import vec4f, write_pockets, write_room
from lib.snakes.features_races import RACE_LENGTH, write_races
from lib.snakes.features_tables import (
    BESIDE,
    DELTA_MASK,
    DELTAS,
    DISTANCE,
    KEY_MASK,
    LENGTH_FACTS,
    MISSING,
    MISSING_KEY,
    MOVE_FACTS,
    NUMBER,
    RELATIVE,
    TOWARD_FACTS,
    UNIT,
    WIDE_NOWHERE,
)
from lib.snakes.kernel_board import BEAN, BEAN_COUNT, DIRECTION, HEAD, LENGTH, STEP, TAIL, place_at, sort_five
from lib.snakes.kernel_regions import Rows, body_rows
from lib.snakes.rules import FEATURES, HEIGHT, SNAKES, TEAM, WIDTH

COUNT = FEATURES["team"]
WINDOW = 48  # cells around the head, without the centre
TARGET, POCKETS, RACES = 116, 124, 136  # where these numbers begin
COSTS, ONTO = 24, 48  # words of `bean_facts`
NEARER, AS_NEAR, NO_BEAN = 8, 4, 100  # what a bean costs more than its distance
vec16 = wp.types.vector(length=16, dtype=int)
vec49 = wp.types.vector(length=49, dtype=int)


@wp.func
def wide(place: int) -> int:
    """row * 64 + column."""
    return place + (place & ~31)


@wp.func
def at_offset(row: wp.array(dtype=float), offset: int) -> wp.array(dtype=vec4f):
    """A row from `offset` on as values of four numbers, so that four are written at once."""
    return wp.array(ptr=row.ptr + wp.uint64(4 * offset), shape=(4,), dtype=vec4f)


@wp.func
def origin_of(words: wp.array(dtype=int), index: int) -> int:
    """What the head words[index] adds to the wide number of a place to give the index of `deltas`."""
    return WIDE_NOWHERE - wide(place_at(words, index))


@wp.func
def delta(deltas: wp.array(dtype=int), origin: int, place: int) -> int:
    """The entry of a place relative to the head of `origin`."""
    return deltas[(origin + place) & DELTA_MASK]


@wp.func
def window_bit(deltas: wp.array(dtype=int), entry: int) -> int:
    """The bit of the window that the cell of an entry has; 63 outside."""
    return deltas[DELTAS + ((entry >> RELATIVE) & 255)]


@wp.func
def bean_facts(words: wp.array(dtype=int), deltas: wp.array(dtype=int), team: int):
    """What the beans are to the three snakes of a team; eight words each, of which five are beans.

    Words 0 to 23 are sort keys: the entry of `deltas` with the bean's number and, in the lowest bits, 2 if a mate's
    head is nearer and 1 if an enemy's head is nearer or as near. Words COSTS to COSTS + 23 are what the bean costs as a
    target. Word ONTO has four bits a snake, own team first: the moves onto a bean. (Eight turns, not five, and no
    branches: that fills a vector.)
    """
    found = vec49()
    onto = int(0)
    own = TEAM * (team & 1)
    enemy = own ^ TEAM
    h0 = origin_of(words, HEAD + own)
    h1 = origin_of(words, HEAD + own + 1)
    h2 = origin_of(words, HEAD + own + 2)
    g0 = origin_of(words, HEAD + enemy)
    g1 = origin_of(words, HEAD + enemy + 1)
    g2 = origin_of(words, HEAD + enemy + 2)
    beans = words[BEAN_COUNT]
    for j in range(8):
        bean = wide(place_at(words, BEAN + j))
        e0 = delta(deltas, h0, bean)
        e1 = delta(deltas, h1, bean)
        e2 = delta(deltas, h2, bean)
        i0 = delta(deltas, g0, bean)
        i1 = delta(deltas, g1, bean)
        i2 = delta(deltas, g2, bean)
        d0 = (e0 >> DISTANCE) & 31
        d1 = (e1 >> DISTANCE) & 31
        d2 = (e2 >> DISTANCE) & 31
        f0 = (i0 >> DISTANCE) & 31
        f1 = (i1 >> DISTANCE) & 31
        f2 = (i2 >> DISTANCE) & 31
        nearest = wp.min(f0, wp.min(f1, f2))
        around = ((e0 >> UNIT) & 15) | (((e1 >> UNIT) & 15) << 4) | (((e2 >> UNIT) & 15) << 8)
        around = around | (((i0 >> UNIT) & 15) << 12) | (((i1 >> UNIT) & 15) << 16) | (((i2 >> UNIT) & 15) << 20)
        onto = onto | wp.where(j < beans, around, 0)
        number = j << NUMBER
        k0 = (e0 & KEY_MASK) + number + bean_flags(d0, wp.min(d1, d2), nearest)
        k1 = (e1 & KEY_MASK) + number + bean_flags(d1, wp.min(d0, d2), nearest)
        k2 = (e2 & KEY_MASK) + number + bean_flags(d2, wp.min(d0, d1), nearest)
        found[j] = wp.where(j < beans, k0, MISSING_KEY)
        found[8 + j] = wp.where(j < beans, k1, MISSING_KEY)
        found[16 + j] = wp.where(j < beans, k2, MISSING_KEY)
        found[COSTS + j] = wp.where(j < beans, bean_cost(d0, nearest), NO_BEAN)
        found[COSTS + 8 + j] = wp.where(j < beans, bean_cost(d1, nearest), NO_BEAN)
        found[COSTS + 16 + j] = wp.where(j < beans, bean_cost(d2, nearest), NO_BEAN)
    found[ONTO] = onto
    return found


@wp.func
def sure_to_leave(onto: int, own: int) -> int:
    """Bit s: the tail of snake s leaves its cell with the next step, as its head has no bean beside it."""
    stays = (onto | (onto >> 1) | (onto >> 2) | (onto >> 3)) & 0x111111
    gone = stays ^ 0x111111
    bits = (gone & 1) | ((gone >> 3) & 2) | ((gone >> 6) & 4) | ((gone >> 9) & 8) | ((gone >> 12) & 16)
    bits = bits | ((gone >> 15) & 32)
    return wp.where(own == 0, bits, ((bits >> TEAM) | (bits << TEAM)) & 63)


@wp.func
def bean_cost(own: int, enemies: int) -> int:
    """The distance, and more when an enemy is nearer or as near."""
    return own + wp.where(enemies < own, NEARER, 0) + wp.where(enemies == own, AS_NEAR, 0)


@wp.func
def share_beans(found: vec49) -> int:
    """The numbers of the targets of the three snakes, three bits each, the first snake's highest.

    Sums are compared with these numbers in their lowest bits, so that of equal ones the first in order wins.
    """
    c0 = found[COSTS + 16] << 9
    c1 = (found[COSTS + 17] << 9) + 1
    c2 = (found[COSTS + 18] << 9) + 2
    c3 = (found[COSTS + 19] << 9) + 3
    c4 = (found[COSTS + 20] << 9) + 4
    c34 = wp.min(c3, c4)
    c24 = wp.min(c2, c4)
    c23 = wp.min(c2, c3)
    c01 = wp.min(c0, c1)
    # For each two beans of the first two snakes the least for the third.
    best = wp.min(
        wp.min(
            wp.min(pair_cost(found, 0, 1) + wp.min(c2, c34), pair_cost(found, 0, 2) + wp.min(c1, c34)),
            wp.min(pair_cost(found, 0, 3) + wp.min(c1, c24), pair_cost(found, 0, 4) + wp.min(c1, c23)),
        ),
        wp.min(
            wp.min(pair_cost(found, 1, 2) + wp.min(c0, c34), pair_cost(found, 1, 3) + wp.min(c0, c24)),
            wp.min(pair_cost(found, 1, 4) + wp.min(c0, c23), pair_cost(found, 2, 3) + wp.min(c01, c4)),
        ),
    )
    last = wp.min(pair_cost(found, 2, 4) + wp.min(c01, c3), pair_cost(found, 3, 4) + wp.min(c01, c2))
    return wp.min(best, last) & 511


@wp.func
def pair_cost(found: vec49, i: int, j: int) -> int:
    """The least for the first two snakes with beans i < j."""
    straight = ((found[COSTS + i] + found[COSTS + 8 + j]) << 9) + (i << 6) + (j << 3)
    crossed = ((found[COSTS + j] + found[COSTS + 8 + i]) << 9) + (j << 6) + (i << 3)
    return wp.min(straight, crossed)


@wp.func
def bean_flags(own: int, mates: int, enemies: int) -> int:
    """2 if a mate is nearer, 1 if an enemy is nearer or as near."""
    return wp.where(mates < own, 2, 0) + wp.where(enemies <= own, 1, 0)


@wp.func
def write_bean(row: wp.array(dtype=float), offset: int, key: int, facts: wp.array(dtype=vec4f)):
    """The five numbers of a bean."""
    bean = facts[(key >> RELATIVE) & 255]
    bean[3] = float((key >> 1) & 1)
    target = at_offset(row, offset)
    target[0] = bean
    row[offset + 4] = float(key & 1)


@wp.func
def write_beans(row: wp.array(dtype=float), keys: vec49, first: int, facts: wp.array(dtype=vec4f)):
    """Sorts five keys and writes the beans."""
    a, b, c, d, e = sort_five(keys[first], keys[first + 1], keys[first + 2], keys[first + 3], keys[first + 4])
    write_bean(row, 28, a, facts)
    write_bean(row, 33, b, facts)
    write_bean(row, 38, c, facts)
    write_bean(row, 43, d, facts)
    write_bean(row, 48, e, facts)


@wp.func
def padded_rows(cells: Rows) -> vec16:
    """Bits of rows -3 to 12, wrapping; bit q is column q - 3, from -3 to 22 (bits above are rubbish)."""
    rows = vec16()
    for row in range(HEIGHT):
        bits = cells[row]
        rows[row + 3] = (bits << 3) | (bits >> (WIDTH - 3)) | (bits << (WIDTH + 3))
    for row in range(3):
        rows[row] = rows[HEIGHT + row]
        rows[HEIGHT + 3 + row] = rows[row + 3]
    return rows


@wp.func
def write_move(
    row: wp.array(dtype=float),
    move: int,
    body: int,
    taken: int,
    tails: int,
    onto: int,
    beside_enemies: int,
    beside_mates: int,
    facts: wp.array(dtype=vec4f),
):
    """The five numbers of a move: body bit of its cell, taken ones of its neighbours, bits and counts of all moves."""
    index = body | (((tails >> move) & 1) << 1) | (((onto >> move) & 1) << 2) | (taken << 3)
    cell = facts[MOVE_FACTS + (index & 31)]
    cell[3] = float((beside_enemies >> (2 * move)) & 3)
    target = at_offset(row, 8 + 5 * move)
    target[0] = cell
    row[12 + 5 * move] = float((beside_mates >> (2 * move)) & 3)


@wp.func
def write_moves(
    row: wp.array(dtype=float),
    rows: vec16,
    head: int,
    tails: int,
    onto: int,
    beside_enemies: int,
    beside_mates: int,
    facts: wp.array(dtype=vec4f),
):
    """The four moves. The own head is a taken neighbour of each of the four cells and is not counted in `taken`."""
    line = head >> 5
    column = head & 31
    w0 = (rows[line + 1] >> (column + 3)) & 1
    w1 = (rows[line + 2] >> (column + 2)) & 7
    w2 = (rows[line + 3] >> (column + 1)) & 31
    w3 = (rows[line + 4] >> (column + 2)) & 7
    w4 = (rows[line + 5] >> (column + 3)) & 1
    up_left = w1 & 1
    up_right = w1 >> 2
    down_left = w3 & 1
    down_right = w3 >> 2
    write_move(row, 0, (w1 >> 1) & 1, w0 + up_left + up_right, tails, onto, beside_enemies, beside_mates, facts)
    write_move(row, 1, (w3 >> 1) & 1, w4 + down_left + down_right, tails, onto, beside_enemies, beside_mates, facts)
    left = (w2 & 1) + up_left + down_left
    write_move(row, 2, (w2 >> 1) & 1, left, tails, onto, beside_enemies, beside_mates, facts)
    right = (w2 >> 4) + up_right + down_right
    write_move(row, 3, (w2 >> 3) & 1, right, tails, onto, beside_enemies, beside_mates, facts)


@wp.func
def write_other(row: wp.array(dtype=float), offset: int, entry: int, length: int, facts: wp.array(dtype=vec4f)):
    """The three numbers of another snake."""
    place = facts[(entry >> RELATIVE) & 255]
    size = facts[LENGTH_FACTS + (length & 255)]
    row[offset] = place[0]
    row[offset + 1] = place[1]
    row[offset + 2] = size[0]


@wp.func
def write_snake(
    words: wp.array(dtype=int),
    deltas: wp.array(dtype=int),
    facts: wp.array(dtype=vec4f),
    rows: vec16,
    leavers: int,
    found: vec49,
    targets: int,
    team: int,
    own: int,
    clock: float,
    lead: float,
    row: wp.array(dtype=float),
):
    """One row of 140 numbers: snake `own` (0..2) of a team. 1 when `write_pockets` is to look at it again."""
    base = TEAM * (team & 1)
    snake = base + own
    head = place_at(words, HEAD + snake)
    origin = WIDE_NOWHERE - wide(head)
    direction = words[DIRECTION + snake]
    for k in range(4):
        row[k] = float(wp.where(direction == k, 1, 0))
    size = facts[LENGTH_FACTS + (words[LENGTH + snake] & 255)]
    size[1] = clock
    size[2] = lead
    target = at_offset(row, 4)
    target[0] = size
    mate = base + wp.where(own == 0, 1, 0)
    other_mate = base + wp.where(own == 2, 1, 2)
    enemy = base ^ TEAM
    m0 = delta(deltas, origin, wide(place_at(words, HEAD + mate)))
    m1 = delta(deltas, origin, wide(place_at(words, HEAD + other_mate)))
    write_other(row, 53, m0, words[LENGTH + mate], facts)
    write_other(row, 56, m1, words[LENGTH + other_mate], facts)
    beside_enemies = int(0)
    for j in range(TEAM):
        entry = delta(deltas, origin, wide(place_at(words, HEAD + enemy + j)))
        beside_enemies += (entry >> BESIDE) & 255
        write_other(row, 59 + 3 * j, entry, words[LENGTH + enemy + j], facts)
    tails = int(0)
    leaving = wp.uint64(0)
    for j in range(SNAKES):
        entry = delta(deltas, origin, wide(place_at(words, TAIL + j)))
        tails = tails | ((entry >> UNIT) & 15)
        leaving = leaving | (wp.uint64((leavers >> j) & 1) << wp.uint64(window_bit(deltas, entry)))
    beside_mates = ((m0 >> BESIDE) & 255) + ((m1 >> BESIDE) & 255)
    onto = found[ONTO] >> (4 * own)
    write_moves(row, rows, head, tails, onto, beside_enemies, beside_mates, facts)
    write_beans(row, found, 8 * own, facts)
    window = write_window(row, rows, head)
    write_target(words, deltas, facts, row, origin, found, own, (targets >> (3 * (TEAM - 1 - own))) & 7)
    races = at_offset(row, RACES)
    races[0] = vec4f()
    return write_room(words, ~window | leaving, snake, at_offset(row, POCKETS))


@wp.func
def write_target(
    words: wp.array(dtype=int),
    deltas: wp.array(dtype=int),
    facts: wp.array(dtype=vec4f),
    row: wp.array(dtype=float),
    origin: int,
    found: vec49,
    own: int,
    bean: int,
):
    """The eight numbers of the target of snake `own` (0..2): the bean of this number."""
    entry = delta(deltas, origin, wide(place_at(words, BEAN + bean)))
    cost = found[COSTS + 8 * own + bean]
    there = bean < words[BEAN_COUNT]
    relative = wp.where(there, (entry >> RELATIVE) & 255, MISSING)
    place = facts[relative]
    place[3] = wp.where(there and cost > ((entry >> DISTANCE) & 31), 1.0, 0.0)
    target = at_offset(row, TARGET)
    target[0] = facts[TOWARD_FACTS + relative]
    target[1] = place


@wp.func
def write_window(row: wp.array(dtype=float), rows: vec16, head: int) -> wp.uint64:
    """The 48 cells around the head, numbers four at a time; returns them as bits 7 row + column, the centre 0."""
    line = head >> 5
    column = head & 31
    upper = int(0)
    for k in range(3):
        upper = upper | (((rows[line + k] >> column) & 127) << (7 * k))
    centre = (rows[line + 3] >> column) & 127
    upper = upper | ((centre & 7) << 21)
    lower = centre >> 4
    for k in range(3):
        lower = lower | (((rows[line + 4 + k] >> column) & 127) << (3 + 7 * k))
    for k in range(WINDOW // 8):
        target = at_offset(row, 68 + 4 * k)
        target[0] = four_bits(upper >> (4 * k))
        other = at_offset(row, 68 + WINDOW // 2 + 4 * k)
        other[0] = four_bits(lower >> (4 * k))
    return wp.uint64(upper) | (wp.uint64(lower) << wp.uint64(25))


@wp.func
def four_bits(bits: int) -> vec4f:
    """The four lowest bits as numbers."""
    return vec4f(float(bits & 1), float((bits >> 1) & 1), float((bits >> 2) & 1), float((bits >> 3) & 1))


@wp.func
def write_team(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    deltas: wp.array(dtype=int),
    facts: wp.array(dtype=vec4f),
    team: int,
    out: wp.array(dtype=float),
):
    """The three rows of a team, [3 * 140] numbers."""
    base = TEAM * (team & 1)
    found = bean_facts(words, deltas, team)
    targets = share_beans(found)
    rows = padded_rows(body_rows(words))
    leavers = sure_to_leave(found[ONTO], base)
    lead = int(0)
    for k in range(TEAM):
        lead += words[LENGTH + base + k] - words[LENGTH + (base ^ TEAM) + k]
    clock = float(words[STEP]) / 200.0
    narrow = int(0)
    racing = int(0)
    for own in range(TEAM):
        row = row_of(out, own)
        if words[LENGTH + base + own] == 0:
            for k in range(COUNT):
                row[k] = 0.0
        else:
            doubt = write_snake(
                words, deltas, facts, rows, leavers, found, targets, team, own, clock, float(lead) / 20.0, row
            )
            narrow = narrow | (doubt << own)
            racing = racing | (wp.where(words[LENGTH + base + own] >= RACE_LENGTH, 1, 0) << own)
    # Rarer, and kept apart: its code beside the above, never run, costs a third of the time.
    snake = int(0)
    while (narrow | racing) != 0:
        if (narrow & 1) == 1:
            write_pockets(words, leavers, base + snake, at_offset(row_of(out, snake), POCKETS))
        if (racing & 1) == 1:
            races = at_offset(row_of(out, snake), RACES)
            write_races(words, codes, neighbours, leavers, base + snake, races)
        narrow = narrow >> 1
        racing = racing >> 1
        snake += 1


@wp.func
def row_of(out: wp.array(dtype=float), own: int) -> wp.array(dtype=float):
    """The numbers of snake `own` (0..2) of a team."""
    return wp.array(ptr=out.ptr + wp.uint64(4 * COUNT * own), shape=(COUNT,), dtype=float)
