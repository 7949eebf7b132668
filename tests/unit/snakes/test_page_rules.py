"""The page's JavaScript against the kernel and the torch actor: states, events, features, logits, number by number."""

import random

import numpy as np
import pytest
import torch

pytest.importorskip("warp")
import devtools
import page_probe
import reference_boards
from reference_features import team_features

from lib.snakes.game import SnakesVec
from lib.snakes.network import Actor, ActorConfig
from lib.snakes.page_network import pack_network
from lib.snakes.rules import SNAKES, neighbour
from lib.snakes.state import GameState

pytestmark = pytest.mark.skipif(
    devtools.find_chromium() is None, reason="no Chromium on the path: the page's JavaScript cannot run"
)
# A seed of more than 32 bits, so that both words of the key count.
SEED = 2**40 + 12345
GAMES = 12


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with devtools.browser(tmp_path_factory.mktemp("browser")) as running:
        yield running.open()


def as_page(state: GameState) -> dict:
    """A GameState as the page holds it."""
    return {
        "snakes": state.snakes,
        "beans": state.beans,
        "directions": state.directions,
        "lastDirections": state.last_directions,
        "step": state.step,
    }


def as_kernel(state: dict) -> dict:
    return {name: value for name, value in state.items() if name != "over"}


@pytest.fixture(scope="module")
def played():
    """Whole games of the kernel: bots against bots, a third of the games with many random (also reversing) moves."""
    rng = random.Random(4)
    vec = SnakesVec(GAMES, seed=SEED, first_game=5, observe="both", left="external", right="external", autoreset=False)
    bots = SnakesVec(GAMES, seed=SEED, first_game=5, features="jidi26", observe="both", left="greedy", right="level3")
    games = [{"states": [vec.snapshot(n)], "events": [], "actions": [], "team": [], "jidi26": []} for n in range(GAMES)]
    while not bool(vec.done.all()):
        for n in range(GAMES):
            bots.inject(n, vec.snapshot(n))
        seen = {"team": vec.features.clone(), "jidi26": bots.refresh().clone()}
        bots.step()
        actions = bots.actions.clone()
        for n in range(GAMES):
            for snake in range(SNAKES):
                if rng.random() < (0.6 if n % 3 == 0 else 0.04):
                    actions[n, snake] = rng.randrange(4)
        running = vec.done == 0
        vec.step(actions)
        for n in running.nonzero()[:, 0].tolist():
            games[n]["actions"].append(actions[n].tolist())
            games[n]["states"].append(vec.snapshot(n))
            games[n]["events"].append([[int(x) for x in values[n]] for values in (vec.rewards, vec.deaths, vec.ate)])
            for layout, values in seen.items():
                games[n][layout].append(values[n].reshape(SNAKES, -1).numpy())
    return games


def quirks(games: list[dict]) -> dict[str, int]:
    """How often the rules' rare paths were taken."""
    found = {"deaths": 0, "reversals": 0, "broken bodies": 0, "into the neck": 0}
    for game in games:
        for before, actions, (_, deaths, _), after in zip(
            game["states"], game["actions"], game["events"], game["states"][1:]
        ):
            for snake in range(SNAKES):
                found["deaths"] += deaths[snake]
                found["reversals"] += actions[snake] == (1, 0, 3, 2)[before.directions[snake]]
                if deaths[snake]:
                    head, neck, third = after.snakes[snake]
                    found["broken bodies"] += third not in [neighbour(neck, action) for action in range(4)]
                    found["into the neck"] += neighbour(head, after.directions[snake]) == neck
    return found


def test_games_of_the_page_are_games_of_the_kernel(tab, played):
    asked = [{"seed": SEED, "game": 5 + n, "episode": 0, "actions": game["actions"]} for n, game in enumerate(played)]
    for game, answer in zip(played, page_probe.call(tab, "replayGames", asked), strict=True):
        assert [as_kernel(state) for state in answer["states"]] == [as_page(state) for state in game["states"]]
        events = [[event["rewards"], event["deaths"], event["ate"]] for event in answer["events"]]
        assert events == game["events"]
        assert [state["over"] for state in answer["states"]] == [False] * (len(game["states"]) - 1) + [True]
    met = quirks(played)
    assert met["deaths"] > 300 and met["reversals"] > 300, met
    assert met["broken bodies"] > 10 and met["into the neck"] > 2, met


def test_crash_cells_are_where_snakes_died(tab, played):
    """Every dead snake has one, on a cell its head could reach; the living have none."""
    game = played[0]
    asked = [{"seed": SEED, "game": 5, "episode": 0, "actions": game["actions"]}]
    for before, event in zip(game["states"], page_probe.call(tab, "replayGames", asked)[0]["events"]):
        for snake, cell in enumerate(event["crashes"]):
            reachable = [neighbour(before.snakes[snake][0], action) for action in range(4)]
            assert cell in reachable if event["deaths"][snake] else cell == -1


