"""The Jidi "3v3 Snakes" game: rules, batched game, players, learner. The names of LATER are loaded on first use."""

import importlib

from lib.snakes import rules
from lib.snakes.state import GameState

LATER = {
    "SnakesVec": "lib.snakes.game",
    "SnakesVectorEnv": "lib.snakes.gymnasium_env",
    "parallel_env": "lib.snakes.pettingzoo_env",
}

__all__ = ["GameState", "SnakesVec", "SnakesVectorEnv", "parallel_env", "rules"]


def __getattr__(name: str):
    if name in LATER:
        return getattr(importlib.import_module(LATER[name]), name)
    raise AttributeError(f"module 'lib.snakes' has no attribute {name!r}")
