"""Homology clusters of protein sequences: single linkage over Smith-Waterman scores, without an external program.

Two sequences are linked when their local alignment score (BLOSUM62, a gap of k residues costs 11 + (k - 1)) is at least
the threshold; a cluster is a connected component. The built-in path finds candidate pairs by spaced seeds on a reduced
alphabet, ranks them by the score of a short window around the seed and aligns them, strongest first, in a band around
that window. Alignments never report more than the full score, so two clusters are never joined wrongly; what can be
missed is a link whose evidence is spread so thin that no window shows it, or that is not among the strongest of either
sequence (CANDIDATES_PER_SEQUENCE: sets of many thousands). `method="parasail"` also aligns every pair that is not
joined then, and misses nothing; its time grows with the square of the number of sequences.

Measured on the shared structures (1,040 distinct sequences, 3 to 5 s of one core): the partition of the exhaustive
search, there and on 26 random subsets of 260 and 520 sequences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lib.errors import UserError
from lib.protein.alignment import (
    BLOSUM62,
    GAP_EXTEND,
    GAP_OPEN,
    LETTERS,
    SEPARATOR,
    SYMBOLS,
    Packed,
    banded_scores,
    pack,
)
from lib.protein.alignment import self_scores as own_scores

METHODS = ("builtin", "parasail")
# Residues that BLOSUM62 exchanges at little cost count as equal in a seed; X belongs to no group and breaks it.
SEED_GROUPS = ("A", "C", "DN", "EQ", "FY", "G", "H", "IV", "KR", "LM", "P", "ST", "W")
SEED_SHAPES = (
    (0, 1, 2, 3),
    (0, 1, 3, 4),
    (0, 2, 4, 5),
    (0, 2, 3, 6),
    (0, 1, 5, 6),
    (0, 3, 5, 8),
    (0, 4, 5, 9),
)
WINDOW = 24  # residues around a seed that are scored without gaps
WINDOW_SCORE = 15  # candidates have at least this score there
STRIP = 32  # diagonals that count as one place
HITS_PER_RESIDUE = 24  # per seed shape: how many later places with the same seed a place is compared with
CANDIDATES_PER_SEQUENCE = 250
NARROW, WIDE = 8, 48  # half widths of the first and the second alignment
NEAR = 0.5  # share of the threshold that the narrow alignment must reach to be followed by the wide one
HITS_AT_A_TIME = 1 << 20
KEPT_AT_A_TIME = 1 << 23
SMALLEST_BATCH, LARGEST_BATCH = 1024, 16_384
TELL_EVERY_S = 30.0
_SCORE_BITS, _STRIP_BITS, _STRIPS_BITS = 8, 5, 13
LONGEST = 1 << (_STRIP_BITS + _STRIPS_BITS - 1)
MOST_SEQUENCES = 1 << ((63 - _SCORE_BITS - _STRIP_BITS - _STRIPS_BITS) // 2)

Log = Callable[[str], None]


def cluster_sequences(
    sequences: Sequence[str],
    *,
    threshold: int = 80,
    method: str = "builtin",
    log: Log = print,
) -> np.ndarray:
    """Cluster number of each sequence, int32 (sequences,), numbered from 0 in order of first appearance.

    Equal sequences share a cluster whatever their score; a sequence whose own score is below the threshold (very short,
    or mostly X) is linked to nothing else. The partition is a function of the set of sequences: order and repeats
    change only the numbers. Letters outside the 20 standard ones count as X. Raises UserError for an unknown method, a
    threshold outside 1..20000, a sequence of 131,072 residues or more, too many sequences, or a missing parasail.
    """
    if method not in METHODS:
        raise UserError(f"homology method {method!r} is unknown; expected one of {', '.join(METHODS)}")
    if not 1 <= threshold < 20_000:
        raise UserError(
            f"homology threshold is {threshold}; expected an alignment score between 1 and 19999 (default 80)"
        )
    started = time.perf_counter()
    distinct = sorted(set(sequences), key=lambda sequence: (len(sequence), sequence))
    _check_sizes(distinct)
    packed = pack(distinct, padding=WINDOW)
    links = Components(len(distinct))
    alignable = np.flatnonzero(own_scores(packed) >= threshold)
    aligned = 0
    if len(alignable) > 1:
        join = _join_all_pairs if method == "parasail" else _join_candidates
        aligned = join([distinct[index] for index in alignable], alignable, links, threshold, log)
    number = dict(zip(distinct, links.roots().tolist()))
    labels = _by_first_appearance([number[sequence] for sequence in sequences])
    log(
        f"homology: {len(sequences):,} sequences, {len(distinct):,} distinct, {labels.max(initial=-1) + 1:,} clusters "
        f"at score >= {threshold} ({method}, {aligned:,} alignments, {time.perf_counter() - started:.1f} s)"
    )
    return labels


class Components:
    """Connected components of 0..size-1; the root of a component is its smallest member."""

    def __init__(self, size: int) -> None:
        self.parent = np.arange(size)

    def find(self, item: int) -> int:
        parent = self.parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return int(item)

    def join(self, first: int, second: int) -> None:
        first, second = self.find(first), self.find(second)
        self.parent[max(first, second)] = min(first, second)

    def roots(self) -> np.ndarray:
        """Root of every item, int64 (size,)."""
        while True:
            shorter = self.parent[self.parent]
            if np.array_equal(shorter, self.parent):
                return shorter
            self.parent = shorter


def seed_hits(packed: Packed, shape: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places that share a spaced seed on the reduced alphabet, in blocks of two int64 arrays (hits,) of positions in
    packed.codes.

    shape: offsets of the seed's residues, from 0. Places are sorted by seed and then by the residues after it, and each
    is paired with those behind it in that order, nearest first, until HITS_PER_RESIDUE per place are used up: seeds
    that are common in a large set lose their least similar pairs, not their nearest.
    """
    group_of = np.full(SYMBOLS, -1, dtype=np.int64)
    for group, letters in enumerate(SEED_GROUPS):
        group_of[[LETTERS.index(letter) for letter in letters]] = group
    groups = group_of[packed.codes]
    span = len(groups) - WINDOW
    seed = np.zeros(span, dtype=np.int64)
    valid = np.ones(span, dtype=bool)
    for offset in shape:
        column = groups[offset : offset + span]
        seed = seed * len(SEED_GROUPS) + column
        valid &= column >= 0
    context = np.zeros(span, dtype=np.int64)
    for offset in [offset for offset in range(shape[-1] + 5) if offset not in shape]:
        context = context * (len(SEED_GROUPS) + 1) + groups[offset : offset + span] + 1
    places = np.flatnonzero(valid)
    places = places[np.lexsort((places, context[places], seed[places]))]
    seed = seed[places]
    budget = HITS_PER_RESIDUE * len(places)
    open_places = np.arange(len(places))
    lag, block, size = 0, [], 0
    while budget > 0 and len(open_places):
        lag += 1
        open_places = open_places[: np.searchsorted(open_places, len(places) - lag)]
        open_places = open_places[seed[open_places] == seed[open_places + lag]]
        budget -= len(open_places)
        block.append((places[open_places], places[open_places + lag]))
        size += len(open_places)
        if size >= HITS_AT_A_TIME:
            yield tuple(np.concatenate(side) for side in zip(*block))
            block, size = [], 0
    if size:
        yield tuple(np.concatenate(side) for side in zip(*block))


