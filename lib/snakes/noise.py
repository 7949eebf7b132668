"""The game's random numbers: every draw is a function of (seed, global game id, episode, stream, step, counter).

All arithmetic is on unsigned 32-bit words, modulo 2^32, so that plain Python gives the same numbers:

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
    ternary(x, i)                   bounded(x * 3^i mod 2^32, 3): the i-th base-3 digit of x / 2^32
    uniform(x)                      ((x >> 9) + 0.5) / 2^23, a float32 strictly between 0 and 1

`game` is the global game id (first_game + slot), `episode` counts the games of a slot from 0. Who draws what:

RESET, step 0, counter 0, 1, 2, ... in the order of use
    For snakes 0 to 5: direction = bounded(draw, 4), row = bounded(draw, 10), col = bounded(draw, 20), that is the tail;
    two more cells follow in that direction, the third is the head. When any of the three is taken by an earlier snake,
    all three numbers are drawn again (the counter goes on). Then five beans: k = bounded(draw, free), the bean lies on
    the k-th cell (from 0) in scan order without snake and without bean.
REVERSAL, step t, counter 0: one word x for the whole step
    A snake i whose action is the reverse of its direction d moves in the ternary(x, i)-th direction (from 0) of those
    of up, down, left, right that are not the reverse of d.
BEANS, step t, counter j for the j-th bean (from 0) placed in this step
    k = bounded(draw, free), the bean is appended to the list on the k-th free cell in scan order, as above.
BOT, step t, counter 0: one word x for the whole step
    The random player's action of snake i is (x >> 2 i) & 3. Other players must use counters from 16.
EXPLORE, step t, counter 8 i + k for snake i (`SnakesVec.choose`)
    k = 0..3: Gumbel noise of move k, -log(-log(uniform(draw))); k = 4: explore when uniform(draw) < epsilon;
    k = 5: then the bounded(draw, n)-th of the n allowed moves in the order up, down, left, right.

t = steps made in this game before the step (0 for the first step of a game).
"""

import warp as wp

from lib.errors import UserError

RESET = 0
BEANS = 1
REVERSAL = 2
BOT = 3
EXPLORE = 4

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
