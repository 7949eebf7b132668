"""What a run shows: the result table, report.html, the model card."""

from collections.abc import Iterable
from pathlib import Path

from lib.args import config_dict
from lib.omagd import comparison
from lib.omagd.comparison import FormerRun
from lib.omagd.evaluation import SCRIPTED, Tally
from lib.omagd.foreign.choose import EMBEDDED, enemies_of
from lib.omagd.learning.replay import step_bytes
from lib.omagd.options import OmagdOptions
from lib.omagd.page import replay_fragment
from lib.omagd.progress import Plan
from lib.omagd.replay import BattleReplay
from lib.omagd.senses import told_size
from lib.report import Curve, Series, Table, write_report

PLAYERS = {"test": "the team, greedy", "scripted": f"script: attack the {SCRIPTED}", "random": "random actions"}


def plan_notes(config: OmagdOptions, parameters: int, plan: Plan, layout, processes: int) -> tuple[str, dict[str, str]]:
    """The effective batch in words, and further lines of the announcement."""
    size = config.buffer_steps * step_bytes(layout, told_size(layout, config.observe)) / 2**20
    batch = f"{config.per_device_batch_size} episodes a process, {config.per_device_batch_size * processes} in all"
    return batch, {
        "battles": f"{fought(config)}, {layout.n_agents} against {layout.n_enemies}, sight {sight(config)},"
        f" {config.observe}; {config.batch_size_run} at once a process",
        "model": f"{parameters:,} parameters, {config.mixer}, memory {config.rnn_hidden_dim}",
        "replay": f"up to {config.buffer_size:,} episodes and {config.buffer_steps:,} steps a process,"
        f" {size:,.0f} MiB when it is full",
        "plan": f"{config.t_max:,} steps in all, {plan.updates:,} updates, one for {config.steps_per_update} steps a"
        f" process"
        + (f", at most {config.max_minutes:g} minutes" if config.max_minutes else "")
        + f", learning rate {config.lr_schedule}",
    }


def fought(config: OmagdOptions) -> str:
    """The map, and the game where it is not the embedded one."""
    return config.map if config.env == EMBEDDED else f"{config.map} of {config.env}"


def sight(config: OmagdOptions) -> str:
    """How far agents see."""
    return "of each type" if config.sight is None else f"{config.sight:g}"


def training_row(seen: dict[str, float], episodes: dict[str, float]) -> dict[str, float]:
    """Means of the updates and episodes since the last row, from sums over all processes."""
    steps = max(seen["steps"], 1.0)
    values = {name: seen[name] / steps for name in ("loss", "error", "value", "target")}
    if episodes["episodes"]:
        count = episodes["episodes"]
        values |= {
            "train/win_rate": episodes["won"] / count,
            "train/return": episodes["returns"] / count,
            "train/length": episodes["lengths"] / count,
        }
    return values


def results_of(tallies: dict[str, Tally]) -> dict:
    """Keys of results.json from the matches at the end, by the names of PLAYERS."""
    found = {}
    for name, tally in tallies.items():
        low, high = tally.interval()
        found |= {f"win_rate_{name}": tally.mean("won"), f"return_{name}": tally.mean("returns")}
        found |= {f"win_rate_{name}_low": low, f"win_rate_{name}_high": high, f"battles_{name}": int(tally.battles)}
    return found


def table_lines(rows: Iterable[tuple[str, float, tuple[float, float], float, int]]) -> list[str]:
    """A table of players for the terminal: name, share of battles won with its interval, return, battles."""
    lines = [f"{'test battles':<34} {'won':>7} {'95 % interval':>17} {'return':>8} {'battles':>8}"]
    lines += [
        f"{label:<34} {100 * rate:5.1f} % {100 * low:7.1f} to {100 * high:4.1f} % {mean:8.2f} {battles:8d}"
        for label, rate, (low, high), mean, battles in rows
    ]
    return lines


def result_table(results: dict) -> str:
    """The result, for the terminal."""
    lines = table_lines(
        (label, results[f"win_rate_{name}"], (results[f"win_rate_{name}_low"], results[f"win_rate_{name}_high"]),
         results[f"return_{name}"], results[f"battles_{name}"])
        for name, label in PLAYERS.items()
    )  # fmt: skip
    lines.append(
        f"{results['episodes']:,} episodes, {results['env_steps']:,} steps, {results['env_steps_per_s']:,.0f} steps/s,"
        f" {results['updates']:,} updates, {results['updates_per_s']:.1f} updates/s, {results['processes']} processes"
    )
    return "\n".join(lines)


