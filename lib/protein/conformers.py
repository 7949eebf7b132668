"""One conformer per residue: altlocs, microheterogeneity and duplicated atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.protein.atom_table import BLANK

SAME_PLACE = 0.01  # angstrom; copies of an atom closer than this are the same record twice


@dataclass(slots=True)
class Chosen:
    """Atoms that are kept (indices into the atom arrays, at most one per residue and kind) and what was decided."""

    atoms: np.ndarray  # int64 (kept,)
    residue_names: dict[int, int]  # residue -> name code, where several names competed
    altloc_residues: np.ndarray  # residues with alternative locations
    repaired: np.ndarray  # residue of each dropped duplicate
    conflicts: np.ndarray  # residue of each dropped duplicate at a different place


def choose_conformers(
    residue: np.ndarray,  # int64 (atoms,)
    kind: np.ndarray,  # uint8 (atoms,), 0..3
    altloc: np.ndarray,  # uint8 (atoms,)
    name: np.ndarray,  # int64 (atoms,), code of the residue name
    occupancy: np.ndarray,  # float64 (atoms,)
    coordinates: np.ndarray,  # float64 (atoms, 3)
    residues: int,
) -> Chosen:
    """Pick the conformer with the highest summed backbone occupancy, ties by letter; never a mixture of two letters.

    Atoms without a letter belong to every conformer of their residue. Where residue types compete, the one with the
    highest summed occupancy is taken first, ties by its lowest letter.
    """
    slots = residue * 4 + kind
    everything = np.arange(len(residue))
    none = np.empty(0, np.int64)
    if not altloc.any() and (np.bincount(slots, minlength=1) <= 1).all():
        return Chosen(everything, {}, none, none, none)
    weight = np.where(np.isfinite(occupancy), np.maximum(occupancy, 0.0), 0.0)
    keep, names = _by_residue_type(residue, altloc, name, weight)
    lettered = np.zeros(residues, bool)
    lettered[residue[altloc != BLANK]] = True
    letter = _best_letter(residue[keep], slots[keep], altloc[keep], weight[keep], residues)
    keep = keep[(altloc[keep] == BLANK) | (altloc[keep] == letter[residue[keep]])]
    # The letter goes before an atom without letter in the same slot, then file order.
    order = keep[np.lexsort((keep, altloc[keep] == BLANK, slots[keep]))]
    repeated = np.concatenate(([False], slots[order][1:] == slots[order][:-1]))
    source = np.maximum.accumulate(np.where(repeated, 0, np.arange(len(order))))
    # A letter beside an unlettered atom in one slot is an alternative; only copies with equal letters are duplicates.
    duplicate = repeated & (altloc[order] == altloc[order[source]])
    moved = np.abs(coordinates[order] - coordinates[order[source]]).max(axis=1) > SAME_PLACE
    atoms = np.sort(order[~repeated])
    return Chosen(atoms, names, np.flatnonzero(lettered), residue[order[duplicate]], residue[order[duplicate & moved]])


def _by_residue_type(residue, altloc, name, weight) -> tuple[np.ndarray, dict[int, int]]:
    """Atoms of the chosen residue type, and the chosen name of each residue where types compete."""
    names = int(name.max()) + 1
    pairs, inverse = np.unique(residue * names + name, return_inverse=True)
    owner = pairs // names
    competing = np.concatenate(([False], owner[1:] == owner[:-1]))
    if not competing.any():
        return np.arange(len(residue)), {}
    total = np.round(np.bincount(inverse, weight), 6)
    lowest = np.full(len(pairs), 255)
    np.minimum.at(lowest, inverse, altloc)
    order = np.lexsort((lowest, -total, owner))
    first = order[np.concatenate(([True], owner[order][1:] != owner[order][:-1]))]
    winner = np.zeros(len(pairs), bool)
    winner[first] = True
    contested = np.unique(owner[competing])
    chosen = first[np.isin(owner[first], contested)]
    return np.flatnonzero(winner[inverse]), {int(owner[pair]): int(pairs[pair] % names) for pair in chosen}


def _best_letter(residue, slots, altloc, weight, residues: int) -> np.ndarray:
    """uint8 (residues,): the letter of the best conformer, BLANK where there is none.

    An atom without letter competes as a conformer of its own only where it shares a slot with a lettered one.
    """
    blank_slots = np.zeros(residues * 4, bool)
    blank_slots[slots[altloc == BLANK]] = True
    clash = (altloc != BLANK) & blank_slots[slots]
    contested = np.zeros(residues, bool)
    contested[residue[clash]] = True
    contested_slots = np.zeros(residues * 4, bool)
    contested_slots[slots[clash]] = True
    candidate = (altloc != BLANK) | (contested[residue] & contested_slots[slots])
    best = np.full(residues, BLANK, np.uint8)
    if not candidate.any():
        return best
    pairs, inverse = np.unique(residue[candidate] * 256 + altloc[candidate], return_inverse=True)
    total = np.round(np.bincount(inverse, weight[candidate]), 6)
    order = np.lexsort((pairs % 256, -total, pairs // 256))
    owner = pairs[order] // 256
    first = order[np.concatenate(([True], owner[1:] != owner[:-1]))]
    best[pairs[first] // 256] = pairs[first] % 256
    return best
