"""From an AtomTable to chains: which residues are a protein polymer, named rejections, counts."""

from __future__ import annotations

import numpy as np

from lib.protein.atom_table import NOT_STATED, POLYMER, AtomTable
from lib.protein.backbone_arrays import KINDS, Residues, join_runs, name_classes
from lib.protein.residues import BACKBONE, Kind
from lib.protein.structure import Chain, FileResult, ReadOptions

PEPTIDE_BOND = 2.0  # angstrom; below this a HETATM residue is bonded into the chain
CA_STEP = 4.3  # angstrom; neighbouring CA atoms, for chains without N and C
ABSENT_SHARE = 0.9  # a backbone atom absent in more residues than this rejects the chain
CONFLICT_SHARE = 0.1  # atoms at two places in more residues than this reject the chain
COUNTED = (
    "residues_x", "residues_incomplete", "modified_mapped", "insertion_codes", "altlocs_resolved",
    "duplicate_atoms_repaired", "microheterogeneity", "breaks",
)  # fmt: skip


def backbone_chains(table: AtomTable, stem: str, result: FileResult, options: ReadOptions) -> list[str]:
    """Add the chains of the table to the result, with rejections and counts; returns the assembly key of each chain."""
    counts = result.counts
    counts.update({key: value for key, value in table.counts.items() if value})
    kind_of_name, aa_of_name = name_classes(table)
    kinds = kind_of_name[table.name]
    keep = _polymer_runs(table, kinds)
    caps = keep & (kinds == KINDS[Kind.CAP])
    keep &= ~caps & (kinds != KINDS[Kind.WATER])
    counts["caps_dropped"] += int(caps.sum())
    residues = join_runs(table, keep, kind_of_name, aa_of_name) if keep.any() else None
    proteins = _protein_chains(residues, counts) if residues is not None else []
    if not proteins:
        result.reject("no_protein", "no polymer of amino acids")
        return []
    counts["plddt_files"] += int(table.is_plddt)
    confidence = _confidence(residues.b_factor, table.is_plddt)
    entry = table.entry or stem.rsplit("/", 1)[-1]
    used: set[str] = set()
    keys = []
    for begin, end, figures in proteins:
        code = int(residues.chain[begin])
        name = _unused(table.chain_names[code], table.chain_keys[code], used)
        counts["chains_renamed"] += name != table.chain_names[code]
        counts["residues_in"] += end - begin
        problem = _problem(figures, options)
        if problem is not None:
            result.reject(*problem, chain=name)
            continue
        counts["residues_kept"] += end - begin
        counts["seqres_missing"] += max(table.listed[code] - (end - begin), 0)
        for key in COUNTED:
            counts[key] += figures[key]
        chain = _chain(residues, confidence, begin, end)
        chain.id, chain.file, chain.entry, chain.name = f"{stem}:{name}", result.file, entry, name
        chain.is_plddt = table.is_plddt
        result.chains.append(chain)
        keys.append(table.chain_keys[code])
    return keys


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
    order = np.flatnonzero(table.atom_kind < 3)[::-1]  # the first atom of a kind wins
    places[table.atom_run[order], table.atom_kind[order]] = table.coordinates[order]
    amino = (kinds == KINDS[Kind.STANDARD]) | (kinds == KINDS[Kind.MODIFIED])
    unknown = (kinds == KINDS[Kind.OTHER]) & np.isfinite(places[:, 1, 0])
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


def _protein_chains(residues: Residues, counts) -> list[tuple[int, int, dict[str, int]]]:
    """(begin, end, figures) of each chain that is a peptide by its residue names; other polymers are counted."""
    begins = residues.begins.tolist()
    found = []
    for begin, end, figures in zip(begins, [*begins[1:], len(residues.aa)], residues.figures, strict=True):
        if figures["acids"] > figures["bases"]:
            found.append((begin, end, figures))
        elif figures["bases"] > 1:
            counts["other_polymer_chains"] += 1
    return found


def _confidence(b_factor: np.ndarray, is_plddt: bool) -> np.ndarray:
    """uint8 (residues,): B factor or pLDDT, rounded and clipped; pLDDT written as 0..1 becomes 0..100."""
    if is_plddt and b_factor.max() <= 1.0:
        b_factor = b_factor * 100.0
    return np.clip(np.rint(b_factor), 0, 255).astype(np.uint8)


def _unused(name: str, key: str, used: set[str]) -> str:
    """A chain name that no other chain of the file has; several polymers may share one author name."""
    chosen, number = name, 1
    while chosen in used:
        number += 1
        chosen = f"{name}-{key}" if number == 2 and key != name else f"{name}-{number}"
    used.add(chosen)
    return chosen


def _problem(figures: dict[str, int], options: ReadOptions) -> tuple[str, str] | None:
    """(reason, detail) if the chain is to be rejected."""
    length = figures["residues"]
    if length < options.min_length:
        return "too_short", f"{length} residues, minimum {options.min_length}"
    if options.max_chain_length is not None and length > options.max_chain_length:
        return "too_long", f"{length:,} residues, maximum {options.max_chain_length:,}"
    if figures["not_finite"]:
        return "nan_coordinates", f"{figures['not_finite']} backbone atoms without finite coordinates"
    if figures["conflicts"] > CONFLICT_SHARE * length:
        return "duplicate_atoms", f"{figures['conflicts']} of {length} residues have a backbone atom at two places"
    absent = [figures[f"no_{name.lower()}"] for name in BACKBONE]
    lacking = [name for name, number in zip(BACKBONE, absent, strict=True) if number > ABSENT_SHARE * length]
    if not lacking or (options.ca_only and "CA" not in lacking):
        return None
    if "CA" not in lacking and {"N", "C"} <= set(lacking):
        return "ca_only", f"{length} residues with CA only, N and C are needed too"
    numbers = ", ".join(f"{name} absent in {number}" for name, number in zip(BACKBONE, absent, strict=True) if number)
    return "no_backbone", f"{numbers} of {length} residues"


def _chain(residues: Residues, confidence: np.ndarray, begin: int, end: int) -> Chain:
    """Chain of residues begin..end; the names are filled in by the caller."""
    part = slice(begin, end)
    insertion = residues.insertion[part]
    return Chain(
        id="",
        file="",
        entry="",
        name="",
        coordinates=residues.coordinates[part].copy(),
        present=residues.present[part].copy(),
        aa=residues.aa[part].copy(),
        confidence=confidence[part].copy(),
        is_plddt=False,
        numbers=residues.number[part].copy(),
        insertions={index: chr(insertion[index]) for index in np.flatnonzero(insertion).tolist()},
    )
