"""Gradients of processes on one machine, averaged through memory they share instead of through a socket.

For a model of a megabyte the all-reduce of gloo takes longer than the update itself (1 to 3 ms between two processes on
one CPU, whatever the size). Here every rank copies its gradients into its own part of a file in memory, waits until all
have done so, and adds the parts up in the order of the ranks: all get the same bits.

Each rank has two slots in turn. A rank that writes the slot of turn t + 2 has seen that all had written turn t + 1, so
all had read turn t. A number is written after the slot it speaks of, which a reader sees in this order on x86 alone
(its stores are seen in program order): on other machines and systems, on GPUs and across machines DDP's own all-reduce
stays.
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

_LINE = 16  # int64 numbers between two counters: they lie on cache lines of their own
_SPINS = 5_000  # looks before the first pause: some ten milliseconds
_PAUSE_S = 0.0002
_CHECK_S = 0.5  # between looks whether the others are alive


def use_shared_memory(acc: Accelerator, model: torch.nn.Module, timeout_s: float) -> bool:
    """Let a prepared model average its gradients through shared memory where that is possible; whether it does.

    Collective. Possible with 2 or more processes on the CPU of one x86 machine with Linux and float32 parameters. A
    rank that waits longer than `timeout_s` for another, or whose neighbour is gone, raises RuntimeError in its backward
    pass, in the words of an all-reduce (lib.failure knows them).
    """
    if not isinstance(model, DistributedDataParallel) or not _possible(acc, model):
        return False
    count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    size = 8 * _head(acc.num_processes) + 4 * 2 * acc.num_processes * count
    name = broadcast_value(acc, _new_file(size) if acc.is_main_process else None)
    if name is None:
        return False
    average = None
    try:
        with contextlib.suppress(OSError, RuntimeError):  # a rank that does not see the file
            average = LocalAverage(Path(name), acc.process_index, acc.num_processes, count, timeout_s)
        if any_rank(acc, average is None):
            return False
    finally:
        if acc.is_main_process:
            os.unlink(name)  # the memory lives as long as a rank has it open, and no longer
    model.register_comm_hook(average, _hook)
    return True


def _possible(acc: Accelerator, model: torch.nn.Module) -> bool:
    alone = int(os.environ.get("LOCAL_WORLD_SIZE", "0")) == acc.num_processes > 1
    system = sys.platform == "linux" and platform.machine().lower() in ("x86_64", "amd64")
    plain = all(parameter.dtype == torch.float32 for parameter in model.parameters())
    return alone and plain and system and acc.device.type == "cpu"


class LocalAverage:
    """The shared memory of the ranks of one machine, for vectors of up to `count` float32 numbers."""

    def __init__(self, path: Path, rank: int, ranks: int, count: int, timeout_s: float):
        self.rank, self.ranks, self.timeout_s = rank, ranks, timeout_s
        self.turn = 0
        head = _head(self.ranks)
        whole = torch.from_file(str(path), shared=True, size=path.stat().st_size, dtype=torch.uint8)
        numbers = whole[: 8 * head].view(torch.int64).view(2, self.ranks, _LINE).numpy()
        self.turns, self.processes = numbers[0, :, 0], numbers[1, :, 0]
        self.slots = whole[8 * head :].view(torch.float32).view(2, self.ranks, count)
        self.processes[self.rank] = os.getpid()

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        """The mean of the ranks' vectors, in place; every rank calls it with the same length."""
        self.turn += 1
        slots = self.slots[self.turn % 2, :, : vector.numel()]
        slots[self.rank].copy_(vector)
        self.turns[self.rank] = self.turn
        self._wait()
        torch.add(slots[0], slots[1], out=vector)
        for other in range(2, self.ranks):
            vector += slots[other]
        return vector.div_(self.ranks)

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
    """Counters, then process ids, as int64 numbers."""
    return 2 * ranks * _LINE


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


def _hook(average: LocalAverage, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's communication hook."""
    done = torch.futures.Future()
    done.set_result(average(bucket.buffer()))
    return done
