"""The Jidi platform's view of a game: the state dict a submission gets, and the answer it has to give.

Facts from the platform's own game (jidiai/Competition_3v3snakes): key 1 is the ordered bean list, keys 2 to 7 the
bodies, head first, all cells [row, col]; last_direction names the directions before the last move (None in the first
state of a game); controlled_snake_index is 2 to 7. The answer is [[one-hot of up, down, left, right]].
"""

import random
from numbers import Real

from lib.errors import UserError
from lib.snakes.rules import ACTIONS, HEIGHT, SNAKES, WIDTH
from lib.snakes.state import GameState

FIRST_ID = 2
EXPECTED = "expected [[a, b, c, d]] as lists, with a single 1 and three 0, for up, down, left, right"


class Discrete:
    """The action space a submission is handed: `n` moves, `sample()` one of them."""

    n = len(ACTIONS)

    def sample(self) -> int:
        """A uniform move, from Python's own generator."""
        return random.randrange(self.n)

    def __repr__(self) -> str:
        return f"Discrete({self.n})"


def action_space() -> list[Discrete]:
    """What the platform passes as second argument of my_controller."""
    return [Discrete()]


def state_dict(state: GameState, snake: int) -> dict:
    """What the submission of `snake` (0 to 5) sees. All lists are copies: no later step changes them."""
    named = state.last_directions
    return {
        1: [_row_col(cell) for cell in state.beans],
        **{FIRST_ID + other: [_row_col(cell) for cell in state.snakes[other]] for other in range(SNAKES)},
        "board_width": WIDTH,
        "board_height": HEIGHT,
        "last_direction": None if named is None else [ACTIONS[direction] for direction in named],
        "controlled_snake_index": FIRST_ID + snake,
    }


def state_dicts(state: GameState) -> list[dict]:
    """The state dicts of all six snakes; none shares a list with another."""
    return [state_dict(state, snake) for snake in range(SNAKES)]


def encode_action(action: int) -> list[list[int]]:
    """0..3 as the platform's [[one-hot]]. UserError for another action."""
    if isinstance(action, bool) or action not in range(len(ACTIONS)):
        raise UserError(f"the action is {action!r}, expected 0 to 3 for {', '.join(ACTIONS)}")
    return [[int(move == action) for move in range(len(ACTIONS))]]


def encode_actions(actions) -> list[list[list[int]]]:
    """Six actions as the joint action of the platform's `step`."""
    if len(actions) != SNAKES:
        raise UserError(f"there are {len(actions)} actions, expected {SNAKES}: one for each snake")
    return [encode_action(int(action)) for action in actions]


def decode_action(returned) -> int:
    """The move 0..3 that a submission returned. UserError unless it is exactly [[one-hot of 4]].

    Lists or tuples: the platform calls `.index(1)`, which numpy arrays do not have.
    """
    if not isinstance(returned, list | tuple) or len(returned) != 1:
        raise UserError(f"it returned {describe(returned)}, {EXPECTED}")
    inner = returned[0]
    if not isinstance(inner, list | tuple) or len(inner) != len(ACTIONS):
        raise UserError(f"it returned {describe(returned)}, {EXPECTED}")
    if not all(isinstance(value, Real) and value in (0, 1) for value in inner) or sum(inner) != 1:
        raise UserError(f"it returned {describe(returned)}, {EXPECTED}")
    return list(inner).index(1)


def describe(value, limit: int = 80) -> str:
    """One line of at most about `limit` characters that tells what a value is."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[:limit]}... ({type(value).__name__})"


def _row_col(cell: int) -> list[int]:
    return [cell // WIDTH, cell % WIDTH]
