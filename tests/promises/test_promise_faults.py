"""A loss that is not finite and a full disk end the run with what was known; nothing is saved after, nothing lost."""

import re
import subprocess

import pytest
from runs import checkpoint_steps, read_rows


def assert_not_finite(stage, run, ended) -> tuple[int, str]:
    """One line that names step and records, exit code 2, nothing saved from that step on; (step, records)."""
    assert ended.code == 2, ended.stderr
    (line,) = ended.stderr.splitlines()
    found = re.match(r"error: the loss or its gradient is not finite at step (\d+), records (.+?): nothing after", line)
    assert found, line
    step = int(found[1])
    assert f"nothing after step {step - 1} was saved" in line
    # With a checkpoint at every step, the last is the one before.
    assert checkpoint_steps(run)[-1:] == ([step - 1] if step > 1 else [])
    assert not (run / "results.json").exists() and not (run / "export").exists()
    assert all(row["step"] < step for row in read_rows(run))
    assert not re.search(r"NaN|Infinity", (run / "metrics.jsonl").read_text(encoding="utf-8"))
    return step, found[2]


def test_a_diverging_run_is_stopped(stage):
    run = stage.folder / "diverging"
    ended = stage.alone(run, stage.case.diverge).finish()
    assert_not_finite(stage, run, ended)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_poisoned_record_is_named(stage, alone, processes):
    """The same record is met in different company by one and by two processes, and named by both."""
    start = {1: stage.alone, 2: stage.pair}[processes]
    record, run = stage.case.pick_record(alone.run), stage.folder / f"poisoned_{processes}"
    ended = start(run, probe=(stage.case.poison, record)).finish()
    _, records = assert_not_finite(stage, run, ended)
    assert record in records.split(", ")


@pytest.fixture
def small_disk(tmp_path, stage):
    """A real file system of a few MB; yields its folder and a function that enlarges it."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={stage.case.disk_kib}k", "none", str(mount)], capture_output=True
    )
    if done.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield mount, lambda: subprocess.run(["mount", "-o", "remount,size=64m", str(mount)], check=True)
    subprocess.run(["umount", str(mount)], check=True)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_full_disk(stage, request, small_disk, processes):
    """It fills up while the run saves: the earlier checkpoints survive and the run goes on once there is room."""
    reference = request.getfixturevalue({1: "alone", 2: "pair"}[processes])
    start = {1: stage.alone, 2: stage.pair}[processes]
    mount, enlarge = small_disk
    run = mount / "run"
    ended = start(run, "--keep_checkpoints 100").finish()
    assert ended.code == 2
    (line,) = ended.stderr.splitlines()
    found = re.match(
        rf"error: cannot save step-(\d+) in {re.escape(str(run))}/checkpoints: no space left; "
        r"([\d,]+) bytes are needed and ([\d,]+) are free there; what was saved before is untouched: free some space",
        line,
    )
    assert found, line
    needed, free = (int(text.replace(",", "")) for text in found.groups()[1:])
    assert 0 <= free < needed
    steps = checkpoint_steps(run)
    assert steps == list(range(1, int(found[1]))) and steps
    assert [path.name for path in run.rglob(".*")] == []
    enlarge()
    ended = start(run, "--resume auto").finish()
    assert ended.code == 0 and f"at step {steps[-1]}\n" in ended.stdout and "skipped" not in ended.stdout
    stage.outcome(run).assert_equal(reference)
