"""How fast QMIX learns the battles: two processes, one thread each, the recipe of `make train-omagd` on any map.

    OMP_NUM_THREADS=1 python benchmarks/omagd_learning.py 3m
    OMP_NUM_THREADS=1 python benchmarks/omagd_learning.py 8m --seeds 1

Runs scripts/train_omagd.py as a user would, for the minutes that the map is given (MINUTES), tests while training
included, and reads its results.json and metrics.jsonl: 512 greedy battles of the best weights at the end, beside
attack-nearest and random play of the same battles. Seconds to a win rate are of training, of the first of two tests in
a row (128 battles each) at or above it. Writes results/omagd_learning_<map>.json with every run's curve.
"""

import argparse
import json
import tempfile
from pathlib import Path

import scaling
from record import median, reached, write_result

# The limits of the issue: 3m within 3 minutes, 2s3z within 5, the others within 20.
MINUTES = {"3m": 3.0, "2s3z": 5.0, "8m": 20.0, "3s5z": 20.0, "5m_vs_6m": 20.0}
MILESTONES = (50, 80, 90, 95)
KEPT = ("win_rate_test", "win_rate_scripted", "win_rate_random", "return_test", "env_steps", "env_steps_per_s",
        "updates", "updates_per_s", "episodes", "best_step", "processes", "wall_s")  # fmt: skip


def train(flags: list[str], seed: int, run: Path) -> tuple[dict, list[dict]]:
    """(results.json, tests) of one run."""
    started = scaling.start("train_omagd.py", [*flags, "--seed", str(seed)], 2, run)
    results = scaling.finish(started, 2, run)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = ("step", "train_s", "test/win_rate", "test/return")
    return results, [{name: row[name] for name in names} for row in rows if "test/win_rate" in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("map")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first_seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="default: MINUTES, 20 for other maps")
    parser.add_argument("--keep", type=Path, help="folder for the run directories; default: they are deleted")
    parser.add_argument("--extra", default="", help="further flags of the trainer, as one string")
    parser.add_argument("--name", help="of the result file; default: omagd_learning_<map>")
    args = parser.parse_args()
    minutes = args.minutes or MINUTES.get(args.map, 20.0)
    flags = ["--map", args.map, "--max_minutes", str(minutes), "--t_max", "1000000000", "--report_to", "none"]
    flags += args.extra.split()
    runs = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            results, tests = train(flags, seed, (args.keep or Path(scratch)) / f"{args.map}_{seed}")
            run = {"seed": seed, **{key: results[key] for key in KEPT}}
            run |= {f"seconds_to_{percent}": reached(tests, "test/win_rate", percent) for percent in MILESTONES} | {
                "tests": tests
            }
            runs.append(run)
            print({key: value for key, value in run.items() if key != "tests"}, flush=True)
    names = [key for key in runs[0] if key not in ("tests", "seed")]
    figures = {"median": {name: median([run[name] for run in runs]) for name in names}, "runs": runs}
    settings = {"flags": flags, "seeds": args.seeds, "first_seed": args.first_seed}
    path = write_result(args.name or f"omagd_learning_{args.map}", figures, settings=settings)
    print(json.dumps(figures["median"], indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
