"""A battle in the browser: one HTML page that needs no server and nothing from outside, or a block for another page.

The page's program lies in assets/*.js, in the order of SCRIPTS; what other pages have too is that of `lib.page`.
"""

import string
from pathlib import Path

from lib import page
from lib.omagd.battle.maps import MAPS
from lib.omagd.battle.terrain import walkable
from lib.omagd.battle.units import UnitType
from lib.omagd.replay import BattleReplay, type_name

PACKAGE = "lib.omagd"
SCRIPTS = ("battle", "ground", "units", "roster", "watch")
START = string.Template("new WatchBattle(new Frame(host), new Battle(data), $keys);")

# One letter a type, no two alike: the first where it is free, else another of the name.
LETTERS = {
    "marine": "M",
    "marauder": "R",
    "medivac": "V",
    "stalker": "S",
    "zealot": "Z",
    "colossus": "C",
    "zergling": "G",
    "baneling": "B",
    "hydralisk": "H",
    "spine_crawler": "P",
}


def write_page(replay: BattleReplay, path: str | Path, *, title: str) -> Path:
    """Write one self-contained page that shows `replay`; `title` is text. Raises UserError on a full disk."""
    return page.write_page(path, title=title, body=replay_fragment(replay, keys="document"))


def replay_fragment(replay: BattleReplay, *, keys: str = "host") -> str:
    """A block of HTML that shows `replay`, to be put into any page: style and script reach nothing outside of it.

    keys: the JavaScript element whose key presses steer; the block itself, once it has been clicked, by default.
    """
    return page.fragment(
        "quartet-battle",
        style=page.asset("view.css", PACKAGE),
        markup=string.Template(page.asset("view.html", PACKAGE)).substitute(controls=page.controls()),
        data=scene(replay),
        program=page.scripts(SCRIPTS, PACKAGE),
        start=START.substitute(keys=keys),
    )


def scene(replay: BattleReplay) -> dict:
    """What the page is told: the replay, its ground, and what the map says of its units."""
    battle_map = MAPS[replay.map]
    types = list(dict.fromkeys(battle_map.units))
    ground = ["".join("1" if free else "0" for free in row) for row in walkable(battle_map.terrain)]
    return {
        **replay.to_json(),
        "seed": str(replay.seed),  # JavaScript knows whole numbers up to 2^53 only
        "outcome": replay.outcome(),
        "title": replay.title(),
        "agents": battle_map.n_agents,
        "ground": ground,
        "types": [_described(each) for each in types],
        "units": [types.index(each) for each in battle_map.units],
    }


def _described(unit: UnitType) -> dict:
    return {
        "name": type_name(unit.name),
        "letter": LETTERS[unit.name],
        "radius": unit.radius,
        "health": unit.health,
        "shield": unit.shield,
        "reach": unit.range + unit.radius,
        "heals": unit.heals,
        "flies": unit.flies,
    }