def candidate_diagonals(packed: Packed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is worth aligning, strongest first: first < second and a diagonal (place in first minus place in second),
    int64 each.

    A candidate is a pair and a strip of STRIP diagonals; its strength is its best window score over all shared seeds. A
    sequence keeps its CANDIDATES_PER_SEQUENCE strongest, and a candidate stays when either side keeps it.
    """
    owner = np.full(len(packed.codes), -1, dtype=np.int64)
    owner[packed.codes != SEPARATOR] = np.repeat(np.arange(len(packed.lengths)), packed.lengths)
    windows = _WindowScores(packed.codes)
    kept, size = [np.zeros(0, dtype=np.int64)], 0
    for shape in SEED_SHAPES:
        for left, right in seed_hits(packed, shape):
            score = windows(left, right, shape[-1] // 2)
            strong = (score >= WINDOW_SCORE) & (owner[left] != owner[right])
            left, right, score = left[strong], right[strong], score[strong]
            turned = owner[left] > owner[right]
            left, right = np.where(turned, right, left), np.where(turned, left, right)
            first, second = owner[left], owner[right]
            diagonal = (left - packed.starts[first]) - (right - packed.starts[second])
            kept.append(_best_per_strip(_keys(first * len(packed.lengths) + second, score, diagonal)))
            size += len(kept[-1])
            if size >= KEPT_AT_A_TIME:
                kept = [_strongest(np.concatenate(kept), len(packed.lengths))]
                size = len(kept[0])
    keys = _strongest(np.concatenate(kept), len(packed.lengths))
    first, second, score, diagonal = _unpack_keys(keys, len(packed.lengths))
    order = np.lexsort((diagonal, second, first, -score))
    return first[order], second[order], diagonal[order]


class _WindowScores:
    """Summed scores of the WINDOW residue pairs around hits, without gaps.

    Two neighbouring residues are looked up at once, in blocks that stay in the cache: 31 instead of 116 ns a hit,
    measured.
    """

    def __init__(self, codes: np.ndarray) -> None:
        scores = np.zeros(
            (SYMBOLS, SYMBOLS), dtype=np.int8
        )  # a window may reach over an end: nothing is won or lost there
        scores[:SEPARATOR, :SEPARATOR] = BLOSUM62
        self.table = (scores[:, None, :, None] + scores[None, :, None, :]).ravel()  # (SYMBOLS**4,)
        self.doublets = codes[:-1].astype(np.int32) * SYMBOLS + codes[1:]
        self.rows = self.doublets * SYMBOLS**2

    def __call__(self, left: np.ndarray, right: np.ndarray, centre: int) -> np.ndarray:
        """left, right: positions (hits,) of the seeds; centre: offset of its middle. Returns int16 (hits,)."""
        result = np.zeros(len(left), dtype=np.int16)
        for start in range(0, len(left), 1 << 14):
            block = slice(start, start + (1 << 14))
            first = left[block] + (centre - WINDOW // 2)
            second = right[block] + (centre - WINDOW // 2)
            for offset in range(0, WINDOW, 2):
                index = self.rows[offset:].take(first) + self.doublets[offset:].take(second)
                result[block] += self.table.take(index)
        return result


def _keys(pair: np.ndarray, score: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """One int64 per hit, high bits to low: pair, strip, score, place of the diagonal in its strip."""
    diagonal = diagonal + LONGEST
    strip = (pair << _STRIPS_BITS) | (diagonal >> _STRIP_BITS)
    score = np.clip(score, 0, (1 << _SCORE_BITS) - 1).astype(np.int64)
    return (((strip << _SCORE_BITS) | score) << _STRIP_BITS) | (diagonal & (STRIP - 1))


def _unpack_keys(keys: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    score = (keys >> _STRIP_BITS) & ((1 << _SCORE_BITS) - 1)
    strip = keys >> (_STRIP_BITS + _SCORE_BITS)
    diagonal = ((strip & ((1 << _STRIPS_BITS) - 1)) << _STRIP_BITS | (keys & (STRIP - 1))) - LONGEST
    pair = strip >> _STRIPS_BITS
    return pair // count, pair % count, score, diagonal


def _best_per_strip(keys: np.ndarray) -> np.ndarray:
    keys = np.sort(keys)
    strip = keys >> (_STRIP_BITS + _SCORE_BITS)
    return keys[np.append(strip[1:] != strip[:-1], True)] if len(keys) else keys


def _strongest(keys: np.ndarray, count: int) -> np.ndarray:
    """Best key of each strip, without those that neither sequence has among its CANDIDATES_PER_SEQUENCE strongest."""
    keys = _best_per_strip(keys)
    first, second, score, _ = _unpack_keys(keys, count)
    keep = np.zeros(len(keys), dtype=bool)
    for side in (first, second):
        order = np.lexsort((-score, side))
        begin = np.searchsorted(side[order], np.arange(count))
        rank = np.arange(len(keys)) - begin[side[order]]
        keep[order[rank < CANDIDATES_PER_SEQUENCE]] = True
    return keys[keep]


def _join_candidates(sequences: list[str], numbers: np.ndarray, links: Components, threshold: int, log: Log) -> int:
    packed = pack(sequences, padding=WINDOW)
    first, second, diagonal = candidate_diagonals(packed)
    aligned, batch, told = 0, SMALLEST_BATCH, time.perf_counter()
    while len(first):
        roots = links.roots()[numbers]
        apart = roots[first] != roots[second]
        first, second, diagonal = first[apart], second[apart], diagonal[apart]
        now = (first[:batch], second[:batch], diagonal[:batch])
        scores = banded_scores(packed, *now, half_width=NARROW, stop_at=threshold)
        near = (scores < threshold) & (scores >= NEAR * threshold)
        scores[near] = banded_scores(packed, *(side[near] for side in now), half_width=WIDE, stop_at=threshold)
        for pair in np.flatnonzero(scores >= threshold):
            links.join(int(numbers[first[pair]]), int(numbers[second[pair]]))
        aligned += len(scores)
        first, second, diagonal = first[batch:], second[batch:], diagonal[batch:]
        batch = min(2 * batch, LARGEST_BATCH)
        if time.perf_counter() - told > TELL_EVERY_S:
            told = time.perf_counter()
            log(f"homology: {aligned:,} alignments, at most {len(first):,} left")
    return aligned


def _join_all_pairs(sequences: list[str], numbers: np.ndarray, links: Components, threshold: int, log: Log) -> int:
    try:
        import parasail
    except ImportError as error:
        raise UserError(
            "homology method parasail needs the package parasail, which is not installed; "
            "run: pip install parasail   (or use the method builtin)"
        ) from error
    aligned = _join_candidates(sequences, numbers, links, threshold, log)
    for index, sequence in enumerate(sequences):
        profile = parasail.profile_create_sat(sequence, parasail.blosum62)
        roots = links.roots()[numbers]
        for other in range(index + 1, len(sequences)):
            if roots[other] == roots[index]:
                continue
            aligned += 1
            if parasail.sw_striped_profile_sat(profile, sequences[other], GAP_OPEN, GAP_EXTEND).score >= threshold:
                links.join(int(numbers[index]), int(numbers[other]))
                roots = links.roots()[numbers]
    return aligned


def _check_sizes(distinct: list[str]) -> None:
    if distinct and len(distinct[-1]) >= LONGEST:
        raise UserError(
            f"a sequence has {len(distinct[-1])} residues; homology clustering takes fewer than {LONGEST}: leave it out"
        )
    if len(distinct) > MOST_SEQUENCES:
        raise UserError(
            f"{len(distinct)} distinct sequences; homology clustering takes at most {MOST_SEQUENCES}: cluster them "
            "with another program and pass the validation files by name"
        )


def _by_first_appearance(roots: list[int]) -> np.ndarray:
    number: dict[int, int] = {}
    return np.array([number.setdefault(root, len(number)) for root in roots], dtype=np.int32)
