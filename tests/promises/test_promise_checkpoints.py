"""A truncated, corrupted or foreign checkpoint is named and skipped (auto) or refused (a path), never half-loaded."""

import json
import shutil

import pytest
from runs import checkpoint_steps, tree

from lib import manifests


def truncate(checkpoint) -> str:
    file = checkpoint / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return "model.safetensors has "


def corrupt(checkpoint) -> str:
    file = checkpoint / "optimizer.safetensors"
    content = bytearray(file.read_bytes())
    content[-50] ^= 1
    file.write_bytes(content)
    return "optimizer.safetensors is corrupted: its sha256"


def lose(checkpoint) -> str:
    (checkpoint / "state.json").unlink()
    return "state.json is missing"


def forge(checkpoint) -> str:
    """Whole and well signed, but of another trainer."""
    file = checkpoint / manifests.MANIFEST
    content = json.loads(file.read_text(encoding="utf-8")) | {"trainer": "stranger"}
    content["manifest_sha256"] = manifests._digest(content)
    file.write_text(json.dumps(content), encoding="utf-8")
    return "was written by stranger"


def unsign(checkpoint) -> str:
    (checkpoint / manifests.MANIFEST).write_text("{", encoding="utf-8")
    return "not readable as JSON"


DAMAGES = (truncate, corrupt, lose, forge, unsign)


def unfinished(stage, alone, name: str):
    """A copy of the undisturbed run as it was before its results."""
    run = stage.folder / name
    shutil.copytree(alone.run, run)
    shutil.rmtree(run / "export")
    (run / "results.json").unlink()
    return run


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_checkpoint_is_refused_by_path(stage, alone, damage):
    run = unfinished(stage, alone, f"refused_{damage.__name__}")
    newest = run / "checkpoints" / f"step-{stage.case.steps:08d}"
    words = damage(newest)
    before = tree(run)
    ended = stage.alone(None, f"--resume {newest}").finish()
    assert ended.code == 2
    assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1
    assert words in ended.stderr and str(newest) in ended.stderr
    assert tree(run) == before


def test_damaged_checkpoints_are_skipped_by_auto(stage, alone):
    """The two newest are damaged, each in its own way: the third is taken, and the end is the same."""
    steps = stage.case.steps
    run = unfinished(stage, alone, "skipped")
    assert checkpoint_steps(run)[-3:] == [steps - 2, steps - 1, steps]
    words = [
        damage(run / "checkpoints" / f"step-{step:08d}") for damage, step in ((corrupt, steps), (forge, steps - 1))
    ]
    ended = stage.alone(run, "--resume auto").finish()
    assert ended.code == 0 and ended.stderr == "", ended.stderr
    for step, word in zip((steps, steps - 1), words):
        (line,) = [
            line for line in ended.stdout.splitlines() if line.startswith(f"skipped checkpoint step-{step:08d}: ")
        ]
        assert word in line
    assert f"at step {steps - 2}\n" in ended.stdout
    stage.outcome(run).assert_equal(alone)


def test_without_any_usable_one_auto_says_so_and_touches_nothing(stage, alone):
    run = unfinished(stage, alone, "hopeless")
    steps = checkpoint_steps(run)
    for step in steps:
        truncate(run / "checkpoints" / f"step-{step:08d}")
    before = tree(run)
    ended = stage.pair(run, "--resume auto").finish()
    assert ended.code == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: --resume auto: no usable checkpoint in ") and "nothing was touched" in line
    assert all(f"step-{step:08d}/model.safetensors has " in line for step in steps)
    assert tree(run) == before


def test_a_checkpoint_of_another_model_is_refused_and_left_alone(stage, alone):
    run = unfinished(stage, alone, "other_model")
    before = tree(run)
    ended = stage.alone(run, "--resume auto", stage.case.other_model).finish()
    assert ended.code == 2 and ended.stderr.count("\n") == 1
    assert "is of another architecture" in ended.stderr and "config.json" in ended.stderr
    assert tree(run) == before
    # The run can still be continued with its own options.
    ended = stage.alone(run, "--resume auto").finish()
    assert ended.code == 0 and "resumed with other options" not in ended.stdout
    stage.outcome(run).assert_equal(alone)


def test_more_processes_continue_and_are_told(stage, alone):
    run = unfinished(stage, alone, "more_processes")
    shutil.rmtree(run / "checkpoints" / f"step-{stage.case.steps:08d}")
    ended = stage.pair(run, "--resume auto").finish()
    assert ended.code == 0
    assert "was written by 1 processes, this run has 2" in ended.stdout
    results = stage.outcome(run).results
    assert (results["steps"], results["processes"]) == (stage.case.steps, 2)
