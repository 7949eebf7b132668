"""Ways around walls: where on a shortest way to its goal a ground unit turns first.

Both cells of a way may be anything that is walkable. A line is free if all of SAMPLES + 1 evenly spaced points of it
are on walkable ground. Corners are the walkable cells at which shortest ways bend: those with a blocked cell across a
diagonal, whose two common neighbours are walkable. (Lozano-Perez and Wesley, 1979: shortest ways among obstacles run
along free lines between corners.)
"""

import functools

import numpy as np

from lib.omagd.battle.terrain import HEIGHT, WIDTH, walkable

SAMPLES = 128
CELLS = WIDTH * HEIGHT
STRAIGHT = -1


@functools.cache
def turns(terrain: str) -> np.ndarray:
    """int16 [CELLS * CELLS]: at [from * CELLS + to] the corner to walk to first, STRAIGHT where the line is free.

    Cells are numbered y * WIDTH + x. STRAIGHT also where either cell is not walkable, or no way leads there. Of equally
    short ways that by the corner of the lowest number.
    """
    free = np.array(walkable(terrain)).reshape(-1)
    lines = free_lines(free)
    corners = np.array(corner_cells(free.reshape(HEIGHT, WIDTH)))
    places = np.stack([np.arange(CELLS) % WIDTH, np.arange(CELLS) // WIDTH], -1)
    lengths = np.linalg.norm(places[:, None] - places[corners], axis=-1)  # [cell, corner]
    lengths[~lines[:, corners]] = np.inf
    between = lengths[corners]
    for via in range(len(corners)):  # Floyd and Warshall
        between = np.minimum(between, between[:, via, None] + between[via])
    rest = (between[:, :, None] + lengths.T[None]).min(1)  # [corner, goal]: by at least one more line
    # A corner in which the unit stands leads nowhere.
    start = np.where(lengths == 0, np.inf, lengths)
    found = np.full((CELLS, CELLS), STRAIGHT, dtype=np.int16)
    for cell in np.flatnonzero(free):
        whole = start[cell][:, None] + rest
        bends = ~lines[cell] & np.isfinite(whole.min(0))
        found[cell, bends] = corners[np.round(whole, 6).argmin(0)][bends]
    return found.reshape(-1)


def free_lines(free: np.ndarray) -> np.ndarray:
    """bool [CELLS, CELLS]: whether both cells are walkable (bool [CELLS]) and the line between them is free."""
    cells = np.flatnonzero(free)
    x, y = cells % WIDTH, cells // WIDTH
    inside = np.ones((len(cells), len(cells)), dtype=bool)
    for k in range(1, SAMPLES):
        # Centres are at halves: whole numbers of 2 * SAMPLES-th parts, in which nothing is rounded.
        at_x = (2 * x[:, None] + 1) * (SAMPLES - k) + (2 * x[None, :] + 1) * k
        at_y = (2 * y[:, None] + 1) * (SAMPLES - k) + (2 * y[None, :] + 1) * k
        inside &= free[at_y // (2 * SAMPLES) * WIDTH + at_x // (2 * SAMPLES)]
    lines = np.zeros((CELLS, CELLS), dtype=bool)
    lines[np.ix_(cells, cells)] = inside
    return lines


def corner_cells(free: np.ndarray) -> list[int]:
    """The numbers of the corners of bool [HEIGHT, WIDTH], ascending."""
    wide = np.pad(free, 1)  # beyond the map nothing is walkable
    found = np.zeros_like(free)
    for dy in (-1, 1):
        for dx in (-1, 1):
            blocked = ~wide[1 + dy : 1 + dy + HEIGHT, 1 + dx : 1 + dx + WIDTH]
            beside = wide[1 : 1 + HEIGHT, 1 + dx : 1 + dx + WIDTH]
            above = wide[1 + dy : 1 + dy + HEIGHT, 1 : 1 + WIDTH]
            found |= free & blocked & beside & above
    return [int(cell) for cell in np.flatnonzero(found)]
