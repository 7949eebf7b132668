"""The "team" features: 116 float32 per snake, relative to the snake and its team, as Warp functions.

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

An empty body (only after the end of a game, see the rules) counts as length 0 with head delta 0, 0; its own features
are all 0.

The look-ups are explained in `features_tables.py`.
"""

# ruff: noqa: RUF046, UP018 (in a Warp function `int(...)` makes a local that a loop may change)
import warp as wp

from lib.snakes.features_tables import (
    BESIDE,
    DELTA_MASK,
    DISTANCE,
    KEY_MASK,
    LENGTH_FACTS,
    MISSING_KEY,
    MOVE_FACTS,
    NUMBER,
    RELATIVE,
    UNIT,
    WIDE_NOWHERE,
)
from lib.snakes.kernel_board import BEAN, BEAN_COUNT, BODY, DIRECTION, HEAD, LENGTH, STEP, TAIL, place_at, sort_five
from lib.snakes.rules import FEATURES, HEIGHT, SNAKES, TEAM, WIDTH

COUNT = FEATURES["team"]
WINDOW = 48  # cells around the head, without the centre
vec4f = wp.types.vector(length=4, dtype=wp.float32)
vec16 = wp.types.vector(length=16, dtype=int)
vec25 = wp.types.vector(length=25, dtype=int)


@wp.func
def wide(place: int) -> int:
    """row * 64 + column."""
    return place + (place & ~31)


@wp.func
def at_offset(row: wp.array(dtype=float), offset: int) -> wp.array(dtype=vec4f):
    """Four numbers of a row as one value, so that they are written at once."""
    return wp.array(ptr=row.ptr + wp.uint64(4 * offset), shape=(1,), dtype=vec4f)


@wp.func
def origin_of(words: wp.array(dtype=int), index: int) -> int:
    """What the head words[index] adds to the wide number of a place to give the index of `deltas`."""
    return WIDE_NOWHERE - wide(place_at(words, index))


@wp.func
def delta(deltas: wp.array(dtype=int), origin: int, place: int) -> int:
    """The entry of a place relative to the head of `origin`."""
    return deltas[(origin + place) & DELTA_MASK]


@wp.func
def bean_keys(words: wp.array(dtype=int), deltas: wp.array(dtype=int), team: int):
    """Sort keys of three snakes, eight words each, of which five are beans; then one word with what beans lie around.

    A key is the entry of `deltas` with the bean's number and, in the lowest bits, 2 if a mate's head is nearer and 1 if
    an enemy's head is nearer or as near. The last word has four bits a snake: the moves onto a bean. (Eight turns, not
    five, and no branches: that fills a vector.)
    """
    keys = vec25()
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
        d0 = (e0 >> DISTANCE) & 31
        d1 = (e1 >> DISTANCE) & 31
        d2 = (e2 >> DISTANCE) & 31
        f0 = (delta(deltas, g0, bean) >> DISTANCE) & 31
        f1 = (delta(deltas, g1, bean) >> DISTANCE) & 31
        f2 = (delta(deltas, g2, bean) >> DISTANCE) & 31
        nearest = wp.min(f0, wp.min(f1, f2))
        around = ((e0 >> UNIT) & 15) | (((e1 >> UNIT) & 15) << 4) | (((e2 >> UNIT) & 15) << 8)
        onto = onto | wp.where(j < beans, around, 0)
        number = j << NUMBER
        k0 = (e0 & KEY_MASK) + number + bean_flags(d0, wp.min(d1, d2), nearest)
        k1 = (e1 & KEY_MASK) + number + bean_flags(d1, wp.min(d0, d2), nearest)
        k2 = (e2 & KEY_MASK) + number + bean_flags(d2, wp.min(d0, d1), nearest)
        keys[j] = wp.where(j < beans, k0, MISSING_KEY)
        keys[8 + j] = wp.where(j < beans, k1, MISSING_KEY)
        keys[16 + j] = wp.where(j < beans, k2, MISSING_KEY)
    keys[24] = onto
    return keys


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
def write_beans(row: wp.array(dtype=float), keys: vec25, first: int, facts: wp.array(dtype=vec4f)):
    """Sorts five keys and writes the beans."""
    a, b, c, d, e = sort_five(keys[first], keys[first + 1], keys[first + 2], keys[first + 3], keys[first + 4])
    write_bean(row, 28, a, facts)
    write_bean(row, 33, b, facts)
    write_bean(row, 38, c, facts)
    write_bean(row, 43, d, facts)
    write_bean(row, 48, e, facts)


@wp.func
def padded_rows(words: wp.array(dtype=int)) -> vec16:
    """Body bits of rows -3 to 12, wrapping; bit q is column q - 3, from -3 to 22 (bits above are rubbish)."""
    rows = vec16()
    for row in range(HEIGHT):
        bits = words[BODY + row]
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
    keys: vec25,
    team: int,
    own: int,
    clock: float,
    lead: float,
    row: wp.array(dtype=float),
):
    """One row of 116 numbers: snake `own` (0..2) of a team."""
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
    for j in range(SNAKES):
        tails = tails | ((delta(deltas, origin, wide(place_at(words, TAIL + j))) >> UNIT) & 15)
    beside_mates = ((m0 >> BESIDE) & 255) + ((m1 >> BESIDE) & 255)
    onto = keys[24] >> (4 * own)
    write_moves(row, rows, head, tails, onto, beside_enemies, beside_mates, facts)
    write_beans(row, keys, 8 * own, facts)
    write_window(row, rows, head)


@wp.func
def write_window(row: wp.array(dtype=float), rows: vec16, head: int):
    """The 48 cells around the head: one word with all bits first, then numbers four at a time."""
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


@wp.func
def four_bits(bits: int) -> vec4f:
    """The four lowest bits as numbers."""
    return vec4f(float(bits & 1), float((bits >> 1) & 1), float((bits >> 2) & 1), float((bits >> 3) & 1))


@wp.func
def write_team(
    words: wp.array(dtype=int),
    deltas: wp.array(dtype=int),
    facts: wp.array(dtype=vec4f),
    team: int,
    out: wp.array(dtype=float),
):
    """The three rows of a team, [3 * 116] numbers."""
    keys = bean_keys(words, deltas, team)
    rows = padded_rows(words)
    base = TEAM * (team & 1)
    lead = int(0)
    for k in range(TEAM):
        lead += words[LENGTH + base + k] - words[LENGTH + (base ^ TEAM) + k]
    clock = float(words[STEP]) / 200.0
    for own in range(TEAM):
        row = wp.array(ptr=out.ptr + wp.uint64(4 * COUNT * own), shape=(COUNT,), dtype=float)
        if words[LENGTH + base + own] == 0:
            for k in range(COUNT):
                row[k] = 0.0
        else:
            write_snake(words, deltas, facts, rows, keys, team, own, clock, float(lead) / 20.0, row)
