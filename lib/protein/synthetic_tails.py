"""The free ends of packed chains. Angstrom and radians."""

import numpy as np

from lib.protein.synthetic_geometry import (
    BASIN_INDEX,
    LOOP_BASINS,
    LOOP_WEIGHTS,
    OMEGA_SPREAD,
    beads,
    chain_frames,
    draw_torsions,
)

LONGEST_TAIL = 4
TAIL_CANDIDATES = 32
# The torsion that joins tail and element may leave the element's basin: else the next residue has one place only.
JOINING_PSI, JOINING_PHI = (-40.0, 140.0), (-63.0, -72.0, -120.0)  # degrees
JOINING_SPREAD = 0.1  # radians


def place_tails(rng: np.random.Generator, batch) -> None:
    """The least overlapping of TAIL_CANDIDATES random tails at either end of every chain of a packing.Batch."""
    rows = np.arange(len(batch.blueprints))
    for row, position in enumerate(batch.position):
        batch.beads[:, row, position:] = 1e3  # what was planned behind it and never placed
    shape = (len(rows), TAIL_CANDIDATES, LONGEST_TAIL + 1)
    index = np.arange(LONGEST_TAIL + 1)
    for at_end in (True, False):
        lengths = np.array([blueprint.loops[-1 if at_end else 0] for blueprint in batch.blueprints])
        torsions, omega, rotations, origins = _draw(rng, shape, at_end)
        if at_end:
            world, shift, first = batch.rotation, batch.origin, batch.position - 1
            inside = (index > 0) & (index <= lengths[:, None])
        else:
            world, shift, first = batch.first_rotation, batch.first_origin, lengths - LONGEST_TAIL
            inside = (index >= LONGEST_TAIL - lengths[:, None]) & (index < LONGEST_TAIL)
            back = rotations[..., -1, :, :].swapaxes(-1, -2)[:, :, None]
            origins = (back @ (origins - origins[..., -1:, :])[..., None])[..., 0]
            rotations = back @ rotations
        rotations = world[:, None, None] @ rotations
        origins = shift[:, None, None] + (world[:, None, None] @ origins[..., None])[..., 0]
        points = beads(rotations, origins, torsions[..., 1])
        best = np.argmin(batch.overlap(rows, first, points, inside), axis=1)
        _store(batch, at_end, lengths, torsions[rows, best], omega[rows, best], points[:, rows, best])


def _draw(rng, shape, at_end: bool):
    """Random tails with the residue they join: torsions (..., 2), omega, frames in that of their first residue."""
    basins = rng.choice([BASIN_INDEX[name] for name in LOOP_BASINS], size=shape, p=LOOP_WEIGHTS)
    torsions, _, _ = draw_torsions(rng, basins)
    residue, angle, choices = (0, 1, JOINING_PSI) if at_end else (LONGEST_TAIL, 0, JOINING_PHI)
    torsions[..., residue, angle] = rng.choice(np.deg2rad(choices), size=shape[:2])
    torsions[..., residue, angle] += np.clip(rng.normal(0.0, JOINING_SPREAD, shape[:2]), -0.2, 0.2)
    omega = np.pi + rng.normal(0.0, OMEGA_SPREAD, shape)
    flat = (values.reshape(-1, shape[-1]) for values in (torsions[..., 0], torsions[..., 1], omega))
    rotations, origins = chain_frames(*flat)
    return torsions, omega, rotations.reshape(*shape, 3, 3), origins.reshape(*shape, 3)


def _store(batch, at_end: bool, lengths, torsions, omega, points):
    for row, length in enumerate(lengths):
        # residues of the tail and of the element's end that it joins, in the chain and in the candidate
        at = batch.position[row] - 1 if at_end else 0
        start = 0 if at_end else LONGEST_TAIL - length
        batch.torsions[row, at : at + length, 1] = torsions[row, start : start + length, 1]
        batch.torsions[row, at + 1 : at + length + 1, 0] = torsions[row, start + 1 : start + length + 1, 0]
        batch.torsions[row, at + 1 : at + length + 1, 2] = omega[row, start + 1 : start + length + 1]
        where = slice(at + 1, at + length + 1) if at_end else slice(0, length)
        part = slice(1, length + 1) if at_end else slice(start, start + length)
        batch.beads[:, row, where] = points[:, row, part]
