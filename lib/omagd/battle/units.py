"""The unit types: their numbers are those that SMAClite gives for StarCraft II, the hydralisk's those of SMAX.

Lengths are in map units, times in seconds, speeds in map units a second.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class UnitType:
    """One kind of unit. `max_cooldown` is SMAC's divisor for the cooldown that the state tells, in game loops."""

    name: str
    race: str
    health: float
    shield: float = 0.0
    armour: float = 0.0
    damage: float = 0.0
    bonus: float = 0.0  # more damage against `bonus_against`
    bonus_against: str = ""
    attacks: int = 1  # in one shot; each pays armour
    cooldown_s: float = 0.0
    range: float = 0.0
    speed: float = 3.15
    radius: float = 0.375
    attribute: str = ""  # "light", "armoured" or neither
    flies: bool = False
    hits_air: bool = False
    heals: bool = False
    explodes: bool = False
    splashes: bool = False
    regeneration: float = 0.0  # health a second
    scan: float = 5.0  # at least; how far the enemy script looks, with its range if that is more
    max_cooldown: float = 15.0

    @property
    def looks(self) -> float:
        """How far the enemy script looks for targets, to their edge."""
        return max(self.scan, self.range)


_TYPES = (
    UnitType(
        "marine", "terran", 45, damage=6, cooldown_s=0.61, range=5, radius=0.375, attribute="light", hits_air=True,
        max_cooldown=15,
    ),
    UnitType(
        "marauder", "terran", 125, armour=1, damage=10, bonus=10, bonus_against="armoured", cooldown_s=1.07, range=6,
        radius=0.5625, attribute="armoured", max_cooldown=25,
    ),
    UnitType(
        "medivac", "terran", 150, armour=1, range=4, speed=3.5, radius=0.75, attribute="armoured", flies=True,
        heals=True,
    ),
    UnitType(
        "stalker", "protoss", 80, 80, armour=1, damage=13, bonus=5, bonus_against="armoured", cooldown_s=1.34, range=6,
        speed=4.13, radius=0.625, attribute="armoured", hits_air=True, max_cooldown=35,
    ),
    UnitType(
        "zealot", "protoss", 100, 50, armour=1, damage=8, attacks=2, cooldown_s=0.86, range=0.1, radius=0.5,
        attribute="light", max_cooldown=22,
    ),
    UnitType(
        "colossus", "protoss", 200, 150, armour=1, damage=10, bonus=5, bonus_against="light", attacks=2,
        cooldown_s=1.07, range=7, radius=1.0, attribute="armoured", splashes=True, max_cooldown=24,
    ),
    UnitType(
        "zergling", "zerg", 35, damage=5, cooldown_s=0.497, range=0.1, speed=4.13, radius=0.375, attribute="light",
        regeneration=0.38, max_cooldown=11,
    ),
    UnitType(
        "baneling", "zerg", 30, damage=80, cooldown_s=1.0, range=0.25, radius=0.375, explodes=True, regeneration=0.38,
        max_cooldown=1,
    ),
    UnitType(
        "hydralisk", "zerg", 80, damage=12, cooldown_s=0.59, range=5, radius=0.625, hits_air=True, max_cooldown=10,
    ),
    UnitType(
        "spine_crawler", "zerg", 300, armour=2, damage=25, bonus=5, bonus_against="armoured", cooldown_s=1.32, range=7,
        speed=0.0, radius=0.5, attribute="armoured", regeneration=0.38, scan=10.0, max_cooldown=15,
    ),
)  # fmt: skip
UNITS = {unit.name: unit for unit in _TYPES}

# The order of types within an army, which is SMAC's: its agents are sorted by the numbers of their types.
TYPE_ORDER = (
    "marauder", "marine", "medivac", "colossus", "stalker", "zealot", "baneling", "zergling", "hydralisk",
    "spine_crawler",
)  # fmt: skip
