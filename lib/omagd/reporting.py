"""What a run shows: the result table, report.html, the model card."""

from pathlib import Path

from lib.args import config_dict
from lib.omagd.evaluation import SCRIPTED, Tally
from lib.omagd.options import OmagdOptions
from lib.omagd.progress import Plan
from lib.report import Curve, Series, Table, write_report

PLAYERS = {"test": "the team, greedy", "scripted": f"script: attack the {SCRIPTED}", "random": "random actions"}


def plan_notes(config: OmagdOptions, parameters: int, plan: Plan, layout, processes: int) -> tuple[str, dict[str, str]]:
    """The effective batch in words, and further lines of the announcement."""
    batch = f"{config.per_device_batch_size} episodes a process, {config.per_device_batch_size * processes} in all"
    return batch, {
        "battles": f"{config.map}, {layout.n_agents} against {layout.n_enemies}, sight {config.sight:g},"
        f" {config.observe}; {config.batch_size_run} at once a process",
        "model": f"{parameters:,} parameters, {config.mixer}, memory {config.rnn_hidden_dim}",
        "plan": f"{config.t_max:,} steps in all, {plan.updates:,} updates, one for {config.steps_per_update} steps a"
        f" process" + (f", at most {config.max_minutes:g} minutes" if config.max_minutes else ""),
    }


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


def result_table(results: dict) -> str:
    """The result, for the terminal."""
    lines = [f"{'test battles':<34} {'won':>7} {'95 % interval':>17} {'return':>8} {'battles':>8}"]
    for name, label in PLAYERS.items():
        low, high = results[f"win_rate_{name}_low"], results[f"win_rate_{name}_high"]
        lines.append(
            f"{label:<34} {100 * results[f'win_rate_{name}']:5.1f} % {100 * low:7.1f} to {100 * high:4.1f} %"
            f" {results[f'return_{name}']:8.2f} {results[f'battles_{name}']:8d}"
        )
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
    run: Path, config: OmagdOptions, results: dict, tallies: dict[str, Tally], rows: list[dict]
) -> Path:
    """report.html and plots of a finished run; `rows` are those of metrics.jsonl."""
    cells = []
    for name, tally in tallies.items():
        low, high = tally.interval()
        cells.append(
            [PLAYERS[name], int(tally.battles), 100 * tally.mean("won"), f"{100 * low:.1f} to {100 * high:.1f}",
             tally.mean("returns"), tally.mean("steps"), tally.mean("dead_allies"), tally.mean("dead_enemies")]
        )  # fmt: skip
    columns = ["player", "battles", "won, %", "95 % interval", "return", "steps", "dead allies", "dead enemies"]
    caption = "The same battles for all; the enemies follow the project's script, which is not StarCraft II's bot."
    summary = [
        ("test battles won, %", round(100 * results["win_rate_test"], 1)),
        ("attack-nearest wins, %", round(100 * results["win_rate_scripted"], 1)),
        ("steps", results["env_steps"]),
        ("steps/s", round(results["env_steps_per_s"])),
        ("updates/s", round(results["updates_per_s"], 1)),
        ("processes", results["processes"]),
    ]
    return write_report(
        run, title=f"QMIX on {config.map}", summary=summary,
        tables=[Table("Test battles", columns, cells, caption, [0])],
        curves=curves(rows), figures=[], config=config_dict(config),
    )  # fmt: skip


def model_card(config: OmagdOptions, results: dict) -> str:
    """README.md of the export."""
    return f"""---
library_name: quartet
tags: [reinforcement-learning, multi-agent, smac, qmix]
---
# A team for the map {config.map}

One recurrent network for all agents (hidden {config.rnn_hidden_dim}), trained by {config.mixer} over
{results["env_steps"]:,} steps. Sight {config.sight:g}, observations `{config.observe}`.

| player | battles won | battles |
| --- | --- | --- |
| this team, greedy | {100 * results["win_rate_test"]:.1f} % | {results["battles_test"]} |
| attack the nearest | {100 * results["win_rate_scripted"]:.1f} % | {results["battles_scripted"]} |
| random actions | {100 * results["win_rate_random"]:.1f} % | {results["battles_random"]} |

Enemies follow the script of `lib/omagd/battle/rules.py`: it is not the bot of StarCraft II, and win rates against the
two are different things. Load with `lib.checkpoint.load_export`.
"""
