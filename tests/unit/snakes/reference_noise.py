"""The random numbers of the game on Python integers, as `lib/warp_noise.py` and `lib/snakes/noise.py` describe them."""

from __future__ import annotations

import math

import numpy as np

WORD = 0xFFFFFFFF
RESET, BEANS, REVERSAL, BOT, EXPLORE = range(5)


def mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x21F0AAAD & WORD
    x ^= x >> 15
    x = x * 0xD35A2D97 & WORD
    return x ^ x >> 15


def game_key(seed: int, game: int, episode: int) -> tuple[int, int]:
    """The two key words of an episode of a game."""
    low, high = seed % 2**32, seed // 2**32
    s0 = mix(mix(low ^ 0x243F6A88) + high & WORD)
    s1 = mix(mix(high ^ 0x85A308D3) + low & WORD)
    a, b = game, episode
    for r in range(4):
        a ^= mix((b + s0 + r * 0x9E3779B9) & WORD)
        b ^= mix((a + s1 + r * 0x85EBCA6B) & WORD)
    return a, b


def bounded(x: int, n: int) -> int:
    return x * n >> 32


class Noise:
    """All draws of one episode of one game."""

    def __init__(self, seed: int, game: int, episode: int = 0):
        self.key = game_key(seed, game, episode)
        self.reset_draws = 0

    def draw(self, stream: int, step: int, counter: int) -> int:
        a, b = self.key
        return mix(mix(a ^ (step << 16 | stream << 12 | counter)) + b & WORD)

    def reset(self, n: int) -> int:
        """The next number 0 .. n-1 of the start of the game."""
        self.reset_draws += 1
        return bounded(self.draw(RESET, 0, self.reset_draws - 1), n)

    def reversal(self, step: int, snake: int) -> int:
        return bounded(self.draw(REVERSAL, step, 0) * 3**snake & WORD, 3)

    def bean(self, step: int, placed: int, free: int) -> int:
        return bounded(self.draw(BEANS, step, placed), free)

    def random_action(self, step: int, snake: int) -> int:
        return self.draw(BOT, step, 0) >> 2 * snake & 3

    def choose(self, step: int, snake: int, logits, epsilon: float, sample: bool) -> tuple[int, float]:
        """`SnakesVec.choose` for one snake: the move, and by how much the best move leads the second best.

        Logits as float32; the lead tells a test where a last digit of the logarithm may decide.
        """
        scores = np.asarray(logits, np.float32).astype(np.float64)
        if not sample:
            return int(scores.argmax()), math.inf
        counter = 8 * snake
        if self.uniform(step, counter + 4) < np.float32(epsilon):
            allowed = [move for move in range(4) if scores[move] > scores.max() - 2048]
            return allowed[bounded(self.draw(EXPLORE, step, counter + 5), len(allowed))], math.inf
        noise = [-math.log(-math.log(self.uniform(step, counter + move))) for move in range(4)]
        noisy = scores + noise
        second, best = np.sort(noisy)[-2:]
        return int(noisy.argmax()), float(best - second)

    def uniform(self, step: int, counter: int) -> float:
        return float(np.float32(((self.draw(EXPLORE, step, counter) >> 9) + 0.5) / 2**23))
