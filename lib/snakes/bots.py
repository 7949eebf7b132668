"""The scripted players of the original game as Warp functions: one call fills the three actions of a team.

Facts of all of them: distance is the straight (not wrapped) one from the wrapped cell a move leads to, compared as
squared integers; a cell is blocked when a segment lies on it now; the first of up, down, left, right wins ties, the
first bean of the list wins ties for the nearest bean (straight distance from the head). When no bean is left for a
snake all distances count as 0. A team moves on the board before the step, both teams on the same one.

random     uniform
level1     toward the nearest bean, blocked or not
greedy     snakes in index order, each takes the nearest bean that no earlier mate took; blocked moves are out, up when
           all are blocked
level3     as level1 with 5 added to the distance (the root here) of a blocked move
level4     as greedy, but several snakes may want one bean
evasion    as level1 among the safe moves, or among all four when none is safe. A move is safe when its cell is without
           segment and one of the four cells around that is too and was not counted for an earlier move

The original's level names are kept; they are not ordered by strength.

Our own player, `hunter_choice` in `bots_hunter.py`, is given (words, codes, neighbours, scratch, team, actions):
words, codes and neighbours are one game as `kernel_board.py` describes it, and must not be changed; scratch is 1024
int16 of this game with undefined content on entry; the function writes actions[3 * team] to actions[3 * team + 2].
It is called only in games that go on, so all six bodies have at least three segments and there is at least one bean
unless the board is full. Random numbers: `noise.draw(a, b, BOT, words[STEP], 16 + ...)` with a, b = the key words,
`wp.uint32(words[KEY_A])` and `wp.uint32(words[KEY_B])`.
"""

import warp as wp

from lib.snakes.kernel_board import BEAN, BEAN_COUNT, HEAD, KEY_A, KEY_B, STEP, on_body, place_at, sort_five, step_from
from lib.snakes.noise import BOT
from lib.snakes.rules import TEAM
from lib.warp_noise import draw

FAR = 1 << 20
MISSING = FAR << 3
vec24 = wp.types.vector(length=24, dtype=int)


@wp.func
def squared_distance(place: int, other: int) -> int:
    """Straight distance of two places, squared; not wrapped."""
    down = (place >> 5) - (other >> 5)
    right = (place & 31) - (other & 31)
    return down * down + right * right


@wp.func
def nearest_bean(words: wp.array(dtype=int), head: int) -> int:
    """Index of the nearest bean, or -1. (Eight turns, not five, and no branches: that fills a vector.)"""
    best = int(MISSING)
    for j in range(8):
        key = squared_distance(words[BEAN + j], head) * 8 + j
        best = wp.min(best, wp.where(j < words[BEAN_COUNT], key, MISSING))
    return bean_of(best)


@wp.func
def bean_distance(words: wp.array(dtype=int), bean: int, place: int) -> int:
    """Squared straight distance from a place to a bean of the list; 0 without a bean."""
    return wp.where(bean < 0, 0, squared_distance(words[BEAN + (bean & 7)], place))


@wp.func
def random_choice(words: wp.array(dtype=int), team: int, actions: wp.array(dtype=int)):
    """Uniform actions, two bits a snake from one word a step."""
    word = draw(wp.uint32(words[KEY_A]), wp.uint32(words[KEY_B]), BOT, words[STEP], 0)
    for own in range(TEAM):
        k = ((team & 1) * TEAM) + own
        actions[k] = int(word >> wp.uint32(2 * k)) & 3


@wp.func
def nearest_move(
    words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16), head: int, bean: int, avoiding: int
) -> int:
    """The move that leads nearest to a bean of the list (-1: none); with avoiding 1 blocked ones are out."""
    best = int(1 << 30)
    for m in range(4):
        place = step_from(neighbours, head, m)
        distance = wp.where((on_body(words, place) & avoiding) != 0, FAR, bean_distance(words, bean, place))
        # Four times the distance plus the move: the smallest number is the first of the best moves.
        best = wp.min(best, distance * 4 + m)
    return best & 3


@wp.func
def single_choice(
    words: wp.array(dtype=int),
    neighbours: wp.array(dtype=wp.int16),
    team: int,
    actions: wp.array(dtype=int),
    avoiding: int,
):
    """Level 1 (avoiding 0) and level 4 (1): each snake for itself."""
    for own in range(TEAM):
        k = ((team & 1) * TEAM) + own
        head = place_at(words, HEAD + k)
        actions[k] = nearest_move(words, neighbours, head, nearest_bean(words, head), avoiding)


