"""lib.local_average on two real ranks: the same mean as one process finds, the same bits on both, an end to waiting."""

import platform

import pytest
from launching import ACCELERATE, CONFIGS, PROBES, environment, launch

on_x86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="shared memory is used on x86 alone"
)


def ranks(tmp_path, *flags: str) -> list[dict]:
    command = [*ACCELERATE, "--config_file", CONFIGS / "cpu_2.yaml", PROBES / "local_average.py", *flags]
    ended = launch(command, environment(tmp_path))
    assert ended.code == 0, ended.stderr
    assert [line["rank"] for line in ended.ranks] == [0, 1]
    return ended.ranks


@pytest.mark.parametrize("shared", [pytest.param(True, marks=on_x86), False])
def test_two_hundred_means(tmp_path, shared):
    """Through memory, and, as on GPUs and on several machines, by DDP."""
    one, other = ranks(tmp_path, *([] if shared else ["--no_shared"]))
    assert one["shared"] == other["shared"] == shared
    assert one["same"] == other["same"]
    assert max(one["worst"], other["worst"]) < 3e-7


@on_x86
def test_a_rank_that_stays_silent_is_given_up(tmp_path):
    _, waiting = ranks(tmp_path, "--end", "silent")
    assert "timed out after" in waiting["error"] and 3.0 <= waiting["after_s"] < 4.5
