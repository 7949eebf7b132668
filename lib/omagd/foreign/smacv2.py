"""SMACv2 (Ellis et al. 2023): battles of StarCraft II with other types and places in every episode.

`--map protoss_5_vs_6` and the like: the race, agents and enemies; `10gen_protoss` is 5 against 5. Shares of the types,
places and reaches are those of the configurations that SMACv2 gives as examples (`sc2_gen_*.yaml`): agents know their
own place, and sight and reach are those of each type.
"""

import random
import re
import threading
from typing import ClassVar

import numpy as np

from lib.errors import UserError
from lib.omagd.foreign.packages import find_package, find_starcraft
from lib.omagd.foreign.smac import SmacGame
from lib.seeds import derive, numpy_generator

TYPES = {
    "protoss": {"stalker": 0.45, "zealot": 0.45, "colossus": 0.1},
    "terran": {"marine": 0.45, "marauder": 0.45, "medivac": 0.1},
    "zerg": {"zergling": 0.45, "hydralisk": 0.45, "baneling": 0.1},
}
NEVER_ALONE = {"terran": ["medivac"], "zerg": ["baneling"]}
SIZE = 32  # of the ground, map units
GENERATED = re.compile(r"10gen_(protoss|terran|zerg)|(protoss|terran|zerg)_([1-9]\d?)_vs_([1-9]\d?)")


class Smacv2Game(SmacGame):
    """One StarCraft II process with teams and places drawn anew for every episode, by the seed of its `reset`."""

    name = "smacv2"
    arguments: ClassVar[dict[str, type]] = SmacGame.arguments | {"prob_obs_enemy": float, "action_mask": bool}

    @staticmethod
    def maps() -> list[str]:
        """Names of the grounds that teams are generated for."""
        registry = find_package("smacv2", "env.starcraft2.maps.smac_maps").get_smac_map_registry()
        return [name for name in registry if GENERATED.fullmatch(name)]

    def _make(self, map_name: str, seed: int, arguments: dict):
        module = find_package("smacv2", "env")
        match = GENERATED.fullmatch(map_name)
        if match is None:
            raise UserError(
                f"--map {map_name}: SMACv2 has {', '.join(self.maps())} (5 against 5) and names as protoss_5_vs_6,"
                " terran_10_vs_11, zerg_20_vs_20; the maps of SMAC are played by --env smac"
            )
        find_starcraft("smacv2")
        race, n_units, n_enemies = match[1] or match[2], int(match[3] or 5), int(match[4] or 5)
        env = module.StarCraftCapabilityEnvWrapper(
            capability_config=capabilities(race, n_units, n_enemies), map_name=f"10gen_{race}", seed=seed,
            conic_fov=False, obs_own_pos=True, use_unit_ranges=True, min_attack_range=2, **arguments,
        )  # fmt: skip
        drawn = env.env_key_to_distribution_map
        self._draws = [SeededDraw(key, distribution) for key, distribution in drawn.items()]
        drawn.update((draw.name, draw) for draw in self._draws)
        return env

    def _begin(self, seed: int) -> None:
        for draw in self._draws:
            draw.begin(seed)
        self._env.reset()  # returns nothing where it had to begin twice

    def _attackable(self, avail: np.ndarray) -> np.ndarray:
        """Without the mask (`action_mask=false`) every target is available, and observations still say who is near."""
        core = self._core
        return np.asarray([core.get_true_avail_agent_actions(agent) for agent in range(self.layout.n_agents)])


def capabilities(race: str, n_units: int, n_enemies: int) -> dict:
    """What SMACv2 calls capability_config."""
    team = {
        "dist_type": "weighted_teams",
        "unit_types": list(TYPES[race]),
        "weights": list(TYPES[race].values()),
        "observe": True,
    }
    if race in NEVER_ALONE:
        team["exception_unit_types"] = NEVER_ALONE[race]
    places = {"dist_type": "surrounded_and_reflect", "p": 0.5, "map_x": SIZE, "map_y": SIZE}
    return {"n_units": n_units, "n_enemies": n_enemies, "team_gen": team, "start_positions": places}


class SeededDraw:
    """A distribution of SMACv2 whose draws are a function of a seed; of itself it takes the system's entropy."""

    lock = threading.Lock()  # the generator of `random`, which orders the teams, is one for all threads

    def __init__(self, name: str, distribution):
        self.name, self.distribution = name, distribution
        self.begin(0)

    def begin(self, seed: int) -> None:
        """The draws of another battle follow."""
        self.seed, self.times = seed, 0

    def generate(self):
        # SMACv2 draws again where the units it asked for do not appear: then others are needed.
        names = ("draw", self.name, self.times)
        self.times += 1
        _seed_generators(self.distribution, self.seed, names)
        with self.lock:
            before = random.getstate()
            random.seed(derive(self.seed, *names))
            try:
                return self.distribution.generate()
            finally:
                random.setstate(before)

    def __getattr__(self, name: str):
        return getattr(self.distribution, name)


def _seed_generators(holder, seed: int, names: tuple) -> None:
    """Give `holder` and the distributions that it holds generators drawn by seed and names."""
    for key, value in list(vars(holder).items()):
        if isinstance(value, np.random.Generator):
            setattr(holder, key, numpy_generator(seed, *names, key))
        elif hasattr(value, "generate"):
            _seed_generators(value, seed, (*names, key))
