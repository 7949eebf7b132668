"""Constructed boards with outcomes worked out by hand, and properties that hold in every game."""

import random

import numpy as np
import pytest
import torch
from reference_boards import crowded_game, direction_of, walk
from reference_lockstep import Lockstep

from lib.snakes import GameState, SnakesVec

UP, DOWN, LEFT, RIGHT = range(4)
FAR_BEANS = [(8, 1), (8, 3), (8, 5), (8, 7), (8, 9)]


def cell(row: int, col: int) -> int:
    return row * 20 + col


def straight(row: int, col: int, direction: int, length: int = 3) -> list[int]:
    """A straight body whose head lies at (row, col) and that moves in `direction`."""
    return walk((row, col), (direction ^ 1, length - 1))


SPARE = [straight(6, 4 + 3 * k, DOWN) for k in range(6)]


def play(snakes: dict[int, list[int]], actions: dict[int, int], beans=FAR_BEANS, count: int = 1) -> SnakesVec:
    """One step from a board with the given snakes and, for the others, three cells each in rows 4 to 6."""
    bodies = [snakes.get(k, SPARE[k]) for k in range(6)]
    directions = [direction_of(body) for body in bodies]
    state = GameState(snakes=bodies, beans=[cell(*bean) for bean in beans], directions=directions, step=3)
    vec = SnakesVec(count, seed=4, left="external", right="external", autoreset=False)
    vec.reset()
    for slot in range(count):
        vec.inject(slot, state)
    row = [actions.get(k, directions[k]) for k in range(6)]
    vec.step(torch.tensor([row] * count, dtype=torch.int32))
    return vec


def first(tensor: torch.Tensor) -> list:
    return tensor[0].tolist()


def test_two_heads_on_one_bean():
    """The lower number eats, both die; the dead eater's reward counts its bean and its grown length."""
    vec = play({1: straight(2, 5, RIGHT, 5), 4: straight(2, 7, LEFT, 4)}, {}, [(2, 6), *FAR_BEANS[1:]])
    assert first(vec.ate) == [0, 1, 0, 0, 0, 0]
    assert first(vec.deaths) == [0, 1, 0, 0, 1, 0]
    assert first(vec.rewards) == [0, 3 - 6 + 1, 0, 0, 3 - 4, 0]
    assert first(vec.scores) == [0] * 6
    assert vec.snapshot(0).beans[:4] == [cell(*bean) for bean in FAR_BEANS[1:]]
    assert len(vec.snapshot(0).beans) == 5


@pytest.mark.parametrize(("mover", "other"), [(0, 1), (1, 0), (2, 5), (5, 2)])
def test_a_tail_leaves_its_cell_unless_its_snake_eats(mover, other):
    snakes = {mover: straight(2, 5, RIGHT), other: straight(2, 8, RIGHT)}
    assert first(play(snakes, {}).deaths) == [0] * 6
    vec = play(snakes, {}, [(2, 9), *FAR_BEANS[1:]])
    assert first(vec.deaths) == [int(k == mover) for k in range(6)]
    assert first(vec.ate) == [int(k == other) for k in range(6)]
    assert first(vec.rewards) == [int(k == other) for k in range(6)]


def test_a_snake_may_follow_its_own_tail():
    ring = walk((2, 5), (RIGHT, 1), (DOWN, 1), (LEFT, 1))
    assert first(play({0: ring}, {0: DOWN}).deaths) == [0] * 6
    assert first(play({0: walk((2, 5), (RIGHT, 1), (DOWN, 1), (LEFT, 2))}, {0: DOWN}).deaths) == [1, 0, 0, 0, 0, 0]


def test_the_board_has_no_walls():
    vec = play(
        {0: straight(0, 17, UP), 3: straight(3, 0, LEFT), 4: straight(9, 13, DOWN), 5: straight(7, 19, RIGHT)}, {}
    )
    heads = [vec.snapshot(0).snakes[k][:2] for k in (0, 3, 4, 5)]
    assert heads[0] == [cell(9, 17), cell(0, 17)] and heads[1] == [cell(3, 19), cell(3, 0)]
    assert heads[2] == [cell(0, 13), cell(9, 13)] and heads[3] == [cell(7, 0), cell(7, 19)]
    assert first(vec.deaths) == [0] * 6


