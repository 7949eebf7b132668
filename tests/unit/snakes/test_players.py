"""Players by name, folder and file; submissions that fail; old actors."""

import random
import sys

import numpy as np
import pytest
import torch
from samples import ALWAYS_RIGHT, wild_actor, write_export, write_submission

from lib.checkpoint import load_export
from lib.errors import UserError
from lib.snakes.match import play_match
from lib.snakes.players import (
    NetworkPlayer,
    ScriptedPlayer,
    SubmissionPlayer,
    load_old_actor,
    load_player,
    own_generators,
    seed_generators,
)
from lib.snakes.state import GameState

START = GameState(
    [[0, 1, 2], [20, 21, 22], [40, 41, 42], [60, 61, 62], [80, 81, 82], [100, 101, 102]], [7, 8, 9, 10, 11], [2] * 6
)


def test_names_and_paths(tmp_path):
    assert load_player("greedy", load_export).controller == 3
    assert load_player("level2", load_export).name == "greedy"
    assert load_player("level0", load_export).name == "random"
    export = write_export(tmp_path / "run" / "export", wild_actor())
    for path in (export, tmp_path / "run"):
        player = load_player(str(path), load_export)
        assert isinstance(player, NetworkPlayer) and player.features == "team" and not player.sample
    assert load_player(str(export), load_export, sample=True).sample
    file = write_submission(tmp_path / "mine", ALWAYS_RIGHT)
    for path in (file, file.parent):
        player = load_player(str(path), load_export)
        assert isinstance(player, SubmissionPlayer) and player.path == file


def test_an_unknown_name_gets_the_nearest_and_all():
    with pytest.raises(UserError) as caught:
        load_player("gredy", load_export)
    message = str(caught.value)
    assert "'gredy'" in message and "the nearest team is greedy" in message
    for name in ("random", "level1", "greedy", "level3", "level4", "evasion", "hunter"):
        assert name in message
    assert "external" not in message
    with pytest.raises(UserError, match="no player 'external'"):
        ScriptedPlayer("external")


def test_paths_that_hold_no_player(tmp_path):
    with pytest.raises(UserError, match=r"holds neither export/ nor model.safetensors nor submission.py"):
        load_player(str(tmp_path), load_export)
    (tmp_path / "weights.bin").write_bytes(b"1")
    with pytest.raises(UserError, match=r"a .bin file, expected a submission"):
        load_player(str(tmp_path / "weights.bin"), load_export)
    write_submission(tmp_path, "def my_controller(:", "broken.py")
    with pytest.raises(UserError, match="is not a Python file"):
        load_player(str(tmp_path / "broken.py"), load_export)
    export = write_export(tmp_path / "export", wild_actor())
    (export / "config.json").write_text((export / "config.json").read_text().replace("24, 24", "24, 25"))
    with pytest.raises(UserError, match=r"layers\.1"):
        load_player(str(export), load_export)


