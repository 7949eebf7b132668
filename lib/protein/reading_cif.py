"""mmCIF text to an AtomTable.

The atom table is the bulk of a file and is split into tokens by columns; the categories before it go through gemmi's
CIF grammar. Text that the splitting cannot take (quoted blanks, text fields, no loop) goes through gemmi as a whole.
Order comes from label_seq, the names that users type from auth_asym, auth_seq and the insertion code (PDBx/mmCIF v5).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import gemmi
import numpy as np

from lib.protein.atom_table import (
    BLANK,
    NOT_STATED,
    POLYMER,
    AtomTable,
    Unusable,
    backbone_kinds,
    entry_id,
    run_starts,
    segment_codes,
)
from lib.protein.text_columns import Column, TextColumns, pack, unpack

SITE = "_atom_site."
NULLS = np.array([pack("."), pack("?")], np.uint64)
HETATM = np.uint64(pack("HETATM"))
KEYWORDS = np.array([pack(word) for word in ("loop_", "data_", "save_")], np.uint64)
# what is needed -> tags in order of preference
TAGS = {
    "atom": ("label_atom_id", "auth_atom_id"),
    "residue": ("label_comp_id", "auth_comp_id"),
    "asym": ("label_asym_id", "auth_asym_id"),
    "chain": ("auth_asym_id", "label_asym_id"),
    "number": ("auth_seq_id", "label_seq_id"),
    "sequence": ("label_seq_id",),
    "x": ("cartn_x",),
    "y": ("cartn_y",),
    "z": ("cartn_z",),
    "altloc": ("label_alt_id",),
    "insertion": ("pdbx_pdb_ins_code",),
    "occupancy": ("occupancy",),
    "b_factor": ("b_iso_or_equiv",),
    "model": ("pdbx_pdb_model_num",),
    "entity": ("label_entity_id",),
    "group": ("group_pdb",),
    "id": ("id",),
}
REQUIRED = ("atom", "residue", "asym", "number", "x", "y", "z")
PEPTIDE_LIKE = ("", "other", "cyclic-pseudo-peptide")  # entity_poly.type; residue names decide later


def read_cif(text: bytes) -> AtomTable:
    """Atoms of the first model. Raises Unusable with a named reason."""
    if not text.strip():
        raise Unusable("empty", "no text")
    site = _split_site(text)
    if site is None:
        table, block = _parsed_site(text)
    else:
        table, (begin, end) = site
        outside = text[:begin]
        if _continues(text, begin, end):
            outside += text[end:]
        block = _document(outside)[0]
    missing = [TAGS[key][0] for key in REQUIRED if key not in table]
    if "model" not in table and "id" not in table:
        missing += ["id", "pdbx_PDB_model_num"]
    if missing:
        raise Unusable("missing_ids", f"_atom_site has no {', '.join(missing)}")
    return _table(table, block)


def _continues(text: bytes, begin: int, end: int) -> bool:
    """Whether categories that are needed stand behind the atoms (tools differ in their order)."""
    if text.find(b"\n_entity_poly.", 0, begin) < 0 and text.find(b"\n_entity_poly.", end) >= 0:
        return True
    return text.find(b"\n_exptl.", 0, begin) < 0 and text.find(b"\n_ma_qa_metric.", end) >= 0


def _document(text: bytes) -> gemmi.cif.Document:
    try:
        document = gemmi.cif.read_string(text)
    except (ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())
        cut = "Wrong number of values in" in message and SITE in message.lower()
        reason = "cut_record" if cut else "unreadable"
        raise Unusable(reason, message[:200]) from None
    if not len(document):
        raise Unusable("unreadable", "no data block")
    return document


def _split_site(text: bytes) -> tuple[dict[str, Column], tuple[int, int]] | None:
    """Columns of the atom table by plain splitting, and its place in the text; None where that is not safe."""
    tag = text.find(b"\n" + SITE.encode())
    loop = text.rfind(b"loop_", 0, tag) if tag >= 0 else -1
    if loop < 0 or text[loop + 5 : tag].strip() or (loop and text[loop - 1 : loop] not in (b"\n", b" ")):
        return None
    position, tags = tag + 1, []
    while text[position : position + 1] == b"_":
        line_end = text.find(b"\n", position)
        line = text[position : line_end if line_end >= 0 else len(text)].decode("latin-1").split()
        if len(line) != 1 or not line[0].lower().startswith(SITE) or line_end < 0:
            return None
        tags.append(line[0].lower()[len(SITE) :])
        position = line_end + 1
    columns = TextColumns(text[position:])
    length = _loop_length(columns)
    if length is None:
        return None
    tokens = _tokens(columns, length, len(tags))
    if tokens is None:
        return None
    starts, stops = tokens
    chosen = _choose({name: Column(columns, starts[:, i], stops[:, i]) for i, name in enumerate(tags)})
    return chosen, (loop, position + length)


def _loop_length(columns: TextColumns) -> int | None:
    """Bytes of the rows in front of the next comment, tag or keyword line; None where a text field is met before."""
    newlines = np.flatnonzero(columns.bytes[:-1] == ord("\n"))
    first = columns.bytes[newlines + 1]
    ending = (first == ord("#")) | (first == ord("_"))
    possible = np.flatnonzero((first | 0x20 == ord("l")) | (first | 0x20 == ord("d")) | (first | 0x20 == ord("s")))
    words = columns.first(newlines[possible] + 1, 5) | np.uint64(0x20202020)
    ending[possible[np.isin(words, KEYWORDS)]] = True
    stop = int(np.argmax(ending)) if ending.any() else len(newlines)
    if (first[:stop] == ord(";")).any() or columns.text.startswith(b";"):
        return None
    return int(newlines[stop]) + 1 if stop < len(newlines) else len(columns.text)


def _tokens(columns: TextColumns, length: int, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Starts and ends (rows, width) of the blank-separated tokens; None where quoting makes this unsafe."""
    blank = columns.bytes[:length] <= ord(" ")
    if not length or not blank[-1]:
        blank = np.append(blank, True)  # the last token may end with the text
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
    if length and not blank[0]:
        edges = np.concatenate(([0], edges))
    starts, stops = edges[0::2], edges[1::2]
    if not len(starts) or len(starts) % width:
        return None
    text = columns.text
    if text.find(b"#", 0, length) >= 0 and text.find(b" #", 0, length) >= 0:  # one character is found much faster
        return None
    if text.find(b"'", 0, length) >= 0 or text.find(b'"', 0, length) >= 0:
        first, last = columns.bytes[starts], columns.bytes[stops - 1]
        quoted = (first == ord("'")) | (first == ord('"'))
        if (quoted & ((first != last) | (stops - starts < 2))).any():
            return None
        starts, stops = starts + quoted, stops - quoted
    return starts.reshape(-1, width), stops.reshape(-1, width)


