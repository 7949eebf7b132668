"""The page to watch a battle, in a real browser, opened from a file."""

import devtools
import pytest
from squad_samples import scripted_battle

from lib.omagd.battle.layout import FIRST_ATTACK
from lib.omagd.battle.maps import MAPS
from lib.omagd.page import replay_fragment, scene, write_page
from lib.omagd.replay import BattleReplay, unit_name

HOST = "document.querySelector('.quartet-battle')"
ROOT = f"{HOST}.shadowRoot"
MOVES = ["no-op", "stop", "north", "south", "east", "west"]
BLUE, ORANGE = [10, 99, 168], [194, 80, 10]

needs_chromium = pytest.mark.skipif(devtools.find_chromium() is None, reason="no Chromium on the path")


def part(name: str) -> str:
    return f"{ROOT}.querySelector('[data-part={name}]')"


def text_of(page: devtools.Page, name: str) -> str:
    return page.evaluate(f"{part(name)}.textContent")


def shown(page: devtools.Page, name: str) -> str:
    """What the host element says of the state: step, agent."""
    return page.evaluate(f"{HOST}.dataset.{name}")


def scrub(page: devtools.Page, step: int) -> None:
    event = "s.dispatchEvent(new Event('input'))"
    page.evaluate(f"(() => {{ const s = {part('scrubber')}; s.value = {step}; {event}; }})()")


def rows(page: devtools.Page) -> list[list[str]]:
    """(classes, name, what is left, what it did) of every unit, in the order of their numbers."""
    cells = "['name', 'left', 'deed'].map((cell) => row.querySelector('.' + cell).textContent)"
    every = f"[...{ROOT}.querySelectorAll('[data-unit]')].sort((a, b) => a.dataset.unit - b.dataset.unit)"
    return page.evaluate(f"{every}.map((row) => [row.className, ...{cells}])")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with devtools.browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    # A name that a link must escape: spaces, hash, percent, quotes, umlaut.
    path = tmp_path_factory.mktemp("pages") / "a battle #1 100% 'ü' ?.html"
    return write_page(scripted_battle(), path, title="focus & <script>")


def test_the_page_asks_for_nothing_outside(page_path):
    text = page_path.read_text(encoding="utf-8")
    assert devtools.asks_for_nothing_outside(text) and "<title>focus &amp; &lt;script&gt;</title>" in text


def test_a_block_is_small():
    """As part of a report: a battle of 3m below 300 kB, even one to the limit of 60 steps."""
    replay = scripted_battle("random", "3m")
    sizes = len(replay_fragment(replay)), len(str(scene(replay)))
    longest = sizes[0] + sizes[1] * (60 - replay.steps) / replay.steps
    assert longest < 100_000


def deed(replay: BattleReplay, agent: int, step: int) -> str:
    """What an agent did in the step that led to state `step`, in words."""
    died = [at for at, unit in replay.deaths() if unit == agent]
    if died and died[0] < step:
        return f"died in step {died[0]}"
    if step == 0:
        return "starts"
    action, battle_map = replay.actions[step - 1][agent], MAPS[replay.map]
    words = MOVES[action] if action < FIRST_ATTACK else ""
    if not words:
        healer = battle_map.units[agent].heals
        whom = action - FIRST_ATTACK + (0 if healer else battle_map.n_agents)
        words = f"{'heal' if healer else 'attack'} {unit_name(battle_map, whom).split(' ', 1)[1]}"
    return f"{words}, died" if died and died[0] == step else words


