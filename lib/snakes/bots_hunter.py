"""The player "hunter": our own scripted team, stronger than all of the original's; a function of the board alone.

Each of the three snakes takes the move of highest value, in points of score:

    value = catch - 2 risk (own length - 3 + 0.3) + bean (1 - risk) - 0.1 distance - trap

Beans     The team shares the beans so that the sum of torus distances is least; a bean that an enemy head is nearer to
          counts as 8 moves farther, one equally near to both as 4. `distance` is the one from the new cell to the own
          bean, `bean` is 1 when a bean lies on the new cell. The snake nearest to its bean chooses first.
Enemies   Each enemy is thought to enter each free cell beside its head with a chance: 0.85 for its beans together, else
          weights 0.6 for a cell nearer to its nearest bean and 0.12 for the others. `risk` is the chance that some
          enemy enters the same cell, `catch` the sum of chance x what that enemy would lose. A snake of length 3 loses
          nothing by dying, so it hunts the heads of long enemies; a long one keeps away from heads.
Bodies    A cell with a segment is certain death, unless it is a tail that leaves: the own one, or that of a snake that
          has no bean beside its head. The cells that mates have chosen are closed.
Pockets   `trap`: when fewer cells than own length + 2 can be reached from the new cell (flood fill), 0.5 x (own length
          - 3 + 0.3) x the missing share; the whole of it again when no free neighbour is left.
Reversal  Never: it would be a random move.

Values are compared in steps of 1 / 1024, the first of equal moves wins: what is equal on paper is then equal on every
device. The weights were chosen on some hundred games against greedy; around them the results hardly change.
"""

import warp as wp

from lib.snakes.kernel_board import (
    BEAN,
    BEAN_COUNT,
    DIRECTION,
    HEAD,
    LENGTH,
    TAIL,
    on_bean,
    on_body,
    step_from,
)
from lib.snakes.kernel_regions import Rows, body_rows, count_cells, is_open, region
from lib.snakes.rules import BEANS, HEIGHT, SNAKES, START_LENGTH, TEAM, WIDTH

RISK_WEIGHT = 2.0
LEAST_LOSS = 0.3
DISTANCE_WEIGHT = 0.1
CONTEST = 8
BEAN_CHANCE = 0.85
NEARER_WEIGHT = 0.6
OTHER_WEIGHT = 0.12
POCKET_WEIGHT = 0.5
SPARE_CELLS = 2
VALUE_STEPS = 1024.0
FAR = 1 << 20
NEVER = -(1 << 30)

Distances = wp.types.vector(length=TEAM * BEANS, dtype=int)
Chances = wp.types.vector(length=TEAM * 4, dtype=float)


@wp.func
def torus_distance(place: int, other: int) -> int:
    """Moves from place to place on the empty board."""
    down = wp.abs((place >> 5) - (other >> 5))
    right = wp.abs((place & 31) - (other & 31))
    return wp.min(down, HEIGHT - down) + wp.min(right, WIDTH - right)


@wp.func
def closed_rows(words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16)) -> Rows:
    """Rows of bits: segments that will still lie there after the moves; tails that leave are open."""
    rows = body_rows(words)
    for snake in range(SNAKES):
        beside = int(0)
        for m in range(4):
            beside += on_bean(words, step_from(neighbours, words[HEAD + snake], m))
        if beside == 0:
            tail = words[TAIL + snake]
            rows[tail >> 5] = rows[tail >> 5] & ~(1 << (tail & 31))
    return rows


@wp.func
def enemy_chances(words: wp.array(dtype=int), neighbours: wp.array(dtype=wp.int16), enemies: int) -> Chances:
    """For the three snakes from number `enemies` on: the chance of each of their four moves."""
    chances = Chances()
    for k in range(TEAM):
        head = words[HEAD + enemies + k]
        nearest = int(FAR)
        target = int(head)
        for j in range(words[BEAN_COUNT]):
            distance = torus_distance(words[BEAN + j], head)
            if distance < nearest:
                nearest = distance
                target = words[BEAN + j]
        beside = int(0)
        free = int(0)
        for m in range(4):
            place = step_from(neighbours, head, m)
            if on_body(words, place) == 0 and m != (words[DIRECTION + enemies + k] ^ 1):
                free += 1
                beside += on_bean(words, place)
        total = float(0.0)
        for m in range(4):
            place = step_from(neighbours, head, m)
            weight = float(0.0)
            if on_body(words, place) == 0 and m != (words[DIRECTION + enemies + k] ^ 1):
                weight = OTHER_WEIGHT
                if on_bean(words, place) == 1:
                    weight = BEAN_CHANCE / float(beside)
                elif beside > 0:
                    weight = (1.0 - BEAN_CHANCE) / float(free - beside)
                elif torus_distance(place, target) < nearest:
                    weight = NEARER_WEIGHT
            chances[4 * k + m] = weight
            total += weight
        for m in range(4):
            chances[4 * k + m] = chances[4 * k + m] / wp.max(total, 1.0e-6)
    return chances