def test_reversing_is_a_random_other_direction():
    vec = play({0: straight(2, 5, RIGHT)}, {0: LEFT}, count=3000)
    found = np.bincount([vec.snapshot(slot).directions[0] for slot in range(3000)], minlength=4)
    assert found[LEFT] == 0
    assert np.abs(found[[UP, DOWN, RIGHT]] / 3000 - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 3000)


def respawn(blocked: list[tuple[int, int]]) -> GameState:
    """Where snake 5 appears after running into snake 2, with beans on the given cells."""
    beans = blocked + FAR_BEANS[len(blocked) :]
    vec = play({2: straight(2, 9, RIGHT, 5), 5: straight(3, 8, UP)}, {5: UP}, beans)
    assert first(vec.deaths) == [0, 0, 0, 0, 0, 1]
    return vec.snapshot(0)


def test_usual_respawn():
    game = respawn([])
    assert game.snakes[5] == [cell(0, 1), cell(0, 0), cell(1, 0)]
    assert game.directions[5] == RIGHT


def test_respawn_with_free_cells_on_opposite_sides():
    """Quirk a: the body is not connected, and the direction points at its last segment."""
    game = respawn([(0, 1)])
    assert game.snakes[5] == [cell(0, 0), cell(1, 0), cell(9, 0)]
    assert game.directions[5] == UP


def test_respawn_on_the_seam():
    """Quirk b: the direction points into the neck, so going straight is death."""
    game = respawn([(0, 1), (1, 0)])
    assert game.snakes[5] == [cell(9, 0), cell(0, 0), cell(0, 19)]
    assert game.directions[5] == DOWN
    vec = SnakesVec(1, seed=1, left="external", right="external", autoreset=False)
    vec.reset()
    vec.inject(0, game)
    vec.step(torch.tensor([game.directions], dtype=torch.int32))
    assert first(vec.deaths)[5] == 1


def test_respawn_in_a_corridor():
    """One free neighbour: the search goes on behind it; the head is the first cell found."""
    game = respawn([(0, 1), (1, 0), (0, 19)])
    assert game.snakes[5] == [cell(0, 0), cell(9, 0), cell(9, 1)]
    assert game.directions[5] == UP


def test_respawn_skips_a_single_cell():
    game = respawn([(0, 1), (1, 0), (0, 19), (9, 0)])
    assert game.snakes[5] == [cell(0, 3), cell(0, 2), cell(1, 2)]
    assert game.directions[5] == RIGHT


def test_all_bodies_go_before_anyone_comes_back():
    """Two dead snakes on the top-left: both places are free for the respawn, in the order of their numbers."""
    vec = play({3: straight(0, 1, RIGHT), 0: straight(0, 3, LEFT)}, {})
    assert first(vec.deaths) == [1, 0, 0, 1, 0, 0]
    game = vec.snapshot(0)
    assert game.snakes[0] == [cell(0, 1), cell(0, 0), cell(1, 0)]
    assert game.snakes[3] == [cell(0, 3), cell(0, 2), cell(1, 2)]


def ring_step(lengths: list[int], gaps: list[str]) -> SnakesVec:
    """All snakes behind each other on one closed path over the whole board, each one step forward.

    gaps: what lies before the head of each snake, a letter a cell: b a bean, . nothing.
    """
    path = [cell(row, col if row % 2 == 0 else 19 - col) for row in range(10) for col in range(20)]
    assert sum(lengths) + sum(map(len, gaps)) == 200
    snakes, beans, directions, place = [], [], [], 0
    for length, gap in zip(lengths, gaps):
        snakes.append(path[place : place + length][::-1])
        place += length
        directions.append(direction_of([path[place % 200], snakes[-1][0]]))
        beans += [path[place + k] for k, letter in enumerate(gap) if letter == "b"]
        place += len(gap)
    vec = SnakesVec(1, seed=4, left="external", right="external", autoreset=False)
    vec.reset()
    own_directions = [direction_of(body) for body in snakes]
    vec.inject(0, GameState(snakes=snakes, beans=beans, directions=own_directions, step=3))
    vec.step(torch.tensor([directions], dtype=torch.int32))
    return vec