@needs_chromium
@pytest.mark.parametrize(("player", "map_name"), [("focus", "2s3z"), ("nearest", "MMM"), ("kite", "2s_vs_1sc")])
def test_every_state_is_told_as_it_was(browser, tmp_path, player, map_name):
    replay = scripted_battle(player, map_name)
    agents = MAPS[map_name].n_agents
    page = browser.open(write_page(replay, tmp_path / "battle.html", title="a").as_uri())
    for step in (0, 1, replay.steps // 2, replay.deaths()[0][0], replay.steps):
        scrub(page, step)
        alive = replay.alive[step]
        counts = [text_of(page, side) for side in ("leftAlive", "rightAlive")]
        assert counts == [str(alive[:agents].count("1")), str(alive[agents:].count("1"))]
        found = rows(page)
        assert [row[1] for row in found] == [unit_name(MAPS[map_name], u).split(" ", 1)[1] for u in range(len(alive))]
        assert [row[3] for row in found[:agents]] == [deed(replay, agent, step) for agent in range(agents)]
        for unit, (classes, _, left, _) in enumerate(found):
            assert ("dead" in classes.split()) == (alive[unit] == "0") == (left == "")
            if left:
                assert float(left.split()[0].rstrip(",")) - replay.health[step][unit] < 1
        return_text = f"return {replay.returns[step - 1] if step else 0:.2f}"
        assert text_of(page, "clock").endswith(return_text)
    assert text_of(page, "when") == replay.outcome() and page.problems() == []


@needs_chromium
def test_keys_step_play_and_choose(browser, page_path):
    replay = scripted_battle()
    page = browser.open(page_path.as_uri(), prefers_color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0), ("ArrowLeft", 0)):
        page.press(key)
        assert shown(page, "step") == str(step), key
    assert text_of(page, "when") == f"step 0 of at most {replay.limit}"
    page.press("End")
    assert shown(page, "step") == str(replay.steps) and text_of(page, "when") == replay.outcome()
    page.press("+")
    assert page.evaluate(f"{part('speed')}.value") == "6"
    page.evaluate(f"{part('speed')}.value = 30")
    page.press(" ")  # from the end: from the start
    page.wait(f"Number({HOST}.dataset.step) >= 5")
    page.press("2")
    assert shown(page, "agent") == "2"  # while it runs
    page.press(" ")
    stopped = shown(page, "step")
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 150))")
    assert shown(page, "step") == stopped
    for key, agent in (("2", ""), ("5", "5"), ("9", "5"), ("1", "1"), ("Escape", ""), ("Escape", "")):
        page.press(key)
        assert shown(page, "agent") == agent, key
    assert page.evaluate("scrollY") == 0 and page.problems() == []


@needs_chromium
def test_a_chosen_agent_shows_what_it_sees(browser, tmp_path):
    """With a short sight; chosen in the list and on the map."""
    replay = scripted_battle("nearest", "2s_vs_1sc")
    page = browser.open(write_page(replay, tmp_path / "battle.html", title="a").as_uri())
    seen = 0
    for step in (0, 3, 8, replay.deaths()[0][0]):
        scrub(page, step)
        for agent in range(2):
            page.evaluate(f"{ROOT}.querySelector('[data-unit=\"{agent}\"]').click()")
            assert shown(page, "agent") == str(agent + 1)
            for unit, row in enumerate(rows(page)):
                hidden = replay.alive[step][unit] == "1" and replay.visible[step][agent][unit] == "0"
                assert ("unseen" in row[0].split()) == hidden, (step, agent, unit)
                assert ("chosen" in row[0].split()) == (unit == agent)
                seen += hidden
            page.evaluate(f"{ROOT}.querySelector('[data-unit=\"{agent}\"]').click()")
            assert shown(page, "agent") == ""
    assert seen > 0
    scrub(page, 0)
    x, y = place(page, replay, 0, 1)
    at = f"{{ clientX: b.left + {x} * b.width, clientY: b.top + {y} * b.height, bubbles: true }}"
    click = "c.dispatchEvent(new MouseEvent('click', AT))".replace("AT", at)
    page.evaluate(f"(() => {{ const c = {part('map')}, b = c.getBoundingClientRect(); {click}; }})()")
    assert shown(page, "agent") == "2" and page.problems() == []


def place(page: devtools.Page, replay: BattleReplay, step: int, unit: int, up: float = 0.0) -> tuple[float, float]:
    """Where on the map's picture a unit stands, as shares of its width and height; `up`: map units above."""
    left, bottom, width, height = map(float, page.evaluate(f"{part('map')}.dataset.box").split())
    return (replay.x[step][unit] - left) / width, 1 - (replay.y[step][unit] + up - bottom) / height


