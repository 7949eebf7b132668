"""A cache larger than memory as an endless stream of token-budget batches, with a position that resumes exactly.

Blocks of the shards are dealt to ranks and then to loader workers, in an order drawn for each epoch. A worker reads a
window of blocks, shuffles all units in it, hands them out, and reads the next. The window is the shuffle buffer: as its
order is a function of (seed, epoch, rank, worker, window), the position is three numbers and the buffer needs no
saving. This is why plain pyarrow is used: the shuffle buffer of `datasets` is refilled on resume, so its next batches
would differ. (The shards themselves open with `datasets.load_dataset("arrow", data_files=...)`.)

Blocks are read, not memory-mapped: mapped pages of everything that was ever read would count as this process's memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from torch.utils.data import IterableDataset, get_worker_info

from lib.balance import split_balanced
from lib.errors import UserError
from lib.protein.batching import Crop, crop_limit, unit_arrays
from lib.protein.cache_format import Block
from lib.protein.cache_index import SHARDS, read_shard_list, refuse_damaged
from lib.protein.cache_shards import load_block
from lib.protein.split import group_chains, unit_name
from lib.seeds import derive, numpy_generator

# Every stream gets at least so many pieces an epoch, else blocks are divided: few large pieces would make the shares of
# the streams unequal, and the records of a small share would come more often.
PIECES_PER_STREAM = 8


@dataclass(frozen=True, slots=True)
class Position:
    """What a stream hands out next: unit `offset` of window `window` in epoch `epoch`."""

    epoch: int = 0
    window: int = 0
    offset: int = 0

    def to_list(self) -> list[int]:
        return [self.epoch, self.window, self.offset]


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """units: arrays of each unit (`unit_arrays`) with its "name"; position: of the stream after this batch."""

    units: list[dict]
    worker: int
    workers: int
    position: Position

    @property
    def residues(self) -> int:
        return sum(len(unit["aa"]) for unit in self.units)


@dataclass(frozen=True, slots=True)
class _Piece:
    path: Path
    block: int
    part: int  # units part, part + parts, part + 2 parts ... of the block
    parts: int
    residues: int


class ShardStream(IterableDataset):
    """Batches of at most `max_tokens` residues from the shards of a cache, for one rank.

    Give it to a DataLoader with batch_size=None, or iterate it. With `repeat` it never ends, so all ranks take
    `steps_per_epoch` steps an epoch whatever their shares hold; without, each unit comes exactly once over all ranks
    and workers. Call `consumed(batch)` for each batch that was trained on; `state_dict` (JSON) then names the next one,
    for the same numbers of processes and workers. Units longer than `max_length` or the budget are cropped. Files in
    `skip_files` (those of the validation set) and units below `min_length` are left out.
    """

    def __init__(
        self,
        cache_dir: Path | str,
        *,
        max_tokens: int,
        seed: int = 0,
        rank: int = 0,
        processes: int = 1,
        unit: str = "entry",
        max_length: int = 1000,
        min_length: int = 20,
        skip_files: Collection[str] = (),
        window_blocks: int = 8,
        repeat: bool = True,
    ):
        assert 0 <= rank < processes and window_blocks >= 1
        shards = read_shard_list(Path(cache_dir))
        for shard in shards:
            refuse_damaged(Path(cache_dir) / SHARDS / shard.name, shard, "quick")
        self.max_tokens, self.seed, self.rank, self.processes = max_tokens, seed, rank, processes
        self.unit, self.max_length, self.min_length, self.repeat = unit, max_length, min_length, repeat
        self.limit, self.window_blocks = crop_limit(max_length, max_tokens), window_blocks
        self.skip_files = frozenset(skip_files)
        self._blocks = [
            (Path(cache_dir) / SHARDS / shard.name, number, residues)
            for shard in shards
            for number, (rows, residues) in enumerate(shard.blocks)
            if rows
        ]
        self._next_worker, self._positions = 0, [Position()]
        self._started = False

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which all ranks together pass about once over the data; the same number on every rank."""
        return math.ceil(sum(residues for _, _, residues in self._blocks) / (self.max_tokens * self.processes))

    def consumed(self, batch: StreamBatch) -> None:
        """Record that a batch was used: the position moves behind it."""
        if len(self._positions) != batch.workers:
            assert not self._started, "the number of workers is fixed while a stream is used"
            self._positions = [Position()] * batch.workers
        self._started = True
        self._positions[batch.worker] = batch.position
        self._next_worker = (batch.worker + 1) % batch.workers

    def state_dict(self) -> dict:
        return {
            "processes": self.processes,
            "seed": self.seed,
            "next_worker": self._next_worker,
            "positions": [position.to_list() for position in self._positions],
        }

    def load_state_dict(self, state: dict) -> None:
        """Continue behind the last consumed batch. Raises UserError for the state of another world."""
        for name in ("processes", "seed"):
            if state[name] != getattr(self, name):
                raise UserError(
                    f"the stream position was saved with {name} {state[name]}, this run has {getattr(self, name)}: "
                    "resume with the same value, or start a new run"
                )
        self._positions = [Position(*position) for position in state["positions"]]
        self._next_worker, self._started = int(state["next_worker"]), True

    def __iter__(self) -> Iterator[StreamBatch]:
        info = get_worker_info()
        workers = info.num_workers if info else 1
        positions = self._positions
        if len(positions) != workers:
            if self._started:
                raise UserError(
                    f"the stream position was saved with {len(positions)} loader workers, this run has {workers}: "
                    f"set --num_workers to {len(positions) if len(positions) > 1 else '0 or 1'}"
                )
            positions = [Position()] * workers
        # A loader asks its worker 0 first, so after a resume that one plays the worker whose turn it is.
        worker = ((info.id if info else 0) + self._next_worker) % workers
        yield from self._batches(worker, workers, positions[worker])

    def _batches(self, worker: int, workers: int, start: Position) -> Iterator[StreamBatch]:
        waiting: list[dict] = []
        filled = 0
        for unit, position in self._units(worker, workers, start):
            length = len(unit["aa"]) if unit else 0
            if waiting and (unit is None or filled + length > self.max_tokens):
                # The unit that did not fit is drawn again by whoever continues from this position.
                yield StreamBatch(waiting, worker, workers, position)
                waiting, filled = [], 0
            if unit is not None:
                waiting.append(unit)
                filled += length

    def _units(self, worker: int, workers: int, position: Position) -> Iterator[tuple[dict | None, Position]]:
        """Units from `position` on, each with its own position; without `repeat` (None, position) ends the epoch."""
        epoch, first_window, first_offset = position.epoch, position.window, position.offset
        while True:
            pieces = self._pieces(epoch, worker, workers)
            windows = [pieces[at : at + self.window_blocks] for at in range(0, len(pieces), self.window_blocks)]
            found = first_window > 0 or first_offset > 0
            for window in range(first_window, len(windows)):
                groups = self._window(windows[window], epoch, worker, window)
                for offset in range(first_offset, len(groups)):
                    found = True
                    yield self._load(*groups[offset], epoch), Position(epoch, window, offset)
                first_offset = 0
                del groups
                pa.default_memory_pool().release_unused()
            if not self.repeat:
                yield None, Position(epoch, len(windows), 0)
                return
            if not found:
                raise UserError(
                    f"the cache has too few units for {self.processes} processes with {workers} loader workers each: "
                    "lower --num_workers or the number of processes, or add structures"
                )
            epoch, first_window = epoch + 1, 0

    def _pieces(self, epoch: int, worker: int, workers: int) -> list[_Piece]:
        """This stream's share of the blocks in this epoch."""
        parts = max(1, math.ceil(PIECES_PER_STREAM * self.processes * workers / max(1, len(self._blocks))))
        pieces = [
            _Piece(path, number, part, parts, residues // parts)
            for path, number, residues in self._blocks
            for part in range(parts)
        ]
        order = numpy_generator(self.seed, "pieces", epoch).permutation(len(pieces))
        pieces = [pieces[at] for at in order]
        for share, count in ((self.rank, self.processes), (worker, workers)):
            pieces = [pieces[at] for at in split_balanced([piece.residues for piece in pieces], count)[share]]
        return pieces

    def _window(self, pieces: list[_Piece], epoch: int, worker: int, window: int) -> list[tuple[Block, int, int]]:
        """Units of the pieces as (block, first row, end row), in the order in which they are handed out."""
        groups = [group for piece in pieces for group in self._groups(piece)]
        order = numpy_generator(self.seed, "window", epoch, self.rank, worker, window).permutation(len(groups))
        return [groups[at] for at in order]

    def _groups(self, piece: _Piece) -> list[tuple[Block, int, int]]:
        block, sources = load_block(piece.path, piece.block)
        groups, first = [], 0
        for source in sources:
            lengths = block.lengths[first : first + source["chains"]].tolist()
            if source["file"] not in self.skip_files:
                for start, stop in group_chains(lengths, self.max_length, self.unit):
                    if sum(lengths[start:stop]) >= self.min_length:
                        groups.append((block, first + start, first + stop))
            first += source["chains"]
        return groups[piece.part :: piece.parts]

    def _load(self, block: Block, first: int, stop: int, epoch: int) -> dict:
        rows = range(first, stop)
        name = unit_name([block.batch.column("id")[row].as_py() for row in rows])
        length = int(block.lengths[first:stop].sum())
        crop = Crop(self.limit, derive(self.seed, "crop", epoch, name)) if length > self.limit else None
        return unit_arrays([(block, row) for row in rows], crop) | {"name": name, "cropped": crop is not None}
