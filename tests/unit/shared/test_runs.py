"""Run directories, the lock of a run, stop signals, and sharding that cannot be saved."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkpoint_samples import Config, build, damage, in_child, refused

from lib import runlock
from lib.checkpoint import (
    RunDirectory,
    StopSignals,
    find_checkpoint,
    save_checkpoint,
)
from lib.runlock import RunLock

ROOT = Path(__file__).resolve().parents[3]


def test_numbered_runs_and_what_they_hold(acc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "tester" / "run7").mkdir(parents=True)
    (tmp_path / "runs" / "tester" / "notes").mkdir()
    run = RunDirectory.create(acc, Config(seed=5), "tester", facts={"devices": ["cpu"]})
    assert run.path == Path("runs/tester/run8")
    config = json.loads((run.path / "config.json").read_text())
    assert (config["seed"], config["width"], config["betas"]) == (5, 6, [0.8, 0.9])
    environment = json.loads((run.path / "environment.json").read_text())
    assert (environment["trainer"], environment["devices"]) == ("tester", ["cpu"])
    assert RunDirectory.create(acc, Config(), "tester").path == Path("runs/tester/run9")
    assert RunDirectory.create(acc, Config(), "another").path == Path("runs/another/run1")


def test_a_folder_with_a_run_is_not_written_over(acc, saved):
    saved.close()
    before = {path: path.read_bytes() for path in saved.path.rglob("*") if path.is_file()}
    message = refused(lambda: RunDirectory.create(acc, Config(output_dir=str(saved.path)), "tester"))
    assert "holds a run already" in message and "--resume auto" in message
    message = refused(lambda: RunDirectory.create(acc, Config(output_dir=str(saved.path), resume="auto"), "another"))
    assert "holds a run of tester, this is another" in message
    assert {path: path.read_bytes() for path in saved.path.rglob("*") if path.is_file()} == before


def test_a_run_that_ended_before_its_first_step_may_start_again(acc, tmp_path):
    config = Config(output_dir=str(tmp_path / "run"))
    RunDirectory.create(acc, config, "tester").close()
    (tmp_path / "run" / "users_own.txt").write_text("kept")
    RunDirectory.create(acc, config, "tester").close()
    assert (tmp_path / "run" / "users_own.txt").read_text() == "kept"


def test_output_dir_that_is_a_file(acc, tmp_path):
    (tmp_path / "file").touch()
    assert "is a file, expected a folder" in refused(
        lambda: RunDirectory.create(acc, Config(output_dir=str(tmp_path / "file")), "tester")
    )


def test_resume_auto_takes_the_newest_run_with_a_usable_checkpoint(acc, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert RunDirectory.create(acc, Config(resume="auto"), "tester").path == Path("runs/tester/run1")
    assert "no run with a checkpoint" in capsys.readouterr().out
    model, optimizer = build()
    for number in (2, 3, 4):
        run = RunDirectory.create(acc, Config(), "tester")
        assert run.path.name == f"run{number}"
        if number < 4:
            save_checkpoint(acc, run, 10 * number, model=model, optimizer=optimizer, state={}, keep=1)
        run.close()
    assert RunDirectory.create(acc, Config(resume="auto"), "tester").path == Path("runs/tester/run3")
    RunLockOf("runs/tester/run3").release()
    damage(Path("runs/tester/run3/checkpoints/step-00000030"), "model.safetensors", "flip")
    assert RunDirectory.create(acc, Config(resume="auto"), "tester").path == Path("runs/tester/run2")


def RunLockOf(path: str) -> RunLock:
    return RunLock.held[Path(path).absolute() / "run.lock"]


def test_an_explicit_path_continues_in_its_run_or_forks(acc, saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved.close()
    inside = saved.checkpoints / "step-00000001"
    again = RunDirectory.create(acc, Config(resume=str(inside)), "tester")
    assert again.path == saved.path
    again.close()
    fork = RunDirectory.create(acc, Config(resume=str(inside), output_dir="fork"), "tester")
    assert find_checkpoint(acc, fork, str(inside)) == inside and fork.resumed_step == 1
    model, optimizer = build()
    save_checkpoint(acc, fork, 2, model=model, optimizer=optimizer, state={}, keep=1)
    fork.close()
    message = refused(lambda: RunDirectory.create(acc, Config(resume=str(inside), output_dir="fork"), "tester"))
    assert "names a checkpoint of another one" in message
    assert "no such checkpoint" in refused(lambda: RunDirectory.create(acc, Config(resume="absent"), "tester"))


def test_changed_options_are_named_when_a_run_is_continued(acc, saved, capsys):
    saved.close()
    config = Config(output_dir=str(saved.path), resume="auto", width=7, max_steps=99, betas=(0.8, 0.9))
    again = RunDirectory.create(acc, config, "tester")
    line = next(line for line in capsys.readouterr().out.splitlines() if "other options" in line)
    assert line.endswith("width 6 -> 7") and line in again.notes
    again.close()


# What RunLock does, without its imports.
OWNER = """
import fcntl, json, os, socket, sys, time
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
file.flush()
print("locked", flush=True)
time.sleep(60)
"""


def test_a_run_in_use_is_refused_and_a_killed_owner_replaced(acc, saved, capsys, monkeypatch):
    saved.close()
    monkeypatch.setattr(runlock, "LOCK_WAIT_S", 0.2)
    command = [sys.executable, "-c", OWNER, str(saved.path / "run.lock")]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert owner.stdout.readline() == "locked\n"
        config = Config(output_dir=str(saved.path), resume="auto")
        before = (saved.path / "config.json").read_bytes()
        start = time.monotonic()
        message = refused(lambda: RunDirectory.create(acc, config, "tester"))
        assert time.monotonic() - start < 20
        assert f"in use by process {owner.pid} on {socket.gethostname()}" in message
        assert (saved.path / "config.json").read_bytes() == before
    finally:
        owner.kill()
        owner.wait()
    again = RunDirectory.create(acc, config, "tester")
    assert f"took over {saved.path} from process {owner.pid}" in capsys.readouterr().out
    assert "in use by this very process" in refused(lambda: RunDirectory.create(acc, config, "tester"))
    again.close()
    again = RunDirectory.create(acc, config, "tester")
    assert "took over" not in capsys.readouterr().out
    # A forked data worker that ends neither frees the lock nor empties the file.
    assert in_child(again.close) == 0
    assert json.loads((saved.path / "run.lock").read_text())["pid"] == os.getpid()
    again.close()


def test_file_systems_without_locks_fall_back_on_the_process_number(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(runlock.fcntl, "lockf", unsupported)
    owner = {"pid": os.getpid(), "host": socket.gethostname()}
    (tmp_path / "run.lock").write_text(json.dumps(owner))
    assert "in use by process" in refused(lambda: RunLock(tmp_path / "run.lock").acquire(wait_s=0))
    (tmp_path / "run.lock").write_text(json.dumps({**owner, "pid": 2**22 + 1}))
    lock = RunLock(tmp_path / "run.lock")
    assert "which is gone" in lock.acquire(wait_s=0)[0]
    lock.release()
    # A process of another host cannot be looked for.
    (tmp_path / "run.lock").write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    message = refused(lambda: RunLock(tmp_path / "run.lock").acquire(wait_s=0))
    assert "process 1 on elsewhere" in message and "cannot tell whether it lives; delete run.lock" in message
    assert json.loads((tmp_path / "run.lock").read_text())["host"] == "elsewhere"


def test_a_folder_of_the_user_is_refused_and_left_as_it_is(acc, tmp_path):
    home = tmp_path / "home"
    (home / ".old-thesis").mkdir(parents=True)
    (home / ".tmp-notes").write_text("mine")
    (home / "config.json").write_text('{"mine": true}')
    for resume in (None, "auto"):
        config = Config(output_dir=str(home), resume=resume)
        message = refused(lambda config=config: RunDirectory.create(acc, config, "tester"))
        assert "files that are not of a run" in message and "nothing was touched" in message
    (home / "environment.json").write_text('{"name": "conda"}')
    message = refused(lambda: RunDirectory.create(acc, Config(output_dir=str(home)), "tester"))
    assert "environment.json among them" in message
    names = {".old-thesis", ".tmp-notes", "config.json", "environment.json"}
    assert {path.name for path in home.iterdir()} == names
    assert (home / "config.json").read_text() == '{"mine": true}'


def test_traces_of_a_killed_start_and_a_log_are_no_obstacle(acc, tmp_path):
    home = tmp_path / "home"
    (home / "checkpoints").mkdir(parents=True)
    for name in ("run.lock", ".quartet-tmp-environment.json-0011aabb", "slurm-7.out", "start.log"):
        (home / name).touch()
    run = RunDirectory.create(acc, Config(output_dir=str(home)), "tester")
    assert {path.name for path in home.iterdir()} == {
        *("checkpoints", "run.lock", "slurm-7.out", "start.log", "config.json", "environment.json")
    }
    run.close()


def test_a_run_that_appeared_while_the_lock_was_awaited_is_refused(acc, tmp_path, monkeypatch):
    real = RunLock.acquire

    def late(lock, wait_s=None):
        lock.path.with_name("metrics.jsonl").write_text('{"step": 1}\n')
        lock.path.with_name("environment.json").write_text('{"trainer": "tester"}')
        return real(lock, wait_s)

    monkeypatch.setattr(RunLock, "acquire", late)
    config = Config(output_dir=str(tmp_path / "run"))
    assert "holds a run already" in refused(lambda: RunDirectory.create(acc, config, "tester"))
    assert not (tmp_path / "run" / "config.json").exists()
    assert not [path for path in RunLock.held if tmp_path in path.parents]


def test_auto_says_why_a_run_was_passed_over(acc, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model, optimizer = build()
    for step in (1, 2):
        run = RunDirectory.create(acc, Config(), "tester")
        save_checkpoint(acc, run, step, model=model, optimizer=optimizer, state={}, keep=1)
        run.close()
    damage(Path("runs/tester/run2/checkpoints/step-00000002"), "model.safetensors", "flip")
    run = RunDirectory.create(acc, Config(resume="auto"), "tester")
    line = next(note for note in run.notes if note.startswith("skipped runs/tester/run2"))
    assert run.path.name == "run1" and "is corrupted" in line and line in capsys.readouterr().out
    run.close()


def test_stop_signals():
    former = signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert stop.requested and stop.name == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is former


def test_a_second_interrupt_ends_at_once_but_an_echo_does_not(acc, monkeypatch):
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert stop.requested and stop.agreed(acc)
        now = time.monotonic()
        monkeypatch.setattr("lib.stopping.time.monotonic", lambda: now + 2)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


def test_fsdp_1_is_refused_at_the_start(tmp_path):
    from types import SimpleNamespace

    from accelerate.utils import DistributedType

    fsdp = SimpleNamespace(distributed_type=DistributedType.FSDP, is_fsdp2=False)
    config = Config(output_dir=str(tmp_path / "run"))
    assert "fsdp_version: 2" in refused(lambda: RunDirectory.create(fsdp, config, "tester"))
    assert not (tmp_path / "run").exists()
