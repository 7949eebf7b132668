"""Entries of one or two chains from packed backbones, on the 0.01 angstrom grid of the cache.

Coordinates leave this module as integers in 0.01 angstrom. The middle of every chain's bounding box lies on the grid
too, so that centring and rounding in the cache change nothing and the sequence law sees the same numbers everywhere.
"""

import numpy as np

from lib.protein.synthetic_law import GRID

CONTACT = 5.2  # angstrom between the nearest CA atoms of two docked chains
ORIENTATIONS = 24  # tried for each pair
NEAR = 8.0  # angstrom; the orientation with the most CA pairs nearer than this is taken


def on_grid(atoms: np.ndarray, written: np.ndarray) -> np.ndarray:
    """Round one chain (residues, 4, 3) angstrom to int64 in 0.01 angstrom; `written` (residues,) will be in the file.

    Where the two ends of the bounding box of the written atoms add up to an odd number, the far end moves by 0.01.
    """
    units = np.rint(atoms / GRID).astype(np.int64)
    for axis in range(3):
        values = units[written][..., axis]
        if (values.min() + values.max()) % 2:
            edge = units[..., axis] == values.max()
            units[..., axis] += edge
    return units


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    """Uniform over rotations (from a normal quaternion).  # (3, 3)"""
    w, x, y, z = (quaternion := rng.normal(size=4)) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def centred(atoms: np.ndarray) -> np.ndarray:
    """With the mean of the CA atoms at the origin."""
    return atoms - atoms[:, 1].mean(0)


def _slide(fixed: np.ndarray, moving: np.ndarray) -> float:
    """Shift of `moving` along +x at which its nearest CA comes to CONTACT from `fixed`, coming from far away."""
    across = ((fixed[:, None, 1:] - moving[None, :, 1:]) ** 2).sum(-1)
    reach = np.sqrt(np.maximum(CONTACT**2 - across, 0.0)) + fixed[:, None, 0] - moving[None, :, 0]
    return float(reach[across < CONTACT**2].max(initial=-np.inf))


def _contacts(first: np.ndarray, second: np.ndarray) -> int:
    return int((((first[:, None] - second) ** 2).sum(-1) < NEAR**2).sum())


def dock(rng: np.random.Generator, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two different chains side by side, in the best of ORIENTATIONS random orientations."""
    best = (-1, None)
    fixed = centred(first)
    for _ in range(ORIENTATIONS):
        turned_first = fixed @ random_rotation(rng).T
        moving = centred(second) @ random_rotation(rng).T
        shift = _slide(turned_first[:, 1], moving[:, 1])
        if np.isfinite(shift):
            moved = moving + np.array([shift, 0.0, 0.0])
            best = max(
                best, (_contacts(turned_first[:, 1], moved[:, 1]), (turned_first, moved)), key=lambda found: found[0]
            )
    assert best[1] is not None, "two chains whose middles are aligned always meet"
    return best[1]


def dock_twofold(rng: np.random.Generator, chain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A chain placed beside the z axis, and its copy turned by 180 degrees about that axis."""
    best, flip = (-1, None), np.array([-1.0, -1.0, 1.0])
    for _ in range(ORIENTATIONS):
        turned = centred(chain) @ random_rotation(rng).T
        # With the chain at x + t and its copy at -x - t the gap along x grows by 2 t.
        shift = _slide(turned[:, 1] * flip, turned[:, 1]) / 2
        if np.isfinite(shift):
            moved = turned + np.array([shift, 0.0, 0.0])
            best = max(
                best, (_contacts(moved[:, 1], moved[:, 1] * flip), (moved, moved * flip)), key=lambda found: found[0]
            )
    assert best[1] is not None
    return best[1]
