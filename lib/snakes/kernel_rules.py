"""The rules of one game as Warp functions: a new game, one step, the respawn. Layout of a game: `kernel_board.py`.

Between the moves and the end of the collisions the body bits hold everything but the new heads, so a head on a set bit
has hit something. Heads are then added one after the other, which finds heads that meet.
"""

import warp as wp

from lib.snakes.kernel_board import (
    BEAN_COUNT,
    BEAN_ROW,
    BODY,
    DIRECTION,
    EPISODE,
    HEAD,
    KEY_A,
    KEY_B,
    LAST,
    LENGTH,
    NOWHERE,
    OVER,
    STEP,
    TAIL,
    clear_bit,
    free_row,
    lowest_bit,
    on_bean,
    on_body,
    place_at,
    place_beans,
    set_bit,
    step_from,
    take_bean,
)
from lib.snakes.noise import BEANS as BEANS_STREAM
from lib.snakes.noise import RESET, REVERSAL
from lib.snakes.rules import BEANS, HEIGHT, SNAKES, START_LENGTH, WIDTH
from lib.warp_noise import bounded, draw, game_key


@wp.func
def new_game(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    seed_first: wp.uint32,
    seed_second: wp.uint32,
    game: int,
):
    """Fills a game for its first step; words[EPISODE] stays and picks the random numbers."""
    a, b = game_key(seed_first, seed_second, wp.uint32(game), wp.uint32(words[EPISODE]))
    words[KEY_A] = int(a)
    words[KEY_B] = int(b)
    words[STEP] = 0
    words[OVER] = 0
    words[BEAN_COUNT] = 0
    for row in range(HEIGHT):
        words[BODY + row] = 0
        words[BEAN_ROW + row] = 0
    counter = int(0)
    for snake in range(SNAKES):
        placed = int(0)
        while placed == 0:
            direction = bounded(draw(a, b, RESET, 0, counter), 4)
            row = bounded(draw(a, b, RESET, 0, counter + 1), HEIGHT)
            tail = row * 32 + bounded(draw(a, b, RESET, 0, counter + 2), WIDTH)
            counter += 3
            middle = step_from(neighbours, tail, direction)
            head = step_from(neighbours, middle, direction)
            if (on_body(words, tail) | on_body(words, middle) | on_body(words, head)) == 0:
                placed = 1
                lay_body(words, codes, snake, head, middle, tail, direction, direction)
                words[DIRECTION + snake] = direction
                words[LAST + snake] = -1
    place_beans(words, a, b, RESET, 0, counter)


@wp.func
def lay_body(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    snake: int,
    head: int,
    middle: int,
    tail: int,
    middle_code: int,
    tail_code: int,
):
    """A body of three segments; the codes lead from middle to head and from tail to middle."""
    set_bit(words, BODY, head)
    set_bit(words, BODY, middle)
    set_bit(words, BODY, tail)
    codes[middle] = wp.uint8((snake << 3) | middle_code)
    codes[tail] = wp.uint8((snake << 3) | tail_code)
    words[HEAD + snake] = head
    words[TAIL + snake] = tail
    words[LENGTH + snake] = START_LENGTH


@wp.func
def remove_body(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    snake: int,
):
    """Clears the bits of all segments but the head; by count, since a head may lie on its own body."""
    place = place_at(words, TAIL + snake)
    for _ in range(words[LENGTH + snake] - 1):
        clear_bit(words, BODY, place)
        place = step_from(neighbours, place, int(codes[place]) & 7)


@wp.func
def first_free(words: wp.array(dtype=int), after: int) -> int:
    """The first free place in scan order behind the place `after` (-1: from the start); NOWHERE when there is none."""
    found = int(NOWHERE)
    row = int((after + 1) >> 5)
    bits = int(0)
    if row < HEIGHT:
        bits = free_row(words, row) & ~((1 << ((after + 1) & 31)) - 1)
    while bits == 0 and row < HEIGHT - 1:
        row += 1
        bits = free_row(words, row)
    if bits != 0:
        found = (row << 5) + lowest_bit(bits)
    return found


@wp.func
def search_move(index: int) -> int:
    """The index-th move of the respawn search: right, down, up, left."""
    return (0x87 >> (2 * index)) & 3


@wp.func
def is_free(words: wp.array(dtype=int), place: int) -> int:
    """1 when neither a segment nor a bean lies on the place."""
    return 1 - (on_body(words, place) | on_bean(words, place))


@wp.func
def straight_direction(head: int, neck: int) -> int:
    """Direction from neck to head by their coordinates, not wrapped: on a seam it points into the neck."""
    sideways = wp.where((head & 31) > (neck & 31), 3, 2)
    upright = wp.where(head > neck, 1, 0)
    return wp.where((head >> 5) == (neck >> 5), sideways, upright)


