"""The numbers of a map's units as Warp constants: compiled into its kernels, sizes and all."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import warp as wp

from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import BattleMap
from lib.omagd.battle.rules import LOOPS_PER_S
from lib.omagd.battle.terrain import WALLED, largest_rectangle, row_bits

LANES = 8  # numbers of units come in whole vectors of a processor; the last ones may be of nobody, with health 0
ATTRIBUTES = {"": 0, "light": 1, "armoured": 2}


def unit_tables(battle_map: BattleMap) -> SimpleNamespace:
    """Vector types (`floats`, `ints`: of all units, `agent_floats`: of the allies) and functions of a unit's number.

    Where all units of a map agree, the function is a constant to the compiler.
    """
    units, count = battle_map.units, battle_map.n_units
    types = battle_map.type_names
    lanes = LANES * math.ceil(count / LANES)
    floats = wp.types.vector(length=lanes, dtype=float)
    ints = wp.types.vector(length=lanes, dtype=int)
    nobody = [0] * (lanes - count)

    def numbers(values: Sequence[float]) -> Callable:
        return _table([float(value) for value in values], float)

    def flags(values: Sequence[int]) -> Callable:
        return _table([int(value) for value in values], int)

    def places(values: Sequence[float]) -> Callable:
        table = wp.constant(floats(*values, *nobody))

        @wp.func
        def look_up(unit: int) -> float:
            numbers = table
            return numbers[unit]

        return look_up

    return SimpleNamespace(
        count=count,
        lanes=lanes,
        n_agents=battle_map.n_agents,
        n_enemies=battle_map.n_enemies,
        layout=Layout.of(battle_map),
        floats=floats,
        ints=ints,
        agent_floats=wp.types.vector(length=battle_map.n_agents, dtype=float),
        max_health=numbers([unit.health for unit in units]),
        max_shield=numbers([unit.shield for unit in units]),
        armour=numbers([unit.armour for unit in units]),
        damage=numbers([unit.damage for unit in units]),
        bonus=numbers([unit.bonus for unit in units]),
        bonus_against=flags([ATTRIBUTES[unit.bonus_against] if unit.bonus else -1 for unit in units]),
        attribute=flags([ATTRIBUTES[unit.attribute] for unit in units]),
        attacks=flags([unit.attacks for unit in units]),
        cooldown_s=numbers([unit.cooldown_s for unit in units]),
        reach=numbers([unit.range + unit.radius for unit in units]),  # to the edge of the target
        looks=numbers([unit.looks for unit in units]),
        speed=numbers([unit.speed for unit in units]),
        radius=numbers([unit.radius for unit in units]),
        regeneration=numbers([unit.regeneration for unit in units]),
        flies=flags([unit.flies for unit in units]),
        hits_air=flags([unit.hits_air for unit in units]),
        heals=flags([unit.heals for unit in units]),
        explodes=flags([unit.explodes for unit in units]),
        splashes=flags([unit.splashes for unit in units]),
        # 1 / what SMAC divides by; a healer tells its energy in that place.
        told_cooldown=numbers([1 / 200 if unit.heals else LOOPS_PER_S / unit.max_cooldown for unit in units]),
        type_bit=flags([types.index(unit.name) if types else 0 for unit in units]),
        spawn_x=places([place[0] for place in battle_map.spawns]),
        spawn_y=places([place[1] for place in battle_map.spawns]),
        attack_point=tuple(float(value) for value in battle_map.attack_point),
        rows=wp.constant(wp.types.vector(length=32, dtype=int)(*row_bits(battle_map.terrain))),
        radii=wp.constant(floats(*[unit.radius for unit in units], *nobody)),
        layers=wp.constant(ints(*[int(unit.flies) for unit in units], *nobody)),
        most_attacks=max(unit.attacks for unit in units),
        widest=max(unit.radius for unit in units),
        farthest_look=max(unit.looks for unit in units[battle_map.n_agents :]),
        open_ground=largest_rectangle(battle_map.terrain),
        has_walls=battle_map.terrain in WALLED,
        has_healers=any(unit.heals for unit in units),
        allies_heal=any(unit.heals for unit in units[: battle_map.n_agents]),
        enemies_heal=any(unit.heals for unit in units[battle_map.n_agents :]),
        has_shields=any(unit.shield for unit in units),
        has_splash=any(unit.splashes for unit in units),
        has_blasts=any(unit.explodes for unit in units),
        has_regeneration=any(unit.regeneration for unit in units),
        has_immovable=any(unit.speed == 0 for unit in units),
        greatest=sum(unit.health + unit.shield for unit in units[battle_map.n_agents :]),
    )


RUNS = 6  # of equal values among a map's units, at most: three types in each army


def _table(values: Sequence, kind: type) -> Callable:
    """A Warp function from a unit's number to its value.

    Units of a type are neighbours, so a few comparisons find the value; a table in memory takes several times as long.
    """
    starts = [k for k in range(len(values)) if k == 0 or values[k] != values[k - 1]]
    assert len(starts) <= RUNS, f"{len(starts)} runs of types"
    v0, v1, v2, v3, v4, v5 = (wp.constant(kind(values[k])) for k in [*starts, *[starts[-1]] * (RUNS - len(starts))])
    b1, b2, b3, b4, b5 = [*starts[1:], *[starts[-1]] * (RUNS - len(starts))]
    if len(starts) == 1:

        @wp.func
        def look_up(unit: int) -> kind:
            return v0

    elif len(starts) == 2:

        @wp.func
        def look_up(unit: int) -> kind:
            return wp.where(unit < b1, v0, v1)

    elif len(starts) <= 4:

        @wp.func
        def look_up(unit: int) -> kind:
            return wp.where(unit < b2, wp.where(unit < b1, v0, v1), wp.where(unit < b3, v2, v3))

    else:

        @wp.func
        def look_up(unit: int) -> kind:
            low = wp.where(unit < b2, wp.where(unit < b1, v0, v1), v2)
            return wp.where(unit < b3, low, wp.where(unit < b4, v3, wp.where(unit < b5, v4, v5)))

    return look_up
