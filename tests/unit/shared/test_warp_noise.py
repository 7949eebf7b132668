"""Random numbers of games: Warp gives what the docstring of `lib.warp_noise` says, on plain integers."""

import pytest
import warp as wp

from lib import warp_noise as noise
from lib.errors import UserError

WORD = 0xFFFFFFFF
STREAM = wp.constant(1)


@wp.kernel(enable_backward=False)
def draw_kernel(s0: wp.uint32, s1: wp.uint32, words: wp.array(dtype=wp.uint32), floats: wp.array(dtype=float)):
    i = wp.tid()
    a, b = noise.game_key(s0, s1, wp.uint32(i), wp.uint32(7))
    words[i] = noise.draw(a, b, STREAM, 3, i)
    floats[i] = noise.uniform(words[i])


def game_key(s0: int, s1: int, game: int, episode: int) -> tuple[int, int]:
    a, b = game, episode
    for r in range(4):
        a ^= noise.mix_word((b + s0 + r * 0x9E3779B9) & WORD)
        b ^= noise.mix_word((a + s1 + r * 0x85EBCA6B) & WORD)
    return a, b


def test_draws_are_those_of_the_docstring():
    s0, s1 = noise.seed_words(12345678901234)
    words = wp.zeros(256, dtype=wp.uint32, device="cpu")
    floats = wp.zeros(256, dtype=float, device="cpu")
    wp.launch(draw_kernel, 256, inputs=[wp.uint32(s0), wp.uint32(s1), words, floats], device="cpu")
    for i, (word, value) in enumerate(zip(words.numpy().tolist(), floats.numpy().tolist())):
        a, b = game_key(s0, s1, i, 7)
        tag = 3 << 16 | STREAM << 12 | i
        assert word == noise.mix_word((noise.mix_word(a ^ tag) + b) & WORD)
        assert value == ((word >> 9) + 0.5) / 2**23
    assert 0.4 < sum(floats.numpy()) / 256 < 0.6


def test_keys_of_one_seed_never_meet():
    for seed in (0, 1, 2**40):
        words = noise.seed_words(seed)
        keys = {game_key(*words, game, episode) for game in range(60) for episode in range(60)}
        assert len(keys) == 3600


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "1"])
def test_a_bad_seed_is_one_line(seed):
    with pytest.raises(UserError, match="expected a whole number"):
        noise.seed_words(seed)
