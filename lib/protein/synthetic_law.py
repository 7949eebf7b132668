"""The sequence law of the synthetic set: a residue's type given its backbone state, its burial and one other residue.

    p(sequence | backbone) = product over i of p(a_i | state_i, burial_i, a_parent(i))

State, burial and parent follow from coordinates alone. A residue has at most one parent, an earlier one, so the law is
a forest and every conditional is exact (lib.protein.synthetic_bounds). Angstrom; angles in degrees.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lib.protein.residues import ALPHABET

LETTERS = ALPHABET[:20]
STATES = ("helix", "strand", "polyproline", "left", "end")
HELIX_STATE, STRAND_STATE, POLYPROLINE_STATE, LEFT_STATE, END_STATE = range(5)
NO_PARENT = 20  # row of the table for residues without a parent
GRID = 0.01  # angstrom; the cache's resolution, and that of every generated coordinate
PEPTIDE_BOND = 2.5  # angstrom; a longer C-N distance is a chain break
PSI_HELIX = (-130.0, 50.0)  # degrees; helix lies between them, extended states outside
PHI_EXTENDED = -93.5  # degrees; below it strand, above it polyproline
BURIAL_REACH = 10.0  # angstrom between virtual CB atoms
BURIAL_EDGES = (10, 13, 16, 19, 22)  # neighbours; as many bins as edges, and one more
PARENT_REACH = 10.0  # angstrom between CA atoms
PARENT_SEPARATION = 6  # residues of the same chain between a residue and its parent, at least


def law_inputs(coordinates: np.ndarray, present: np.ndarray, chain: np.ndarray):
    """What the law needs of one entry (all chains of a file, in file order).

    Args:
        coordinates: float (residues, 4, 3) angstrom, as the reader or the cache returns them; any common shift.
        present: uint8 (residues,), bits 0..3 = N, CA, C, O, or bool (residues, 4).
        chain: integers (residues,), different for different chains.

    Returns:
        state int8 (residues,), burial int8 (residues,), parent int32 (residues,), -1 = none. A residue without a
        complete N, CA, C is in state "end", has burial 0, is nobody's neighbour and neither has nor is a parent.

    Coordinates are snapped to 0.01 angstrom relative to the first atom, so that file and cache give the same answer.
    """
    whole = _complete(present)
    atoms = np.asarray(coordinates, np.float64)
    anchor = atoms[np.argmax(whole), 1] if whole.any() else np.zeros(3)
    atoms = np.rint((atoms - anchor) / GRID) * GRID
    chain = np.asarray(chain)
    return _states(atoms, whole, chain), _burial(atoms, whole), _parents(atoms, whole, chain)


def has_gap(coordinates: np.ndarray, present: np.ndarray, chain: np.ndarray) -> bool:
    """Whether an entry lacks atoms, or residues between the ends of a chain (arguments as law_inputs)."""
    whole = _complete(present)
    return not whole.all() or bool(
        (~_bonded(np.asarray(coordinates, np.float64), whole, np.asarray(chain)))[_inner(chain)].any()
    )


def _complete(present: np.ndarray) -> np.ndarray:
    present = np.asarray(present)
    return present[:, :3].astype(bool).all(1) if present.ndim == 2 else (present & 7) == 7


def _inner(chain: np.ndarray) -> np.ndarray:
    """Links between residues of one chain.  # (residues - 1,)"""
    return np.asarray(chain)[1:] == np.asarray(chain)[:-1]


def _bonded(atoms, whole, chain) -> np.ndarray:
    near = np.linalg.norm(atoms[1:, 0] - atoms[:-1, 2], axis=-1) <= PEPTIDE_BOND
    return near & whole[1:] & whole[:-1] & _inner(chain)


def _dihedral(a, b, c, d) -> np.ndarray:
    first, axis, last = b - a, c - b, d - c
    left, right = np.cross(first, axis), np.cross(axis, last)
    length = np.linalg.norm(axis, axis=-1)
    return np.rad2deg(np.arctan2((first * right).sum(-1) * length, (left * right).sum(-1)))


