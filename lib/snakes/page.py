"""A game in the browser: one HTML page that needs no server and nothing from outside, or a block for another page.

The page's program lies in assets/*.js, in the order of SCRIPTS; this module puts program, style and data together.
"""

import hashlib
import html
import string
from functools import cache
from importlib import resources
from pathlib import Path

from lib.files import atomic_write_text, to_json
from lib.snakes.replay import Replay

SCRIPTS = ("rules", "random", "policy", "board", "view", "watch", "play")

# The host element is the one that the script stands in; its data stand beside as JSON, which nothing can run.
FRAGMENT = string.Template("""<div class="quartet-snakes" data-mode="$mode">
<template><style>$style</style>$markup</template>
<noscript>The game is drawn by JavaScript, which is switched off here.</noscript>
<script type="application/json">$data</script>
<script>(() => {
"use strict";
const host = document.currentScript.parentElement;
const data = JSON.parse(host.querySelector('script[type="application/json"]').textContent);
$program
const view = new View(host);
$start
})();</script>
</div>""")

START_PLAY = "new Play(view, data);"
START_WATCH = "new Watch(view, unpackReplay(data), { keys: $keys });"


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
    page = string.Template(asset("page.html")).substitute(title=html.escape(title), body=body)
    atomic_write_text(path, page)
    return Path(path)


def replay_fragment(replay: Replay, *, keys: str = "host") -> str:
    """A block of HTML that shows `replay`, to be put into any page: style and script reach nothing outside of it.

    keys: the JavaScript element whose key presses steer; the block itself, once it has been clicked, by default.
    """
    start = string.Template(START_WATCH).substitute(keys=keys)
    return _fragment("watch", start, replay.to_json())


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
    return FRAGMENT.substitute(
        mode=mode,
        style=asset("view.css"),
        markup=asset("view.html"),
        data=script_json(data),
        program=program(),
        start=start,
    )


def program(names: tuple[str, ...] = SCRIPTS) -> str:
    """The page's JavaScript, one file after the other."""
    return "\n".join(asset(f"{name}.js") for name in names)


def script_json(value: object) -> str:
    """JSON that may stand inside a <script> element: no text in it can end the element."""
    return to_json(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def asset(name: str) -> str:
    """Text of a file in lib/snakes/assets."""
    return resources.files("lib.snakes").joinpath("assets", name).read_text(encoding="utf-8")
