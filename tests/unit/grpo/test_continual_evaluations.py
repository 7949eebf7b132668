"""Trials of several processes become one evaluation, whatever their order."""

import random

import pytest

from lib.errors import UserError
from lib.grpo.continual.evaluations import (
    Evaluation,
    do_nothing_success,
    evaluations_of,
    outcome,
    pooled_counts,
    read_stage,
    write_stage,
)
from lib.grpo.continual.tasks import TaskRow, gather_tasks
from lib.grpo.trajectory import Trajectory

POOLS = {
    "airline": (TaskRow("airline", "1", "add_bags", 5, 0), TaskRow("airline", "2", "change_date", 6, 1)),
    # The same ids: a task is known by its domain too.
    "retail": (TaskRow("retail", "1"), TaskRow("retail", "2")),
}
# Successes of the trials of each task.
TRIALS = {
    ("airline", "1"): [1, 1, 0, 1],
    ("airline", "2"): [0, 0, 0, 0],
    ("retail", "1"): [1, 1, 1, 1],
    ("retail", "2"): [0, 1, 0, 1],
}


def trial(domain: str, task: str, sample: int, success: int) -> Trajectory:
    found = Trajectory(domain, task, 0, sample, [0] * 20, 2, 5, [(5, 8)], reward=success + 0.05, success=float(success))
    found.end, found.turns, found.truncated = "user_stop" if success else "max_turns", sample + 1, not success
    found.error = "boom" if (task, sample) == ("2", 0) and domain == "airline" else None
    found.facts = {"tools": {"cancel": [2, 1, success]}}
    return found


def rows() -> list[dict]:
    return [
        outcome(trial(*key, sample, success))
        for key, successes in TRIALS.items()
        for sample, success in enumerate(successes)
    ]


def test_evaluation_counts_every_trial_of_every_task():
    found = evaluations_of(rows(), POOLS)
    airline = found["airline"]
    assert airline.counts == {"1": (4, 3), "2": (4, 0)} and airline.trials == 8
    assert airline.success.value == 3 / 8 and 0 <= airline.success.low < 3 / 8 < airline.success.high
    assert (airline.reward, airline.turns, airline.sampled_tokens) == (pytest.approx(3 / 8 + 0.05), 2.5, 3)
    assert (airline.good_ends, airline.truncated, airline.errors) == (3 / 8, 5, 1)
    assert airline.tools == {"cancel": [16, 8, 3]}
    assert airline.by_level == {"0": [4, 3], "1": [4, 0]}
    assert airline.by_template == {"add_bags": [4, 3], "change_date": [4, 0]}
    assert found["retail"].counts == {"1": (4, 4), "2": (4, 2)} and found["retail"].by_level == {}
    assert pooled_counts(found) == [(4, 3), (4, 0), (4, 4), (4, 2)]


def test_order_of_the_rows_does_not_matter():
    shuffled = rows()
    random.Random(3).shuffle(shuffled)
    assert evaluations_of(shuffled, POOLS) == evaluations_of(rows(), POOLS)


def test_lost_and_foreign_trials_are_noticed():
    kept = [row for row in rows() if (row["domain"], row["task_id"]) != ("retail", "2")]
    with pytest.raises(AssertionError, match="retail/2 was not tried"):
        evaluations_of(kept, POOLS)
    with pytest.raises(AssertionError, match="tasks of no pool"):
        evaluations_of(rows(), {"airline": POOLS["airline"]})


def test_one_trial_a_task_gets_an_interval_that_is_never_a_point():
    single = Evaluation("airline", {str(task): (1, 1) for task in range(10)}, 1.0, 1.0, 1.0, 1.0, 0, 0)
    assert single.success.value == 1.0 and 0.6 < single.success.low < 0.8


def test_stage_files_are_read_back(tmp_path):
    found = evaluations_of(rows(), POOLS)
    write_stage(tmp_path, 1, found, [[0.0, 0.5], [0.375, 0.75]], (1, 2))
    assert read_stage(tmp_path, 1) == found
    assert '"fwt": 0.25' in (tmp_path / "stage_1" / "matrix.json").read_text()
    with pytest.raises(UserError, match="no such file"):
        read_stage(tmp_path, 2)


def test_doing_nothing_solves_no_generated_task():
    sets = gather_tasks(("airline", "telecom"), seed=0, levels=(0, 2), tasks_per_domain=1, eval_tasks=6)
    assert [do_nothing_success(pool, sets.make) for pool in sets.evaluation.values()] == [0.0, 0.0]
