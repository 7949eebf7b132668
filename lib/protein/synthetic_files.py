"""Synthetic entries as PDB and mmCIF text: backbone atoms only, with the oddities that real files have.

A tenth of the entries carry one of FEATURES: alternate conformers, insertion codes, selenomethionine, or a stretch of
residues that is in the sequence records but has no atoms.
"""

import gzip
from dataclasses import dataclass

import numpy as np

from lib.protein.residues import BACKBONE, THREE_LETTER

FEATURES = ("altlocs", "insertion_codes", "selenomethionine", "missing_residues")
SUFFIXES = (".pdb", ".cif", ".pdb.gz", ".cif.gz")
METHIONINE = 10  # index in the alphabet
ELEMENTS = ("N", "C", "C", "O")
TITLE = "SYNTHETIC BACKBONE WITH A KNOWN SEQUENCE LAW, NOT A REAL PROTEIN"


@dataclass(slots=True)
class EntryChain:
    """One chain as it will be written."""

    name: str
    units: np.ndarray  # int64 (residues, 4, 3), 0.01 angstrom
    aa: np.ndarray  # uint8 (residues,)
    written: np.ndarray  # bool (residues,) False = no atoms in the file
    numbers: np.ndarray  # (residues,) author numbers
    insertions: list[str]  # one per residue, "" = none
    second: dict[int, np.ndarray]  # residue -> shift (3,) of its second conformer, 0.01 angstrom


@dataclass(slots=True)
class Entry:
    name: str
    feature: str  # "" or one of FEATURES
    chains: list[EntryChain]


def plain_chain(name: str, residues: int) -> EntryChain:
    """A chain without oddities; coordinates and types are filled in by the caller."""
    return EntryChain(
        name,
        np.zeros((0, 4, 3), np.int64),
        np.zeros(0, np.uint8),
        np.ones(residues, bool),
        np.arange(1, residues + 1),
        [""] * residues,
        {},
    )


