"""A run that ended and is given more updates goes on as if it had been asked for all of them at once."""

import pytest
from omagd_case import OMAGD, RECONSTRUCTED
from snakes_case import SNAKES


# The other trainers' learning rates follow the number of updates: theirs is another run.
@pytest.mark.parametrize("case", [OMAGD, RECONSTRUCTED, SNAKES], ids=lambda case: case.name)
@pytest.mark.parametrize("processes", [1, 2])
def test_more_updates_later(stages, case, processes):
    """Also what is played between a backward pass and its step, and targets that follow on a schedule."""
    stage = stages(case)
    start, name = {1: (stage.alone, "alone"), 2: (stage.pair, "pair")}[processes]
    whole = stage.once(name, lambda run: start(run).finish())
    run = stage.folder / f"longer_{processes}"
    half = case.steps // 2
    ended = start(run, f"--max_steps {half}").finish()
    assert ended.code == 0, ended.stderr
    ended = start(run, f"--max_steps {case.steps} --resume auto").finish()
    assert ended.code == 0 and f"at step {half}\n" in ended.stdout, ended.stderr
    stage.outcome(run).assert_equal(whole)
