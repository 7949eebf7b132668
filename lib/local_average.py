"""Gradients of processes on one machine, averaged through memory they share instead of through a socket.

For a model of a megabyte the all-reduce of gloo takes longer than the update itself (1 to 3 ms between two processes on
one CPU, whatever the size). Here every rank copies its gradients into its own part of a file in memory, and when all
have done so, adds the parts up in the order of the ranks: all get the same bits. Between the two a rank may do other
work, so that nobody waits for a neighbour that is a little late. A few numbers go with them: what the loss is a sum
over, and whatever else the ranks have to agree on, which then costs no collective of its own:

    acc.backward(averaging.model(batch))      # a sum over its rows
    averaging.post(rows, episodes, stop)
    ...                                   what needs no gradients
    rows, episodes, stop = averaging.take()   sums of all ranks; the gradients are of the mean over all their rows

Each rank has two slots in turn. A rank that writes the slot of turn t + 2 has seen that all had written turn t + 1, so
all had read turn t. A number is written after the slot it speaks of, which a reader sees in this order on x86 alone
(its stores are seen in program order): on other machines and systems, on GPUs and across machines DDP's own all-reduce
stays, inside the backward pass, and `take` sums the numbers by one of its own.
"""

import contextlib
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel

from lib.distributed import any_rank, broadcast_value

_LINE = 16  # numbers of 8 bytes between those of two ranks, which lie on cache lines of their own
_SPINS = 5_000  # looks before the first pause: some ten milliseconds
_PAUSE_S = 0.0002
_CHECK_S = 0.5  # between looks whether the others are alive


class Averaging:
    """How the gradients of a prepared model become those of all ranks; see the module. Making one is collective.

    `model` is what to call: the prepared one, or with shared memory the one inside it, whose gradients stay this rank's
    own until `take`. `shared`: through memory, which is possible with 2 or more processes on the CPU of one x86 machine
    with Linux and float32 parameters. A rank that waits longer than `timeout_s` for another, or whose neighbour has
    gone, raises RuntimeError in `take`, in the words of an all-reduce (lib.failure knows them).
    """

    def __init__(self, acc: Accelerator, model: torch.nn.Module, timeout_s: float):
        self.ranks, self.device = acc.num_processes, acc.device
        self.exact = torch.float32 if acc.device.type == "mps" else torch.float64  # which has no other
        self.told: torch.Tensor | None = None
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.average = _shared_memory(acc, model, self.parameters, timeout_s)
        self.shared = self.average is not None
        self.model = acc.unwrap_model(model) if self.shared else model
        if self.shared:
            sizes = [parameter.numel() for parameter in self.parameters]
            self.mean = torch.empty(sum(sizes))
            self.parts = [part.view_as(each) for part, each in zip(self.mean.split(sizes), self.parameters)]

    def post(self, rows: float | torch.Tensor, *more: float | torch.Tensor) -> None:
        """Show this rank's gradients, of a loss that is a sum over `rows`, and up to 15 numbers; nobody waits.

        Every parameter must have a gradient, also in `take`.
        """
        if self.shared:
            gradients = [parameter.grad.flatten() for parameter in self.parameters]
            self.average.post(gradients, [float(value) for value in (rows, *more)])
            return
        numbers = [torch.as_tensor(value, dtype=self.exact, device=self.device) for value in (rows, *more)]
        self.told = torch.stack(numbers)

    def take(self) -> torch.Tensor:
        """Wait for the others: what was posted, summed over the ranks, on the device of the model.

        Every gradient is then that of the mean over the rows of all ranks; zeros where there are none.
        """
        if self.shared:
            told = self.average.take(self.mean)
            self.mean.div_(max(float(told[0]), 1.0))
            for parameter, part in zip(self.parameters, self.parts):
                parameter.grad = part
            return told
        if self.ranks > 1:
            dist.all_reduce(self.told)
        # What is there is the mean over the ranks of their sums.
        factor = (self.ranks / self.told[0].clamp_min(1.0)).float()
        for parameter in self.parameters:
            parameter.grad.mul_(factor)
        return self.told


