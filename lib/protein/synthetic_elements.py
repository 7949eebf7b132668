"""Helices and strands as rigid bodies, and the library of loops between them. Angstrom and radians."""

from dataclasses import dataclass

import numpy as np

from lib.protein.synthetic_blueprint import FACE_LEVER, HELIX, HELIX_LENGTHS, RISE, STRAND, Blueprint
from lib.protein.synthetic_geometry import (
    BASIN_INDEX,
    LOCAL_CA,
    LOCAL_CB,
    Loops,
    beads,
    chain_frames,
    cross,
    draw_torsions,
    loop_frames,
    open_loops,
)

LIBRARY_LOOPS = 1000  # for each length and pair of neighbours
LONGEST_ELEMENT = HELIX_LENGTHS[1]
HELIX_RADIUS, HELIX_TURN = 2.3, np.deg2rad(100.0)  # of CA atoms, angstrom and radians per residue


@dataclass(slots=True)
class Elements:
    """All elements of a batch, each in the frame of its own first residue."""

    torsions: np.ndarray  # (chains, elements, residues, 2) phi, psi
    rotations: np.ndarray  # (chains, elements, residues, 3, 3)
    origins: np.ndarray  # (chains, elements, residues, 3)
    beads: np.ndarray  # (3, chains, elements, residues, 3) CA, CB, O
    points: np.ndarray  # (chains, elements, 4, 3) control points
    kinds: np.ndarray  # (chains, elements)
    lengths: np.ndarray  # (chains, elements); 0 where a chain has fewer elements


class Library:
    """Random loops for each key (length, element before, element after), drawn when the key is first asked for."""

    def __init__(self, rng: np.random.Generator):
        self.seed = int(rng.integers(2**62))
        self.known: dict[tuple[int, int, int], tuple[Loops, np.ndarray, np.ndarray]] = {}

    def get(self, key: tuple[int, int, int]) -> tuple[Loops, np.ndarray, np.ndarray]:
        """The loops of a key, and the frames at their ends: rotations (3 * loops, 3), origins (loops, 3)."""
        if key not in self.known:
            loops = open_loops(np.random.default_rng([self.seed, *key]), LIBRARY_LOOPS, *key)
            rotations, origins, _, _ = loop_frames(loops)
            self.known[key] = loops, rotations[:, -1].reshape(-1, 3), origins[:, -1].copy()
        return self.known[key]

    def best(self, key: tuple[int, int, int], points: np.ndarray, targets: np.ndarray, count: int) -> np.ndarray:
        """The `count` loops whose ends bring `points` (n, 4, 3) nearest to `targets` (n, 4, 3).  # (n, count)"""
        _, rotations, origins = self.get(key)
        points, targets = points.astype(np.float32), targets.astype(np.float32)
        energy = np.empty((len(points), len(origins)), np.float32)
        for index, (single, goal) in enumerate(zip(points, targets)):
            miss = (rotations @ single.T).reshape(len(origins), 12)  # (loops, 3 axes x 4 points)
            miss += np.repeat(origins, 4, axis=1)
            miss -= goal.T.reshape(12)
            energy[index] = np.einsum("lc,lc->l", miss, miss)
        return np.argpartition(energy, count, axis=1)[:, :count]


def build_elements(rng, blueprints: list[Blueprint]) -> Elements:
    most = max(len(blueprint.kinds) for blueprint in blueprints)
    kinds, lengths = np.zeros((len(blueprints), most), int), np.zeros((len(blueprints), most), int)
    for row, blueprint in enumerate(blueprints):
        kinds[row, : len(blueprint.kinds)], lengths[row, : len(blueprint.kinds)] = blueprint.kinds, blueprint.lengths
    basins = np.where(kinds == HELIX, BASIN_INDEX["helix"], BASIN_INDEX["strand"])
    basins = np.broadcast_to(basins[..., None], (*kinds.shape, LONGEST_ELEMENT))
    torsions, _, _ = draw_torsions(rng, basins)
    flat = torsions.reshape(-1, LONGEST_ELEMENT, 2)
    rotations, origins = chain_frames(flat[..., 0], flat[..., 1], np.full(flat.shape[:2], np.pi))
    points = _local_points(rotations, origins, kinds.reshape(-1), lengths.reshape(-1))
    shape = (*kinds.shape, LONGEST_ELEMENT)
    return Elements(
        torsions,
        rotations.reshape(*shape, 3, 3),
        origins.reshape(*shape, 3),
        beads(rotations, origins, flat[..., 1]).reshape(3, *shape, 3),
        points.reshape(*kinds.shape, *points.shape[1:]),
        kinds,
        lengths,
    )


def _local_points(rotations, origins, kinds, lengths) -> np.ndarray:
    """Control points of built elements: means of the first and last CA atoms, their middle, the face of a strand."""
    alpha = origins + rotations @ LOCAL_CA  # (n, residues, 3)
    index = np.arange(LONGEST_ELEMENT)
    window = np.where(kinds == HELIX, 4, 2)[:, None]
    inside = index < lengths[:, None]

    def mean(chosen):
        return (alpha * chosen[..., None]).sum(1) / np.maximum(chosen.sum(1), 1)[:, None]

    start, end = mean(inside & (index < window)), mean(inside & (index >= lengths[:, None] - window))
    outward = rotations @ (LOCAL_CB - LOCAL_CA) * (-1.0) ** index[:, None]
    outward = (outward * inside[..., None]).sum(1)
    outward -= (
        ((end - start) * outward).sum(1, keepdims=True)
        / (((end - start) ** 2).sum(1, keepdims=True) + 1e-9)
        * (end - start)
    )
    outward /= np.linalg.norm(outward, axis=1, keepdims=True) + 1e-9
    outward *= (kinds == STRAND)[:, None]
    middle = (start + end) / 2
    return np.stack([start, end, middle, middle + FACE_LEVER * outward], axis=1)


def superpose(points: np.ndarray, targets: np.ndarray):
    """Rotation and shift that bring `points` onto `targets` in the least squares sense (Kabsch).  # (n, 4, 3) each"""
    centre, goal = points.mean(1), targets.mean(1)
    u, _, vt = np.linalg.svd((points - centre[:, None]).transpose(0, 2, 1) @ (targets - goal[:, None]))
    flip = np.ones((len(points), 3))
    flip[:, 2] = np.linalg.det(u @ vt)
    rotation = (u * flip[:, None]) @ vt
    rotation = rotation.transpose(0, 2, 1)
    return rotation, goal - (rotation @ centre[..., None])[..., 0]


def ideal_alpha(kind: int, length: int, points: np.ndarray) -> np.ndarray:
    """Stand-in CA atoms of an element that is not placed yet, so that earlier loops keep out of its way."""
    axis = points[1] - points[0]
    axis /= np.linalg.norm(axis)
    along = points[2] + (np.arange(length) - (length - 1) / 2)[:, None] * RISE[kind] * axis
    if kind == STRAND:
        return along
    side = cross(axis, np.array([1.0, 0.3, 0.2]))
    side /= np.linalg.norm(side)
    turn = HELIX_TURN * np.arange(length)[:, None]
    return along + HELIX_RADIUS * (np.cos(turn) * side + np.sin(turn) * cross(axis, side))
