"""What guesses of the unseen are worth: the same QMIX told what it sees, that and guesses, and everything.

    OMP_NUM_THREADS=1 python benchmarks/omagd_three_arms.py --map 5m_vs_6m --sight 2 --battle=--leaky_mask [--seeds 5]

Starts scripts/train_omagd.py on two processes, for each seed in turn: `obs`; `reconstructed`, after tokens and guesses
of the same seed have been learnt from battles of scripts (--stage tokenizer, predictor; those battles are not counted
among the steps, and said beside them); `full_obs`. Equal steps of all battles for every run, settings of the recipe.
Win rates are of the last weights in 512 greedy battles, the same for all arms of a seed. Differences are of one seed,
arm against arm; their mean has a 95 % interval of Student's t over the seeds. The same is told of the tests on the way:
some seeds find nothing at all, and what guesses are worth is then how soon an arm learns, too. The bars: reconstructed
- obs of 0.05 and more, and 30 % and more of full_obs - obs. Runs in the result file with the same settings and commit
are kept: the comparison can be made in parts.
"""

import argparse
import json
import shlex
import statistics
import tempfile
from pathlib import Path

import scaling
from omagd_sight import KEPT, former
from record import RESULTS, write_result
from scipy.stats import t as student

ARMS = ("obs", "reconstructed", "full_obs")
PLAIN = "--save_every 0 --report_to none --no_visualize".split()
AGENTS = ["--final_nepisode", "512"]
GAIN, SHARE = 0.05, 0.3  # the bars
GUESSED = ("model_position_error", "last_seen_position_error", "existence_calibration_error")


def contrast(rates: dict[str, dict[int, float]], weights: dict[str, float]) -> dict:
    """The weighted sum of the arms' win rates, by arm and seed, seed by seed."""
    seeds = sorted(set.intersection(*(set(rates[arm]) for arm in weights)))
    each = [sum(weight * rates[arm][seed] for arm, weight in weights.items()) for seed in seeds]
    found = {"mean": statistics.mean(each), "median": statistics.median(each), "each": each}
    if len(each) > 1:
        half = float(student.ppf(0.975, len(each) - 1)) * statistics.stdev(each) / len(each) ** 0.5
        found |= {"low": found["mean"] - half, "high": found["mean"] + half}
    return found


def compared(rates: dict[str, dict[int, float]]) -> dict:
    """Mean win rates of the arms and their differences."""
    found = {arm: statistics.mean(rates[arm].values()) for arm in ARMS}
    gain = contrast(rates, {"reconstructed": 1.0, "obs": -1.0})
    gap = contrast(rates, {"full_obs": 1.0, "obs": -1.0})
    # Beyond the share of the gap that is asked for: of differences, where a ratio of two means has no good interval.
    beyond = contrast(rates, {"reconstructed": 1.0, "full_obs": -SHARE, "obs": SHARE - 1.0})
    found |= {"reconstructed - obs": gain, "full_obs - obs": gap, "reconstructed - obs - 0.3 (full_obs - obs)": beyond}
    return found | {"share_of_gap": gain["mean"] / gap["mean"] if gap["mean"] > 0 else None}


def judged(runs: list[dict]) -> dict:
    """What came out, of the seeds that have all arms: at the end, and by steps at the tests on the way."""
    whole = [seed for seed in {run["seed"] for run in runs} if sum(run["seed"] == seed for run in runs) == len(ARMS)]
    runs = [run for run in runs if run["seed"] in whole]
    if not runs:
        return {}
    found = compared({arm: {run["seed"]: run["win_rate_test"] for run in runs if run["arm"] == arm} for arm in ARMS})
    gain, gap = found["reconstructed - obs"]["mean"], found["full_obs - obs"]["mean"]
    beyond = found["reconstructed - obs - 0.3 (full_obs - obs)"]["mean"]
    found["bars"] = {"gain": gain >= GAIN, "share": gap > 0 and beyond >= 0}
    tests = {(run["arm"], run["seed"]): dict(run["tests"]) for run in runs}
    common = sorted(set.intersection(*(set(of_run) for of_run in tests.values())))
    found["on the way"] = {
        steps: compared({arm: {seed: tests[arm, seed][steps] for seed in whole} for arm in ARMS}) for steps in common
    }
    return found | {"seeds": len(whole)}


def run(flags: list[str], place: Path) -> dict:
    return scaling.finish(scaling.start("train_omagd.py", [*PLAIN, *flags], 2, place), 2, place)


def guesses(battle: list[str], extra: list[str], folder: Path) -> dict:
    """Tokens, then guesses, learnt into the folder; what they reached."""
    tokens = ["--stage", "tokenizer", *battle]
    tokens_s = run(tokens, folder / "tokenizer")["wall_s"]
    results = run(["--stage", "predictor", *battle, "--tokenizer", str(folder / "tokenizer"), *extra], folder / "guess")
    config = json.loads((folder / "guess" / "config.json").read_text())
    before = {"before_s": tokens_s + results["wall_s"], "before_episodes": config["graph_pretrain_episodes"]}
    return {key: results[key] for key in GUESSED} | before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", default="2s3z")
    parser.add_argument("--sight", type=float, default=5.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--t_max", type=int, default=1_000_000, help="steps of all battles in a run")
    parser.add_argument("--eval_every", type=int, default=500, help="updates between tests; they are not learnt from")
    parser.add_argument(
        "--battle", default="", help="further flags of the battle, as one string: --battle=--leaky_mask"
    )
    parser.add_argument("--predictor", default="", help="further flags of the predictor, as one string")
    parser.add_argument("--agents", default="", help="and of the agents of all arms")
    args = parser.parse_args()
    settings = {**vars(args), "flags": PLAIN + AGENTS, "processes": 2}
    del settings["seeds"]
    name = f"omagd_three_arms_{args.map}_{args.sight:g}"
    runs = former(name, settings)
    if not runs and (RESULTS / f"{name}.json").is_file():
        raise SystemExit(f"{name}.json holds runs of other settings or of other code: move it away first")
    made = {(one["arm"], one["seed"]) for one in runs}
    for seed, arm in [(seed, arm) for seed in range(1, args.seeds + 1) for arm in ARMS]:
        if (arm, seed) in made:
            continue
        battle = ["--map", args.map, "--sight", f"{args.sight:g}", "--seed", str(seed), *shlex.split(args.battle)]
        flags = [*AGENTS, *battle, "--observe", arm, "--t_max", str(args.t_max), "--eval_every", str(args.eval_every)]
        with tempfile.TemporaryDirectory() as scratch:
            folder, before = Path(scratch), {}
            if arm == "reconstructed":
                before = guesses(battle, shlex.split(args.predictor), folder)
                flags += ["--predictor", str(folder / "guess")]
            results = run([*flags, *shlex.split(args.agents)], folder / "agents")
            rows = [json.loads(line) for line in (folder / "agents" / "metrics.jsonl").read_text().splitlines()]
        tests = [[row["env_steps"], row["test/win_rate"]] for row in rows if "test/win_rate" in row]
        runs.append({"arm": arm, "seed": seed, **{key: results[key] for key in KEPT}, **before, "tests": tests})
        print(f"{arm}, seed {seed}: {results['win_rate_test']:.3f}", flush=True)
        write_result(name, {"arms": judged(runs), "runs": runs}, settings=settings)
    write_result(name, {"arms": judged(runs), "runs": runs}, settings=settings)
    print(json.dumps(judged(runs), indent=1))


if __name__ == "__main__":
    main()
