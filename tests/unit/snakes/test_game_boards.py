"""Positions built by hand, one step, and what the rules of the original make of it, worked out by hand as well."""

import itertools

import pytest
import torch

from lib.snakes import GameState, SnakesVec
from lib.snakes.rules import ACTIONS

UP, DOWN, LEFT, RIGHT = range(4)


def at(row: int, column: int) -> int:
    return row * 20 + column


PARKED = [[at(row, first), at(row, first + 1), at(row, first + 2)] for first in (10, 15) for row in (6, 7, 8)]
BEANS = [at(5, column) for column in (10, 12, 14, 16, 18)]


def direction_of(snake: list[int]) -> int:
    """From neck to head; the bodies here do not cross a seam behind the head."""
    return {-20: UP, 20: DOWN, -1: LEFT, 1: RIGHT}[snake[0] - snake[1]]


@pytest.fixture(scope="module")
def game() -> SnakesVec:
    return SnakesVec(1, left="external", right="external", autoreset=False)


def play(game: SnakesVec, moves: dict[int, tuple[list[int], int]], beans=BEANS) -> GameState:
    """One step from a board of parked snakes, which go left, with the given bodies and actions in their place."""
    snakes = [moves.get(index, (parked, LEFT))[0] for index, parked in enumerate(PARKED)]
    game.inject(0, GameState(snakes, list(beans), [direction_of(snake) for snake in snakes]))
    game.step(torch.tensor([[moves.get(index, (None, LEFT))[1] for index in range(6)]], dtype=torch.int32))
    return game.snapshot(0)


VICTIM = [at(4, 5), at(4, 4), at(4, 3)]
WALL = [at(2, 6), at(3, 6), at(4, 6), at(5, 6)]
DEATH = {0: (VICTIM, RIGHT), 1: (WALL, UP)}
ABOVE = ([at(0, 4), at(0, 3), at(0, 2), at(0, 1), at(9, 1)], RIGHT)
"""Lies on (0, 1) after its step and leaves (9, 1)."""
BELOW = ([at(1, 2), at(1, 1), at(1, 0), at(2, 0)], RIGHT)
LAST_ROW = ([at(9, 2), at(9, 1), at(9, 0), at(8, 0)], RIGHT)


def test_usual_respawn(game):
    state = play(game, DEATH)
    assert state.snakes[0] == [at(0, 1), at(0, 0), at(1, 0)]
    assert state.directions[0] == RIGHT
    assert game.deaths.tolist() == [[1, 0, 0, 0, 0, 0]]
    assert game.rewards.tolist() == [[0.0] * 6]
    assert state.snakes[1] == [at(1, 6), at(2, 6), at(3, 6), at(4, 6)]
    assert state.last_directions == [RIGHT, UP, LEFT, LEFT, LEFT, LEFT]


def test_respawn_between_two_free_cells_of_a_row(game):
    """Quirk (a): left and right free; a broken body until the tail is dropped, the direction points at the tail."""
    state = play(game, DEATH | {2: BELOW, 3: LAST_ROW})
    assert state.snakes[0] == [at(0, 0), at(0, 1), at(0, 19)]
    assert state.directions[0] == LEFT
    game.step(torch.tensor([[LEFT, UP, RIGHT, RIGHT, LEFT, LEFT]]))
    assert game.deaths.sum() == 0
    assert game.snapshot(0).snakes[0] == [at(0, 19), at(0, 0), at(0, 1)]


def test_respawn_between_two_free_cells_of_a_column(game):
    """Quirk (a) with up and down free; when the broken snake eats, the tail stays where it was."""
    beans = [at(0, 19), *BEANS[1:]]
    state = play(game, DEATH | {2: ABOVE}, beans)
    assert state.snakes[0] == [at(0, 0), at(1, 0), at(9, 0)]
    assert state.directions[0] == UP
    game.step(torch.tensor([[LEFT, UP, RIGHT, LEFT, LEFT, LEFT]]))
    assert game.ate.tolist() == [[1, 0, 0, 0, 0, 0]]
    assert game.snapshot(0).snakes[0] == [at(0, 19), at(0, 0), at(1, 0), at(9, 0)]
    game.step(torch.tensor([[LEFT, UP, RIGHT, LEFT, LEFT, LEFT]]))
    assert game.snapshot(0).snakes[0] == [at(0, 18), at(0, 19), at(0, 0), at(1, 0)]


def test_respawn_on_the_seam_points_into_the_neck(game):
    """Quirk (b): going straight kills."""
    state = play(game, DEATH | {2: ABOVE, 3: BELOW})
    assert state.snakes[0] == [at(9, 0), at(0, 0), at(0, 19)]
    assert state.directions[0] == DOWN
    game.step(torch.tensor([[DOWN, RIGHT, RIGHT, RIGHT, LEFT, LEFT]]))
    assert game.deaths.tolist() == [[1, 0, 0, 0, 0, 0]]


PATH = [at(row, column if row % 2 == 0 else 19 - column) for row in range(10) for column in range(20)]
"""All cells, row by row to and fro."""


def chain(start: int, stop: int, beans: list[int]) -> GameState:
    """Snakes one behind the other on PATH[start:stop]: five of three segments, the rest is snake 5."""
    cuts = [*range(start, start + 16, 3), stop]
    return GameState([PATH[a:b] for a, b in itertools.pairwise(cuts)], beans, [LEFT] * 6, step=20)


