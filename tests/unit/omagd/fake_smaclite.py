"""A stand-in for SMAClite: it forgets the dead, wants Python's int, has no limit and no `get_env_info`."""

from enum import Enum
from types import SimpleNamespace

import numpy as np
from fake_failures import next_failure


class Kind(Enum):
    """Type of a unit of SMAClite."""

    ZEALOT = ("DAMAGE", "GROUND", 100, 50, ("GROUND",))
    STALKER = ("DAMAGE", "GROUND", 80, 80, ("GROUND", "AIR"))
    MARINE = ("DAMAGE", "GROUND", 45, 0, ("GROUND", "AIR"))
    MARAUDER = ("DAMAGE", "GROUND", 125, 0, ("GROUND",))
    MEDIVAC = ("HEALING", "AIR", 150, 0, ("GROUND",))


class Plane(Enum):
    GROUND = "GROUND"
    AIR = "AIR"
    COLOSSUS = "COLOSSUS"


def lite_map(name, allies, enemies, ids, shields):
    return SimpleNamespace(
        name=name, allies=allies, enemies=enemies, unit_type_ids=ids, num_unit_types=len(ids or ()), width=32,
        height=32, ally_has_shields=shields, enemy_has_shields=shields,
    )  # fmt: skip


FakeMapPreset = Enum("FakeMapPreset", {
    "MAP_2S3Z": lite_map("2s3z", [Kind.STALKER] * 2 + [Kind.ZEALOT] * 3, [Kind.STALKER] * 2 + [Kind.ZEALOT] * 3,
                         {Kind.STALKER: 0, Kind.ZEALOT: 1}, True),
    "MAP_MMM": lite_map("MMM", [Kind.MEDIVAC, Kind.MARINE, Kind.MARINE, Kind.MARAUDER],
                        [Kind.MEDIVAC] + [Kind.MARINE] * 3,
                        {Kind.MARAUDER: 0, Kind.MARINE: 1, Kind.MEDIVAC: 2}, False),
})  # fmt: skip


