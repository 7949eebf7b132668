"""Trials on evaluation tasks: what one process reports, and what all of them together amount to.

    rows = gather_rows(accelerator, [outcome(trajectory) for trajectory in mine])
    evaluations = evaluations_of(rows, task_sets.evaluation)
    matrix.append([evaluations[domain].success.value for domain in curriculum.domains])

Rows come in any order and from any number of processes; the numbers do not depend on either.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from lib.files import atomic_write_json, read_json
from lib.grpo.agents import do_nothing, run_agent
from lib.grpo.continual import scores
from lib.grpo.continual.tasks import TaskRow
from lib.grpo.reward import GOOD_ENDS
from lib.grpo.task import Task
from lib.grpo.trajectory import Trajectory


def outcome(trajectory: Trajectory) -> dict:
    """What is kept of a trial, as JSON. `facts["tools"]` may hold `scores.count_calls` of the episode."""
    return {
        "domain": trajectory.domain,
        "task_id": trajectory.task_id,
        "sample": trajectory.sample,
        "success": trajectory.success,
        "reward": trajectory.reward,
        "turns": trajectory.turns,
        "sampled_tokens": trajectory.sampled_tokens,
        "end": trajectory.end,
        "truncated": trajectory.truncated,
        "error": trajectory.error,
        "tools": trajectory.facts.get("tools", {}),
    }


@dataclass(frozen=True)
class Evaluation:
    """Trials on the tasks of one domain. `counts` are (trials, successes) of each task id, in the order of the pool.

    `tools` are sums of `scores.count_calls`; means are over trials; `by_level` and `by_template` are [trials,
    successes] of generated tasks.
    """

    domain: str
    counts: dict[str, tuple[int, int]]
    reward: float
    turns: float
    sampled_tokens: float
    good_ends: float
    truncated: int
    errors: int
    tools: dict[str, list[int]] = field(default_factory=dict)
    by_level: dict[str, list[int]] = field(default_factory=dict)
    by_template: dict[str, list[int]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(self.counts.values())

    @property
    def trials(self) -> int:
        return sum(trials for trials, _ in self.pairs)

    @cached_property
    def success(self) -> scores.Interval:
        """Mean over tasks; the interval of one trial a task is Wilson's, else the bootstrap over tasks."""
        if all(trials == 1 for trials, _ in self.pairs):
            return scores.wilson(self.trials, sum(successes for _, successes in self.pairs))
        return scores.success_of(self.pairs)

    def to_json(self) -> dict:
        """The fields, and the success with its interval for people."""
        return {**asdict(self), "success": asdict(self.success)}

    @classmethod
    def of_json(cls, data: dict) -> "Evaluation":
        values = {name: value for name, value in data.items() if name != "success"}
        values["counts"] = {task: tuple(pair) for task, pair in values["counts"].items()}
        return cls(**values)


def evaluations_of(rows: Iterable[dict], pools: dict[str, Sequence[TaskRow]]) -> dict[str, Evaluation]:
    """domain -> Evaluation, in the order of `pools`, from the `outcome` rows of all processes.

    Every task must have been tried, and nothing else.
    """
    tried: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["domain"], row["task_id"], row["sample"])):
        tried[row["domain"], row["task_id"]].append(row)
    found = {domain: _evaluation(domain, pool, tried) for domain, pool in pools.items()}
    known = {task.key for pool in pools.values() for task in pool}
    assert tried.keys() <= known, f"trials of tasks of no pool: {sorted(tried.keys() - known)[:3]}"
    return found


def _evaluation(domain: str, pool: Sequence[TaskRow], tried: dict[tuple[str, str], list[dict]]) -> Evaluation:
    counts, by_level, by_template = {}, defaultdict(lambda: [0, 0]), defaultdict(lambda: [0, 0])
    trials = []
    for task in pool:
        rows = tried.get(task.key)
        assert rows, f"task {task.domain}/{task.id} was not tried"
        successes = sum(row["success"] == 1.0 for row in rows)
        counts[task.id] = (len(rows), successes)
        trials += rows
        if task.template is not None:
            for sums in (by_level[str(task.level)], by_template[task.template]):
                sums[0] += len(rows)
                sums[1] += successes
    return Evaluation(
        domain,
        counts,
        reward=sum(row["reward"] for row in trials) / len(trials),
        turns=sum(row["turns"] for row in trials) / len(trials),
        sampled_tokens=sum(row["sampled_tokens"] for row in trials) / len(trials),
        good_ends=sum(row["end"] in GOOD_ENDS for row in trials) / len(trials),
        truncated=sum(row["truncated"] for row in trials),
        errors=sum(row["error"] is not None for row in trials),
        tools=scores.add_counts(row["tools"] for row in trials),
        by_level=dict(sorted(by_level.items())),
        by_template=dict(sorted(by_template.items())),
    )


def write_stage(
    run: str | Path, number: int, evaluations: dict[str, Evaluation], matrix: list[list[float]], learnt: Sequence[int]
) -> None:
    """Write stage_<number>/eval.json and matrix.json (rows so far, with all measures). On the main process only."""
    folder = Path(run) / f"stage_{number}"
    atomic_write_json(folder / "eval.json", {domain: found.to_json() for domain, found in evaluations.items()})
    atomic_write_json(folder / "matrix.json", scores.continual_scores(matrix, list(evaluations), learnt))


def read_stage(run: str | Path, number: int) -> dict[str, Evaluation]:
    """The evaluations that `write_stage` wrote. Raises UserError when they are not there."""
    data = read_json(Path(run) / f"stage_{number}" / "eval.json")
    return {domain: Evaluation.of_json(values) for domain, values in data.items()}


def pooled_counts(evaluations: dict[str, Evaluation]) -> list[tuple[int, int]]:
    """(trials, successes) of the tasks of all domains."""
    return [pair for found in evaluations.values() for pair in found.pairs]


def do_nothing_success(pool: Sequence[TaskRow], make: Callable[[TaskRow], Task]) -> float:
    """The share of a pool's tasks that an agent solves by saying "Okay." to the scripted user."""
    return sum(run_agent(do_nothing, make(row)).success for row in pool) / len(pool)