FAILING = {
    "raises": (
        "def my_controller(*args):\n    return [[0, 0, 0, 1 / 0]]\n",
        "raised ZeroDivisionError: division by zero",
    ),
    "leaves": ("def my_controller(*args):\n    raise SystemExit(3)\n", "raised SystemExit: 3"),
    "nonsense": ("def my_controller(*args):\n    return [0, 0, 0, 1]\n", r"it returned \[0, 0, 0, 1\], expected \[\["),
    "nothing": ("def my_controller(*args):\n    pass\n", "it returned None"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_failing_submission_is_named_with_its_place(case, tmp_path):
    code, said = FAILING[case]
    file = write_submission(tmp_path, code)
    with pytest.raises(UserError, match=said) as caught:
        play_match(ScriptedPlayer("random"), SubmissionPlayer(file), 2, seed=0)
    message = str(caught.value)
    assert message.startswith(f"{file}: game 0, step 0, snake 3: my_controller") and "\n" not in message
    if case == "raises":
        assert "(line 2)" in message


def test_a_submission_that_fails_late_names_step_and_game(tmp_path):
    code = """
    calls = 0
    def my_controller(observation, action_space, is_act_continuous):
        global calls
        calls += 1
        assert calls < 3 * 7 + 2, "tired"
        return [[0, 0, 0, 1]]
    """
    with pytest.raises(UserError, match="game 0, step 7, snake 1: my_controller raised AssertionError: tired"):
        play_match(SubmissionPlayer(write_submission(tmp_path, code)), ScriptedPlayer("random"), 1, seed=0)


def test_files_without_a_controller_or_that_do_not_load(tmp_path):
    with pytest.raises(UserError, match="has no function my_controller"):
        SubmissionPlayer(write_submission(tmp_path, "x = 1", "a.py")).start(0)
    with pytest.raises(UserError, match="loading the file raised ModuleNotFoundError: No module named 'nowhere'"):
        SubmissionPlayer(write_submission(tmp_path, "import nowhere", "b.py")).start(0)
    with pytest.raises(UserError, match="not readable"):
        SubmissionPlayer(tmp_path / "absent.py")


def test_every_game_and_every_file_has_its_own_names(tmp_path):
    code = """
    import os
    from helper import MOVE
    calls = []
    def my_controller(observation, action_space, is_act_continuous):
        import later
        assert os.path.dirname(os.path.abspath(__file__)) == later.HOME
        calls.append(len(calls))
        return [[int(move == (MOVE + len(calls)) % 4) for move in range(4)]]
    """
    before = set(sys.modules), list(sys.path)
    running = []
    for number, name in enumerate(("one", "two")):
        folder = write_submission(tmp_path / name, code).parent
        write_submission(folder, f"MOVE = {number}", "helper.py")
        write_submission(folder, f"HOME = {str(folder)!r}", "later.py")
        player = SubmissionPlayer(folder)
        running += [player.start(0), player.start(1)]
    assert [game.act(START, 0) for game in running] == [1, 1, 2, 2]
    assert [game.act(START, 0) for game in running[:2]] == [2, 2]
    assert {"helper", "later"}.isdisjoint(sys.modules) and sys.path == before[1]


def test_draws_of_a_submission_repeat_and_leave_ours_alone(tmp_path):
    code = """
    import random, numpy, torch
    def my_controller(observation, action_space, is_act_continuous):
        action = random.randrange(4) + numpy.random.randint(4) + int(torch.randint(4, (1,))) + action_space[0].sample()
        return [[int(move == action % 4) for move in range(4)]]
    """
    player = SubmissionPlayer(write_submission(tmp_path, code))
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), np.random.random(), float(torch.rand(1))
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    results = [play_match(player, ScriptedPlayer("greedy"), 2, seed=3) for _ in range(2)]
    assert results[0] == results[1]
    assert (random.random(), np.random.random(), float(torch.rand(1))) == expected
    parts = [play_match(player, ScriptedPlayer("greedy"), 2, seed=3, first_game=g, game_count=1) for g in (1, 0)]
    assert parts[0] + parts[1] == results[0]


def test_seeds_of_games_differ():
    with own_generators():
        draws = set()
        for seed, game in ((0, 0), (0, 1), (1, 0)):
            seed_generators(seed, game)
            draws.add((random.random(), np.random.random(), float(torch.rand(1))))
    assert len(draws) == 3


def old_weights(talks: bool = False, inputs: int = 26) -> dict[str, torch.Tensor]:
    """Weights under the names of the original trainer."""
    generator = torch.Generator().manual_seed(4)
    wide = 16 if talks else 8
    shapes = {"prev_dense.0.weight": (8, inputs), "prev_dense.0.bias": (8,)}
    if talks:
        for suffix in ("", "_reverse"):
            for kind, shape in {"weight_ih": (32, 8), "weight_hh": (32, 8), "bias_ih": (32,), "bias_hh": (32,)}.items():
                shapes[f"comm_net.lstm.{kind}_l0{suffix}"] = shape
    shapes |= {"post_dense.0.weight": (8, wide), "post_dense.0.bias": (8,)}
    shapes |= {"post_dense.2.weight": (4, 8), "post_dense.2.bias": (4,)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def test_an_old_actor_computes_what_its_file_says(tmp_path):
    weights = old_weights()
    torch.save(weights, tmp_path / "actor_2000.pth")
    player = load_player(str(tmp_path / "actor_2000.pth"), load_export)
    assert player.features == "jidi26" and player.sample
    features = torch.randn(5, 3, 26)
    # The first layer of the original has no activation.
    hidden = features @ weights["prev_dense.0.weight"].T + weights["prev_dense.0.bias"]
    hidden = torch.relu(hidden @ weights["post_dense.0.weight"].T + weights["post_dense.0.bias"])
    expected = hidden @ weights["post_dense.2.weight"].T + weights["post_dense.2.bias"]
    torch.testing.assert_close(player.logits(features), expected)


def test_an_old_actor_that_communicates(tmp_path):
    torch.save(old_weights(talks=True), tmp_path / "actor.pth")
    actor = load_old_actor(tmp_path / "actor.pth")
    features = torch.randn(2, 3, 26)
    changed = features.clone()
    changed[:, 2] += 1.0
    assert actor(features).shape == (2, 3, 4)
    assert (actor(features)[:, 0] - actor(changed)[:, 0]).abs().max() > 1e-4


class Malicious:
    def __reduce__(self):
        return (print, ("this code must not run",))


def test_old_files_that_are_something_else(tmp_path, capsys):
    cases = {
        "code.pth": (Malicious(), "not readable as a file of weights"),
        "list.pth": ([1, 2], "holds list"),
        "other.pth": ({"weight": torch.zeros(2)}, "no tensor prev_dense.0.weight"),
        "wide.pth": (old_weights(inputs=35), "takes 35 numbers a snake, expected 26"),
        "part.pth": (
            {k: v for k, v in old_weights().items() if "post_dense.2" not in k},
            "post_dense.2.bias is missing",
        ),
        "critic.pth": ({**old_weights(), "post_dense.2.weight": torch.zeros(1, 8)}, "post_dense.2.weight is"),
    }
    for name, (content, said) in cases.items():
        torch.save(content, tmp_path / name)
        with pytest.raises(UserError, match=said):
            load_player(str(tmp_path / name), load_export)
    (tmp_path / "text.pth").write_text("no zip, no pickle")
    with pytest.raises(UserError, match="not readable as a file of weights"):
        load_player(str(tmp_path / "text.pth"), load_export)
    assert "must not run" not in capsys.readouterr().out
