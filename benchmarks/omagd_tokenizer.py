"""How well two tokens tell what is told of a unit: errors on episodes that were not learnt from, codes in use.

    python benchmarks/omagd_tokenizer.py [--maps 2s3z,3s5z] [--sight 5] [--extra "--n_codes 1024"]

Starts scripts/train_omagd.py --stage tokenizer with its own settings on two processes, for each map and seed. Only
numbers that are told of living units count: no padding, no rows of zeros. The bars: R2 >= 0.98, position error
<= 0.3 map units, health error <= 0.03, codes in use >= 60 %.
"""

import argparse
import json
import shlex
import statistics
import tempfile
from pathlib import Path

import scaling
from record import write_result

PLAIN = "--stage tokenizer --save_every 0 --report_to none --no_visualize".split()
KINDS = ("self", "ally", "enemy")


def figures_of(results: dict) -> dict:
    """Of a run; the errors are those of the worst kind of node."""
    health = max(results[f"{kind}_health_error"] for kind in KINDS)
    position = max(results[f"{kind}_position_error"] for kind in KINDS[1:])
    found = {"r2": results["r2"], "position_error": position, "health_error": health}
    found["worst_r2"] = min(results[f"{kind}_worst_r2"] for kind in KINDS)
    return found | {name: results[name] for name in ("codes_in_use", "updates", "wall_s", "codebook_sha256")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", default="2s3z,3s5z")
    parser.add_argument("--sight", type=float, default=5.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--extra", default="", help="further flags of the trainer, as one string")
    args = parser.parse_args()
    flags, found = [*PLAIN, "--sight", f"{args.sight:g}", *shlex.split(args.extra)], {}
    for name in args.maps.split(","):
        runs = []
        for seed in range(1, args.seeds + 1):
            with tempfile.TemporaryDirectory() as scratch:
                place = Path(scratch) / "run"
                started = scaling.start("train_omagd.py", [*flags, "--map", name, "--seed", str(seed)], 2, place)
                runs.append({"seed": seed} | figures_of(scaling.finish(started, 2, place)))
            print(f"{name}: {json.dumps(runs[-1])}", flush=True)
        names = ("r2", "worst_r2", "position_error", "health_error", "codes_in_use", "wall_s")
        found[name] = {key: statistics.median(run[key] for run in runs) for key in names} | {"runs": runs}
    path = write_result("omagd_tokenizer", found, settings={"flags": flags, "seeds": args.seeds, "processes": 2})
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
