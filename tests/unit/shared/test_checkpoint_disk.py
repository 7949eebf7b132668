"""Full and read-only disks, and kill -9 at every call that changes the disk: the old checkpoint or the new one."""

import errno
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from checkpoint_samples import Config, build, in_child, refused, steps_of, train
from safetensors import SafetensorError
from torch import nn

from lib import checkpoint as checkpoints
from lib import files, manifests
from lib.checkpoint import (
    RunDirectory,
    find_checkpoint,
    save_checkpoint,
)

PLACES = ("first tensors", "second tensors", "wrapped", "text", "mkdir", "fsync", "rename")


@pytest.mark.parametrize(
    ("number", "words", "where"),
    [(errno.ENOSPC, "no space left", where) for where in PLACES]
    + [
        (errno.EROFS, "read-only", "text"),
        (errno.EACCES, "no permission", "mkdir"),
        (errno.EDQUOT, "quota", "first tensors"),
        (errno.EDQUOT, "quota", "wrapped"),
    ],
)
def test_disk_errors_leave_the_old_one(acc, saved, monkeypatch, number, words, where):
    model, optimizer = build()
    before = {path: path.read_bytes() for path in saved.checkpoints.rglob("*") if path.is_file()}
    fail_at(monkeypatch, where, number)
    arguments = {"model": model, "optimizer": optimizer, "state": {}, "keep": 1}
    message = refused(lambda: save_checkpoint(acc, saved, 3, **arguments))
    monkeypatch.undo()
    assert words in message and str(saved.checkpoints) in message
    needed, free = (
        int(part.split()[-1].replace(",", ""))
        for part in (message.split(" bytes are")[0], message.split(" are free")[0])
    )
    assert needed > 1000 and free > 0
    after = {path: path.read_bytes() for path in saved.checkpoints.rglob("*") if path.is_file()}
    assert after == before and steps_of(saved) == [1, 2]
    # The disk has room again: the same call works.
    save_checkpoint(acc, saved, 3, **arguments)
    assert find_checkpoint(acc, saved, "auto").name == "step-00000003"


def fail_at(monkeypatch, where: str, number: int) -> None:
    error = OSError(number, os.strerror(number))
    calls = []

    def part_way(tensors, path, **_):
        calls.append(path)
        if where == "second tensors" and len(calls) == 1:
            return real_save(tensors, path)
        Path(path).write_bytes(b"half")
        if where == "wrapped":
            raise SafetensorError(f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})")
        raise error

    def fail(*_, **__):
        raise error

    real_save = checkpoints.save_file
    if "tensors" in where or where == "wrapped":
        monkeypatch.setattr(checkpoints, "save_file", part_way)
    elif where == "text":
        monkeypatch.setattr(Path, "write_text", fail)
    elif where == "mkdir":
        monkeypatch.setattr(Path, "mkdir", fail)
    else:
        monkeypatch.setattr(os, where, fail)


def test_a_hopeless_save_writes_nothing(acc, saved, monkeypatch):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 10**6 - 1000, 1000))
    monkeypatch.setattr(checkpoints, "save_file", lambda *_: pytest.fail("it wrote"))
    model, optimizer = build()
    message = refused(lambda: save_checkpoint(acc, saved, 3, model=model, optimizer=optimizer, state={}, keep=1))
    assert "no space left" in message and "1,000 are free" in message
    assert steps_of(saved) == [1, 2]


def test_other_errors_are_not_called_disk_errors(acc, saved, monkeypatch):
    monkeypatch.setattr(checkpoints, "save_file", lambda *_: 1 / 0)
    model, optimizer = build()
    with pytest.raises(ZeroDivisionError):
        save_checkpoint(acc, saved, 3, model=model, optimizer=optimizer, state={}, keep=1)
    assert steps_of(saved) == [1, 2]


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 3 MB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(mount)], capture_output=True)
    if done.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_real_full_disk(acc, small_disk, monkeypatch):
    run = RunDirectory.create(acc, Config(output_dir=str(small_disk / "run")), "tester")
    model, optimizer = build()
    save_checkpoint(acc, run, 1, model=model, optimizer=optimizer, state={}, keep=1)
    large = nn.Linear(1000, 1000)
    arguments = {"model": large, "optimizer": torch.optim.SGD(large.parameters()), "state": {}, "keep": 1}
    message = refused(lambda: save_checkpoint(acc, run, 2, **arguments))
    assert "no space left" in message and "5,0" in message
    # Free space can vanish between the look and the write: the write itself fails.
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 0, 10**9))
    message = refused(lambda: save_checkpoint(acc, run, 2, **arguments))
    assert "no space left" in message
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000001"]
    assert find_checkpoint(acc, run, "auto").name == "step-00000001"
    run.close()


