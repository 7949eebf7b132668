"""The run log: rows and lines, resume, throughput, trackers, terminals."""

import builtins
import errno
import io
import json
import math
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from checkpoint_samples import refused

from lib import runlog
from lib.args import RunArgs
from lib.checkpoint import RunDirectory
from lib.runlog import RunLog, Throughput, compact, read_metrics, text_line, tracker_kinds, truncate_metrics


@dataclass
class Config(RunArgs):
    width: int = 6


@pytest.fixture
def open_run(acc, tmp_path):
    runs = []

    def make(**options):
        run = RunDirectory.create(acc, Config(output_dir=str(tmp_path / "run"), **options), "tester")
        runs.append(run)
        return run

    yield make
    for run in runs:
        run.close()


@pytest.fixture
def plain(acc, open_run):
    """A log without trackers."""
    config = Config(report_to="none")
    with RunLog(acc, open_run(), config, total_steps=3, unit="rows") as log:
        yield log


def rows_of(log) -> list[dict]:
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def test_rows_hold_everything_and_lines_keep_their_order(plain, capsys):
    plain.add_units(10)
    plain.log(1, {"loss": torch.tensor(1.834321), "lr": 3e-4, "kind": "warm", "per_class": [1, 2], "n": np.int64(7)})
    plain.log(2, {"loss": 1.5})
    plain.log(3, {"loss": math.nan, "lr": 0.0})
    plain.log(3, {"val_ppl": 3.14159, "val": {"a": math.inf}}, progress=False)
    first, second, third, fourth = rows_of(plain)
    assert first["step"] == 1 and first["loss"] == pytest.approx(1.834321) and first["per_class"] == [1, 2]
    assert list(first) == ["step", "wall_s", "cpu_s", "loss", "lr", "kind", "per_class", "n", "rows_per_s"]
    assert (second["loss"], third["loss"], fourth["val"]) == (1.5, "NaN", {"a": "Infinity"})
    assert "rows_per_s" not in fourth
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step 1 loss 1.834 lr 3e-4 kind warm n 7 rows/s ")
    # Step 2 came within 5 s of step 1: no line. The last step has one, results always have.
    assert [line.split(" rows/s")[0] for line in lines[1:]] == ["step 3 loss nan lr 0", "step 3 val_ppl 3.142"]


def test_rows_are_on_disk_at_once(plain):
    plain.log(1, {"loss": 1.0})
    assert rows_of(plain)[0]["loss"] == 1.0


def test_notes(plain, capsys):
    plain.log(4, {"loss": 1.0})
    plain.note("fewer workers: 2 of 4", workers=2)
    assert capsys.readouterr().out.splitlines()[-1] == "fewer workers: 2 of 4"
    row = rows_of(plain)[-1]
    assert (row["step"], row["note"], row["workers"]) == (4, "fewer workers: 2 of 4", 2)


def test_notes_of_launch_and_run_reach_the_metrics(acc, open_run, monkeypatch):
    run = open_run()
    run.notes.append("took over")
    monkeypatch.setattr(acc, "launch_notes", ["precision fp32"], raising=False)
    with RunLog(acc, run, Config(report_to="none"), None, "rows") as log:
        assert [row["note"] for row in rows_of(log)] == ["precision fp32", "took over"]


def test_notes_of_the_run_reach_an_open_log(acc, open_run, capsys):
    run = open_run()
    with RunLog(acc, run, Config(report_to="none"), None, "rows") as log:
        run.note(acc, "could not delete")
        assert [row["note"] for row in rows_of(log)] == ["could not delete"]
    run.note(acc, "afterwards")
    assert capsys.readouterr().out.splitlines() == ["could not delete", "afterwards"]
    assert len(rows_of(log)) == 1


def test_a_continued_run_is_described_when_the_log_opens(acc, saved):
    saved.close()
    described = [saved.path / name for name in ("config.json", "environment.json")]
    before = [file.read_bytes() for file in described]
    config = Config(output_dir=str(saved.path), resume="auto", seed=24)
    run = RunDirectory.create(acc, config, "tester")
    assert [file.read_bytes() for file in described] == before
    with RunLog(acc, run, Config(report_to="none"), None, "rows"):
        assert json.loads(described[0].read_text())["seed"] == 24
        assert described[1].read_bytes() != before[1]
    run.close()


