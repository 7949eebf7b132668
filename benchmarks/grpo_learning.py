"""What ten CPU minutes of GRPO teach the tiny model, and what it forgets: warm start, then joint or sequential stages.

    OMP_NUM_THREADS=1 python benchmarks/grpo_learning.py joint         warm start, then all domains together
    OMP_NUM_THREADS=1 python benchmarks/grpo_learning.py sequential    airline, retail, telecom without a method
    OMP_NUM_THREADS=1 python benchmarks/grpo_learning.py replay        the same, a quarter of each step old tasks

Runs scripts/train_grpo.py on two processes with the recipe of `make train-grpo`, its stages exchanged, once a seed.
Success is the mean over domains of fresh evaluation tasks, four trials each at the training temperature. Needs two idle
cores. Writes results/grpo_learning_<mode>.json with the success matrix of every run.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path

from record import REPOSITORY, environment, write_result

MODES = {
    "joint": ["--joint", "--cl", "none"],
    "sequential": ["--cl", "none"],
    "replay": ["--cl", "replay", "--replay_ratio", "0.25"],
}
KEYS = ("success_before", "success_after", "acc", "bwt", "fwt", "forgetting", "matrix", "stages", "pass_hat_k",
        "zero_std_fraction", "rollout_tokens_per_s", "train_tokens_per_s", "seconds_per_step", "logprob_diff_max",
        "wall_s", "processes")  # fmt: skip


def makefile_recipe() -> list[str]:
    """The flags of `make train-grpo`, without its method against forgetting."""
    lines = (REPOSITORY / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    (line,) = [line for line in lines if line.startswith("GRPO_RECIPE = ")]
    flags = shlex.split(line.removeprefix("GRPO_RECIPE = "))
    for name in ("--cl", "--replay_ratio"):
        at = flags.index(name)
        del flags[at : at + 2]
    return flags


def train(flags: list[str], folder: Path) -> dict:
    """results.json of one run; of the one that ended in this folder before, with these flags and at this commit."""
    said, now = folder.with_suffix(".json"), {"flags": flags, "git_commit": environment()["git_commit"]}
    if said.exists() and json.loads(said.read_text()) == now:
        return json.loads((folder / "results.json").read_text())
    config = REPOSITORY / "accelerate_configs" / "cpu_2.yaml"
    command = ["accelerate", "launch", "--config_file", str(config), str(REPOSITORY / "scripts" / "train_grpo.py")]
    done = subprocess.run(
        [*command, *flags, "--output_dir", str(folder), "--report_to", "none"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"a run failed: {done.stderr.strip()[-800:]}")
    said.write_text(json.dumps(now))
    return json.loads((folder / "results.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder of the run directories; what ended there is not run again")
    parser.add_argument("--extra", default="", help="further flags of the trainer, as one string")
    args = parser.parse_args()
    flags = [*makefile_recipe(), *MODES[args.mode], *shlex.split(args.extra)]
    runs = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(1, args.seeds + 1):
            results = train([*flags, "--seed", str(seed)], (args.keep or Path(scratch)) / f"{args.mode}_{seed}")
            # How far the first domain fell from its own stage to the end.
            fall = results["matrix"][1][0] - results["matrix"][-1][0]
            run = {
                "seed": seed,
                "gain": results["success_after"] - results["success_before"],
                "first_domain_fall": fall,
            }
            run |= {key: results[key] for key in KEYS}
            runs.append(run)
            print(json.dumps(run), flush=True)
    names = ("success_before", "success_after", "gain", "first_domain_fall", "wall_s", "seconds_per_step")
    figures = {"median": {name: statistics.median(run[name] for run in runs) for name in names}, "runs": runs}
    path = write_result(f"grpo_learning_{args.mode}", figures, settings={"flags": flags, "seeds": args.seeds})
    print(json.dumps(figures["median"], indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
