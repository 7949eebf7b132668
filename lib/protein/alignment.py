"""Smith-Waterman scores of many sequence pairs at a time, inside a band around a given diagonal, in numpy.

The gap cost is that of parasail and of the shared MANIFEST: a gap of k residues costs open + (k - 1) * extend, here 11
+ (k - 1). (BLAST's "11/1" charges 11 + k.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LETTERS = "ACDEFGHIKLMNPQRSTVWYX"
SEPARATOR = len(LETTERS)  # the code that stands before, between and after packed sequences
SYMBOLS = len(LETTERS) + 1
SEPARATOR_SCORE = -32
GAP_OPEN = 11
GAP_EXTEND = 1
HALF_WIDTH = 24
BATCH_PAIRS = 2048
BATCH_CELLS = 1 << 20  # residues of one batch on either side; bounds the memory at about 16 bytes each
STEPS_BETWEEN_CHECKS = 32

# Henikoff & Henikoff 1992, PNAS 89:10915, as distributed by the NCBI (file BLOSUM62);
# rows and columns in the order of LETTERS.
_BLOSUM62_TEXT = """
 4  0 -2 -1 -2  0 -2 -1 -1 -1 -1 -2 -1 -1 -1  1  0  0 -3 -2  0
 0  9 -3 -4 -2 -3 -3 -1 -3 -1 -1 -3 -3 -3 -3 -1 -1 -1 -2 -2 -2
-2 -3  6  2 -3 -1 -1 -3 -1 -4 -3  1 -1  0 -2  0 -1 -3 -4 -3 -1
-1 -4  2  5 -3 -2  0 -3  1 -3 -2  0 -1  2  0  0 -1 -2 -3 -2 -1
-2 -2 -3 -3  6 -3 -1  0 -3  0  0 -3 -4 -3 -3 -2 -2 -1  1  3 -1
 0 -3 -1 -2 -3  6 -2 -4 -2 -4 -3  0 -2 -2 -2  0 -2 -3 -2 -3 -1
-2 -3 -1  0 -1 -2  8 -3 -1 -3 -2  1 -2  0  0 -1 -2 -3 -2  2 -1
-1 -1 -3 -3  0 -4 -3  4 -3  2  1 -3 -3 -3 -3 -2 -1  3 -3 -1 -1
-1 -3 -1  1 -3 -2 -1 -3  5 -2 -1  0 -1  1  2  0 -1 -2 -3 -2 -1
-1 -1 -4 -3  0 -4 -3  2 -2  4  2 -3 -3 -2 -2 -2 -1  1 -2 -1 -1
-1 -1 -3 -2  0 -3 -2  1 -1  2  5 -2 -2  0 -1 -1 -1  1 -1 -1 -1
-2 -3  1  0 -3  0  1 -3  0 -3 -2  6 -2  0  0  1  0 -3 -4 -2 -1
-1 -3 -1 -1 -4 -2 -2 -3 -1 -3 -2 -2  7 -1 -2 -1 -1 -2 -4 -3 -2
-1 -3  0  2 -3 -2  0 -3  1 -2  0  0 -1  5  1  0 -1 -2 -2 -1 -1
-1 -3 -2  0 -3 -2  0 -3  2 -2 -1  0 -2  1  5 -1 -1 -3 -3 -2 -1
 1 -1  0  0 -2  0 -1 -2  0 -2 -1  1 -1  0 -1  4  1 -2 -3 -2  0
 0 -1 -1 -1 -2 -2 -2 -1 -1 -1 -1  0 -1 -1 -1  1  5  0 -2 -2  0
 0 -1 -3 -2 -1 -3 -3  3 -2  1  1 -3 -2 -2 -3 -2  0  4 -3 -1 -1
-3 -2 -4 -3  1 -2 -2 -3 -3 -2 -1 -4 -4 -2 -3 -3 -2 -3 11  2 -2
-2 -2 -3 -2  3 -3  2 -1 -2 -1 -1 -2 -3 -1 -2 -2 -2 -1  2  7 -1
 0 -2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -2 -1 -1  0  0 -1 -2 -1 -1
