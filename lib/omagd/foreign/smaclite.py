"""SMAClite (Michalski et al. 2023): SMAC's battles without StarCraft II, as a Gymnasium environment in Python."""

from typing import ClassVar

import numpy as np

from lib.omagd.battle.layout import FIRST_ATTACK, Layout
from lib.omagd.battle.maps import MAPS
from lib.omagd.foreign.game import Game, GameMap, Reading, Units
from lib.omagd.foreign.packages import find_package, unknown_map

SIGHT = 9.0
LIMIT = 200  # of a map that SMAC does not have: SMAClite has no limit of its own


class SmacliteGame(Game):
    """One battle in this process: Python throughout, so that threads would only wait for each other."""

    name = "smaclite"
    waits = False
    arguments: ClassVar[dict[str, type]] = {"use_cpp_rvo2": bool}

    def __init__(self, map_name: str, seed: int = 0, **arguments):
        presets = self._presets()
        if map_name not in presets:
            raise unknown_map("smaclite", map_name, list(presets))
        self._env = find_package("smaclite", "env").SMACliteEnv(map_info=presets[map_name], seed=seed, **arguments)
        self._info = self._env.map_info
        self.map = GameMap(map_name, MAPS[map_name].limit if map_name in MAPS else LIMIT)
        self.layout = Layout.of_env_info(self._described())

    @staticmethod
    def _presets() -> dict:
        """Maps by name."""
        return {each.value.name: each.value for each in find_package("smaclite", "env.maps.map").MapPreset}

    @classmethod
    def maps(cls) -> list[str]:
        """Names of all maps."""
        return list(cls._presets())

    def _described(self) -> dict:
        env, info = self._env, self._info
        return {
            "n_agents": env.n_agents,
            "n_enemies": env.n_enemies,
            "n_actions": env.n_actions,
            "obs_shape": env.obs_size,
            "state_shape": env.state_size,
            "type_bits": info.num_unit_types,
            "ally_shield": int(info.ally_has_shields),
            "enemy_shield": int(info.enemy_has_shields),
            "own_more": 0,
        }

    def env_info(self) -> dict:
        return self.layout.env_info(self.map, self._info.name)

    def _begin(self, seed: int) -> None:
        self._env.reset(seed=seed)

    def _act(self, actions: list[int]) -> tuple[float, bool, bool]:
        _, reward, done, truncated, info = self._env.step(actions)
        return reward, bool(done or truncated), bool(info["battle_won"])

    def _read(self) -> Reading:
        env, layout = self._env, self.layout
        avail = np.stack(env.get_avail_actions()).astype(np.uint8)
        return Reading(
            obs=np.stack(env.get_obs()).astype(np.float32),
            state=np.asarray(env.get_state(), dtype=np.float32),
            avail=avail,
            attackable=avail[:, FIRST_ATTACK : FIRST_ATTACK + layout.n_enemies],
            sight=np.full(layout.n_agents, SIGHT),
            units=self._units(),
        )

    def _units(self) -> Units:
        """The game forgets the dead: their rows stay 0."""
        env, layout = self._env, self.layout
        count = layout.n_nodes
        units = Units(
            np.zeros(count, bool), np.zeros((count, 2)), np.zeros(count), np.zeros(count), np.zeros(count, int),
            np.zeros(layout.n_agents, bool), np.ones((layout.n_agents, layout.n_enemies), bool),
        )  # fmt: skip
        for first, army in ((0, env.agents), (layout.n_agents, env.enemies)):
            for slot, unit in army.items():
                number = first + slot
                units.alive[number] = unit.hp > 0
                units.place[number] = unit.pos
                units.health[number] = unit.hp / unit.max_hp
                units.shield[number] = unit.shield / unit.max_shield if unit.max_shield else 0.0
                if layout.type_bits:
                    units.bit[number] = self._info.unit_type_ids[unit.type]
        for slot, unit in env.agents.items():
            units.heals[slot] = unit.combat_type.name == "HEALING"
            for enemy, other in env.enemies.items():
                everybody = other.plane.name == "COLOSSUS"  # on the ground and in the air at once
                units.can_hit[slot, enemy] = everybody or other.plane in unit.valid_targets
        return units

    def close(self) -> None:
        self._env.close()