@wp.func
def bean_distances(words: wp.array(dtype=int), own: int, enemies: int) -> Distances:
    """Distance of each own snake to each bean, longer where an enemy is as near; FAR for beans that are not there."""
    distances = Distances()
    for j in range(BEANS):
        enemy = int(FAR)
        for k in range(TEAM):
            enemy = wp.min(enemy, torus_distance(words[BEAN + j], words[HEAD + enemies + k]))
        for k in range(TEAM):
            distance = torus_distance(words[BEAN + j], words[HEAD + own + k])
            if enemy < distance:
                distance += CONTEST
            elif enemy == distance:
                distance += CONTEST / 2
            distances[BEANS * k + j] = wp.where(j < words[BEAN_COUNT], distance, FAR)
    return distances


@wp.func
def shared_beans(distances: Distances) -> wp.vec3i:
    """The bean of each own snake: the assignment of least sum, the first of equals."""
    best = int(1 << 30)
    beans = wp.vec3i(0, 0, 0)
    for i in range(BEANS):
        for j in range(BEANS):
            for k in range(BEANS):
                if i != j and i != k and j != k:
                    total = distances[i] + distances[BEANS + j] + distances[2 * BEANS + k]
                    if total < best:
                        best = total
                        beans = wp.vec3i(i, j, k)
    return beans


@wp.func
def trap_cost(neighbours: wp.array(dtype=wp.int16), closed: Rows, place: int, length: int, loss: float) -> float:
    """What the pocket behind a place may cost a snake of this length."""
    wanted = length + SPARE_CELLS
    reached = wp.min(count_cells(region(closed, place, wanted)), wanted)
    cost = POCKET_WEIGHT * loss * (1.0 - float(reached) / float(wanted))
    exits = int(0)
    for m in range(4):
        exits += is_open(closed, step_from(neighbours, place, m))
    if exits == 0:
        cost += loss
    return cost


@wp.func
def move_value(
    words: wp.array(dtype=int),
    neighbours: wp.array(dtype=wp.int16),
    closed: Rows,
    chances: Chances,
    enemies: int,
    snake: int,
    place: int,
    target: int,
) -> int:
    """The value of going to a place, in steps of 1 / VALUE_STEPS; see the module docstring."""
    length = words[LENGTH + snake]
    loss = float(length - START_LENGTH) + LEAST_LOSS
    value = float(0.0)
    survival = float(wp.where(place == words[TAIL + snake], 1, is_open(closed, place)))
    if survival > 0.0:
        for k in range(TEAM):
            for m in range(4):
                if step_from(neighbours, words[HEAD + enemies + k], m) == place:
                    chance = chances[4 * k + m]
                    survival = survival * (1.0 - chance)
                    value += chance * float(words[LENGTH + enemies + k] - START_LENGTH)
        value -= trap_cost(neighbours, closed, place, length, loss)
    value -= RISK_WEIGHT * (1.0 - survival) * loss
    if on_bean(words, place) == 1:
        value += survival
    else:
        value -= DISTANCE_WEIGHT * float(torus_distance(place, target))
    return int(wp.floor(value * VALUE_STEPS + 0.5))


@wp.func
def hunter_choice(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    scratch: wp.array(dtype=wp.int16),
    team: int,
    actions: wp.array(dtype=int),
):
    """Writes the actions of a team; see the module docstring."""
    own = TEAM * team
    enemies = TEAM - own
    closed = closed_rows(words, neighbours)
    chances = enemy_chances(words, neighbours, enemies)
    distances = bean_distances(words, own, enemies)
    beans = shared_beans(distances)
    done = int(0)
    for _ in range(TEAM):
        turn = int(-1)
        nearest = int(1 << 30)
        for k in range(TEAM):
            distance = distances[BEANS * k + beans[k]]
            if ((done >> k) & 1) == 0 and distance < nearest:
                nearest = distance
                turn = k
        done = done | (1 << turn)
        snake = own + turn
        head = words[HEAD + snake]
        target = wp.where(beans[turn] < words[BEAN_COUNT], words[BEAN + beans[turn]], head)
        best = int(NEVER)
        move = int(0)
        for m in range(4):
            if m != (words[DIRECTION + snake] ^ 1):
                place = step_from(neighbours, head, m)
                value = move_value(words, neighbours, closed, chances, enemies, snake, place, target)
                if value > best:
                    best = value
                    move = m
        actions[snake] = move
        place = step_from(neighbours, head, move)
        closed[place >> 5] = closed[place >> 5] | (1 << (place & 31))
