"""`SnakesVec.choose` on logits: sampling by counter noise, exploration among allowed moves, arg-max."""

import numpy as np
import pytest
import torch
from reference_noise import Noise

from lib.snakes import SnakesVec


def chosen(vec: SnakesVec, logits: np.ndarray, **options) -> np.ndarray:
    vec.choose(torch.from_numpy(logits), **options)
    return vec.actions.numpy().copy()


@pytest.mark.parametrize(("epsilon", "sample"), [(0.0, True), (0.35, True), (1.0, True), (0.0, False)])
def test_choices_follow_the_description(epsilon, sample):
    games, rng = 64, np.random.default_rng(3)
    vec = SnakesVec(games, seed=77, first_game=9, observe="both", left="external", right="external")
    vec.reset()
    close = compared = 0
    for step in range(15):
        logits = rng.normal(size=(games, 2, 3, 4)).astype(np.float32) * 2
        logits -= 4096 * (rng.random(logits.shape) < 0.2).astype(np.float32)
        actions = chosen(vec, logits, epsilon=epsilon, sample=sample)
        for slot in range(games):
            noise = Noise(77, 9 + slot, 0)
            for snake in range(6):
                move, lead = noise.choose(step, snake, logits[slot, snake // 3, snake % 3], epsilon, sample)
                compared += 1
                if lead < 1e-4:
                    close += 1
                else:
                    assert actions[slot, snake] == move, (slot, snake, step)
        vec.step()
    assert compared == games * 15 * 6 and close < 20


def test_frequencies_of_sampling_are_the_softmax():
    games = 20_000
    vec = SnakesVec(games, seed=1, left="external", right="random")
    vec.reset()
    wanted = np.array([0.5, 0.3, 0.15, 0.05])
    logits = np.broadcast_to(np.log(wanted).astype(np.float32), (games, 1, 3, 4)).copy()
    actions = chosen(vec, logits)[:, :3]
    found = np.bincount(actions.ravel(), minlength=4) / actions.size
    assert np.abs(found - wanted).max() < 4 * np.sqrt(0.25 / actions.size)
    for first, second in ((0, 1), (1, 2)):
        together = np.mean((actions[:, first] == 0) & (actions[:, second] == 0))
        assert abs(together - 0.25) < 4 * np.sqrt(0.25 * 0.75 / games)


def test_masked_moves_stay_out_of_exploration():
    games = 2_000
    vec = SnakesVec(games, seed=2, left="external", right="random")
    vec.reset()
    logits = np.zeros((games, 1, 3, 4), np.float32)
    logits[..., 2] = -4096
    actions = chosen(vec, logits, epsilon=1.0)[:, :3]
    assert not (actions == 2).any()
    counts = np.bincount(actions.ravel(), minlength=4)[[0, 1, 3]] / actions.size
    assert np.abs(counts - 1 / 3).max() < 4 * np.sqrt(0.22 / actions.size)


def test_arg_max_takes_the_first_of_equals():
    vec = SnakesVec(3, seed=3, left="external", right="random")
    vec.reset()
    logits = np.zeros((3, 1, 3, 4), np.float32)
    logits[1, ..., 1:] = 1
    logits[2, ..., 3] = 1
    assert chosen(vec, logits, sample=False)[:, :3].tolist() == [[0] * 3, [1] * 3, [3] * 3]
