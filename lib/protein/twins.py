"""Copies of a residue in identical chains of one structure.

A homodimer shows every residue twice. If one copy were hidden and the other visible, the answer would be in the input,
so copies share their place in every visibility order: hidden together, shown together, never shown to each other.
"""

from collections.abc import Sequence

import numpy as np

COMMON_SHARE, IDENTITY = 0.8, 0.95


def twin_ids(chains: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Index of the first copy of every residue, int32 (residues,); its own index where there is none.

    chains: (author numbers (residues,), types (residues,)) of each chain, in order. Two chains are copies when their
    sequences are equal, or when they share most residue numbers with (almost) the same types: copies in a crystal
    often differ by a few unresolved residues.
    """
    starts = np.cumsum([0, *(len(types) for _, types in chains)])
    result = np.arange(starts[-1], dtype=np.int32)
    models: list[int] = []
    for index, (numbers, types) in enumerate(chains):
        own = slice(starts[index], starts[index + 1])
        for model in models:
            pair = _matched(chains[model], (numbers, types))
            if pair is not None:
                theirs, mine = pair
                result[own][mine] = result[starts[model] + theirs]
                break
        else:
            models.append(index)
    return result


def _matched(first, second) -> tuple[np.ndarray, np.ndarray] | None:
    """Positions (in the first, in the second) of the same residues, None when the chains are no copies."""
    if len(first[1]) == len(second[1]) and np.array_equal(first[1], second[1]):
        places = np.arange(len(first[1]))
        return places, places
    _, theirs, mine = np.intersect1d(first[0], second[0], return_indices=True)
    if len(mine) < COMMON_SHARE * min(len(first[1]), len(second[1])):
        return None
    if (first[1][theirs] == second[1][mine]).mean() < IDENTITY:
        return None
    return theirs, mine


def first_copies(ids: np.ndarray) -> np.ndarray:
    """Index of the first residue with the same id, (residues,); also right for a part of a unit."""
    _, index, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return index[inverse]