@wp.func
def place_found(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    snake: int,
    start: int,
) -> int:
    """Respawns a snake at the free place `start`, with the first cells of the search from it; 0 when they are too few.

    The search visits start, its first two free neighbours, or its only one and that one's first other free neighbour.
    """
    # Named here, not in the branches: Warp 1.19 mixes up a constant that it first meets in both arms of an inner `if`.
    direction = DIRECTION + snake
    first = int(-1)
    second = int(-1)
    for index in range(4):
        move = search_move(index)
        if is_free(words, step_from(neighbours, start, move)) != 0:
            if first < 0:
                first = move
            elif second < 0:
                second = move
    if first < 0:
        return 0
    beside = step_from(neighbours, start, first)
    if second >= 0:
        other = step_from(neighbours, start, second)
        if second == (first ^ 1):
            # Free cells on opposite sides: head in the middle, the tail two steps from its neighbour in the body.
            jump = wp.where(first == 3, 4, 5)
            lay_body(words, codes, snake, start, beside, other, first ^ 1, jump)
            words[direction] = straight_direction(start, beside)
        else:
            lay_body(words, codes, snake, beside, start, other, first, second ^ 1)
            words[direction] = straight_direction(beside, start)
        return 1
    for index in range(4):
        move = search_move(index)
        other = step_from(neighbours, beside, move)
        if other != start and second < 0 and is_free(words, other) != 0:
            second = move
    if second < 0:
        return 0
    other = step_from(neighbours, beside, second)
    lay_body(words, codes, snake, start, beside, other, first ^ 1, second ^ 1)
    words[direction] = straight_direction(start, beside)
    return 1


@wp.func
def respawn(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    snake: int,
) -> int:
    """A new body of three segments for a dead snake; 0 when there is no place: the body stays empty."""
    start = first_free(words, -1)
    placed = int(0)
    while placed == 0 and start != NOWHERE:
        placed = place_found(words, codes, neighbours, snake, start)
        if placed == 0:
            start = first_free(words, start)
    if placed == 0:
        words[LENGTH + snake] = 0
        words[HEAD + snake] = NOWHERE
        words[TAIL + snake] = NOWHERE
    return placed


@wp.func
def move_snakes(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    actions: wp.array(dtype=int),
) -> int:
    """Moves the six snakes in order; bit s of the result: snake s ate. New heads are not in the body bits yet."""
    word = draw(wp.uint32(words[KEY_A]), wp.uint32(words[KEY_B]), REVERSAL, words[STEP], 0)
    eaten = int(0)
    for snake in range(SNAKES):
        old = words[DIRECTION + snake] & 3
        action = actions[snake] & 3
        reverse = old ^ 1
        digit = bounded(word, 3)
        word = word * wp.uint32(3)
        direction = wp.where(action == reverse, digit + wp.where(digit >= reverse, 1, 0), action)
        words[LAST + snake] = old
        words[DIRECTION + snake] = direction
        neck = place_at(words, HEAD + snake)
        set_bit(words, BODY, neck)
        codes[neck] = wp.uint8((snake << 3) | direction)
        head = step_from(neighbours, neck, direction)
        words[HEAD + snake] = head
        if on_bean(words, head) != 0:
            take_bean(words, head)
            words[LENGTH + snake] = words[LENGTH + snake] + 1
            eaten = eaten | (1 << snake)
        else:
            tail = place_at(words, TAIL + snake)
            clear_bit(words, BODY, tail)
            words[TAIL + snake] = step_from(neighbours, tail, int(codes[tail]) & 7)
    return eaten


@wp.func
def collide(words: wp.array(dtype=int)):
    """Adds the new heads to the body bits. Returns as bits: the dead snakes, and those whose head set a bit."""
    dead = int(0)
    added = int(0)
    for snake in range(SNAKES):
        head = place_at(words, HEAD + snake)
        if on_body(words, head) != 0:
            dead = dead | (1 << snake)
            for earlier in range(snake):
                if words[HEAD + earlier] == head:
                    dead = dead | (1 << earlier)
        else:
            set_bit(words, BODY, head)
            added = added | (1 << snake)
    return dead, added


@wp.func
def replace_dead(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    rewards: wp.array(dtype=float),
    dead: int,
    added: int,
) -> int:
    """Charges the dead, takes all their bodies off, then respawns them in order; 0 when one found no place."""
    left = int(dead)
    while left != 0:
        snake = lowest_bit(left)
        left = left & (left - 1)
        rewards[snake] = rewards[snake] + float(START_LENGTH - words[LENGTH + snake])
        remove_body(words, codes, neighbours, snake)
        if ((added >> snake) & 1) != 0:
            clear_bit(words, BODY, place_at(words, HEAD + snake))
    placed = int(1)
    left = int(dead)
    while left != 0:
        snake = lowest_bit(left)
        left = left & (left - 1)
        placed = placed & respawn(words, codes, neighbours, snake)
    return placed


@wp.func
def play_step(
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    actions: wp.array(dtype=int),
    rewards: wp.array(dtype=float),
    steps: int,
):
    """One step of all six snakes; fills rewards. Returns as bits the dead and those that ate, and 1 at the end."""
    eaten = move_snakes(words, codes, neighbours, actions)
    dead, added = collide(words)
    for snake in range(SNAKES):
        rewards[snake] = float((eaten >> snake) & 1)
    placed = int(1)
    if dead != 0:
        placed = replace_dead(words, codes, neighbours, rewards, dead, added)
    step = words[STEP]
    if words[BEAN_COUNT] < BEANS:
        place_beans(words, wp.uint32(words[KEY_A]), wp.uint32(words[KEY_B]), BEANS_STREAM, step, 0)
    words[STEP] = step + 1
    total = int(BEANS)
    for snake in range(SNAKES):
        total += words[LENGTH + snake]
    done = int(0)
    if step + 1 >= steps or total > HEIGHT * WIDTH or placed == 0:
        done = 1
    return dead, eaten, done
