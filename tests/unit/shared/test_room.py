"""How much memory is left, of the machine and of a container."""

from pathlib import Path

import psutil
import pytest

from lib import room
from lib.errors import UserError

GIB = 2**30


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder


@pytest.fixture
def machine(monkeypatch):
    """A machine with 8 GiB left."""
    memory = psutil.virtual_memory()._replace(available=8 * GIB)
    monkeypatch.setattr(room.psutil, "virtual_memory", lambda: memory)


def test_the_limit_of_a_container_counts_where_it_is_lower(machine, tmp_path):
    assert room.free_memory(tmp_path / "none") == 8 * GIB
    details = f"anon 7\ninactive_file {GIB}\nactive_file {GIB // 2}"
    files = {"memory.max": str(4 * GIB), "memory.current": str(3 * GIB), "memory.stat": details}
    second = write(tmp_path / "second", files)
    assert room.free_memory(second) == 4 * GIB - (3 * GIB - GIB - GIB // 2)  # files are given up
    assert room.free_memory(write(second, {"memory.max": "max"})) == 8 * GIB
    assert room.free_memory(write(second, {"memory.max": str(64 * GIB)})) == 8 * GIB
    assert room.free_memory(write(second, {"memory.max": str(GIB)})) == 0
    first = write(
        tmp_path / "first",
        {
            "memory/memory.limit_in_bytes": str(2 * GIB),
            "memory/memory.usage_in_bytes": str(GIB),
            "memory/memory.stat": "total_inactive_file 0\ntotal_active_file 0",
        },
    )
    assert room.free_memory(first) == GIB
    without = write(first, {"memory/memory.limit_in_bytes": "9223372036854771712"})
    assert room.free_memory(without) == 8 * GIB


def test_what_does_not_fit_is_refused_with_what_would(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(room.free_memory, "__defaults__", (tmp_path,))
    room.check_room("--buffer_steps", 1000, 8 * GIB, "cpu")
    room.check_room("--buffer_steps", 1000, 80 * GIB, "meta")
    words = r"--buffer_steps 1000 needs 8.0 GiB in each process and 4.0 GiB are free for it: give --buffer_steps 250"
    with pytest.raises(UserError, match=words):
        room.check_room("--buffer_steps", 1000, 8 * GIB, "cpu", neighbours=2)
