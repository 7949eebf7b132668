"""Units (what one training example is) and their split into train, validation and test."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lib.errors import UserError
from lib.protein.reading import file_stem
from lib.seeds import derive

SIDES = ("train", "val", "test")
MODES = ("cluster", "random", "file")


@dataclass(frozen=True, slots=True)
class Unit:
    """One training example: consecutive chains of one file, kept together.

    name: id of the first chain, further chain names after `+`; unique in a cache.
    rows: consecutive cache rows. length: residues. key: hash of the sequences, equal for units with the same chains.
    cluster: homology group after joining (see `make_units`). file, entry: where the chains come from.
    """

    name: str
    rows: tuple[int, ...]
    length: int
    key: int
    cluster: int
    file: str = ""
    entry: str = ""


class Joined:
    """Union-find over hashable items; the root of a group is the item that was seen first."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def root(self, item: Hashable) -> Hashable:
        parent = self._parent.setdefault(item, item)
        while parent != self._parent[parent]:
            self._parent[parent] = self._parent[self._parent[parent]]
            parent = self._parent[parent]
        self._parent[item] = parent
        return parent

    def join(self, first: Hashable, second: Hashable) -> None:
        self._parent[self.root(second)] = self.root(first)


def group_chains(lengths: Sequence[int], max_length: int, unit: str = "entry") -> list[tuple[int, int]]:
    """Divide the chains of one file into consecutive groups [start, stop) of at most `max_length` residues.

    A chain longer than `max_length` is a group of its own; with unit "chain" every chain is.
    """
    groups, start, total = [], 0, 0
    for index, length in enumerate(lengths):
        if index > start and (unit == "chain" or total + length > max_length):
            groups.append((start, index))
            start, total = index, 0
        total += int(length)
    if len(lengths):
        groups.append((start, len(lengths)))
    return groups


def unit_name(ids: Sequence[str]) -> str:
    """`1abc:A+B` for the chain ids 1abc:A and 1abc:B."""
    return "+".join([ids[0], *(chain_id.rpartition(":")[2] for chain_id in ids[1:])])


def unit_key(sequence_keys: Iterable[int]) -> int:
    """63-bit hash of the sequences of a unit, independent of the order of its chains."""
    text = ",".join(str(int(key)) for key in sorted(sequence_keys))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def make_units(
    store,
    *,
    max_length: int = 1000,
    min_length: int = 20,
    unit: str = "entry",
    log: Callable[[str], None] = print,
) -> tuple[list[Unit], dict[str, int]]:
    """Group the chains of a ChainStore into units.

    Chains of one file stay together up to `max_length` residues; a larger file is divided into consecutive groups; a
    single chain above `max_length` stays one unit, which the batcher crops. Units below `min_length` are left out and
    counted. `unit` "chain" makes every chain a unit. Units are joined into one cluster when they share a homology
    cluster of any of their chains, or an entry (two files of one entry).
    Returns (units in row order, counts).
    """
    if unit not in ("entry", "chain"):
        raise UserError(f"unit {unit!r} found, expected entry or chain: set --unit to one of them")
    if max_length < 1:
        raise UserError(f"max_length {max_length} found, expected at least 1 residue: raise --max_length")
    ids, files, entries, keys = store.ids, store.files, store.entries, store.sequence_keys.tolist()
    lengths, clusters = store.lengths.tolist(), store.clusters.tolist()
    counts = dict.fromkeys(("units", "chains", "residues", "distinct", "short", "long", "divided_files", "clusters"), 0)
    joined, kept = Joined(), []
    for first, stop in _file_ranges(files):
        groups = group_chains(lengths[first:stop], max_length, unit)
        counts["divided_files"] += unit == "entry" and len(groups) > 1
        for start, end in groups:
            rows = tuple(range(first + start, first + end))
            length = sum(lengths[row] for row in rows)
            if length < min_length:
                counts["short"] += 1
                continue
            counts["long"] += length > max_length
            for other in [("cluster", clusters[row]) for row in rows] + [("entry", entries[first] or files[first])]:
                joined.join(("cluster", clusters[rows[0]]), other)
            kept.append((rows, length))
    numbers: dict[Hashable, int] = {}
    units = []
    for rows, length in kept:
        name, key = unit_name([ids[row] for row in rows]), unit_key(keys[row] for row in rows)
        cluster = numbers.setdefault(joined.root(("cluster", clusters[rows[0]])), len(numbers))
        units.append(Unit(name, rows, length, key, cluster, files[rows[0]], entries[rows[0]]))
    counts["units"], counts["clusters"] = len(units), len(numbers)
    counts["chains"], counts["residues"] = sum(len(item.rows) for item in units), sum(item.length for item in units)
    counts["distinct"] = len({item.key for item in units})
    if counts["short"]:
        log(f"units: {counts['short']} below {min_length} residues are left out")
    return units, counts


