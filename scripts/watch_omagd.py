"""Watch a battle of a trained team or of a scripted player: a page for the browser, a file, or who died when.

In a browser:   python scripts/watch_omagd.py --player RUN/export --html battle.html
A script:       python scripts/watch_omagd.py --player focus --map 2s3z --html battle.html
In words:       python scripts/watch_omagd.py --player nearest --map 3m
Keep and show:  python scripts/watch_omagd.py --player RUN/export --battle 7 --json battle.json
                python scripts/watch_omagd.py --replay battle.json --html battle.html
"""

import sys
from dataclasses import dataclass

from lib import launch
from lib.args import option
from lib.checkpoint import load_export
from lib.errors import UserError
from lib.omagd.battle.players import PLAYERS
from lib.omagd.page import write_page
from lib.omagd.players import load_player
from lib.omagd.replay import DEFAULT_MAP, BattleReplay, load_replay, record_battle, save_replay

MOST_BATTLE = 2**31 - 2
PLAYER_HELP = f"RUN/export, or one of {', '.join(PLAYERS)}"


@dataclass
class Config:
    """What battle, and in what form."""

    player: str | None = option(None, f"who commands the allies: {PLAYER_HELP}", "battle")
    map: str | None = option(None, f"one of the maps of SMAC; default: the export's, else {DEFAULT_MAP}", "battle")
    sight: float | None = option(
        None, "how far agents see, in map units; default: the export's, else 9", "battle", above=0
    )
    seed: int | None = option(None, "the battle is a function of it; default 0", "battle", minimum=0)
    battle: int = option(
        0, "number of the battle among those of the seed, its global id", "battle", minimum=0, maximum=MOST_BATTLE
    )
    replay: str | None = option(None, "instead of --player: a battle that --json has saved", "battle")
    html: str | None = option(None, "write a page to watch the battle in a browser", "output")
    json: str | None = option(None, "write the battle in our own form, for --replay", "output")
    title: str | None = option(None, "heading of the page", "output")


def main(config: Config) -> None:
    if config.title is not None and not config.html:
        raise UserError("--title is the heading of the page: give --html FILE, too")
    replay = find_replay(config)
    written = []
    if config.html:
        written.append(write_page(replay, config.html, title=config.title or replay.title()))
    if config.json:
        save_replay(replay, config.json)
        written.append(config.json)
    print(replay.result_line() if written else replay.summary())
    for path in written:
        print(f"wrote {path}")


def find_replay(config: Config) -> BattleReplay:
    """The recorded battle that --replay names, or a new one of the player."""
    if config.replay:
        for name in ("player", "map", "sight", "seed", "battle"):
            if name in config.explicit:
                raise UserError(f"--replay shows a battle that was fought: drop --{name}, or drop --replay")
        return load_replay(config.replay)
    if config.player is None:
        raise UserError(f"--player is missing: give {PLAYER_HELP}, or --replay FILE")
    player = load_player(config.player, load_export)
    options = {} if config.sight is None else {"sight": config.sight}
    return record_battle(player, seed=config.seed or 0, number=config.battle, map_name=config.map, **options)


if __name__ == "__main__":
    sys.exit(launch.run(main, Config))
