"""What a run says while it runs: log lines and a progress bar, metrics.jsonl, trackers, throughput."""

import collections
import contextlib
import importlib.util
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.tracking import TensorBoardTracker
from tqdm import tqdm

from lib.args import config_dict
from lib.errors import UserError
from lib.files import atomic_write_bytes, disk_errors, to_json
from lib.runs import RunDirectory

TRACKERS = ("tensorboard", "wandb", "trackio", "mlflow")
LINE_INTERVAL_S = 5.0
WINDOW_S = 30.0


class RunLog:
    """Context manager; every process makes one and calls it alike, only the main process writes. Never collective.

    `unit` names what throughput counts ("residues"). Make it after `find_checkpoint`: rows of metrics.jsonl after the
    resumed step are dropped, and wall and CPU seconds continue from the last row kept.
    """

    def __init__(self, acc: Accelerator, run: RunDirectory, config, total_steps: int | None, unit: str):
        self.acc, self.run, self.unit, self.total_steps = acc, run, unit, total_steps
        self.path = run.path / "metrics.jsonl"
        self.main = acc.is_main_process
        self.step = run.resumed_step or 0
        self.throughput = Throughput()
        self.bar: tqdm | None = None
        self._stream = None
        self._trackers = []
        self._last_line_s = -math.inf
        self._kinds = tracker_kinds(config.report_to)
        self._config = config_dict(config)

    def __enter__(self) -> "RunLog":
        self._start_s, self._start_cpu_s = time.monotonic(), time.process_time()
        if not self.main:
            self.run.log = self
            return self
        self.run.write_description()
        self._wall_before_s, self._cpu_before_s = 0.0, 0.0
        last = truncate_metrics(self.path, self.run.resumed_step)
        if last is not None:
            self._wall_before_s, self._cpu_before_s = last.get("wall_s", 0.0), last.get("cpu_s", 0.0)
        with disk_errors(self.path.parent, 0, "write metrics.jsonl"):
            self._stream = open(self.path, "a", encoding="utf-8", buffering=1)
        self._start_trackers()
        if sys.stderr.isatty():
            self.bar = tqdm(total=self.total_steps, initial=self.step, unit="step", dynamic_ncols=True, file=sys.stderr)
        for text in [*getattr(self.acc, "launch_notes", []), *self.run.notes]:
            self._write_row({"note": text})
        # From here on `run.note` comes here.
        self.run.log = self
        return self

    def __exit__(self, *_) -> None:
        self.run.log = None
        if self.bar is not None:
            self.bar.close()
        for tracker in self._trackers:
            tracker.finish()
        if self._stream is not None:
            self._stream.close()
        self.bar, self._stream, self._trackers = None, None, []

    def add_units(self, count: int) -> None:
        """Count work done, over all processes, for `<unit>/s`."""
        self.throughput.add(count)

    def log(self, step: int, values: dict, progress: bool = True) -> None:
        """One row in metrics.jsonl and the trackers, and a text line in the order of `values`.

        progress=True: a training row; it moves the bar and carries the throughput, and without a terminal its line is
        printed at most every 5 s (the first and the last always). progress=False: an evaluation or another result,
        always printed.
        """
        self.step = step
        if not self.main:
            return
        values = {name: _plain(value) for name, value in values.items()}
        if progress and self.throughput.total:
            values[f"{self.unit}_per_s"] = round(self.throughput.recent(), 3)
        self._write_row(values)
        for tracker in self._trackers:
            tracker.log({name: value for name, value in values.items() if _is_number(value)}, step=step)
        line = text_line(step, values)
        if progress and self.bar is not None:
            self.bar.n = step
            self.bar.set_postfix_str(line.split(" ", 2)[-1], refresh=False)
            self.bar.update(0)
        last = self.total_steps is not None and step >= self.total_steps
        due = time.monotonic() - self._last_line_s >= LINE_INTERVAL_S or last
        if not progress or (due and (self.bar is None or not sys.stdout.isatty())):
            self._print(line)
            self._last_line_s = time.monotonic() if progress else self._last_line_s

    def note(self, text: str, **fields) -> None:
        """One log line and one row with `note`: for every downgrade or decision that the user did not ask for."""
        if self.main:
            self._print(text)
            self._write_row({"note": text, **{name: _plain(value) for name, value in fields.items()}})

    def say(self, text: str) -> None:
        """Text for the reader of the terminal alone, of one line or more."""
        if self.main:
            self._print(text)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time spent inside (evaluation, saving) does not count in the throughput."""
        self.throughput.pause()
        try:
            yield
        finally:
            self.throughput.resume()

    def wall_s(self) -> float:
        """Wall seconds of the run, the ones before a resume included (main process; others since the start)."""
        return getattr(self, "_wall_before_s", 0.0) + time.monotonic() - self._start_s

    def cpu_s(self) -> float:
        """CPU seconds of this process, the ones before a resume included."""
        return getattr(self, "_cpu_before_s", 0.0) + time.process_time() - self._start_cpu_s

    def _write_row(self, values: dict) -> None:
        row = {"step": self.step, "wall_s": round(self.wall_s(), 3), "cpu_s": round(self.cpu_s(), 3), **values}
        text = to_json(row) + "\n"
        with disk_errors(self.path.parent, len(text), "write metrics.jsonl"):
            self._stream.write(text)
            self._stream.flush()

    def _print(self, line: str) -> None:
        if self.bar is not None:
            tqdm.write(line, file=sys.stdout)
        else:
            print(line, flush=True)

    def _start_trackers(self) -> None:
        if not self._kinds:
            return
        project, name = self.run.trainer, self.run.path.name
        purge = None if self.run.resumed_step is None else self.run.resumed_step + 1
        board = [
            TensorBoardTracker("tensorboard", self.run.path, purge_step=purge)
            for kind in self._kinds
            if kind == "tensorboard"
        ]
        self.acc.log_with = board + [kind for kind in self._kinds if kind != "tensorboard"]
        folder = str(self.run.path)
        self.acc.init_trackers(
            project,
            init_kwargs={
                "wandb": {"name": name, "dir": folder},
                "trackio": {"name": name},
                "mlflow": {"run_name": name},
            },
        )
        self._trackers = list(self.acc.trackers)
        flat = {key: value if _is_number(value) else str(value) for key, value in self._config.items()}
        for tracker in self._trackers:
            # TensorBoard's hparams would make a second, empty run beside the curves.
            if tracker.name == "tensorboard":
                tracker.log({"config": "\n".join(f"    {key}: {value}" for key, value in flat.items())}, step=self.step)
            else:
                tracker.store_init_configuration(flat)


class Throughput:
    """Units per second, over the last `window_s` and overall; paused time does not count."""

    def __init__(self, window_s: float = WINDOW_S, clock=time.monotonic):
        self.total, self._clock, self._window_s = 0, clock, window_s
        self._start_s, self._lost_s, self._paused_at_s = clock(), 0.0, None
        self._marks = collections.deque([(0.0, 0)])

    def _now(self) -> float:
        """Seconds that count, since the start."""
        return (self._clock() if self._paused_at_s is None else self._paused_at_s) - self._start_s - self._lost_s

    def add(self, count: int) -> None:
        """Count work that ends now."""
        self.total += int(count)
        self._marks.append((self._now(), self.total))
        while len(self._marks) > 2 and self._marks[1][0] < self._now() - self._window_s:
            self._marks.popleft()

    def pause(self) -> None:
        """Stop the clock; again without effect."""
        if self._paused_at_s is None:
            self._paused_at_s = self._clock()

    def resume(self) -> None:
        """Let the clock go on; without effect when it runs."""
        if self._paused_at_s is not None:
            self._lost_s += self._clock() - self._paused_at_s
            self._paused_at_s = None

    def recent(self) -> float:
        """Units per second from the start of the window to the last unit counted."""
        (start_s, before), (end_s, after) = self._marks[0], self._marks[-1]
        return (after - before) / (end_s - start_s) if end_s > start_s else 0.0

    def overall(self) -> float:
        """Units per second from the start to the last unit counted."""
        return self.total / self._marks[-1][0] if self._marks[-1][0] > 0 else 0.0


def tracker_kinds(report_to: str) -> list[str]:
    """`--report_to` as a list. Raises UserError for an unknown tracker or one whose package is not installed."""
    kinds = [kind.strip() for kind in report_to.split(",") if kind.strip()]
    if not kinds or kinds == ["none"]:
        return []
    for kind in kinds:
        if kind not in TRACKERS:
            expected = ", ".join(TRACKERS)
            raise UserError(
                f"--report_to {report_to}: {kind!r} is not known; expected a comma list of {expected}, or none"
            )
        if importlib.util.find_spec(kind) is None:
            raise UserError(f"--report_to {kind}: the package is not installed; run `pip install {kind}` or drop it")
    return list(dict.fromkeys(kinds))


def truncate_metrics(path: Path, step: int | None) -> dict | None:
    """Keep the rows up to `step` (none at all for None) and return the last one kept.

    A last line torn by a kill is dropped. The file is replaced atomically, and only when something changes.
    """
    if not path.exists():
        return None
    content = path.read_bytes()
    kept, last = [], None
    for line in content.splitlines(keepends=True):
        row = _row(line)
        if row is None or step is None or row["step"] > step:
            continue
        kept.append(line)
        last = row
    if b"".join(kept) != content:
        atomic_write_bytes(path, b"".join(kept))
    return last


def _row(line: bytes) -> dict | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None


def read_metrics(path: str | Path) -> list[dict]:
    """The complete rows of a metrics.jsonl, in order."""
    rows = (_row(line) for line in Path(path).read_bytes().splitlines(keepends=True))
    return [row for row in rows if row is not None]


def text_line(step: int, values: dict) -> str:
    """`step 120 loss 1.83 lr 3e-4 residues/s 812`: numbers and text in the order given, without lists and dicts."""
    parts = [f"step {step}"]
    for name, value in values.items():
        if isinstance(value, str) or _is_number(value):
            parts.append(f"{name.removesuffix('_per_s') + '/s' if name.endswith('_per_s') else name} {compact(value)}")
    return " ".join(parts)


def compact(value) -> str:
    """Four significant digits at most: 1.834, 3e-4, 1.25e-5, 8124, 1.2e7 as 12000000 stays whole when it is an int."""
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return str(round(value)) if abs(value) >= 1000 else f"{value:.4g}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value):
    """0-d tensors and numpy scalars as Python numbers."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.ndim == 0 else value.tolist()
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value
