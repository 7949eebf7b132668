"""The kernels and the plain Python battle side by side: every step of every battle compared in everything it has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from reference_battle import Battle

from lib.omagd.battle.arrays import CALM, COOLDOWN, HEALTH, PATIENT, SHIELD, STRUCK, TARGET, X, Y
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import EAST, FIRST_ATTACK, NORTH, SOUTH, STOP, WEST
from lib.omagd.battle.maps import find_map

KEPT_MESSAGES = 20
TOLERANCE = 1e-5
TOLD = ("obs", "full_obs", "state", "avail", "visible", "alive")
FINAL = ("obs", "full_obs", "state")
# Of the living alone: where the dead lie, and what they last wanted, is told nowhere. `calm` of those with shields.
ROWS = {"x": X, "y": Y, "health": HEALTH, "shield": SHIELD, "cooldown": COOLDOWN, "calm": CALM}
AIMS = {"target": TARGET, "struck": STRUCK, "patient": PATIENT}


class Lockstep:
    """`num_battles` battles in BattleVec and in the reference; `differences` counts, `messages` keeps the first ones.

    After every step everything is compared, and then the numbers of the kernel are copied into the reference, so that
    what rounding did in one step does not add up over many. A difference is an array of one battle after one step
    that is anywhere farther than TOLERANCE from the reference's, or than that part of a number greater than 1. `steps`
    counts the steps of single battles.
    """

    def __init__(self, map_name: str, num_battles: int, *, autoreset: bool = True, keep_final: bool = False, **options):
        self.name, self.autoreset, self.keep_final = map_name, autoreset, keep_final
        self.vec = BattleVec(map_name, num_battles, autoreset=autoreset, keep_final=keep_final, **options)
        first, seed = options.pop("first_battle", 0), options.pop("seed", 0)
        self.battles = [Battle(find_map(map_name), seed=seed, number=first + n, **options) for n in range(num_battles)]
        self.differences, self.steps, self.launches, self.messages = 0, 0, 0, []
        self.done, self.rewards = [0] * num_battles, [0.0] * num_battles
        self.infos, self.final_returns = [(0, 0, 0, 0)] * num_battles, [0.0] * num_battles
        self.finals: list[dict | None] = [None] * num_battles
        self._compare_all()

    @property
    def events(self) -> Counter:
        """What all battles have met so far."""
        return sum((battle.events for battle in self.battles), Counter())

    def step(self, actions: np.ndarray, check: bool = False) -> None:
        """One step with actions [num_battles, n_agents]."""
        self.vec.step(torch.from_numpy(np.asarray(actions, dtype=np.int32)), check=check)
        self.launches += 1
        for n, battle in enumerate(self.battles):
            if battle.over:
                self.rewards[n] = 0.0
                continue
            result = battle.step([int(action) for action in actions[n]])
            self.steps += 1
            self.rewards[n], self.done[n] = result.reward, int(result.done)
            if result.done:
                self._battle_over(n, battle, result.info)
        self._compare_all()

    def _battle_over(self, n: int, battle: Battle, info: tuple) -> None:
        self.infos[n], self.final_returns[n] = info, battle.total
        if self.autoreset:
            if self.keep_final:
                self.finals[n] = told(battle)
            battle.reset()

    def reset(self, seed: int | None = None) -> None:
        """`BattleVec.reset` of both."""
        self.vec.reset(seed)
        for battle in self.battles:
            if seed is not None:
                battle.seed, battle.episode = seed, -1
            elif battle.step_count == 0:
                battle.episode -= 1
            battle.reset()
        self.done, self.rewards = [0] * len(self.battles), [0.0] * len(self.battles)
        self._compare_all()

    def put(self, unit: int, battle: int = 0, **numbers: float) -> None:
        """Writes numbers of a unit into the kernel's arrays, by the names of ROWS and AIMS; `adopt` when all is put."""
        for name, number in numbers.items():
            if name in AIMS:
                self.vec.aims[battle, AIMS[name], unit] = int(number)
            else:
                self.vec.units[battle, ROWS["cooldown" if name == "energy" else name], unit] = number

    def of(self, unit: int, name: str, battle: int = 0) -> float:
        """A number of a unit as the kernel has it, by the names of `put`."""
        if name in AIMS:
            return int(self.vec.aims[battle, AIMS[name], unit])
        return float(self.vec.units[battle, ROWS["cooldown" if name == "energy" else name], unit])

    def adopt(self) -> None:
        """After a test has written into the kernel's arrays: both tell of it, and are compared."""
        self.vec.refresh()
        for n in range(len(self.battles)):
            self._copy(n)
        self._compare_all()

    def _copy(self, n: int) -> None:
        """The kernel's numbers into the reference."""
        floats, aims, battle = self.vec.units[n].numpy(), self.vec.aims[n].numpy(), self.battles[n]
        for u, unit in enumerate(battle.units):
            unit.x, unit.y, unit.health, unit.shield, unit.calm = floats[[X, Y, HEALTH, SHIELD, CALM], u]
            if unit.heals:
                unit.energy = floats[COOLDOWN, u]
            else:
                unit.cooldown = floats[COOLDOWN, u]
            unit.target, unit.struck, unit.patient = (int(aim) for aim in aims[[TARGET, STRUCK, PATIENT], u])
        battle.total = float(self.vec.returns[n])

    def _compare_all(self) -> None:
        arrays = {name: getattr(self.vec, name).numpy() for name in (*TOLD, "units", "aims", "rewards", "returns")}
        arrays |= {name: getattr(self.vec, name).numpy() for name in ("done", "info", "step_count", "episode")}
        for n, battle in enumerate(self.battles):
            self._compare_units(n, battle, arrays["units"][n], arrays["aims"][n])
            expected = told(battle) | {
                "rewards": self.rewards[n],
                "returns": battle.total,
                "final_returns": self.final_returns[n],
                "done": self.done[n],
                "info": self.infos[n],
                "step_count": battle.step_count,
                "episode": battle.episode,
            }
            for name, value in expected.items():
                found = arrays[name] if name in arrays else getattr(self.vec, name).numpy()
                self._compare(n, name, found[n], np.asarray(value))
            if self.finals[n]:
                for name in FINAL:
                    self._compare(
                        n, f"final_{name}", getattr(self.vec, f"final_{name}")[n].numpy(), self.finals[n][name]
                    )
            self._copy(n)

    def _compare_units(self, n: int, battle: Battle, floats: np.ndarray, aims: np.ndarray) -> None:
        lives = np.array(battle.alive(), dtype=bool)
        floats, aims = floats[:, : len(lives)], aims[:, : len(lives)]  # the arrays may be wider than the armies
        shields = np.array([unit.type.shield > 0 for unit in battle.units])
        for name, row in ROWS.items():
            expected = np.array(
                [getattr(u, "energy" if name == "cooldown" and u.heals else name) for u in battle.units]
            )
            of = slice(None) if name in ("health", "shield") else lives & shields if name == "calm" else lives
            self._compare(n, name, floats[row][of], expected[of])
        for name, row in AIMS.items():
            expected = np.array([getattr(unit, name) for unit in battle.units])
            self._compare(n, name, aims[row][lives], expected[lives])

    def _compare(self, n: int, name: str, found: np.ndarray, expected: np.ndarray) -> None:
        if found.shape != expected.shape:
            self._report(n, f"{name} has shape {found.shape} instead of {expected.shape}")
            return
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        wrong = ~(np.abs(found - expected) <= TOLERANCE * np.maximum(1.0, np.abs(expected)))
        if wrong.any():
            places = [tuple(map(int, place)) for place in np.argwhere(wrong)]
            some = "; ".join(f"{list(place)} is {found[place]} instead of {expected[place]}" for place in places[:4])
            self._report(n, f"{name} differs in {len(places)} places: {some}")

    def _report(self, n: int, message: str) -> None:
        self.differences += 1
        if len(self.messages) < KEPT_MESSAGES:
            battle = self.battles[n]
            at = f"launch {self.launches}, episode {battle.episode}, step {battle.step_count}"
            self.messages.append(f"{self.name}, battle {n}, {at}: {message}")


