"""Between the arrays of a batched game and plain data: one game as `GameState`, and the whole state as tensors."""

from __future__ import annotations

import itertools

from lib.errors import UserError
from lib.snakes.kernel_board import (
    BEAN,
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
    PLACES,
    STEP,
    TAIL,
    WORDS,
    cell_of,
    place_of,
)
from lib.snakes.rules import BEANS, CELLS, HEIGHT, SNAKES, neighbour
from lib.snakes.state import DOWN, RIGHT, GameState, link
from lib.warp_noise import key_words
from lib.warp_run import signed


def follow(cell: int, code: int) -> int:
    """The cell that a code of `kernel_board.py` leads to."""
    if code < 4:
        return neighbour(cell, code)
    direction = RIGHT if code == 4 else DOWN
    return neighbour(neighbour(cell, direction), direction)


def read_game(words: list[int], codes: list[int]) -> GameState:
    """A game from its words and codes."""
    snakes = []
    for snake in range(SNAKES):
        length = words[LENGTH + snake]
        cells = [cell_of(words[TAIL + snake])] if length else []
        while len(cells) < length:
            cells.append(follow(cells[-1], codes[place_of(cells[-1])] & 7))
        snakes.append(cells[::-1])
    last = words[LAST : LAST + SNAKES]
    return GameState(
        snakes=snakes,
        beans=[cell_of(place) for place in words[BEAN : BEAN + words[BEAN_COUNT]]],
        directions=words[DIRECTION : DIRECTION + SNAKES],
        last_directions=None if last[0] < 0 else last,
        step=words[STEP],
        episode=words[EPISODE],
    )


def write_game(state: GameState, seed: int, game: int) -> tuple[list[int], list[int]]:
    """Words and codes of a checked game; `seed` and the global id `game` give its random numbers."""
    words, codes = [0] * WORDS, [0] * PLACES
    for snake, cells in enumerate(state.snakes):
        places = [place_of(cell) for cell in cells]
        words[HEAD + snake] = places[0] if places else NOWHERE
        words[TAIL + snake] = places[-1] if places else NOWHERE
        words[LENGTH + snake] = len(places)
        for place in places:
            words[BODY + (place >> 5)] |= 1 << (place & 31)
        for toward, cell in itertools.pairwise(cells):
            codes[place_of(cell)] = snake << 3 | link(cell, toward)
    words[DIRECTION : DIRECTION + SNAKES] = state.directions
    words[LAST : LAST + SNAKES] = state.last_directions or [-1] * SNAKES
    write_beans(words, state.beans)
    words[STEP], words[EPISODE] = state.step, state.episode
    words[OVER] = int(not all(state.snakes))
    words[KEY_A], words[KEY_B] = (signed(word) for word in key_words(seed, game, state.episode))
    return words, codes


def write_beans(words: list[int], beans: list[int]) -> None:
    """Replaces the beans of a game; UserError for a cell that cannot hold one."""
    if len(beans) > BEANS or len(set(beans)) != len(beans) or any(cell not in range(CELLS) for cell in beans):
        raise UserError(f"beans {beans}: expected at most {BEANS} different cells from 0 to {CELLS - 1}")
    places = [place_of(cell) for cell in beans]
    if any(words[BODY + (place >> 5)] >> (place & 31) & 1 for place in places):
        raise UserError(f"beans {beans}: a snake lies on one of these cells")
    words[BEAN_ROW : BEAN_ROW + HEIGHT] = [0] * HEIGHT
    for place in places:
        words[BEAN_ROW + (place >> 5)] |= 1 << (place & 31)
    words[BEAN : BEAN + BEANS] = places + [0] * (BEANS - len(places))
    words[BEAN_COUNT] = len(places)
