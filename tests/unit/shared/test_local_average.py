"""lib.local_average without launching: ranks as threads, and neighbours that end; two real ranks are in
tests/distributed/test_local_average_ranks.py."""

import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch

from lib import local_average
from lib.local_average import LocalAverage

COUNT = 1000


@pytest.fixture
def place(tmp_path) -> Path:
    def zeros(ranks: int) -> Path:
        path = tmp_path / "shared"
        path.write_bytes(bytes(local_average.file_size(ranks, COUNT)))
        return path

    return zeros


def test_three_ranks_get_the_same_bits_turn_after_turn(place):
    path, turns = place(3), 300
    vectors = torch.randn(3, turns, COUNT, generator=torch.Generator().manual_seed(1))
    expected = vectors[0] + vectors[1] + vectors[2]
    found, numbers = vectors.clone(), torch.zeros(3, turns, 2, dtype=torch.float64)

    def run(rank: int) -> None:
        average = LocalAverage(path, rank, 3, COUNT, 30.0)
        for turn in range(turns):
            average.post([found[rank, turn, :9], found[rank, turn, 9:]], [0.1 * rank, turn])
            if turn % 40 == rank:
                time.sleep(0.01)  # work that is done before the others are waited for
            numbers[rank, turn] = average.take(found[rank, turn])
            if turn % 40 == 20 + rank:
                time.sleep(0.01)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for turn in range(turns):
        assert all(torch.equal(found[rank, turn], expected[turn]) for rank in range(3)), turn
        told = torch.tensor([0.0 + 0.1 + 0.2, 3 * turn], dtype=torch.float64)
        assert all(torch.equal(numbers[rank, turn], told) for rank in range(3)), turn


def test_a_neighbour_that_is_gone(place, monkeypatch):
    monkeypatch.setattr(local_average, "_CHECK_S", 0.05)
    path = place(2)
    ended = subprocess.Popen(["true"])
    ended.wait()
    LocalAverage(path, 1, 2, COUNT, 30.0).processes[1] = ended.pid
    started = time.monotonic()
    average = LocalAverage(path, 0, 2, COUNT, 30.0)
    average.post([torch.zeros(COUNT)], [1.0])
    with pytest.raises(RuntimeError, match="Connection closed by peer: rank 1 is gone"):
        average.take(torch.empty(COUNT))
    assert time.monotonic() - started < 5


def test_no_room_for_the_file(monkeypatch, tmp_path):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    made = []
    original = local_average.tempfile.mkstemp
    monkeypatch.setattr(local_average.os, "posix_fallocate", refuse)
    monkeypatch.setattr(local_average.tempfile, "mkstemp", lambda **keys: made.append(original(**keys)) or made[-1])
    assert local_average._new_file(1000) is None
    assert made and not Path(made[0][1]).exists()
