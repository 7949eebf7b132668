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

from lib import runs
from lib.checkpoint import (
    RunDirectory,
    StopSignals,
    find_checkpoint,
    save_checkpoint,
)

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


def RunLockOf(path: str) -> runs.RunLock:
    return runs.RunLock.held[Path(path).absolute() / "run.lock"]


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


OWNER = """
import sys, time
from lib.runs import RunLock
from pathlib import Path
print(RunLock(Path(sys.argv[1])).acquire(), flush=True)
time.sleep(60)
"""


def test_a_run_in_use_is_refused_and_a_killed_owner_replaced(acc, saved, capsys, monkeypatch):
    saved.close()
    monkeypatch.setattr(runs, "LOCK_WAIT_S", 0.2)
    command = [sys.executable, "-c", OWNER, str(saved.path / "run.lock")]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert owner.stdout.readline() == "[]\n"
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

    monkeypatch.setattr(runs.fcntl, "lockf", unsupported)
    owner = {"pid": os.getpid(), "host": socket.gethostname()}
    (tmp_path / "run.lock").write_text(json.dumps(owner))
    assert "in use by process" in refused(lambda: runs.RunLock(tmp_path / "run.lock").acquire(wait_s=0))
    (tmp_path / "run.lock").write_text(json.dumps({**owner, "pid": 2**22 + 1}))
    lock = runs.RunLock(tmp_path / "run.lock")
    assert "which is gone" in lock.acquire(wait_s=0)[0]
    lock.release()


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


def test_deepspeed_and_fsdp_1_are_refused_at_the_start(tmp_path):
    from types import SimpleNamespace

    from accelerate.utils import DistributedType

    deepspeed = SimpleNamespace(distributed_type=DistributedType.DEEPSPEED, is_fsdp2=False)
    message = refused(lambda: RunDirectory.create(deepspeed, Config(output_dir=str(tmp_path / "run")), "tester"))
    assert "--save_every 0" in message and "fsdp2.yaml" in message
    assert not (tmp_path / "run").exists()
    fsdp = SimpleNamespace(distributed_type=DistributedType.FSDP, is_fsdp2=False)
    assert "fsdp_version: 2" in refused(lambda: RunDirectory.create(fsdp, Config(), "tester"))