def test_a_respawn_without_place_ends_the_game(game):
    """Quirk (c): snake 0 runs into the body at (0, 19) and the others follow; three cells are left, not connected."""
    state = chain(0, 197, PATH[197:])
    game.inject(0, state)
    game.step(torch.tensor([[LEFT] * 6]))
    after = game.snapshot(0)
    assert game.done.tolist() == [1]
    assert game.deaths.tolist() == [[1, 0, 0, 0, 0, 0]]
    assert after.snakes[0] == [] and after.scores[0] == -3
    assert after.snakes[1] == [2, 3, 4]
    assert after.beans[:3] == state.beans
    assert len(set(after.beans[3:])) == 2 and set(after.beans[3:]) < {at(0, 0), at(0, 1), at(9, 3)}
    assert game.features[0, 0, 0].count_nonzero() == 0
    game.step(torch.tensor([[UP] * 6]))
    assert game.snapshot(0) == after and game.done.tolist() == [1] and game.rewards.count_nonzero() == 0


def test_a_crowded_board_ends_the_game(game):
    """5 + total length > 200, though nobody dies; there are four free cells for five beans."""
    game.inject(0, chain(1, 197, []))
    game.step(torch.tensor([[LEFT] * 6]))
    after = game.snapshot(0)
    assert game.deaths.sum() == 0 and game.done.tolist() == [1]
    assert sorted(after.beans) == sorted(PATH[196:])
    game.inject(0, chain(1, 195, []))
    game.step(torch.tensor([[LEFT] * 6]))
    assert game.done.tolist() == [0]
    assert len(game.snapshot(0).beans) == 5 and set(game.snapshot(0).beans) < set(PATH[194:])


def test_two_heads_on_one_bean(game):
    left = [at(4, 5), at(4, 4), at(4, 3), at(4, 2), at(4, 1)]
    right = [at(4, 7), at(4, 8), at(4, 9), at(3, 9)]
    state = play(game, {1: (left, RIGHT), 4: (right, LEFT)}, [at(4, 6), *BEANS[1:]])
    assert game.ate.tolist() == [[0, 1, 0, 0, 0, 0]]
    assert game.deaths.tolist() == [[0, 1, 0, 0, 1, 0]]
    assert game.rewards.tolist() == [[0, 3 - 6 + 1, 0, 0, 3 - 4, 0]]
    assert state.beans[:4] == BEANS[1:] and len(state.beans) == 5
    assert state.snakes[1] == [at(0, 1), at(0, 0), at(1, 0)]
    assert state.snakes[4] == [at(0, 3), at(0, 2), at(1, 2)]


def test_head_to_head_of_three(game):
    moves = {0: ([at(3, 5), at(2, 5), at(1, 5)], DOWN), 2: ([at(4, 4), at(4, 3), at(4, 2)], RIGHT)}
    play(game, moves | {3: ([at(4, 6), at(4, 7), at(4, 8)], LEFT)})
    assert game.deaths.tolist() == [[1, 0, 1, 1, 0, 0]]


def test_a_tail_that_leaves_is_no_obstacle(game):
    follower = [at(4, 5), at(4, 4), at(4, 3)]
    leader = [at(4, 8), at(4, 7), at(4, 6)]
    state = play(game, {0: (follower, RIGHT), 1: (leader, RIGHT)})
    assert game.deaths.sum() == 0 and state.snakes[0][0] == at(4, 6)
    play(game, {0: (follower, RIGHT), 1: (leader, RIGHT)}, [at(4, 9), *BEANS[1:]])
    assert game.deaths.tolist() == [[1, 0, 0, 0, 0, 0]] and game.ate.tolist() == [[0, 1, 0, 0, 0, 0]]


def test_own_body(game):
    ring = [at(4, 4), at(4, 5), at(3, 5), at(3, 4)]
    play(game, {0: (ring, UP)})
    assert game.deaths.sum() == 0
    curl = [at(4, 4), at(4, 5), at(3, 5), at(3, 4), at(3, 3)]
    state = play(game, {0: (curl, UP)})
    assert game.deaths.tolist() == [[1, 0, 0, 0, 0, 0]] and game.rewards[0, 0] == 3 - 5
    assert state.snakes[0] == [at(0, 1), at(0, 0), at(1, 0)]
    played = set(itertools.chain.from_iterable(state.snakes))
    assert not played & set(curl) and len(played) == 18


def test_a_reversal_goes_one_of_three_ways():
    games = SnakesVec(600, left="external", right="external", autoreset=False)
    for n in range(600):
        games.inject(n, GameState([VICTIM, *PARKED[1:]], BEANS, [RIGHT, *[LEFT] * 5]))
    actions = torch.full((600, 6), LEFT, dtype=torch.int32)
    games.step(actions)
    heads = [games.snapshot(n).snakes[0][0] for n in range(600)]
    counts = {name: heads.count(at(4, 5) + move) for name, move in zip(ACTIONS, (-20, 20, -1, 1))}
    assert counts["left"] == 0 and sum(counts.values()) == 600
    assert min(counts["up"], counts["down"], counts["right"]) > 150
