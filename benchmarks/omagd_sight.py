"""How much there is to gain by knowing what is unseen: the same QMIX on `obs` and on `full_obs`, by sight and map.

    OMP_NUM_THREADS=1 python benchmarks/omagd_sight.py [--maps 2s3z,3s5z] [--sights 4,5,6,9] [--t_max 1000000]

Starts scripts/train_omagd.py on two processes, with the recipe's settings and the same number of steps of all battles
for every run, for each map, sight, arm and seed in turn; the arms of a sight and seed follow each other. Win rates
are of the last weights in 512 greedy battles, the same for both arms. A gap is full_obs minus obs of one seed: told are
those of all seeds and their median, for what varies from training to training is far more than what varies between
512 battles. Runs in the result file with the same settings and commit are kept: the study can be made in parts.
Other battles (--extra) belong in a file of their own (--name).
"""

import argparse
import json
import shlex
import statistics
import tempfile
from pathlib import Path

import scaling
from record import RESULTS, environment, write_result

ARMS = ("obs", "full_obs")
PLAIN = "--eval_every 0 --save_every 0 --final_nepisode 512 --report_to none --no_visualize".split()
KEPT = ("win_rate_test", "win_rate_test_low", "win_rate_test_high", "win_rate_scripted", "return_test", "wall_s")


def gap(runs: list[dict]) -> dict:
    """Win rates of the arms and their difference, seed by seed, of one map and sight."""
    rates = {arm: {run["seed"]: run["win_rate_test"] for run in runs if run["arm"] == arm} for arm in ARMS}
    seeds = sorted(set(rates["obs"]) & set(rates["full_obs"]))
    gaps = [rates["full_obs"][seed] - rates["obs"][seed] for seed in seeds]
    found = {arm: statistics.median(rates[arm][seed] for seed in seeds) for arm in ARMS}
    return found | {"gap": statistics.median(gaps), "least": min(gaps), "most": max(gaps), "seeds": len(seeds)}


def gaps_of(runs: list[dict]) -> dict[str, dict]:
    """Of every map and sight that has a seed with both arms."""
    found = {}
    for name, sight in dict.fromkeys((run["map"], run["sight"]) for run in runs):
        same = [run for run in runs if (run["map"], run["sight"]) == (name, sight)]
        if set.intersection(*({run["seed"] for run in same if run["arm"] == arm} for arm in ARMS)):
            found[f"{name}, sight {sight:g}"] = gap(same)
    return found


def former(name: str, settings: dict) -> list[dict]:
    """Runs of a result file that were made with these settings, by the same code."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return []
    record = json.loads(path.read_text())
    mine, theirs = environment(), record["environment"]
    same = record["settings"] == settings and mine["git_commit"] == theirs["git_commit"]
    return record["figures"]["runs"] if same else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", default="2s3z,3s5z")
    parser.add_argument("--sights", default="4,5,6,9")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--t_max", type=int, default=1_000_000, help="steps of all battles in a run")
    parser.add_argument("--extra", default="", help="further flags of all runs, as one string: --spawn_jitter 2")
    parser.add_argument("--name", default="omagd_sight", help="of the result file")
    args = parser.parse_args()
    plain = [*PLAIN, *shlex.split(args.extra)]
    settings = {"flags": plain, "t_max": args.t_max, "processes": 2}
    runs = former(args.name, settings)
    made = {(run["map"], run["sight"], run["arm"], run["seed"]) for run in runs}
    wanted = [
        (name, float(sight), arm, seed)
        for seed in range(1, args.seeds + 1)
        for name in args.maps.split(",")
        for sight in args.sights.split(",")
        for arm in ARMS
    ]
    for name, sight, arm, seed in wanted:
        if (name, sight, arm, seed) in made:
            continue
        flags = [*plain, "--map", name, "--sight", f"{sight:g}", "--observe", arm, "--seed", str(seed)]
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch) / "run"
            started = scaling.start("train_omagd.py", [*flags, "--t_max", str(args.t_max)], 2, place)
            results = scaling.finish(started, 2, place)
        runs.append({"map": name, "sight": sight, "arm": arm, "seed": seed, **{key: results[key] for key in KEPT}})
        print(f"{name} sight {sight:g} {arm} seed {seed}: {results['win_rate_test']:.3f}", flush=True)
        write_result(args.name, {"gaps": gaps_of(runs), "runs": runs}, settings=settings)
    print(json.dumps(gaps_of(runs), indent=1))


if __name__ == "__main__":
    main()
