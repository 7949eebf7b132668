"""Options, messages and a training run on a game of others; on stand-ins."""

import json
import os
import sys

import pytest
from fake_games import AUTOML, write
from foreign_samples import checked, forget, options
from trainer_case import ROOT
from warm import Warm

from lib.errors import UserError
from lib.omagd import reporting
from lib.omagd.battle.maps import find_map
from lib.omagd.battles import layout_and_limit
from lib.omagd.foreign import packages
from lib.omagd.foreign.choose import start_game
from lib.omagd.options import check_options
from lib.omagd.progress import Plan, Progress


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--env smac --map 3n", r"--map 3n: --env smac has no such map, did you mean 3m\? There are 3m, 2s3z, MMM"),
        ("--env smaclite --map 3m", r"--env smaclite has no such map, .*There are 2s3z, MMM"),
        ("--env smacv2 --map 3m", "10gen_terran, 10gen_zerg, 10gen_protoss .*of SMAC are played by --env smac"),
        ("--env smac --sight 6", "--sight 6.0: in --env smac it is 9.0"),
        ("--env smac --tick_rate 16", "--tick_rate 16.0: in --env smac it is 22.4"),
        ("--env smac --reward signed", "--reward signed: in --env smac it is smac_abs"),
        ("--env smac --spawn_jitter 0.1", "--spawn_jitter: --env smac has no such option"),
        ("--env smaclite --map 2s3z --leaky_mask", "--leaky_mask: --env smaclite has no such option"),
        ("--env smacv2 --map 10gen_protoss --sight 9", "--sight: --env smacv2 has no such option"),
        ("--env smac --env_args level=3", "--env smac has no level that may be chosen here, there are difficulty"),
        ("--env smacv2 --env_args prob_obs_enemy=some", "expected prob_obs_enemy=a number"),
        ("--env smacv2 --env_args action_mask=maybe", "expected action_mask=true or false"),
        ("--env_args difficulty=7", "--env embedded has no difficulty that may be chosen here, it has none"),
        ("--test_interval 100 --eval_every 3", "give one"),
        ("--env smac --buffer_steps 639", "cannot hold 32 episodes of 3m, which last up to 20 steps: give 640 or more"),
    ],
)  # fmt: skip
def test_options_that_a_game_does_not_have(games, flags, words):
    with pytest.raises(UserError, match=words):
        checked(flags)


def test_options_that_a_game_has(games):
    config = options(
        "--env sc2 --map 2s3z --sight 9 --tick_rate 22.4 --reward smac_abs --env_args difficulty=A,game_version=4.10"
    )
    assert config.env == "smac"
    assert check_options(config) == [
        "--env smac: --batch_size_run 8, --test_nepisode 32, --final_nepisode 32, --epsilon_anneal_time 50000"
        " unless given"
    ]
    assert config.battle_options() == {"env_args": {"difficulty": "A", "game_version": "4.10"}}
    assert (config.batch_size_run, config.test_nepisode, config.smac_type_bits, config.spawn_jitter) == (
        8,
        32,
        "raw",
        None,
    )
    sizes = config.qmix_config()
    assert (sizes.agent.obs_size, sizes.agent.n_actions, sizes.state_size) == (80, 11, 120)
    game = start_game("smac", "2s3z", 3, config.game_arguments())
    assert game._env.difficulty == "A" and game._env._seed == 3
    config = options(
        "--env sc2_v2 --map terran_4_vs_3 --batch_size_run 4 --env_args action_mask=false,prob_obs_enemy=0"
    )
    check_options(config)
    assert (config.env, config.batch_size_run, config.test_nepisode, config.sight) == ("smacv2", 4, 32, None)
    assert config.game_arguments() == {"action_mask": False, "prob_obs_enemy": 0.0}
    plan = Plan(config, start_game("smacv2", "terran_4_vs_3", 0, {}).map, 1)
    layout, _ = layout_and_limit("smacv2", "terran_4_vs_3", {})
    assert plan.first_update == 9 * 20  # one more than it takes, for one that may fail
    _, facts = reporting.plan_notes(config, 5, plan, layout, 1)
    assert "terran_4_vs_3 of smacv2, 4 against 3, sight of each type" in facts["battles"]
    assert "difficulty 7" in reporting.enemies_of("smacv2", config.game_arguments())


