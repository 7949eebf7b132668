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
    segment_codes,
)
from lib.protein.residues import Kind, classify
from lib.protein.text_columns import TextColumns, pack, parse_integers, parse_numbers, repaired, unpack

ATOM, HETATM, MODEL = (np.uint64(pack(name)) for name in ("ATOM  ", "HETATM", "MODEL "))
ENDMDL, TER, END = (np.uint64(pack(name)) for name in ("ENDMDL", "TER", "END"))
SEQRES, TITLE = (np.uint64(pack(name)) for name in ("SEQRES", "TITLE "))
LINE_FILLING = np.array([0, ord("\n"), ord("\r"), ord(" ")], np.uint64)
BLANK_WORD = np.uint64(0x20)
COORDINATES_END = 54  # columns; shorter atom records are cut
FIELDS_END = 66  # end of the B factor
# aligned names of columns 13-16 -> 0..3
ALIGNED_NAMES = np.array([pack(name) for name in (" N  ", " CA ", " C  ", " O  ")], np.uint64)
LEGACY_COLUMNS = re.compile(rb"[0-9][A-Z0-9]{3} *[0-9]+")
OTHER_RECORDS = re.compile(rb"^(HEADER|TITLE|COMPND|REMARK|CRYST1|SEQRES|END|TER|MASTER|EXPDTA|AUTHOR)", re.MULTILINE)
HYBRID36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def read_pdb(text: bytes) -> AtomTable:
    """Atoms of the first model. Raises Unusable with a named reason."""
    if b"\r" in text and b"\n" not in text:
        text = text.replace(b"\r", b"\n")
    columns = TextColumns(text)
    newlines = np.flatnonzero(columns.bytes == ord("\n"))
    starts = np.concatenate(([0], newlines + 1))
    records = columns.first(starts, 6)
    last_line, models = _first_model(records)
    starts, records = starts[:last_line], records[:last_line]
    het_line = records == HETATM
    lines = np.flatnonzero((records == ATOM) | het_line)
    if not len(lines):
        _refuse_without_atoms(text, models)
    begin = starts[lines]
    length = np.append(newlines, len(text))[lines] - begin
    _refuse_cut(text, lines, length, starts)
    ter_rows = np.searchsorted(lines, np.flatnonzero(records & np.uint64(0xFFFFFF) == TER))
    sequence_lines = _lines_of(text, starts, records, SEQRES)
    table = _table(columns, begin, length, het_line[lines], ter_rows[ter_rows > 0], sequence_lines)
    table.entry = entry_id(text[62:66].decode("latin-1")) if text.startswith(b"HEADER") else ""
    title = b" ".join(_lines_of(text, starts, records, TITLE)).upper()
    table.is_plddt = b"ALPHAFOLD" in title and b"PREDICTION" in title
    table.counts["models_dropped"] = max(models - 1, 0)
    return table


def _lines_of(text: bytes, starts: np.ndarray, records: np.ndarray, record: np.uint64) -> list[bytes]:
    """All lines of one record type."""
    return [text[start : text.find(b"\n", start)] for start in starts[records == record].tolist()]


def _table(
    columns: TextColumns,
    begin: np.ndarray,  # int64 (records,), position of each atom record
    length: np.ndarray,  # int64 (records,), characters
    het: np.ndarray,  # bool (records,)
    ter: np.ndarray,  # number of atom records before each TER
    sequence_lines: list[bytes],
) -> AtomTable:
    identity = columns.first(begin + 20, 7)  # chain (21-22), number (23-26), insertion code (27)
    changed = identity[1:] != identity[:-1]
    changed[ter[ter < len(begin)] - 1] = True
    first = run_starts(changed)
    run_of_row = np.concatenate(([0], np.cumsum(changed)))

    atom_words = columns.words(begin + 12)  # atom name, altloc, residue name
    kinds, shifted = _kinds(atom_words)
    rows = np.flatnonzero(kinds < 4)
    atom_words, atom_begin, atom_kind, atom_run = atom_words[rows], begin[rows], kinds[rows], run_of_row[rows]
    altloc = _character(atom_words, 4)
    run_identity = identity[first]
    name, residue_names, chain_words = _names(columns, begin[first], run_identity)
    atom_name = name[atom_run]
    first_words = columns.first(begin[first] + 17, 3)
    alternatives = bool(altloc.any()) or bool((atom_words >> np.uint64(40) != first_words[atom_run]).any())
    if alternatives:
        atom_name, residue_names = _names_of_atoms(columns, atom_begin, identity[rows], name, residue_names)
    chain, first_seen = segment_codes(chain_words)
    chain_names = [unpack(word) or "_" for word in chain_words[first_seen].tolist()]
    number, insertion = _residue_numbers(run_identity), _character(run_identity, 6)
    listed = _sequence_lengths(sequence_lines)
    return AtomTable(
        chain=chain,
        identity=number.astype(np.int64) * 256 + insertion,
        number=number,
        insertion=insertion,
        name=name,
        het=het[first],
        polymer=_polymer(chain, het[first], name, residue_names, run_of_row[ter - 1], sequence_lines),
        atom_run=atom_run,
        atom_kind=atom_kind,
        altloc=altloc,
        atom_name=atom_name,
        occupancy=_occupancies(columns, atom_begin, length[rows]) if alternatives else np.ones(len(rows)),
        b_factor=_b_factors(columns, atom_begin, length[rows], atom_kind, atom_run),
        coordinates=_coordinates(columns, atom_begin),
        residue_names=residue_names,
        chain_names=chain_names,
        chain_keys=chain_names,
        listed=[listed.get(name, 0) for name in chain_names],
        counts={
            "legacy_column_files": int(_has_legacy_columns(columns.text, begin)),
            "shifted_name_files": int(shifted),
        },
    )


