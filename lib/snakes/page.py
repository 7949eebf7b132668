"""A game in the browser: one HTML page that needs no server and nothing from outside, or a block for another page.

The page's program lies in assets/*.js, in the order of SCRIPTS; what other pages have too is that of `lib.page`.
"""

import hashlib
import string
from pathlib import Path

from lib import page
from lib.files import to_json
from lib.snakes.replay import Replay

PACKAGE = "lib.snakes"
SCRIPTS = ("rules", "random", "policy", "board", "view", "watch", "play")
START_PLAY = "new Play(new View(host), data);"
START_WATCH = string.Template("new Watch(new View(host), unpackReplay(data), { keys: $keys });")


def write_page(
    replay: Replay | None, path: str | Path, *, title: str, network: dict | None = None, seed: int | None = None
) -> Path:
    """Write one self-contained page: the replay to watch, or with `replay` None a game to play.

    network: `page_network.pack_network` of the trained team that plays beside and against the person; without it the
    greedy script does. seed: number of the first game; default: a new one each time. Raises UserError on a full disk.
    """
    if replay is not None:
        assert network is None, "a page is for watching or for playing"
        body = replay_fragment(replay, keys="document")
    else:
        body = _play_fragment(title, network, seed)
    return page.write_page(path, title=title, body=body)


def replay_fragment(replay: Replay, *, keys: str = "host") -> str:
    """A block of HTML that shows `replay`, to be put into any page: style and script reach nothing outside of it.

    keys: the JavaScript element whose key presses steer; the block itself, once it has been clicked, by default.
    """
    return _fragment("watch", START_WATCH.substitute(keys=keys), replay.to_json())


def _play_fragment(title: str, network: dict | None, seed: int | None) -> str:
    weights = to_json(network)
    digest = hashlib.sha256(f"{title} {weights}".encode()).hexdigest()[:16]
    setup = {
        "network": network,
        "networkName": network["name"] if network else None,
        "seed": seed,
        "chosen": 0,
        "storageKey": f"quartet-snakes-{digest}",
    }
    return _fragment("play", START_PLAY, setup)


def _fragment(mode: str, start: str, data: dict) -> str:
    controls = page.controls(page.asset("buttons.html", PACKAGE))
    return page.fragment(
        "quartet-snakes",
        mode=mode,
        style=page.asset("view.css", PACKAGE),
        markup=string.Template(page.asset("view.html", PACKAGE)).substitute(controls=controls),
        data=data,
        program=page.scripts(SCRIPTS, PACKAGE),
        start=start,
    )


def program() -> str:
    """The page's JavaScript, one file after the other, without the page around it."""
    return f"{page.scripts(page.SCRIPTS)}\n{page.scripts(SCRIPTS, PACKAGE)}"
