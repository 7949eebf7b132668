"""What is learnt, kept and forgotten: the measures of continual learning and of repeated trials, as pure functions.

R[i][j] is the success on domain j after stage i; row 0 is before training (after a warm start). Domains are in the
order of the curriculum. `learnt[j]` is the row of the stage that learns domain j: 1, 2, ... T for one domain a stage,
all 1 for a joint stage. A run that ended early has fewer rows than stages: what was not reached is left out. A measure
of which there is nothing to take a mean of is None, not 0.

Sources: Lopez-Paz and Ranzato 2017 (ACC, BWT, FWT), Chaudhry et al. 2018 (forgetting, intransigence),
Chen et al. 2021 (pass@k), Yao et al. 2024 (pass^k).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lib import intervals
from lib.grpo.reward import matches
from lib.grpo.task import Action
from lib.grpo.worlds.world import ASSISTANT, Call
from lib.seeds import numpy_generator

Matrix = Sequence[Sequence[float]]
CONFIDENCE = 0.95
DRAWS = 2000


def average_success(matrix: Matrix) -> float:
    """ACC = mean over j of R[T][j]."""
    return _mean(matrix[-1])


def backward_transfer(matrix: Matrix, learnt: Sequence[int]) -> float | None:
    """BWT = mean of R[T][j] - R[learnt j][j] over the domains learnt before the last stage T."""
    last = len(matrix) - 1
    return _mean_or_none([matrix[last][j] - matrix[row][j] for j, row in enumerate(learnt) if row < last])


def forward_transfer(matrix: Matrix, learnt: Sequence[int]) -> float | None:
    """FWT = mean of R[learnt j - 1][j] - R[0][j] over the domains learnt after the first stage."""
    return _mean_or_none([matrix[row - 1][j] - matrix[0][j] for j, row in enumerate(learnt) if 1 < row <= len(matrix)])


def forgetting(matrix: Matrix) -> list[float]:
    """Forgetting_j = max over i < T of R[i][j], minus R[T][j], for every domain; negative where the last is the best.

    Of one row alone nothing can be forgotten: 0.
    """
    if len(matrix) == 1:
        return [0.0] * len(matrix[0])
    return [max(row[j] for row in matrix[:-1]) - matrix[-1][j] for j in range(len(matrix[-1]))]


def mean_forgetting(matrix: Matrix, learnt: Sequence[int]) -> float | None:
    """The mean of Forgetting_j over the domains learnt before the last stage: the last cannot be forgotten yet."""
    last = len(matrix) - 1
    return _mean_or_none([value for value, row in zip(forgetting(matrix), learnt, strict=True) if row < last])


def intransigence(matrix: Matrix, learnt: Sequence[int], joint: Sequence[float]) -> list[float | None]:
    """Intransigence_j = R_joint[j] - R[learnt j][j]; `joint` is the last row of a joint run on the same tasks."""
    pairs = enumerate(zip(joint, learnt, strict=True))
    return [best - matrix[row][j] if row < len(matrix) else None for j, (best, row) in pairs]


def continual_scores(
    matrix: Matrix, domains: Sequence[str], learnt: Sequence[int], joint: Sequence[float] | None = None
) -> dict:
    """All measures of a matrix, under the flat names of results.json."""
    assert all(len(row) == len(domains) == len(learnt) for row in matrix), f"{domains}, {learnt}: {matrix}"
    scores = {
        "matrix": [list(row) for row in matrix],
        "domains": list(domains),
        "learnt": list(learnt),
        "acc": average_success(matrix),
        "bwt": backward_transfer(matrix, learnt),
        "fwt": forward_transfer(matrix, learnt),
        "forgetting": mean_forgetting(matrix, learnt),
        "success_before": _mean(matrix[0]),
        "success_after": _mean(matrix[-1]),
    }
    scores |= {f"forgetting_{name}": value for name, value in zip(domains, forgetting(matrix), strict=True)}
    if joint is not None:
        values = intransigence(matrix, learnt, joint)
        scores["intransigence"] = _mean_or_none([value for value in values if value is not None])
        scores |= {f"intransigence_{name}": value for name, value in zip(domains, values, strict=True)}
    return scores


@dataclass(frozen=True)
class Interval:
    """A mean over tasks and its confidence interval."""

    value: float
    low: float
    high: float


def pass_hat_k(trials: int, successes: int, k: int) -> float:
    """pass^k of a task = C(c, k) / C(n, k): the chance that k of its n trials, drawn without return, all succeed."""
    _check_trials(trials, successes, k)
    return math.comb(successes, k) / math.comb(trials, k)


def pass_at_k(trials: int, successes: int, k: int) -> float:
    """pass@k of a task = 1 - C(n - c, k) / C(n, k): the chance that at least one of k trials succeeds."""
    _check_trials(trials, successes, k)
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)


def over_tasks(
    measure: Callable[[int, int, int], float], counts: Sequence[tuple[int, int]], k: int, seed: int = 0
) -> Interval:
    """The mean of `pass_hat_k` or `pass_at_k` over tasks, each (trials, successes), with its bootstrap interval."""
    return bootstrap([measure(trials, successes, k) for trials, successes in counts], seed)


def success_of(counts: Sequence[tuple[int, int]], seed: int = 0) -> Interval:
    """The mean over tasks of their share of successful trials: pass^1, which is pass@1."""
    return over_tasks(pass_hat_k, counts, 1, seed)


def pass_table(counts: Sequence[tuple[int, int]], seed: int = 0) -> list[tuple[int, Interval, Interval]]:
    """(k, pass^k, pass@k) for k = 1 up to the least number of trials of a task."""
    most = min((trials for trials, _ in counts), default=0)
    return [
        (k, over_tasks(pass_hat_k, counts, k, seed), over_tasks(pass_at_k, counts, k, seed)) for k in range(1, most + 1)
    ]


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """The mean of `values`, one for each task, and its 95 % percentile interval over 2,000 draws of as many tasks.

    The same values give the same interval. (Efron 1979.) Of no values everything is not a number.
    """
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    values = np.asarray(values, dtype=float)
    chosen = numpy_generator(seed, "bootstrap", len(values)).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.quantile(values[chosen].mean(axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def wilson(trials: int, successes: int) -> Interval:
    """The share of successes in independent trials and its 95 % score interval (Wilson 1927).

    Unlike the bootstrap it has a width at 0 and 1. For one trial of each task.
    """
    return Interval(successes / trials if trials else math.nan, *intervals.wilson(successes, trials))


def area_under_curve(successes: Sequence[float]) -> float | None:
    """AULC: the mean of the evaluations during a stage."""
    return _mean_or_none(successes)


def samples_to_threshold(curve: Iterable[tuple[int, float]], threshold: float) -> int | None:
    """The episodes played when the success first reaches `threshold`; `curve` is (episodes, success) in order."""
    return next((episodes for episodes, success in curve if success >= threshold), None)


@dataclass(frozen=True)
class ToolAccuracy:
    """Of `gold` calls of a tool: the share that was made at all, and of these the share with the right arguments."""

    gold: int
    selection: float
    arguments: float | None


def count_calls(gold: Sequence[Action], calls: Sequence[Call], solo: bool = False) -> dict[str, list[int]]:
    """tool -> [gold calls, of these made by name, of these with the right arguments] by the agent in one episode.

    `gold` are `Task.actions`, `calls` `World.calls`; what the user has to do and does is left out unless the agent is
    alone (`solo`). A call stands for one gold action only. Arguments are compared as in the ACTION reward.
    """
    gold = [action for action in gold if solo or action.requestor == ASSISTANT]
    calls = [call for call in calls if call.requestor == ASSISTANT]
    counts: dict[str, list[int]] = {}
    for name in dict.fromkeys(action.name for action in gold):
        wanted = [action for action in gold if action.name == name]
        made = [call for call in calls if call.name == name]
        named = min(len(wanted), len(made))
        right = 0
        for action in wanted:
            found = next((call for call in made if matches(action, call)), None)
            if found is not None:
                made.remove(found)
                right += 1
        counts[name] = [len(wanted), named, right]
    return counts


def add_counts(counts: Iterable[dict[str, list[int]]]) -> dict[str, list[int]]:
    """Sums over episodes (and processes) of `count_calls`, the tools in alphabetical order."""
    sums: dict[str, list[int]] = {}
    for one in counts:
        for name, values in one.items():
            sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0, 0]), values, strict=True)]
    return dict(sorted(sums.items()))


def tool_accuracy(counts: dict[str, list[int]]) -> dict[str, ToolAccuracy]:
    """For each tool, selection = named / gold and arguments = right / named."""
    return {
        name: ToolAccuracy(gold, named / gold, right / named if named else None)
        for name, (gold, named, right) in counts.items()
    }


def _check_trials(trials: int, successes: int, k: int) -> None:
    assert 1 <= k <= trials and 0 <= successes <= trials, f"{successes} of {trials} trials, k {k}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _mean_or_none(values: Sequence[float]) -> float | None:
    return _mean(values) if values else None