def test_what_is_missing_is_said_in_one_line(games_folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    lines = {
        "smac": "pip install git+https://github.com/oxwhirl/smac.git; what the package index calls smac is another",
        "smacv2": "the package is not installed: pip install git+https://github.com/oxwhirl/smacv2.git",
        "smaclite": "the package is not installed: pip install git+https://github.com/uoe-agents/smaclite.git",
    }
    for env, words in lines.items():
        with pytest.raises(UserError) as error:
            checked(f"--env {env}")
        assert words in str(error.value) and "\n" not in str(error.value)
    write(tmp_path, AUTOML)  # its import would end the test
    with pytest.raises(
        UserError, match="is AutoML's optimiser, not the game: pip uninstall smac, then pip install git"
    ):
        packages.find_package("smac", "env")
    assert "smac" not in sys.modules
    broken = {"smacv2/__init__.py": "", "smacv2/env/__init__.py": "import pysc2_is_not_here\n"}
    write(tmp_path, broken | {"smacv2/env/starcraft2/__init__.py": ""})
    with pytest.raises(UserError, match=r"cannot be imported \(.*No module named 'pysc2_is_not_here'"):
        packages.find_package("smacv2", "env")
    write(tmp_path, {"smacv2/env/__init__.py": "StarCraft2Env = 1\n"})
    forget()
    with pytest.raises(UserError, match=r"has no smacv2\.env\.StarCraftCapabilityEnvWrapper"):
        packages.find_package("smacv2", "env")
    forget()


def test_starcraft_that_is_missing_is_said_in_one_line(games, tmp_path):
    games.setenv("SC2PATH", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"there is no StarCraft II in .*nowhere: install it .* and set SC2PATH"):
        checked("--env smac --map 3m")
    tmp_path.joinpath("Versions").mkdir()
    games.setenv("SC2PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"there is no .*SMAC_Maps: unpack SMAC_Maps\.zip"):
        checked("--env smacv2 --map 10gen_protoss")
    checked("--env smaclite --map 2s3z")  # needs none


def test_names_of_pymarl(games):
    config = options("--grad_norm_clip 5 --hidden_dim 32 --test_interval 700")
    assert (config.max_grad_norm, config.rnn_hidden_dim, config.test_interval) == (5.0, 32, 700)
    plan, progress = Plan(config, find_map("3m"), 1), Progress()
    tested = []
    for step in range(1, 31):
        progress.step, progress.env_steps = step, 256 * step
        if plan.test_due(progress):
            tested.append(progress.env_steps)
            progress.judged(0.5)
            assert not plan.test_due(progress)
    assert tested == list(range(768, 256 * 31, 768))  # each time 700 steps or more since the last, at an update
    assert Progress(**progress.to_dict()).tested_env_steps == tested[-1]
    plan = Plan(options("--eval_every 4"), find_map("3m"), 1)
    assert [step for step in range(10) if plan.test_due(Progress(step=step))] == [4, 8]
    assert not plan.test_due(Progress(step=4, validated_step=4))
    assert not Plan(options("--eval_every 0"), find_map("3m"), 1).test_due(Progress(step=4))


TRAINING = (
    "--env smac --map 3m --batch_size_run 3 --per_device_batch_size 3 --buffer_size 60 --rnn_hidden_dim 8 "
    "--steps_per_update 6 --target_update_interval 4 --test_interval 30 --test_nepisode 3 --final_nepisode 4 "
    "--log_every 1 --report_to none --no_visualize --save_every 10 --output_dir run"
)


def test_a_run_that_fails_once_is_trained_and_resumed(games_folder, tmp_path):
    """Twenty updates on a game that fails, six more, and what does not go on from there."""
    here = [str(games_folder), str(ROOT / "tests" / "unit" / "omagd"), str(ROOT)]
    environ = {
        **os.environ, "PYTHONPATH": os.pathsep.join([*here, os.environ.get("PYTHONPATH", "")]),
        "SC2PATH": str(games_folder / "starcraft"), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    tmp_path.joinpath("scratch").mkdir()
    with Warm(ROOT / "scripts" / "train_omagd.py", environ, tmp_path / "scratch") as warm:
        # Games 1 to 3 are made to look at the map; the training's are 4 to 6.
        failing = {"FAKE_GAME_FAILS": json.dumps({"4": [20, "silent"]})}
        first = warm.run([*TRAINING.split(), "--max_steps", "20"], tmp_path, environ=failing)
        assert first.code == 0, first.stdout + first.stderr
        rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
        results = json.loads((tmp_path / "run/results.json").read_text())
        export = json.loads((tmp_path / "run/export/config.json").read_text())
        again = warm.run([*TRAINING.split(), "--max_steps", "26", "--resume", "auto"], tmp_path)
        assert again.code == 0, again.stdout + again.stderr
        resumed = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
        lite = TRAINING.replace("--env smac --map 3m", "--env smaclite --map 2s3z") + " --max_steps 30 --resume auto"
        other = warm.run(lite.split(), tmp_path)
        own = warm.run(
            [*TRAINING.replace("--env smac ", "").split(), "--max_steps", "30", "--resume", "auto"], tmp_path
        )
        none_begins = {"FAKE_GAME_FAILS": json.dumps({str(number): [0, "raise"] for number in range(1, 99)})}
        asked = "--env sc2 --map 3m --dry_run --report_to none"
        dry = warm.run(asked.split(), tmp_path, environ=none_begins)
    notes = [row["note"] for row in rows if "note" in row]
    assert any("failed (StarCraft II has ended" in note for note in notes), notes
    assert not any("--batch_size_run 8" in note for note in notes)
    trained = [row for row in rows if "loss" in row]
    assert [row["step"] for row in trained] == list(range(1, 21)) and trained[-1]["restarts"] == 1
    assert sum("test/win_rate" in row for row in rows) >= 3
    assert (results["env"], results["updates"], results["battles_test"], results["sight"]) == ("smac", 20, 4, 9.0)
    assert export["battle"] == {"env": "smac", "map": "3m", "observe": "obs", "env_args": {}}
    assert "built-in bot, difficulty 7" in (tmp_path / "run/export/README.md").read_text()
    notes = [row["note"] for row in resumed if "note" in row]
    assert any("battles begin anew: those of smac cannot be saved; the replay is kept" in note for note in notes), notes
    assert [row["step"] for row in resumed if "loss" in row][-6:] == [21, 22, 23, 24, 25, 26]
    assert (
        own.code == 2 and "--env is embedded, and run/checkpoints/step-00000026 was trained with smac" in own.errors[0]
    )
    assert other.code == 2 and "env smac -> smaclite" in other.stdout and "of another architecture" in other.errors[0]
    assert dry.code == 0 and "3m of smac, 3 against 3, sight 9" in dry.stdout, dry
