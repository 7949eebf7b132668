"""What the kernels of a map read and write: every array in one structure, and the places in those without names."""

from types import SimpleNamespace

import warp as wp

# Places in the words of a battle, then the last actions.
KEY_A, KEY_B, STEP, EPISODE, OVER = range(5)
LAST = 5
# Rows of numbers of the units of a battle; a healer's energy is where others have their cooldown.
X, Y, HEALTH, SHIELD, COOLDOWN, CALM = range(6)
TARGET, STRUCK, PATIENT = range(3)
# What is known at the end of a battle.
WON, LIMIT, DEAD_ALLIES, DEAD_ENEMIES = range(4)
DEFEAT, RUNS, DRAW, VICTORIOUS = -1, 0, 1, 2


def arrays_of(t: SimpleNamespace) -> type:
    """The structure `Arrays` of a map, from its `unit_tables`."""
    Floats, Ints = t.floats, t.ints

    @wp.struct
    class Arrays:
        """Everything a launch needs; shapes in `battle.py`."""

        words: wp.array2d(dtype=int)
        units: wp.array2d(dtype=Floats)
        aims: wp.array2d(dtype=Ints)
        actions: wp.array2d(dtype=int)
        avail: wp.array2d(dtype=wp.uint8)
        obs: wp.array2d(dtype=float)
        full_obs: wp.array2d(dtype=float)
        state: wp.array2d(dtype=float)
        visible: wp.array2d(dtype=wp.uint8)
        alive: wp.array2d(dtype=wp.uint8)
        final_obs: wp.array2d(dtype=float)
        final_full_obs: wp.array2d(dtype=float)
        final_state: wp.array2d(dtype=float)
        rewards: wp.array(dtype=float)
        returns: wp.array(dtype=float)
        final_returns: wp.array(dtype=float)
        done: wp.array(dtype=wp.uint8)
        info: wp.array2d(dtype=int)
        refused: wp.array(dtype=int)
        values: wp.array2d(dtype=float)
        choice: wp.array(dtype=float)
        turns: wp.array(dtype=wp.int16)
        seed_first: wp.uint32
        seed_second: wp.uint32
        first_battle: int
        limit: int
        autoreset: int
        keep_final: int
        reward: int
        swapped: int
        dt: float
        sight: float
        attack_range: float
        jitter: float

    return Arrays
