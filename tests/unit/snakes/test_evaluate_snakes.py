"""scripts/evaluate_snakes.py: one process in place, two under the launcher, the same numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from samples import wild_actor, write_export

from lib.args import parse
from lib.checkpoint import load_export
from lib.errors import UserError
from lib.snakes.match import MatchResult, Tally, play_match
from lib.snakes.players import ScriptedPlayer, load_player
from scripts.evaluate_snakes import ALIASES, Config, table

ROOT = Path(__file__).resolve().parents[3]


def test_the_original_names():
    config = parse(Config, ["--my_ai", "greedy", "--opponent", "random", "--episode", "7"], ALIASES)
    assert (config.left, config.right, config.games) == ("greedy", "random", 7)
    with pytest.raises(UserError, match="missing option --left"):
        parse(Config, ["--right", "random"], ALIASES)


def test_the_table():
    tally = Tally(games=4, wins=3, draws=1, losses=0, score=40, score_against=8, deaths=6, deaths_against=2, steps=800)
    lines = table(MatchResult("mine", "greedy", {"left": tally, "right": Tally()})).splitlines()
    assert lines[0] == "mine against greedy, seen by mine"
    assert lines[2].split() == "all 4 75.0 % 25.0 % 0.0 % 30.1 to 95.4 % 10.0 : 2.0 1.5 : 0.5".split()
    assert len(lines) == 4 and lines[3].startswith("left")


def test_two_processes_report_what_one_does(tmp_path):
    export = write_export(tmp_path / "run" / "export", wild_actor())
    report = tmp_path / "report.json"
    command = [Path(sys.executable).parent / "accelerate", "launch", "--config_file", "accelerate_configs/cpu_2.yaml"]
    command += ["--main_process_port", "0", "scripts/evaluate_snakes.py", "--left", export, "--right", "greedy"]
    command += ["--games", "41", "--seed", "3", "--seeds", "2", "--report_json", report]
    kept = {name: value for name, value in os.environ.items() if name not in ("WORLD_SIZE", "RANK", "LOCAL_RANK")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**kept, "OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["processes"] == 2
    alone = [play_match(load_player(str(export), load_export), ScriptedPlayer("greedy"), 41, seed=s) for s in (3, 4)]
    expected = (alone[0] + alone[1]).to_dict()
    assert {name: found[name] for name in expected} == expected and found["games"] == 82
    assert found["win_rates"] == [result.win_rate for result in alone]
    assert found["win_rate_min"] <= found["win_rate_median"]
    assert "with 2 seeds" in done.stdout
    assert f"{export} against greedy" in done.stdout and "on 2 process(es)" in done.stdout
