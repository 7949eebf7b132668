"""Reading a finished cache: every chain is a zero-copy view of a memory-mapped shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from lib.protein.cache_format import UNIT, Block
from lib.protein.cache_index import SHARDS, Index
from lib.protein.cache_shards import read_blocks
from lib.protein.data_report import DataReport


class ChainStore:
    """The chains of a cache. Rows: files sorted by name, chains in file order, so a file's chains are consecutive.

    lengths int32 (rows,) residues; sequence_keys uint64 (rows,); clusters int32 (rows,); ids, files, entries, names,
    copies_of: lists of text (rows); report: the data report as a dict.
    """

    def __init__(self, cache_dir: Path, index: Index):
        self.cache_dir, self.index = cache_dir, index
        self._blocks: list[Block] = []
        first_block, block_starts = {}, {}
        for shard in index.shards:
            first_block[shard.name] = len(self._blocks)
            self._blocks += [block for block, _ in read_blocks(cache_dir / SHARDS / shard.name)]
            block_starts[shard.name] = np.cumsum([0] + [rows for rows, _ in shard.blocks])
        self._kept = [source for source in index.sources if source["chains"]]
        blocks, rows = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for source in self._kept:
            own = source["first"] + np.arange(source["chains"])
            starts = block_starts[source["shard"]]
            number = np.searchsorted(starts, own, side="right") - 1
            blocks.append(first_block[source["shard"]] + number)
            rows.append(own - starts[number])
        # Plain lists: an element is reached three times faster than one of a numpy array.
        self._block_of: list[Block] = [self._blocks[number] for number in np.concatenate(blocks)]
        self._row_of: list[int] = np.concatenate(rows).tolist()
        self.lengths = self._gather(lambda block: block.lengths, np.int32)
        self.sequence_keys = self._gather(lambda block: block.keys, np.uint64)

    def _gather(self, column, dtype) -> np.ndarray:
        """A per-chain array in row order."""
        return np.array([column(block)[row] for block, row in zip(self._block_of, self._row_of)], dtype)

    def _texts(self, name: str) -> list[str]:
        columns = {id(block): block.text(name) for block in self._blocks}
        return [columns[id(block)][row] for block, row in zip(self._block_of, self._row_of)]

    def __len__(self) -> int:
        return len(self._row_of)

    @cached_property
    def ids(self) -> list[str]:
        """Unique chain ids; where two files differ only by extension, their chains carry the full file name."""
        plain = self.plain_ids
        count = Counter(plain)
        if len(count) == len(plain):
            return plain
        return [
            chain_id if count[chain_id] == 1 else f"{file}:{name}"
            for chain_id, file, name in zip(plain, self.files, self.names)
        ]

    @cached_property
    def plain_ids(self) -> list[str]:
        """Chain ids as the reader gave them, without the extension of the file."""
        return self._texts("id")

    @cached_property
    def names(self) -> list[str]:
        return self._texts("name")

    @cached_property
    def copies_of(self) -> list[str]:
        return self._texts("copy_of")

    @cached_property
    def files(self) -> list[str]:
        return [source["file"] for source in self._kept for _ in range(source["chains"])]

    @cached_property
    def entries(self) -> list[str]:
        return [source["entries"][0] for source in self._kept for _ in range(source["chains"])]

    @cached_property
    def clusters(self) -> np.ndarray:
        return self.index.labels[np.searchsorted(self.index.keys, self.sequence_keys)]

    @cached_property
    def all_files(self) -> list[str]:
        """Every file that was read, also those without a usable chain."""
        return [source["file"] for source in self.index.sources]

    @property
    def report(self) -> dict:
        return self.index.report

    def data_report(self) -> DataReport:
        """The data report as an object, to which a split can be added and which can be printed."""
        report, first = DataReport(), 0
        for source in self.index.sources:
            keys = self.sequence_keys[first : first + source["chains"]].tolist()
            report.add_summary(source | {"sequences": [f"{key:016x}" for key in keys]})
            first += source["chains"]
        if len(self.index.labels):
            report.set_clusters(self.clusters)
        return report

    def coordinates(self, row: int) -> np.ndarray:
        """View (residues, 4, 3) in 0.01 angstrom around `centre(row)`: int16, or float32 for a very wide chain."""
        return self._block_of[row].coordinates(self._row_of[row])

    def aa(self, row: int) -> np.ndarray:
        """View uint8 (residues,)."""
        return self._block_of[row].aa(self._row_of[row])

    def present(self, row: int) -> np.ndarray:
        """View uint8 (residues,), bits 0..3 = N, CA, C, O."""
        return self._block_of[row].present(self._row_of[row])

    def confidence(self, row: int) -> np.ndarray:
        """View uint8 (residues,): B factor or pLDDT."""
        return self._block_of[row].confidence(self._row_of[row])

    def centre(self, row: int) -> np.ndarray:
        """float32 (3,) angstrom: the middle of the chain's bounding box in the frame of its file."""
        return self._block_of[row].centre(self._row_of[row])

    def is_plddt(self, row: int) -> bool:
        return self._block_of[row].is_plddt(self._row_of[row])

    def numbers(self, row: int) -> np.ndarray:
        """Author residue numbers int32 (residues,)."""
        return self._block_of[row].numbers(self._row_of[row])

    def insertions(self, row: int) -> dict[int, str]:
        """Insertion code by position, only where there is one."""
        return self._block_of[row].insertions(self._row_of[row])

    def chain_batch(self, rows: Sequence[int]) -> np.ndarray:
        """Coordinates of chains of one file, float32 (residues, 4, 3) in angstrom; absent atoms 0.

        The frame is that of the file, shifted by one common centre, so that the chains stand to each other as they do
        in the file.
        """
        return assemble([self.locate(row) for row in rows])

    def locate(self, row: int) -> tuple[Block, int]:
        """The block that holds a chain and its row there."""
        return self._block_of[row], self._row_of[row]


def assemble(chains: Sequence[tuple[Block, int]]) -> np.ndarray:
    """Concatenate chains given as (block, row): see `ChainStore.chain_batch`."""
    centres = np.stack([block.centre(row) for block, row in chains])  # (chains, 3)
    shifts = centres - (centres.min(axis=0) + centres.max(axis=0)) / 2
    stops = np.cumsum([block.lengths[row] for block, row in chains]).tolist()
    out = np.empty((stops[-1], 4, 3), np.float32)
    start = 0
    for (block, row), shift, stop in zip(chains, shifts, stops):
        part = out[start:stop]
        np.multiply(block.coordinates(row), np.float32(UNIT), out=part)
        if len(chains) > 1:
            part += shift
            present = block.present(row)
            if (present != 15).any():
                part[(present[:, None] >> np.arange(4)) & 1 == 0] = 0.0
        start = stop
    return out