def _parsed_site(text: bytes) -> tuple[dict[str, Column], gemmi.cif.Block]:
    """Columns of the atom table through gemmi's parser, for any legal CIF."""
    for block in _document(text):
        names = [tag for item in block for tag in _tags_of(item) if tag.lower().startswith(SITE)]
        if names:
            break
    else:
        raise Unusable("empty", "no _atom_site category")
    rows = block.find(names)
    found = {}
    for name, values in zip(names, zip(*([gemmi.cif.as_string(v) or "." for v in row] for row in rows), strict=True)):
        encoded = [value.encode("latin-1", "replace") for value in values]
        stops = np.cumsum([len(value) + 1 for value in encoded]) - 1
        starts = stops - [len(value) for value in encoded]
        found[name.lower()[len(SITE) :]] = Column(TextColumns(b"\n".join(encoded)), starts, stops)
    if not found:
        raise Unusable("empty", "the _atom_site table has no rows")
    return _choose(found), block


def _tags_of(item) -> list[str]:
    if item.loop is not None:
        return list(item.loop.tags)
    return [item.pair[0]] if item.pair is not None else []


def _choose(columns: dict[str, Column]) -> dict[str, Column]:
    chosen = {}
    for key, tags in TAGS.items():
        for tag in tags:
            if tag in columns:
                chosen[key] = columns[tag]
                break
    return chosen


