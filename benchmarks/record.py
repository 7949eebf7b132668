"""Shared by all benchmarks: interleaved timings, the description of the machine, and one result file per benchmark.

A benchmark calls `write_result("protein_reading", figures, settings={...})`; the JSON lands in `results/` beside this
file, holds no path of the machine it ran on and is meant to be committed. `results/` keeps the newest run of each name.
"""

from __future__ import annotations

import datetime
import gc
import importlib.metadata
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "accelerate", "numpy", "gemmi", "pyarrow", "datasets", "transformers", "safetensors")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def interleaved(
    functions: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each function in each of `repeats` rounds; the functions take turns inside a round.

    clock: time.perf_counter for wall seconds; time.process_time for the CPU seconds of single-threaded work.

    Taking turns spreads slow phases of a shared machine over all of them, so that ratios stay meaningful.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            gc.collect()
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return seconds


def repeated(step: Callable[[], object], games: int, seconds: float) -> tuple[Callable[[], None], int]:
    """A function that steps for about `seconds` of CPU time, and the number of steps of single games it makes.

    step: one step of `games` games at once, of which 300 are made before.
    """
    for _ in range(300):
        step()
    start, count = time.process_time(), 0
    while time.process_time() - start < 0.2:
        for _ in range(10):
            step()
        count += 10
    count = max(1, round(count * seconds / (time.process_time() - start)))

    def run() -> None:
        for _ in range(count):
            step()

    return run, count * games


def reached(rows: list[dict], key: str, percent: int) -> float | None:
    """Training seconds of the first of two rows in a row whose share `key` is at or above `percent`."""
    shares = [100 * row[key] for row in rows]
    for number in range(len(rows) - 1):
        if min(shares[number : number + 2]) >= percent:
            return rows[number]["train_s"]
    return None


def median(values: list[float | None]) -> float | None:
    """None counts as never."""
    value = statistics.median(float("inf") if value is None else value for value in values)
    return None if value == float("inf") else value


def environment() -> dict:
    """Hardware, threads, versions, commit and date, as a JSON-able dict without host name or paths."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu_model": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "accelerators": _accelerators(),
        "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "threads": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        "torch_threads": sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": _versions(),
        "git_commit": _git("rev-parse", "HEAD"),
        "git_changed_files": len(_git("status", "--porcelain", "--untracked-files=no").splitlines()),
    }


def write_result(name: str, figures: dict, *, settings: dict) -> Path:
    """Write `results/<name>.json` with command, settings, environment and figures; return its path.

    figures and settings must be JSON-able. Absolute paths in them and in the command are cut to their last component.
    """
    arguments = [Path(sys.argv[0]).name, *sys.argv[1:]]
    record = {
        "name": name,
        "command": "python benchmarks/" + shlex.join(str(argument) for argument in arguments),
        "settings": settings,
        "environment": environment(),
        "figures": figures,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    temporary = path.with_suffix(".json.tmp")
    temporary.write_text(json.dumps(without_paths(record), indent=2) + "\n")
    os.replace(temporary, path)
    return path


def without_paths(value):
    """A copy of a JSON-like value with every absolute path in its strings cut to the last component."""
    if isinstance(value, dict):
        return {without_paths(str(key)): without_paths(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(item) for item in value]
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str):
        return re.sub(r"(?<![\w.:/])/(?:[^\s'\"/:=,]+/)+([^\s'\"/:=,]*)", r"\1", value)
    return value


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or "unknown"


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _accelerators() -> list[str]:
    """Names of the CUDA devices, only if the benchmark itself has imported torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
