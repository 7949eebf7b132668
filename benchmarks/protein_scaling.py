"""Throughput of 1 and of 2 processes, one thread each, the same work per process.

    python benchmarks/protein_scaling.py [--pdb_path FOLDER]

Starts scripts/train_protein.py through `accelerate launch` with accelerate_configs/cpu_1.yaml and cpu_2.yaml in turn
and reads residues_per_s of its results.json (optimiser steps only). The ratio is the median over the rounds;
needs two idle cores.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from record import REPOSITORY, write_result


def throughput(args, processes: int, folder: Path, number: int) -> float:
    run = folder / f"run{number}_{processes}"
    command = [
        "accelerate",
        "launch",
        "--config_file",
        str(REPOSITORY / "accelerate_configs" / f"cpu_{processes}.yaml"),
    ]
    command += [str(REPOSITORY / "scripts" / "train_protein.py"), "--output_dir", str(run)]
    command += ["--cache_dir", str(folder / "cache"), "--report_to", "none", "--save_every", "0", "--eval_every", "0"]
    command += ["--hidden_dim", "128", "--k_neighbors", "48", "--max_tokens", str(args.tokens), "--no_visualize"]
    command += ["--precision", args.precision, "--max_steps", str(args.steps), "--objective", "any_order"]
    if args.pdb_path:
        command += ["--pdb_path", args.pdb_path]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{processes} processes failed: {done.stderr.strip()[-500:]}")
    results = json.loads((run / "results.json").read_text())
    assert results["processes"] == processes, results["processes"]
    return results["residues_per_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdb_path")
    parser.add_argument("--tokens", type=int, default=2000, help="residues per process and step")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    args = parser.parse_args()
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.repeats):
            for processes in rates:
                rates[processes].append(throughput(args, processes, Path(folder), number))
                print(f"{processes} process(es): {rates[processes][-1]:.0f} residues/s", flush=True)
    medians = {str(count): statistics.median(values) for count, values in rates.items()}
    pairs = [two / one for one, two in zip(rates[1], rates[2])]
    figures = {"residues_per_s": medians, "runs": {str(k): v for k, v in rates.items()}}
    figures["ratio"] = statistics.median(pairs)
    path = write_result("protein_scaling", figures, settings=dict(vars(args)))
    print(json.dumps(figures, indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