"""
BLOSUM62 = np.array([row.split() for row in _BLOSUM62_TEXT.strip().splitlines()], dtype=np.int16)  # (21, 21)

# The same with the separator as last row and column: what the alignment loop looks up with a flat index.
_SCORES = np.full((SYMBOLS, SYMBOLS), SEPARATOR_SCORE, dtype=np.int16)
_SCORES[:SEPARATOR, :SEPARATOR] = BLOSUM62

_CODES = np.full(256, LETTERS.index("X"), dtype=np.uint8)
_CODES[np.frombuffer(LETTERS.encode(), dtype=np.uint8)] = np.arange(len(LETTERS))


@dataclass(frozen=True, slots=True)
class Packed:
    """Sequences as one array of codes with separators around each.

    codes uint8 (residues + separators,); starts, lengths int64 (sequences,): residue i of sequence s is codes[starts[s]
    + i].
    """

    codes: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def pack(sequences: Sequence[str], padding: int = 1) -> Packed:
    """Encode one-letter sequences; any letter outside the 20 standard ones (X, B, Z, U, O, lower case) counts as X.

    padding: separators before, between and after the sequences, at least 1.
    """
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    starts = padding + np.concatenate([[0], np.cumsum(lengths + padding)[:-1]]).astype(np.int64)
    codes = np.full(int(lengths.sum()) + padding * (len(sequences) + 1), SEPARATOR, dtype=np.uint8)
    for start, sequence in zip(starts, sequences):
        letters = np.frombuffer(sequence.encode("latin-1", "replace"), dtype=np.uint8)
        codes[start : start + len(letters)] = _CODES[letters]
    return Packed(codes, starts[: len(sequences)], lengths)


def self_scores(packed: Packed) -> np.ndarray:
    """Score of each sequence against itself: the most any alignment with it can reach. int64 (sequences,)"""
    diagonal = np.append(np.maximum(BLOSUM62.diagonal(), 0), 0).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(diagonal[packed.codes])])
    return sums[packed.starts + packed.lengths] - sums[packed.starts]


def banded_scores(
    packed: Packed,
    first: np.ndarray,
    second: np.ndarray,
    diagonals: np.ndarray,
    *,
    half_width: int = HALF_WIDTH,
    stop_at: int | None = None,
) -> np.ndarray:
    """Best local alignment score of each pair among the cells with |i - j - diagonal| <= half_width.

    first, second, diagonals: integer (pairs,), i counts in the first sequence and j in the second. half_width: even.
    stop_at: a pair is left as soon as it has this score, so values from there on are lower bounds (and the loop may use
    16-bit integers). A band is a subset of the whole table: the result never exceeds the full Smith-Waterman score.
    Returns int32 (pairs,). Source: Smith & Waterman 1981, J Mol Biol 147:195; Gotoh 1982, J Mol Biol 162:705; by
    anti-diagonals after Wozniak 1997.
    """
    assert half_width >= 2 and half_width % 2 == 0 and (stop_at is None or 0 < stop_at < 20_000)
    first, second, diagonals = (np.asarray(values, dtype=np.int64) for values in (first, second, diagonals))
    first_start = np.maximum(diagonals, 0)
    second_start = np.maximum(-diagonals, 0)
    shared = np.minimum(
        packed.lengths[first] - first_start, packed.lengths[second] - second_start
    )  # (pairs,) along the diagonal
    scores = np.zeros(len(first), dtype=np.int32)
    order = np.argsort(shared, kind="stable")
    order = order[shared[order] > -half_width]  # the others have no cell in the band
    while len(order):
        longest = int(shared[order[-1]]) + 3 * half_width
        take = max(1, min(BATCH_PAIRS, BATCH_CELLS // longest))
        chosen, order = order[-take:], order[:-take]
        scores[chosen] = _batch_scores(
            _window(packed, first[chosen], first_start[chosen] - half_width, longest) * SYMBOLS,
            _window(packed, second[chosen], second_start[chosen] - half_width, longest),
            2 * shared[chosen] + 3 * half_width,
            half_width,
            stop_at,
        )
    return scores


def _window(packed: Packed, sequences: np.ndarray, offsets: np.ndarray, length: int) -> np.ndarray:
    """Codes of the sequences from the offsets on, separators outside. intp (length, pairs): the index type of take."""
    inside = np.clip(offsets + np.arange(length)[:, None], -1, packed.lengths[sequences])
    return packed.codes[packed.starts[sequences] + inside].astype(np.intp)


def _batch_scores(
    left: np.ndarray, right: np.ndarray, last_steps: np.ndarray, half_width: int, stop_at: int | None
) -> np.ndarray:
    """The loop over anti-diagonals. left, right: (length, pairs), left already multiplied by SYMBOLS. Returns int32
    (pairs,).

    With u, v the positions in left and right and delta = u - v, an even step u + v holds the lanes delta = -w, -w + 2,
    .., w and an odd step delta = -w + 1, .., w - 1. A gap comes from the step before (delta - 1 or + 1), a match from
    the lane itself two steps before. Odd arrays have one more row on each side, which stays empty, for the neighbours
    of the outermost even lanes.
    """
    number = np.int32 if stop_at is None else np.int16
    table = _SCORES.ravel().astype(number)
    width, pairs = half_width, left.shape[1]
    result = np.zeros(pairs, dtype=np.int32)
    columns = np.arange(pairs)
    state = _State(width, pairs, number)
    for step in range(width, int(last_steps.max()) + 1, 2):
        low = (step - width) // 2
        high = low + width + 1
        state.even_step(left[low:high], right[low:high][::-1], table)
        state.odd_step(left[low + 1 : high], right[low + 1 : high][::-1], table)
        if (step - width) % STEPS_BETWEEN_CHECKS == STEPS_BETWEEN_CHECKS - 2:
            best = state.best.max(axis=0)
            open_pairs = last_steps[columns] > step + 1
            if stop_at is not None:
                open_pairs &= best < stop_at
            if np.count_nonzero(open_pairs) <= 0.75 * len(columns):
                result[columns] = best
                if not open_pairs.any():
                    return result
                columns = columns[open_pairs]
                left, right = left[:, open_pairs], right[:, open_pairs]
                state.keep(open_pairs)
    result[columns] = state.best.max(axis=0)
    return result


class _State:
    """The last even and the last odd anti-diagonal of a batch; arrays are (lanes, pairs)."""

    def __init__(self, width: int, pairs: int, number: type) -> None:
        self.width = width
        self.even_score = np.zeros((width + 1, pairs), number)
        self.even_opened, self.even_down, self.even_right = (
            np.full((width + 1, pairs), -GAP_OPEN, number) for _ in range(3)
        )
        self.odd_score = np.zeros((width, pairs), number)
        self.odd_opened, self.odd_down, self.odd_right = (
            np.full((width + 2, pairs), -GAP_OPEN, number) for _ in range(3)
        )
        self.best = np.zeros((width + 1, pairs), number)
        self.scratch()

    def scratch(self) -> None:
        self.index = np.empty(self.even_score.shape, np.intp)
        self.match = np.empty_like(self.even_score)

    def keep(self, columns: np.ndarray) -> None:
        for name in ("score", "opened", "down", "right"):
            for parity in ("even", "odd"):
                setattr(self, f"{parity}_{name}", getattr(self, f"{parity}_{name}")[:, columns])
        self.best = self.best[:, columns]
        self.scratch()

    def even_step(self, left: np.ndarray, right: np.ndarray, table: np.ndarray) -> None:
        self._gaps(self.odd_opened[:-1], self.odd_down[:-1], self.even_down)
        self._gaps(self.odd_opened[1:], self.odd_right[1:], self.even_right)
        self._cells(left, right, table, self.even_score, self.even_down, self.even_right, self.even_opened)

    def odd_step(self, left: np.ndarray, right: np.ndarray, table: np.ndarray) -> None:
        self._gaps(self.even_opened[:-1], self.even_down[:-1], self.odd_down[1:-1])
        self._gaps(self.even_opened[1:], self.even_right[1:], self.odd_right[1:-1])
        self._cells(
            left, right, table, self.odd_score, self.odd_down[1:-1], self.odd_right[1:-1], self.odd_opened[1:-1]
        )

    def _gaps(self, opened: np.ndarray, extended: np.ndarray, out: np.ndarray) -> None:
        np.subtract(extended, GAP_EXTEND, out=out)
        np.maximum(out, opened, out=out)

    def _cells(self, left, right, table, score, down, right_gap, opened) -> None:
        rows = len(score)
        index, match, best = self.index[:rows], self.match[:rows], self.best[:rows]
        np.add(left, right, out=index)
        table.take(index, out=match, mode="clip")  # clip: the only mode that writes into out without a buffer
        np.add(score, match, out=score)
        np.maximum(score, down, out=score)
        np.maximum(score, right_gap, out=score)
        np.maximum(score, 0, out=score)
        np.maximum(best, score, out=best)
        np.subtract(score, GAP_OPEN, out=opened)