def _first_model(records: np.ndarray) -> tuple[int, int]:
    """Number of lines up to the end of the first model, and the number of models."""
    begins = np.flatnonzero(records == MODEL)
    # END closes the file; behind it some programs append further structures.
    end = (records & np.uint64(0xFFFFFF) == END) & np.isin(records >> np.uint64(24) & np.uint64(0xFF), LINE_FILLING)
    stops = np.concatenate((np.flatnonzero((records == ENDMDL) | end)[:1], begins[1:2]))
    return (int(stops.min()) if len(stops) else len(records)), len(begins)


def _refuse_without_atoms(text: bytes, models: int) -> None:
    if not text.strip():
        raise Unusable("empty", "no text")
    if models:
        raise Unusable("no_model", "the first model holds no atom records")
    if OTHER_RECORDS.search(text):
        raise Unusable("empty", "PDB records, but no ATOM or HETATM record")
    raise Unusable("unreadable", f"{len(text):,} bytes without any PDB record")


def _refuse_cut(text: bytes, lines: np.ndarray, length: np.ndarray, starts: np.ndarray) -> None:
    """Raise for atom records that end early; `starts` are the lines of the first model only."""
    short = np.flatnonzero(length < COORDINATES_END)
    if len(short):
        last = short[0] == len(lines) - 1
        place = "the last atom record" if last else f"the atom record in line {lines[short[0]] + 1}"
        raise Unusable("cut_record", f"{place} ends at column {length[short[0]]}, coordinates end at {COORDINATES_END}")
    tail = text[starts[-1] :]
    if b"\n" in tail:
        return
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


def _character(words: np.ndarray, position: int) -> np.ndarray:
    """uint8 character at a position of each word, BLANK for a blank."""
    characters = (words >> np.uint64(8 * position)).astype(np.uint8)
    characters[characters == ord(" ")] = BLANK
    return characters


