"""The page to play: a person's keys, the network in the browser, a full game, closing the page half way."""

import json
import time

import pytest
import torch

pytest.importorskip("warp")
import devtools

from lib.snakes.game import SnakesVec
from lib.snakes.network import Actor, ActorConfig
from lib.snakes.page import write_page
from lib.snakes.page_network import pack_network
from lib.snakes.players import NetworkPlayer
from lib.snakes.replay import Replay

pytestmark = pytest.mark.skipif(devtools.find_chromium() is None, reason="no Chromium on the path")
HOST = "document.querySelector('.quartet-snakes')"
SEED = 77
AGAIN = f"{HOST}.shadowRoot.querySelector('[data-do=again]').click()"
STEER = {0: "ArrowUp", 1: "s", 2: "ArrowLeft", 3: "d"}


def part(name: str) -> str:
    return f"{HOST}.shadowRoot.querySelector('[data-part={name}]')"


def phase(page) -> str:
    return page.evaluate(f"{HOST}.dataset.phase")


def directions(page) -> list[int]:
    return [int(letter) for letter in page.evaluate(f"{HOST}.dataset.directions")]


def hurry(page) -> None:
    """Faster than the slider allows: a test need not last as long as a game."""
    page.evaluate(f"{part('speed')}.max = 150; {part('speed')}.value = 150")


def press_button(page, text: str) -> None:
    page.evaluate(f"[...{part('cover')}.querySelectorAll('button')].find((b) => b.textContent === '{text}').click()")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with devtools.browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="module")
def actor():
    torch.manual_seed(0)
    actor = Actor(ActorConfig(hidden=(32, 32))).eval()
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return actor


@pytest.fixture
def play_path(tmp_path, actor):
    return write_page(
        None, tmp_path / "play it.html", title="Snakes", network=pack_network(actor, "the team"), seed=SEED
    )


