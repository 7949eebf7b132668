"""kill -9 at any moment, then --resume auto: bit-equal to the run that was not killed.

The moments are seen from outside, by watching the run directory. benchmarks/kill_resume.py does the same ten times at
random moments with real launches.
"""

import os
import random
import re
import signal
import time

import launching
import pytest
from runs import checkpoint_steps, exporting, last_step, saving, wait_for, wait_for_step


def kill(process, run, condition, delay_s: float = 0.0) -> bool:
    """SIGKILL to all processes of a run as soon as `condition` holds; False when the run ended before."""
    if not wait_for(condition, process):
        process.finish()
        return False
    time.sleep(delay_s)
    process.signal(signal.SIGKILL)
    code = process.finish().code
    return code == -signal.SIGKILL


def kill_while(start, run, condition, left_behind, attempts: int = 8) -> int:
    """Kill runs started by `start` until one was hit while it wrote, which what it left proves; the number of kills."""
    for number in range(1, attempts + 1):
        killed = kill(start(), run, condition)
        if killed and left_behind():
            return number
        assert killed, "the run ended before it was seen writing"
    raise AssertionError(f"in {attempts} attempts the writing was never hit")


def resumed_step(ended) -> int:
    """The step that a run said it continues from."""
    return int(re.search(r"^resuming from .* at step (\d+)$", ended.stdout, re.MULTILINE)[1])


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_again_and_again(stage, request, processes):
    """Before the first checkpoint, between steps, while a checkpoint is written, while the export is written."""
    reference = request.getfixturevalue({1: "alone", 2: "pair"}[processes])
    start = {1: stage.alone, 2: stage.pair}[processes]
    run = stage.folder / f"killed_{processes}"
    generator = random.Random(processes)

    def resume():
        return start(run, "--resume auto")

    assert kill(start(run), run, (run / "config.json").exists)
    assert checkpoint_steps(run) == []
    assert kill(resume(), run, lambda: last_step(run) >= 3, generator.uniform(0, 0.1))
    newest = checkpoint_steps(run)[-1]
    assert 2 <= newest < stage.case.steps
    kill_while(resume, run, lambda: last_step(run) > newest and saving(run), lambda: saving(run))
    newest = checkpoint_steps(run)[-1]
    assert newest < stage.case.steps
    kill_while(resume, run, lambda: exporting(run), lambda: exporting(run) or not (run / "results.json").exists())
    assert not (run / "results.json").exists()
    ended = resume().finish()
    assert ended.code == 0 and ended.stderr == "", ended.stderr
    assert resumed_step(ended) == stage.case.steps
    stage.outcome(run).assert_equal(reference)
    # What the killed writes left has been cleared away.
    assert [path.name for path in run.rglob(".*")] == []


def test_one_killed_rank_ends_the_launch(stage, pair):
    """Under accelerate launch: the others leave, nobody is orphaned, and the run continues."""
    run = stage.folder / "one_rank"
    process = stage.launched(run)
    ranks = wait_for_step(process, run, 4)
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.monotonic()
    ended = launching.finish(process)
    assert ended.code != 0
    assert time.monotonic() - killed < 30
    launching.wait_until_gone(ranks, 5)
    assert "Traceback" not in ended.stderr.split("ChildFailedError")[0] or "SIGKILL" in ended.stderr
    assert 3 <= checkpoint_steps(run)[-1] < stage.case.steps
    ended = stage.pair(run, "--resume auto").finish()
    assert ended.code == 0 and resumed_step(ended) >= 3
    stage.outcome(run).assert_equal(pair)