def _names(columns: TextColumns, begin: np.ndarray, identity: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Residue name codes of some atom records, the names by code, and chain name words."""
    words = columns.first(begin + 17, 3)
    chains = identity & np.uint64(0xFFFF)
    wide = np.flatnonzero((chains & np.uint64(0xFF)) != BLANK_WORD)
    if len(wide):
        # Column 21 holds either the fourth letter of a residue name or the first of a two-letter chain name.
        four = columns.first(begin[wide] + 17, 4)
        for word in np.unique(four).tolist():
            if classify(unpack(word)).kind is not Kind.OTHER:
                members = wide[four == np.uint64(word)]
                words[members] = np.uint64(word)
                chains[members] = chains[members] & np.uint64(0xFF00) | BLANK_WORD
    distinct, codes = np.unique(words, return_inverse=True)
    return codes, [unpack(word) for word in distinct.tolist()], chains


def _names_of_atoms(
    columns: TextColumns, begin: np.ndarray, identity: np.ndarray, run_names: np.ndarray, residue_names: list[str]
) -> tuple[np.ndarray, list[str]]:
    """Residue name codes of single atom records, and `residue_names` with what is new behind it."""
    codes, names, _ = _names(columns, begin, identity)
    known = {name: code for code, name in enumerate(residue_names)}
    extended = residue_names + [name for name in names if name not in known]
    known = {name: code for code, name in enumerate(extended)}
    return np.array([known[name] for name in names], np.int64)[codes], extended


def _left_aligned(words: np.ndarray) -> np.ndarray:
    """Words of up to four characters without leading and trailing blanks."""
    for _ in range(3):
        words = np.where(words & np.uint64(0xFF) == BLANK_WORD, words >> np.uint64(8), words)
    for position in (3, 2, 1):
        last = words >> np.uint64(8 * position)
        words = np.where(last == BLANK_WORD, words & np.uint64((1 << (8 * position)) - 1), words)
    return words


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


def _coordinates(columns: TextColumns, begin: np.ndarray) -> np.ndarray:
    """float64 (atoms, 3); NaN where the field is no number."""
    places = begin[:, None] + np.array([30, 38, 46])
    xyz, bad = parse_numbers(columns.words(places))
    return repaired(xyz, bad, lambda index: columns.text[places.flat[index] : places.flat[index] + 8])


def _occupancies(columns: TextColumns, begin: np.ndarray, length: np.ndarray) -> np.ndarray:
    return _six_characters(columns, begin + 54, length - 54, absent=1.0)


def _b_factors(columns, begin: np.ndarray, length: np.ndarray, kinds: np.ndarray, run: np.ndarray) -> np.ndarray:
    """B factors; where every residue has a CA only theirs are read, as nothing else is used."""
    used = np.flatnonzero(kinds == 1)
    if len(used) < 1 + np.count_nonzero(run[1:] != run[:-1]):
        used = np.arange(len(kinds))
    values = np.zeros(len(kinds))
    values[used] = _six_characters(columns, begin[used] + 60, length[used] - 60, absent=0.0)
    return values


def _six_characters(columns: TextColumns, places: np.ndarray, available: np.ndarray, absent: float) -> np.ndarray:
    values, bad = parse_numbers(columns.words(places) << np.uint64(16))
    bad |= available < 6
    repaired(values, bad, lambda index: columns.text[places[index] : places[index] + max(0, min(available[index], 6))])
    values[np.isnan(values)] = absent
    return values


def _sequence_lengths(sequence_lines: list[bytes]) -> dict[str, int]:
    """Residues per chain by SEQRES."""
    lengths: dict[str, int] = {}
    for line in sequence_lines:
        number = line[13:17].strip()
        if number.isdigit():
            lengths.setdefault(line[10:12].decode("latin-1").strip() or "_", int(number))
    return lengths


def _has_legacy_columns(text: bytes, begin: np.ndarray) -> bool:
    """Entry id and serial number in columns 73-80, judged by the first, middle and last atom record."""
    places = (int(begin[0]), int(begin[len(begin) // 2]), int(begin[-1]))
    return all(LEGACY_COLUMNS.match(text[place + 72 : place + 80]) for place in places)


def _polymer(
    chain: np.ndarray,
    het: np.ndarray,
    name: np.ndarray,
    residue_names: list[str],
    ter_runs: np.ndarray,
    sequence_lines: list[bytes],
) -> np.ndarray:
    """POLYMER, NOT_POLYMER or NOT_STATED for each run, from TER records.

    One TER closes a chain's polymer: what stands before belongs to it; HETATM behind are ligands. ATOM behind it and
    chains with several TER or with water before it use the record in other ways: not stated, geometry decides.
    """
    polymer = np.full(len(chain), NOT_STATED, np.int8)
    if not len(ter_runs):
        return polymer
    kinds = [classify(text).kind for text in residue_names]
    is_water = np.array([kind is Kind.WATER for kind in kinds])[name]
    closing_runs: dict[int, set[int]] = {}
    for run in ter_runs.tolist():
        closing_runs.setdefault(int(chain[run]), set()).add(run)
    for index, closing in closing_runs.items():
        own = np.flatnonzero(chain == index)
        before, behind = own[own <= min(closing)], own[own > min(closing)]
        if len(closing) > 1 or is_water[before].any():
            continue
        polymer[before] = POLYMER
        polymer[behind[het[behind]]] = NOT_POLYMER
    # Unknown names in front of TER that no sequence record lists may be ligands put there by other programs.
    if Kind.OTHER in kinds:
        listed = {listed for line in sequence_lines for listed in line[19:70].decode("latin-1").split()}
        doubtful = [kind is Kind.OTHER and text not in listed for kind, text in zip(kinds, residue_names, strict=True)]
        polymer[(polymer == POLYMER) & np.array(doubtful)[name]] = NOT_STATED
    return polymer
