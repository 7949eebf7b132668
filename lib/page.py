"""Pages for the browser: HTML that needs no server and nothing from outside, and blocks of it for other pages.

What all of them share lies in assets/: the page around a block, the frame of its parts, the clock that moves it, the
buttons, keys and chart by which a recording is watched.
"""

import html
import string
from functools import cache
from importlib import resources
from pathlib import Path

from lib.files import atomic_write_text, to_json

# In this order: what comes later extends what came before.
SCRIPTS = ("frame", "watching", "chart")

# The host element is the one that the script stands in; its data stand beside as JSON, which nothing can run.
FRAGMENT = string.Template("""<div class="$name" data-mode="$mode">
<template><style>$style</style>$markup</template>
<noscript>This is drawn by JavaScript, which is switched off here.</noscript>
<script type="application/json">$data</script>
<script>(() => {
"use strict";
const host = document.currentScript.parentElement;
const data = JSON.parse(host.querySelector('script[type="application/json"]').textContent);
$program
$start
})();</script>
</div>""")


def write_page(path: str | Path, *, title: str, body: str) -> Path:
    """Write one self-contained page around `body`, which is HTML; `title` is text. Raises UserError on a full disk."""
    page = string.Template(asset("page.html")).substitute(title=html.escape(title), body=body)
    atomic_write_text(path, page)
    return Path(path)


def fragment(name: str, *, style: str, markup: str, program: str, start: str, data: object, mode: str = "watch") -> str:
    """A block of HTML, to be put into any page: style and script reach nothing outside of it.

    name: class of its element, mode: its data-mode. markup: HTML with elements that have a data-part (see frame.js),
    style: its CSS after the shared one. program: JavaScript after the shared one; start: the statement that uses it,
    with `host`, the element, and `data`, which is any value that has a JSON form.
    """
    return FRAGMENT.substitute(
        name=name, mode=mode, style=f"{asset('controls.css')}{style}", markup=markup, data=script_json(data),
        program=f"{scripts(SCRIPTS)}\n{program}", start=start,
    )  # fmt: skip


def controls(further: str = "") -> str:
    """Markup of the timeline and the buttons; `further` is HTML that stands among the buttons."""
    return string.Template(asset("controls.html")).substitute(further=further)


def scripts(names: tuple[str, ...], package: str = "lib") -> str:
    """JavaScript files of a package's assets, one after the other."""
    return "\n".join(asset(f"{name}.js", package) for name in names)


def script_json(value: object) -> str:
    """JSON that may stand inside a <script> element: no text in it can end the element."""
    return to_json(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def asset(name: str, package: str = "lib") -> str:
    """Text of a file in the folder assets of a package."""
    return resources.files(package).joinpath("assets", name).read_text(encoding="utf-8")
