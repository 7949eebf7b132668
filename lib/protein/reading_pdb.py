"""PDB text to an AtomTable, by columns.

Only columns 1-66 of ATOM and HETATM records are looked at, so the entry id and serial number that old files carry in
columns 73-80 do no harm, and a calcium is told from a CA atom by the alignment of its name. Format: wwPDB 3.3.
"""

from __future__ import annotations

import re

import numpy as np

from lib.protein.atom_table import (
    BLANK,
    NOT_POLYMER,
    NOT_STATED,
    POLYMER,
    AtomTable,
    Unusable,
    backbone_kinds,
    entry_id,
    run_starts,
)
from lib.protein.residues import Kind, classify
from lib.protein.text_columns import TextColumns, pack, parse_integers, parse_numbers, repaired, unpack

ATOM, HETATM, TER = (np.uint64(pack(name)) for name in ("ATOM  ", "HETATM", "TER"))
BLANK_WORD = np.uint64(0x20)
COORDINATES_END = 54  # columns; shorter atom records are cut
FIELDS_END = 66  # end of the B factor
# aligned names of columns 13-16 -> 0..3
ALIGNED_NAMES = np.array([pack(name) for name in (" N  ", " CA ", " C  ", " O  ")], np.uint64)
LEGACY_COLUMNS = re.compile(rb"[0-9][A-Z0-9]{3} *[0-9]+")
OTHER_RECORDS = re.compile(rb"^(HEADER|TITLE|COMPND|REMARK|CRYST1|SEQRES|MODEL|END|TER|MASTER|EXPDTA|AUTHOR)", re.MULTILINE)
PREDICTION_TITLE = re.compile(rb"^TITLE.*ALPHAFOLD.*PREDICTION", re.MULTILINE)
HYBRID36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def read_pdb(text: bytes) -> AtomTable:
    """Atoms of the first model. Raises Unusable with a named reason."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    body, models = _first_model(text)
    columns = TextColumns(body)
    newlines = np.flatnonzero(columns.bytes[: len(body)] == ord("\n"))
    starts = np.concatenate(([0], newlines + 1))
    ends = np.concatenate((newlines, [len(body)]))
    records = columns.first(starts, 6)
    het_line = records == HETATM
    lines = np.flatnonzero((records == ATOM) | het_line)
    if not len(lines):
        _refuse_without_atoms(text, models)
    begin = starts[lines]
    length = ends[lines] - begin
    _refuse_cut(body, lines, length, starts, complete=len(body) < len(text))
    header = body[: begin[0]]

    identity = columns.first(begin + 20, 7)  # chain (21-22), number (23-26), insertion code (27)
    ter_rows = np.searchsorted(lines, np.flatnonzero(records & np.uint64(0xFFFFFF) == TER))
    changed = identity[1:] != identity[:-1]
    inner = ter_rows[(ter_rows > 0) & (ter_rows < len(lines))]
    changed[inner - 1] = True
    first = run_starts(changed)

    atom_words = columns.words(begin + 12)  # atom name, altloc, residue name
    kinds, shifted = _kinds(atom_words)
    rows = np.flatnonzero(kinds < 4)
    run_of_row = np.cumsum(np.concatenate(([0], changed)))
    run_identity = identity[first]
    run_name, chain_words = _names(columns, begin[first], run_identity)
    atom_name, _ = _names(columns, begin[rows], identity[rows])
    chain, chain_words = _first_seen_codes(chain_words)
    chain_names = [unpack(word) or "_" for word in chain_words]
    ter_runs = run_of_row[ter_rows[ter_rows > 0] - 1]
    altloc = (atom_words[rows] >> np.uint64(32) & np.uint64(0xFF)).astype(np.uint8)
    altloc[altloc == ord(" ")] = BLANK
    insertion = (run_identity >> np.uint64(48)).astype(np.uint8)
    insertion[insertion == ord(" ")] = BLANK
    number = _residue_numbers(run_identity)
    xyz, occupancy, b_factor = _measurements(columns, begin[rows], length[rows])
    listed, listed_names = _sequence_records(header)
    het = het_line[lines[first]]
    return AtomTable(
        chain=chain,
        identity=number.astype(np.int64) * 256 + insertion,
        number=number,
        insertion=insertion,
        name=run_name,
        het=het,
        polymer=_polymer(chain, het, run_name, ter_runs, listed_names),
        atom_run=run_of_row[rows],
        atom_kind=kinds[rows],
        altloc=altloc,
        atom_residue_name=atom_name,
        occupancy=occupancy,
        b_factor=b_factor,
        coordinates=xyz,
        chain_names=chain_names,
        chain_keys=chain_names,
        listed=[listed.get(name, 0) for name in chain_names],
        entry=entry_id(header[62:66].decode("latin-1")) if header.startswith(b"HEADER") else "",
        is_plddt=PREDICTION_TITLE.search(header) is not None,
        counts={
            "models_dropped": max(models - 1, 0),
            "legacy_column_files": int(_has_legacy_columns(body, begin)),
            "shifted_name_files": int(shifted),
        },
    )


def _first_model(text: bytes) -> tuple[bytes, int]:
    """Text up to the end of the first model, and the number of models."""
    end = text.find(b"\nENDMDL")
    first = 0 if text.startswith(b"MODEL ") else text.find(b"\nMODEL ")
    second = text.find(b"\nMODEL ", first + 1) if first >= 0 else -1
    stops = [position + 1 for position in (end, second) if position >= 0]
    models = text.count(b"\nMODEL ") + text.startswith(b"MODEL ")
    return (text[: min(stops)] if stops else text), models


def _refuse_without_atoms(text: bytes, models: int) -> None:
    if not text.strip():
        raise Unusable("empty", "no text")
    if models:
        raise Unusable("no_model", "the first model holds no atom records")
    if OTHER_RECORDS.search(text):
        raise Unusable("empty", "PDB records, but no ATOM or HETATM record")
    raise Unusable("unreadable", f"{len(text):,} bytes without any PDB record")


def _refuse_cut(body: bytes, lines: np.ndarray, length: np.ndarray, starts: np.ndarray, complete: bool) -> None:
    """Raise for atom records that end early. `complete`: text follows behind the body, so its end is no cut."""
    short = np.flatnonzero(length < COORDINATES_END)
    if len(short):
        place = "the last atom record" if short[0] == len(lines) - 1 else f"the atom record in line {lines[short[0]] + 1}"
        raise Unusable("cut_record", f"{place} ends at column {length[short[0]]}, coordinates end at {COORDINATES_END}")
    if complete or body.endswith(b"\n"):
        return
    tail = body[starts[-1] :]
    if lines[-1] == len(starts) - 1:
        if length[-1] < FIELDS_END and len(length) > 1 and length[:-1].min() > length[-1]:
            raise Unusable("cut_record", f"the text ends in column {length[-1]} of an atom record")
    elif 0 < len(tail) < 6 and (b"ATOM  ".startswith(tail) or b"HETATM".startswith(tail)):
        raise Unusable("cut_record", f"the text ends in a record name ({tail.decode('latin-1')!r})")


def _kinds(atom_words: np.ndarray) -> tuple[np.ndarray, bool]:
    """0..3 for backbone atoms by their aligned names, else 4; and whether the names were found shifted to the left."""
    names = atom_words & np.uint64(0xFFFFFFFF)
    kinds = np.full(names.shape, 4, np.uint8)
    for kind, aligned in enumerate(ALIGNED_NAMES):
        kinds[names == aligned] = kind
    if (kinds == 1).any():
        return kinds, False
    # Some programs write names from column 13 on. Without any aligned CA in the file, take those, except in the ions
    # that carry the same name as residue (calcium).
    residue = _left_aligned(atom_words >> np.uint64(40))
    left = backbone_kinds(_left_aligned(names))
    left[residue == np.uint64(pack("CA"))] = 4
    return (left, True) if (left == 1).any() else (kinds, False)


def _names(columns: TextColumns, begin: np.ndarray, identity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residue name words and chain name words of some atom records."""
    names = columns.first(begin + 17, 3)
    chains = identity & np.uint64(0xFFFF)
    wide = np.flatnonzero((chains & np.uint64(0xFF)) != BLANK_WORD)
    if len(wide):
        # Column 21 holds either the fourth letter of a residue name or the first of a two-letter chain name.
        four = columns.first(begin[wide] + 17, 4)
        for word in np.unique(four).tolist():
            if classify(unpack(word)).kind is not Kind.OTHER:
                members = wide[four == np.uint64(word)]
                names[members] = np.uint64(word)
                chains[members] = chains[members] & np.uint64(0xFF00) | BLANK_WORD
    return _left_aligned(names), chains


