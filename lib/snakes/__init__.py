"""The Jidi "3v3 Snakes" game: rules, batched game, players, learner. `SnakesVec` is loaded on first use."""

from lib.snakes import rules
from lib.snakes.state import GameState

__all__ = ["GameState", "SnakesVec", "rules"]


def __getattr__(name: str):
    if name == "SnakesVec":
        from lib.snakes.game import SnakesVec

        return SnakesVec
    raise AttributeError(f"module 'lib.snakes' has no attribute {name!r}")
