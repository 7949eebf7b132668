"""How far a run is: by steps, by minutes, by CPU minutes; and how it got there."""

import math
from dataclasses import asdict, dataclass

from lib.protein.options import ProteinOptions


@dataclass
class Progress:
    """The position of a run, saved with every checkpoint. Times are those of the main process."""

    step: int = 0
    epoch: int = 0
    taken: int = 0  # draws of the epoch that are done, over all processes
    residues: int = 0
    train_cpu_s: float = 0.0  # steps only, without evaluation and saving
    train_wall_s: float = 0.0
    share: float = 0.0  # of the time limits that is used up, 0..1, as agreed by all processes
    best: float = math.inf  # validation loss in nats
    best_step: int = -1
    validated_step: int = -1
    best_epoch: int = 0

    def to_dict(self) -> dict:
        return asdict(self)

    def advance(self, step) -> None:
        """Count a finished `loader.Step`."""
        self.step += 1
        self.residues += step.residues
        taken = self.taken + step.draws
        self.epoch, self.taken = (step.epoch + 1, 0) if step.ends_epoch else (step.epoch, taken)

    def results(self) -> dict:
        """Keys of results.json; residues_per_s counts the optimiser steps only."""
        return {
            "residues_per_s": self.residues / max(self.train_wall_s, 1e-9),
            "residues_seen": self.residues,
            "steps": self.step,
            "epochs": self.epoch,
            "cpu_s": round(self.train_cpu_s, 3),
            "best_step": self.best_step,
        }


class Budget:
    """When to stop and where on the learning-rate curve a step lies."""

    def __init__(self, config: ProteinOptions, steps_per_epoch: int):
        by_epochs = config.epochs * steps_per_epoch
        self.planned_steps = by_epochs if config.max_steps is None else min(config.max_steps, by_epochs)
        self.max_steps = config.max_steps
        self.max_wall_s = math.inf if config.max_minutes is None else 60 * config.max_minutes
        self.max_cpu_s = math.inf if config.max_cpu_minutes is None else 60 * config.max_cpu_minutes
        bound = 0.1
        self.warmup = min(config.warmup_epochs * steps_per_epoch / max(self.planned_steps, 1), bound)

    @property
    def timed(self) -> bool:
        """Whether the clock may end the run; then two runs are not step for step alike."""
        return math.isfinite(self.max_wall_s) or math.isfinite(self.max_cpu_s)

    def clock_share(self, progress: Progress, wall_s: float) -> float:
        """The share of the time limits that is used up, 0 without any."""
        return max(wall_s / self.max_wall_s, progress.train_cpu_s / self.max_cpu_s)

    def done(self, progress: Progress) -> float:
        """Where on the learning-rate curve the next step lies, 0..1: by steps or by the clock, whichever is further."""
        return min(max(progress.share, progress.step / max(self.planned_steps, 1)), 1.0)

    def spent(self, progress: Progress) -> bool:
        """Whether a limit ends the run; the last epoch ends it without one."""
        return progress.share >= 1.0 or (self.max_steps is not None and progress.step >= self.max_steps)