def curves(rows: list[dict]) -> list[Curve]:
    """Win rates, returns and losses from the rows of metrics.jsonl."""
    found = []
    tests = [row for row in rows if "test/win_rate" in row]
    if tests:
        series = [Series("test, greedy", [r["train_s"] for r in tests], [r["test/win_rate"] for r in tests])]
        found.append(Curve("Test win rate", "training seconds", "share of battles won", series, smooth=False))
    for title, key, label in (
        ("Win rate while training", "train/win_rate", "share of battles won, with exploration"),
        ("Return while training", "train/return", "sum of rewards, 20 is a victory"),
        ("TD error", "error", "mean absolute error"),
        ("Value of the team", "value", "mean"),
    ):
        known = [row for row in rows if key in row]
        if len(known) > 1:
            series = [Series(title, [row["env_steps"] for row in known], [row[key] for row in known])]
            found.append(Curve(title, "steps of all battles", label, series))
    return found


def write_run_report(
    run: Path, config: OmagdOptions, results: dict, tallies: dict[str, Tally], rows: list[dict],
    battle: BattleReplay | None, others: list[FormerRun],
) -> Path:  # fmt: skip
    """report.html and plots of a finished run; `rows` are those of metrics.jsonl, `battle` is one of the team's.

    others: finished runs that stand beside this one.
    """
    cells = []
    for name, tally in tallies.items():
        low, high = tally.interval()
        cells.append(
            [PLAYERS[name], int(tally.battles), 100 * tally.mean("won"), f"{100 * low:.1f} to {100 * high:.1f}",
             tally.mean("returns"), tally.mean("steps"), tally.mean("dead_allies"), tally.mean("dead_enemies")]
        )  # fmt: skip
    columns = ["player", "battles", "won, %", "95 % interval", "return", "steps", "dead allies", "dead enemies"]
    caption = f"The same battles for all; {enemies_of(config.env, config.game_arguments())}."
    summary = [
        ("test battles won, %", round(100 * results["win_rate_test"], 1)),
        ("attack-nearest wins, %", round(100 * results["win_rate_scripted"], 1)),
        ("steps", results["env_steps"]),
        ("steps/s", round(results["env_steps_per_s"])),
        ("updates/s", round(results["updates_per_s"], 1)),
        ("processes", results["processes"]),
    ]
    tables, pictures = [Table("Test battles", columns, cells, caption, [0])], []
    if others:
        beside = [comparison.run_of(f"{config.observe}, this run", results, rows), *others]
        tables.append(
            Table("Beside other runs", comparison.COLUMNS, [run.row for run in beside], comparison.CAPTION, [0])
        )
        pictures = comparison.compared(beside)
    return write_report(
        run, title=f"QMIX on {fought(config)}", summary=summary,
        tables=tables, curves=pictures + curves(rows), figures=[], config=config_dict(config),
        blocks=[("A test battle of the team", replay_fragment(battle))] if battle else [],
    )  # fmt: skip


def model_card(config: OmagdOptions, results: dict) -> str:
    """README.md of the export."""
    enemies = enemies_of(config.env, config.game_arguments())
    return f"""---
library_name: quartet
tags: [reinforcement-learning, multi-agent, smac, qmix]
---
# A team for the map {fought(config)}

One recurrent network for all agents (hidden {config.rnn_hidden_dim}), trained by {config.mixer} over
{results["env_steps"]:,} steps. Sight {sight(config)}, observations `{config.observe}`.

| player | battles won | battles |
| --- | --- | --- |
| this team, greedy | {100 * results["win_rate_test"]:.1f} % | {results["battles_test"]} |
| attack the nearest | {100 * results["win_rate_scripted"]:.1f} % | {results["battles_scripted"]} |
| random actions | {100 * results["win_rate_random"]:.1f} % | {results["battles_random"]} |

Who was fought: {enemies}. A script is not the bot of StarCraft II: win rates
against the two are different things. Load with `lib.checkpoint.load_export`; measure with `scripts/evaluate_omagd.py`,
watch a battle with `scripts/watch_omagd.py`.
"""