def test_a_real_read_only_disk(acc, small_disk):
    run = RunDirectory.create(acc, Config(output_dir=str(small_disk / "run")), "tester")
    run.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    model, optimizer = build()
    message = refused(lambda: save_checkpoint(acc, run, 1, model=model, optimizer=optimizer, state={}, keep=1))
    assert "read-only" in message and str(run.checkpoints) in message
    for name in ("run", "new"):
        config = Config(output_dir=str(small_disk / name), resume="auto")
        assert "read-only" in refused(lambda config=config: RunDirectory.create(acc, config, "tester"))


def kill_before(count: int) -> None:
    """In a child: end like kill -9 before the count-th call that changes the disk."""
    left = [count]

    def wrap(owner, name):
        real = getattr(owner, name)

        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        setattr(owner, name, call)

    for owner, name in (
        (os, "fsync"),
        (os, "rename"),
        (os, "mkdir"),
        (os, "rmdir"),
        (os, "unlink"),
        (checkpoints, "save_file"),
        (Path, "write_text"),
    ):
        wrap(owner, name)


@pytest.mark.parametrize("step", [2, 3])
def test_a_kill_leaves_the_old_or_the_new(acc, saved, step):
    """Step 3 is new and pushes step 1 out; step 2 is there already and is replaced."""
    model, optimizer = build()
    train(model, optimizer, range(9))
    arguments = {"model": model, "optimizer": optimizer, "state": {"note": "new"}, "keep": 2}
    kept = saved.path.with_name("kept")
    shutil.copytree(saved.checkpoints, kept)
    seen, killed = set(), 0
    for count in range(1, 100):

        def save(count=count):
            kill_before(count)
            save_checkpoint(acc, saved, step, **arguments)

        died = in_child(save)
        killed += died == signal.SIGKILL
        files.clean_leftovers(saved.checkpoints)
        assert not [path for path in saved.checkpoints.iterdir() if not path.name.startswith("step-")]
        newest, reasons = manifests.newest_checkpoint(saved.checkpoints, "tester")
        assert newest is not None and reasons == []
        note = json.loads((newest.path / "state.json").read_text())["note"]
        assert (newest.step, note) in {(2, "step 2"), (step, "new")}
        seen.add(note)
        shutil.rmtree(saved.checkpoints)
        shutil.copytree(kept, saved.checkpoints)
        if not died:
            break
    assert killed >= 12 and died == 0
    assert seen == {"step 2", "new"}


def test_leftovers_of_killed_saves_are_cleaned_when_the_run_is_opened(acc, saved, capsys):
    saved.close()
    (saved.checkpoints / ".quartet-tmp-step-00000009-abc").mkdir()
    (saved.checkpoints / ".quartet-tmp-step-00000009-abc" / "model.safetensors").write_bytes(b"half")
    (saved.path / ".quartet-tmp-config.json-abc").write_text("{")
    (saved.checkpoints / "step-00000002").rename(saved.checkpoints / ".quartet-old-step-00000002-0011aabb")
    config = Config(output_dir=str(saved.path), resume="auto")
    again = RunDirectory.create(acc, config, "tester")
    assert steps_of(again) == [1, 2]
    assert not list(saved.path.rglob(".quartet-*"))
    text = capsys.readouterr().out
    assert text.count("left by a write that was killed") == 2 and "put" in text and "step-00000002 back" in text
    again.close()


def test_a_replacement_that_fails_half_way_puts_the_old_one_back(acc, saved, monkeypatch):
    model, optimizer = build()
    real, calls = os.rename, []

    def second_fails(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    monkeypatch.setattr(os, "rename", second_fails)
    message = refused(lambda: save_checkpoint(acc, saved, 2, model=model, optimizer=optimizer, state={}, keep=5))
    assert "no space left" in message and len(calls) == 3
    assert sorted(path.name for path in saved.checkpoints.iterdir()) == ["step-00000001", "step-00000002"]
    assert find_checkpoint(acc, saved, "auto").name == "step-00000002"


def test_an_old_folder_that_cannot_be_deleted_ends_neither_training_nor_a_resume(acc, saved, monkeypatch, capsys):
    def forbidden(path, *_, **__):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))

    monkeypatch.setattr(files.shutil, "rmtree", forbidden)
    model, optimizer = build()
    for _ in range(2):
        # Pushes step 1 out and then replaces itself.
        save_checkpoint(acc, saved, 3, model=model, optimizer=optimizer, state={}, keep=2)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("could not delete")]
    assert len(lines) == 2 and "step-00000001" in lines[0] and "step-00000003" in lines[1]
    assert all(line in saved.notes and "busy" in line for line in lines)
    saved.close()
    again = RunDirectory.create(acc, Config(output_dir=str(saved.path), resume="auto"), "tester")
    assert capsys.readouterr().out.count("could not delete") == 2
    assert find_checkpoint(acc, again, "auto").name == "step-00000003"
    again.close()
