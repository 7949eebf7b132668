"""How well units out of sight are guessed, beside references that need no learning and a model of one frame.

    python benchmarks/omagd_predictor.py [--maps 2s3z,3s5z] [--sight 5] [--tokens "--n_codes 1024"] [--extra "..."]

For each map and seed scripts/train_omagd.py learns tokens and from them two predictors, with memory and without, on two
processes. Errors are of units that live and are not seen, in episodes that were not learnt from. The bars: 10 points
more place tokens than last-seen-else-prior, or 20 % less position error; p(lives) off by at most 0.05.
"""

import argparse
import json
import shlex
import statistics
import tempfile
from pathlib import Path

import scaling
from record import write_result

PLAIN = "--save_every 0 --report_to none --no_visualize".split()
GUESSERS = ("model", "tokens", "last_seen", "prior", "marginal")
KEYS = ("position_error", "place", "condition", "health_error")


def figures_of(results: dict) -> dict:
    """Of a run: each guesser's figures, and what is of the model alone."""
    found = {guesser: {key: results[f"{guesser}_{key}"] for key in KEYS} for guesser in GUESSERS}
    for name in ("existence_calibration_error", "model_existence_loss", "prior_existence_loss", "hidden_slots",
                 "hidden_seen_share", "updates", "wall_s", "codebook_sha256"):  # fmt: skip
        found[name] = results[name]
    return found


def run(flags: list[str], place: Path) -> dict:
    return scaling.finish(scaling.start("train_omagd.py", [*PLAIN, *flags], 2, place), 2, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", default="2s3z,3s5z")
    parser.add_argument("--sight", type=float, default=5.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tokens", default="", help="further flags of the tokenizer, as one string")
    parser.add_argument("--extra", default="", help="and of the predictors")
    args = parser.parse_args()
    found = {}
    for name in args.maps.split(","):
        runs = []
        for seed in range(1, args.seeds + 1):
            battle = ["--map", name, "--sight", f"{args.sight:g}", "--seed", str(seed)]
            with tempfile.TemporaryDirectory() as scratch:
                places = {each: Path(scratch) / each for each in ("tokens", "belief", "none")}
                run(["--stage", "tokenizer", *battle, *shlex.split(args.tokens)], places["tokens"])
                guess = ["--stage", "predictor", *battle, "--tokenizer", str(places["tokens"])]
                made = {
                    memory: figures_of(run([*guess, "--memory", memory, *shlex.split(args.extra)], places[memory]))
                    for memory in ("belief", "none")
                }
            one = {"seed": seed, **made["belief"], "one_frame": made["none"]["model"]}
            one["points_over_last_seen"] = one["model"]["place"] - one["last_seen"]["place"]
            one["error_against_last_seen"] = one["model"]["position_error"] / one["last_seen"]["position_error"]
            one["one_frame_calibration_error"] = made["none"]["existence_calibration_error"]
            runs.append(one)
            print(f"{name}: {json.dumps(one)}", flush=True)
        names = ("points_over_last_seen", "error_against_last_seen", "existence_calibration_error", "wall_s")
        found[name] = {key: statistics.median(one[key] for one in runs) for key in names}
        for guesser in (*GUESSERS, "one_frame"):
            found[name][guesser] = {key: statistics.median(one[guesser][key] for one in runs) for key in KEYS}
        found[name]["runs"] = runs
    settings = {"sight": args.sight, "tokens": args.tokens, "extra": args.extra, "seeds": args.seeds, "processes": 2}
    path = write_result("omagd_predictor", found, settings=settings)
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
