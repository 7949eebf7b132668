"""Random numbers of games in Warp kernels: a function of (seed, global game id, episode, stream, step, counter).

No generator, no state: a game's numbers do not depend on how many games there are, on processes or on the device. All
arithmetic is on unsigned 32-bit words, modulo 2^32, so that plain Python gives the same numbers:

    mix(x)                          x ^= x >> 16;  x *= 0x21F0AAAD;  x ^= x >> 15;  x *= 0xD35A2D97;  x ^= x >> 15
                                    (a bijection with low bias, by C. Wellons' and T. Ettinger's hash prospector)
    seed_words(seed)                low, high = seed mod 2^32, seed div 2^32      (0 <= seed < 2^64)
                                    s0 = mix(mix(low ^ 0x243F6A88) + high);  s1 = mix(mix(high ^ 0x85A308D3) + low)
    game_key(s0, s1, game, episode) a, b = game, episode;  for r in 0, 1, 2, 3:
                                        a ^= mix(b + s0 + r * 0x9E3779B9);  b ^= mix(a + s1 + r * 0x85EBCA6B)
                                    gives the key words (a, b): a Feistel network, so no two games of a seed share a key
    draw(a, b, stream, step, counter)
                                    mix(mix(a ^ (step << 16 | stream << 12 | counter)) + b)
    bounded(x, n)                   (x * n) >> 32 in 64-bit arithmetic: 0 .. n-1
    uniform(x)                      ((x >> 9) + 0.5) / 2^23, a float32 strictly between 0 and 1

`game` is the global game id (first of this process + slot), `episode` counts the games of a slot from 0. The page of
each game says which stream draws what.
"""

import warp as wp

from lib.errors import UserError

WORD = 0xFFFFFFFF
_GOLDEN = wp.constant(wp.uint32(0x9E3779B9))
_SECOND = wp.constant(wp.uint32(0x85EBCA6B))
_MIX_FIRST = wp.constant(wp.uint32(0x21F0AAAD))
_MIX_SECOND = wp.constant(wp.uint32(0xD35A2D97))


def mix_word(x: int) -> int:
    """`mix` of the module docstring on Python integers (the host needs it for `seed_words`)."""
    x ^= x >> 16
    x = x * 0x21F0AAAD & WORD
    x ^= x >> 15
    x = x * 0xD35A2D97 & WORD
    return x ^ x >> 15


def seed_words(seed: int) -> tuple[int, int]:
    """The two 32-bit words of a seed; UserError outside 0 .. 2^64 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise UserError(f"seed is {seed!r}: expected a whole number from 0 to 2^64 - 1")
    low, high = seed & WORD, seed >> 32
    first = mix_word((mix_word(low ^ 0x243F6A88) + high) & WORD)
    return first, mix_word((mix_word(high ^ 0x85A308D3) + low) & WORD)


def key_words(seed: int, game: int, episode: int) -> tuple[int, int]:
    """The two key words of a game, on Python integers."""
    first, second = seed_words(seed)
    a, b = game & WORD, episode & WORD
    for r in range(4):
        a ^= mix_word((b + first + r * 0x9E3779B9) & WORD)
        b ^= mix_word((a + second + r * 0x85EBCA6B) & WORD)
    return a, b


@wp.func
def mix(x: wp.uint32) -> wp.uint32:
    """A 32-bit bijection; see the module docstring."""
    x = x ^ (x >> wp.uint32(16))
    x = x * _MIX_FIRST
    x = x ^ (x >> wp.uint32(15))
    x = x * _MIX_SECOND
    return x ^ (x >> wp.uint32(15))


@wp.func
def game_key(s0: wp.uint32, s1: wp.uint32, game: wp.uint32, episode: wp.uint32):
    """The two key words of a game."""
    a = game
    b = episode
    first = s0
    second = s1
    for _ in range(4):
        a = a ^ mix(b + first)
        b = b ^ mix(a + second)
        first += _GOLDEN
        second += _SECOND
    return a, b


@wp.func
def draw(a: wp.uint32, b: wp.uint32, stream: int, step: int, counter: int) -> wp.uint32:
    """32 random bits; step < 65536, stream < 16, counter < 4096."""
    return mix(mix(a ^ wp.uint32((step << 16) | (stream << 12) | counter)) + b)


@wp.func
def bounded(x: wp.uint32, n: int) -> int:
    """A number in 0 .. n-1 from 32 random bits."""
    return int((wp.uint64(x) * wp.uint64(n)) >> wp.uint64(32))


@wp.func
def uniform(x: wp.uint32) -> float:
    """A float32 strictly between 0 and 1 from 32 random bits."""
    return (float(int(x >> wp.uint32(9))) + 0.5) * 1.1920928955078125e-07
