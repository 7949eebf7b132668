"""QMIX on 1 and on 2 processes, one thread each: steps of all battles a second, while it learns.

    python benchmarks/omagd_scaling.py [--maps 3m,2s3z] [--lone]

Starts scripts/train_omagd.py through `accelerate launch` with accelerate_configs/cpu_1.yaml and cpu_2.yaml in turn. Two
processes play twice as many battles between two updates, and learn from twice as many episodes at each. Ratios are
medians over the rounds. Needs two idle cores.
"""

import argparse
import json
import tempfile
from pathlib import Path

import scaling
from record import write_result

SCRIPT = "train_omagd.py"
# From the first step with the exploration of the last: its end is counted in steps of all processes, so two would have
# played more of the shorter episodes that come after it.
PLAIN = (
    "--t_max 1000000000 --eval_every 0 --save_every 0 --final_nepisode 2 --epsilon_start 0.05 --report_to none"
    " --no_visualize"
).split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", default="3m,2s3z")
    parser.add_argument("--steps", type=int, default=600, help="updates of a run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lone", action="store_true", help="also two runs of one process at once")
    args = parser.parse_args()
    figures = {}
    for name in args.maps.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            flags = [*PLAIN, "--map", name, "--max_steps", str(args.steps)]
            figures[name] = scaling.rate_ratios(
                SCRIPT, flags, Path(scratch), key="env_steps_per_s", repeats=args.repeats, lone=args.lone
            )
    path = write_result("omagd_scaling", figures, settings={**vars(args), "flags": PLAIN})
    print(json.dumps(figures, indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
