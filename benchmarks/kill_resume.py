"""kill -9 at random moments, also while a checkpoint is written, then --resume auto: is the end bit-equal?

    python benchmarks/kill_resume.py --trainer protein --kills 10

For 1 and for 2 processes, really launched: an undisturbed run, then one that is killed again and again and continued
each time. By turns all processes are killed while a checkpoint is written, all at a random moment of the training or of
the start, or (with two) one rank only. Compared are the weights' digest, every row of the metrics but its times, and
the bytes of the export. Writes results/kill_resume_<trainer>.json.
"""

import argparse
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
from promise_suite import TRAINERS, launching, runs
from record import write_result

MOMENTS = ("while saving", "between saves", "while starting", "one rank")


class Bench:
    """Runs of one trainer with one number of processes."""

    def __init__(self, case, folder: Path, flags: list[str], processes: int, steps: int):
        self.case, self.folder, self.processes, self.steps = case, folder, processes, steps
        self.flags = [*case.flags.split(), *flags, "--max_steps", str(steps)]
        self.environ = launching.environment(folder / "home")

    def start(self, run: Path, *extra: str) -> subprocess.Popen:
        command = launching.PYTHON
        if self.processes > 1:
            command = [*launching.ACCELERATE, "--config_file", launching.CONFIGS / "cpu_2.yaml"]
        return launching.begin([*command, self.case.script, *self.flags, "--output_dir", run, *extra], self.environ)

    def finish(self, process: subprocess.Popen) -> launching.Ended:
        ended = launching.finish(process, limit_s=900)
        assert ended.code == 0, ended.stderr
        return ended

    def outcome(self, run: Path) -> runs.Outcome:
        return runs.Outcome(run, self.case)


def wait(process: subprocess.Popen, condition, limit_s: float = 300.0) -> None:
    """Watch closely until `condition` holds in a running process."""
    begun = time.monotonic()
    while not condition():
        assert process.poll() is None, f"the run ended before it was killed\n{process.communicate()}"
        assert time.monotonic() - begun < limit_s
        time.sleep(0.0005)


def newest_checkpoint(run: Path) -> int:
    """Step of the newest checkpoint in place, 0 without one."""
    return max(runs.checkpoint_steps(run), default=0)


def kill(bench: Bench, run: Path, moment: str, generator: random.Random) -> dict:
    """Start or continue the run, kill it at `moment`; what was hit."""
    newest, former = newest_checkpoint(run), runs.unfinished_writes(run / "checkpoints")
    process = bench.start(run, "--resume", "auto")
    goal = newest + generator.randint(0, 4)
    if moment == "while starting":
        time.sleep(generator.uniform(0, 6))
    elif moment == "while saving":
        wait(process, lambda: newest_checkpoint(run) >= goal)
        wait(process, lambda: runs.unfinished_writes(run / "checkpoints") - former)
        time.sleep(generator.uniform(0, 0.01))
    else:
        wait(process, lambda: newest_checkpoint(run) > goal)
        time.sleep(generator.uniform(0, 0.1))
    victims = psutil.Process(process.pid).children(recursive=True) + [psutil.Process(process.pid)]
    if moment == "one rank":
        victims = [child for child in victims if child.environ().get("RANK") == "1" and str(run) in child.cmdline()][:1]
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)
    begun = time.monotonic()
    process.communicate(timeout=120)
    return {
        "moment": moment,
        "resumed_at": newest,
        "last_row": runs.last_step(run),
        "newest_checkpoint": newest_checkpoint(run),
        "half_written": bool(runs.unfinished_writes(run / "checkpoints") - former),
        "gone_after_s": round(time.monotonic() - begun, 2),
    }


def compare(bench: Bench, kills: int, generator: random.Random) -> dict:
    """An undisturbed run, a disturbed one, and whether they are equal; AssertionError where they are not."""
    undisturbed, disturbed = bench.folder / f"whole_{bench.processes}", bench.folder / f"killed_{bench.processes}"
    begun = time.monotonic()
    bench.finish(bench.start(undisturbed))
    undisturbed_s = time.monotonic() - begun
    moments = MOMENTS if bench.processes > 1 else MOMENTS[:3]
    record = []
    for number in range(kills):
        record.append(kill(bench, disturbed, moments[number % len(moments)], generator))
        print(f"{bench.processes} process(es), kill {number + 1}: {record[-1]}", flush=True)
    ended = bench.finish(bench.start(disturbed, "--resume", "auto"))
    one, other = bench.outcome(undisturbed), bench.outcome(disturbed)
    other.assert_equal(one)
    return {
        "kills": record,
        "kills_while_saving": sum(entry["half_written"] for entry in record),
        "skipped_checkpoints": ended.stdout.count("skipped checkpoint"),
        "steps": bench.steps,
        "weights_sha256": one.results["weights_sha256"],
        "bit_equal": True,
        "undisturbed_wall_s": round(undisturbed_s, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=TRAINERS[0].name, choices=[case.name for case in TRAINERS])
    parser.add_argument("--kills", type=int, default=10, help="for each number of processes")
    parser.add_argument("--steps", type=int, default=80, help="of the run, a checkpoint at each")
    parser.add_argument("--flags", default="", help="further flags of the trainer")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    case = next(case for case in TRAINERS if case.name == options.trainer)
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        flags = case.make_data(Path(scratch)) + options.flags.split()
        for processes in options.processes:
            bench = Bench(case, Path(scratch), flags, processes, options.steps)
            figures[f"processes_{processes}"] = compare(bench, options.kills, random.Random(options.seed + processes))
    path = write_result(f"kill_resume_{case.name}", figures, settings=vars(options))
    print(f"bit-equal after {options.kills} kills each on {options.processes} processes: {path.name}")


if __name__ == "__main__":
    main()
