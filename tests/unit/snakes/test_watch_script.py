"""scripts/watch_snakes.py: players, files, and how its errors end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import script_modules
import torch

pytest.importorskip("warp")
from PIL import Image
from samples import write_export

from lib.args import parse
from lib.errors import UserError
from lib.snakes.match import play_match
from lib.snakes.network import Actor, ActorConfig
from lib.snakes.players import NetworkPlayer, ScriptedPlayer, SubmissionPlayer
from lib.snakes.recording import record_game
from lib.snakes.replay import load_replay

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "watch_snakes.py"


@pytest.fixture(scope="module")
def script():
    return script_modules.load("watch_snakes")


@pytest.fixture
def watch(script):
    return lambda *argv: script.main(parse(script.Config, [str(word) for word in argv]))


def network(seed: int, **config) -> NetworkPlayer:
    torch.manual_seed(seed)
    actor = Actor(ActorConfig(hidden=(32, 32), **config))
    return NetworkPlayer(actor, name=f"net {seed}")


@pytest.fixture
def export(tmp_path):
    """A folder as a run exports it."""
    return write_export(tmp_path / "run" / "export", network(1).actor)


SUBMISSION = """
import random
def my_controller(observation, action_space, is_continuous):
    own = observation["controlled_snake_index"]
    move = random.randrange(4) if own % 2 else 3
    return [[int(move == action) for action in range(4)]]
"""


@pytest.mark.parametrize("pair", ["bots", "networks", "two layouts", "drawn", "submission"])
def test_the_recorded_game_is_the_game_of_the_match(pair, tmp_path):
    """Any two kinds of players: the final score is that of play_match for the same seed."""
    left, right = {
        "bots": lambda: (ScriptedPlayer("greedy"), ScriptedPlayer("evasion")),
        "networks": lambda: (network(1), network(2)),
        "two layouts": lambda: (network(1), network(2, features="jidi26")),
        "drawn": lambda: (NetworkPlayer(network(1).actor, sample=True), network(2)),
        "submission": lambda: (submission(tmp_path), ScriptedPlayer("greedy")),
    }[pair]()
    replay = record_game(left, right, seed=11)
    match = play_match(left, right, 1, seed=11, both_sides=False)
    tally = match.per_side["left"]
    assert replay.team_scores() == (tally.score, tally.score_against)
    assert [sum(replay.death_counts()[:3]), sum(replay.death_counts()[3:])] == [tally.deaths, tally.deaths_against]
    assert replay.steps == tally.steps and replay.names == (left.name, right.name)


def submission(folder: Path) -> SubmissionPlayer:
    (folder / "submission.py").write_text(SUBMISSION)
    return SubmissionPlayer(folder)


def test_all_outputs_of_one_game(watch, tmp_path, export, capsys):
    names = {name: tmp_path / f"out put.{name}" for name in ("html", "gif", "png", "json", "jidi")}
    flags = [word for name, path in names.items() for word in (f"--{name}", path)]
    watch("--left", export, "--right", "greedy", "--seed", 5, *flags)
    printed = capsys.readouterr().out
    replay = load_replay(names["json"])
    assert printed.splitlines()[0] == f"{replay.result_line()} after {replay.steps} steps"
    assert [line.split(" ", 1)[1] for line in printed.splitlines()[1:]] == [str(path) for path in names.values()]
    assert replay.names == (str(export), "greedy") and replay.seed == 5
    assert json.loads(names["jidi"].read_text())["n_return"] == replay.states[-1].scores
    with Image.open(names["gif"]) as image:
        assert image.n_frames == len(replay.states)
    with Image.open(names["png"]) as image:
        assert image.format == "PNG"
    again = tmp_path / "again.html"
    watch("--replay", names["json"], "--html", again, "--title", f"{export} against greedy")
    assert again.read_text() == names["html"].read_text()


def test_the_terminal_is_the_default(watch, capsys):
    watch("--left", "random", "--right", "hunter", "--seed", 1)
    printed = capsys.readouterr().out
    assert printed.count("step ") == 201 and "wins" in printed.splitlines()[-1]


def test_play_pages(watch, tmp_path, export, capsys):
    watch("--play", tmp_path / "play.html", "--checkpoint", export, "--seed", 4)
    text = (tmp_path / "play.html").read_text()
    assert '"features": "team"' in text and '"seed": 4' in text
    watch("--play", tmp_path / "greedy.html")
    assert "greedy script plays all the other snakes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "--left is missing"),
        (("--left", "greedy"), "--right is missing"),
        (("--left", "greedi", "--right", "greedy"), "nearest team is greedy"),
        (("--replay", "no.json"), "no.json: no such file"),
        (("--replay", "no.json", "--left", "greedy"), "drop --left"),
        (("--left", "greedy", "--right", "greedy", "--checkpoint", "x"), "--checkpoint is for --play"),
        (("--play", "p.html", "--gif", "g.gif"), "--gif is about a game to watch"),
        (("--play", "p.html", "--seed", 10**15), "number from 0 to 999999999999999"),
        (("--play", "p.html", "--checkpoint", "no/export"), "no/export"),
        (("--left", "greedy", "--right", "random", "--png", "p.png", "--png_step", 300), "steps 0 to 200"),
    ],
)
def test_bad_input_is_one_line(watch, tmp_path, monkeypatch, flags, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        watch(*flags)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_error_ends_with_code_2(tmp_path):
    ended = subprocess.run(
        [sys.executable, SCRIPT, "--replay", "none.json"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 2
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1 and "none.json: no such file" in lines[0]


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    """As in `watch_snakes.py ... | head -3`."""
    command = [sys.executable, SCRIPT, "--left", "greedy", "--right", "random"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as running:
        assert running.stdout.readline().startswith("greedy  0 : 0  random")
        running.stdout.close()
        assert running.wait(120) == 0
        assert "Error" not in running.stderr.read()
