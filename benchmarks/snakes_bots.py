"""Every scripted player of 3v3 snakes against every other, both sides: results, measured strength, hunter v greedy.

    OMP_NUM_THREADS=1 python benchmarks/snakes_bots.py [--games 600] [--games_hunter 1000] [--seed 1]

Game number g of a pair is a function of the seed and g; odd games are played with the sides exchanged. Draws are no
wins. Elo ratings are the most likely ones for the whole table, with "random" at 0 (`lib/snakes/elo.py`).
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations

from record import write_result

from lib.snakes.elo import Result, fit_ratings
from lib.snakes.match import MatchResult, play_match
from lib.snakes.players import ScriptedPlayer
from lib.snakes.rules import CONTROLLERS

BOTS = tuple(name for name in CONTROLLERS if name != "external")
BAR, STRETCH = 0.70, 0.85


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=600, help="games a pair")
    parser.add_argument("--games_hunter", type=int, default=1000, help="games of hunter against greedy")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start = time.perf_counter()
    table = [match(*pair, arguments.games, arguments.seed) for pair in combinations(BOTS, 2)]
    results = [Result(row.left, row.right, row.wins, row.draws, row.losses) for row in table]
    ratings = fit_ratings(results, anchor="random", anchor_rating=0.0)
    hunter = match("hunter", "greedy", arguments.games_hunter, arguments.seed + 1)
    show(table, ratings, hunter)
    figures = {
        "elo": {name: round(rating) for name, rating in ratings.items()},
        "matches": [row.to_dict() for row in table],
        "hunter_against_greedy": hunter.to_dict() | {"bar": BAR, "stretch": STRETCH},
        "wall_s": round(time.perf_counter() - start, 1),
    }
    settings = {"games_a_pair": arguments.games, "games_hunter": arguments.games_hunter, "seed": arguments.seed}
    print(f"written: {write_result('snakes_bots', figures, settings=settings).name}")
    if hunter.interval()[0] < BAR:
        raise SystemExit(f"hunter wins {hunter.win_rate:.1%} against greedy: below the bar of {BAR:.0%}")


def match(left: str, right: str, games: int, seed: int) -> MatchResult:
    """A match of two scripted players by name."""
    return play_match(ScriptedPlayer(left), ScriptedPlayer(right), games, seed=seed)


def show(table: list[MatchResult], ratings: dict[str, float], hunter: MatchResult) -> None:
    """Ratings from the strongest down, with the wins / draws / losses of the row against the column in per cent."""
    names = list(ratings)
    cells = {}
    for row in table:
        cells[row.left, row.right] = f"{row.win_rate:.0%}/{row.draw_rate:.0%}/{row.loss_rate:.0%}"
        cells[row.right, row.left] = f"{row.loss_rate:.0%}/{row.draw_rate:.0%}/{row.win_rate:.0%}"
    print(f"{'':9}{'Elo':>6}  " + "".join(f"{name:>13}" for name in names))
    for name in names:
        columns = "".join(f"{cells.get((name, other), '-'):>13}" for other in names)
        print(f"{name:9}{ratings[name]:6.0f}  {columns}")
    low, high = hunter.interval()
    sides = ", ".join(f"{side} {tally.wins}/{tally.games}" for side, tally in hunter.per_side.items())
    print(
        f"hunter v greedy, {hunter.games} games: {hunter.win_rate:.1%} won (95 %: {low:.1%} to {high:.1%}), "
        f"{hunter.draw_rate:.1%} drawn; {sides}; score {hunter.score_left_mean:.1f} : {hunter.score_right_mean:.1f}, "
        f"deaths {hunter.deaths_left_mean:.1f} : {hunter.deaths_right_mean:.1f}"
    )


if __name__ == "__main__":
    main()
