"""The kernel against the original game itself, where QUARTET_SNAKES_PEER names a checkout of it."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from reference_peer import missing_parts
from reference_versus_peer import PeerMatch

FOLDER = os.environ.get("QUARTET_SNAKES_PEER")
pytestmark = pytest.mark.skipif(missing_parts(FOLDER) is not None, reason=missing_parts(FOLDER) or "")


def assert_equal(match: PeerMatch) -> None:
    assert match.differences == 0, "\n".join(match.messages[:3])


@pytest.fixture(scope="module")
def match():
    return PeerMatch(Path(FOLDER), num_games=12, seed=9)


def test_moves_that_do_not_reverse(match):
    start = match.events.copy()
    rng = np.random.default_rng(0)
    for turn in range(3):
        match.new_boards(random.Random(turn), crowded=turn > 0)
        for _ in range(60 if turn == 0 else 15):
            match.step(match.forward_actions(rng))
    assert_equal(match)
    met = match.events - start
    assert met["reversal"] == 0 and met["death"] > 300 and met["quirk_a"] > 10 and met["quirk_b"] > 3, met


def test_reversing_moves_with_the_drawn_direction_handed_in(match):
    start = match.events.copy()
    rng = np.random.default_rng(1)
    for turn in range(12):
        match.new_boards(random.Random(100 + turn), crowded=turn % 2 == 1)
        for _ in range(10):
            match.step(rng.integers(0, 4, size=(12, 6), dtype=np.int32))
    assert_equal(match)
    met = match.events - start
    assert met["reversal"] > 500 and met["long_death"] > 50 and met["quirk_a"] > 10 and met["quirk_b"] > 3, met


def test_boards_without_a_place_and_full_boards(match):
    start = match.events.copy()
    rng = np.random.default_rng(2)
    for turn in range(40):
        match.new_boards(random.Random(200 + turn), crowded=True, fill=195)
        for _ in range(5):
            match.step(rng.integers(0, 4, size=(12, 6), dtype=np.int32))
    assert_equal(match)
    met = match.events - start
    assert met["quirk_c"] > 2 and met["board_full"] > 3 and met["early_end"] > 5, met


def test_greedy_and_the_26_features_of_either_team(match):
    compared = match.scripts_compared
    for turn in range(3):
        match.new_boards(random.Random(300 + turn), crowded=turn == 2, fill=100)
        for _ in range(25):
            match.compare_scripts()
            match.step(match.greedy_actions())
    assert_equal(match)
    assert match.scripts_compared - compared > 1500
