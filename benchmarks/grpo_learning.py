"""What ten CPU minutes of GRPO teach the tiny model, and what it forgets when it learns one domain after the other.

    OMP_NUM_THREADS=1 python benchmarks/grpo_learning.py joint         warm start, then all domains together
    OMP_NUM_THREADS=1 python benchmarks/grpo_learning.py forgetting    one warm start, and from it airline, retail and
                                                                       telecom in turn, without a method and with replay

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

# In turn at the rate of the recipe hardly anything is lost: in all three domains to act is right, and each helps the
# others. It takes this one until a stage writes over what was learnt before it. Groups without contrast are replaced,
# replayed ones more often: they are mostly known, and teach nothing until they begin to be lost.
STAGES = [
    "--learning_rate", "6e-4", "--steps_per_domain", "20", "--dynamic_sampling", "1", "--eval_tasks", "48",
]  # fmt: skip
METHODS = {"none": ["--cl", "none"], "replay": ["--cl", "replay", "--replay_ratio", "0.25", "--replay_sampling", "4"]}
KEYS = ("success_before", "success_after", "acc", "bwt", "fwt", "forgetting", "matrix", "stages", "pass_hat_k",
        "zero_std_fraction", "rollout_tokens_per_s", "train_tokens_per_s", "seconds_per_step", "logprob_diff_max",
        "wall_s", "processes")  # fmt: skip


def makefile_recipe() -> list[str]:
    """The flags of `make train-grpo`, without its method against forgetting."""
    lines = (REPOSITORY / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    (line,) = [line for line in lines if line.startswith("GRPO_RECIPE = ")]
    return without(shlex.split(line.removeprefix("GRPO_RECIPE = ")), "--cl", "--replay_ratio")


def without(flags: list[str], *names: str) -> list[str]:
    """The flags, each with one value, without those called so."""
    pairs = zip(flags[::2], flags[1::2], strict=True)
    return [word for name, value in pairs if name not in names for word in (name, value)]


def warm_start_steps(flags: list[str]) -> int:
    value = dict(zip(flags[::2], flags[1::2], strict=True))
    return int(value["--warmstart"].removeprefix("sft:")) + int(value["--copying_steps"])


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


def figures_of(results: dict) -> dict:
    """What is kept of a run; `first_domain_fall`: how far the first domain fell from its own stage to the end."""
    before, after = results["success_before"], results["success_after"]
    fall = results["matrix"][1][0] - results["matrix"][-1][0] if len(results["matrix"]) > 1 else 0.0
    return {"gain": after - before, "first_domain_fall": fall} | {key: results[key] for key in KEYS}


def joint(flags: list[str], seed: int, folder: Path) -> dict:
    """Warm start and GRPO on all domains together."""
    return figures_of(train([*flags, "--joint", "--cl", "none", "--seed", str(seed)], folder / f"joint_{seed}"))


def forgetting(flags: list[str], seed: int, folder: Path) -> dict:
    """One warm start; from it the domains in turn, once for each method."""
    warm = folder / f"warm_{seed}"
    started = train([*flags, "--cl", "none", "--seed", str(seed), "--max_steps", str(warm_start_steps(flags))], warm)
    later = without(flags, "--model", "--copying_steps", "--learning_rate", "--steps_per_domain", "--eval_tasks",
                    *[name for name in flags if name.startswith("--warmstart")])  # fmt: skip
    later += ["--model", str(warm / "export"), "--warmstart", "none", *STAGES, "--seed", str(seed)]
    found = {"warm_start": figures_of(started)}
    for method, words in METHODS.items():
        found[method] = figures_of(train([*later, *words], folder / f"{method}_{seed}"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("joint", "forgetting"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder of the run directories; what ended there is not run again")
    parser.add_argument("--extra", default="", help="further flags of the trainer, as one string")
    args = parser.parse_args()
    if args.extra and args.mode == "forgetting":
        parser.error("--extra is for joint: what the stages of forgetting differ in is written here")
    flags, runs = [*makefile_recipe(), *shlex.split(args.extra)], []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(1, args.seeds + 1):
            found = {"joint": joint, "forgetting": forgetting}[args.mode](flags, seed, args.keep or Path(scratch))
            runs.append({"seed": seed} | found)
            print(json.dumps(runs[-1]), flush=True)
    if args.mode == "joint":
        names = ("success_before", "success_after", "gain", "wall_s", "seconds_per_step")
        median = {name: statistics.median(run[name] for run in runs) for name in names}
    else:
        names = ("first_domain_fall", "bwt", "success_after", "wall_s")
        each = [(method, name) for method in METHODS for name in names]
        median = {f"{method}_{name}": statistics.median(run[method][name] for run in runs) for method, name in each}
    settings = {"flags": flags, "seeds": args.seeds}
    if args.mode == "forgetting":
        settings |= {"stages": STAGES, "methods": METHODS}
    path = write_result(f"grpo_learning_{args.mode}", {"median": median, "runs": runs}, settings=settings)
    print(json.dumps(median, indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
