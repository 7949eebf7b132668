"""Shared by the benchmarks of 1 and 2 processes: launched runs of a trainer, and how much faster two processes are."""

import json
import os
import statistics
import subprocess
from pathlib import Path

from record import REPOSITORY


def start(script: str, flags: list[str], processes: int, place: Path) -> subprocess.Popen:
    """A run of scripts/<script> into the folder `place`, on so many CPU processes of one thread each."""
    config = REPOSITORY / "accelerate_configs" / f"cpu_{processes}.yaml"
    command = ["accelerate", "launch", "--config_file", str(config), str(REPOSITORY / "scripts" / script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command += [*flags, "--output_dir", str(place)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(started: subprocess.Popen, processes: int, place: Path) -> dict:
    """results.json of a run that was started."""
    _, words = started.communicate()
    if started.returncode:
        raise SystemExit(f"{processes} processes failed: {words.strip()[-500:]}")
    results = json.loads((place / "results.json").read_text())
    assert results["processes"] == processes, results["processes"]
    return results


def rate_ratios(script: str, flags: list[str], folder: Path, *, key: str, repeats: int, lone: bool) -> dict:
    """Figures of results.json's `key` on 1 and on 2 processes, taking turns; the ratio is the median over the rounds.

    lone: also two runs of one process at the same time, which know nothing of each other: what the cores of this
    machine give beside each other without any waiting.
    """
    rates: dict[int, list[float]] = {1: [], 2: []}
    alone: list[float] = []
    for number in range(repeats):
        for count, found in rates.items():
            place = folder / f"speed{number}_{count}"
            found.append(finish(start(script, flags, count, place), count, place)[key])
            print(f"{count} process(es): {found[-1]:.0f} {key}", flush=True)
        if lone:
            places = [folder / f"speed{number}_lone_{other}" for other in range(2)]
            started = [start(script, flags, 1, place) for place in places]
            try:
                alone.append(sum(finish(each, 1, place)[key] for each, place in zip(started, places)))
            finally:
                for each in started:
                    each.kill()  # where the other has failed
            print(f"two lone processes: {alone[-1]:.0f} {key}", flush=True)
    figures = {key: {str(count): statistics.median(values) for count, values in rates.items()}}
    figures["runs"] = {str(count): values for count, values in rates.items()}
    figures["ratio"] = statistics.median(two / one for one, two in zip(rates[1], rates[2]))
    if lone:
        figures["lone_ratio"] = statistics.median(two / one for one, two in zip(rates[1], alone))
        figures["lone_runs"] = alone
    return figures
