"""The index of a cache: which shards and source files belong to it. Written last, in one rename."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from lib.errors import UserError
from lib.protein.cache_format import VERSION
from lib.protein.cache_shards import TEMPORARY, Shard, damage, disk_error, sync_folder

FORMAT = "quartet-protein-cache"
INDEX = "cache_index.json"
SHARDS = "cache_shards"


class DamagedCache(UserError):
    """The cache on disk cannot be used; `build_cache` makes it again where the structures are there."""


class OtherVersion(DamagedCache):
    """The cache was written by another version of this program."""


@dataclass(slots=True)
class Index:
    """What cache_index.json and the tables it names hold.

    sources: one record for each file, sorted by file: file, size, mtime_ns, entries, chains, rejections, counts, shard
    (its name) and first (row in that shard). keys (sequences,) uint64 sorted, labels (sequences,) int32: the cluster of
    each distinct sequence, under the rule `cluster_rule`.
    """

    fingerprint: dict
    shards: list[Shard]
    sources: list[dict]
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    cluster_rule: dict = field(default_factory=dict)
    report: dict = field(default_factory=dict)


def write_index(cache_dir: Path, index: Index) -> None:
    """Write the tables under names given by their content, then the index over the old one, then drop old tables."""
    tables = {
        "sources": pa.table({"record": pa.array([json.dumps(record, sort_keys=True) for record in index.sources])}),
        "clusters": pa.table({"key": pa.array(index.keys, pa.uint64()), "label": pa.array(index.labels, pa.int32())}),
    }
    names = {}
    for title, table in tables.items():
        data = _table_bytes(table)
        digest = hashlib.sha256(data).hexdigest()
        names[title] = f"{title}-{digest[:32]}.arrow"
        write_atomically(cache_dir / SHARDS / names[title], data)
    body = {
        "format": FORMAT,
        "version": VERSION,
        "fingerprint": index.fingerprint,
        "shards": [shard.to_dict() for shard in index.shards],
        "tables": names,
        "cluster_rule": index.cluster_rule,
        "report": index.report,
    }
    body["sha256"] = _body_digest(body)
    write_atomically(cache_dir / INDEX, (json.dumps(body, indent=1) + "\n").encode())
    for path in (cache_dir / SHARDS).iterdir():
        if path.name.startswith(tuple(tables)) and path.name not in names.values():
            path.unlink(missing_ok=True)


def read_index(cache_dir: Path, *, tables: bool = True) -> Index | None:
    """The index of a folder, None where there is none. Raises DamagedCache or OtherVersion."""
    path = cache_dir / INDEX
    try:
        body = json.loads(path.read_bytes())
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise ValueError("not an index of this program")
        if body["version"] != VERSION:
            raise OtherVersion(f"{path}: cache version {body['version']} found, expected {VERSION}")
        if body.pop("sha256") != _body_digest(body):
            raise ValueError("content does not match its sha256")
        index = Index(
            fingerprint=body["fingerprint"],
            shards=[Shard.from_dict(document) for document in body["shards"]],
            sources=[],
            cluster_rule=body["cluster_rule"],
            report=body["report"],
        )
        if tables:
            read = {title: _read_table(cache_dir / SHARDS / name) for title, name in body["tables"].items()}
            index.sources = [json.loads(text) for text in read["sources"]["record"].to_pylist()]
            index.keys, index.labels = read["clusters"]["key"].to_numpy(), read["clusters"]["label"].to_numpy()
        return index
    except FileNotFoundError as error:
        if Path(error.filename) == path:
            return None
        raise DamagedCache(f"{error.filename}: missing, the index names it") from None
    except DamagedCache:
        raise
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise DamagedCache(f"{path}: damaged ({error})") from None


def refuse_damaged(path: Path, shard: Shard, check: str) -> None:
    """Raises DamagedCache for a shard that cannot be trusted; `check`: see `damage`."""
    reason = damage(path, shard, check)
    if reason:
        raise DamagedCache(f"{path}: damaged ({reason}), the cache is not used: make it again by giving --pdb_path")


def read_shard_list(cache_dir: Path) -> list[Shard]:
    """The shards of a cache without the tables of its files, which are long for a large cache. Errors: `read_index`."""
    index = read_index(cache_dir, tables=False)
    if index is None:
        raise UserError(f"{cache_dir}: no {INDEX} found, expected a cache: make it by giving --pdb_path")
    return index.shards


def write_atomically(path: Path, data: bytes) -> None:
    """Temporary sibling, fsync, rename. Raises UserError when the disk refuses."""
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{path.name}"
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_error(error, path.parent, len(data)) from error


def _body_digest(body: dict) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _read_table(path: Path) -> pa.Table:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest()[:32] != path.stem.rpartition("-")[2]:
        raise DamagedCache(f"{path}: content does not match its sha256")
    return pa.ipc.open_file(data).read_all()
