"""How good the protein trainer gets for a fixed amount of CPU time of one thread, beside the table baselines.

    OMP_NUM_THREADS=1 python benchmarks/protein_quality.py short --pdb_path FOLDER --val_files FILE   120 CPU-s, 3 seeds
    OMP_NUM_THREADS=1 python benchmarks/protein_quality.py long --pdb_path FOLDER --val_files FILE    30 CPU-minutes
    OMP_NUM_THREADS=1 python benchmarks/protein_quality.py synthetic                                    120 CPU-s

Runs scripts/train_protein.py as a user would, one process, one thread, and reads its results.json. The budget counts
the CPU seconds of the training loop; reading, evaluation and saving are not counted. Writes
results/protein_quality_<mode>.json with every run's figures and its learning curve.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from record import REPOSITORY, write_result

# The recipe of every mode; found by comparing short runs, see docs/train_protein.md.
RECIPE = [
    "--hidden_dim", "128", "--k_neighbors", "32", "--max_tokens", "700", "--learning_rate", "1e-2",
    "--one_shot_share", "0.25", "--objective", "any_order", "--epochs", "200", "--precision", "bf16",
    "--report_to", "none",
]  # fmt: skip
AGAINST_OVERFITTING = "--backbone_noise 0.1 --dropout 0.25 --weight_decay 0.1 --one_shot_share 0.15".split()
MODES = {
    "short": {"minutes": 2.0, "seeds": 3, "extra": ["--eval_every", "0"]},
    # Two dozen passes over the same structures: more noise of every kind, and less of the backbone alone.
    "long": {"minutes": 30.0, "seeds": 1, "extra": ["--eval_every", "500", *AGAINST_OVERFITTING]},
    "synthetic": {"minutes": 2.0, "seeds": 1, "extra": ["--eval_every", "0"]},
}
KEYS = (
    "val_ppl_one_shot", "val_recovery_one_shot", "val_ppl_any_order", "val_ppl_masked", "val_recovery_masked",
    "baseline_unigram_ppl", "baseline_burial_ppl", "baseline_phi_psi_ppl", "baseline_table_ppl",
    "baseline_table_recovery", "calibration_ece", "residues_per_s", "residues_seen", "steps", "cpu_s", "val_residues",
    "train_residues", "bayes_ppl_one_shot", "bayes_ppl_masked", "bayes_gap_closed", "bayes_gap_closed_masked",
    "bayes_excess_se_one_shot", "bayes_excess_se_masked",
)  # fmt: skip


def train(args, seed: int, folder: Path) -> tuple[dict, list[dict]]:
    """results.json and the rows of metrics.jsonl of one run."""
    mode = MODES[args.mode]
    run = folder / f"seed{seed}"
    command = [sys.executable, str(REPOSITORY / "scripts" / "train_protein.py"), *RECIPE, *mode["extra"]]
    command += ["--max_cpu_minutes", str(args.minutes or mode["minutes"]), "--seed", str(seed)]
    command += ["--output_dir", str(run), "--cache_dir", str(folder / "cache")]
    if args.mode != "synthetic":
        command += ["--pdb_path", args.pdb_path, "--val_files", args.val_files]
    command += args.extra.split()
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return json.loads((run / "results.json").read_text()), rows


def figures_of(mode: str, runs: list[dict]) -> dict:
    """Means over seeds and the lines of the issue they answer."""
    mean = {key: statistics.mean(run[key] for run in runs) for key in KEYS if all(key in run for run in runs)}
    figures = {"mean": mean, "runs": [{key: run[key] for key in KEYS if key in run} for run in runs]}
    if mode == "synthetic":
        return figures
    figures["one_shot_below_table_percent"] = 100 * (1 - mean["val_ppl_one_shot"] / mean["baseline_table_ppl"])
    figures["recovery_above_table_points"] = 100 * (mean["val_recovery_one_shot"] - mean["baseline_table_recovery"])
    figures["masked_below_one_shot_percent"] = 100 * (1 - mean["val_ppl_masked"] / mean["val_ppl_one_shot"])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=sorted(MODES))
    parser.add_argument("--pdb_path", help="folder of structures")
    parser.add_argument("--val_files", help="names of the validation set, one per line")
    parser.add_argument("--seeds", type=int, help="number of seeds; default: that of the mode")
    parser.add_argument("--minutes", type=float, help="CPU minutes; default: those of the mode")
    parser.add_argument("--extra", default="", help="further flags of the trainer, as one string")
    args = parser.parse_args()
    if args.mode != "synthetic" and not (args.pdb_path and args.val_files):
        parser.error("give --pdb_path and --val_files")
    runs, curves = [], []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seeds or MODES[args.mode]["seeds"]):
            results, rows = train(args, seed, Path(folder))
            runs.append(results)
            names = ("step", "train_cpu_s", "loss")
            losses = [{name: row[name] for name in names if name in row} for row in rows if "loss" in row]
            curves.append(
                {
                    "training": losses[:: max(len(losses) // 60, 1)],
                    "validation": [
                        {"step": row["step"], "val_loss_any_order": row["val_loss_any_order"]}
                        for row in rows
                        if "val_loss_any_order" in row
                    ],
                }
            )
    figures = figures_of(args.mode, runs)
    settings = {"recipe": [*RECIPE, *MODES[args.mode]["extra"], *args.extra.split()]}
    settings["cpu_minutes"] = args.minutes or MODES[args.mode]["minutes"]
    path = write_result(f"protein_quality_{args.mode}", {**figures, "curves": curves}, settings=settings)
    print(json.dumps(figures, indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
