"""Shards of the cache: Arrow IPC files of blocks, named by their content, written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from lib.errors import UserError
from lib.protein.cache_format import SCHEMA, Block, pack_sources, unpack_sources

SHARD_BYTES = 512 << 20
BLOCK_BYTES = 4 << 20
TEMPORARY = ".tmp-"


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as the index knows it. mtime_ns: when its content was last verified to be the named one."""

    name: str
    bytes: int
    mtime_ns: int
    blocks: tuple[tuple[int, int], ...]  # rows, residues of each block

    def to_dict(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_dict(document: dict) -> Shard:
        return Shard(
            name=str(document["name"]),
            bytes=int(document["bytes"]),
            mtime_ns=int(document["mtime_ns"]),
            blocks=tuple((int(rows), int(residues)) for rows, residues in document["blocks"]),
        )


def file_digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: OSError, folder: Path, needed: int) -> UserError:
    """The one-line message for a cache that cannot be written."""
    if error.errno == errno.ENOSPC:
        return UserError(
            f"{folder}: no space left while writing about {needed} bytes of cache: free some or move --cache_dir"
        )
    return UserError(f"{folder}: cache cannot be written ({error.strerror or error}): choose a writable --cache_dir")


class ShardWriter:
    """Collects encoded blocks; closes a shard when it is full or `flush_s` old, so that a killed run loses little."""

    def __init__(self, folder: Path, *, shard_bytes: int = SHARD_BYTES, flush_s: float = 60.0):
        self.folder, self.shard_bytes, self.flush_s = folder, shard_bytes, flush_s
        self.shards: list[Shard] = []
        self._path: Path | None = None

    def add(self, batch: pa.RecordBatch, sources: list[dict]) -> None:
        try:
            if self._path is None:
                self._path = self.folder / f"{TEMPORARY}{os.getpid()}-{len(self.shards)}.arrow"
                self._sink = pa.OSFile(str(self._path), "wb")
                self._writer = pa.ipc.new_file(self._sink, SCHEMA)
                self._blocks, self._opened = [], time.monotonic()
            self._writer.write_batch(batch, custom_metadata=pack_sources(sources))
            self._blocks.append((batch.num_rows, len(batch.column("aa").values)))
            if self._sink.tell() >= self.shard_bytes or time.monotonic() - self._opened >= self.flush_s:
                self.close()
        except OSError as error:
            self.abandon()
            raise disk_error(error, self.folder, batch.nbytes) from error

    def close(self) -> None:
        """Finish the open shard: footer, fsync, and the rename to the name that its content gives."""
        if self._path is None:
            return
        try:
            self._writer.close()
            self._sink.close()
            with self._path.open("rb") as handle:
                os.fsync(handle.fileno())
            size = self._path.stat().st_size
            final = self.folder / f"shard-{file_digest(self._path)[:32]}.arrow"
            self._path.replace(final)
            sync_folder(self.folder)
        except OSError as error:
            self.abandon()
            raise disk_error(error, self.folder, self.shard_bytes) from error
        self.shards.append(Shard(final.name, size, final.stat().st_mtime_ns, tuple(self._blocks)))
        self._path = None

    def abandon(self) -> None:
        """Remove the unfinished shard."""
        if self._path is not None:
            path, self._path = self._path, None
            self._sink.close()
            path.unlink(missing_ok=True)


def damage(path: Path, shard: Shard | None = None, check: str = "full") -> str:
    """Why a shard cannot be trusted, or "".

    Always: size (where the index gives one), Arrow footer and columns. The sha256 that the name carries is computed
    with check "full"; with "stamp" only when the modification time is not the recorded one; with "quick" never.
    """
    try:
        status = path.stat()
        if shard is not None and status.st_size != shard.bytes:
            return f"{status.st_size} bytes found, {shard.bytes} expected"
        stamped = shard is not None and status.st_mtime_ns == shard.mtime_ns
        if check == "full" or (check == "stamp" and not stamped):
            if path.name != f"shard-{file_digest(path)[:32]}.arrow":
                return "content does not match its sha256"
        with pa.memory_map(str(path)) as source:
            return "" if pa.ipc.open_file(source).schema.equals(SCHEMA, check_metadata=True) else "unexpected columns"
    except FileNotFoundError:
        return "missing"
    except (pa.ArrowException, OSError) as error:
        return f"not an Arrow file: {str(error).splitlines()[0]}"


def read_blocks(path: Path) -> Iterator[tuple[Block, list[dict]]]:
    """Blocks of a memory-mapped shard, each with the records of its source files."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    for index in range(reader.num_record_batches):
        batch, metadata = reader.get_batch_with_custom_metadata(index)
        yield Block(batch), unpack_sources(metadata)


def load_block(path: Path, index: int) -> tuple[Block, list[dict]]:
    """One block read into memory of its own, which is free again when the block is dropped."""
    with pa.OSFile(str(path), "rb") as source:
        batch, metadata = pa.ipc.open_file(source).get_batch_with_custom_metadata(index)
    return Block(batch), unpack_sources(metadata)