def test_other_processes_write_nothing(acc, open_run, monkeypatch, capsys):
    run = open_run()
    monkeypatch.setattr(type(acc), "is_main_process", property(lambda self: False))
    with RunLog(acc, run, Config(), 3, "rows") as log:
        log.add_units(3)
        log.log(1, {"loss": 1.0})
        log.note("nothing")
        assert log.wall_s() >= 0 and log.cpu_s() >= 0
    assert capsys.readouterr().out == "" and not run.path.joinpath("metrics.jsonl").exists()


def test_a_resumed_log_drops_later_rows_and_continues_the_clock(acc, open_run):
    run = open_run()
    rows = [{"step": step, "wall_s": 100.0 * step, "cpu_s": 10.0 * step, "loss": step} for step in range(1, 5)]
    path = run.path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 5, "wall')
    run.resumed_step = 2
    with RunLog(acc, run, Config(report_to="none"), None, "rows") as log:
        log.log(3, {"loss": 33})
        written = rows_of(log)
    assert [row["step"] for row in written] == [1, 2, 3]
    assert written[-1]["loss"] == 33
    assert 200 <= written[-1]["wall_s"] < 205 and 20 <= written[-1]["cpu_s"] < 25


@pytest.mark.parametrize(
    ("content", "step", "kept"),
    [
        (b'{"step": 1}\n{"step": 2}\n', 2, [1, 2]),
        (b'{"step": 1}\n{"step": 2}\n', 1, [1]),
        (b'{"step": 1}\n{"step": 2}', 2, [1]),  # torn: without its line end it may be half
        (b'{"step": 1}\n{"st', 2, [1]),
        (
            b'{"step": 1}\n\x00\x00\x00\n{"step": 2}\n',
            2,
            [1, 2],
        ),  # a hole left by a power cut
        (b'{"step": 3}\n{"step": 1}\n', 2, [1]),
        (b'{"step": 1}\n', None, []),
        (b"", 5, []),
        (b'[1]\n"x"\n{"loss": 2}\n', 5, []),
    ],
)
def test_truncation(tmp_path, content, step, kept):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(content)
    last = truncate_metrics(path, step)
    assert [row["step"] for row in read_metrics(path)] == kept
    assert (last or {}).get("step") == (kept[-1] if kept else None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_truncation_is_atomic_and_leaves_a_good_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    assert truncate_metrics(path, 1) is None
    path.write_text('{"step": 1}\n{"step": 2}\n')
    before = path.stat().st_ino
    truncate_metrics(path, 2)
    assert path.stat().st_ino == before

    def fail(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("lib.files.os.replace", fail)
    assert "no space left" in refused(lambda: truncate_metrics(path, 1))
    assert [row["step"] for row in read_metrics(path)] == [1, 2]


def test_a_full_disk_names_the_folder(plain):
    class Full(io.StringIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    plain._stream.close()
    plain._stream = Full()
    message = refused(lambda: plain.log(1, {"loss": 1.0}))
    assert "cannot write metrics.jsonl" in message and str(plain.path.parent) in message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.834321, "1.834"),
        (3e-4, "3e-4"),
        (1.25e-5, "1.25e-5"),
        (0.0, "0"),
        (0.001, "0.001"),
        (812.0, "812"),
        (8124.7, "8125"),
        (1.2e7, "1.2e7"),
        (-2.5e-9, "-2.5e-9"),
        (9.9999e-4, "1e-3"),
        (math.inf, "inf"),
        (120_000_000, "120000000"),
        (True, "True"),
        ("word", "word"),
    ],
)
def test_compact_numbers(value, text):
    assert compact(value) == text


def test_the_line_of_the_design():
    values = {"loss": 1.83, "lr": 3e-4, "residues_per_s": 812.0, "table": {"a": 1}, "flag": True, "none": None}
    assert text_line(120, values) == "step 120 loss 1.83 lr 3e-4 residues/s 812"


def test_throughput_over_a_window_and_overall():
    now = [1000.0]
    meter = Throughput(window_s=10.0, clock=lambda: now[0])
    assert (meter.recent(), meter.overall()) == (0.0, 0.0)
    for _ in range(20):
        now[0] += 1
        meter.add(100)
    assert (meter.recent(), meter.overall()) == (100.0, 100.0)
    for _ in range(20):
        now[0] += 1
        meter.add(300)
    assert meter.recent() == 300.0 and meter.overall() == 200.0
    meter.pause()
    now[0] += 500
    meter.pause()
    meter.resume()
    meter.resume()
    now[0] += 1
    meter.add(300)
    assert meter.recent() == 300.0 and meter.overall() == pytest.approx(8300 / 41)


