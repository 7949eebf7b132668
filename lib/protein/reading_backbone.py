"""From an AtomTable to backbone chains: polymers, conformers, presence bits, named rejections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.protein.atom_table import NOT_STATED, POLYMER, AtomTable
from lib.protein.conformers import Chosen, choose_conformers
from lib.protein.residues import BACKBONE, UNKNOWN, Kind, classify
from lib.protein.structure import Chain, FileResult, ReadOptions
from lib.protein.text_columns import unpack

BOND = 2.5  # angstrom; C-N above this is a chain break (specification, section 3)
PEPTIDE_BOND = 2.0  # angstrom; below this a HETATM residue is bonded into the chain
CA_STEP = 4.3  # angstrom; neighbouring CA atoms, for chains without N and C
ABSENT_SHARE = 0.9  # a backbone atom absent in more residues than this rejects the chain
CONFLICT_SHARE = 0.1  # duplicates at different places in more residues than this reject the chain

KINDS = {kind: number for number, kind in enumerate(Kind)}
AMINO = (KINDS[Kind.STANDARD], KINDS[Kind.MODIFIED])


@dataclass(slots=True)
class Residues:
    """Residues of all protein polymers of a file, chain by chain, in order."""

    chain: np.ndarray  # int64 (residues,)
    number: np.ndarray  # int32
    insertion: np.ndarray  # uint8
    kind: np.ndarray  # int64, KINDS
    aa: np.ndarray  # uint8
    coordinates: np.ndarray  # float32 (residues, 4, 3)
    present: np.ndarray  # uint8
    b_factor: np.ndarray  # float64
    chosen: Chosen


def backbone_chains(table: AtomTable, stem: str, result: FileResult, options: ReadOptions) -> None:
    """Add the chains of the table to the result, with rejections and counts."""
    counts = result.counts
    counts.update({key: value for key, value in table.counts.items() if value})
    kinds, aa = _classes(table.name)
    keep = _polymer_runs(table, kinds)
    caps = keep & (kinds == KINDS[Kind.CAP])
    keep &= ~caps & (kinds != KINDS[Kind.WATER])
    residues = _residues(table, keep, kinds, aa) if keep.any() else None
    proteins = _protein_chains(residues, table, counts) if residues is not None else []
    counts["caps_dropped"] += int(caps.sum())
    if not proteins:
        result.reject("no_protein", "no polymer of amino acids")
        return
    counts["plddt_files"] += int(table.is_plddt)
    scale = 100.0 if table.is_plddt and residues.b_factor.max() <= 1.0 else 1.0  # some predictors write 0..1
    names: dict[str, int] = {}
    for code, begin, end in proteins:
        name = table.chain_names[code]
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            counts["chains_renamed"] += 1
            name = f"{name}-{table.chain_keys[code]}"
        counts["residues_in"] += end - begin
        listed = table.listed[code]
        problem = _problem(residues, begin, end, options)
        if problem is not None:
            result.reject(*problem, chain=name)
            continue
        counts["seqres_missing"] += max(listed - (end - begin), 0) if listed else 0
        entry = table.entry or _entry_from_name(stem)
        result.chains.append(_chain(residues, begin, end, scale, (stem, result.file, entry, name), table.is_plddt))
        _count(residues, begin, end, counts)


def _entry_from_name(stem: str) -> str:
    """Entry of a file that states none: its name."""
    return stem.rsplit("/", 1)[-1]


def _classes(names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """KINDS number and amino acid index of each residue name word."""
    distinct, inverse = np.unique(names, return_inverse=True)
    classes = [classify(unpack(word)) for word in distinct.tolist()]
    kinds = np.array([KINDS[item.kind] for item in classes])
    aa = np.array([item.index for item in classes], np.uint8)
    return kinds[inverse], aa[inverse]


def _polymer_runs(table: AtomTable, kinds: np.ndarray) -> np.ndarray:
    """bool (runs,): belongs to a polymer. Where the file does not say so, geometry decides.

    ATOM records of amino acids and of unknown residues with a CA count; HETATM residues only if bonded, through others
    of their kind, to such a residue. A free amino acid is a ligand.
    """
    keep = table.polymer == POLYMER
    undecided = table.polymer == NOT_STATED
    if not undecided.any():
        return keep
    places = np.full((len(kinds), 3, 3), np.nan)  # N, CA, C of every run
    main = table.atom_kind < 3
    order = np.flatnonzero(main)[::-1]  # the first atom of a kind wins
    places[table.atom_run[order], table.atom_kind[order]] = table.coordinates[order]
    has_ca = np.isfinite(places[:, 1, 0])
    amino = (kinds == AMINO[0]) | (kinds == AMINO[1])
    unknown = (kinds == KINDS[Kind.OTHER]) & has_ca
    candidate = (undecided & (amino | unknown)) | keep
    keep |= undecided & ~table.het & (amino | unknown | (kinds == KINDS[Kind.CAP]))
    if not (candidate & ~keep).any():
        return keep
    order = np.flatnonzero(candidate)
    order = order[np.argsort(table.chain[order], kind="stable")]
    bond = np.linalg.norm(places[order[1:], 0] - places[order[:-1], 2], axis=1)
    step = np.linalg.norm(places[order[1:], 1] - places[order[:-1], 1], axis=1)
    linked = (bond < PEPTIDE_BOND) | (np.isnan(bond) & (step < CA_STEP))
    linked &= table.chain[order[1:]] == table.chain[order[:-1]]
    piece = np.concatenate(([0], np.cumsum(~linked)))
    anchored = np.bincount(piece, keep[order]) > 0
    keep[order] |= anchored[piece]
    return keep


def _residues(table: AtomTable, keep: np.ndarray, kinds: np.ndarray, aa: np.ndarray) -> Residues:
    """Join runs of one residue, order them by chain, and fill the backbone arrays."""
    runs = np.flatnonzero(keep)
    chain, identity = table.chain[runs], table.identity[runs]
    if (chain[1:] < chain[:-1]).any():
        order = np.argsort(chain, kind="stable")
        runs, chain, identity = runs[order], chain[order], identity[order]
    span = int(identity.max() - identity.min()) + 1
    keys = chain * span + (identity - identity.min())
    backward = keys[1:] <= keys[:-1]
    position = np.arange(len(runs))
    if backward.any():  # out of order: some residue may come twice
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if table.ordered:
            rank = np.arange(len(distinct))
        else:
            rank = np.empty(len(distinct), np.int64)
            rank[np.argsort(first)] = np.arange(len(distinct))
        position = rank[inverse]
        first_run = np.empty(len(distinct), np.int64)
        first_run[rank] = runs[first]
    else:
        first_run = runs
    count = len(first_run)
    residue_of_run = np.full(len(keep), -1)
    residue_of_run[runs] = position
    residue = residue_of_run[table.atom_run]
    atoms = np.flatnonzero(residue >= 0)
    residue = residue[atoms]
    fields = (table.atom_kind, table.altloc, table.atom_residue_name, table.occupancy, table.coordinates)
    chosen = choose_conformers(residue, *(values[atoms] for values in fields), count)
    kind, aa = kinds[first_run], aa[first_run]
    for index, word in chosen.residue_names.items():
        item = classify(unpack(word))
        kind[index], aa[index] = KINDS[item.kind], item.index
    residue, atoms = residue[chosen.atoms], atoms[chosen.atoms]
    atom_kind = table.atom_kind[atoms]
    coordinates = np.zeros((count, 4, 3), np.float32)
    coordinates[residue, atom_kind] = table.coordinates[atoms]
    has = np.zeros((count, 4), bool)
    has[residue, atom_kind] = True
    b_factor = np.zeros(count)
    b_factor[residue[::-1]] = table.b_factor[atoms[::-1]]  # the first atom's
    ca = atom_kind == 1
    b_factor[residue[ca]] = table.b_factor[atoms[ca]]
    present = np.packbits(has, axis=1, bitorder="little")[:, 0]
    number, insertion = table.number[first_run], table.insertion[first_run]
    return Residues(table.chain[first_run], number, insertion, kind, aa, coordinates, present, b_factor, chosen)


def _protein_chains(residues: Residues, table: AtomTable, counts) -> list[tuple[int, int, int]]:
    """(chain code, begin, end) of each chain that is a peptide by its residue names; others are counted."""
    edges = np.flatnonzero(np.diff(residues.chain)) + 1
    bounds = [0, *edges.tolist(), len(residues.chain)]
    amino = (residues.kind == AMINO[0]) | (residues.kind == AMINO[1])
    nucleotide = residues.kind == KINDS[Kind.NUCLEOTIDE]
    found = []
    for begin, end in zip(bounds, bounds[1:], strict=False):
        acids, bases = int(amino[begin:end].sum()), int(nucleotide[begin:end].sum())
        if acids > bases:
            found.append((int(residues.chain[begin]), begin, end))
        elif bases > 1:
            counts["other_polymer_chains"] += 1
    return found


def _problem(residues: Residues, begin: int, end: int, options: ReadOptions) -> tuple[str, str] | None:
    """(reason, detail) if the chain is to be rejected."""
    length = end - begin
    if length < options.min_length:
        return "too_short", f"{length} residues, minimum {options.min_length}"
    if options.max_chain_length is not None and length > options.max_chain_length:
        return "too_long", f"{length:,} residues, maximum {options.max_chain_length:,}"
    finite = np.isfinite(residues.coordinates[begin:end]).all(axis=2)
    if not finite.all():
        return "nan_coordinates", f"{int((~finite).sum())} backbone atoms without finite coordinates"
    conflicts = residues.chosen.conflicts
    places = np.unique(conflicts[(conflicts >= begin) & (conflicts < end)])
    if len(places) > CONFLICT_SHARE * length:
        return "duplicate_atoms", f"{len(places)} of {length} residues have the same backbone atom at two places"
    absent = [int((residues.present[begin:end] >> kind & 1 == 0).sum()) for kind in range(4)]
    lacking = [kind for kind in range(4) if absent[kind] > ABSENT_SHARE * length]
    if not lacking:
        return None
    if 1 not in lacking and 0 in lacking and 2 in lacking:
        return None if options.ca_only else ("ca_only", f"{length} residues with CA only; --ca_only accepts them")
    if options.ca_only and 1 not in lacking:
        return None
    names = ", ".join(f"{BACKBONE[kind]} absent in {absent[kind]}" for kind in lacking)
    return "no_backbone", f"{names} of {length} residues"


def _chain(residues: Residues, begin: int, end: int, scale: float, names: tuple[str, str, str, str], is_plddt) -> Chain:
    part = slice(begin, end)
    stem, file, entry, name = names
    insertion = residues.insertion[part]
    return Chain(
        id=f"{stem}:{name}",
        file=file,
        entry=entry,
        name=name,
        coordinates=residues.coordinates[part].copy(),
        present=residues.present[part].copy(),
        aa=residues.aa[part].copy(),
        confidence=np.clip(np.rint(residues.b_factor[part] * scale), 0, 255).astype(np.uint8),
        is_plddt=bool(is_plddt),
        numbers=residues.number[part].copy(),
        insertions={index: chr(insertion[index]) for index in np.flatnonzero(insertion).tolist()},
    )


def _count(residues: Residues, begin: int, end: int, counts) -> None:
    """Figures of one kept chain."""
    part = slice(begin, end)
    kind, aa, present = residues.kind[part], residues.aa[part], residues.present[part]
    chosen = residues.chosen
    xyz = residues.coordinates[part]
    gap = np.linalg.norm(xyz[1:, 0] - xyz[:-1, 2], axis=1) > BOND
    gap |= (present[1:] & 1 == 0) | (present[:-1] & 4 == 0)
    counts["residues_kept"] += end - begin
    counts["residues_x"] += int((aa == UNKNOWN).sum())
    counts["residues_incomplete"] += int((present != 15).sum())
    counts["modified_mapped"] += int(((kind == KINDS[Kind.MODIFIED]) & (aa != UNKNOWN)).sum())
    counts["insertion_codes"] += int((residues.insertion[part] != 0).sum())
    counts["breaks"] += int(gap.sum())
    for key, places in (("altlocs_resolved", chosen.altloc_residues), ("duplicate_atoms_repaired", chosen.repaired)):
        counts[key] += int(((places >= begin) & (places < end)).sum())
    counts["microheterogeneity"] += sum(begin <= index < end for index in chosen.residue_names)
