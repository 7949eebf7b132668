"""The loop that learns from data: what it learns from, saves, resumes and measures, with a small task."""

import contextlib
import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from lib.args import RunArgs
from lib.checkpoint import RunDirectory
from lib.errors import UserError
from lib.fitting import Fit
from lib.task import Task


@dataclass
class Config(RunArgs):
    log_every: int = 2


class Line(nn.Module):
    """y = a x, and the sum of what it is off by."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(1))

    def forward(self, x, y):
        loss = (self.slope * x - y).square().sum()
        return loss, torch.stack([loss.detach(), torch.tensor(float(len(x)))]), x.max()


class LineTask(Task):
    """y = 3 x; the calls are kept."""

    statistics: ClassVar[tuple[str, ...]] = ("loss", "rows")

    def __init__(self, about="3 x", wrong_at=None):
        self.module, self.epoch_updates, self.about, self.wrong_at = Line(), 5, about, wrong_at
        self.calls, self.stop_at, self.signals = [], None, None

    def batch(self, update, rank, ranks):
        x = torch.arange(1.0, 5.0) + update % self.epoch_updates
        return x[rank::ranks], 3.0 * x[rank::ranks] * (float("nan") if update == self.wrong_at else 1.0)

    def begin(self, update, ranks):
        self.calls.append(("begin", update))

    def learnt(self, update, found, ranks):
        self.calls.append(("learnt", update, float(found[0])))
        if update == self.stop_at:
            self.signals.requested = True
        return {"largest": float(found[0])}

    def measure(self, part, rank, ranks):
        self.calls.append((part,))
        off = (self.module.slope.detach().double() - 3.0).square()
        return torch.cat([off, torch.ones(1, dtype=torch.float64)])

    def judge(self, sums):
        return {"loss": float(sums[0] / sums[1])}

    def described(self):
        return {"line": self.about}


@pytest.fixture
def fit(acc, tmp_path):
    def make(task, updates=12, **options):
        given = {"output_dir": str(tmp_path / "run"), "report_to": "none", "max_grad_norm": 0.0, **options}
        config = Config(**given)
        run = RunDirectory.create(acc, config, "tester")
        optimiser = torch.optim.SGD(task.module.parameters(), lr=0.008)
        made = Fit(acc, run, config, task, acc.prepare(task.module, optimiser), updates)
        task.signals = made.signals
        return made, run

    return make


def rows_of(run):
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def test_it_learns_in_epochs_and_measures_the_best_weights(fit):
    task = LineTask()
    made, run = fit(task)
    figures = made.go("rows")
    run.close()
    assert abs(task.module.slope.item() - 3.0) < 0.1 and figures["loss"] < 0.01
    assert [call[1] for call in task.calls if call[0] == "begin"] == list(range(12))
    assert [call[1:] for call in task.calls if call[0] == "learnt"] == [(u, 4.0 + u % 5) for u in range(12)]
    assert [call for call in task.calls if len(call) == 1] == [("validation",)] * 3 + [("test",)]  # 5, 10, 12
    rows = rows_of(run)
    trained = [row for row in rows if "largest" in row]
    assert [row["step"] for row in trained] == [2, 4, 6, 8, 10, 12] and trained[0]["loss"] > trained[-1]["loss"]
    assert trained[2]["epoch"] == 1.2
    # Constant for half of the run, then down.
    rates = [row["lr"] / 0.008 for row in trained]
    assert rates[:3] == [1.0] * 3 and rates[3:] == pytest.approx([10 / 12, 6 / 12, 2 / 12])
    assert [row["step"] for row in rows if "validation/loss" in row] == [5, 10, 12]
    saved = sorted(path.name for path in run.checkpoints.iterdir())
    assert saved == ["step-00000005", "step-00000010", "step-00000012"]


def test_a_stopped_fit_goes_on_as_if_it_had_not_been(fit, tmp_path):
    whole = LineTask()
    made, run = fit(whole, output_dir=str(tmp_path / "whole"))
    made.go("rows")
    run.close()
    first = LineTask()
    first.stop_at = 6
    made, run = fit(first)
    assert made.go("rows") is None
    run.close()
    second = LineTask()
    made, again = fit(second, resume="auto")
    figures = made.go("rows")
    again.close()
    assert torch.equal(second.module.slope, whole.module.slope) and figures is not None
    assert second.calls[0] == ("begin", max(call[1] for call in first.calls if call[0] == "begin") + 1)

    def numbers(run_path):
        rows = [json.loads(line) for line in (run_path / "metrics.jsonl").read_text().splitlines()]
        return [(row["step"], row["loss"]) for row in rows if "largest" in row]

    assert numbers(tmp_path / "whole") == numbers(tmp_path / "run")


def test_an_evaluation_that_was_stopped_is_made_after_the_resume(fit):
    first = LineTask()
    measure = first.measure

    def stopped(part, rank, ranks):
        first.signals.requested = True
        return measure(part, rank, ranks)

    first.measure = stopped
    made, run = fit(first)
    assert made.go("rows") is None
    run.close()
    assert not any("validation/loss" in row for row in rows_of(run))
    second = LineTask()
    made, run = fit(second, resume="auto")
    assert made.go("rows") is not None
    run.close()
    assert second.calls[0] == ("validation",) and second.calls[1] == ("begin", 5)
    assert [row["step"] for row in rows_of(run) if "validation/loss" in row] == [5, 10, 12]


def test_every_process_reports_what_any_of_them_has_left(fit, monkeypatch):
    """What is saved of the log's sums is the main process's after a resume: the others report with it, or it waits."""
    made, run = fit(LineTask(), updates=3)
    reported = []
    monkeypatch.setattr(made, "_report", lambda: reported.append("row"))
    monkeypatch.setattr(made.ranks, "sums", lambda numbers: {name: value + 2.0 for name, value in numbers.items()})
    made.log = type("Log", (), {"paused": contextlib.nullcontext, "log": lambda *_, **__: None})()
    assert float(made.sums.abs().sum()) == 0.0 and made._finish() is not None and reported == ["row"]
    run.close()


def test_a_fit_of_something_else_is_refused_by_name(fit):
    made, run = fit(LineTask(), updates=2)
    made.go("rows")
    run.close()
    made, run = fit(LineTask("4 x"), resume="auto")
    with pytest.raises(UserError, match=r"line is 4 x, and .* was trained with 3 x"):
        made.go("rows")
    run.close()


def test_numbers_that_are_not_finite_end_it(fit):
    made, run = fit(LineTask(wrong_at=3))
    with pytest.raises(UserError, match=r"not finite at step 4, records batch-000004"):
        made.go("rows")
    run.close()
    assert not run.checkpoints.exists()
