"""What a run shows: blocks of its log, the result table, report.html with a replay, the model card."""

from pathlib import Path

from lib.args import config_dict
from lib.report import Curve, Series, Table, write_report
from lib.snakes.evaluation import FINAL, Standing
from lib.snakes.learner import STATISTICS
from lib.snakes.network import Actor
from lib.snakes.opponents import LEVELS, opponent
from lib.snakes.options import BOTS, SnakesOptions
from lib.snakes.page import replay_fragment
from lib.snakes.players import NetworkPlayer, ScriptedPlayer
from lib.snakes.recording import record_game
from lib.snakes.rules import TEAM

LABELS = {"hunter": "hunter (our strongest bot)", "greedy": "greedy (the original's script)", "random": "random moves"}


def plan_notes(config: SnakesOptions, parameters: int, budget, processes: int) -> tuple[str, dict[str, str]]:
    """The effective batch in words, and further lines of the announcement."""
    batch = f"{config.batch_size} transitions x {TEAM} snakes a process, {config.batch_size * processes} in all"
    games = config.max_episodes
    strategy = config.opponent_difficulty_strategy
    against = {"league": config.league, "fixed": config.opponent}.get(strategy, "bots of levels 0 to 4 in turn")
    return batch, {
        "rates": f"actor {config.a_lr:g}, critics {config.c_lr:g} before scaling, {config.lr_schedule}",
        "model": f"{parameters:,} parameters, hidden {'-'.join(map(str, config.hidden))}, {config.algo},"
        f" critic {config.critic} {config.relaxation}, features {config.features}",
        "games": f"{config.num_envs} at once a process; {games:,} a process, {games * processes:,} in all;"
        f" against {strategy}: {against}",
        "plan": f"{budget.planned_updates:,} updates, one for"
        f" {config.num_envs / config.updates_per_step:g} steps of games a process"
        + (f", at most {config.max_minutes:g} minutes" if config.max_minutes else ""),
    }


def training_row(config: SnakesOptions, seen: dict[str, float]) -> dict[str, float]:
    """Means of the updates and games since the last row, from sums over all processes. Games are absent while none
    ended."""
    rows = max(seen["rows"], 1.0)
    mean = {name: seen[name] / rows for name in STATISTICS if name != "rows"}
    values = {
        "loss": mean["critic_loss"] + mean["actor_loss"] - config.entropy_bonus * mean["entropy"],
        "loss/critic": mean["critic_loss"],
        "loss/actor": mean["actor_loss"],
        "entropy": mean["entropy"],
        "value": mean["value"],
    }
    games = seen["game games"]
    if games:
        snakes = [seen[f"game snake_{number}"] / games for number in range(1, TEAM + 1)]
        values |= {f"reward/snake_{number}": value for number, value in enumerate(snakes, start=1)}
        values |= {
            "reward/total": sum(snakes),
            "reward/enemy": seen["game enemy"] / games,
            "train/win_rate": seen["game wins"] / games,
            "train/deaths": seen["game deaths"] / games,
        }
    return values


def block(config: SnakesOptions, collector, sums: dict[str, float], values: dict) -> str:
    """The originals' lines for the games since the last block, with means; `collector` is that of the main process."""
    level, evasion = opponent_words(config, collector.finished)
    episode = config.model_episode + collector.finished
    games = max(sums["games"], 1.0)
    snakes = [sums[f"snake_{number}"] / games for number in range(1, TEAM + 1)]
    tabs = "\t" * 4
    names = " ".join(f"snake_{number}: {value:.1f}" for number, value in enumerate(snakes, start=1))
    return (
        f"[Episode {episode:05d}] total_reward: {sum(snakes):.1f} epsilon: {values['epsilon']:.2f} difficulty: {level}"
        f"{' evasion:ON' if evasion else ''} win_rate: {sums['wins'] / games:.3f}\n{tabs}{names}\n"
        f"{tabs}a_loss {values['loss/actor']:.3f} c_loss {values['loss/critic']:.3f}"
    )


def opponent_words(config: SnakesOptions, episode: int) -> tuple[str, bool]:
    """The difficulty as the originals number it where it has a number, else the opponent's name; evasion on."""
    if config.opponent_difficulty_strategy == "league":
        return "league", False
    name = opponent(config, episode)
    return str(LEVELS.index(name)) if name in LEVELS else name, name == "evasion"


def result_rows(standing: Standing) -> list[list]:
    """[opponent, games, won %, interval, drawn %, lost %, score, against] of the team, strongest opponent first."""
    ratings, rows = standing.ratings(), []
    for name in sorted(BOTS, key=lambda name: -ratings[name]):
        match = standing.against(name)
        low, high = match.interval()
        rows.append(
            [LABELS.get(name, name), match.games, 100 * match.win_rate, f"{100 * low:.1f} to {100 * high:.1f}",
             100 * match.draw_rate, 100 * match.loss_rate, match.score_left_mean, match.score_right_mean]
        )  # fmt: skip
    return rows


COLUMNS = ["opponent", "games", "won, %", "95 % interval", "drawn, %", "lost, %", "score", "against"]


