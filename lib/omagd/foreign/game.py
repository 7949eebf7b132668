"""The small interface behind which a game of others is played, and what is the same for all of them.

An adapter says how its game begins, acts and is read; `Game` makes of it, for one battle of A agents and E enemies,
U = A + E units, C actions:

    reset(seed)   begins the next battle
    step(actions) plays a step, says how it ended: `Outcome`
    obs()         (A, obs) float32, as the game tells it
    full_obs()    (A, obs) float32, the same with the blocks of living units out of sight written, too
    state()       (state,) float32, as the game tells it
    avail()       (A, C) uint8
    alive()       (U,) uint8: allies, then enemies
    visible()     (A, U) uint8, of the nodes of an agent: itself, other allies, enemies. Who is told of, not who is
                  near: a game may tell of fewer (SMACv2)
    units()       `Units`
    env_info()    SMAC's `get_env_info` and the blocks, see lib/omagd/battle/layout.py
    close()       ends the game

A game is asked once a step: asking some of them (SMACv2) changes what they tell. What is raised while an adapter asks
it becomes a `GameCrashed`, with its place; what is raised by what is computed from the answers in this file is none of
the game and comes through as it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lib.errors import UserError, in_words
from lib.omagd.battle.layout import HEALTH_AT, MOVES, Layout

TOLERANCE = 1e-3  # of a number of an observation; some games compute places in float32


class GameCrashed(RuntimeError):
    """A game has failed: it raised something, or says by other means that it has ended."""


def asked(call: Callable, *arguments):
    """What a game's `call` returns; GameCrashed with what it raised and where. A UserError is for the user."""
    try:
        return call(*arguments)
    except (UserError, GameCrashed):
        raise
    except Exception as error:
        raise GameCrashed(in_words(error)) from error


@dataclass(frozen=True)
class GameMap:
    """What is known of a map without playing it; `limit` is in steps."""

    name: str
    limit: int


@dataclass(frozen=True)
class Outcome:
    """A step: the team's reward, and if the battle is over how. `late`: by the limit of steps, which ends it, too."""

    reward: float
    done: bool = False
    won: bool = False
    late: bool = False
    dead_allies: int = 0
    dead_enemies: int = 0


@dataclass
class Units:
    """Every unit as the game has it, allies by number, then enemies; numbers of dead ones mean nothing."""

    alive: np.ndarray  # (U,) bool
    place: np.ndarray  # (U, 2), map units
    health: np.ndarray  # (U,), share of the greatest
    shield: np.ndarray  # (U,), likewise; 0 where there is none
    bit: np.ndarray  # (U,) int, which type bit is 1
    heals: np.ndarray  # (A,) bool
    can_hit: np.ndarray  # (A, E) bool: false for those that cannot fire at flyers


@dataclass
class Reading:
    """What a game tells at one moment."""

    obs: np.ndarray  # (A, obs) float32
    state: np.ndarray  # (state,) float32
    avail: np.ndarray  # (A, C) uint8
    attackable: np.ndarray  # (A, E), the first number of an enemy's block
    sight: np.ndarray  # (A,), map units
    units: Units


class Game(ABC):
    """One battle of a game of others. `waits`: its steps wait for another process and gain by threads."""

    name: ClassVar[str]
    waits: ClassVar[bool]
    arguments: ClassVar[dict[str, type]]  # keywords of the game's own that a user may choose
    layout: Layout
    map: GameMap
    _steps: int
    _reading: Reading
    _full: np.ndarray
    _visible: np.ndarray

    @abstractmethod
    def __init__(self, map_name: str, seed: int = 0, **arguments):
        """Sets layout and map, starts nothing. UserError where the game or its map is not there."""

    @abstractmethod
    def _begin(self, seed: int) -> None:
        """Begin a battle; a game that draws by seeds of its own draws by this one."""

    @abstractmethod
    def _act(self, actions: list[int]) -> tuple[float, bool, bool]:
        """(reward, whether the game says that it is over, whether it is won)."""

    @abstractmethod
    def _read(self) -> Reading:
        """Ask the game for everything."""

    @abstractmethod
    def env_info(self) -> dict:
        """SMAC's `get_env_info` and the blocks, see `layout.py`; does not need a running game."""

    @abstractmethod
    def close(self) -> None:
        """End the game; may be called twice."""

    def reset(self, seed: int) -> None:
        """Begin the next battle. GameCrashed when the game fails."""
        asked(self._begin, seed)
        self._steps = 0
        self._look()

    def step(self, actions: list[int]) -> Outcome:
        """One step; actions must be available (`avail`). GameCrashed when the game fails."""
        reward, done, won = asked(self._act, [int(action) for action in actions])
        self._steps += 1
        self._look()
        alive = self._reading.units.alive
        allies, enemies = alive[: self.layout.n_agents], alive[self.layout.n_agents :]
        late = self._steps >= self.map.limit and not won and bool(allies.any() and enemies.any())
        dead = int((~allies).sum()), int((~enemies).sum())
        return Outcome(float(reward), bool(done) or late, bool(won), late, *dead)

    def _look(self) -> None:
        reading = self._reading = asked(self._read)
        wanted = (self.layout.n_agents, self.layout.obs_size), (self.layout.state_size,)
        assert (reading.obs.shape, reading.state.shape) == wanted, (reading.obs.shape, reading.state.shape, wanted)
        self._visible = visible_nodes(self.layout, reading)
        self._full = full_observations(self.layout, reading, self._visible)

    def obs(self) -> np.ndarray:
        return self._reading.obs

    def full_obs(self) -> np.ndarray:
        return self._full

    def state(self) -> np.ndarray:
        return self._reading.state

    def avail(self) -> np.ndarray:
        return self._reading.avail

    def alive(self) -> np.ndarray:
        return self._reading.units.alive.astype(np.uint8)

    def visible(self) -> np.ndarray:
        return self._visible

    def units(self) -> Units:
        return self._reading.units

    def mismatch(self) -> str | None:
        """Where what the game tells of a visible unit is not what `full_obs` would say of it; None where all fits."""
        layout, reading = self.layout, self._reading
        ours, theirs = blocks_of_units(layout, reading), blocks_told(layout, reading.obs)
        seen = self._visible[:, layout.n_agents :], self._visible[:, 1 : layout.n_agents]
        for kind, mine, told, visible in zip(("enemy", "ally"), ours, theirs, seen, strict=True):
            wrong = (np.abs(mine - told) > TOLERANCE) & (visible[..., None] != 0)
            if wrong.any():
                agent, slot, number = (int(place) for place in np.argwhere(wrong)[0])
                found, expected = told[agent, slot, number], mine[agent, slot, number]
                return f"number {number} of {kind} {slot} of agent {agent} is {found:.4g}, by the units {expected:.4g}"
        return None


