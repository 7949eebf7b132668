"""Whether what a flag asks for fits into the memory of the machine, before it is filled."""

from pathlib import Path

import psutil
import torch

from lib.errors import UserError

CGROUPS = Path("/sys/fs/cgroup")
# Of a container, by version 2 and 1 of control groups: its limit, what it uses, and what of that is files kept in
# memory, which are given up when it is needed.
_LIMITS = (
    ("memory.max", "memory.current", "memory.stat", ("inactive_file", "active_file")),
    (
        "memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
        ("total_inactive_file", "total_active_file"),
    ),
)  # fmt: skip


def free_memory(cgroups: Path = CGROUPS) -> int:
    """Bytes that are left on the CPU: of the machine, or of the container where its limit is lower."""
    free = psutil.virtual_memory().available
    for limit, used, details, names in _LIMITS:
        try:
            most = int((cgroups / limit).read_text())  # "max": no limit
            parts = dict(line.split() for line in (cgroups / details).read_text().splitlines())
            taken = int((cgroups / used).read_text()) - sum(int(parts.get(name, 0)) for name in names)
        except (OSError, ValueError):  # not a container of this version, or without a limit
            continue
        free = min(free, most - taken)
    return max(free, 0)


def check_room(flag: str, value: int, needed: int, device: str | torch.device, neighbours: int = 1) -> None:
    """UserError when `needed` bytes are more than this process's share of the memory that is left on the CPU.

    flag, value: what asked for it, to be made smaller. neighbours: processes that share the memory. On other devices
    nothing is checked: they refuse by themselves, at once.
    """
    free = free_memory() / neighbours
    if torch.device(device).type == "cpu" and needed > free:
        raise UserError(
            f"{flag} {value} needs {needed / 2**30:,.1f} GiB in each process and {free / 2**30:,.1f} GiB are free for"
            f" it: give {flag} {max(int(value * 0.5 * free / needed), 1)} or less"
        )