def test_keys_turn_the_snake_and_a_full_game_ends_with_the_score(browser, play_path):
    page = browser.open(play_path.as_uri())
    page.evaluate("document.body.style.height = '4000px'")
    assert phase(page) == "ready"
    assert "WASD" in page.evaluate(f"{part('help')}.textContent.replaceAll(' ', '')")
    assert "ignored" in page.evaluate(f"{part('help')}.textContent")
    facing = directions(page)[0]
    turn = next(way for way in range(4) if way // 2 != facing // 2)
    page.press(STEER[turn])
    page.wait(f"Number({HOST}.dataset.step) === 1")
    assert directions(page)[0] == turn and phase(page) == "running"
    # Against the own direction: nothing happens, the snake goes straight on.
    page.press(STEER[(1, 0, 3, 2)[turn]])
    page.wait(f"Number({HOST}.dataset.step) === 2")
    assert directions(page)[0] == turn
    page.press(" ")
    assert phase(page) == "paused"
    at = page.evaluate(f"{HOST}.dataset.step")
    time.sleep(0.4)
    assert page.evaluate(f"{HOST}.dataset.step") == at
    hurry(page)
    page.press(" ")
    # The button for a new game only pauses a running one.
    page.evaluate(AGAIN)
    assert phase(page) == "paused" and page.evaluate(f"Number({HOST}.dataset.step)") >= int(at)
    page.press(" ")
    page.wait(f"{HOST}.dataset.phase === 'over'", 60)
    headline = page.evaluate(f"{part('headline')}.textContent")
    score = [page.evaluate(f"{part(name)}.textContent") for name in ("leftScore", "rightScore")]
    assert headline.endswith(f", {score[0]} : {score[1]}") and headline.startswith(("You win", "You lose", "A draw"))
    assert page.evaluate("scrollY") == 0
    press_button(page, "Watch this game")
    page.press("End")
    assert page.evaluate(f"{HOST}.dataset.step") == "200"
    page.evaluate(AGAIN)
    assert phase(page) == "ready" and page.evaluate(f"{HOST}.dataset.step") == "0"
    assert page.problems() == []


def test_a_game_without_a_person_is_the_game_of_python(browser, play_path, actor):
    """Network on the left, greedy on the right: the saved game is, number by number, what kernel and torch play."""
    page = browser.open(play_path.as_uri())
    page.evaluate(f"localStorage.clear(); {part('enemies')}.value = 'greedy'; {part('chosen')}.value = '-1'")
    page.evaluate(
        "URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; };"
        "HTMLAnchorElement.prototype.click = () => {};"
    )
    page.evaluate(f"{part('chosen')}.dispatchEvent(new Event('change'))")
    hurry(page)
    page.press(" ")
    page.wait(f"{HOST}.dataset.phase === 'over'", 60)
    press_button(page, "Save it")
    replay = Replay.from_json(json.loads(page.evaluate("window.saved.text()")))
    assert replay.names == ("the team", "greedy script") and replay.seed == SEED
    game = SnakesVec(1, seed=SEED, observe="both", left="external", right="greedy", autoreset=False)
    player = NetworkPlayer(actor)
    for step in range(replay.steps):
        logits = torch.zeros(1, 2, 3, 4)
        logits[:, 0] = player.logits(game.features[:, 0])
        game.choose(logits, sample=False)
        game.step()
        assert replay.actions[step] == game.actions[0].tolist(), step
        assert replay.states[step + 1] == game.snapshot(0)
    assert bool(game.done[0])
    assert page.problems() == []


def test_closing_the_page_loses_nothing(browser, play_path):
    page = browser.open(play_path.as_uri())
    page.evaluate(f"localStorage.clear(); {part('speed')}.value = 30")
    page.press("ArrowUp")
    page.press("ArrowLeft")
    page.press("ArrowDown")
    page.wait(f"Number({HOST}.dataset.step) >= 12")
    page.press(" ")
    left = page.evaluate(f"({{ ...{HOST}.dataset }})"), page.evaluate(f"{part('snakes')}.textContent")
    page.close()
    page = browser.open(play_path.as_uri())
    assert page.evaluate(f"{part('headline')}.textContent") == "Your last game is still here"
    assert (page.evaluate(f"({{ ...{HOST}.dataset }})"), page.evaluate(f"{part('snakes')}.textContent")) == left
    press_button(page, "Continue")
    page.wait(f"Number({HOST}.dataset.step) > {left[0]['step']}")
    page.press(" ")
    page.evaluate("localStorage.clear()")
    assert page.problems() == []


def test_another_snake_touch_and_settings(browser, play_path):
    page = browser.open(play_path.as_uri())
    page.evaluate("localStorage.clear()")
    page.evaluate(
        f"{part('chosen')}.focus(); {part('chosen')}.value = '4'; {part('chosen')}.dispatchEvent(new Event('change'))"
    )
    # Keys in a field of the settings belong to the field.
    page.press("Escape")
    assert phase(page) == "ready"
    assert [page.evaluate(f"{part(name)}.textContent") for name in ("leftName", "rightName")] == [
        "the team",
        "You with the team",
    ]
    facing = directions(page)[4]
    turn = next(way for way in range(4) if way // 2 != facing // 2)
    page.evaluate(
        f"{HOST}.shadowRoot.querySelector('[data-steer=\"{turn}\"]').dispatchEvent(new PointerEvent('pointerdown'))"
    )
    page.wait(f"Number({HOST}.dataset.step) === 1")
    assert directions(page)[4] == turn
    page.evaluate(f"{part('mates')}.focus()")
    assert phase(page) == "paused"
    page.evaluate("localStorage.clear()")
    assert page.problems() == []


def test_storage_that_is_broken_or_holds_nonsense(browser, play_path):
    page = browser.open(play_path.as_uri())
    key = page.evaluate(f"JSON.parse({HOST}.querySelector('[type=\"application/json\"]').textContent).storageKey")
    for nonsense in ("not json", '{"seed": 1.5, "actions": "000000"}', '{"seed": 1, "actions": "90"}', "null"):
        page.evaluate(f"localStorage.setItem('{key}', {json.dumps(nonsense)})")
        page.go(play_path.as_uri())
        assert phase(page) == "ready", nonsense
    page.send(
        "Page.addScriptToEvaluateOnNewDocument",
        source="Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('refused'); } })",
    )
    page.go(play_path.as_uri())
    assert phase(page) == "ready"
    assert "stores nothing" in page.evaluate(f"{part('note')}.textContent")
    page.press("ArrowUp")
    page.press("ArrowLeft")
    page.wait(f"Number({HOST}.dataset.step) >= 1")
    assert page.problems() == []


def test_without_a_network_the_greedy_script_plays(browser, tmp_path):
    page = browser.open(write_page(None, tmp_path / "p.html", title="Snakes").as_uri())
    options = page.evaluate(f"[...{part('enemies')}.options].map((option) => option.value)")
    assert options == ["greedy"]
    page.press("ArrowUp")
    page.press("ArrowLeft")
    page.wait(f"Number({HOST}.dataset.step) >= 1")
    assert page.problems() == []