def _shared_memory(acc: Accelerator, model: torch.nn.Module, parameters: list, timeout_s: float):
    """The shared memory for these gradients on every rank, or None on every rank."""
    if not isinstance(model, DistributedDataParallel) or not _possible(acc, model):
        return None
    count = sum(parameter.numel() for parameter in parameters)
    size = file_size(acc.num_processes, count)
    name = broadcast_value(acc, _new_file(size) if acc.is_main_process else None)
    if name is None:
        return None
    average = None
    try:
        with contextlib.suppress(OSError, RuntimeError):  # a rank that does not see the file
            average = LocalAverage(Path(name), acc.process_index, acc.num_processes, count, timeout_s)
        return None if any_rank(acc, average is None) else average
    finally:
        if acc.is_main_process:
            os.unlink(name)  # the memory lives as long as a rank has it open, and no longer


def _possible(acc: Accelerator, model: torch.nn.Module) -> bool:
    alone = int(os.environ.get("LOCAL_WORLD_SIZE", "0")) == acc.num_processes > 1
    system = sys.platform == "linux" and platform.machine().lower() in ("x86_64", "amd64")
    plain = all(parameter.dtype == torch.float32 for parameter in model.parameters())
    return alone and plain and system and acc.device.type == "cpu"


class LocalAverage:
    """The shared memory of the ranks of one machine, for vectors of `count` float32 numbers."""

    def __init__(self, path: Path, rank: int, ranks: int, count: int, timeout_s: float):
        self.rank, self.ranks, self.timeout_s = rank, ranks, timeout_s
        self.turn = self.told = 0
        head = _head(self.ranks)
        whole = torch.from_file(str(path), shared=True, size=path.stat().st_size, dtype=torch.uint8)
        counters = whole[: 8 * head].view(torch.int64).view(4, self.ranks, _LINE)
        self.turns, self.processes = (row[:, 0].numpy() for row in counters[:2])
        self.numbers = counters[2:].view(torch.float64).numpy()
        slots = whole[8 * head :].view(torch.float32).view(2, self.ranks, count)
        self.slots = [list(turn) for turn in slots]
        self.processes[self.rank] = os.getpid()

    def post(self, vectors: list[torch.Tensor], numbers: list[float]) -> None:
        """Show this rank's vectors, as one of `count` numbers, and up to 16 more; then take."""
        self.turn += 1
        self.told = len(numbers)
        torch.cat(vectors, out=self.slots[self.turn % 2][self.rank])
        self.numbers[self.turn % 2, self.rank, : self.told] = numbers
        self.turns[self.rank] = self.turn

    def take(self, total: torch.Tensor) -> torch.Tensor:
        """Write the sum of the vectors that the ranks posted last into `total`; the sums of their numbers."""
        self._wait()
        slots = self.slots[self.turn % 2]
        torch.add(slots[0], slots[1], out=total)
        for slot in slots[2:]:
            total += slot
        return torch.from_numpy(self.numbers[self.turn % 2, :, : self.told].sum(0))

    def _wait(self) -> None:
        """Return when all ranks have written this turn."""
        turns, turn = self.turns, self.turn
        start = checked = time.monotonic()
        for _ in range(_SPINS):
            if turns.min() >= turn:
                return
        while turns.min() < turn:
            time.sleep(_PAUSE_S)
            now = time.monotonic()
            if now - checked > _CHECK_S:
                checked = now
                self._look_after(now - start)

    def _look_after(self, waited_s: float) -> None:
        late = [rank for rank in range(self.ranks) if self.turns[rank] < self.turn]
        gone = [rank for rank in late if not Path(f"/proc/{self.processes[rank]}").exists()]
        gone = [rank for rank in gone if self.turns[rank] < self.turn]  # it may have written, then ended
        if gone:
            raise RuntimeError(f"Connection closed by peer: rank {gone[0]} is gone, its gradients did not come")
        if waited_s > self.timeout_s:
            raise RuntimeError(f"Connection timed out after {waited_s:.0f} s: no gradients of rank {late[0]}")


def _head(ranks: int) -> int:
    """Counters, process ids and two turns of what goes with the vectors, as numbers of 8 bytes."""
    return 4 * ranks * _LINE


def file_size(ranks: int, count: int) -> int:
    """Bytes of the file for vectors of `count` numbers."""
    return 8 * _head(ranks) + 4 * 2 * ranks * count


def _new_file(size: int) -> str | None:
    """A file of zeros, in memory where the system has a place for that; None where there is no room for it."""
    shared = Path("/dev/shm")
    folder = shared if shared.is_dir() and os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    try:
        handle, name = tempfile.mkstemp(prefix="quartet-", dir=folder)
    except OSError:
        return None
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError:
        os.unlink(name)
        return None
    finally:
        os.close(handle)
    return name
