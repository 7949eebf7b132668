"""The kernel plays the same games as plain Python: start, moves, deaths, respawns, beans, ends, scores, features."""

import random

import numpy as np
import pytest
import torch
from reference_boards import crowded_game
from reference_lockstep import Lockstep

from lib.snakes import SnakesVec


def random_actions(rng: np.random.Generator, games: int) -> np.ndarray:
    return rng.integers(0, 4, size=(games, 6), dtype=np.int32)


def assert_equal(lockstep: Lockstep) -> None:
    assert lockstep.differences == 0, "\n".join(lockstep.messages[:3])


def test_whole_games_of_random_moves():
    lockstep = Lockstep(24, seed=11, feature_every=20)
    rng = np.random.default_rng(0)
    for _ in range(410):
        lockstep.step(random_actions(rng, 24))
    assert_equal(lockstep)
    events = lockstep.events
    assert events["game_over"] == 48
    for name, least in {"death": 2000, "reversal": 8000, "quirk_a": 200, "quirk_b": 40, "head_to_head": 400}.items():
        assert events[name] >= least, (name, events)


@pytest.mark.parametrize(("seed", "first_game"), [(0, 0), (2**64 - 1, 1_000_000_007), (2**32, 5)])
def test_start_of_a_game(seed, first_game):
    lockstep = Lockstep(40, seed=seed, first_game=first_game, episode_steps=1)
    for _ in range(25):
        lockstep.step(random_actions(np.random.default_rng(1), 40))
    assert_equal(lockstep)
    assert lockstep.events["game_over"] == 1000


@pytest.mark.parametrize(("left", "right"), [("greedy", "external"), ("external", "greedy"), ("greedy", "evasion")])
def test_crowded_boards(left, right):
    rng, actions_rng = random.Random(left), np.random.default_rng(2)
    lockstep = Lockstep(48, (left, right), seed=3, feature_every=7)
    for _ in range(12):
        for slot in range(48):
            lockstep.inject(slot, crowded_game(rng, rng.choice((60, 100, 140, 170, 185, 195, 195, 195))))
        for _ in range(8):
            lockstep.step(random_actions(actions_rng, 48))
    assert_equal(lockstep)
    wanted = {"death": 2500, "long_death": 500, "death_after_eating": 100, "self_collision": 100, "quirk_a": 150,
              "quirk_b": 50, "quirk_c": 5, "board_full": 5, "early_end": 10}  # fmt: skip
    for name, least in wanted.items():
        assert lockstep.events[name] >= least, (name, lockstep.events)


@pytest.mark.parametrize("features", ["team", "jidi26"])
def test_features_in_every_step(features):
    rng, actions_rng = random.Random(features), np.random.default_rng(4)
    lockstep = Lockstep(16, seed=5, features=features)
    for turn in range(6):
        for slot in range(16):
            lockstep.inject(slot, crowded_game(rng, (18, 40, 80, 120, 160, 195)[turn]))
        lockstep.vec.refresh()
        for _ in range(6):
            lockstep.step(random_actions(actions_rng, 16))
    assert_equal(lockstep)


def test_short_games_end_in_time():
    lockstep = Lockstep(16, seed=8, episode_steps=37, feature_every=0)
    rng = np.random.default_rng(6)
    for _ in range(37 * 3):
        lockstep.step(random_actions(rng, 16))
    assert_equal(lockstep)
    assert lockstep.events["game_over"] == 48 and lockstep.events["early_end"] == 0


@pytest.mark.parametrize("features", ["team", "jidi26"])
def test_features_of_the_own_side(features):
    """`sides` picks the rows of one team; a change counts from the next step or refresh."""
    sides = torch.arange(32, dtype=torch.int32) % 2
    both = SnakesVec(32, seed=12, features=features, observe="both", left="greedy", right="random")
    own = SnakesVec(32, seed=12, features=features, observe="own", left="greedy", right="random")
    both.reset()
    own.reset()
    assert torch.equal(own.features[:, 0], both.features[:, 0])
    own.sides.copy_(sides)
    for turn in range(5):
        own.step()
        both.step()
        rows = torch.arange(32), own.sides.long()
        assert torch.equal(own.features[:, 0], both.features[rows])
        own.sides.copy_((sides + turn) % 2)
        own.refresh()
        assert torch.equal(own.features[:, 0], both.features[torch.arange(32), own.sides.long()])
