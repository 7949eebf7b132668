"""The page to watch a game, in a real browser, opened from a file."""

import pytest

pytest.importorskip("warp")
import devtools
from watch_samples import bots_replay

from lib.snakes.page import replay_fragment, write_page

ROOT = "document.querySelector('.quartet-snakes').shadowRoot"


def part(name: str) -> str:
    return f"{ROOT}.querySelector('[data-part={name}]')"


needs_chromium = pytest.mark.skipif(devtools.find_chromium() is None, reason="no Chromium on the path")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with devtools.browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    # A name that a link must escape: spaces, hash, percent, quotes, umlaut.
    path = tmp_path_factory.mktemp("pages") / "a game #1 100% 'ü' ?.html"
    return write_page(bots_replay(), path, title="greedy & <random>")


def test_the_page_asks_for_nothing_outside(page_path):
    text = page_path.read_text(encoding="utf-8")
    assert devtools.asks_for_nothing_outside(text) and "<title>greedy &amp; &lt;random&gt;</title>" in text
    assert len(text) < 200_000


@needs_chromium
def test_watching(browser, page_path):
    replay = bots_replay()
    page = browser.open(page_path.as_uri())
    assert page.evaluate(f"{part('rightName')}.textContent") == "random <b>&amp;</b>"
    for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0), ("ArrowLeft", 0)):
        page.press(key)
        assert shown_step(page) == step, key
    assert page.evaluate("scrollY") == 0
    for step in (1, 57, replay.steps):
        page.evaluate(
            f"(() => {{ const s = {part('scrubber')}; s.value = {step}; s.dispatchEvent(new Event('input')); }})()"
        )
        left, right = replay.team_scores(step)
        assert [page.evaluate(f"Number({part(side)}.textContent)") for side in ("leftScore", "rightScore")] == [
            left,
            right,
        ]
        chips = page.evaluate(f"[...{part('snakes')}.querySelectorAll('span')].map((chip) => chip.textContent)")
        lengths = [len(body) for body in replay.states[step].snakes]
        counts = replay.death_counts(step)
        assert chips == [
            f"{length} long\n{count} {'death' if count == 1 else 'deaths'}" for length, count in zip(lengths, counts)
        ]
    assert replay.result_line() in page.evaluate(f"{part('clock')}.textContent")
    page.press("End")
    assert shown_step(page) == replay.steps
    assert page.problems() == []


@needs_chromium
def test_playing_back_and_speed(browser, page_path):
    page = browser.open(page_path.as_uri(), prefers_color_scheme="dark")
    page.press("+")
    assert page.evaluate(f"{part('speed')}.value") == "11"
    page.evaluate(f"{part('speed')}.value = 30")
    page.press(" ")
    page.wait("Number(document.querySelector('.quartet-snakes').dataset.step) >= 5")
    page.press(" ")
    stopped = shown_step(page)
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 150))")
    assert shown_step(page) == stopped
    assert page.evaluate(f"{ROOT}.querySelectorAll('[data-do=forward]').length") == 1
    page.evaluate(f"{ROOT}.querySelector('[data-do=forward]').click()")
    assert shown_step(page) == stopped + 1
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert page.problems() == []


@needs_chromium
def test_the_board_is_drawn(browser, page_path):
    """The head of snake 0 and the head of snake 3 have their colours where the state says that they are."""
    replay = bots_replay()
    page = browser.open(page_path.as_uri())
    for snake in (0, 3):
        row, column = divmod(replay.states[0].snakes[snake][0], 20)
        # Between the number on the head and its rim.
        x, y = (column + 1 + 0.5 - 0.32) / 22, (row + 1 + 0.5) / 12
        script = f"""(() => {{ const b = {part("board")}; const c = b.getContext('2d');
            return Array.from(c.getImageData({x} * b.width, {y} * b.height, 1, 1).data.slice(0, 3)); }})()"""
        wanted = {0: [10, 79, 138], 3: [166, 63, 0]}[snake]
        assert page.evaluate(script) == wanted


@needs_chromium
def test_two_fragments_inside_another_page(browser, tmp_path):
    """As in report.html: the block leaves the page's own style and keys alone, and two blocks do not meet."""
    blocks = replay_fragment(bots_replay()) + replay_fragment(bots_replay(3))
    path = tmp_path / "report.html"
    style = "canvas, button { display: none } .board { width: 5px } div { color: red }"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><style>{style}</style><p>before</p>{blocks}<div id=own>after</div>"
    )
    page = browser.open(path.as_uri())
    page.press("ArrowRight")
    steps = "[...document.querySelectorAll('.quartet-snakes')].map((block) => block.dataset.step)"
    assert page.evaluate(steps) == ["0", "0"]
    page.evaluate("document.querySelectorAll('.quartet-snakes')[1].shadowRoot.querySelector('.view').focus()")
    page.press("ArrowRight")
    assert page.evaluate(steps) == ["0", "1"]
    assert page.evaluate(f"{part('board')}.clientWidth") > 300
    assert page.evaluate("getComputedStyle(document.querySelector('#own')).color") == "rgb(255, 0, 0)"
    assert page.problems() == []


def shown_step(page: devtools.Page) -> int:
    return int(page.evaluate("document.querySelector('.quartet-snakes').dataset.step"))
