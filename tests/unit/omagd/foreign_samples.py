"""What several tests of the games of others use."""

import json
import sys

from fake_failures import made

from lib.args import parse
from lib.omagd.foreign.choose import start_game
from lib.omagd.options import ALIASES, OmagdOptions, check_buffers, check_options

MAPS = {
    "smac": ("3m", "2s3z", "MMM"),
    "smacv2": ("protoss_5_vs_5", "terran_4_vs_3", "10gen_protoss"),
    "smaclite": ("2s3z", "MMM"),
}
EVERY_MAP = [(env, name) for env, names in MAPS.items() for name in names]


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in MAPS]:
        del sys.modules[name]


def options(words: str) -> OmagdOptions:
    return parse(OmagdOptions, words.split(), ALIASES)


def checked(words: str) -> list[str]:
    """The notes on a configuration, as the trainer makes them before anything is written."""
    config = options(words)
    notes = check_options(config)
    check_buffers(config)
    return notes


def fails(games, **steps) -> None:
    """Which game that is made from now on fails, and when: game_1=(5, "raise")."""
    made[0] = 0
    games.setenv("FAKE_GAME_FAILS", json.dumps({name.removeprefix("game_"): step for name, step in steps.items()}))


def begun(env: str, name: str, **places):
    """A game with units put at places by hand: ally_0=(x, y, health)."""
    game = start_game(env, name, 1, {})
    game.reset(5)
    core = getattr(game._env, "env", game._env)
    for key, (x, y, health) in places.items():
        army, number = (core.agents if key.startswith("ally") else core.enemies), int(key[-1])
        unit = army[number]
        if env == "smaclite":
            unit.pos[:], unit.hp = (x, y), health
            if not health:
                del army[number]
        else:
            unit.pos.x, unit.pos.y, unit.health = x, y, health
    getattr(core, "seen", set()).clear()
    game._look()
    return game
