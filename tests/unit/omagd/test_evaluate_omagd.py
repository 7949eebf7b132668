"""scripts/evaluate_omagd.py: who plays what, the same result on any number of processes, and how its errors end."""

import json
from pathlib import Path

import pytest
import script_modules
from launching import ACCELERATE, CONFIGS, launch
from launching import environment as launching_environment
from squad_samples import described, network, write_squad

from lib.args import parse
from lib.errors import UserError
from lib.omagd.battles import layout_and_limit
from lib.omagd.evaluation import Trials, play_share
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.players import NetworkPlayer, ScriptedPlayer
from lib.seeds import derive

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "evaluate_omagd.py"


@pytest.fixture(scope="module")
def script():
    return script_modules.load("evaluate_omagd")


@pytest.fixture
def evaluate(script, tmp_path):
    def run(*argv):
        file = tmp_path / "result.json"
        flags = [*argv, "--device", "cpu", "--report_json", file]
        script.main(parse(script.Config, [str(word) for word in flags], script.ALIASES))
        return json.loads(file.read_text())

    return run


def test_a_team_is_measured_on_the_battles_of_its_run_beside_both_baselines(evaluate, tmp_path, capsys):
    export = write_squad(tmp_path / "export", network(), described(sight=5.0))
    found = evaluate("--checkpoint", export, "--episodes", 24, "--seed", 3)
    assert list(found["players"]) == [str(export), "nearest", "random"]
    assert found["battle"] == {"env": "embedded", **described(sight=5.0)} and found["battles"] == 24
    seed = derive(3, "evaluate") % 2**63
    test = Trials("3m", 24, seed=seed, rank=0, processes=1, device="cpu", sight=5.0)
    for name in ("nearest", "random"):
        tally = play_share(test, ScriptedPlayer(name).start)
        row = found["players"][name]
        assert (row["win_rate"], row["return"]) == (tally.mean("won"), tally.mean("returns"))
        assert row["interval"] == list(tally.interval()) and row["battles"] == 24
    assert (
        play_share(test, NetworkPlayer(network(), described()).start).mean("returns")
        == found["players"][str(export)]["return"]
    )
    assert found["win_rate"] == found["players"][str(export)]["win_rate"]
    out = capsys.readouterr().out
    assert out.startswith("3m, sight 5, seed 3") and "battles/s" in out and str(export) in out


def test_two_processes_play_what_one_plays(evaluate, tmp_path):
    one = evaluate("--checkpoint", "focus", "--map", "2s3z", "--episodes", 9, "--no_baselines")
    file = tmp_path / "two.json"
    words = ["--checkpoint", "focus", "--map", "2s3z", "--episodes", "9", "--no_baselines", "--report_json", file]
    command = [*ACCELERATE, "--config_file", CONFIGS / "cpu_2.yaml", SCRIPT, *words]
    ended = launch(command, launching_environment(tmp_path / "home"), limit_s=120)
    assert ended.code == 0, ended.stderr
    two = json.loads(file.read_text())
    assert two["players"] == one["players"] and list(one["players"]) == ["focus"]


def test_what_was_given_goes_before_what_the_run_had(evaluate, tmp_path):
    export = write_squad(tmp_path / "export", network(), described(sight=5.0, reward="damage"))
    found = evaluate("--checkpoint", export, "--episodes", 2, "--sight", 9, "--reward", "signed", "--no_baselines")
    assert found["battle"]["sight"] == 9.0 and found["battle"]["reward"] == "signed"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--checkpoint", "nix"), "no player 'nix'"),
        (("--checkpoint", "nearest", "--map", "3n"), "no such map, did you mean 3m"),
        (("--checkpoint", "nearest", "--sight", "1001"), "sight is 1001"),
        (("--checkpoint", "nearest", "--tick_rate", "3"), "16 or 22.4"),
    ],
)
def test_bad_input_ends_in_one_line(evaluate, flags, words, tmp_path):
    with pytest.raises(UserError, match=words) as refused:
        evaluate(*flags)
    assert "\n" not in str(refused.value) and not (tmp_path / "result.json").exists()