def test_crowded_boards(tab):
    """Nearly full boards, where respawns find no place and beans no free cell, from states given to both sides."""
    rng = random.Random(9)
    vec = SnakesVec(1, seed=SEED, features="none", left="external", right="external", autoreset=False)
    cases, wanted, empties, overs = [], [], 0, 0
    while len(cases) < 300 or empties < 4 or overs < 10:
        number = len(cases)
        assert number < 3000, (empties, overs)
        board = reference_boards.crowded_game(rng, rng.choice((60, 150, 195, 195)))
        state = GameState(board.snakes, board.beans, board.directions, board.last_directions, board.step_count)
        actions = [rng.randrange(4) for _ in range(SNAKES)]
        vec.reset(seed=number)
        vec.inject(0, state)
        vec.step(torch.tensor([actions], dtype=torch.int32))
        after = vec.snapshot(0)
        empties += sum(not body for body in after.snakes)
        cases.append({"state": as_page(state), "actions": actions, "seed": number})
        events = [[int(x) for x in values[0]] for values in (vec.rewards, vec.deaths, vec.ate)]
        wanted.append((as_page(after), events, bool(vec.done[0])))
        overs += bool(vec.done[0])
    for (state, events, over), answer in zip(wanted, page_probe.call(tab, "stepOnce", cases), strict=True):
        assert as_kernel(answer["state"]) == state
        assert [answer["events"][name] for name in ("rewards", "deaths", "ate")] == events
        assert answer["state"]["over"] == over


@pytest.mark.parametrize("layout", ["team", "jidi26"])
def test_features_are_those_of_the_kernel(tab, played, layout):
    for game in played[::2]:
        asked = {"layout": layout, "states": [as_page(state) for state in game["states"][:-1]]}
        answer = np.array(page_probe.call(tab, "featuresOf", asked), dtype=np.float32)
        np.testing.assert_allclose(answer, np.array(game[layout]), rtol=0, atol=1e-6)


def test_team_features_of_crowded_boards(tab):
    """Pockets, long bodies, too few beans and empty bodies: against the reference in Python."""
    rng, states, wanted = random.Random(4), [], []
    for number in range(60):
        board = reference_boards.crowded_game(rng, rng.choice((60, 150, 190, 195)))
        if number % 10 == 0:
            board.snakes[rng.randrange(SNAKES)] = []
        states.append(GameState(board.snakes, board.beans, board.directions, board.last_directions, board.step_count))
        wanted.append([team_features(board, snake) for snake in range(SNAKES)])
    wanted = np.array(wanted, dtype=np.float32)
    shares = wanted[..., 124:128]
    assert ((shares > 0) & (shares < 1)).sum() > 50 and wanted[..., 132:].sum() > 20
    asked = {"layout": "team", "states": [as_page(state) for state in states]}
    answer = np.array(page_probe.call(tab, "featuresOf", asked), dtype=np.float32)
    np.testing.assert_allclose(answer, wanted, rtol=0, atol=1e-6)


def test_greedy_chooses_as_the_kernel_does(tab, played):
    vec = SnakesVec(1, seed=1, features="none", left="greedy", right="greedy", autoreset=False)
    states = [state for game in played[:4] for state in game["states"][:-1:3]]
    wanted = []
    for state in states:
        vec.reset(seed=0)
        vec.inject(0, state)
        vec.step()
        wanted.append(vec.actions[0].tolist())
    assert len(wanted) > 100
    assert page_probe.call(tab, "greedyOf", [as_page(state) for state in states]) == wanted


ACTORS = {
    "default": ActorConfig(),
    "one layer": ActorConfig(hidden=(32,), mask=False),
    "three layers, tanh": ActorConfig(hidden=(48, 32, 24), output="tanh"),
    "lstm": ActorConfig(hidden=(40, 40), comm="lstm"),
    "lstm, jidi26, tanh": ActorConfig(features="jidi26", hidden=(24, 24), comm="lstm", mask=False, output="tanh"),
    "jidi26": ActorConfig(features="jidi26", hidden=(64, 64), mask=True),
}


@pytest.mark.parametrize("name", ACTORS)
def test_logits_are_those_of_torch(tab, played, name):
    config = ACTORS[name]
    torch.manual_seed(3)
    actor = Actor(config).eval()
    with torch.no_grad():
        for parameter in actor.parameters():
            # Far from the initial weights, where all logits are near 0 and biases vanish.
            parameter.add_(0.05 * torch.randn_like(parameter))
    rows = torch.tensor(np.array([row[team : team + 3] for row in played[1][config.features][::4] for team in (0, 3)]))
    with torch.no_grad():
        wanted = actor(rows).numpy()
    asked = {"network": pack_network(actor, name), "rows": rows.tolist()}
    answer = np.array(page_probe.call(tab, "logitsOf", asked))
    assert np.abs(wanted).max() > 0.5
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)
    margins = np.sort(wanted, -1)
    clear = margins[..., -1] - margins[..., -2] > 1e-3
    assert clear.mean() > 0.5
    assert (answer.argmax(-1) == wanted.argmax(-1))[clear].all()