@wp.func
def shared_beans(words: wp.array(dtype=int), team: int) -> wp.vec3i:
    """For each snake of a team the nearest bean that no earlier one took, or -1.

    The distances of all come first, so that only the choice among a snake's nearest three waits for its mates.
    """
    keys = vec24()
    k = (team & 1) * TEAM
    h0 = place_at(words, HEAD + k)
    h1 = place_at(words, HEAD + k + 1)
    h2 = place_at(words, HEAD + k + 2)
    beans = words[BEAN_COUNT]
    for j in range(8):
        bean = words[BEAN + j]
        missing = wp.where(j < beans, 0, MISSING)
        keys[j] = (squared_distance(bean, h0) * 8 + j) | missing
        keys[8 + j] = (squared_distance(bean, h1) * 8 + j) | missing
        keys[16 + j] = (squared_distance(bean, h2) * 8 + j) | missing
    first = wp.min(wp.min(wp.min(keys[0], keys[1]), wp.min(keys[2], keys[3])), keys[4])
    b0, b1, _, _, _ = sort_five(keys[8], keys[9], keys[10], keys[11], keys[12])
    c0, c1, c2, _, _ = sort_five(keys[16], keys[17], keys[18], keys[19], keys[20])
    second = wp.where(((b0 ^ first) & 7) == 0, b1, b0)
    third = wp.where(((c1 ^ first) & 7) == 0 or ((c1 ^ second) & 7) == 0, c2, c1)
    third = wp.where(((c0 ^ first) & 7) == 0 or ((c0 ^ second) & 7) == 0, third, c0)
    return wp.vec3i(bean_of(first), bean_of(second), bean_of(third))


@wp.func
def bean_of(key: int) -> int:
    """The bean of a sort key, -1 for a missing one."""
    return wp.where(key < MISSING, key & 7, -1)


@wp.func
def greedy_choice(
    words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16), team: int, actions: wp.array(dtype=int)
):
    """Each snake takes the nearest bean that no earlier mate took."""
    beans = shared_beans(words, team)
    for own in range(TEAM):
        k = ((team & 1) * TEAM) + own
        actions[k] = nearest_move(words, neighbours, place_at(words, HEAD + k), beans[own], 1)


@wp.func
def level3_choice(
    words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16), team: int, actions: wp.array(dtype=int)
):
    """Nearest bean; a blocked move counts as 5 cells farther. Sums differ by 5e-5 or more: float32 is enough."""
    for own in range(TEAM):
        k = ((team & 1) * TEAM) + own
        head = place_at(words, HEAD + k)
        bean = nearest_bean(words, head)
        best = float(1.0e9)
        move = int(0)
        for m in range(4):
            place = step_from(neighbours, head, m)
            value = wp.sqrt(float(bean_distance(words, bean, place))) + 5.0 * float(on_body(words, place))
            if value < best:
                best = value
                move = m
        actions[k] = move


@wp.func
def offset_code(move: int) -> int:
    """-5, 5, -1, 1 for up, down, left, right: sums of two tell the cells at two steps from each other."""
    sign = (move & 1) * 2 - 1
    return wp.where(move < 2, 5 * sign, sign)


@wp.func
def safe_moves(words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16), head: int) -> int:
    """The moves, as bits, that the evasion player calls safe."""
    counted = int(0)
    safe = int(0)
    for m in range(4):
        place = step_from(neighbours, head, m)
        if on_body(words, place) == 0:
            for n in range(4):
                bit = 1 << (10 + offset_code(m) + offset_code(n))
                if on_body(words, step_from(neighbours, place, n)) == 0 and (counted & bit) == 0:
                    counted = counted | bit
                    safe = safe | (1 << m)
    return safe


@wp.func
def evasion_choice(
    words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16), team: int, actions: wp.array(dtype=int)
):
    """Nearest bean among the safe moves."""
    for own in range(TEAM):
        k = ((team & 1) * TEAM) + own
        head = place_at(words, HEAD + k)
        bean = nearest_bean(words, head)
        safe = safe_moves(words, neighbours, head)
        if safe == 0:
            safe = 15
        best = int(1 << 30)
        for m in range(4):
            outside = 1 - ((safe >> m) & 1)
            value = (bean_distance(words, bean, step_from(neighbours, head, m)) + outside * FAR) * 4 + m
            best = wp.min(best, value)
        actions[k] = best & 3
