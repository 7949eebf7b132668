"""Is the loss curve of 2 processes that of 1 process with the whole batch? fp32, nothing drawn per process, 50 steps.

    python benchmarks/same_curve.py --trainer protein --flags "--hidden_dim 64 --k_neighbors 32"

Really launched: `python` against `accelerate launch` with cpu_2.yaml, and as a control 1 process with half the batch,
which must be far away. Writes results/same_curve_<trainer>.json; exit code 1 when a loss is more than 1e-4 apart.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from promise_suite import TRAINERS, launching, runs
from record import write_result

TOLERANCE = 1e-4


def losses(case, run: Path, words: list[str], processes: int, environ: dict[str, str]) -> list[float]:
    """The training loss of each step of a launched run."""
    command = launching.PYTHON
    if processes > 1:
        command = [*launching.ACCELERATE, "--config_file", launching.CONFIGS / "cpu_2.yaml"]
    ended = launching.launch([*command, case.script, *words, "--output_dir", run], environ, limit_s=1800)
    assert ended.code == 0, ended.stderr
    outcome = runs.Outcome(run, case)
    assert outcome.results["processes"] == processes
    return [row["loss"] for row in outcome.rows if "loss" in row]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=TRAINERS[0].name, choices=[case.name for case in TRAINERS])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--flags", default="", help="further flags of the trainer")
    options = parser.parse_args()
    case = next(case for case in TRAINERS if case.name == options.trainer)
    forms = {
        "one, whole batch": (case.whole, 1),
        "two, halves": (case.halved, 2),
        "one, half": (case.control or case.halved, 1),
    }
    curves = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        common = [*case.flags.split(), *case.make_data(folder), *case.still.split(), "--max_steps", str(options.steps)]
        for number, (name, (batch, processes)) in enumerate(forms.items()):
            words = [*common, *options.flags.split(), *batch.split()]
            environ = launching.environment(folder / "home")
            curves[name] = losses(case, folder / f"run{number}", words, processes, environ)
            assert len(curves[name]) == options.steps
            print(f"{name}: loss {curves[name][0]:.4f} to {curves[name][-1]:.4f}", flush=True)
    one, two, half = curves.values()
    apart = [abs(a - b) for a, b in zip(one, two)]
    control = max(abs(a - b) for a, b in zip(one, half))
    figures = {"largest_difference": max(apart), "at_step": apart.index(max(apart)) + 1, "control_difference": control}
    figures |= {"tolerance": TOLERANCE, "within": max(apart) < TOLERANCE, "curves": curves}
    path = write_result(f"same_curve_{case.name}", figures, settings=vars(options))
    print(f"largest difference {max(apart):.1e} in {options.steps} steps, control {control:.1e}: {path.name}")
    return 0 if max(apart) < TOLERANCE < control else 1


if __name__ == "__main__":
    sys.exit(main())
