"""Snakes on 1 and on 2 processes, one thread each: samples a second, and the time to 80 % wins against greedy.

    python benchmarks/snakes_scaling.py [--steps 1500] [--lone] [--to_80]

Starts scripts/train_snakes.py through `accelerate launch` with accelerate_configs/cpu_1.yaml and cpu_2.yaml in turn.
Samples are steps of games and, in the same proportion, rows of updates: 2 processes play twice as many games and learn
from twice as many transitions at each update, they do not update more often. Ratios are medians over the rounds. Needs
two idle cores. With --lone also two runs of one process at the same time, which know nothing of each other: what this
machine's cores give beside each other without any waiting.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from record import REPOSITORY, write_result
from snakes_learning import SECONDS, median, reached

# Evaluations every 0.4 s of training or so: with a grid as wide as the difference nothing could be told.
TO_80 = "--eval_every 50 --max_minutes 0.8 --final_games 2".split()


def start(flags: list[str], processes: int, place: Path) -> subprocess.Popen:
    """A launched run."""
    config = REPOSITORY / "accelerate_configs" / f"cpu_{processes}.yaml"
    command = ["accelerate", "launch", "--config_file", str(config), str(REPOSITORY / "scripts" / "train_snakes.py")]
    command += [*SECONDS, *flags, "--output_dir", str(place)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def run(flags: list[str], processes: int, place: Path, started: subprocess.Popen | None = None):
    """(results.json, evaluations) of a launched run, or of the one that was `started`."""
    done = started or start(flags, processes, place)
    _, words = done.communicate()
    if done.returncode:
        raise SystemExit(f"{processes} processes failed: {words.strip()[-500:]}")
    results = json.loads((place / "results.json").read_text())
    assert results["processes"] == processes, results["processes"]
    rows = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    return results, [row for row in rows if "eval/win_rate_greedy" in row]


def run_lone(flags: list[str], folder: Path) -> float:
    """Steps of games a second of two runs of one process at once."""
    places = [folder / f"lone_{number}" for number in range(2)]
    started = [start(flags, 1, place) for place in places]
    return sum(run(flags, 1, place, each)[0]["env_steps_per_s"] for place, each in zip(places, started))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500, help="updates of a throughput run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--flags", default="", help="further flags of the trainer, as one string")
    parser.add_argument("--name", default="snakes_scaling", help="of the result file")
    parser.add_argument("--to_80", action="store_true", help="also the time to 80 %%")
    parser.add_argument("--lone", action="store_true", help="also two runs of one process at once")
    parser.add_argument("--seeds", type=int, default=5, help="of the time to 80 %%")
    args = parser.parse_args()
    rates: dict[int, list[float]] = {1: [], 2: []}
    lone: list[float] = []
    times: dict[int, list[float | None]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for number in range(args.repeats):
            for count in rates:
                flags = [*args.flags.split(), "--max_steps", str(args.steps), "--eval_every", "0", "--final_games", "2"]
                results, _ = run(flags, count, folder / f"speed{number}_{count}")
                rates[count].append(results["env_steps_per_s"])
                print(f"{count} process(es): {rates[count][-1]:.0f} game steps/s", flush=True)
            if args.lone:
                lone.append(run_lone(flags, folder / f"speed{number}"))
                print(f"two lone processes: {lone[-1]:.0f} game steps/s", flush=True)
        for number in range(args.seeds if args.to_80 else 0):
            for count in times:
                flags = [*args.flags.split(), *TO_80, "--seed", str(number + 1)]
                times[count].append(reached(run(flags, count, folder / f"time{number}_{count}")[1], 80))
                print(f"{count} process(es): 80 % after {times[count][-1]} s", flush=True)
    figures = {"env_steps_per_s": {str(count): statistics.median(values) for count, values in rates.items()}}
    figures["runs"] = {str(count): values for count, values in rates.items()}
    figures["ratio"] = statistics.median(two / one for one, two in zip(rates[1], rates[2]))
    if args.lone:
        figures["lone_ratio"] = statistics.median(two / one for one, two in zip(rates[1], lone))
        figures["lone_runs"] = lone
    if args.to_80:
        figures["seconds_to_80"] = {str(count): median(values) for count, values in times.items()}
        figures["seconds_to_80_runs"] = {str(count): values for count, values in times.items()}
    path = write_result(args.name, figures, settings={**vars(args), "flags": SECONDS})
    print(json.dumps(figures, indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