def _file_ranges(files: Sequence[str]) -> Iterator[tuple[int, int]]:
    """[first, stop) of each run of equal file names."""
    first = 0
    for stop in range(1, len(files) + 1):
        if stop == len(files) or files[stop] != files[first]:
            yield first, stop
            first = stop


def split_units(
    units: Sequence[Unit],
    *,
    mode: str = "cluster",
    val_fraction: float = 0.1,
    seed: int = 0,
    val_names: Sequence[str] | None = None,
    test_names: Sequence[str] | None = None,
    train_names: Sequence[str] | None = None,
    known_files: Sequence[str] = (),
    log: Callable[[str], None] = print,
) -> dict[str, list[Unit]]:
    """Divide units into {"train", "val", "test"}, a function of the set of units, the names and the seed only.

    mode "cluster": whole homology clusters, drawn in an order hashed from (seed, content of the cluster), fill the
    validation side up to `val_fraction` of the residues; the largest cluster always trains.
    mode "random": the same with entries in place of clusters (homologs leak, said in the log).
    mode "file" (also when `val_names` is given): names are file names with or without extension, or entry ids. Without
    `train_names` all the rest trains; with them the units named nowhere are left out and counted.
    known_files: all files of the cache (`store.all_files`); a name of one that gave no unit (rejected, too short) is
    counted in the log. Raises UserError for a name that matches nothing, a unit on two sides, and no unit to train on.
    """
    if mode not in MODES:
        raise UserError(f"split mode {mode!r} found, expected one of {', '.join(MODES)}: set --split to one of them")
    if mode == "file" or val_names is not None:
        if val_names is None:
            raise UserError("split mode file found without validation names: give them with --val_files")
        names = {"train": train_names, "val": val_names, "test": test_names}
        sides = _split_by_names(units, names, known_files, log)
    else:
        if not 0.0 <= val_fraction < 1.0:
            raise UserError(f"validation fraction {val_fraction} found, expected 0 <= fraction < 1: set --val_split")
        sides = {side: [] for side in SIDES}
        remaining = list(units)
        if test_names is not None:
            chosen = match_units(units, test_names, known_files, "test", log)
            sides["test"] = [item for item in units if item in chosen]
            held = {item.cluster for item in sides["test"]}
            remaining = [item for item in units if item.cluster not in held]
            left_out = len(units) - len(remaining) - len(sides["test"])
            if left_out:
                log(f"split: {left_out} units are left out because they share a homology cluster with the test set")
        _split_by_groups(remaining, mode, val_fraction, seed, sides, log)
    if not sides["train"]:
        raise UserError("the split leaves no unit to train on: lower --val_split or name fewer files")
    residues = {side: sum(item.length for item in sides[side]) for side in SIDES}
    log("split: " + ", ".join(f"{side} {len(sides[side])} units {residues[side]} residues" for side in SIDES))
    return sides


