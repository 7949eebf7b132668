"""Numbers and names of the 3v3 snakes game: board, actions, controllers, feature layouts. Imports nothing heavy.

A cell is `row * WIDTH + col`, origin top-left; the board is a torus. Actions and directions are 0..3 in the order of
ACTIONS everywhere. Snakes 0-2 are the left team (team 0), snakes 3-5 the right team (team 1).
"""

from lib.errors import UserError

HEIGHT = 10
WIDTH = 20
CELLS = HEIGHT * WIDTH
SNAKES = 6
TEAM = 3
BEANS = 5
STEPS = 200
START_LENGTH = 3

ACTIONS = ("up", "down", "left", "right")
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
OPPOSITE = (1, 0, 3, 2)
RESPAWN_ORDER = (3, 1, 0, 2)
"""The order in which the respawn search looks at neighbours: right, down, up, left."""

CONTROLLERS = {
    "external": 0,
    "random": 1,
    "level1": 2,
    "greedy": 3,
    "level3": 4,
    "level4": 5,
    "evasion": 6,
    "hunter": 7,
}
"""Who chooses the actions of a team; external: the caller. 1-6 are the original's scripted opponents, 7 is ours."""

FEATURES = {"team": 140, "jidi26": 26, "none": 0}
"""Feature layouts and their numbers per snake (docs in `features_team.py` and `features_jidi.py`)."""


def neighbour(cell: int, action: int) -> int:
    """The cell one step from `cell` in direction `action`, wrapping."""
    row, col = divmod(cell, WIDTH)
    down, right = MOVES[action]
    return (row + down) % HEIGHT * WIDTH + (col + right) % WIDTH


def controller_code(name: str) -> int:
    """The code of a controller name; UserError for an unknown one."""
    if name not in CONTROLLERS:
        raise UserError(f"unknown player {name!r}: expected one of {', '.join(CONTROLLERS)}")
    return CONTROLLERS[name]


def feature_count(name: str) -> int:
    """Numbers per snake of a feature layout; UserError for an unknown one."""
    if name not in FEATURES:
        raise UserError(f"unknown features {name!r}: expected one of {', '.join(FEATURES)}")
    return FEATURES[name]
