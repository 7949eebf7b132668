"""What both file formats are brought to before any decision about chains: residue runs and their backbone atoms."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from lib.protein.text_columns import pack

BLANK = 0  # altloc and insertion code "none"
BACKBONE_NAMES = np.array([pack(name) for name in ("N", "CA", "C", "O")], np.uint64)

POLYMER, NOT_POLYMER, NOT_STATED = 1, 0, -1

ENTRY_PATTERN = re.compile(r"([0-9][A-Za-z0-9]{3}|pdb_[0-9a-z]{8})", re.IGNORECASE)
MODEL_ID_PATTERN = re.compile(r"(AF-[A-Z0-9]+-F[0-9]+|MA-[A-Z0-9-]+)", re.IGNORECASE)


class Unusable(Exception):
    """A whole file is rejected: `reason` is one of structure.REASONS."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(slots=True)
class AtomTable:
    """Atoms of the first model. A run is a stretch of consecutive atoms with one residue id."""

    # one value a run, in file order
    chain: np.ndarray  # int64, index into chain_names
    identity: np.ndarray  # int64, equal for runs of the same residue inside one chain
    number: np.ndarray  # int32, author number
    insertion: np.ndarray  # uint8, character code or BLANK
    name: np.ndarray  # int64, residue name of the first atom, index into residue_names
    het: np.ndarray  # bool, HETATM
    polymer: np.ndarray  # int8, POLYMER, NOT_POLYMER or NOT_STATED
    # one value a backbone atom
    atom_run: np.ndarray  # int64
    atom_kind: np.ndarray  # uint8, 0..3 = N, CA, C, O
    altloc: np.ndarray  # uint8, character code or BLANK
    atom_name: np.ndarray  # int64, residue name; differs from the run's at microheterogeneous residues
    occupancy: np.ndarray  # float64
    b_factor: np.ndarray  # float64
    coordinates: np.ndarray  # float64 (atoms, 3), angstrom
    residue_names: list[str]
    # one value a chain
    chain_names: list[str]  # author names
    chain_keys: list[str]  # names that assemblies refer to: author name (PDB) or label_asym_id (mmCIF)
    listed: list[int]  # residues of the chain's sequence record (SEQRES, entity_poly_seq), 0 where there is none
    # the file
    entry: str = ""  # archive or model id, "" where the file states none
    is_plddt: bool = False
    ordered: bool = False  # identity gives the order (mmCIF label_seq)
    counts: dict[str, int] = field(default_factory=dict)


def entry_id(text: str) -> str:
    """Upper-case archive id, model id as written, or "" for anything else (names like `model` would join strangers)."""
    text = text.strip()
    if ENTRY_PATTERN.fullmatch(text):
        return text.upper()
    return text if MODEL_ID_PATTERN.match(text) else ""


def backbone_kinds(names: np.ndarray) -> np.ndarray:
    """uint8 0..3 for N, CA, C, O, else 4, from left-aligned atom name words."""
    kinds = np.full(names.shape, 4, np.uint8)
    for kind, name in enumerate(BACKBONE_NAMES):
        kinds[names == name] = kind
    return kinds


def segment_codes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes 0.. in order of first appearance, and the index where each appears first.

    Meant for values that stay equal over long stretches.
    """
    starts = run_starts(values[1:] != values[:-1])
    code_of: dict[int, int] = {}
    first = []
    codes = []
    for value, start in zip(values[starts].tolist(), starts.tolist(), strict=True):
        if value not in code_of:
            code_of[value] = len(code_of)
            first.append(start)
        codes.append(code_of[value])
    lengths = np.diff(starts, append=len(values))
    return np.repeat(np.array(codes, np.int64), lengths), np.array(first, np.int64)


def run_starts(changed: np.ndarray) -> np.ndarray:
    """Index of the first row of each run, from bool `changed[i]`: row i + 1 differs from row i."""
    return np.concatenate(([0], np.flatnonzero(changed) + 1))