def told(battle: Battle) -> dict[str, np.ndarray]:
    """All that is told of a battle."""
    agents = range(battle.map.n_agents)
    seen, full = zip(*(battle.observations(agent) for agent in agents), strict=True)
    return {
        "obs": np.stack(seen),
        "full_obs": np.stack(full),
        "state": battle.state(),
        "avail": np.array([battle.avail(agent) for agent in agents]),
        "visible": np.array([battle.visible(agent) for agent in agents]),
        "alive": np.array(battle.alive()),
    }


def random_actions(vec: BattleVec, rng: np.random.Generator) -> np.ndarray:
    """An available action for every agent, [N, A]."""
    avail = vec.avail.numpy()
    return np.argmax(rng.random(avail.shape) * avail, axis=-1).astype(np.int32)


def attacking_actions(vec: BattleVec) -> np.ndarray:
    """Attack the nearest available enemy (heal the most wounded available ally), else walk towards the nearest."""
    battle_map, avail, floats = vec.map, vec.avail.numpy(), vec.units.numpy()
    n_agents = battle_map.n_agents
    places, health = floats[:, [X, Y], : battle_map.n_units], floats[:, HEALTH, : battle_map.n_units]
    offsets = places[:, :, None, n_agents:] - places[:, :, :n_agents, None]
    distances = np.hypot(offsets[:, 0], offsets[:, 1])
    far = np.where(health[:, None, n_agents:] > 0, distances, np.inf)
    scores = np.where(avail[:, :, FIRST_ATTACK:] > 0, distances, np.inf)
    for agent in range(n_agents):
        if battle_map.units[agent].heals:
            wanted = min(n_agents, battle_map.n_enemies)
            share = health[:, :wanted] / np.array([unit.health for unit in battle_map.units[:wanted]])
            scores[:, agent, :wanted] = np.where(avail[:, agent, FIRST_ATTACK:][:, :wanted] > 0, share, np.inf)
    nearest = far.argmin(-1)
    dx, dy = (np.take_along_axis(offset, nearest[..., None], -1)[..., 0] for offset in (offsets[:, 0], offsets[:, 1]))
    along_x, along_y = np.where(dx > 0, EAST, WEST), np.where(dy > 0, NORTH, SOUTH)
    first = np.where(np.abs(dx) > np.abs(dy), along_x, along_y)
    second = np.where(np.abs(dx) > np.abs(dy), along_y, along_x)
    moves = np.select([_may(avail, first), _may(avail, second)], [first, second], STOP)
    fights = np.isfinite(scores.min(-1))
    return np.where(avail[:, :, 0] > 0, 0, np.where(fights, FIRST_ATTACK + scores.argmin(-1), moves)).astype(np.int32)


def _may(avail: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(avail, actions[..., None], -1)[..., 0] > 0


def mixed_actions(vec: BattleVec, rng: np.random.Generator, shares=(0.05, 0.3, 1.0)) -> np.ndarray:
    """Attacking actions, in battle n replaced by random ones with the probability shares[n % len(shares)]."""
    share = np.array(shares)[np.arange(vec.num_battles) % len(shares)]
    replaced = rng.random((vec.num_battles, vec.map.n_agents)) < share[:, None]
    return np.where(replaced, random_actions(vec, rng), attacking_actions(vec))
