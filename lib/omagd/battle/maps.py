"""The maps: who fights whom, where, and for how long. Names, armies and limits are SMAC's, the grounds SMAClite's."""

import difflib
import math
from dataclasses import dataclass, field

from lib.errors import UserError
from lib.omagd.battle.terrain import WIDTH, walkable
from lib.omagd.battle.units import TYPE_ORDER, UNITS, UnitType

GAP = 0.05  # between neighbours of a spawn grid
SIMPLE_ALLIES, SIMPLE_ENEMIES = (9.0, 16.0), (23.0, 16.0)


@dataclass(frozen=True)
class Group:
    """Units that start together as a square grid around `centre`; `counts` by type, in the order of the army."""

    counts: tuple[tuple[str, int], ...]
    centre: tuple[float, float]


@dataclass(frozen=True)
class BattleMap:
    """Two armies on a ground. `limit` is in steps; the enemies' orders are to attack towards `attack_point`."""

    name: str
    limit: int
    allies: tuple[Group, ...]
    enemies: tuple[Group, ...]
    terrain: str = "simple"
    attack_point: tuple[float, float] = SIMPLE_ALLIES
    units: tuple[UnitType, ...] = field(init=False, compare=False)  # allies, then enemies
    n_agents: int = field(init=False, compare=False)
    spawns: tuple[tuple[float, float], ...] = field(init=False, compare=False)  # of each unit, without jitter

    def __post_init__(self):
        armies = [_army(self.allies, mirrored=False), _army(self.enemies, mirrored=True)]
        both = [*armies[0], *armies[1]]
        object.__setattr__(self, "units", tuple(UNITS[name] for name, _ in both))
        object.__setattr__(self, "spawns", tuple(place for _, place in both))
        object.__setattr__(self, "n_agents", len(armies[0]))

    @property
    def n_enemies(self) -> int:
        return len(self.units) - self.n_agents

    @property
    def n_units(self) -> int:
        return len(self.units)

    @property
    def type_names(self) -> tuple[str, ...]:
        """The types that the type bits tell apart, in the order of the bits; none where each army has one type."""
        armies = ({u.name for u in self.units[: self.n_agents]}, {u.name for u in self.units[self.n_agents :]})
        if all(len(types) == 1 for types in armies):
            return ()
        return tuple(name for name in TYPE_ORDER if name in armies[0] | armies[1])


def _army(groups: tuple[Group, ...], mirrored: bool) -> list[tuple[str, tuple[float, float]]]:
    """(type, place) of every unit, types in the order of TYPE_ORDER, within a type group by group."""
    placed = []
    for group in groups:
        names = sorted((name for name, count in group.counts for _ in range(count)), key=TYPE_ORDER.index)
        placed += list(zip(names, _grid(names, group.centre, mirrored), strict=True))
    return sorted(placed, key=lambda each: TYPE_ORDER.index(each[0]))