def _states(atoms, whole, chain) -> np.ndarray:
    state = np.full(len(atoms), END_STATE, np.int8)
    bonded = _bonded(atoms, whole, chain)
    inside = np.flatnonzero(bonded[:-1] & bonded[1:]) + 1
    n, alpha, c = atoms[:, 0], atoms[:, 1], atoms[:, 2]
    phi = _dihedral(c[inside - 1], n[inside], alpha[inside], c[inside])
    psi = _dihedral(n[inside], alpha[inside], c[inside], n[inside + 1])
    extended = np.where(phi < PHI_EXTENDED, STRAND_STATE, POLYPROLINE_STATE)
    helical = (psi >= PSI_HELIX[0]) & (psi < PSI_HELIX[1])
    state[inside] = np.where(phi >= 0, LEFT_STATE, np.where(helical, HELIX_STATE, extended))
    return state


def _burial(atoms, whole) -> np.ndarray:
    b, c = atoms[:, 1] - atoms[:, 0], atoms[:, 2] - atoms[:, 1]
    beta = -0.58273431 * np.cross(b, c) + 0.56802827 * b - 0.54067466 * c + atoms[:, 1]
    near = _squares(beta) < BURIAL_REACH**2
    count = (near & whole).sum(1) - 1
    return np.where(whole, np.searchsorted(BURIAL_EDGES, count, side="right"), 0).astype(np.int8)


def _parents(atoms, whole, chain) -> np.ndarray:
    alpha = atoms[:, 1]
    square = _squares(alpha)
    index = np.arange(len(alpha))
    allowed = (index[:, None] - index >= PARENT_SEPARATION) | ((chain[:, None] != chain) & (index < index[:, None]))
    square = np.where(allowed & whole & whole[:, None], np.round(square, 6), np.inf)  # equal distances: the earlier one
    nearest = np.argmin(square, axis=1)
    return np.where(square[index, nearest] < PARENT_REACH**2, nearest, -1).astype(np.int32)


def _squares(points: np.ndarray) -> np.ndarray:
    """Squared distances without the cancellation of the matrix form.  # (residues, residues)"""
    return sum((points[:, axis, None] - points[:, axis]) ** 2 for axis in range(3))


@dataclass(frozen=True)
class Law:
    """p(a | state, burial, parent) = softmax(state_logits + level(burial) * burial_logits + pair_logits[parent])."""

    state_logits: tuple[tuple[float, ...], ...]  # (states, 20)
    burial_logits: tuple[float, ...]  # (20,) at level +1, the most buried bin; level -1 is the most exposed
    pair_logits: tuple[tuple[float, ...], ...]  # (20 parents, 20)

    @cached_property
    def table(self) -> np.ndarray:
        """Probabilities (states * burial bins, 21 parents, 20); row NO_PARENT is for residues without a parent."""
        bins = len(BURIAL_EDGES) + 1
        level = np.linspace(-1.0, 1.0, bins)
        own = np.array(self.state_logits)[:, None] + level[:, None] * np.array(self.burial_logits)  # (states, bins, 20)
        pair = np.vstack([np.array(self.pair_logits), np.zeros(20)])
        logits = own.reshape(-1, 1, 20) + pair
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    def to_dict(self) -> dict:
        """JSON-able description with everything that fixes the law."""
        return {
            "letters": LETTERS,
            "states": list(STATES),
            "psi_helix_degrees": list(PSI_HELIX),
            "phi_extended_degrees": PHI_EXTENDED,
            "burial_reach_angstrom": BURIAL_REACH,
            "burial_edges": list(BURIAL_EDGES),
            "parent_reach_angstrom": PARENT_REACH,
            "parent_separation_residues": PARENT_SEPARATION,
            "state_logits": [list(row) for row in self.state_logits],
            "burial_logits": list(self.burial_logits),
            "pair_logits": [list(row) for row in self.pair_logits],
        }


def cells(state: np.ndarray, burial: np.ndarray) -> np.ndarray:
    """Row of Law.table for each residue."""
    return state.astype(np.int64) * (len(BURIAL_EDGES) + 1) + burial


def draw_sequence(
    law: Law, state: np.ndarray, burial: np.ndarray, parent: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
    """Draw types uint8 (residues,) from the law; uniform (residues,) in [0, 1). Parents come before their children."""
    cumulative = law.table.cumsum(-1)
    cumulative[..., -1] = 1.0
    aa = np.empty(len(state), np.uint8)
    for index, (cell, above) in enumerate(zip(cells(state, burial).tolist(), parent.tolist())):
        row = cumulative[cell, NO_PARENT if above < 0 else aa[above]]
        aa[index] = np.searchsorted(row, uniform[index], side="right")
    return aa