class FakeSMACliteEnv:
    """`smaclite.env.SMACliteEnv`: the five values of Gymnasium, dictionaries without the dead."""

    def __init__(self, map_info=None, map_file=None, seed=None, use_cpp_rvo2=False, render_mode="human"):
        self.map_info = map_info
        self.n_agents, self.n_enemies = len(map_info.allies), len(map_info.enemies)
        healers = map_info.allies.count(Kind.MEDIVAC)
        self.n_actions = 6 + (max(self.n_agents - healers, self.n_enemies) if healers else self.n_enemies)
        shields, bits = int(map_info.ally_has_shields), map_info.num_unit_types
        self.obs_size = 4 + (self.n_enemies + self.n_agents - 1) * (5 + shields + bits) + 1 + shields + bits
        self.state_size = self.n_agents * (4 + shields + bits) + self.n_enemies * (3 + shields + bits)
        self.state_size += self.n_agents * self.n_actions
        self.agents = self.enemies = []
        self.last_actions = np.zeros(self.n_agents * self.n_actions)
        self._random = np.random.default_rng(seed)
        self._fails, self._played = next_failure(), 0

    def reset(self, seed=None, options=None):
        if self._fails[0] == 0:
            raise ValueError("no ground")
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents = {n: self._unit(kind, 9, 12 + n, n) for n, kind in enumerate(self.map_info.allies)}
        self.enemies = {n: self._unit(kind, 21, 12 + n, n) for n, kind in enumerate(self.map_info.enemies)}
        return self.get_obs(), {"battle_won": False}

    def _unit(self, kind, x, y, number):
        combat, plane, health, shield, targets = kind.value
        place = np.array([x, y], dtype=np.float32) + self._random.uniform(-0.3, 0.3, 2).astype(np.float32)
        return SimpleNamespace(
            type=kind, hp=health, max_hp=health, shield=shield, max_shield=shield, pos=place, id_in_faction=number,
            combat_type=SimpleNamespace(name=combat), plane=Plane[plane],
            valid_targets={Plane[name] for name in targets}, cooldown=0.0, max_cooldown=1.0, energy=50, max_energy=200,
        )  # fmt: skip

    def step(self, actions):
        assert all(type(action) is int for action in actions) and len(actions) == self.n_agents
        self._played += 1
        if self._played == self._fails[0]:
            raise ValueError("the tree is empty")
        masks = self.get_avail_actions()
        self.last_actions = np.eye(self.n_actions)[np.array(actions)].flatten()
        before = sum(unit.hp + unit.shield for unit in self.enemies.values())
        for number, action in enumerate(actions):
            if number not in self.agents:
                assert action == 0
                continue
            if not masks[number][action]:
                raise ValueError(f"Invalid action for agent {number}: {action}")
            unit = self.agents[number]
            if 2 <= action <= 5:
                unit.pos += np.array([(0, 1), (0, -1), (1, 0), (-1, 0)][action - 2], dtype=np.float32)
            elif action >= 6 and unit.combat_type.name == "DAMAGE":
                hit(self.enemies[action - 6], 25)
        for enemy in self.enemies.values():
            if enemy.combat_type.name == "DAMAGE" and self.agents:
                near = min(self.agents.values(), key=lambda unit: np.linalg.norm(unit.pos - enemy.pos))
                if np.linalg.norm(near.pos - enemy.pos) <= 5:
                    hit(near, 10)
                else:
                    enemy.pos[0] -= 1
        reward = before - sum(unit.hp + unit.shield for unit in self.enemies.values())
        self.agents = {n: unit for n, unit in self.agents.items() if unit.hp > 0}
        self.enemies = {n: unit for n, unit in self.enemies.items() if unit.hp > 0}
        done = not self.enemies or not self.agents
        return self.get_obs(), reward / 40, done, False, {"battle_won": not self.enemies}

    def get_avail_actions(self):
        return [
            self._mask(self.agents[n]) if n in self.agents else np.eye(self.n_actions)[0] for n in range(self.n_agents)
        ]

    def _mask(self, unit):
        mask = np.zeros(self.n_actions)
        mask[1] = 1
        for action, step in enumerate([(0, 1), (0, -1), (1, 0), (-1, 0)], 2):
            x, y = unit.pos + np.array(step)
            mask[action] = 0 <= x < 32 and 8 <= y < 24
        healer = unit.combat_type.name == "HEALING"
        army = self.agents if healer else self.enemies
        for number, other in army.items():
            if other is not unit and not (healer and other.combat_type.name == "HEALING"):
                mask[6 + number] = np.linalg.norm(other.pos - unit.pos) <= 6
        return mask

    def get_obs(self):
        rows = [np.zeros(self.obs_size, dtype=np.float32) for _ in range(self.n_agents)]
        for number, me in self.agents.items():
            mask, told = self._mask(me), []
            for n in range(self.n_enemies):
                told += self._block(me, self.enemies.get(n), mask[6 + n])
            for n in range(self.n_agents):
                if n != number:
                    told += self._block(me, self.agents.get(n), 1.0)
            rows[number][:] = [*mask[2:6], *told, *self._body(me)]
        return tuple(rows)

    def _block(self, me, other, first):
        empty = [0.0] * (5 + int(self.map_info.ally_has_shields) + self.map_info.num_unit_types)
        if other is None or np.linalg.norm(other.pos - me.pos) >= 9:
            return empty
        return [first, np.linalg.norm(other.pos - me.pos) / 9, *((other.pos - me.pos) / 9), *self._body(other)]

    def _body(self, unit):
        numbers = [unit.hp / unit.max_hp] + ([unit.shield / unit.max_shield] if self.map_info.ally_has_shields else [])
        bits = [0.0] * self.map_info.num_unit_types
        bits[self.map_info.unit_type_ids[unit.type]] = 1.0
        return numbers + bits

    def get_state(self):
        width = 4 + int(self.map_info.ally_has_shields) + self.map_info.num_unit_types
        rows = np.zeros(self.state_size, dtype=np.float32)
        for army, first, own in ((self.agents, 0, 1), (self.enemies, self.n_agents * width, 0)):
            step = width - 1 + own
            for number, unit in army.items():
                numbers = [unit.hp / unit.max_hp] + [0.0] * own + list((unit.pos - 16) / 32) + self._body(unit)[1:]
                rows[first + number * step : first + (number + 1) * step] = numbers
        rows[-len(self.last_actions) :] = self.last_actions
        return rows

    def close(self):
        pass


def hit(unit, damage):
    kept = min(unit.shield, damage)
    unit.shield -= kept
    unit.hp = max(unit.hp - (damage - kept), 0)
