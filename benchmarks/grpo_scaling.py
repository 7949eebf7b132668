"""GRPO on several processes: is the training the same, and how much faster is it?

    python benchmarks/grpo_scaling.py --curves          # results/grpo_curves.json
    python benchmarks/grpo_scaling.py                   # results/grpo_scaling.json; needs two idle cores

--curves: 1, 2 and 3 processes with the same global batch of 5 tasks x 3 samples, 20 GRPO steps, once for each method
against forgetting. In every other step only one group has a contrast, so that most ranks have nothing to learn from,
and the worlds of one group raise. Episodes are compared token by token, losses by their largest difference, with a
run of another batch as a control. Exit code 1 when a loss is 1e-5 or more apart.

Without: tokens a second of rollouts and of training through `accelerate launch`, with the recipe of `make train-grpo`
from weights after a short warm start, one thread each, as many tasks per process on two processes as on one, by turns.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from grpo_learning import makefile_recipe
from promise_suite import TRAINERS, launching, runs
from record import write_result
from warm import Warm

CASE = next(case for case in TRAINERS if case.name == "grpo")
TOLERANCE = 1e-5
METHODS = {
    "none": "--cl none --dynamic_sampling 1",
    "replay": "--cl replay --replay_choice reservoir --dynamic_sampling 1",
    "kl-anchor": "--cl kl-anchor --beta 0",
    "distill": "--cl distill --beta 0",
    "l2": "--cl l2",
    "ewc": "--cl ewc --cl_strength 100",
    "merge": "--cl merge",
    "gspo, minibatches": "--loss gspo --updates_per_batch 2 --minibatches 2 --is_correction tis",
}
UNEVEN = "--prompts_per_step 5 --group_size 3 --micro_batch_tokens 400 --warmstart_dialogues 3 --save_every 0"
SMALL = "--eval_tasks 2 --eval_trials 1 --save_every 0 --report_to none --no_visualize".split()
RUN = "--warmstart none --copying_steps 0 --joint --cl none".split()
RATES = ("rollout_tokens_per_s", "train_tokens_per_s", "seconds_per_step")


def make_stage(folder: Path, stack: contextlib.ExitStack) -> runs.Stage:
    """A process that has imported everything and forks the runs."""
    for name in ("data", "work", "scratch"):
        (folder / name).mkdir()
    environ = launching.environment(folder / "home", PYTHONPATH=os.pathsep.join(sys.path[:3]))
    flags = CASE.make_data(folder / "data")
    warm = stack.enter_context(Warm(CASE.script, environ, folder / "scratch"))
    return runs.Stage(CASE, folder / "work", folder / "data", flags, warm, environ)


def troubled(stage: runs.Stage, name: str, processes: int, flags: str) -> tuple[list[dict], dict]:
    """(rows of the steps, episodes by key) of a run with idle ranks and raising worlds."""
    run = stage.folder / f"{name.split(',')[0]}_{processes}_{len(stage.outcomes)}"
    stage.outcomes[run.name] = None
    notes = stage.folder / f"{run.name}_episodes"
    notes.mkdir()
    probe = ("probes_grpo:troubled_worlds", str(notes))
    ended = stage.group(processes, run, UNEVEN, flags, probe=probe).finish(600)
    assert ended.code == 0 and ended.stderr == "", ended.stderr
    found = runs.Outcome(run, CASE)
    assert found.results["processes"] == processes
    lines = [json.loads(line) for file in sorted(notes.glob("*.jsonl")) for line in file.read_text().splitlines()]
    episodes = {tuple(key): rest for key, *rest in lines}
    assert len(episodes) == len(lines)
    return [row for row in found.rows if "loss" in row], episodes


def compare(stage: runs.Stage, name: str, flags: str, steps: int, processes: list[int]) -> dict:
    """One process against several."""
    flags = f"{flags} --steps_per_domain {steps // 2}"
    rows, episodes = troubled(stage, name, 1, flags)
    other, _ = troubled(stage, name, 1, f"{flags} --prompts_per_step 4")
    grpo = [row for row in rows if "zero_std_fraction" in row]
    figures = {
        "grpo_steps": len(grpo),
        "episodes": len(episodes),
        "raised": sum(error is not None for *_, error in episodes.values()),
        "steps_with_most_groups_constant": sum(row["zero_std_fraction"] > 0.5 for row in grpo),
        "control_difference": max(abs(a["loss"] - b["loss"]) for a, b in zip(rows, other)),
        "curve": [row["loss"] for row in rows],
    }
    assert len(grpo) == steps and figures["raised"]
    for count in processes:
        more, played = troubled(stage, name, count, flags)
        assert played.keys() == episodes.keys()
        figures[f"processes_{count}"] = {
            "largest_difference": max(abs(a["loss"] - b["loss"]) for a, b in zip(rows, more, strict=True)),
            "largest_gradient_norm_difference": max(
                abs(a["grad_norm"] - b["grad_norm"]) for a, b in zip(rows, more, strict=True)
            ),
            "other_episodes": sum(played[key] != episodes[key] for key in episodes),
        }
    return figures


def curves(options) -> int:
    figures, apart, control = {}, 0.0, float("inf")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stage = make_stage(Path(folder), stack)
        for name in options.methods:
            figures[name] = compare(stage, name, METHODS[name], options.steps, options.processes)
            control = min(control, figures[name]["control_difference"])
            for count in options.processes:
                found = figures[name][f"processes_{count}"]
                apart = max(apart, found["largest_difference"])
                print(f"{name}, {count} processes: {found}", flush=True)
    figures |= {"largest_difference": apart, "smallest_control_difference": control, "tolerance": TOLERANCE}
    path = write_result("grpo_curves", figures, settings=vars(options))
    print(f"largest difference {apart:.1e}, control at least {control:.1e}: {path.name}")
    return 0 if apart < TOLERANCE < control else 1


def launched(flags: list, processes: int, run: Path, home: Path) -> dict:
    """results.json of a launched run of the recipe of `make train-grpo` with other flags."""
    command = [*launching.ACCELERATE, "--config_file", launching.CONFIGS / f"cpu_{processes}.yaml", CASE.script]
    command += [*makefile_recipe(), *SMALL, *flags, "--output_dir", run]
    # Without a word one process would compute on all cores.
    ended = launching.launch(command, launching.environment(home, OMP_NUM_THREADS="1"), limit_s=1800)
    assert ended.code == 0, ended.stderr
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    assert results["processes"] == processes
    return results


def rates(options, processes: int, model: Path, run: Path, home: Path) -> dict[str, float]:
    """What a run that begins with `model` says of its speed."""
    flags = ["--model", model, *RUN]
    flags += ["--steps_per_domain", str(-(-options.steps // 3)), "--prompts_per_step", str(options.tasks * processes)]
    results = launched(flags, processes, run, home)
    assert results["train_tokens_per_s"] > 0, "no group had a contrast: give more --warm_start"
    return {name: results[name] for name in RATES}


def throughput(options) -> int:
    found: dict[int, list[dict]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        home, warm = Path(folder, "home"), Path(folder, "warm")
        flags = ["--warmstart", f"sft:{options.warm_start}", "--no_use_grpo"]
        success = launched(flags, 2, warm, home)["success_after"]
        print(f"warm start: success {success:.3f}", flush=True)
        for number in range(options.repeats):
            for processes, rows in found.items():
                run = Path(folder, f"run{number}_{processes}")
                rows.append(rates(options, processes, warm / "export", run, home))
                print(f"{processes} process(es): {rows[-1]}", flush=True)
    pairs = list(zip(found[1], found[2]))
    figures = {f"{name}_ratio": statistics.median(two[name] / one[name] for one, two in pairs) for name in RATES}
    figures["runs"] = {str(processes): rows for processes, rows in found.items()}
    figures["success_of_warm_start"] = success
    kept = ("steps", "tasks", "warm_start", "repeats")
    settings = {name: getattr(options, name) for name in kept} | {"flags": [*makefile_recipe(), *RUN]}
    path = write_result("grpo_scaling", figures, settings=settings)
    print({name: round(value, 2) for name, value in figures.items() if name != "runs"}, path.name)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", action="store_true", help="compare the training of 1, 2 and 3 processes")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--processes", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--steps", type=int, default=20, help="GRPO steps of a run")
    parser.add_argument("--tasks", type=int, default=8, help="tasks of a step, for each process")
    parser.add_argument("--warm_start", type=int, default=300, help="steps before, on two processes")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    return curves(options) if options.curves else throughput(options)


if __name__ == "__main__":
    sys.exit(main())
