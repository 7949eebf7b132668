"""scripts/watch_omagd.py: players, files, and how its errors end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import script_modules
from squad_samples import described, network, write_squad

from lib.args import parse
from lib.errors import UserError
from lib.omagd.players import ScriptedPlayer
from lib.omagd.replay import load_replay, record_battle

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "watch_omagd.py"


@pytest.fixture(scope="module")
def script():
    return script_modules.load("watch_omagd")


@pytest.fixture
def watch(script):
    return lambda *argv: script.main(parse(script.Config, [str(word) for word in argv]))


def test_page_and_file_of_a_trained_team(watch, tmp_path, capsys):
    export = write_squad(tmp_path / "run" / "export", network(), described(sight=5.0))
    html, file = tmp_path / "a battle.html", tmp_path / "a battle.json"
    watch("--player", tmp_path / "run", "--seed", 5, "--battle", 3, "--html", html, "--json", file)
    replay = load_replay(file)
    assert capsys.readouterr().out.splitlines() == [replay.result_line(), f"wrote {html}", f"wrote {file}"]
    assert (replay.map, replay.seed, replay.battle, replay.options["sight"]) == ("3m", 5, 3, 5.0)
    assert f"<title>{tmp_path / 'run'} on 3m, battle 3 of seed 5</title>" in html.read_text()
    again = tmp_path / "again.html"
    watch("--replay", file, "--html", again)
    assert again.read_text() == html.read_text()
    watch("--player", export, "--sight", 20, "--json", file)
    assert load_replay(file).visible[0] == ["1" * 6] * 3


def test_words_are_the_default(watch, capsys):
    watch("--player", "nearest", "--map", "2s3z", "--seed", 1, "--sight", 4)
    replay = record_battle(ScriptedPlayer("nearest"), seed=1, map_name="2s3z", sight=4.0)
    assert capsys.readouterr().out == f"{replay.summary()}\n"
    watch("--player", "random")
    assert capsys.readouterr().out.startswith("random on 3m, battle 0 of seed 0: 3 marine against 3 marine, sight 9\n")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "--player is missing: give RUN/export, or one of random, nearest"),
        (("--player", "fokus"), "the nearest is focus"),
        (("--player", "nearest", "--map", "3n"), "did you mean 3m"),
        (("--player", "nearest", "--sight", "0"), "--sight is '0', expected a number > 0"),
        (("--player", "nearest", "--sight", "5000"), "sight is 5000.0: expected a length above 0 and at most 1000"),
        (("--player", "nearest", "--seed", "-1"), "--seed is '-1', expected a whole number >= 0"),
        (("--player", "nearest", "--battle", 2**31), "--battle is '2147483648'"),
        (("--player", "nearest", "--title", "x"), "--title is the heading of the page: give --html FILE"),
        (("--replay", "no.json"), "no.json: no such file"),
        (("--replay", "no.json", "--player", "nearest"), "drop --player"),
        (("--replay", "no.json", "--sight", 5), "drop --sight"),
        (("--replay", "no.json", "--battle", 0), "drop --battle"),
        (("--player", "export", "--map", "8m"), "export cannot play 8m"),
        (("--replay", "other.json"), "other.json is not the replay of a battle"),
        (("--player", "nearest", "--html", "export"), "cannot write export: it is there and is no file"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(watch, tmp_path, monkeypatch, flags, words):
    monkeypatch.chdir(tmp_path)
    write_squad(tmp_path / "export", network(), described())
    (tmp_path / "other.json").write_text(json.dumps({"format": "quartet-snakes-replay"}))
    (tmp_path / "page.html").write_text("former")
    before = sorted(tmp_path.rglob("*"))
    outputs = () if {"--html", "--title"} & set(flags) else ("--html", "page.html")
    with pytest.raises(UserError) as caught:
        watch(*flags, *outputs)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "page.html").read_text() == "former"


def test_an_error_ends_with_code_2(tmp_path):
    ended = subprocess.run(
        [sys.executable, SCRIPT, "--replay", "none.json"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 2
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1 and "none.json: no such file" in lines[0]
