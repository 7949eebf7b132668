"""The scripted teams of the kernel choose what plain Python chooses, on either side."""

import random

import numpy as np
import pytest
from reference_boards import crowded_game
from reference_lockstep import Lockstep

BOTS = ("random", "level1", "greedy", "level3", "level4", "evasion")


def assert_equal(lockstep: Lockstep) -> None:
    assert lockstep.differences == 0, "\n".join(lockstep.messages[:3])


@pytest.mark.parametrize("shift", range(len(BOTS)))
def test_whole_games(shift):
    """Every bot plays on both sides of some parameter, so that its choices are seen for either team."""
    lockstep = Lockstep(8, (BOTS[shift], BOTS[(shift + 2) % len(BOTS)]), seed=20 + shift, feature_every=0)
    for _ in range(210):
        lockstep.step(np.zeros((8, 6), np.int32))
    assert_equal(lockstep)
    assert lockstep.events["game_over"] >= 8 and lockstep.events["death"] > 50


@pytest.mark.parametrize("bot", BOTS)
def test_crowded_boards(bot):
    rng = random.Random(bot)
    lockstep = Lockstep(32, (bot, bot), seed=40, feature_every=0)
    for _ in range(10):
        for slot in range(32):
            lockstep.inject(slot, crowded_game(rng, rng.choice((80, 120, 150, 180))))
        for _ in range(3):
            lockstep.step(np.zeros((32, 6), np.int32))
    assert_equal(lockstep)


@pytest.mark.parametrize("bot", BOTS[1:])
def test_few_beans(bot):
    """With none left for a snake every free cell is as good as the others."""
    rng = random.Random(bot)
    lockstep = Lockstep(48, (bot, bot), seed=60, feature_every=0)
    for _ in range(4):
        for slot in range(48):
            game = crowded_game(rng, rng.choice((20, 60, 120)))
            del game.beans[slot % 5 :]
            lockstep.inject(slot, game)
        lockstep.step(np.zeros((48, 6), np.int32))
    assert_equal(lockstep)


def test_scripted_teams_see_the_board_of_this_step():
    """A position put in by hand decides the next move: the kernel does not act on what the slot showed before."""
    rng = random.Random(1)
    lockstep = Lockstep(64, ("greedy", "greedy"), seed=50, feature_every=0)
    for _ in range(10):
        for slot in range(64):
            lockstep.inject(slot, crowded_game(rng, 60))
        lockstep.step(np.zeros((64, 6), np.int32))
    assert_equal(lockstep)
