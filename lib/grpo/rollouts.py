"""Tasks played by the present weights, shared out over the processes: for a step of training, or to measure."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from lib.divided import copy_whole
from lib.errors import UserError
from lib.grpo.continual import evaluations as measured
from lib.grpo.continual.curriculum import StepTasks, deal
from lib.grpo.continual.tasks import TaskRow, TaskSets
from lib.grpo.engine import Sampling
from lib.grpo.episodes import Job, play
from lib.grpo.learning.advantages import compute_advantages
from lib.grpo.progress import Progress
from lib.grpo.run_results import rollout_row
from lib.grpo.run_setup import Setup
from lib.grpo.trajectory import Trajectory


@dataclass
class Played:
    """Episodes: `own` of this process; `outcomes` (`evaluations.outcome`, and group and tokens) of all, in order."""

    own: list[Trajectory]
    outcomes: list[dict]
    counts: dict[str, float] = field(default_factory=dict)  # of this process, by the engine; of a step only two
    # Of a step of training: those of the groups with contrast, by (group, sample), and the figures of its row.
    advantages: dict[tuple[int, int], float] = field(default_factory=dict)
    row: dict = field(default_factory=dict)


class Roller:
    """Plays tasks on the processes of `ranks` (lib.ranks.Ranks).

    played: the model whose weights the engine reads: the `trained` one itself, or a whole copy of a divided one. sets:
    make tasks of rows. requested: whether this process was told to stop, asked in the middle of episodes; when any was,
    what plays returns None. progress: read for messages alone. Every method is collective.
    """

    def __init__(
        self, ranks, engine, trained: nn.Module, played: nn.Module, setup: Setup, sets: TaskSets,
        progress: Progress, requested: Callable[[], bool],
    ):  # fmt: skip
        self.ranks, self.engine, self.trained, self.played = ranks, engine, trained, played
        self.setup, self.sets, self.progress, self.requested = setup, sets, progress, requested

    def refresh(self) -> None:
        """Give the engine the present weights. Raises UserError where they are not finite any more."""
        if self.played is not self.trained:
            copy_whole(self.trained, self.played)
        with torch.no_grad():
            logits = self.played(input_ids=torch.zeros(1, 1, dtype=torch.long, device=self.ranks.device)).logits
        if self.ranks.any(not logits.isfinite().all()):
            raise UserError(
                f"the model's logits are not finite after step {self.progress.step}: nothing after step"
                f" {self.progress.saved_step} was saved; lower --learning-rate"
            )
        self.engine.refresh()

    def play(
        self, rows: Sequence[tuple[int, TaskRow]], samples: int, key: tuple, sampling: Sampling | None = None
    ) -> Played | None:
        """`samples` episodes of each (group, task) of `rows`; `key` and the seed decide what is drawn in them."""
        dealt = deal(len(rows), samples, self.ranks.count)[self.ranks.index]
        jobs = [Job(rows[at][0], sample, self.sets.make(rows[at][1])) for at, sample in dealt]
        usual = self.engine.sampling
        self.engine.sampling = sampling or usual
        with self.setup.threads() as threads:
            own, counts = play(
                self.engine, jobs, self.setup.environment, self.setup.chat, self.setup.config.seed, key,
                self.requested, threads,
            )  # fmt: skip
        self.engine.sampling = usual
        if self.ranks.any(self.requested()):
            return None
        outcomes = self.ranks.gather(
            [measured.outcome(each) | {"group": each.group, "tokens": len(each.ids)} for each in own]
        )
        outcomes.sort(key=lambda each: (each["group"], each["sample"]))
        return Played(own, outcomes, counts)

    def step(self, tasks: StepTasks, step: int, key: tuple) -> Played | None:
        """The episodes of step 0, 1, ... of a stage's training, compared within their groups.

        Groups without contrast are replaced by other tasks, up to --dynamic_sampling times, those of earlier domains
        up to --replay_sampling times; what they said stays counted.
        """
        config, start = self.setup.config, time.monotonic()
        most = {False: config.dynamic_sampling, True: config.replay_sampling}
        if most[True] is None:
            most[True] = config.dynamic_sampling
        picks = tasks.of_step(step)
        found = Played([], [], {"sampled_tokens": 0.0, "seconds": 0.0})
        self.refresh()
        for attempt in range(max(most.values()) + 1):
            more = self.play([(pick.group, pick.row) for pick in picks], config.group_size, (*key, attempt))
            if more is None:
                return None
            found.own += more.own
            found.outcomes += more.outcomes
            found.counts = {name: count + more.counts[name] for name, count in found.counts.items()}
            judged = compute_advantages(
                [each["reward"] for each in found.outcomes], [each["group"] for each in found.outcomes],
                config.scale_rewards, [each["success"] for each in found.outcomes],
            )  # fmt: skip
            dead = {each["group"] for each, live in zip(found.outcomes, judged.live, strict=True) if not live}
            first_new = max(pick.group for pick in picks) + 1
            again = [pick for pick in picks if pick.group in dead and attempt < most[pick.old]]
            if not again:
                break
            picks = [tasks.another(pick, first_new + at, (*key, attempt)) for at, pick in enumerate(again)]
        found.advantages = {
            (each["group"], each["sample"]): value
            for each, value, live in zip(found.outcomes, judged.values, judged.live, strict=True)
            if live
        }
        seconds, sums = time.monotonic() - start, self.ranks.sums(found.counts)
        found.row = rollout_row(found.outcomes, judged) | {
            "rollout_s": seconds,
            # What a process waits for the others, on average.
            "wait_s": seconds - sums["seconds"] / self.ranks.count,
            "rollout_tokens_per_s": sums["sampled_tokens"] / max(seconds, 1e-9),
        }
        return found

    def evaluate(self, pools: dict[str, Sequence[TaskRow]], trials: int, name: str) -> Played | None:
        """`trials` episodes of every task, drawn alike each time under the same `name`."""
        rows = list(enumerate(row for pool in pools.values() for row in pool))
        self.refresh()
        return self.play(rows, trials, ("evaluation", name), self.setup.evaluation_sampling)

    def whole_model(self, kept: bool) -> nn.Module:
        """The trained model as one piece, in fp32 where it was divided and this process's copy is to be `kept`."""
        if self.played is not self.trained:
            if kept:  # the other copies only take part
                self.played.to("cpu", torch.float32)
            copy_whole(self.trained, self.played)
        return self.played


def error_text(outcomes: Sequence[dict]) -> str:
    """What is to be said when environments raised: episodes without them go on, but not in silence. Else empty."""
    errors = [each["error"] for each in outcomes if each["error"] is not None]
    return f"{len(errors)} of {len(outcomes)} episodes ended by an error, the first: {errors[0]}" if errors else ""
