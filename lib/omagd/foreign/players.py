"""Scripted players of a game of others: the baselines beside a team. The same rules as in lib/omagd/battle/players.py.

random    one of the available actions, uniform
nearest   attack the nearest enemy that can be hit, keep it while it can be reached (a healer: heal the nearest
          wounded ally that is no healer); what cannot be reached is walked to
"""

import numpy as np

from lib.omagd.battle.layout import EAST, FIRST_ATTACK, NO_OP, NORTH, SOUTH, STOP, WEST
from lib.omagd.foreign.game import Game

PLAYERS = ("random", "nearest")
WAYS = {NORTH: (0.0, 1.0), SOUTH: (0.0, -1.0), EAST: (1.0, 0.0), WEST: (-1.0, 0.0)}


def nearest_actions(game: Game, last_actions: np.ndarray) -> np.ndarray:
    """The action of every agent, (A,); `last_actions` (A,) are those of the step before, -1 before the first."""
    units, avail, agents = game.units(), game.avail(), game.layout.n_agents
    found = np.full(agents, NO_OP)
    for agent in np.flatnonzero(units.alive[:agents]):
        found[agent] = _nearest_action(units, avail[agent], agents, agent, int(last_actions[agent]))
    return found


def _nearest_action(units, avail: np.ndarray, agents: int, agent: int, last: int) -> int:
    healer = units.heals[agent]
    army = slice(0, agents) if healer else slice(agents, None)
    wanted = units.alive[army].copy()
    if healer:
        wanted &= ~units.heals & (units.health[army] < 1.0)
        wanted[agent] = False
    else:
        wanted &= units.can_hit[agent]
    if not wanted.any():
        return STOP
    offsets = units.place[army] - units.place[agent]
    target = int(np.where(wanted, np.hypot(*offsets.T), np.inf).argmin())
    kept = last - FIRST_ATTACK
    if not healer and kept >= 0 and avail[last] and wanted[kept]:
        return last
    if avail[FIRST_ATTACK + target]:
        return FIRST_ATTACK + target
    return _towards(avail, offsets[target])


def _towards(avail: np.ndarray, offset: np.ndarray) -> int:
    """The available move that leads farthest along the offset; STOP where none leads that way."""
    along = {action: float(offset @ np.array(way)) for action, way in WAYS.items() if avail[action]}
    best = max(along, key=along.get, default=STOP)
    return best if along.get(best, 0.0) > 0 else STOP


def random_actions(avail: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """One available action for each agent, (A,), of masks (A, C) by numbers in [0, 1) (A,)."""
    counts = avail.sum(1, dtype=int)
    wanted = np.minimum((draws * counts).astype(int), counts - 1)
    return np.array([np.flatnonzero(mask)[number] for mask, number in zip(avail, wanted, strict=True)])
