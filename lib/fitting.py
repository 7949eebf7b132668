"""Learning from data that is there, in epochs: update, log, validate, save, resume. What is learnt: `lib.task`."""

import math
from dataclasses import asdict, dataclass

import torch
from accelerate import Accelerator

from lib.checkpoint import (
    RunDirectory,
    StopSignals,
    best_checkpoint,
    find_checkpoint,
    load_checkpoint,
    refuse_other,
    save_checkpoint,
)
from lib.clock import StepClock
from lib.ranks import Ranks
from lib.recent import RecentUpdates
from lib.runlog import RunLog
from lib.task import Task

LEAST = 0.02  # of the learning rate, at the end
LOOK_STEPS = 10  # updates between looks at signals and at the clock


@dataclass
class Position:
    """How far a fit is, saved with every checkpoint."""

    step: int = 0
    train_wall_s: float = 0.0
    train_cpu_s: float = 0.0
    share: float = 0.0  # of the time limit that is used up, as agreed by all processes
    best: float = math.inf
    best_step: int = -1
    validated_step: int = -1


class Fit:
    """One run of a task. `config`: `lib.args.RunArgs` with log_every. `prepared`: module and optimiser."""

    def __init__(self, acc: Accelerator, run: RunDirectory, config, task: Task, prepared: tuple, updates: int):
        self.acc, self.run, self.config, self.task, self.ranks = acc, run, config, task, Ranks(acc)
        self.module, self.optimiser = prepared
        self.planned = updates
        self.updates = updates if config.max_steps is None else min(updates, config.max_steps)
        self.max_wall_s = math.inf if config.max_minutes is None else 60 * config.max_minutes
        self.rate = self.optimiser.param_groups[0]["lr"]
        self.signals, self.recent = StopSignals(), RecentUpdates(self.ranks, "lower the learning rate")
        self.position, self.saved_step = Position(), -1
        self.sums = torch.zeros(len(task.statistics), device=acc.device, dtype=torch.float64)
        self.learnt_from = torch.zeros((), device=acc.device)  # of all processes, since the last look
        self.noted: dict[str, float | torch.Tensor] = {}
        self.log: RunLog | None = None

    def go(self, unit: str) -> dict[str, float] | None:
        """From the newest checkpoint that --resume asks for, or the start, to the end: the test's figures of the best
        weights. None when a signal ended it (the state is saved). `unit`: what throughput counts."""
        found = find_checkpoint(self.acc, self.run, self.config.resume)
        if found is not None:
            self._restore(found)
        with self.signals, RunLog(self.acc, self.run, self.config, self.updates, unit) as self.log:
            figures = self._finish() if self._train() else None
            if figures is None:
                name = self.signals.name or "a signal"
                self.log.note(f"stopped by {name} after step {self.saved_step}: continue with --resume auto")
        return figures

    def results(self) -> dict:
        """Keys of results.json."""
        position = self.position
        return {
            "steps": position.step,
            "updates": position.step,
            "updates_per_s": position.step / max(position.train_wall_s, 1e-9),
            "epochs": position.step / self.task.epoch_updates,
            "best_step": position.best_step,
            "train_s": round(position.train_wall_s, 3),
            "cpu_s": round(position.train_cpu_s, 3),
            "wall_s": round(self.log.wall_s(), 3),
            "processes": self.acc.num_processes,
        }

    @property
    def spent(self) -> bool:
        return self.position.step >= self.updates or self.position.share >= 1.0

    def _set_rate(self) -> None:
        """The learning rate of the next update: constant up to the half of the run, then falling to nearly nothing.

        The run is what is planned, or the time limit, whichever is nearer; --max_steps cuts it off.
        """
        done = max(self.position.step / self.planned, self.position.share)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * max(min(1.0, 2.0 * (1.0 - done)), LEAST)

    def _train(self) -> bool:
        config, position, clock = self.config, self.position, StepClock()
        # A signal came in the midst of it, before this resume.
        if position.step and self._due(config.eval_every) and position.validated_step != position.step:
            if not self._validate():
                return False
            clock.start()
        self._look()  # a resumed run may have been given more time
        while not self.spent:
            self._update()
            clock.add_to(position)
            step = position.step
            logs, saves, tests = (
                step % config.log_every == 0,
                self._due(config.save_every),
                self._due(config.eval_every),
            )
            stop = (logs or saves or tests or step % LOOK_STEPS == 0) and self._look()
            if logs:
                self._report()
            if not stop and tests:
                stop = not self._validate()
            if (stop or saves) and self.saved_step != step:
                self._save()
            if stop:
                return False
            clock.start()
        return not self._look() or self._save()

    def _due(self, every: int | None) -> bool:
        """Every so many updates; of each epoch's end, unless given."""
        every = self.task.epoch_updates if every is None else every
        return every > 0 and self.position.step % every == 0

    def _update(self) -> None:
        acc, task, ranks, update = self.acc, self.task, self.ranks, self.position.step
        batch = task.batch(update, ranks.index, ranks.count)
        task.begin(update, ranks)
        loss, sums, *found = self.module(*batch)
        count = ranks.sum_tensor(sums[-1].detach().float())
        # The gradients are averaged over the processes: times their number, over the global count, is the global mean.
        acc.backward(loss * (ranks.count / count))
        norm = acc.clip_grad_norm_(self.module.parameters(), self.config.max_grad_norm or math.inf)
        self._set_rate()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.noted |= task.learnt(update, tuple(found), ranks)
        self.position.step += 1
        self.sums += sums
        self.learnt_from += count
        place = torch.tensor([self.position.step], device=acc.device)
        self.recent.add(self.position.step, place, torch.isfinite(loss.detach()).view(1), norm)

    def _look(self) -> bool:
        """Agree on time and signals; end at numbers that are not finite. Whether a signal came to any process."""
        self.log.add_units(int(self.learnt_from))
        self.learnt_from.zero_()
        wall_s = self.log.wall_s() if self.acc.is_main_process else 0.0
        self.position.share = self.ranks.sums({"seconds": wall_s})["seconds"] / self.max_wall_s
        return self.recent.look(self.signals.requested, lambda step: f"batch-{step:06d}", self.saved_step)

    def _summed(self) -> dict[str, float]:
        """The sums since the last row of the log, of all processes. Collective."""
        return self.ranks.sums(dict(zip(self.task.statistics, self.sums.tolist(), strict=True)))

    def _report(self) -> None:
        names, seen = self.task.statistics, self._summed()
        self.sums.zero_()
        values = {name: seen[name] / max(seen[names[-1]], 1.0) for name in names[:-1]}
        values |= {name: float(value) for name, value in self.noted.items()}
        values |= {"epoch": self.position.step / self.task.epoch_updates, "lr": self.optimiser.param_groups[0]["lr"]}
        self.log.log(self.position.step, values)
        self.noted = {}

    def _measure(self, part: str) -> dict[str, float] | None:
        with self.log.paused():
            sums = self.ranks.sum_tensor(self.task.measure(part, self.ranks.index, self.ranks.count))
        return None if self.signals.agreed(self.acc) else self.task.judge(sums)

    def _validate(self) -> bool:
        """Figures of the validation part; weights that are the best so far are saved. False when a signal came."""
        figures = self._measure("validation")
        if figures is None:
            return False
        position = self.position
        better, position.validated_step = figures["loss"] < position.best, position.step
        if better:
            position.best, position.best_step = figures["loss"], position.step
        shown = {f"validation/{name}": figures[name] for name in self.task.logged or figures}
        self.log.log(position.step, shown, progress=False)
        if better and self.config.save_every != 0:
            self._save(best=True)
        return True

    def _finish(self) -> dict[str, float] | None:
        position = self.position
        if self._summed()[self.task.statistics[-1]]:  # of all processes: the sums of a resumed run are the main one's
            self._report()
        if position.validated_step != position.step and not self._validate():
            return None
        if self.config.save_every != 0:
            if self.saved_step != position.step:
                self._save()
            best = best_checkpoint(self.acc, self.run) if position.best_step not in (-1, position.step) else None
            if best is not None and best.name == f"step-{position.best_step:08d}":
                self.run.note(self.acc, f"the weights of step {position.best_step} are the best and are taken")
                load_checkpoint(self.acc, best, model=self.module, optimizer=self.optimiser)
        return self._measure("test")

    def _save(self, best: bool = False) -> bool:
        """The whole state; False, for a caller that stops after it."""
        state = {"position": asdict(self.position), "task": self.task.described(), "sums": self._summed()}
        with self.log.paused():
            save_checkpoint(
                self.acc, self.run, self.position.step, model=self.module, optimizer=self.optimiser, state=state,
                keep=self.config.keep_checkpoints, best=best,
            )  # fmt: skip
        self.saved_step = self.position.step
        return False

    def _restore(self, found) -> None:
        state = load_checkpoint(self.acc, found, model=self.module, optimizer=self.optimiser)
        refuse_other(found, state["task"], self.task.described())
        self.position = Position(**state["position"])
        self.saved_step = self.position.step
        if self.acc.is_main_process:  # what is saved is the sum over the processes
            self.sums += torch.tensor([state["sums"][name] for name in self.task.statistics], device=self.sums.device)
