"""How fast a team learns snakes 3v3 from random weights: seconds of training to 50 % and 80 % wins against greedy.

    OMP_NUM_THREADS=1 python benchmarks/snakes_learning.py seconds      one core, 3 seeds, 1,000 games an evaluation
    OMP_NUM_THREADS=1 python benchmarks/snakes_learning.py minutes      5 minutes on 2 processes, `make train-snakes`

Runs scripts/train_snakes.py as a user would and reads its results.json and metrics.jsonl. Seconds count playing and
learning, not the evaluations in between (arg-max play, half of the games on each side). A milestone is the first of two
evaluations in a row at or above it. Writes results/snakes_learning_<mode>.json with every run's curve.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from record import REPOSITORY, median, reached, write_result

# One core, one opponent: what the milestones ask for. Found by comparing short runs, see docs/train_snakes.md.
SECONDS = (
    "--opponent_difficulty_strategy fixed --opponent greedy --num_envs 256 --updates_per_step 1.6 --batch_size 64 "
    "--buffer_size 200000 --critics 1 --n_step 1 --gamma 0.97 --tau 0.03 --a_lr 1e-3 --c_lr 1e-3 --entropy_bonus 0.03 "
    "--shaping 0.1 --epsilon 0.1 --epsilon_min 0.01 --max_minutes 1.2 "
    "--judges greedy --eval_games 1000 --eval_every 250 --save_every 0 --no_visualize --report_to none"
).split()
MILESTONES = (50, 80)


def makefile_recipe() -> list[str]:
    """The flags of `make train-snakes`, its limit of time included."""
    lines = (REPOSITORY / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    (line,) = [line for line in lines if line.startswith("SNAKES_RECIPE = ")]
    return line.removeprefix("SNAKES_RECIPE = ").split()


def train(mode: str, flags: list[str], seed: int, folder: Path) -> tuple[dict, list[dict]]:
    """(results.json, evaluations) of one run."""
    run = folder / f"{mode}_{seed}"
    command = [sys.executable]
    if mode == "minutes":
        config = REPOSITORY / "accelerate_configs" / "cpu_2.yaml"
        command = ["accelerate", "launch", "--config_file", str(config)]
    command += [str(REPOSITORY / "scripts" / "train_snakes.py"), *flags, "--seed", str(seed), "--output_dir", str(run)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = ("step", "train_s", "eval/win_rate_greedy", "eval/win_rate_hunter")
    curve = [{name: row[name] for name in names if name in row} for row in rows if "eval/win_rate_greedy" in row]
    return json.loads((run / "results.json").read_text()), curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("seconds", "minutes"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=5.0, help="of mode minutes")
    parser.add_argument("--keep", type=Path, help="folder for the run directories; default: they are deleted")
    parser.add_argument("--extra", default="", help="further flags of the trainer, as one string")
    args = parser.parse_args()
    flags = list(SECONDS)
    if args.mode == "minutes":
        flags = [*makefile_recipe(), "--max_minutes", str(args.minutes), "--report_to", "none"]
    flags += args.extra.split()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, args.seeds + 1):
            results, curve = train(args.mode, flags, seed, args.keep or Path(folder))
            keys = (
                "win_rate_greedy",
                "win_rate_bot",
                "win_rate_random",
                "elo",
                "env_steps_per_s",
                "updates_per_s",
                "updates",
            )
            run = {"seed": seed, **{key: results[key] for key in keys}, "processes": results["processes"]}
            run |= {
                f"seconds_to_{percent}": reached(curve, "eval/win_rate_greedy", percent) for percent in MILESTONES
            } | {"curve": curve}
            runs.append(run)
            print({key: value for key, value in run.items() if key != "curve"}, flush=True)
    names = [key for key in runs[0] if key not in ("curve", "seed")]
    figures = {"median": {name: median([run[name] for run in runs]) for name in names}, "runs": runs}
    path = write_result(f"snakes_learning_{args.mode}", figures, settings={"flags": flags, "seeds": args.seeds})
    print(json.dumps(figures["median"], indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