def blocks_told(layout: Layout, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Copies of the blocks of enemies (A, E, width) and other allies (A, A - 1, width) in observations (A, obs)."""
    agents = len(obs)
    allies_at = MOVES + layout.n_enemies * layout.enemy_width
    own_at = allies_at + (layout.n_agents - 1) * layout.ally_width
    enemies = obs[:, MOVES:allies_at].reshape(agents, layout.n_enemies, layout.enemy_width)
    return enemies.copy(), obs[:, allies_at:own_at].reshape(agents, layout.n_agents - 1, layout.ally_width).copy()


def visible_nodes(layout: Layout, reading: Reading) -> np.ndarray:
    """(A, U) uint8: of which living nodes an agent is told: those with a health that is not 0."""
    alive, agents = reading.units.alive, layout.n_agents
    enemies, allies = blocks_told(layout, reading.obs)
    found = np.zeros((agents, layout.n_nodes), np.uint8)
    found[:, 0] = alive[:agents]
    found[:, 1:agents] = (allies[..., HEALTH_AT] > 0) & alive[others(agents)] & alive[:agents, None]
    found[:, agents:] = (enemies[..., HEALTH_AT] > 0) & alive[agents:] & alive[:agents, None]
    return found


def blocks_of_units(layout: Layout, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """The blocks of all units in SMAC's layout, whoever sees them: enemies (A, E, width), allies (A, A - 1, width)."""
    units, agents = reading.units, layout.n_agents
    offsets = (units.place[None] - units.place[:agents, None]) / reading.sight[:, None, None]  # (A, U, 2)
    away = np.hypot(offsets[..., 0], offsets[..., 1])
    enemies = np.zeros((agents, layout.n_enemies, layout.enemy_width), np.float32)
    allies = np.zeros((agents, agents - 1, layout.ally_width), np.float32)
    rows, slots = np.arange(agents)[:, None], others(agents)
    enemies[..., 0] = reading.attackable
    allies[..., 0] = away[rows, slots] < 1.0
    parts = (
        (enemies, away[:, agents:], offsets[:, agents:], np.arange(agents, layout.n_nodes), layout.enemy_shield),
        (allies, away[rows, slots], offsets[rows, slots], slots, layout.ally_shield),
    )
    for blocks, far, offset, numbers, shields in parts:
        blocks[..., 1] = far
        blocks[..., 2:4] = offset
        blocks[..., HEALTH_AT] = units.health[numbers]
        if shields:
            blocks[..., HEALTH_AT + 1] = units.shield[numbers]
        if layout.type_bits:
            blocks[..., HEALTH_AT + 1 + shields :] = np.eye(layout.type_bits)[units.bit[numbers]]
    return enemies, allies


def full_observations(layout: Layout, reading: Reading, visible: np.ndarray) -> np.ndarray:
    """(A, obs) float32: what is told stays as it is, the blocks of other living units are written beside it."""
    agents, alive = layout.n_agents, reading.units.alive
    ours, theirs = blocks_of_units(layout, reading), blocks_told(layout, reading.obs)
    living = alive[agents:][None], alive[others(agents)]
    seen = visible[:, agents:], visible[:, 1:agents]
    full = reading.obs.copy()
    at = MOVES
    for mine, told, lives, known in zip(ours, theirs, living, seen, strict=True):
        missing = lives & alive[:agents, None] & (known == 0)
        told[missing] = mine[missing]
        end = at + told.shape[1] * told.shape[2]
        full[:, at:end] = told.reshape(agents, -1)
        at = end
    return full


def others(agents: int) -> np.ndarray:
    """(A, A - 1): the numbers of the other agents, ascending, for each."""
    slots = np.arange(agents - 1)[None]
    return slots + (slots >= np.arange(agents)[:, None])
