"""The game kernel against the rules in plain Python, and against the original game: every step, everything compared.

    OMP_NUM_THREADS=1 python benchmarks/snakes_rules.py [--steps 1000000] [--processes 2] [--peer_dir CHECKOUT]

After each step of each game: rewards, deaths, beans eaten, end, scores, the actions of scripted teams, all bodies in
order, the ordered beans, directions before and after, counters; features of all six snakes in every --feature_every-th
step. A third of the steps are whole games of random moves, a third games of the scripted teams, a third start on
crowded boards (18 to 195 segments) put in by hand. With --peer_dir, a checkout of
github.com/jidiai/Competition_3v3snakes, --peer_steps more steps are compared with its own game, in which the kernel's
beans and reversal directions are handed in; its greedy team and its 26 numbers are compared on the way.

The counts say what was met. The exit code is 1 when there was a difference or something was not met.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from record import write_result

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "unit" / "snakes"))
from reference_boards import crowded_game
from reference_lockstep import Lockstep
from reference_peer import missing_parts
from reference_versus_peer import PeerMatch

GAMES = 40
CROWDED_STEPS = 8
FILLS = (18, 60, 100, 140, 170, 185, 195, 195, 195)
PAIRS = (("greedy", "evasion"), ("level1", "level3"), ("level4", "greedy"), ("random", "level4"), ("evasion", "random"))
MUST_MEET = ("death", "death_after_eating", "head_to_head", "self_collision", "long_death", "reversal",
             "quirk_a", "quirk_b", "quirk_c", "board_full", "early_end", "game_over")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="game steps compared with plain Python")
    parser.add_argument("--feature_every", type=int, default=20, help="steps between comparisons of the features")
    parser.add_argument("--processes", type=int, default=1, help="processes that share the steps")
    parser.add_argument("--peer_dir", type=Path, help="checkout of the original game")
    parser.add_argument("--peer_steps", type=int, default=60_000, help="game steps compared with the original")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.peer_dir and (missing := missing_parts(str(arguments.peer_dir), "--peer_dir")):
        parser.error(missing)
    start = time.perf_counter()
    shares = [(arguments, process) for process in range(arguments.processes)]
    if arguments.processes == 1:
        results = [compare_share(shares[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
            results = pool.map(compare_share, shares, chunksize=1)
    figures = {name: sum_results(result[name] for result in results) for name in results[0]}
    figures["wall_s"] = round(time.perf_counter() - start, 1)
    faults = report(figures)
    settings = {name: getattr(arguments, name) for name in ("steps", "feature_every", "processes", "seed")}
    settings |= {"games_at_once": GAMES, "peer_steps": arguments.peer_steps if arguments.peer_dir else 0}
    print(f"written: {write_result('snakes_rules', figures, settings=settings).name}")
    if faults:
        raise SystemExit("; ".join(faults))


def compare_share(share: tuple[argparse.Namespace, int]) -> dict[str, dict]:
    """What one process compares: every part with its share of the steps, in games that no other process plays."""
    arguments, process = share
    torch.set_num_threads(1)
    seed = arguments.seed * 1000 + process
    steps = -(-arguments.steps // (3 * arguments.processes * GAMES))
    results = {
        "random_games": compare_random(steps, seed, arguments.feature_every),
        "scripted_games": compare_scripted(steps, seed, arguments.feature_every),
        "crowded_boards": compare_crowded(steps, seed, arguments.feature_every),
    }
    if arguments.peer_dir:
        results["original"] = compare_peer(arguments.peer_dir, arguments.peer_steps // arguments.processes, seed)
    return results


def random_actions(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 4, size=(GAMES, 6), dtype=np.int32)


def compare_random(steps: int, seed: int, feature_every: int) -> dict:
    """Whole games of uniform moves."""
    rng = np.random.default_rng(seed)
    lockstep = Lockstep(GAMES, seed=seed, feature_every=feature_every)
    for _ in range(steps):
        lockstep.step(random_actions(rng))
    return outcome(lockstep)


def compare_scripted(steps: int, seed: int, feature_every: int) -> dict:
    """Whole games of scripted teams, every one on either side."""
    results = []
    teams = [*PAIRS, *((right, left) for left, right in PAIRS)]
    for number, pair in enumerate(teams):
        lockstep = Lockstep(GAMES, pair, seed=seed + number, features="jidi26", feature_every=feature_every)
        for _ in range(-(-steps // len(teams))):
            lockstep.step(np.zeros((GAMES, 6), np.int32))
        results.append(outcome(lockstep))
    return sum_results(results)


def compare_crowded(steps: int, seed: int, feature_every: int) -> dict:
    """A few steps each from boards full of long snakes, random moves against greedy."""
    rng, actions_rng = random.Random(seed), np.random.default_rng(seed)
    lockstep = Lockstep(GAMES, ("external", "greedy"), seed=seed, feature_every=feature_every)
    for number in range(steps):
        if number % CROWDED_STEPS == 0:
            for slot in range(GAMES):
                lockstep.inject(slot, crowded_game(rng, rng.choice(FILLS)))
        lockstep.step(random_actions(actions_rng))
    return outcome(lockstep)


def compare_peer(folder: Path, steps: int, seed: int) -> dict:
    """Kernel against the original: new games and crowded boards, random and greedy moves in turn."""
    match = PeerMatch(folder, num_games=GAMES, seed=seed)
    rng = np.random.default_rng(seed)
    for number in range(-(-steps // GAMES)):
        if number % CROWDED_STEPS == 0 and number % 400 >= 200:
            match.new_boards(random.Random(seed * 10_000 + number), crowded=True)
        elif number % 400 == 0:
            match.new_boards(random.Random(seed * 10_000 + number), crowded=False)
        if number % 20 == 0:
            match.compare_scripts()
        greedy = number // CROWDED_STEPS % 2 == 1
        match.step(match.greedy_actions() if greedy else random_actions(rng))
    return outcome(match) | {"scripts_compared": match.scripts_compared}


def outcome(compared: Lockstep | PeerMatch) -> dict:
    """Counts of a comparison; the first differences go to the error output."""
    for message in compared.messages[:3]:
        print(message, file=sys.stderr)
    events = {f"met_{name}": compared.events[name] for name in MUST_MEET}
    return {"steps": compared.steps * GAMES, "differences": compared.differences} | events


def sum_results(results) -> dict:
    """Sums of equal keys, zeros kept."""
    total: Counter = Counter()
    for result in results:
        total.update(result)
    return dict(total)


def report(figures: dict) -> list[str]:
    """Print the counts; what is wrong with them, in words."""
    faults = []
    parts = {name: part for name, part in figures.items() if isinstance(part, dict)}
    together = sum_results(part for name, part in parts.items() if name != "original")
    figures["together"] = together
    for name, part in {**parts, "together": together}.items():
        print(name + ": " + " ".join(f"{key} {value}" for key, value in part.items()))
        if part["differences"]:
            faults.append(f"{name}: {part['differences']} differences")
    for name in ("together", "original"):
        missed = [event for event in MUST_MEET if figures.get(name, {"met_" + event: 1})["met_" + event] == 0]
        if missed:
            faults.append(f"{name}: {', '.join(missed)} not met")
    print(f"{figures['wall_s']} s")
    return faults


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