def test_throughput_in_rows_excludes_pauses(plain, monkeypatch):
    now = [0.0]
    plain.throughput = Throughput(clock=lambda: now[0])
    now[0] = 2.0
    plain.add_units(100)
    with plain.paused():
        now[0] = 50.0
    now[0] = 52.0
    plain.add_units(100)
    plain.log(1, {})
    assert rows_of(plain)[-1]["rows_per_s"] == 50.0


# Trackers


def test_tensorboard_is_written_in_the_run_and_purged_on_resume(acc, open_run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = open_run()
    with RunLog(acc, run, Config(), 4, "rows") as log:
        for step in (1, 2, 3):
            log.log(step, {"loss": float(step), "text": "x"})
    run.resumed_step = 1
    with RunLog(acc, run, Config(), 4, "rows") as log:
        log.log(2, {"loss": 22.0})
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 1.0), (2, 22.0)]
    assert {entry.name for entry in run.path.iterdir()} >= {"tensorboard", "metrics.jsonl"}
    assert all(entry.is_file() for entry in (run.path / "tensorboard").iterdir())


@pytest.mark.parametrize("text", ["none", "", " "])
def test_no_tracker(text):
    assert tracker_kinds(text) == []


def test_tracker_lists(monkeypatch):
    monkeypatch.setattr(runlog.importlib.util, "find_spec", lambda name: object())
    assert tracker_kinds("tensorboard, wandb,tensorboard") == ["tensorboard", "wandb"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wandb", "pip install wandb"),
        ("tensorboard,trackio", "pip install trackio"),
        ("mlflow", "pip install mlflow"),
        ("tensorbord", "'tensorbord' is not known"),
        ("none,tensorboard", "'none' is not known"),
    ],
)
def test_missing_and_unknown_trackers(acc, open_run, monkeypatch, text, words):
    found = {"tensorboard"}
    monkeypatch.setattr(runlog.importlib.util, "find_spec", lambda name: object() if name in found else None)
    run = open_run()
    assert words in refused(lambda: RunLog(acc, run, Config(report_to=text), 1, "rows"))
    assert not run.path.joinpath("metrics.jsonl").exists()


def test_another_tracker_gets_project_configuration_and_numbers(acc, open_run, monkeypatch):
    """wandb's package need not be here: accelerate's tracker is replaced by one that writes down its calls."""
    from accelerate import tracking

    calls = []

    class Recorder(tracking.GeneralTracker):
        name, requires_logging_directory, main_process_only, tracker = "wandb", False, True, None

        def __init__(self, run_name, **options):
            super().__init__()
            calls.append(("init", run_name, sorted(options)))

        def store_init_configuration(self, values):
            calls.append(("config", values["width"], values["output_dir"]))

        def log(self, values, step=None, **_):
            calls.append(("log", step, values))

        def finish(self):
            calls.append(("finish",))

    monkeypatch.setattr(runlog.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules["accelerate.accelerator"].LOGGER_TYPE_TO_CLASS, "wandb", Recorder)
    run = open_run()
    with RunLog(acc, run, Config(report_to="wandb", output_dir="x"), 1, "rows") as log:
        log.log(1, {"loss": 2.0, "text": "x", "flag": True})
    assert calls == [("init", "tester", ["dir", "name"]), ("config", 6, "x"), ("log", 1, {"loss": 2.0}), ("finish",)]


# Terminals


def test_a_bar_on_a_terminal_and_results_above_it(acc, open_run, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    run = open_run()
    run.resumed_step = 4
    with RunLog(acc, run, Config(report_to="none"), 10, "rows") as log:
        assert log.bar.n == 4 and log.bar.total == 10
        log.log(5, {"loss": 1.25})
        log.log(5, {"val": 2.0}, progress=False)
        assert log.bar.n == 5 and log.bar.postfix == "loss 1.25"
    out = capsys.readouterr().out
    assert "step 5 val 2" in out
    assert "5/10" in screen.getvalue()


def test_no_bar_without_a_terminal(plain):
    assert plain.bar is None


def test_the_log_closes_when_the_body_fails(acc, open_run):
    with pytest.raises(builtins.KeyError):
        with RunLog(acc, open_run(), Config(report_to="none"), 1, "rows") as log:
            log.log(1, {"loss": 1})
            raise KeyError
    assert log._stream is None and rows_of(log)[0]["loss"] == 1
