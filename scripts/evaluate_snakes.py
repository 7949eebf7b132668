"""Play any two of {checkpoint, submission file, scripted team} against each other: both sides, 95 % intervals.

One:  accelerate launch scripts/evaluate_snakes.py --left RUN/export --right greedy --games 1000 --report_json FILE
Two:  accelerate launch --config_file accelerate_configs/cpu_2.yaml scripts/evaluate_snakes.py ...
The names of the original: --my_ai X --opponent Y --episode N
"""

import functools
import operator
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lib import launch
from lib.args import option
from lib.checkpoint import StopSignals, atomic_write_json, load_export
from lib.distributed import gather_rows
from lib.snakes.match import MatchResult, play_match
from lib.snakes.players import SCRIPTED, load_player

ALIASES = {"my_ai": "left", "opponent": "right", "episode": "games"}
PLAYER_HELP = f"one of {', '.join(SCRIPTED)}; RUN/export; a submission.py or its folder; an old actor_<episode>.pth"


@dataclass
class Config:
    """Who plays whom, and how often."""

    left: str = option(help=f"the player that is measured: {PLAYER_HELP}", group="match")
    right: str = option(help="its opponent, as --left", group="match")
    games: int = option(1000, "games over all processes, with each seed", "match", minimum=1)
    both_sides: bool = option(True, "change sides after every game", "match")
    sample: bool = option(
        False, "trained networks draw their moves from the policy instead of playing the likeliest", "match"
    )
    seed: int = option(0, "the games are a function of it", "run", minimum=0)
    seeds: int = option(
        1, "play with so many seeds from --seed on; least and median win rate are told", "run", minimum=1
    )
    num_envs: int | None = option(None, "games at a time in each process; changes no result", "run", minimum=1)
    report_json: str | None = option(None, "write the result here", "run")
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    dist_timeout: float = option(600.0, "seconds after which a waiting collective gives up", "run", above=0)


def main(config: Config) -> None:
    acc = launch.start(config, precision="fp32", sharding=False)
    players = [load_player(text, load_export, sample=config.sample) for text in (config.left, config.right)]
    rank, processes = acc.process_index, acc.num_processes
    first, end = (config.games * index // processes for index in (rank, rank + 1))
    started = time.monotonic()
    with StopSignals() as signals:
        shares = [
            play_match(
                *players,
                config.games,
                seed=config.seed + number,
                device=acc.device,
                num_envs=config.num_envs,
                both_sides=config.both_sides,
                should_stop=lambda: signals.requested,
                first_game=first,
                game_count=end - first,
            )
            for number in range(config.seeds)
        ]
        if signals.agreed(acc):
            acc.print(f"stopped by {signals.name or 'a signal'}: nothing was written")
            return
    parts = gather_rows(acc, [shares])
    if acc.is_main_process:
        results = [functools.reduce(operator.add, of_seed) for of_seed in zip(*parts)]
        assert all(result.games == config.games for result in results), [result.games for result in results]
        report(config, results, time.monotonic() - started, processes)


def report(config: Config, results: list[MatchResult], seconds: float, processes: int) -> None:
    """Print the table; write the file. `results`: one a seed."""
    result = functools.reduce(operator.add, results)
    print(table(result), flush=True)
    rates = [of_seed.win_rate for of_seed in results]
    if len(rates) > 1:
        least, median = 100 * min(rates), 100 * statistics.median(rates)
        print(f"won with {len(rates)} seeds: least {least:.1f} %, median {median:.1f} %", flush=True)
    print(f"{result.games / seconds:,.0f} games/s on {processes} process(es), {seconds:.1f} s", flush=True)
    if config.report_json:
        facts = {"seed": config.seed, "both_sides": config.both_sides, "sample": config.sample}
        facts |= {"win_rates": rates, "win_rate_min": min(rates), "win_rate_median": statistics.median(rates)}
        speed = {"wall_s": round(seconds, 3), "games_per_s": result.games / seconds, "processes": processes}
        atomic_write_json(Path(config.report_json), {**result.to_dict(), **facts, **speed})


def table(result: MatchResult) -> str:
    """Rows: all games, then those that the left player played on each side of the board."""
    rows = [f"{result.left} against {result.right}, seen by {result.left}"]
    rows.append(f"{'':<9}{'games':>7}{'won':>8}{'drawn':>8}{'lost':>8}  {'95 % of won':<16}{'score':>14}{'deaths':>14}")
    whole = {"all": (result.total, result.interval())}
    for side, tally in result.per_side.items():
        if tally.games:
            whole[side] = (tally, tuple(result.to_dict()["per_side"][side]["interval"]))
    for name, (tally, (low, high)) in whole.items():
        shares = "".join(f"{100 * count / tally.games:>6.1f} %" for count in (tally.wins, tally.draws, tally.losses))
        score, deaths = (
            f"{own / tally.games:.1f} : {other / tally.games:.1f}"
            for own, other in ((tally.score, tally.score_against), (tally.deaths, tally.deaths_against))
        )
        interval = f"{100 * low:.1f} to {100 * high:.1f} %"
        rows.append(f"{name:<9}{tally.games:>7}{shares}  {interval:<16}{score:>14}{deaths:>14}")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(launch.run(main, Config, aliases=ALIASES))
