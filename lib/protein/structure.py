"""What a structure file is read into: chains, named rejections, counts; and the options that change the content."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from lib.errors import UserError

# reason -> what it means; the text goes into the data report.
REASONS = {
    "unreadable": "not a structure file, or text that the format does not allow",
    "truncated_stream": "the gzip stream ends too early",
    "cut_record": "the text ends or breaks inside an atom record",
    "empty": "no atoms",
    "no_model": "a model was named but holds no atoms",
    "missing_ids": "the atom table lacks columns that identify chain, residue, atom or model",
    "no_protein": "atoms, but no protein polymer",
    "too_short": "polymer shorter than the minimum length",
    "too_long": "polymer longer than the maximum length",
    "ca_only": "only CA atoms: the model needs N, CA and C",
    "no_backbone": "one of N, CA, C, O is absent almost everywhere",
    "nan_coordinates": "coordinates that are no finite numbers",
    "duplicate_atoms": "the same atoms twice at different places",
    "no_assembly": "the file does not define the assembly that was asked for",
}


@dataclass(slots=True)
class Chain:
    """One polymer chain of amino acids; residues in file (mmCIF: entity) order."""

    id: str  # "<relative file name without extension>:<author chain name>", unique inside a data set
    file: str  # path relative to the root of the data set
    entry: str
    name: str  # author chain name
    coordinates: np.ndarray  # float32 (residues, 4, 3), angstrom; N, CA, C, O; absent atoms are 0
    present: np.ndarray  # uint8 (residues,), bits 0..3 = N, CA, C, O
    aa: np.ndarray  # uint8 (residues,), index into residues.ALPHABET
    confidence: np.ndarray  # uint8 (residues,), B factor or pLDDT, rounded and clipped
    is_plddt: bool
    numbers: np.ndarray  # int32 (residues,), author residue numbers
    insertions: dict[int, str]  # position -> insertion code, only where there is one
    copy_of: str = ""  # id of the chain that this one is an assembly copy of

    def __len__(self) -> int:
        return len(self.aa)


@dataclass(slots=True, frozen=True)
class Rejection:
    """Why a file (chain == "") or one chain of it was not taken."""

    file: str
    chain: str
    reason: str
    detail: str

    def __post_init__(self) -> None:
        assert self.reason in REASONS, self.reason


@dataclass(slots=True)
class FileResult:
    """Everything one file gave."""

    file: str
    chains: list[Chain] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)

    def reject(self, reason: str, detail: str, chain: str = "") -> None:
        self.rejections.append(Rejection(self.file, chain, reason, detail))


@dataclass(frozen=True)
class ReadOptions:
    """Choices that change what is read; `content_key` goes into the fingerprint of the cache."""

    model: str = "first"
    assembly: int | None = None  # None: the asymmetric unit as written
    ca_only: bool = False  # accept chains that hold CA atoms only
    min_length: int = 20  # residues
    max_chain_length: int | None = None  # residues
    strict: bool = False  # the caller stops at the first rejected file; does not change content

    def __post_init__(self) -> None:
        if self.model != "first":
            raise UserError(f"model {self.model!r}: only 'first' is known; use it")
        if self.min_length < 1:
            raise UserError(f"min_length {self.min_length}: expected at least 1; use 20 for ordinary training")
        if self.assembly is not None and self.assembly < 1:
            raise UserError(f"assembly {self.assembly}: expected 1 or more; assemblies are numbered from 1")
        if self.max_chain_length is not None and self.max_chain_length < self.min_length:
            raise UserError(
                f"max_chain_length {self.max_chain_length} is below min_length {self.min_length}; "
                f"raise it or leave it out"
            )

    def content_key(self) -> dict:
        values = dataclasses.asdict(self)
        del values["strict"]
        return values
