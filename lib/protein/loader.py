"""The steps of a run for one process: plan, batches made ahead of time, position for resume."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from lib.protein.batching import Crop, Draw, epoch_plan, micro_batches
from lib.protein.collate import training_batch
from lib.protein.masking import Objective
from lib.protein.model import Batch
from lib.protein.options import ProteinOptions
from lib.protein.split import Unit

GHOST_RESIDUES = 32


@dataclass(slots=True)
class MicroBatch:
    batch: Batch
    order: Tensor  # (residues,) float32
    target: Tensor  # (residues,) bool


@dataclass(slots=True)
class Step:
    """What one process does in one optimiser step; `residues` and `draws` count those of all processes."""

    epoch: int
    ends_epoch: bool
    micro: list[MicroBatch]
    residues: int
    draws: int
    names: list[str]  # units of this process

    def targets(self) -> int:
        """Predicted residues of this process."""
        return int(sum(part.target.sum() for part in self.micro))


class StepLoader:
    """Iterates over the steps from a position; every draw depends on (seed, epoch, unit), never on the process.

    Args:
        workers: threads that prepare steps ahead (0: prepared when asked for). pin: pin host memory.
    """

    def __init__(
        self,
        store,
        units: Sequence[Unit],
        config: ProteinOptions,
        *,
        processes: int,
        rank: int,
        workers: int = 0,
        pin: bool = False,
    ):
        self.store, self.units, self.config = store, units, config
        self.processes, self.rank, self.workers, self.pin = processes, rank, workers, pin
        self.objective: Objective = config.make_objective()

    def plan(self, epoch: int, skip: int = 0) -> list[list[list[Draw]]]:
        """[step][rank] -> draws; the same on every process. `skip` draws of the epoch are done already."""
        config = self.config
        return epoch_plan(
            self.units,
            seed=config.seed,
            epoch=epoch,
            processes=self.processes,
            max_tokens=config.max_tokens,
            batch_size=None if config.max_tokens else config.batch_size,
            max_length=config.max_length,
            accumulation=config.gradient_accumulation_steps,
            skip=skip,
        )

    def steps(self, epoch: int, taken: int) -> Iterator[Step]:
        """Steps from the draw number `taken` of `epoch` to the end of the last epoch."""
        jobs = self._jobs(epoch, taken)
        if self.workers == 0:
            for job in jobs:
                yield self._make(*job)
            return
        ahead: deque[Future] = deque()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="batch") as pool:
            try:
                for job in jobs:
                    ahead.append(pool.submit(self._make, *job))
                    if len(ahead) > 2 * self.workers:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                for future in ahead:
                    future.cancel()

    def _jobs(self, epoch: int, taken: int) -> Iterator[tuple]:
        for number in range(epoch, self.config.epochs):
            plan = self.plan(number, taken)
            for position, shares in enumerate(plan):
                yield number, position == len(plan) - 1, shares
            taken = 0

    def _make(self, epoch: int, ends_epoch: bool, shares: list[list[Draw]]) -> Step:
        mine = shares[self.rank]
        ghost = next(draw for share in shares for draw in share)
        parts = micro_batches(mine, self.config.gradient_accumulation_steps)
        micro = [self._micro(part, epoch) if part else self._ghost(ghost, epoch) for part in parts]
        residues = sum(draw.cost for share in shares for draw in share)
        draws = sum(len(share) for share in shares)
        return Step(epoch, ends_epoch, micro, residues, draws, [draw.unit.name for draw in mine])

    def _micro(self, draws: list[Draw], epoch: int) -> MicroBatch:
        batch, order, target = training_batch(
            self.store,
            draws,
            self.objective,
            seed=self.config.seed,
            epoch=epoch,
            backbone_noise=self.config.backbone_noise,
        )
        if self.pin:
            names = ("coordinates", "present", "chain", "position", "aa")
            pinned = {name: getattr(batch, name).pin_memory() for name in names}
            batch = Batch(**pinned, unit_lengths=batch.unit_lengths, names=batch.names)
            order, target = order.pin_memory(), target.pin_memory()
        return MicroBatch(batch, order, target)

    def _ghost(self, draw: Draw, epoch: int) -> MicroBatch:
        """A few residues without targets: an empty share still takes part in every collective of the step."""
        length = min(GHOST_RESIDUES, draw.cost)
        part = self._micro([Draw(draw.unit, Crop(length, 0))], epoch)
        part.target = torch.zeros_like(part.target)
        return part
