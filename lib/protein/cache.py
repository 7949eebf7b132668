"""The chain cache: structures parsed once, stored as memory-mapped Arrow shards, kept up to date with their files.

A cache folder holds cache_index.json and cache_shards/. Shards are named by their sha256 and describe themselves (each
block carries the records of its source files), so a killed run continues from the shards it finished, and a lost or
damaged index costs no parsing. The index is written last. What is verified when a cache is opened:
size, Arrow footer and columns of every shard; its sha256 whenever the modification time is not the recorded one (any
write changes it), and always for caches up to FULL_CHECK_BYTES, which takes under a second. Larger ones are read in
full on request (verify="full").
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from lib.errors import UserError
from lib.protein.cache_format import encode_block, rows_of_source
from lib.protein.cache_index import (
    INDEX,
    SHARDS,
    DamagedCache,
    Index,
    OtherVersion,
    read_index,
    refuse_damaged,
    write_index,
)
from lib.protein.cache_reading import Encoded, content_fingerprint, merged, read_in_blocks, source_record
from lib.protein.cache_shards import (
    BLOCK_BYTES,
    SHARD_BYTES,
    TEMPORARY,
    Shard,
    ShardWriter,
    damage,
    disk_error,
    read_blocks,
)
from lib.protein.cache_store import ChainStore
from lib.protein.homology import cluster_sequences
from lib.protein.reading import ReadOptions, find_structure_files
from lib.protein.residues import ALPHABET

__all__ = ["ChainStore", "DamagedCache", "build_cache", "open_cache"]

FULL_CHECK_BYTES = 1 << 30
THRESHOLD = 80  # Smith-Waterman score that joins two sequences into one cluster

Log = Callable[[str], None]


def open_cache(cache_dir: Path | str, *, verify: str = "auto") -> ChainStore:
    """Open a finished cache. verify: "auto" (see the module), "full" (sha256 of everything) or "quick" (never).

    Raises UserError when the folder holds no cache, and DamagedCache (a UserError) when it cannot be trusted.
    """
    cache_dir = Path(cache_dir)
    index = read_index(cache_dir)
    if index is None:
        _refuse_original(cache_dir)
        raise UserError(f"{cache_dir}: no {INDEX} found, expected a cache: make it by giving --pdb_path")
    for shard in index.shards:
        refuse_damaged(cache_dir / SHARDS / shard.name, shard, _check(index.shards, verify))
    return ChainStore(cache_dir, index)


def build_cache(
    source: Path | str | None,
    cache_dir: Path | str,
    options: ReadOptions | None = None,
    workers: int | None = None,
    log: Log = print,
    *,
    verify: str = "auto",
    cluster: Callable[..., np.ndarray] = cluster_sequences,
    shard_bytes: int = SHARD_BYTES,
    flush_s: float = 60.0,
) -> ChainStore:
    """Bring the cache of the structures at `source` (file or folder) up to date and open it.

    Files whose size, modification time, reader version and options are unchanged are not read again; files that are
    gone are dropped. Without `source`, or where it holds no structure, a complete cache is used alone. One process
    calls this, the others wait and use `open_cache`; two runs on one folder take turns by a lock.
    Raises UserError: nothing to read, no usable chain, a folder that cannot be written, `strict` and a rejected file.
    """
    cache_dir, options = Path(cache_dir), options or ReadOptions()
    files, root = _structure_files(source, cache_dir, log)
    if not files:
        return open_cache(cache_dir, verify=verify)
    wanted = {record["file"]: record for record in (source_record(path, root) for path in files)}
    if (cache_dir / INDEX).is_file() and not os.access(cache_dir / SHARDS, os.W_OK):
        return _open_unwritable(cache_dir, wanted, options, verify)
    with _locked(cache_dir, log):
        build = _Build(cache_dir, root, wanted, options, log)
        build.survey(verify)
        build.read(os.cpu_count() or 1 if workers is None else workers, shard_bytes, flush_s)
        build.compact(shard_bytes)
        return build.finish(cluster)


def _structure_files(source, cache_dir: Path, log: Log) -> tuple[list[Path], Path]:
    """Files to cache and the folder that their names are relative to; no files where the cache stands alone."""
    has_cache = (cache_dir / INDEX).is_file()
    if source is None:
        return [], cache_dir
    source = Path(source)
    files = find_structure_files(source) if source.exists() or not has_cache else []
    if files:
        return files, source if source.is_dir() else source.parent
    if not has_cache:
        _refuse_original(cache_dir)
        raise UserError(f"{source}: no structure file found, expected .pdb, .ent, .cif or .mmcif (also .gz): add some")
    log(f"cache: no structure files at {source}, the cache in {cache_dir} is used alone")
    return [], cache_dir


def _refuse_original(cache_dir: Path) -> None:
    """Raises UserError where the folder is a cache of the original program."""
    if cache_dir.is_dir() and any(cache_dir.glob("*.pt")):
        find_structure_files(cache_dir)


def _open_unwritable(cache_dir: Path, wanted: dict[str, dict], options: ReadOptions, verify: str) -> ChainStore:
    """A cache in a folder that this user may only read: good when nothing in it would change."""
    store = open_cache(cache_dir, verify=verify)
    known = {record["file"]: record for record in store.index.sources}
    unchanged = known.keys() == wanted.keys() and all(wanted[file].items() <= known[file].items() for file in known)
    if not unchanged or store.index.fingerprint != content_fingerprint(options):
        raise UserError(
            f"{cache_dir}: the cache is out of date and its folder cannot be written: choose another --cache_dir"
        )
    return store


def _check(shards: list[Shard], verify: str) -> str:
    """How thoroughly `damage` looks at each of these shards."""
    assert verify in ("auto", "full", "quick"), verify
    small = sum(shard.bytes for shard in shards) <= FULL_CHECK_BYTES
    return {"auto": "full" if small else "stamp"}.get(verify, verify)


@contextlib.contextmanager
def _locked(cache_dir: Path, log: Log) -> Iterator[None]:
    """Hold the folder's lock; the system releases it when the process ends, however it ends."""
    try:
        (cache_dir / SHARDS).mkdir(parents=True, exist_ok=True)
        handle = (cache_dir / SHARDS / "lock").open("a")
    except OSError as error:
        raise disk_error(error, cache_dir, 0) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"cache: another run is writing {cache_dir}, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class _Build:
    """State of one build: the shards that can be trusted and the source records that are taken from them."""

    def __init__(self, cache_dir: Path, root: Path, wanted: dict[str, dict], options: ReadOptions, log: Log):
        self.folder, self.cache_dir, self.root = cache_dir / SHARDS, cache_dir, root
        self.options, self.log = options, log
        self.fingerprint = content_fingerprint(options)
        self.wanted = wanted
        self.index: Index | None = None
        self.shards: dict[str, Shard] = {}
        self.records_in: Counter[str] = Counter()  # shard -> source records it holds, used or not
        self.known: dict[str, dict] = {}  # file -> its record, with the shard and the first row there

    def survey(self, verify: str) -> None:
        """Collect what earlier runs left: the shards of the index, then finished ones that it does not name."""
        for path in self.folder.glob(f"{TEMPORARY}*"):
            path.unlink(missing_ok=True)
        try:
            self.index = read_index(self.cache_dir)
        except OtherVersion as error:
            self.log(f"{error}: the cache is made again")
        except DamagedCache as error:
            self.log(f"{error}: the index is made again from the shards and the structures")
        if self.index and self.index.fingerprint != self.fingerprint:
            changed = [key for key in self.fingerprint if self.fingerprint[key] != self.index.fingerprint.get(key)]
            self.log(f"cache: made with another {' and '.join(changed)}, the structures are read again")
            self.index = None
        listed = {shard.name: shard for shard in self.index.shards} if self.index else {}
        check = _check(list(listed.values()), verify)
        found = {path.name for path in self.folder.glob("shard-*.arrow")}
        for name in [*listed, *sorted(found - set(listed))]:
            path = self.folder / name
            reason = damage(path, listed[name], check) if name in listed else damage(path)
            if reason:
                self.log(f"cache: shard {name} cannot be used ({reason}), its structures are read again")
                path.unlink(missing_ok=True)
            else:
                self._register(path)

    def _register(self, path: Path) -> None:
        """Take the records of a sound shard whose files are unchanged."""
        blocks, first = [], 0
        for block, sources in read_blocks(path):
            for record in sources:
                made_with, wanted = record.pop("fingerprint"), self.wanted.get(record["file"])
                if made_with == self.fingerprint and wanted is not None and wanted.items() <= record.items():
                    self.known.setdefault(record["file"], record | {"shard": path.name, "first": first})
                first += record["chains"]
            self.records_in[path.name] += len(sources)
            blocks.append((block.rows, int(block.lengths.sum())))
        status = path.stat()
        self.shards[path.name] = Shard(path.name, status.st_size, status.st_mtime_ns, tuple(blocks))

    def read(self, workers: int, shard_bytes: int, flush_s: float) -> None:
        """Parse the files that no shard holds; each shard is safe on disk as soon as it is full."""
        fresh = [record for file, record in self.wanted.items() if file not in self.known]
        if self.options.strict:
            _stop_at_rejection(self._sources())
        if self.known and fresh:
            self.log(f"cache: {len(self.known)} files unchanged, {len(fresh)} to read")
        blocks = read_in_blocks(fresh, self.root, self.options, workers, min(BLOCK_BYTES, shard_bytes))
        self._write(blocks, ShardWriter(self.folder, shard_bytes=shard_bytes, flush_s=flush_s))

    def _write(self, blocks: Iterable[Encoded], writer: ShardWriter) -> None:
        try:
            for batch, sources in blocks:
                if self.options.strict:
                    _stop_at_rejection(sources)
                writer.add(batch, [record | {"fingerprint": self.fingerprint} for record in sources])
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        for shard in writer.shards:
            self._register(self.folder / shard.name)

    def compact(self, shard_bytes: int) -> None:
        """Rewrite shards that hold records of changed or removed files, and join small ones."""
        used = Counter(record["shard"] for record in self.known.values())
        small = {name for name, shard in self.shards.items() if shard.bytes < shard_bytes / 2}
        rewritten = {name for name in self.shards if used[name] < self.records_in[name]}
        if len(small | rewritten) > 1:
            rewritten |= small
        if not rewritten:
            return
        moved = [record for record in self._sources() if record["shard"] in rewritten]
        parts = list(self._parts(moved))
        for name in rewritten:
            del self.shards[name], self.records_in[name]
        for record in moved:
            del self.known[record["file"]]
        self._write(
            merged(parts, min(BLOCK_BYTES, shard_bytes)),
            ShardWriter(self.folder, shard_bytes=shard_bytes, flush_s=float("inf")),
        )

    def _parts(self, records: list[dict]) -> Iterator[Encoded]:
        """The rows of each record as a block of its own."""
        batches = {}
        for name in {record["shard"] for record in records}:
            batches[name] = [block.batch for block, _ in read_blocks(self.folder / name)]
        starts = {name: np.cumsum([0] + [batch.num_rows for batch in own]) for name, own in batches.items()}
        for record in records:
            plain = {key: value for key, value in record.items() if key not in ("shard", "first")}
            number = int(np.searchsorted(starts[record["shard"]], record["first"], side="right")) - 1
            if record["chains"]:
                batch, start = batches[record["shard"]][number], int(starts[record["shard"]][number])
                yield rows_of_source(batch, record["first"] - start, record["chains"]), [plain]
            else:
                yield encode_block([], []), [plain]

    def _sources(self) -> list[dict]:
        return [self.known[file] for file in sorted(self.known)]

    def finish(self, cluster: Callable[..., np.ndarray]) -> ChainStore:
        """Cluster new sequences, write the index where anything changed, and remove what it does not name."""
        assert self.known.keys() == self.wanted.keys()
        index = Index(self.fingerprint, [self.shards[name] for name in self._shard_order()], self._sources())
        if not any(record["chains"] for record in index.sources):
            self._remove_others(self.index)
            reasons = Counter(reason for record in index.sources for _, reason, _ in record["rejections"])
            told = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
            raise UserError(
                f"{self.root}: none of {len(self.wanted)} files gave a usable chain ({told}): add structures"
            )
        store = ChainStore(self.cache_dir, index)
        _add_clusters(index, store, self.index, cluster, self.log)
        index.report = store.data_report().to_dict()
        if self.index is None or (self.index.shards, self.index.sources) != (index.shards, index.sources):
            clashes = sum(1 for chain_id, plain in zip(store.ids, store.plain_ids) if chain_id != plain)
            if clashes:
                self.log(
                    f"cache: {clashes} chains of files that differ only by extension have the file name in their id"
                )
            write_index(self.cache_dir, index)
        self._remove_others(index)
        return store

    def _shard_order(self) -> list[str]:
        first = {}
        for record in self._sources():
            first.setdefault(record["shard"], record["file"])
        return sorted(self.shards, key=lambda name: (first.get(name, ""), name))

    def _remove_others(self, index: Index | None) -> None:
        kept = {shard.name for shard in index.shards} if index else set()
        for path in self.folder.glob("shard-*.arrow"):
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _stop_at_rejection(sources: list[dict]) -> None:
    for record in sources:
        for chain, reason, detail in record["rejections"]:
            if not chain:
                raise UserError(
                    f"{record['file']}: {reason} ({detail}), and --strict ends the run at the first rejected file: "
                    "remove the file or leave out --strict"
                )


def _add_clusters(index: Index, store: ChainStore, old: Index | None, cluster, log: Log) -> None:
    """Homology cluster of each distinct sequence; computed again only when the set of sequences changed."""
    keys, rows = np.unique(store.sequence_keys, return_index=True)
    rule = {"threshold": THRESHOLD, "sequences": hashlib.sha256(keys.tobytes()).hexdigest()}
    if old is not None and old.cluster_rule == rule:
        index.keys, index.labels, index.cluster_rule = old.keys, old.labels, rule
        return
    letters = np.frombuffer(ALPHABET.encode(), np.uint8)
    sequences = [letters[store.aa(row)].tobytes().decode() for row in rows.tolist()]
    labels = cluster(sequences, threshold=THRESHOLD, log=log)
    index.keys, index.labels, index.cluster_rule = keys, np.asarray(labels, np.int32), rule
