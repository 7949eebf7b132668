"""Copies of residues in identical chains."""

import numpy as np

from lib.protein.twins import first_copies, twin_ids

GENERATOR = np.random.default_rng(0)
TYPES = GENERATOR.integers(0, 20, 60)


def chain(types, start=1, without=()):
    keep = [index for index in range(len(types)) if index not in without]
    return np.arange(start, start + len(types))[keep], np.asarray(types)[keep]


def test_equal_sequences_are_copies_whatever_their_numbers():
    ids = twin_ids([chain(TYPES), chain(TYPES[::-1]), chain(TYPES, start=300)])
    assert np.array_equal(ids[:120], np.arange(120))
    assert np.array_equal(ids[120:], np.arange(60))


def test_unresolved_residues_do_not_shift_the_pairs():
    ids = twin_ids([chain(TYPES, without=(10, 11)), chain(TYPES, without=(0, 40))])
    second = chain(TYPES, without=(0, 40))[0]
    numbers = np.concatenate([chain(TYPES, without=(10, 11))[0], second])
    for place in range(58, 116):
        if ids[place] != place:
            assert numbers[ids[place]] == numbers[place]
    assert {int(numbers[place]) for place in range(58, 116) if ids[place] == place} == {11, 12}


def test_different_chains_with_the_same_numbers_are_no_copies():
    other = GENERATOR.integers(0, 20, 60)
    assert np.array_equal(twin_ids([chain(TYPES), chain(other)]), np.arange(120))


def test_a_part_of_a_unit_keeps_its_pairs():
    ids = twin_ids([chain(TYPES), chain(TYPES)])
    part = np.arange(30, 90)
    first = first_copies(ids[part])
    assert np.array_equal(first[30:60], np.arange(30, 60))  # 0..29 of the second chain lost their first copy
    whole = first_copies(ids)
    assert np.array_equal(whole[60:], np.arange(60))