def _split_by_groups(units, mode: str, val_fraction: float, seed: int, sides: dict, log) -> None:
    if mode == "random":
        log("split: random split by entry; homologs of validation structures are trained on, so results look too good")
    groups: dict[int | str, list[Unit]] = defaultdict(list)
    for item in units:
        groups[item.cluster if mode == "cluster" else item.entry].append(item)
    if val_fraction == 0.0 or not groups:
        sides["train"] = list(units)
        return
    what = "homology cluster" if mode == "cluster" else "entry"
    if len(groups) < 2:
        raise UserError(
            f"all {len(units)} units fall in one {what}, at least two are needed for a validation set: add structures, "
            "or choose --split random or --val_files"
        )
    # The identity of a group is its content, so that labels, file order and other groups do not change its draw.
    identity = {label: min(item.key for item in members) for label, members in groups.items()}
    size = {label: sum(item.length for item in members) for label, members in groups.items()}
    order = sorted(groups, key=lambda label: (derive(seed, "split", identity[label]), identity[label], str(label)))
    largest = max(order, key=lambda label: (size[label], identity[label]))
    target = val_fraction * sum(size.values())
    chosen, filled = set(), 0
    for label in order:
        if label != largest and filled + size[label] <= target:
            chosen.add(label)
            filled += size[label]
    if not chosen:
        chosen.add(
            min((label for label in order if label != largest), key=lambda label: (size[label], identity[label]))
        )
    if size[largest] > target:
        share = size[largest] / sum(size.values())
        log(f"split: the largest {what} ({len(groups[largest])} units, {share:.0%} of the residues) always trains")
    sides["val"] = [item for item in units if (item.cluster if mode == "cluster" else item.entry) in chosen]
    sides["train"] = [item for item in units if (item.cluster if mode == "cluster" else item.entry) not in chosen]


def _split_by_names(units, names: dict[str, Sequence[str] | None], known_files, log) -> dict[str, list[Unit]]:
    matched: dict[str, set[Unit]] = {side: set() for side in SIDES}
    for side in SIDES:
        if names[side] is not None:
            matched[side] = match_units(units, names[side], known_files, side, log)
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        both = sorted(item.name for item in matched[first] & matched[second])
        if both:
            raise UserError(
                f"{len(both)} units are named for {first} and for {second} (first: {both[0]}): name each on one side"
            )
    if names["train"] is None:
        matched["train"] = set(units) - matched["val"] - matched["test"]
    left_out = len(units) - sum(len(chosen) for chosen in matched.values())
    if left_out:
        log(f"split: {left_out} units are named on no side and left out")
    held = {item.cluster for item in matched["val"]}
    leaks = sum(item.cluster in held for item in matched["train"])
    if leaks:
        log(f"split: {leaks} training units share a homology cluster with the named validation set (kept in training)")
    return {side: [item for item in units if item in matched[side]] for side in SIDES}


def match_units(units: Sequence[Unit], names: Sequence[str], known_files: Sequence[str], side: str, log) -> set[Unit]:
    """Units of the named files and entries; names of files that gave no unit are counted, unknown ones are an error."""
    if not names:
        raise UserError(f"the list of {side} names is empty, expected one file name or entry id per line: fill it")
    by_name: dict[str, set[Unit]] = defaultdict(set)
    for item in units:
        for name in {*file_names(item.file), item.entry.lower(), item.entry.upper()} - {""}:
            by_name[name].add(item)
    unused = {name for file in known_files for name in file_names(file)}
    chosen: set[Unit] = set()
    without_unit, unknown = [], []
    for name in names:
        found = by_name.get(name) or by_name.get(file_stem(name))
        if found:
            chosen |= found
        else:
            (without_unit if {name, file_stem(name)} & unused else unknown).append(name)
    if unknown:
        raise UserError(
            f"{len(unknown)} of {len(names)} {side} names match no file or entry (first: {unknown[0]}): "
            "correct or remove them (file names with or without extension, or entry ids)"
        )
    if not chosen:
        raise UserError(f"none of the {len(names)} {side} names has a usable unit (first: {names[0]}): name others")
    if without_unit:
        log(f"split: {len(without_unit)} of {len(names)} {side} files gave no usable unit (first: {without_unit[0]})")
    return chosen


def file_names(file: str) -> set[str]:
    """What a user may call a file: its path in the data set or its name, with or without the extensions."""
    return {file, file_stem(file), PurePosixPath(file).name, file_stem(PurePosixPath(file).name)}


def read_names(path: str | Path) -> list[str]:
    """Names of a split file: one per line, `#` starts a comment. Raises UserError when the file cannot be read."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path}: cannot be read as a list of names ({error}): give a text file, one name per line"
        ) from None
    return [name for name in (line.split("#", 1)[0].strip() for line in lines) if name]


def split_document(sides: dict[str, list[Unit]], rule: dict | str) -> str:
    """JSON text of split.json: the unit names of each side and the rule that made it."""
    document = {side: [item.name for item in sides[side]] for side in SIDES}
    return json.dumps(document | {"rule": rule}, indent=1) + "\n"