def _table(site: dict[str, Column], block: gemmi.cif.Block) -> AtomTable:
    """AtomTable of the first model from the token columns."""
    rows, models = _first_model_rows(site)
    polypeptides, others = _polymer_entities(block)
    stated = _stated_sequence(site, rows)
    if stated is not None:
        rows = rows[stated]
        if (polypeptides or others) and "entity" in site:
            entity = site["entity"].take(rows).words()
            rows = rows[np.isin(entity, np.array([pack(name) for name in polypeptides], np.uint64))]
    if not len(rows):
        raise Unusable("no_protein", "no atom of a polypeptide entity")
    order_key = "sequence" if stated is not None else "number"
    keys = [site["asym"], site[order_key]] + ([] if stated is not None else _present(site, "insertion"))
    changed = np.zeros(len(rows) - 1, bool)
    for column in keys:
        changed |= _differs(column.take(rows))
    first_rows = rows[run_starts(changed)]
    run_of_row = np.cumsum(np.concatenate(([0], changed)))

    kinds = backbone_kinds(site["atom"].take(rows).words())
    atoms = np.flatnonzero(kinds < 4)
    atom_rows = rows[atoms]
    chain, asym_names, chain_first = _codes(site["asym"].take(first_rows))
    chain_names = site["chain"].take(first_rows[chain_first]).texts()
    number = _numbers(site["number"].take(first_rows), "auth_seq_id")
    sequence = _numbers(site["sequence"].take(first_rows), "label_seq_id") if stated is not None else number
    insertion = _characters(site, "insertion", first_rows)
    identity = sequence.astype(np.int64) * 256 + (0 if stated is not None else insertion)
    het = site["group"].take(first_rows).words() == HETATM if "group" in site else np.zeros(len(first_rows), bool)
    name, atom_name, residue_names = _names(site["residue"], first_rows, atom_rows)
    listed = _listed_residues(block)
    entities = site["entity"].take(first_rows[chain_first]).texts() if "entity" in site else [""] * len(asym_names)
    return AtomTable(
        chain=chain,
        identity=identity,
        number=number,
        insertion=insertion,
        name=name,
        het=het,
        polymer=np.full(len(first_rows), NOT_STATED if stated is None else POLYMER, np.int8),
        atom_run=run_of_row[atoms],
        atom_kind=kinds[atoms],
        altloc=_characters(site, "altloc", atom_rows),
        atom_name=atom_name,
        occupancy=_optional_numbers(site, "occupancy", atom_rows, 1.0),
        b_factor=_optional_numbers(site, "b_factor", atom_rows, 0.0),
        coordinates=np.stack([site[axis].take(atom_rows).numbers() for axis in "xyz"], axis=1),
        residue_names=residue_names,
        chain_names=chain_names,
        chain_keys=asym_names,
        listed=[listed.get(entity, 0) for entity in entities],
        entry=entry_id(gemmi.cif.as_string(block.find_value("_entry.id") or "")) or entry_id(block.name),
        is_plddt=_states_plddt(block),
        ordered=stated is not None,
        counts={"models_dropped": models - 1, "other_polymer_chains": _other_chains(block, others)},
    )


def _states_plddt(block: gemmi.cif.Block) -> bool:
    """Whether the file says that its B column holds pLDDT: by its quality metric, or as an AlphaFold DB entry."""
    metrics = [row.str(0).lower() for row in block.find(["_ma_qa_metric.name"])]
    sources = [row.str(0) for row in block.find(["_database_2.database_id"])]
    entry = gemmi.cif.as_string(block.find_value("_entry.id") or "")
    return "plddt" in metrics or "AlphaFoldDB" in sources or entry.upper().startswith("AF-")


