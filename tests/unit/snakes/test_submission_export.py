"""The exported file plays what the actor plays: on the kernel's features, on both sides, where torch cannot be had."""

import json
import random
import subprocess
import sys

import pytest
import torch
from reference import row_col
from reference_boards import crowded_game
from reference_features import team_features
from samples import wild_actor, write_export

from lib.errors import UserError
from lib.snakes import SnakesVec, jidi, submission_template
from lib.snakes.submission import export_submission

# Plays every recorded game through the platform's call; neither torch nor this project can be imported.
LONELY = """
import json, sys
sys.modules["torch"] = sys.modules["lib"] = None
sys.path.insert(0, sys.argv[1])
import submission
answers = []
for line in open(sys.argv[2]):
    states = [{int(key) if key.isdigit() else key: value for key, value in state.items()} for state in json.loads(line)]
    answers.append([submission.my_controller(state, [None], False) for state in states])
json.dump(answers, sys.stdout)
"""


def record_games(actor, games: int, path) -> torch.Tensor:
    """Games in which the actor plays both sides; the states into `path`, one step a line. (steps, 6) best moves.

    Moves that are nearly as good as another one are -1: two ways of summing floats may differ about them.
    """
    moves = []
    with open(path, "w") as file:
        for number in range(games):
            vec = SnakesVec(
                1, seed=5, first_game=number, features=actor.config.features, observe="both", right="external"
            )
            features = vec.reset()
            done = False
            while not done:
                file.write(json.dumps(jidi.state_dicts(vec.snapshot(0))) + "\n")
                with torch.no_grad():
                    logits = actor(features)  # (1, 2, 3, 4)
                vec.choose(logits, sample=False)
                best = logits.reshape(6, 4).sort(-1, descending=True)
                close = best.values[:, 0] - best.values[:, 1] < 1e-4
                moves.append(torch.where(close, -1, vec.actions[0].long()))
                vec.step()
                done = bool(vec.done[0])
    return torch.stack(moves)


def ask(folder, states) -> torch.Tensor:
    """(steps, 6) moves of the exported file, run by itself."""
    done = subprocess.run(
        [sys.executable, "-c", LONELY, str(folder), str(states)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    return torch.tensor([[jidi.decode_action(answer) for answer in step] for step in answers])


CASES = {
    "default": {},
    "no mask": {"mask": False},
    "lstm and tanh": {"comm": "lstm", "output": "tanh", "mask": False},
    "old numbers": {"features": "jidi26"},
    "one layer": {"hidden": (40,)},
}


@pytest.mark.parametrize("case", CASES)
def test_the_file_plays_what_the_actor_plays(case, tmp_path):
    actor = wild_actor(**CASES[case])
    expected = record_games(actor, 4, tmp_path / "states.jsonl")
    beside = case == "no mask"
    path = export_submission(actor.state_dict(), actor.config.to_dict(), tmp_path / "out", embed=not beside)
    assert path.with_name("weights.npy").exists() == beside
    played = ask(tmp_path / "out", tmp_path / "states.jsonl")
    assert expected.shape[0] >= 600 and (expected >= 0).float().mean() > 0.99
    different = ((played != expected) & (expected >= 0)).nonzero()
    assert len(different) == 0, f"step, snake: {different[:5].tolist()}"
    assert expected[expected >= 0].unique().tolist() == [0, 1, 2, 3]


def test_the_file_says_what_it_needs(tmp_path):
    actor = wild_actor()
    text = export_submission(actor.state_dict(), actor.config.to_dict(), tmp_path).read_text()
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    standard = ["import base64", "import itertools", "import zlib", "from pathlib import Path"]
    assert imports == [*standard, "import numpy as np"]
    assert max(map(len, text.splitlines())) <= 400


def test_what_cannot_be_exported(tmp_path):
    actor = wild_actor()
    config = actor.config.to_dict()
    with pytest.raises(UserError, match=r"layers\.0\.bias is \(24,\), its config.json says \(7,\)"):
        export_submission(actor.state_dict(), config | {"hidden": [7, 7]}, tmp_path)
    with pytest.raises(UserError, match="expected an export of train_snakes"):
        export_submission(actor.state_dict(), config | {"kind": "protein"}, tmp_path)
    broken = {**actor.state_dict(), "layers.0.bias": torch.full((24,), float("nan"))}
    with pytest.raises(UserError, match=r"layers.0.bias .*not finite"):
        export_submission(broken, config, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        export_submission(actor.state_dict(), config, tmp_path / "file")
    assert not (tmp_path / "submission.py").exists()


def test_the_script_writes_once(tmp_path, capsys):
    from scripts.export_snakes import Config, main

    export = write_export(tmp_path / "run" / "export", wild_actor())
    main(Config(str(export.parent), str(tmp_path / "out")))
    written = (tmp_path / "out" / "submission.py").read_text()
    assert "hand in this file" in capsys.readouterr().out and "my_controller" in written
    with pytest.raises(UserError, match="exists already"):
        main(Config(str(export), str(tmp_path / "out")))
    main(Config(str(export), str(tmp_path / "out"), weights_beside=True, overwrite=True))
    assert (tmp_path / "out" / "weights.npy").exists()
    assert (tmp_path / "out" / "submission.py").read_text() != written


@pytest.mark.parametrize("fill", [60, 150, 190, 195])
def test_the_file_sees_rare_boards_as_the_reference_does(fill):
    """Crowded boards: pockets, races, long bodies, too few beans, and a body that is empty."""
    rng = random.Random(fill)
    pockets = races = 0
    for number in range(8):
        game = crowded_game(rng, fill)
        if number == 7:
            game.snakes[4] = []
        observation = {1: [row_col(bean) for bean in game.beans]}
        observation |= {snake + 2: [row_col(cell) for cell in body] for snake, body in enumerate(game.snakes)}
        memory = submission_template.Memory()
        memory.step, memory.directions = game.step_count, dict(enumerate(game.directions))
        board = submission_template.Board(observation)
        for snake in range(6):
            expected = team_features(game, snake)
            assert submission_template.team_features(board, snake, memory) == pytest.approx(expected, abs=1e-9), snake
            pockets += any(0 < share < 1 for share in expected[124:128])
            races += any(0 < share < 1 for share in expected[136:140])
    assert pockets > 0 and races > 0
