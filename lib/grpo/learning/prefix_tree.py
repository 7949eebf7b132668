"""Sequences that begin alike, laid out in one row in which what they share stands once.

Every node of the tree is a run of tokens followed by its descendants, so that "all descendants of a node" is one
range of the row: they attend to the node without a mask and without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

# Beyond what the sequences declare as shared, prefixes are cut to multiples of this many tokens: a shorter node costs
# more in calls than it saves in tokens.
GRAIN = 16
# Segments of one causal call are padded to the longest of them; the shortest may need this much less plus GRAIN.
PADDING = 1.25


@dataclass(frozen=True)
class CausalBin:
    """Segments of about equal length that attend to themselves in one call.

    `start` is the first token of the row when the segments are equally long and follow each other, else None and
    `index` (segments, width) holds their tokens, the last one repeated as padding; `valid` (segments x width) is
    False at padding. Causal attention never looks at what follows, so padding at the end needs no mask.
    """

    segments: int
    width: int
    start: int | None
    index: torch.Tensor | None = None
    valid: torch.Tensor | None = None

    def to(self, device: torch.device | str) -> CausalBin:
        if self.index is None:
            return self
        return replace(self, index=self.index.to(device), valid=self.valid.to(device))


@dataclass(frozen=True)
class TreeLayout:
    """Who attends to whom in a row of `tokens` tokens.

    `segments` [start, end): each attends causally to itself. `ancestors` (start, end, stop): the tokens end..stop
    attend to all of start..end. `bins` are the segments again, as batches.
    """

    tokens: int
    segments: tuple[tuple[int, int], ...]
    ancestors: tuple[tuple[int, int, int], ...]
    bins: tuple[CausalBin, ...]

    def to(self, device: torch.device | str) -> TreeLayout:
        return replace(self, bins=tuple(each.to(device) for each in self.bins))

    def allowed(self) -> torch.Tensor:
        """(tokens, tokens) bool, who may attend to whom: the definition, for tests and small rows."""
        mask = torch.zeros(self.tokens, self.tokens, dtype=torch.bool)
        for start, end in self.segments:
            mask[start:end, start:end] = torch.ones(end - start, end - start).tril().bool()
        for start, end, stop in self.ancestors:
            mask[end:stop, start:end] = True
        return mask


def shared_length(first: np.ndarray, second: np.ndarray, cuts: tuple[int, int]) -> int:
    """How many leading ids of two sequences are to stand once: all they share, cut back to a sensible place.

    cuts: the lengths (domain, group) at which sequences are expected to part; kept exactly where they apply.
    """
    length = min(len(first), len(second))
    differing = np.flatnonzero(first[:length] != second[:length])
    common = int(differing[0]) if len(differing) else length
    base = max((cut for cut in cuts if cut <= common), default=0)
    return base + (common - base) // GRAIN * GRAIN


@dataclass(frozen=True)
class Tree:
    """The row of some sequences: its ids, their positions (distance from the sequence's start), and where the tokens
    of each sequence stand in it (`places[i][j]` is the index in the row of token j of sequence i)."""

    ids: np.ndarray
    positions: np.ndarray
    places: list[np.ndarray]
    layout: TreeLayout


def build_tree(sequences: list[np.ndarray], shared: list[int]) -> Tree:
    """The tree of `sequences`; `shared[i]` leading ids of sequence i are the same as in sequence i - 1 (shared[0] = 0).

    The row has sum(lengths) - sum(shared) tokens.
    """
    builder = _Builder(sequences, shared)
    builder.place(0, len(sequences), 0)
    ids = np.concatenate(builder.ids) if builder.ids else np.zeros(0, np.int64)
    positions = np.concatenate(builder.positions) if builder.positions else np.zeros(0, np.int64)
    bins = causal_bins(builder.segments)
    layout = TreeLayout(len(ids), tuple(builder.segments), tuple(builder.ancestors), bins)
    return Tree(ids, positions, builder.places, layout)


class _Builder:
    def __init__(self, sequences: list[np.ndarray], shared: list[int]):
        self.sequences, self.shared = sequences, shared
        self.places = [np.empty(len(sequence), np.int64) for sequence in sequences]
        self.ids: list[np.ndarray] = []
        self.positions: list[np.ndarray] = []
        self.segments: list[tuple[int, int]] = []
        self.ancestors: list[tuple[int, int, int]] = []
        self.cursor = 0

    def place(self, low: int, high: int, depth: int) -> None:
        """Lays out sequences low..high, whose first `depth` ids stand already."""
        bounds = [low, *(at for at in range(low + 1, high) if self.shared[at] <= depth), high]
        for first, last in pairwise(bounds):
            if last - first == 1:
                self.emit(first, last, depth, len(self.sequences[first]))
                continue
            until = min(self.shared[first + 1 : last])
            start, end = self.emit(first, last, depth, until)
            self.place(first, last, until)
            if self.cursor > end > start:
                self.ancestors.append((start, end, self.cursor))

    def emit(self, first: int, last: int, depth: int, until: int) -> tuple[int, int]:
        """Adds ids depth..until, the same in sequences first..last, as a segment; returns its range in the row."""
        start, end = self.cursor, self.cursor + until - depth
        if end > start:
            self.ids.append(self.sequences[first][depth:until])
            self.positions.append(np.arange(depth, until))
            self.segments.append((start, end))
            for at in range(first, last):
                self.places[at][depth:until] = np.arange(start, end)
        self.cursor = end
        return start, end


def causal_bins(segments: list[tuple[int, int]]) -> tuple[CausalBin, ...]:
    """Batches of segments of about equal length."""
    waiting = sorted(segments, key=lambda each: (each[0] - each[1], each[0]))
    bins, at = [], 0
    while at < len(waiting):
        width = waiting[at][1] - waiting[at][0]
        last = at + 1
        while last < len(waiting) and (waiting[last][1] - waiting[last][0]) * PADDING + GRAIN >= width:
            last += 1
        bins.append(_causal_bin(waiting[at:last], width))
        at = last
    return tuple(bins)


def _causal_bin(members: list[tuple[int, int]], width: int) -> CausalBin:
    follows = all(after[0] - before[0] == width for before, after in pairwise(members))
    if follows and all(end - start == width for start, end in members):
        return CausalBin(len(members), width, members[0][0])
    starts = torch.tensor([start for start, _ in members])[:, None]
    ends = torch.tensor([end for _, end in members])[:, None]
    index = starts + torch.arange(width)  # (segments, width)
    return CausalBin(len(members), width, None, torch.minimum(index, ends - 1), (index < ends).flatten())