def result_table(results: dict) -> str:
    """The result, for the terminal."""
    lines = [f"{'arg-max play, both sides':<34} {'won':>7} {'95 % interval':>17} {'score':>14} {'games':>6}"]
    for name in FINAL:
        key = "bot" if name == "hunter" else name
        low, high = results[f"win_rate_{key}_low"], results[f"win_rate_{key}_high"]
        score = f"{results[f'score_{key}']:.1f} : {results[f'score_against_{key}']:.1f}"
        lines.append(
            f"{LABELS[name]:<34} {100 * results[f'win_rate_{key}']:5.1f} % {100 * low:7.1f} to {100 * high:4.1f} %"
            f" {score:>14} {results[f'games_{key}']:6d}"
        )
    lines.append("Elo (greedy = 1000)  " + "  ".join(f"{n} {r:.0f}" for n, r in results["elo_table"].items()))
    reached = [
        f"{percent} % after {results[f'seconds_to_{percent}']:.1f} s"
        for percent in (50, 80)
        if results[f"seconds_to_{percent}"] is not None
    ]
    lines.append("against greedy while training: " + (", ".join(reached) or "no milestone reached"))
    lines.append(
        f"{results['games']:,} games, {results['env_steps_per_s']:,.0f} game steps/s, {results['updates']:,} updates,"
        f" {results['updates_per_s']:.0f} updates/s, {results['processes']} processes"
    )
    return "\n".join(lines)


def curves(rows: list[dict]) -> list[Curve]:
    """Win rates, rewards and losses from the rows of metrics.jsonl."""
    found = []
    start = "eval/win_rate_"
    tests = [row for row in rows if any(key.startswith(start) for key in row)]
    if tests:
        seconds = [row["train_s"] for row in tests]
        names = [key for key in tests[0] if key.startswith(start)]
        series = [Series(name.removeprefix(start), seconds, [row.get(name) for row in tests]) for name in names]
        caption = "Arg-max play on both sides, without the time of the evaluations."
        found.append(Curve("Win rate", "training seconds", "share of games won", series, caption))
    played = [row for row in rows if "reward/total" in row]
    if len(played) > 1:
        steps = [row["step"] for row in played]
        series = [Series("own team", steps, [row["reward/total"] for row in played])]
        series.append(Series("opponent", steps, [row["reward/enemy"] for row in played]))
        found.append(Curve("Score of training games", "update", "beans held at the end", series))
    learnt = [row for row in rows if "loss/critic" in row]
    if len(learnt) > 1:
        steps = [row["step"] for row in learnt]
        for key, label in (("loss/critic", "Critic loss"), ("entropy", "Entropy of the policy")):
            found.append(Curve(label, "update", key, [Series(label, steps, [row[key] for row in learnt])]))
    return found


def write_run_report(run: Path, config: SnakesOptions, results: dict, standing: Standing, actor: Actor, rows) -> Path:
    """report.html and plots of a finished run, with a game of the team; `rows` are those of metrics.jsonl."""
    replay = record_game(NetworkPlayer(actor, name="team"), ScriptedPlayer("greedy"), seed=config.seed)
    ratings = standing.ratings()
    summary = [
        ("won against greedy, %", round(100 * results["win_rate_greedy"], 1)),
        ("won against hunter, %", round(100 * results["win_rate_bot"], 1)),
        ("Elo (greedy = 1000)", round(results["elo"])),
        ("game steps/s", round(results["env_steps_per_s"])),
        ("updates", results["updates"]),
        ("processes", results["processes"]),
    ]
    place = list(ratings).index("team")
    tables = [
        Table("Matches", COLUMNS, result_rows(standing), "Arg-max play, half of the games on each side."),
        Table("Elo", ["player", "rating"], [[n, round(r)] for n, r in ratings.items()], "greedy = 1000", [place]),
    ]
    return write_report(
        run, title="Snakes 3v3: a team against the bots", summary=summary, tables=tables,
        curves=curves(rows), figures=[], config=config_dict(config),
        blocks=[("A game of the team (left) against greedy", replay_fragment(replay))],
    )  # fmt: skip


def model_card(config: SnakesOptions, results: dict) -> str:
    """README.md of the export."""
    lines = "\n".join(
        f"| {name} | {100 * results[f'win_rate_{key}']:.1f} % | {results[f'games_{key}']} |"
        for name, key in (("greedy", "greedy"), ("hunter", "bot"), ("random", "random"))
    )
    return f"""---
library_name: quartet
tags: [reinforcement-learning, multi-agent, snakes-3v3]
---
# A team for snakes 3v3

One actor for each of the three snakes: hidden {"-".join(map(str, config.hidden))}, features `{config.features}`,
{config.algo}. Trained by discrete multi-agent DDPG over {results["games"]:,} games ({results["env_steps"]:,} steps).

| opponent | won | games |
| --- | --- | --- |
{lines}

Elo {results["elo"]:.0f}, where the original's greedy script has 1000. Arg-max play, half of the games on each side.

Load with `lib.checkpoint.load_export`; play with `scripts/evaluate_snakes.py` and `scripts/watch_snakes.py`; make a
competition submission with `scripts/export_snakes.py`. Trained against scripted bots and itself: other styles of play
may beat it.
"""
