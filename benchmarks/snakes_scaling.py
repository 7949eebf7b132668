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
import tempfile
from pathlib import Path

import scaling
from record import median, reached, write_result
from snakes_learning import SECONDS

SCRIPT = "train_snakes.py"
# Evaluations every 0.4 s of training or so: with a grid as wide as the difference nothing could be told.
TO_80 = "--eval_every 50 --max_minutes 0.8 --final_games 2".split()


def evaluations(place: Path) -> list[dict]:
    """Rows of the log with a win rate."""
    rows = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "eval/win_rate_greedy" in row]


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
    times: dict[int, list[float | None]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        flags = [*SECONDS, *args.flags.split()]
        plain = [*flags, "--max_steps", str(args.steps), "--eval_every", "0", "--final_games", "2"]
        figures = scaling.rate_ratios(
            SCRIPT, plain, folder, key="env_steps_per_s", repeats=args.repeats, lone=args.lone
        )
        for number in range(args.seeds if args.to_80 else 0):
            for count in times:
                place = folder / f"time{number}_{count}"
                seeded = [*flags, *TO_80, "--seed", str(number + 1)]
                scaling.finish(scaling.start(SCRIPT, seeded, count, place), count, place)
                times[count].append(reached(evaluations(place), "eval/win_rate_greedy", 80))
                print(f"{count} process(es): 80 % after {times[count][-1]} s", flush=True)
    if args.to_80:
        figures["seconds_to_80"] = {str(count): median(values) for count, values in times.items()}
        figures["seconds_to_80_runs"] = {str(count): values for count, values in times.items()}
    path = write_result(args.name, figures, settings={**vars(args), "flags": SECONDS})
    print(json.dumps(figures, indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