def test_a_team_of_another_map_is_refused(evaluate, tmp_path):
    export = write_squad(tmp_path / "export", network(), described())
    with pytest.raises(UserError, match="cannot play 2s3z"):
        evaluate("--checkpoint", export, "--map", "2s3z")


def test_a_game_of_others_is_measured_as_it_was_trained_or_as_asked(evaluate, games, tmp_path, capsys):
    """On stand-ins. An export of SMAC needs nothing but its folder; one of the embedded battles can be tried there."""
    layout, _ = layout_and_limit("smac", "2s3z", {})
    agent = Agent(AgentConfig(layout.obs_size, layout.n_actions, layout.n_agents, hidden=8))
    trained = {"env": "smac", "map": "2s3z", "observe": "full_obs", "env_args": {"difficulty": "3"}}
    foreign = write_squad(tmp_path / "foreign", agent, trained)
    found = evaluate("--checkpoint", foreign, "--episodes", 5, "--batch_size_run", 2)
    assert found["battle"] == trained and list(found["players"]) == [str(foreign), "nearest", "random"]
    assert all(row["battles"] == 5 and row["steps"] > 1 for row in found["players"].values())
    assert "2s3z, seed 0; the enemies are StarCraft II's built-in bot, difficulty 3" in capsys.readouterr().out
    asked = ("--env_args", "difficulty=A", "--no_baselines", "--episodes", 2)
    assert evaluate("--checkpoint", foreign, *asked)["battle"]["env_args"] == {"difficulty": "A"}
    own = write_squad(tmp_path / "own", network("2s3z"), described("2s3z", smac_type_bits="raw"))
    there = evaluate("--checkpoint", own, "--env", "sc2", "--no_baselines", "--episodes", 2)
    assert there["battle"] == {"env": "smac", "map": "2s3z", "observe": "obs", "env_args": {}}
    back = evaluate("--checkpoint", foreign, "--env", "embedded", "--no_baselines", "--episodes", 2)
    assert back["battle"] == {"env": "embedded", **described("2s3z", observe="full_obs", smac_type_bits="raw")}
    aligned = write_squad(tmp_path / "aligned", network("2s3z"), described("2s3z"))
    near = write_squad(tmp_path / "near", network("3m"), described("3m", sight=5.0))
    assert evaluate("--checkpoint", "nearest", "--env", "smac", "--map", "3m", "--no_baselines")["battles"] == 32
    for words, flags in (
        ("--map is missing", ("nearest", "--env", "smac")),
        ("in --env smac it is 9.0 and cannot be chosen", (foreign, "--sight", 5)),
        ("smac has no sight_range that may be chosen here", (foreign, "--env_args", "sight_range=5")),
        ("--env embedded has no difficulty .* it has none", (own, "--env_args", "difficulty=5")),
        ("cannot play 3m", (foreign, "--map", "3m")),
        ("smac_type_bits aligned, in smac it is raw: what the network is told", (aligned, "--env", "smac")),
        ("sight 5.0, in smac it is 9.0", (near, "--env", "smac")),
        ("embedded battles are all played at once", (own, "--batch_size_run", 3)),
    ):
        with pytest.raises(UserError, match=words):
            evaluate("--checkpoint", *flags, "--episodes", 2)


def test_what_an_export_says_of_a_game_of_others_is_checked(evaluate, tmp_path):
    trained = {"env": "smac", "map": "3m", "observe": "obs", "env_args": {}}
    for changes, words in (
        ({"env": "chess"}, "battle.env of its config.json is 'chess': expected one of smac, smacv2, smaclite"),
        ({"map": 3}, "battle.map of its config.json is 3"),
        ({"env_args": None}, "battle.env_args of its config.json is None"),
        ({"env_args": {"seed": 2}}, "has seed = 2: smac takes none such"),
        ({"env_args": {"difficulty": 7}}, "has difficulty = 7: smac takes none such"),
        ({"sight": 9.0}, "battle.sight of its config.json is not known"),
    ):
        export = write_squad(tmp_path / "export", network(), trained | changes)
        with pytest.raises(UserError, match=words):
            evaluate("--checkpoint", export)