def pixel(page: devtools.Page, x: float, y: float) -> list[int]:
    read = f"m.getContext('2d').getImageData({x} * m.width, {y} * m.height, 1, 1).data.slice(0, 3)"
    return page.evaluate(f"(() => {{ const m = {part('map')}; return Array.from({read}); }})()")


@needs_chromium
def test_units_are_drawn_where_they_stand(browser, page_path):
    """Between letter and rim an ally has its colour, an enemy paper within its colour; unseen ones are faint."""
    replay = scripted_battle()
    page = browser.open(page_path.as_uri())
    radius = MAPS["2s3z"].units[0].radius
    assert pixel(page, *place(page, replay, 0, 0, up=-0.72 * radius)) == BLUE
    assert pixel(page, *place(page, replay, 0, 5, up=-0.72 * radius)) == [255, 255, 255]
    assert pixel(page, *place(page, replay, 0, 5, up=-0.93 * radius)) == ORANGE
    assert replay.visible[0][0][5] == "0"
    page.press("1")
    assert pixel(page, *place(page, replay, 0, 0, up=-0.72 * radius)) == BLUE
    faint = pixel(page, *place(page, replay, 0, 5, up=-0.93 * radius))
    assert min(faint) > 190
    # Under the bars of health there is ground that can be walked on.
    assert sum(pixel(page, 0.02, 0.5)) > 600


@needs_chromium
def test_movement_between_steps_is_drawn(browser, page_path):
    """While it plays, an ally that walks is drawn between its two places."""
    replay = scripted_battle()
    page = browser.open(page_path.as_uri())
    page.evaluate(f"{part('speed')}.value = 1")
    before, after = (place(page, replay, step, 0)[0] for step in (0, 1))
    page.press(" ")
    page.wait(f"{HOST}.dataset.step === '1'")
    read = f"""(() => {{ const m = {part("map")}, c = m.getContext('2d'), found = [];
        const y = {place(page, replay, 0, 0, up=-0.72 * 0.625)[1]} * m.height;
        const row = c.getImageData(0, y, m.width, 1).data;
        for (let x = 0; x < m.width; x += 1) if (row[4 * x] === 10 && row[4 * x + 1] === 99) found.push(x / m.width);
        return (Math.min(...found) + Math.max(...found)) / 2; }})()"""
    middle = page.wait(f"(() => {{ const x = {read}; return x > {before + 0.2 * (after - before)} ? x : 0; }})()")
    assert before < middle < after + 0.01 and after - before > 0.03


@needs_chromium
@pytest.mark.parametrize("width", [360, 1100])
def test_it_fits_the_width(browser, page_path, width):
    page = browser.open()
    page.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=2, mobile=False)
    page.go(page_path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(f"{part('map')}.clientWidth") > min(0.85 * width, 600)
    list_left = page.evaluate(f"{part('roster')}.getBoundingClientRect().left")
    assert (list_left > 600) == (width == 1100)


@needs_chromium
def test_two_blocks_inside_another_page(browser, tmp_path):
    """As in report.html: the block leaves the page's own style and keys alone, and two blocks do not meet."""
    blocks = replay_fragment(scripted_battle()) + replay_fragment(scripted_battle("random", "3m"))
    path = tmp_path / "report.html"
    style = "canvas, button { display: none } .map { width: 5px } div { color: red }"
    path.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{blocks}<div id=own>after</div>")
    page = browser.open(path.as_uri())
    page.press("ArrowRight")
    steps = "[...document.querySelectorAll('.quartet-battle')].map((block) => block.dataset.step)"
    assert page.evaluate(steps) == ["0", "0"]
    page.evaluate("document.querySelectorAll('.quartet-battle')[1].shadowRoot.querySelector('.view').focus()")
    page.press("ArrowRight")
    page.press("3")
    assert page.evaluate(steps) == ["0", "1"] and shown(page, "agent") == ""
    assert page.evaluate(f"{part('map')}.clientWidth") > 300
    assert page.evaluate("getComputedStyle(document.querySelector('#own')).color") == "rgb(255, 0, 0)"
    assert page.problems() == []
