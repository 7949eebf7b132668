"""Runs of one trainer for the promise suite: started, watched, stopped, and read back."""

import contextlib
import hashlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import launching
import psutil
from safetensors.torch import load_file
from trainer_case import TrainerCase
from warm import Child, Ended, Warm

LOCKS = ("run.lock",)


@dataclass
class Stage:
    """One trainer, its data and its warm process, for the whole session."""

    case: TrainerCase
    folder: Path  # of the runs
    data: Path
    data_flags: list[str]
    warm: Warm
    environ: dict[str, str]
    outcomes: dict[str, "Outcome | None"] = field(default_factory=dict)

    def argv(self, run: Path | None, *extra: str, good_data: bool = True) -> list[str]:
        """The trainer's arguments; later flags win. `extra` holds command line text."""
        words = [word for text in extra for word in shlex.split(text)]
        output = [] if run is None else ["--output_dir", str(run)]
        return [*shlex.split(self.case.flags), *(self.data_flags if good_data else []), *output, *words]

    def alone(self, run: Path, *extra: str, **options) -> Child:
        """One process."""
        return self.warm.begin(self.argv(run, *extra), self.folder, **options)

    def pair(self, run: Path, *extra: str, **options) -> "Group":
        """Two ranks that know each other, without a launcher above them."""
        return self.group(2, run, *extra, **options)

    def group(self, count: int, run: Path, *extra: str, **options) -> "Group":
        """`count` such ranks."""
        size, port = str(count), str(launching.free_port())
        world = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks = [world | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
        argv = self.argv(run, *extra)
        return Group([self.warm.begin(argv, self.folder, environ=rank, **options) for rank in ranks])

    def launched(self, run: Path, *extra: str, config: str | Path = "cpu_2.yaml", environ=None) -> subprocess.Popen:
        """What a user types: accelerate launch, with a config of accelerate_configs/ or another one."""
        command = [*launching.ACCELERATE, "--config_file", launching.CONFIGS / config, self.case.script]
        return launching.begin([*command, *self.argv(run, *extra)], environ or self.environ, self.folder)

    def once(self, name: str, perform: Callable[[Path], Ended]) -> "Outcome":
        """What `perform(run directory)` gives, kept for the session; it must end well and say nothing on stderr."""
        if name not in self.outcomes:
            self.outcomes[name] = None
            ended = perform(self.folder / name)
            assert ended.code == 0 and ended.stderr == "", ended.stderr
            self.outcomes[name] = Outcome(self.folder / name, self.case)
        assert self.outcomes[name], f"the run {name} did not end well, see the first test that failed"
        return self.outcomes[name]

    def outcome(self, run: Path) -> "Outcome":
        """A finished run, read from its folder."""
        return Outcome(run, self.case)


@dataclass
class Group:
    """The ranks of a run."""

    ranks: list[Child]

    def signal(self, number: int) -> None:
        for rank in self.ranks:
            rank.signal(number)

    def finish(self, limit_s: float = 120.0) -> Ended:
        """Rank 0's output and time; the codes must be equal."""
        ended = [rank.finish(limit_s) for rank in self.ranks]
        said, errors = ("".join(getattr(each, name) for each in ended) for name in ("stdout", "stderr"))
        assert len({each.code for each in ended}) == 1, errors
        return Ended(ended[0].code, said, errors, ended[0].seconds)

    def running(self) -> bool:
        return any(rank.running() for rank in self.ranks)


class Outcome:
    """What a finished run left: results, metrics and weights, without what tells time."""

    def __init__(self, run: Path, case: TrainerCase):
        self.run, self.case = run, case
        self.results = json.loads((run / "results.json").read_text(encoding="utf-8"))

    def _timeless(self, values: dict) -> dict:
        return {name: value for name, value in values.items() if not name.endswith(self.case.clocks)}

    @property
    def rows(self) -> list[dict]:
        """Rows of metrics.jsonl in order, without notes."""
        return [self._timeless(row) for row in read_rows(self.run) if "note" not in row]

    @property
    def losses(self) -> list[float]:
        """The training loss of every step."""
        losses = {row["step"]: row["loss"] for row in self.rows if "loss" in row}
        assert list(losses) == list(range(1, self.case.steps + 1))
        return list(losses.values())

    @property
    def weights(self) -> dict:
        """The exported tensors by name."""
        return load_file(self.run / "export" / "model.safetensors")

    def assert_equal(self, other: "Outcome") -> None:
        """Bit for bit the same training: weights, every row, every result."""
        assert self.results["weights_sha256"] == other.results["weights_sha256"]
        assert self.rows == other.rows, [pair for pair in zip(self.rows, other.rows) if pair[0] != pair[1]][:1]
        assert self._timeless(self.results) == self._timeless(other.results)
        for file in sorted((other.run / "export").glob("*.safetensors")):
            assert (self.run / "export" / file.name).read_bytes() == file.read_bytes()


def read_rows(run: Path) -> list[dict]:
    """The complete lines of metrics.jsonl; none where there is no file yet."""
    with contextlib.suppress(FileNotFoundError):
        lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]
    return []


def last_step(run: Path) -> int:
    """The last step in metrics.jsonl, 0 before the first."""
    return max((row["step"] for row in read_rows(run)), default=0)


def checkpoint_steps(run: Path) -> list[int]:
    """Steps of the checkpoints that are in place, in order."""
    return sorted(int(path.name.removeprefix("step-")) for path in run.glob("checkpoints/step-*"))


def unfinished_writes(folder: Path, name: str = "") -> set[str]:
    """Hidden names in a folder: files and folders that are being written, or were when their writer was killed."""
    with contextlib.suppress(FileNotFoundError):
        return {entry for entry in os.listdir(folder) if entry.startswith(".") and name in entry}
    return set()


def wait_for(condition: Callable[[], bool], process, limit_s: float = 90.0) -> bool:
    """Watch closely until `condition` holds; False when the process ended before."""
    begun = time.monotonic()
    while not condition():
        if not process.running():
            return False
        assert time.monotonic() - begun < limit_s, f"nothing to see in {limit_s} s"
        time.sleep(0.0005)
    return True


def wait_for_step(process: subprocess.Popen, run: Path, step: int, limit_s: float = 90.0) -> list[int]:
    """Wait until a launched run has done `step` steps; the process ids of its ranks, by rank."""
    begun = time.monotonic()
    while last_step(run) < step:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begun < limit_s, f"not at step {step} in {limit_s} s"
        time.sleep(0.001)
    ranks = {}
    for child in psutil.Process(process.pid).children(recursive=True):
        variables = child.environ()
        if "RANK" in variables and str(run) in child.cmdline():
            ranks[int(variables["RANK"])] = child.pid
    return [ranks[rank] for rank in sorted(ranks)]


def tree(folder: Path) -> dict[str, tuple]:
    """Every file below a folder by name: size, modification time, digest of its content; without locks."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in LOCKS:
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[path.relative_to(folder).as_posix()] = (status.st_size, status.st_mtime_ns, digest)
    return found
