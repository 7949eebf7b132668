"""The batched game against the original game, one core, one step per launch: environment steps a second and ratios.

    OMP_NUM_THREADS=1 python benchmarks/snakes_game.py --peer_dir CHECKOUT [--games 64,256,1024,4096] [--rounds 7]

The peer is a checkout of github.com/jidiai/Competition_3v3snakes: its own game alone, without features and opponents.
Its joint actions are drawn and encoded beforehand and not timed. An environment step moves all six snakes once.

random    full rules, both teams random; our draws are made in the kernel and are part of the time
greedy    a greedy team and all "team" features of the other (float32 [games, 1, 3, 140]), which plays at random, too
          (the draws are part of the time). Its snakes stay short, so that pockets and races, which are looked at only
          where there is something to lose, are rare: against a team of long snakes the features cost more

Everything takes turns inside a round, with as many steps as --seconds allow; seconds are the CPU seconds of the process
(both sides run on one thread), which other work on the machine disturbs least. Each ratio is the median over the rounds
of the ratio within a round.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import torch
import warp as wp
from record import interleaved, repeated, write_result

from lib.snakes import SnakesVec

CASES = {
    "random": {"features": "none", "left": "random", "right": "random"},
    "greedy": {"features": "team", "left": "random", "right": "greedy"},
}
BARS = {("random", 64): 700, ("random", 1024): 1000, ("greedy", 64): 280, ("greedy", 1024): 280}
PEER_STEPS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer_dir", type=Path, required=True, help="checkout of the original game")
    parser.add_argument("--games", default="64,256,1024,4096", help="games in one batch, comma separated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="about the time of one measurement")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sizes = [int(text) for text in arguments.games.split(",")]
    step_peer = peer_steps(arguments.peer_dir)
    work: dict[str, tuple[Callable, int]] = {"original": repeated(step_peer, 1, arguments.seconds)}
    for case, options in CASES.items():
        for games in sizes:
            work[f"{case}_{games}"] = repeated(SnakesVec(games, seed=1, **options).step, games, arguments.seconds)
    seconds = interleaved({name: run for name, (run, _) in work.items()}, arguments.rounds, clock=time.process_time)
    rates = {name: [work[name][1] / value for value in values] for name, values in seconds.items()}
    figures = report(rates, sizes)
    settings = {"games": sizes, "rounds": arguments.rounds, "seconds": arguments.seconds, "clock": "process CPU time"}
    settings["warp"] = wp.__version__
    print(f"written: {write_result('snakes_game', figures, settings=settings).name}")


def peer_steps(folder: Path) -> Callable[[], None]:
    """One step of the original game with a random joint action from a list made beforehand; resets when it is over."""
    if not (folder / "env" / "snakes.py").is_file():
        raise SystemExit(f"{folder.name} holds no env/snakes.py: give a checkout of the original game as --peer_dir")
    if importlib.util.find_spec("gym") is None:
        # The original imports one module of gym for a random generator that its game does not use.
        for name in ("gym", "gym.utils", "gym.utils.seeding"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["gym.utils"].seeding = sys.modules["gym.utils.seeding"]
    sys.path.insert(0, str(folder))
    settings = json.loads((folder / "env" / "config.json").read_text())["snakes_3v3"]
    game = importlib.import_module("env.snakes").SnakeEatBeans(settings)
    random.seed(1)
    joint = [game.encode([random.randrange(4) for _ in range(6)]) for _ in range(PEER_STEPS)]
    state = {"at": 0}

    def step() -> None:
        state["at"] = (state["at"] + 1) % PEER_STEPS
        if game.step(joint[state["at"]])[2]:
            game.reset()

    return step


def report(rates: dict[str, list[float]], sizes: list[int]) -> dict:
    """Prints the table and returns it."""
    original = rates["original"]
    figures = {"original_steps_per_s": round(statistics.median(original))}
    print(f"original: {figures['original_steps_per_s']} steps/s")
    for case in CASES:
        for games in sizes:
            values = rates[f"{case}_{games}"]
            ratios = [value / base for value, base in zip(values, original)]
            figures[f"{case}_{games}"] = {
                "steps_per_s": round(statistics.median(values)),
                "ratio": round(statistics.median(ratios)),
                "ratio_least": round(min(ratios)),
                "ratio_most": round(max(ratios)),
            }
            if (case, games) in BARS:
                figures[f"{case}_{games}"]["bar"] = BARS[case, games]
            print(f"{case} {games}: {figures[f'{case}_{games}']}")
    return figures


if __name__ == "__main__":
    main()
