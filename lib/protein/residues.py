"""Amino acid alphabet and the mapping from residue names of structure files to it.

The parents of modified residues come from gemmi's residue table; names used by force fields (HIE, CYX, ...) are not in
that table and are listed here.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import gemmi

ALPHABET = "ACDEFGHIKLMNPQRSTVWYX"
UNKNOWN = 20  # index of X: kept as a residue, never a target of the loss
BACKBONE = ("N", "CA", "C", "O")

THREE_LETTER = (
    "ALA", "CYS", "ASP", "GLU", "PHE", "GLY", "HIS", "ILE", "LYS", "LEU", "MET",
    "ASN", "PRO", "GLN", "ARG", "SER", "THR", "VAL", "TRP", "TYR", "UNK",
)  # fmt: skip

# Protonation and bonding variants written by Amber, CHARMM, GROMACS and Rosetta.
FORCE_FIELD_PARENT = {
    "HIE": "HIS", "HID": "HIS", "HIP": "HIS", "HSD": "HIS", "HSE": "HIS", "HSP": "HIS", "HISD": "HIS", "HISE": "HIS",
    "HISH": "HIS", "HISA": "HIS", "HISB": "HIS", "HIS1": "HIS", "HIS2": "HIS", "CYX": "CYS", "CYM": "CYS", "CYZ": "CYS",
    "CYS2": "CYS", "CYSH": "CYS", "CYN": "CYS", "GLH": "GLU", "GLUP": "GLU", "GLUH": "GLU", "GLZ": "GLU", "ASH": "ASP",
    "ASPP": "ASP", "ASPH": "ASP", "ASZ": "ASP", "LYN": "LYS", "LYSN": "LYS", "LYSH": "LYS", "LSN": "LYS", "LYP": "LYS",
    "ARN": "ARG", "ARGN": "ARG", "ARGP": "ARG", "TYM": "TYR", "TYRH": "TYR", "QLN": "GLN",
}  # fmt: skip

# Terminal groups that files write as residues of their own; they are no amino acids.
CAPS = frozenset(
    ("ACE", "NH2", "NME", "NMA", "NHE", "NH3", "FOR", "ACT", "NAC", "CH3", "NH1", "MEE", "BOC", "CBX", "MYR", "PLM")
)


class Kind(Enum):
    """What a residue name can be in a file."""

    STANDARD = "standard"
    MODIFIED = "modified"
    CAP = "cap"
    NUCLEOTIDE = "nucleotide"
    WATER = "water"
    OTHER = "other"  # a ligand, an ion, or an unknown residue of a polymer


class ResidueClass(NamedTuple):
    """Kind of a residue name and the amino acid index it stands for as a polymer residue."""

    kind: Kind
    index: int


_STANDARD_INDEX = {name: index for index, name in enumerate(THREE_LETTER[:20])}


@lru_cache(maxsize=65536)
def classify(name: str) -> ResidueClass:
    """Class of a residue name (upper case, no blanks).

    The index is 0..19 for the standard twenty and for modified residues with a known parent, else 20 (X):
    selenocysteine, pyrrolysine, UNK, and every name that is not in the tables.
    """
    if name in _STANDARD_INDEX:
        return ResidueClass(Kind.STANDARD, _STANDARD_INDEX[name])
    if name in FORCE_FIELD_PARENT:
        return ResidueClass(Kind.MODIFIED, _STANDARD_INDEX[FORCE_FIELD_PARENT[name]])
    if name in CAPS:
        return ResidueClass(Kind.CAP, UNKNOWN)
    info = gemmi.find_tabulated_residue(name)
    if not info.found():
        # Amber writes terminal residues with a leading N or C (NALA, CGLY).
        if len(name) == 4 and name[0] in "NC" and name[1:] in _STANDARD_INDEX:
            return ResidueClass(Kind.MODIFIED, _STANDARD_INDEX[name[1:]])
        if len(name) == 4 and name[0] in "NC" and name[1:] in FORCE_FIELD_PARENT:
            return ResidueClass(Kind.MODIFIED, _STANDARD_INDEX[FORCE_FIELD_PARENT[name[1:]]])
        return ResidueClass(Kind.OTHER, UNKNOWN)
    if info.is_water():
        return ResidueClass(Kind.WATER, UNKNOWN)
    if info.is_nucleic_acid():
        return ResidueClass(Kind.NUCLEOTIDE, UNKNOWN)
    if info.is_amino_acid():
        letter = info.one_letter_code.upper()
        index = ALPHABET.find(letter) if letter.strip() else -1
        return ResidueClass(Kind.MODIFIED, index if 0 <= index < UNKNOWN else UNKNOWN)
    return ResidueClass(Kind.OTHER, UNKNOWN)


def residue_index(name: str) -> int | None:
    """Index into ALPHABET of a residue name seen in a polymer; None for what is no amino acid residue by its name.

    Standard and modified residues give their (parent's) index, selenocysteine, pyrrolysine, UNK and names that no table
    knows give 20 (X). Caps, water, nucleotides and tabulated ligands give None.
    """
    kind, index = classify(name.strip().upper())
    if kind in (Kind.STANDARD, Kind.MODIFIED):
        return index
    if kind is Kind.OTHER and not gemmi.find_tabulated_residue(name.strip().upper()).found():
        return UNKNOWN
    return None


def sequence_text(aa) -> str:  # aa: uint8 (residues,)
    """One-letter string of an array of amino acid indices."""
    return "".join(ALPHABET[index] for index in aa)
