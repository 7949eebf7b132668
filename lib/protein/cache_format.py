"""The Arrow record of one chain: encoding to record batches ("blocks") and zero-copy views of them.

Coordinates are centred on the middle of the bounding box and stored as int16 in units of 0.01 angstrom (rounding error
at most 0.005 angstrom per axis). A chain spanning more than 650 angstrom uses a float32 column in the same unit. A
presence column that is complete (all four backbone atoms everywhere) is null, author numbers are run-length coded.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VERSION = 1
UNIT = 0.01  # angstrom
WIDEST = 650.0  # angstrom; int16 reaches +-327 angstrom around the centre
COMPLETE = 15  # presence bits of N, CA, C, O
SOURCES = b"quartet.sources"

SCHEMA = pa.schema(
    [
        ("id", pa.utf8()),
        ("source", pa.int32()),  # index into the sources of the block
        ("name", pa.utf8()),
        ("copy_of", pa.utf8()),
        ("is_plddt", pa.bool_()),
        ("key", pa.uint64()),
        ("centre", pa.list_(pa.float32(), 3)),  # angstrom, in the frame of the file
        ("coordinates", pa.list_(pa.int16())),
        ("wide_coordinates", pa.list_(pa.float32())),
        ("aa", pa.list_(pa.uint8())),
        ("present", pa.list_(pa.uint8())),
        ("confidence", pa.list_(pa.uint8())),
        ("number_runs", pa.list_(pa.int32())),  # start, length, start, length ...
        ("insertion_positions", pa.list_(pa.int32())),
        ("insertion_codes", pa.utf8()),  # one character for each position
    ],
    metadata={"quartet.cache": str(VERSION)},
)


def sequence_key(aa: np.ndarray) -> int:
    """64-bit hash of a sequence of residue indices uint8 (residues,)."""
    return int.from_bytes(hashlib.blake2b(np.ascontiguousarray(aa).tobytes(), digest_size=8).digest(), "little")


def quantise(coordinates: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre float32 (residues, 4, 3) in angstrom on the middle of its bounding box, in units of 0.01 angstrom.

    Returns (int16 or, above 650 angstrom, float32 (residues, 4, 3); centre float32 (3,)). Absent atoms become 0.
    """
    there = (present[:, None] >> np.arange(4)) & 1 > 0  # (residues, 4)
    atoms = coordinates[there].astype(np.float64)  # (atoms, 3)
    assert np.isfinite(atoms).all(), "coordinates that are not finite are rejected when they are read"
    low, high = (atoms.min(axis=0), atoms.max(axis=0)) if len(atoms) else (np.zeros(3), np.zeros(3))
    centre = ((low + high) / 2).astype(np.float32)
    scaled = (coordinates.astype(np.float64) - centre) / UNIT
    scaled[~there] = 0.0
    if (high - low).max() > WIDEST:
        return scaled.astype(np.float32), centre
    return np.rint(scaled).astype(np.int16), centre


def run_lengths(numbers: np.ndarray) -> np.ndarray:
    """Run-length code of author numbers int32 (residues,): start, length of each run that counts up by one."""
    if not len(numbers):
        return np.zeros(0, np.int32)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers) != 1) + 1])
    lengths = np.diff(np.concatenate([starts, [len(numbers)]]))
    return np.stack([numbers[starts], lengths], axis=1).astype(np.int32).ravel()


def expand_runs(runs: np.ndarray) -> np.ndarray:
    """Inverse of `run_lengths`: int32 (residues,)."""
    starts, lengths = runs[0::2], runs[1::2]
    first = np.cumsum(lengths) - lengths
    return (np.arange(lengths.sum()) + np.repeat(starts - first, lengths)).astype(np.int32)


def _list_column(arrays: Sequence[np.ndarray | None], value_type: pa.DataType) -> pa.ListArray:
    """List column of flat arrays; None becomes null."""
    lengths = [0 if array is None else array.size for array in arrays]
    offsets = np.zeros(len(arrays) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    parts = [array.ravel() for array in arrays if array is not None]
    values = pa.array(np.concatenate(parts) if parts else np.zeros(0, value_type.to_pandas_dtype()), value_type)
    mask = pa.array([array is None for array in arrays], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask if mask.true_count else None)


def encode_block(chains: Sequence, sources: Sequence[int]) -> pa.RecordBatch:
    """Record batch of Chain objects; sources[i] is the index of chain i's file in the sources of the block."""
    packed = [quantise(chain.coordinates, chain.present) for chain in chains]
    narrow = [array if array.dtype == np.int16 else None for array, _ in packed]
    wide = [array if array.dtype == np.float32 else None for array, _ in packed]
    present = [None if (chain.present == COMPLETE).all() else chain.present for chain in chains]
    positions = [np.array(sorted(chain.insertions), np.int32) for chain in chains]
    centres = np.concatenate([centre for _, centre in packed]) if packed else np.zeros(0, np.float32)
    columns = {
        "id": pa.array([chain.id for chain in chains], pa.utf8()),
        "source": pa.array(list(sources), pa.int32()),
        "name": pa.array([chain.name for chain in chains], pa.utf8()),
        "copy_of": pa.array([chain.copy_of for chain in chains], pa.utf8()),
        "is_plddt": pa.array([bool(chain.is_plddt) for chain in chains], pa.bool_()),
        "key": pa.array([sequence_key(chain.aa) for chain in chains], pa.uint64()),
        "centre": pa.FixedSizeListArray.from_arrays(pa.array(centres, pa.float32()), 3),
        "coordinates": _list_column(narrow, pa.int16()),
        "wide_coordinates": _list_column(wide, pa.float32()),
        "aa": _list_column([chain.aa for chain in chains], pa.uint8()),
        "present": _list_column(present, pa.uint8()),
        "confidence": _list_column([chain.confidence for chain in chains], pa.uint8()),
        "number_runs": _list_column([run_lengths(chain.numbers) for chain in chains], pa.int32()),
        "insertion_positions": _list_column(positions, pa.int32()),
        "insertion_codes": pa.array(["".join(_codes(chain)) for chain in chains], pa.utf8()),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in SCHEMA], schema=SCHEMA)