def _first_model_rows(site: dict[str, Column]) -> tuple[np.ndarray, int]:
    """Row numbers of the first model, and the number of models."""
    if "model" not in site:
        return np.arange(len(site["atom"].starts)), 1
    model = site["model"].words()
    return np.flatnonzero(model == model[0]), len(np.unique(model[run_starts(model[1:] != model[:-1])]))


def _stated_sequence(site: dict[str, Column], rows: np.ndarray) -> np.ndarray | None:
    """bool (rows,): the row has a label_seq, so belongs to a polymer. None if no row has one."""
    if "sequence" not in site:
        return None
    stated = ~np.isin(site["sequence"].take(rows).words(), NULLS)
    return stated if stated.any() else None


def _polymer_entities(block: gemmi.cif.Block) -> tuple[list[str], list[str]]:
    """Entity ids of polypeptides and of other polymers; both empty where the file does not say."""
    polypeptides, others = [], []
    for row in block.find("_entity_poly.", ["entity_id", "type"]):
        kind = gemmi.cif.as_string(row[1]).lower()
        (polypeptides if kind.startswith("polypeptide") or kind in PEPTIDE_LIKE else others).append(row.str(0))
    return polypeptides, others


def _other_chains(block: gemmi.cif.Block, entities: list[str]) -> int:
    return sum(row.str(0) in entities for row in block.find("_struct_asym.", ["entity_id"]))


def _listed_residues(block: gemmi.cif.Block) -> Counter:
    """Length of the sequence of each entity (microheterogeneous positions once)."""
    columns = [block.find_values(f"_entity_poly_seq.{tag}") for tag in ("entity_id", "num")]
    return Counter(gemmi.cif.as_string(entity) for entity, _ in set(zip(*map(list, columns), strict=True)))


def _present(site: dict[str, Column], key: str) -> list[Column]:
    return [site[key]] if key in site else []


def _differs(column: Column) -> np.ndarray:
    """bool (rows - 1,): the token differs from the one before."""
    if column.exceeds_word():
        texts = column.texts()
        return np.array([a != b for a, b in pairwise(texts)], bool)
    words = column.words()
    return words[1:] != words[:-1]


def _codes(column: Column) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Codes in order of first appearance, the text of each code, and the row where it appears first."""
    values = column.words()
    if column.exceeds_word():
        values = np.unique(np.array(column.texts()), return_inverse=True)[1]
    codes, first = segment_codes(values)
    return codes, column.take(first).texts(), first


def _names(column: Column, runs: np.ndarray, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Residue name codes of runs and of atoms, and the names by code."""
    words = np.concatenate((column.take(runs).words(), column.take(atoms).words()))
    distinct, codes = np.unique(words, return_inverse=True)
    return codes[: len(runs)], codes[len(runs) :], [unpack(word) for word in distinct.tolist()]


def _numbers(column: Column, tag: str) -> np.ndarray:
    values = column.numbers()
    if not np.isfinite(values).all():
        bad = column.take(np.flatnonzero(~np.isfinite(values))[:1]).texts()[0]
        raise Unusable("missing_ids", f"_atom_site.{tag} {bad!r} is no number")
    if len(values) and np.abs(values).max() >= 2**31:
        raise Unusable("unreadable", f"_atom_site.{tag} beyond 32 bits")
    return values.astype(np.int32)


def _optional_numbers(site: dict[str, Column], key: str, rows: np.ndarray, absent: float) -> np.ndarray:
    if key not in site:
        return np.full(len(rows), absent)
    values = site[key].take(rows).numbers()
    values[np.isnan(values)] = absent
    return values


def _characters(site: dict[str, Column], key: str, rows: np.ndarray) -> np.ndarray:
    """uint8 first character of the token, BLANK for none."""
    if key not in site:
        return np.full(len(rows), BLANK, np.uint8)
    words = site[key].take(rows).words()
    return np.where(np.isin(words, NULLS), BLANK, words & np.uint64(0xFF)).astype(np.uint8)