def add_feature(rng: np.random.Generator, chain: EntryChain, feature: str) -> None:
    """Change numbering, conformers or written residues of `chain` in place; selenomethionine needs nothing here."""
    residues = len(chain.written)
    if feature == "missing_residues":
        length = int(rng.integers(3, 7))
        start = int(rng.integers(residues // 4, 3 * residues // 4 - length))
        chain.written[start : start + length] = False
    elif feature == "insertion_codes":
        start, count = int(rng.integers(residues // 4, residues // 2)), int(rng.integers(1, 4))
        for extra in range(1, count + 1):
            chain.insertions[start + extra] = "ABC"[extra - 1]
        chain.numbers[start + 1 :] -= np.minimum(np.arange(1, residues - start), count)
    elif feature == "altlocs":
        for residue in rng.choice(residues, size=int(rng.integers(3, 7)), replace=False):
            chain.second[int(residue)] = rng.integers(20, 50, 3) * rng.choice([-1, 1], 3)


def file_bytes(entry: Entry, suffix: str) -> bytes:
    """The file's content; gzip carries no time stamp, so equal entries give equal bytes."""
    text = pdb_text(entry) if suffix.startswith(".pdb") else cif_text(entry)
    data = text.encode("ascii")
    return gzip.compress(data, compresslevel=1, mtime=0) if suffix.endswith(".gz") else data


def _names(entry: Entry, chain: EntryChain) -> list[str]:
    names = [THREE_LETTER[index] for index in chain.aa]
    if entry.feature == "selenomethionine":
        names = ["MSE" if name == "MET" else name for name in names]
    return names


def _rows(entry: Entry, chain: EntryChain):
    """(residue index, residue name, atom, altloc, x, y, z, occupancy) of every atom in file order."""
    names, units = _names(entry, chain), chain.units.tolist()
    for residue in np.flatnonzero(chain.written).tolist():
        shift = chain.second.get(residue)
        for atom in range(4):
            x, y, z = units[residue][atom]
            if shift is None:
                yield residue, names[residue], atom, "", x, y, z, 1.0
            else:
                yield residue, names[residue], atom, "A", x, y, z, 0.6
                yield residue, names[residue], atom, "B", x + int(shift[0]), y + int(shift[1]), z + int(shift[2]), 0.4


def pdb_text(entry: Entry) -> str:
    """PDB format 3.3."""
    lines = [
        f"HEADER    SYNTHETIC                               01-JAN-00   {entry.name[-4:]:>4s}",
        f"TITLE     {TITLE}",
    ]
    for chain in entry.chains:
        names = _names(entry, chain)
        for row in range(0, len(names), 13):
            part = " ".join(f"{name:>3s}" for name in names[row : row + 13])
            lines.append(f"SEQRES {row // 13 + 1:3d} {chain.name} {len(names):4d}  {part}")
    serial = 0
    for chain in entry.chains:
        numbers, insertions, name, residue = chain.numbers.tolist(), chain.insertions, "", 0
        for residue, name, atom, altloc, x, y, z, occupancy in _rows(entry, chain):
            serial += 1
            record = "HETATM" if name == "MSE" else "ATOM  "
            lines.append(
                f"{record}{serial:5d}  {BACKBONE[atom]:<3s}{altloc or ' '}{name:>3s} {chain.name}{numbers[residue]:4d}"
                f"{insertions[residue] or ' '}   {x / 100:8.3f}{y / 100:8.3f}{z / 100:8.3f}{occupancy:6.2f} 20.00"
                f"          {ELEMENTS[atom]:>2s}"
            )
        serial += 1
        lines.append(f"TER   {serial:5d}      {name:>3s} {chain.name}{numbers[residue]:4d}{insertions[residue]}")
    return "\n".join([*lines, "END", ""])


ATOM_COLUMNS = (
    "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id label_entity_id label_seq_id "
    "pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy B_iso_or_equiv auth_seq_id auth_asym_id pdbx_PDB_model_num"
)


def cif_text(entry: Entry) -> str:
    """PDBx/mmCIF with the tables a reader needs to tell polymers: entity, entity_poly, entity_poly_seq, struct_asym."""
    lines = [
        f"data_{entry.name}",
        "#",
        f"_entry.id {entry.name}",
        f"_struct.entry_id {entry.name}",
        f"_struct.title '{TITLE}'",
    ]
    lines += _loop("entity", "id type", [f"{k} polymer" for k, _ in enumerate(entry.chains, 1)])
    polymers = [f"{k} polypeptide(L) {chain.name}" for k, chain in enumerate(entry.chains, 1)]
    lines += _loop("entity_poly", "entity_id type pdbx_strand_id", polymers)
    sequence = [
        f"{k} {number} {name} n"
        for k, chain in enumerate(entry.chains, 1)
        for number, name in enumerate(_names(entry, chain), 1)
    ]
    lines += _loop("entity_poly_seq", "entity_id num mon_id hetero", sequence)
    lines += _loop("struct_asym", "id entity_id", [f"{chain.name} {k}" for k, chain in enumerate(entry.chains, 1)])
    atoms, serial = [], 0
    for entity, chain in enumerate(entry.chains, 1):
        numbers, insertions = chain.numbers.tolist(), chain.insertions
        for residue, name, atom, altloc, x, y, z, occupancy in _rows(entry, chain):
            serial += 1
            atoms.append(
                f"{'HETATM' if name == 'MSE' else 'ATOM'} {serial} {ELEMENTS[atom]} {BACKBONE[atom]} {altloc or '.'} "
                f"{name} {chain.name} {entity} {residue + 1} {insertions[residue] or '?'} {x / 100:.3f} {y / 100:.3f} "
                f"{z / 100:.3f} {occupancy:.2f} 20.00 {numbers[residue]} {chain.name} 1"
            )
    lines += _loop("atom_site", ATOM_COLUMNS, atoms)
    return "\n".join([*lines, "#", ""])


def _loop(table: str, columns: str, rows: list[str]) -> list[str]:
    return ["#", "loop_", *(f"_{table}.{column}" for column in columns.split()), *rows]