def _codes(chain) -> list[str]:
    codes = [chain.insertions[position] for position in sorted(chain.insertions)]
    assert all(len(code) == 1 for code in codes), f"{chain.id}: insertion codes are single characters"
    return codes


def merge_blocks(parts: Sequence[tuple[pa.RecordBatch, list[dict]]]) -> tuple[pa.RecordBatch, list[dict]]:
    """Join blocks and their sources into one block."""
    if len(parts) == 1:
        return parts[0]
    batches, sources = [], []
    column = SCHEMA.get_field_index("source")
    for batch, own in parts:
        shifted = pc.add(batch.column(column), pa.scalar(len(sources), pa.int32()))
        batches.append(batch.set_column(column, SCHEMA.field(column), shifted))
        sources += own
    table = pa.Table.from_batches(batches, SCHEMA).combine_chunks()
    joined = table.to_batches()[0] if table.num_rows else encode_block([], [])
    return joined, sources


def rows_of_source(batch: pa.RecordBatch, first: int, count: int) -> pa.RecordBatch:
    """The rows of one source file as a block of its own."""
    column = SCHEMA.get_field_index("source")
    return batch.slice(first, count).set_column(column, SCHEMA.field(column), pa.array([0] * count, pa.int32()))


def pack_sources(sources: list[dict]) -> dict[bytes, bytes]:
    """Custom metadata of a block: its source files, their fingerprints and what was found in them."""
    return {SOURCES: zlib.compress(json.dumps(sources, separators=(",", ":")).encode())}


def unpack_sources(metadata) -> list[dict]:
    return json.loads(zlib.decompress(metadata[SOURCES]))


class Block:
    """Zero-copy views of the chains of one record batch; every array is read-only and lives as long as the batch."""

    def __init__(self, batch: pa.RecordBatch):
        if batch.schema != SCHEMA:
            raise pa.ArrowInvalid(f"columns {batch.schema.names} found, expected {SCHEMA.names}")
        self.batch = batch
        self.rows = batch.num_rows
        self.keys = batch.column("key").to_numpy()
        self.source = batch.column("source").to_numpy()
        self.centres = batch.column("centre").values.to_numpy().reshape(-1, 3)
        self._values, self._offsets = {}, {}
        for field in SCHEMA:
            if pa.types.is_list(field.type):
                column = batch.column(field.name)
                self._values[field.name] = column.values.to_numpy()
                self._offsets[field.name] = column.offsets.to_numpy()
        aa_offsets = self._offsets["aa"]
        self.lengths = np.diff(aa_offsets)  # (rows,)
        self._coordinates, self._coordinate_offsets = self._values["coordinates"], self._offsets["coordinates"]
        self._aa, self._aa_offsets = self._values["aa"], aa_offsets
        self._complete = np.full(int(self.lengths.max(initial=0)), COMPLETE, np.uint8)
        self._complete.flags.writeable = False

    def _slice(self, name: str, row: int) -> np.ndarray:
        offsets = self._offsets[name]
        return self._values[name][offsets[row] : offsets[row + 1]]

    def coordinates(self, row: int) -> np.ndarray:
        """int16 (residues, 4, 3) in 0.01 angstrom around the centre; float32 in the same unit for a wide chain."""
        start, stop = self._coordinate_offsets[row], self._coordinate_offsets[row + 1]
        if start == stop:
            return self._slice("wide_coordinates", row).reshape(-1, 4, 3)
        return self._coordinates[start:stop].reshape(-1, 4, 3)

    def aa(self, row: int) -> np.ndarray:
        return self._aa[self._aa_offsets[row] : self._aa_offsets[row + 1]]

    def present(self, row: int) -> np.ndarray:
        stored = self._slice("present", row)
        return stored if len(stored) else self._complete[: self.lengths[row]]

    def confidence(self, row: int) -> np.ndarray:
        return self._slice("confidence", row)

    def centre(self, row: int) -> np.ndarray:
        return self.centres[row]

    def numbers(self, row: int) -> np.ndarray:
        return expand_runs(self._slice("number_runs", row))

    def insertions(self, row: int) -> dict[int, str]:
        codes = self.batch.column("insertion_codes")[row].as_py()
        return dict(zip(self._slice("insertion_positions", row).tolist(), codes, strict=True))

    def is_plddt(self, row: int) -> bool:
        return self.batch.column("is_plddt")[row].as_py()

    def text(self, name: str) -> list[str]:
        """A text column ("id", "name", "copy_of") as a list."""
        return self.batch.column(name).to_pylist()
