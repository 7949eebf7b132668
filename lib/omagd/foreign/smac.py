"""SMAC (Samvelyan et al. 2019): battles of StarCraft II behind `smac.env.StarCraft2Env`, by its public methods."""

import contextlib
from typing import ClassVar

import numpy as np

from lib.omagd.battle.layout import FIRST_ATTACK, Layout
from lib.omagd.foreign.game import Game, GameCrashed, GameMap, Reading, Units
from lib.omagd.foreign.packages import find_package, find_starcraft, unknown_map

MEDIVAC = 54  # StarCraft II's number of the type, which SMAC's enemies have
HEALING_MAPS = ("MMM", "terran_gen")


class SmacGame(Game):
    """One StarCraft II process, whose random numbers follow the seed it starts with: that of `reset` has no effect."""

    name = "smac"
    waits = True
    arguments: ClassVar[dict[str, type]] = {"difficulty": str, "game_version": str}

    def __init__(self, map_name: str, seed: int = 0, **arguments):
        self._env = self._make(map_name, seed, arguments)
        self._core = getattr(self._env, "env", self._env)  # SMACv2 wraps
        limit = int(self._core.episode_limit)
        self.map = GameMap(map_name, limit)
        self.layout = Layout.of_env_info(self._described())

    @staticmethod
    def maps() -> list[str]:
        """Names of all maps."""
        return list(find_package("smac", "env.starcraft2.maps.smac_maps").get_smac_map_registry())

    def _make(self, map_name: str, seed: int, arguments: dict):
        module = find_package("smac", "env")
        if map_name not in self.maps():
            raise unknown_map("smac", map_name, self.maps())
        find_starcraft("smac")
        return module.StarCraft2Env(map_name=map_name, seed=seed, **arguments)

    def _described(self) -> dict:
        core = self._core
        return self._env.get_env_info() | {
            "n_enemies": core.n_enemies,
            "type_bits": core.unit_type_bits,
            "ally_shield": core.shield_bits_ally,
            "enemy_shield": core.shield_bits_enemy,
            "own_more": 2 * bool(getattr(core, "obs_own_pos", False)),
        }

    def env_info(self) -> dict:
        return self.layout.env_info(self.map, self._core.map_type)

    def _begin(self, seed: int) -> None:
        self._env.reset()

    def _act(self, actions: list[int]) -> tuple[float, bool, bool]:
        reward, done, info = self._env.step(actions)
        if done and "battle_won" not in info:
            # So SMAC says that the connection to StarCraft II was lost; units and observations are old ones.
            raise GameCrashed("StarCraft II has ended, or does not answer")
        return reward, done, bool(info["battle_won"])

    def _read(self) -> Reading:
        env, layout = self._env, self.layout
        avail = np.asarray(env.get_avail_actions(), dtype=np.uint8)
        return Reading(
            obs=np.stack(env.get_obs()).astype(np.float32),
            state=np.asarray(env.get_state(), dtype=np.float32),
            avail=avail,
            attackable=self._attackable(avail)[:, FIRST_ATTACK : FIRST_ATTACK + layout.n_enemies],
            sight=np.array([self._core.unit_sight_range(agent) for agent in range(layout.n_agents)], dtype=float),
            units=self._units(),
        )

    def _attackable(self, avail: np.ndarray) -> np.ndarray:
        """(A, C): whom the agents can reach."""
        return avail

    def _units(self) -> Units:
        core, layout = self._core, self.layout
        allies = [core.agents[number] for number in range(layout.n_agents)]
        enemies = [core.enemies[number] for number in range(layout.n_enemies)]
        both = [(unit, True) for unit in allies] + [(unit, False) for unit in enemies]
        shields = (layout.enemy_shield, layout.ally_shield)
        heals = core.map_type in HEALING_MAPS
        marauder = getattr(core, "marauder_id", 0) if heals else None
        flies = np.array([unit.unit_type == MEDIVAC for unit in enemies])
        return Units(
            alive=np.array([unit.health > 0 for unit, _ in both]),
            place=np.array([(unit.pos.x, unit.pos.y) for unit, _ in both], dtype=float),
            health=np.array([unit.health / unit.health_max for unit, _ in both]),
            shield=np.array([
                unit.shield / core.unit_max_shield(unit) if shields[ally] and unit.health > 0 else 0.0
                for unit, ally in both
            ]),
            bit=np.array([
                core.get_unit_type_id(unit, ally) if layout.type_bits and unit.health > 0 else 0 for unit, ally in both
            ]),
            heals=np.array([heals and unit.unit_type == core.medivac_id for unit in allies]),
            can_hit=np.array([~flies if unit.unit_type == marauder else np.ones_like(flies) for unit in allies]),
        )  # fmt: skip

    def close(self) -> None:
        # A process that is gone already cannot be ended; nothing else is held.
        with contextlib.suppress(Exception):
            self._env.close()