def _grid(names: list[str], centre: tuple[float, float], mirrored: bool) -> list[tuple[float, float]]:
    """Places of a square grid, row by row from its lower left corner; the enemies' is mirrored at its centre."""
    side = math.ceil(math.sqrt(len(names)))
    rows = math.ceil(len(names) / side)
    pitch = 2 * max(UNITS[name].radius for name in names) + GAP
    sign = -1.0 if mirrored else 1.0
    return [
        (
            centre[0] + sign * pitch * (k % side - (side - 1) / 2),
            centre[1] + sign * pitch * (k // side - (rows - 1) / 2),
        )
        for k in range(len(names))
    ]


def _army_of(text: str, centre: tuple[float, float]) -> tuple[Group, ...]:
    """A group from words as "2 stalker 3 zealot"."""
    words = text.split()
    return (Group(tuple((name, int(count)) for count, name in zip(words[::2], words[1::2], strict=True)), centre),)


def _simple(name: str, limit: int, allies: str, enemies: str, terrain: str = "simple") -> BattleMap:
    return BattleMap(name, limit, _army_of(allies, SIMPLE_ALLIES), _army_of(enemies, SIMPLE_ENEMIES), terrain)


_MAPS = (
    _simple("3m", 60, "3 marine", "3 marine"),
    _simple("8m", 120, "8 marine", "8 marine"),
    _simple("25m", 150, "25 marine", "25 marine"),
    _simple("5m_vs_6m", 70, "5 marine", "6 marine"),
    _simple("8m_vs_9m", 120, "8 marine", "9 marine"),
    _simple("10m_vs_11m", 150, "10 marine", "11 marine"),
    _simple("27m_vs_30m", 180, "27 marine", "30 marine"),
    _simple("MMM", 150, "1 medivac 2 marauder 7 marine", "1 medivac 2 marauder 7 marine"),
    _simple("MMM2", 180, "1 medivac 2 marauder 7 marine", "1 medivac 3 marauder 8 marine"),
    _simple("2s3z", 120, "2 stalker 3 zealot", "2 stalker 3 zealot"),
    _simple("3s5z", 150, "3 stalker 5 zealot", "3 stalker 5 zealot"),
    _simple("3s5z_vs_3s6z", 170, "3 stalker 5 zealot", "3 stalker 6 zealot"),
    _simple("3s_vs_3z", 150, "3 stalker", "3 zealot", "open"),
    _simple("3s_vs_4z", 200, "3 stalker", "4 zealot", "open"),
    _simple("3s_vs_5z", 250, "3 stalker", "5 zealot", "open"),
    _simple("1c3s5z", 180, "1 colossus 3 stalker 5 zealot", "1 colossus 3 stalker 5 zealot"),
    _simple("2m_vs_1z", 150, "2 marine", "1 zealot"),
    BattleMap(
        "2s_vs_1sc", 300,
        _army_of("1 stalker", (11.12, 10.34)) + _army_of("1 stalker", (16.98, 10.37)),
        _army_of("1 spine_crawler", (13.92, 20.04)), "pentagon", (13.92, 20.04),
    ),
    _simple("6h_vs_8z", 150, "6 hydralisk", "8 zealot"),
    BattleMap(
        "corridor", 400, _army_of("6 zealot", (19.04, 19.12)), _army_of("24 zergling", (27.91, 28.24)), "corridor",
        (4.47, 4.33),
    ),
    BattleMap(
        "2c_vs_64zg", 400, _army_of("2 colossus", (16.0, 16.0)), _army_of("64 zergling", (16.0, 9.0)), "ravine",
        (16.0, 16.0),
    ),
    BattleMap(
        "bane_vs_bane", 200,
        _army_of("20 zergling", (16.0, 11.0)) + _army_of("4 baneling", (16.0, 8.0)),
        _army_of("20 zergling", (16.0, 21.0)) + _army_of("4 baneling", (16.0, 24.0)), "octagon", (16.0, 8.0),
    ),
    _simple("so_many_baneling", 100, "7 zealot", "32 baneling"),
)  # fmt: skip
MAPS = {battle_map.name: battle_map for battle_map in _MAPS}


def find_map(name: str) -> BattleMap:
    """The map of this name; UserError names the nearest and all others."""
    if name not in MAPS:
        close = difflib.get_close_matches(name, MAPS, n=1, cutoff=0.0)[0]
        raise UserError(f"--map {name}: there is no such map, did you mean {close}? There are {', '.join(MAPS)}")
    return MAPS[name]


def off_ground(battle_map: BattleMap) -> list[int]:
    """Units whose spawn, without jitter, is not on walkable ground; there should be none."""
    cells = walkable(battle_map.terrain)
    wrong = []
    for unit, (x, y) in enumerate(battle_map.spawns):
        inside = 0 <= x < WIDTH and 0 <= y < len(cells)
        if not battle_map.units[unit].flies and not (inside and cells[int(y)][int(x)]):
            wrong.append(unit)
    return wrong
