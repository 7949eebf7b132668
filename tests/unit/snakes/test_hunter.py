"""The player "hunter": strength against the others on both sides, determinism, no use of anything but the board."""

import random

import numpy as np
import pytest
import torch
from reference_boards import crowded_game, direction_of, walk
from reference_lockstep import to_state

from lib.snakes import GameState, SnakesVec
from lib.snakes.match import play_match
from lib.snakes.players import ScriptedPlayer

UP, DOWN, LEFT, RIGHT = range(4)


@pytest.mark.parametrize(
    ("opponent", "least"), [("greedy", 0.88), ("evasion", 0.88), ("level4", 0.88), ("level3", 0.88), ("random", 0.99)]
)
def test_wins_on_both_sides(opponent, least):
    """About 93 % of 400 games a side; four standard deviations below that is 88 %."""
    sides = play_match(ScriptedPlayer("hunter"), ScriptedPlayer(opponent), 800, seed=5).per_side
    rates = [sides[side].wins / sides[side].games for side in ("left", "right")]
    assert min(rates) >= least, rates
    assert abs(rates[0] - rates[1]) < 0.08


def choices(states: list[GameState], *, seed: int = 0, left: str = "hunter", right: str = "hunter") -> np.ndarray:
    vec = SnakesVec(len(states), seed=seed, features="none", left=left, right=right)
    vec.reset()
    for slot, state in enumerate(states):
        vec.inject(slot, state)
    vec.step(torch.zeros((len(states), 6), dtype=torch.int32))
    return vec.actions.numpy().copy()


def swapped(state: GameState) -> GameState:
    return GameState(
        snakes=state.snakes[3:] + state.snakes[:3],
        beans=state.beans,
        directions=state.directions[3:] + state.directions[:3],
        last_directions=None,
        step=state.step,
        episode=state.episode,
    )


def boards(count: int) -> list[GameState]:
    rng = random.Random(3)
    return [to_state(crowded_game(rng, rng.choice((18, 40, 70, 110, 150, 190)))) for _ in range(count)]


def test_a_function_of_the_board():
    """Neither the seed, nor the slot, nor who plays the other side, nor the earlier content of the slot matters."""
    states = boards(300)
    expected = choices(states)
    np.testing.assert_array_equal(choices(states, seed=99), expected)
    np.testing.assert_array_equal(choices(states[::-1])[::-1], expected)
    np.testing.assert_array_equal(choices(states, right="random")[:, :3], expected[:, :3])


def test_same_choice_on_either_side():
    states = boards(300)
    expected = choices(states)
    mirrored = choices([swapped(state) for state in states])
    np.testing.assert_array_equal(np.roll(mirrored, 3, axis=1), expected)


def test_few_beans():
    """The choice stays a function of the board when beans are missing, whatever lay in the slot before."""
    states = boards(200)
    for slot, state in enumerate(states):
        del state.beans[slot % 5 :]
    expected = choices(states)
    np.testing.assert_array_equal(choices(states[::-1], seed=3)[::-1], expected)


def test_never_reverses():
    states = boards(300)
    actions = choices(states)
    directions = np.array([state.directions for state in states])
    assert not (actions == (directions ^ 1)).any()


def far_away(*bodies: list[int]) -> list[list[int]]:
    """The bodies, and coiled snakes out of the way to make six."""
    spare = [walk((9, 2 + 3 * k), (UP, 2)) for k in range(6)]
    return [*bodies, *spare[len(bodies) :]]


def state_of(snakes: list[list[int]], beans: list[int]) -> GameState:
    return GameState(snakes=snakes, beans=beans, directions=[direction_of(body) for body in snakes])


def cell(row: int, col: int) -> int:
    return row * 20 + col


def test_takes_the_short_way_across_the_edge():
    snake = walk((2, 1), (DOWN, 2))
    state = state_of(far_away(snake), [cell(2, 18), cell(5, 10), cell(5, 11), cell(5, 12), cell(5, 13)])
    assert choices([state])[0, 0] == LEFT


def test_does_not_enter_a_pocket_for_a_bean():
    """The bean lies in a dead end of one cell between own segments; without those the snake takes it."""
    beans = [cell(4, 6), cell(0, 15), cell(0, 16), cell(0, 18), cell(0, 19)]
    around = walk((4, 5), (DOWN, 1), (RIGHT, 2), (UP, 2), (LEFT, 1), (UP, 1), (LEFT, 6))
    straight = walk((4, 5), (DOWN, 2))
    pocket, open_board = choices([state_of(far_away(around), beans), state_of(far_away(straight), beans)])[:, 0]
    assert pocket in (UP, LEFT)
    assert open_board == RIGHT


def test_mates_do_not_take_the_same_cell():
    states = boards(400)
    actions = choices(states)
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
    together = 0
    for state, row in zip(states, actions):
        cells = [
            ((body[0] // 20 + moves[move][0]) % 10, (body[0] % 20 + moves[move][1]) % 20)
            for body, move in zip(state.snakes, row)
        ]
        together += len(set(cells[:3])) < 3
    assert together <= 8, together
