"""Replays for tests of pages, pictures and files."""

from functools import cache

from lib.snakes.game import SnakesVec
from lib.snakes.replay import Replay, record


@cache
def bots_replay(seed: int = 2, names: tuple[str, str] = ("greedy", "random <b>&amp;</b>")) -> Replay:
    """A whole game of two scripted teams; the random one reverses and dies often."""
    game = SnakesVec(1, seed=seed, features="none", left="greedy", right="random", autoreset=False)
    return record(game, lambda game: None, names=names, seed=seed)