def _left_aligned(words: np.ndarray) -> np.ndarray:
    """Words of up to four characters without leading and trailing blanks."""
    for _ in range(3):
        words = np.where(words & np.uint64(0xFF) == BLANK_WORD, words >> np.uint64(8), words)
    for position in (3, 2, 1):
        last = words >> np.uint64(8 * position)
        words = np.where(last == BLANK_WORD, words & np.uint64((1 << (8 * position)) - 1), words)
    return words


def _first_seen_codes(words: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Codes 0.. in order of first appearance, and the distinct words in that order."""
    distinct, first, inverse = np.unique(words, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[inverse], distinct[order].tolist()


def _residue_numbers(identity: np.ndarray) -> np.ndarray:
    """int32 numbers of columns 23-26, with the hybrid-36 code for numbers above 9999."""
    field = identity >> np.uint64(16) & np.uint64(0xFFFFFFFF)
    values, bad = parse_integers(field << np.uint64(32))
    for index in np.flatnonzero(bad).tolist():
        values[index] = _hybrid36(unpack(field[index]))
    return values.astype(np.int32)


def _hybrid36(text: str) -> int:
    """Number of a four-character hybrid-36 field ("A000" is 10000). Raises Unusable."""
    upper = text.upper()
    if len(text) == 4 and text[0].isalpha() and text in (upper, text.lower()) and all(c in HYBRID36 for c in upper):
        value = 0
        for character in upper:
            value = value * 36 + HYBRID36.index(character)
        offset = 10 * 36**3 - 10**4 if text == upper else -16 * 36**3 - 10**4
        return value - offset
    if not text:
        raise Unusable("missing_ids", "atom records without residue number")
    try:
        return int(text)
    except ValueError:
        raise Unusable("unreadable", f"residue number {text!r} in columns 23-26") from None


def _measurements(columns: TextColumns, begin: np.ndarray, length: np.ndarray):
    """Coordinates (atoms, 3), occupancies and B factors; NaN where the field is no number."""
    places = begin[:, None] + np.array([30, 38, 46])
    xyz, bad = parse_numbers(columns.words(places))
    text = columns.text
    repaired(xyz, bad, lambda index: text[places.flat[index] : places.flat[index] + 8])
    sixth = np.uint64(16)  # six characters, right-aligned
    occupancy, bad = parse_numbers(columns.words(begin + 54) << sixth)
    bad |= length < 60
    repaired(occupancy, bad, lambda index: text[begin[index] + 54 : begin[index] + min(length[index], 60)])
    occupancy[np.isnan(occupancy)] = 1.0  # absent
    b_factor, bad = parse_numbers(columns.words(begin + 60) << sixth)
    bad |= length < FIELDS_END
    repaired(b_factor, bad, lambda index: text[begin[index] + 60 : begin[index] + min(length[index], FIELDS_END)])
    b_factor[np.isnan(b_factor)] = 0.0
    return xyz, occupancy, b_factor


def _sequence_records(header: bytes) -> tuple[dict[str, int], set[str]]:
    """Residues per chain in SEQRES, and all residue names listed there."""
    lengths: dict[str, int] = {}
    names: set[str] = set()
    if b"\nSEQRES" not in header and not header.startswith(b"SEQRES"):
        return lengths, names
    for line in header.split(b"\n"):
        if line.startswith(b"SEQRES"):
            text = line.decode("latin-1")
            if text[13:17].strip().isdigit():
                lengths.setdefault(text[10:12].strip() or "_", int(text[13:17]))
            names.update(text[19:70].split())
    return lengths, names


def _has_legacy_columns(body: bytes, begin: np.ndarray) -> bool:
    """Entry id and serial number in columns 73-80, judged by the first, middle and last atom record."""
    places = (int(begin[0]), int(begin[len(begin) // 2]), int(begin[-1]))
    return all(LEGACY_COLUMNS.match(body[place + 72 : place + 80]) for place in places)


def _polymer(chain: np.ndarray, het: np.ndarray, names: np.ndarray, ter_runs: np.ndarray, listed: set[str]) -> np.ndarray:
    """POLYMER, NOT_POLYMER or NOT_STATED for each run, from TER records.

    One TER closes a chain's polymer: what stands before belongs to it; HETATM behind are ligands. ATOM behind it and
    chains with several TER or with water before it use the record in other ways: not stated, geometry decides.
    """
    polymer = np.full(len(chain), NOT_STATED, np.int8)
    distinct, inverse = np.unique(names, return_inverse=True)
    texts = [unpack(word) for word in distinct.tolist()]
    kinds = [classify(text).kind for text in texts]
    is_water = np.array([kind is Kind.WATER for kind in kinds])[inverse]
    run = np.arange(len(chain))
    for index in np.unique(chain[ter_runs]).tolist():
        own = chain == index
        closing = ter_runs[chain[ter_runs] == index]
        before = own & (run <= closing[0])
        if len(np.unique(closing)) > 1 or (is_water & before).any():
            continue
        polymer[before] = POLYMER
        polymer[own & ~before & het] = NOT_POLYMER
    # Unknown names in front of TER that no sequence record lists may be ligands put there by other programs.
    doubtful = [kind is Kind.OTHER and text not in listed for kind, text in zip(kinds, texts, strict=True)]
    if any(doubtful):
        polymer[(polymer == POLYMER) & np.array(doubtful)[inverse]] = NOT_STATED
    return polymer
