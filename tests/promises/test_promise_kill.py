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
from runs import checkpoint_steps, last_step, unfinished_writes, wait_for, wait_for_step

SLOW_DISK = ("probes_disk:slow_fsync", "0.02")


def kill(process, condition, delay_s: float = 0.0) -> None:
    """SIGKILL to all processes of a run, a moment after `condition` holds."""
    assert wait_for(condition, process), f"the run ended before it could be killed\n{process.finish()}"
    time.sleep(delay_s)
    process.signal(signal.SIGKILL)
    assert process.finish().code == -signal.SIGKILL


def kill_while_writing(start, written, generator: random.Random, attempts: int = 8) -> None:
    """Kill a run while it writes, which what it leaves behind proves; `written()` are the temporary names there."""
    for _ in range(attempts):
        before = written()
        kill(start(), lambda before=before: written() - before, generator.uniform(0, 0.08))
        if written() - before:
            return
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
        return start(run, "--resume auto", probe=SLOW_DISK)

    kill(start(run), (run / "config.json").exists)
    assert checkpoint_steps(run) == []
    kill(resume(), lambda: last_step(run) >= 3, generator.uniform(0, 0.1))
    newest = checkpoint_steps(run)[-1]
    assert 2 <= newest < stage.case.steps
    kill_while_writing(resume, lambda: unfinished_writes(run / "checkpoints"), generator)
    assert newest <= checkpoint_steps(run)[-1] < stage.case.steps
    kill_while_writing(resume, lambda: unfinished_writes(run, "export"), generator)
    assert not (run / "results.json").exists() and not (run / "export").exists()
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
    assert time.monotonic() - killed < 20
    launching.wait_until_gone(ranks, 5)
    assert "SIGKILL" in ended.stderr
    assert 3 <= checkpoint_steps(run)[-1] < stage.case.steps
    ended = stage.pair(run, "--resume auto").finish()
    assert ended.code == 0 and resumed_step(ended) >= 3
    stage.outcome(run).assert_equal(pair)
