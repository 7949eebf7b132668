"""Boards that ordinary play seldom reaches: long snakes, nearly full boards, constructed positions."""

from __future__ import annotations

import random

from reference import BEANS, CELLS, MOVES, NEIGHBOUR, SNAKES, WIDTH, Game, cell_of

START_LENGTH = 3
FULL = CELLS - BEANS


def crowded_game(rng: random.Random, fill: int) -> Game:
    """Six snakes of together about `fill` segments (18 to 195), pieces of one random path over the whole board.

    Lengths, gaps, heads (either end of a piece), bean cells and steps made are random; directions point away from the
    neck.
    """
    path = random_path(rng)
    lengths = random_lengths(rng, fill)
    gaps = random_parts(rng, CELLS - sum(lengths), SNAKES)
    snakes, start = [], 0
    for length, gap in zip(lengths, gaps):
        body = path[start : start + length]
        snakes.append(body if rng.random() < 0.5 else body[::-1])
        start += length + gap
    rng.shuffle(snakes)
    game = Game(snakes, [], [direction_of(body) for body in snakes], step_count=rng.randrange(1, 190))
    game.last_directions = list(game.directions)
    free = game.free_cells()
    game.beans = rng.sample(free, min(BEANS, len(free)))
    return game


def direction_of(body: list[int]) -> int:
    """The move that led from the neck to the head."""
    return NEIGHBOUR[body[1]].index(body[0])


def random_lengths(rng: random.Random, fill: int) -> list[int]:
    """Six lengths that add up to `fill`; the first 0 to 5 snakes keep the least length, the others share the rest."""
    spare = min(fill, FULL) - SNAKES * START_LENGTH
    short = rng.randrange(SNAKES)
    return [START_LENGTH] * short + [START_LENGTH + part for part in random_parts(rng, spare, SNAKES - short)]


def random_parts(rng: random.Random, total: int, count: int) -> list[int]:
    """`count` numbers >= 0 that add up to total."""
    cuts = sorted(rng.randrange(total + 1) for _ in range(count - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, total])]


def random_path(rng: random.Random, changes: int = 250) -> list[int]:
    """A path over all cells of the torus: row by row, then changed at its ends by the backbite move."""
    path = []
    for row in range(CELLS // WIDTH):
        columns = range(WIDTH) if row % 2 == 0 else range(WIDTH - 1, -1, -1)
        path += [cell_of(row, col) for col in columns]
    for _ in range(changes):
        if rng.random() < 0.5:
            path.reverse()
        place = path.index(NEIGHBOUR[path[-1]][rng.randrange(4)])
        path[place + 1 :] = reversed(path[place + 1 :])
    d_row, d_col = rng.randrange(CELLS // WIDTH), rng.randrange(WIDTH)
    return [cell_of(cell // WIDTH + d_row, cell % WIDTH + d_col) for cell in path]


def walk(head: tuple[int, int], *parts: tuple[int, int]) -> list[int]:
    """A body from its head: `parts` are (direction toward the tail, number of cells)."""
    row, col = head
    body = [cell_of(row, col)]
    for direction, count in parts:
        d_row, d_col = MOVES[direction]
        for _ in range(count):
            row, col = row + d_row, col + d_col
            body.append(cell_of(row, col))
    return body