def test_a_board_of_195_segments_goes_on():
    vec = ring_step([34, 32, 32, 32, 32, 32], ["bbb", "", "", "", "", ".bb"])
    assert first(vec.ate) == [1, 0, 0, 0, 0, 0] and first(vec.deaths) == [0] * 6
    assert sum(first(vec.scores)) == 195 - 18 and vec.done.tolist() == [0]
    assert len(vec.snapshot(0).beans) == 5


def test_a_board_of_196_segments_ends_the_game():
    vec = ring_step([34, 32, 32, 32, 32, 32], ["bb", "", "", "", ".b", "bb"])
    assert first(vec.ate) == [1, 0, 0, 0, 0, 1] and first(vec.deaths) == [0] * 6
    assert sum(first(vec.scores)) == 196 - 18 and vec.done.tolist() == [1]
    assert len(vec.snapshot(0).beans) == 4


def test_no_place_to_come_back():
    """Quirk c: snake 5 runs into the tail of an eating snake; snake 4 has moved into the cell its tail left."""
    vec = ring_step([64, 32, 32, 32, 32, 3], ["bbbbb", "", "", "", "", ""])
    assert first(vec.deaths) == [0, 0, 0, 0, 0, 1] and first(vec.ate) == [1, 0, 0, 0, 0, 0]
    assert first(vec.rewards) == [1, 0, 0, 0, 0, 0] and first(vec.scores) == [62, 29, 29, 29, 29, -3]
    assert vec.done.tolist() == [1]
    game = vec.snapshot(0)
    assert game.snakes[5] == [] and len(game.beans) == 5


def test_the_cells_around_a_head():
    """A head in the corner (0, 0): its own body to the left, heads in two corners of the window, and a bean."""
    snakes = [straight(0, 0, RIGHT), straight(7, 17, RIGHT), SPARE[2], straight(3, 3, UP), *SPARE[4:]]
    beans = [cell(*bean) for bean in FAR_BEANS]
    vec = SnakesVec(1, left="external", right="external")
    vec.inject(0, GameState(snakes, beans, [direction_of(body) for body in snakes], step=3))
    vec.refresh()
    window = vec.features[0, 0, 0, 68:116].tolist()
    # Offsets (-3, -3), (0, -2), (0, -1), (3, 3); the centre, which would be number 24, is left out.
    assert [k for k in range(48) if window[k]] == [0, 22, 23, 47] and sum(window) == 4


def test_last_boards_of_games():
    """Boards without a free cell, with fewer than five beans, with a snake that found no place: also their features."""
    rng, actions_rng = random.Random(5), np.random.default_rng(5)
    lockstep = Lockstep(40, seed=6, autoreset=False)
    fewer_beans = 0
    for _ in range(20):
        for slot in range(40):
            lockstep.inject(slot, crowded_game(rng, 195))
        for _ in range(2):
            for slot, game in enumerate(lockstep.games):
                if game.events["game_over"]:
                    lockstep.inject(slot, crowded_game(rng, 195))
            lockstep.step(actions_rng.integers(0, 4, size=(40, 6)))
            fewer_beans += sum(len(game.beans) < 5 for game in lockstep.games)
    assert lockstep.differences == 0, "\n".join(lockstep.messages[:3])
    events = lockstep.events
    assert events["quirk_c"] >= 3 and events["board_full"] >= 6 and fewer_beans >= 3, (events, fewer_beans)


def test_rewards_add_up_to_the_score():
    vec = SnakesVec(300, seed=7, features="none", left="greedy", right="evasion")
    vec.reset()
    total = torch.zeros(300, 6)
    for _ in range(200):
        vec.step()
        total += vec.rewards
    assert bool(vec.done.all())
    assert torch.equal(total.int(), vec.final_scores)


def test_boards_stay_possible():
    """`inject` refuses bodies that are torn or overlap; every board of a game is accepted and has five beans."""
    vec = SnakesVec(20, seed=8, features="none", left="random", right="greedy")
    vec.reset()
    for _ in range(150):
        vec.step()
        for slot in range(0, 20, 5):
            game = vec.snapshot(slot)
            game.check()
            assert len(game.beans) == 5
            assert game.scores == vec.scores[slot].tolist() or game.step == 0
