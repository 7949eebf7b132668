"""SIGTERM: the step is finished, the state saved, everything gone within a grace period, and the run can go on."""

import re
import signal
import time

import launching
import pytest
from runs import checkpoint_steps, last_step, wait_for, wait_for_step

GRACE_S = 20.0  # a step, a save and the end of the processes, on a loaded machine


def assert_stopped(stage, run, ended) -> int:
    """The words and the state of a run that a signal ended; returns the step it stopped after."""
    said = re.findall(
        r"^stopped by (?:SIGTERM|a signal) after step (\d+): continue with --resume auto$", ended.stdout, re.MULTILINE
    )
    assert len(said) == 1, ended.stdout + ended.stderr
    step = int(said[0])
    assert 0 < step < stage.case.steps
    # Saved because of the signal: the run itself would not have saved there.
    assert checkpoint_steps(run)[-1] == step == last_step(run)
    assert not (run / "results.json").exists() and not (run / "export").exists()
    return step


@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_to_the_processes(stage, request, processes):
    """With two, only rank 1 is told: the ranks agree."""
    reference = request.getfixturevalue({1: "alone", 2: "pair"}[processes])
    start = {1: stage.alone, 2: stage.pair}[processes]
    run = stage.folder / f"stopped_{processes}"
    process = start(run, "--save_every 1000")
    assert wait_for(lambda: last_step(run) >= 4, process)
    told = process if processes == 1 else process.ranks[1]
    told.signal(signal.SIGTERM)
    begun = time.monotonic()
    ended = process.finish()
    assert ended.code == 0 and ended.stderr == "", ended.stderr
    assert time.monotonic() - begun < GRACE_S
    step = assert_stopped(stage, run, ended)
    ended = start(run, "--resume auto").finish()
    assert ended.code == 0 and f"at step {step}\n" in ended.stdout
    stage.outcome(run).assert_equal(reference)


def test_sigterm_to_the_launcher(stage, pair):
    run = stage.folder / "stopped_launch"
    process = stage.launched(run, "--save_every 1000")
    ranks = wait_for_step(process, run, 4)
    assert len(ranks) == 2
    process.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    ended = launching.finish(process)
    launching.wait_until_gone(ranks, 5)
    assert time.monotonic() - begun < GRACE_S
    # torchelastic itself ends by the signal it was given.
    assert ended.code != 0
    assert_stopped(stage, run, ended)
    assert stage.pair(run, "--resume auto").finish().code == 0
    stage.outcome(run).assert_equal(pair)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_sigterm_during_an_evaluation(stage, alone, count):
    """No evaluation is lost or done twice: the best weights, taken at the end, do not depend on the signal."""
    run = stage.folder / f"interrupted_{count}"
    ended = stage.alone(run, probe=("probes_signals:interrupt_call", stage.case.evaluation, count)).finish()
    assert ended.code == 0 and ended.stderr == "", ended.stderr
    done = "stopped by SIGTERM" not in ended.stdout
    assert done == (run / "results.json").exists()
    if not done:
        assert stage.alone(run, "--resume auto").finish().code == 0
    stage.outcome(run).assert_equal(alone)


def test_sigterm_at_the_end(stage, alone):
    """While the last evaluation and the export are made: either they are finished, or the run can go on."""
    run = stage.folder / "stopped_late"
    process = stage.alone(run)
    assert wait_for(lambda: stage.case.steps in checkpoint_steps(run), process)
    process.signal(signal.SIGTERM)
    ended = process.finish()
    assert ended.code == 0 and ended.stderr == ""
    if not (run / "results.json").exists():
        assert "stopped by SIGTERM" in ended.stdout
        assert stage.alone(run, "--resume auto").finish().code == 0
    stage.outcome(run).assert_equal(alone)
