"""Who sits on the other side of a training game, by episode: the originals' schedules and one fixed bot."""

import math

from lib.snakes.options import SnakesOptions
from lib.snakes.rules import CONTROLLERS

LEVELS = ("random", "level1", "greedy", "level3", "level4")  # the originals' numbers 0 to 4, not ordered by strength
CURRICULUM = (0.10, 0.30, 0.60, 0.85)  # shares of --max_episodes at which the level rises


def level(strategy: str, share: float) -> int:
    """The originals' difficulty 0 to 4 when `share` (0 to 1) of the episodes are played."""
    if strategy == "curriculum":
        return sum(share >= bound for bound in CURRICULUM)
    return min(int(4 * (share if strategy == "linear" else math.pow(share, 1.5))), 4)


def opponent(config: SnakesOptions, episode: int) -> str:
    """The scripted bot of training games that begin when `episode` games per process are over."""
    if config.enable_opponent_evasion and episode >= config.opponent_evasion_start_episode:
        return "evasion"
    strategy = config.opponent_difficulty_strategy
    if strategy == "fixed":
        return config.opponent
    name = LEVELS[level(strategy, min(episode / config.max_episodes, 1.0))]
    assert name in CONTROLLERS
    return name
