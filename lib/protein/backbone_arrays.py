"""Residue runs and atoms of an AtomTable as backbone arrays: joined, ordered by chain, one conformer each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.protein.atom_table import AtomTable
from lib.protein.conformers import Chosen, choose_conformers
from lib.protein.residues import UNKNOWN, Kind, classify

BOND = 2.5  # angstrom; C-N above this is a chain break (specification, section 3)
KINDS = {kind: number for number, kind in enumerate(Kind)}
FIGURES = (
    "residues", "no_n", "no_ca", "no_c", "no_o", "not_finite", "conflicts", "acids", "bases", "residues_x",
    "residues_incomplete", "modified_mapped", "insertion_codes", "altlocs_resolved", "duplicate_atoms_repaired",
    "microheterogeneity", "breaks",
)  # fmt: skip


@dataclass(slots=True)
class Residues:
    """Residues of all polymers of a file, chain by chain, in order."""

    chain: np.ndarray  # int64 (residues,)
    number: np.ndarray  # int32
    insertion: np.ndarray  # uint8
    aa: np.ndarray  # uint8
    coordinates: np.ndarray  # float32 (residues, 4, 3)
    present: np.ndarray  # uint8
    b_factor: np.ndarray  # float64
    begins: np.ndarray  # int64 (chains,), first residue of each chain
    figures: list[dict[str, int]]  # one dict a chain, keys FIGURES


def name_classes(table: AtomTable) -> tuple[np.ndarray, np.ndarray]:
    """KINDS number and amino acid index of each residue name code."""
    classes = [classify(name) for name in table.residue_names]
    return np.array([KINDS[item.kind] for item in classes]), np.array([item.index for item in classes], np.uint8)


def join_runs(table: AtomTable, keep: np.ndarray, kind_of_name: np.ndarray, aa_of_name: np.ndarray) -> Residues:
    """Backbone arrays of the runs marked in `keep` (bool (runs,), at least one)."""
    first_run, residue_of_run = _order(table, np.flatnonzero(keep))
    count = len(first_run)
    residue = residue_of_run[table.atom_run]
    atoms = np.flatnonzero(residue >= 0)
    residue = residue[atoms]
    fields = (table.atom_kind, table.altloc, table.atom_name, table.occupancy, table.coordinates)
    chosen = choose_conformers(residue, *(values[atoms] for values in fields), count)
    name = table.name[first_run]
    name[list(chosen.residue_names)] = list(chosen.residue_names.values())
    residue, atoms = residue[chosen.atoms], atoms[chosen.atoms]
    kind = table.atom_kind[atoms]
    coordinates = np.zeros((count, 4, 3), np.float32)
    with np.errstate(over="ignore"):  # beyond float32 becomes inf and is rejected
        coordinates[residue, kind] = table.coordinates[atoms]
    has = np.zeros((count, 4), bool)
    has[residue, kind] = True
    b_factor = np.zeros(count)
    b_factor[residue[::-1]] = table.b_factor[atoms[::-1]]  # the first atom's, where there is no CA
    ca = np.flatnonzero(kind == 1)
    b_factor[residue[ca]] = table.b_factor[atoms[ca]]
    chain = table.chain[first_run]
    begins = np.concatenate(([0], np.flatnonzero(chain[1:] != chain[:-1]) + 1))
    residues = Residues(
        chain=chain,
        number=table.number[first_run],
        insertion=table.insertion[first_run],
        aa=aa_of_name[name],
        coordinates=coordinates,
        present=np.packbits(has, axis=1, bitorder="little")[:, 0],
        b_factor=b_factor,
        begins=begins,
        figures=[],
    )
    residues.figures = _figures(residues, has, kind_of_name[name], chosen)
    return residues


def _order(table: AtomTable, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First run of each residue in final order, and the residue of every run of the table (-1: none)."""
    chain, identity = table.chain[runs], table.identity[runs]
    if (chain[1:] < chain[:-1]).any():
        order = np.argsort(chain, kind="stable")
        runs, chain, identity = runs[order], chain[order], identity[order]
    lowest = identity.min()
    keys = chain * (identity.max() - lowest + 1) + (identity - lowest)
    residue_of_run = np.full(len(table.chain), -1)
    if (keys[1:] > keys[:-1]).all():
        residue_of_run[runs] = np.arange(len(runs))
        return runs, residue_of_run
    # Not in rising order: numbering may jump, and a residue may come in several runs.
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.arange(len(distinct))
    if not table.ordered:
        rank[np.argsort(first)] = np.arange(len(distinct))
    first_run = np.empty(len(distinct), np.int64)
    first_run[rank] = runs[first]
    residue_of_run[runs] = rank[inverse]
    return first_run, residue_of_run


def _figures(residues: Residues, has: np.ndarray, kind: np.ndarray, chosen: Chosen) -> list[dict[str, int]]:
    """Sums over each chain, keys FIGURES; has: bool (residues, 4); kind: KINDS of each residue."""
    count = len(residues.aa)
    table = np.zeros((len(FIGURES), count), np.int32)
    column = dict(zip(FIGURES, table, strict=True))
    column["residues"][:] = 1
    for index, name in enumerate(("no_n", "no_ca", "no_c", "no_o")):
        column[name][:] = ~has[:, index]
    column["not_finite"][:] = (~np.isfinite(residues.coordinates).all(axis=2)).sum(axis=1)
    column["conflicts"][chosen.conflicts] = 1
    column["acids"][:] = (kind == KINDS[Kind.STANDARD]) | (kind == KINDS[Kind.MODIFIED])
    column["bases"][:] = kind == KINDS[Kind.NUCLEOTIDE]
    column["residues_x"][:] = residues.aa == UNKNOWN
    column["residues_incomplete"][:] = residues.present != 15
    column["modified_mapped"][:] = (kind == KINDS[Kind.MODIFIED]) & (residues.aa != UNKNOWN)
    column["insertion_codes"][:] = residues.insertion != 0
    column["altlocs_resolved"][chosen.altloc_residues] = 1
    np.add.at(column["duplicate_atoms_repaired"], chosen.repaired, 1)
    column["microheterogeneity"][list(chosen.residue_names)] = 1
    with np.errstate(invalid="ignore", over="ignore"):
        step = residues.coordinates[1:, 0] - residues.coordinates[:-1, 2]
        apart = np.einsum("ij,ij->i", step, step) > BOND**2
    column["breaks"][1:] = apart | ~has[1:, 0] | ~has[:-1, 2]
    column["breaks"][residues.begins] = 0
    sums = np.add.reduceat(table, residues.begins, axis=1).T.tolist()
    return [dict(zip(FIGURES, values, strict=True)) for values in sums]
