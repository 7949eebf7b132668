"""What a stage before the agents shows: the result table, report.html, the model card."""

from pathlib import Path

from lib.args import config_dict
from lib.omagd.recon.nodes import TYPES
from lib.report import Curve, Series, Table, in_columns, write_report

KINDS = {"self": "the agent itself", "ally": "other allies", "enemy": "enemies"}
FIGURES = (  # of each kind of node: key, heading, digits
    ("r2", "R2", 4),
    ("worst_r2", "R2 of the worst number", 4),
    ("position_error", "position error, map units", 3),
    ("health_error", "health error, share", 4),
)


def plan_notes(config, task, processes: int, updates: int) -> tuple[str, dict[str, str]]:
    """The effective batch in words, and further lines of the announcement."""
    batch = f"{config.graph_batch_size} views a process, {config.graph_batch_size * processes} in all"
    parts = ", ".join(f"{len(graphs):,} for {part}" for part, graphs in task.parts.items())
    return batch, {
        "episodes": f"{config.graph_pretrain_episodes:,} on {config.map}, sight {config.sight:g}, by {config.policies}",
        "views": parts,
        "codes": f"{config.n_codes} of places, {config.n_condition_codes} of conditions, width {config.code_dim}",
        "plan": f"{updates:,} updates, {task.epoch_updates:,} an epoch",
    }


def rows_by_kind(results: dict) -> list[list]:
    """Of each kind of node its figures; None where there is none."""
    found = []
    for kind in TYPES:
        if f"{kind}_r2" in results:
            values = [results.get(f"{kind}_{key}") for key, *_ in FIGURES]
            found.append([KINDS[kind], *values])
    return found


def result_table(results: dict) -> str:
    """The result, for the terminal."""
    headings, digits = [heading for _, heading, _ in FIGURES], [number for *_, number in FIGURES]
    lines = in_columns("held-out episodes", headings, rows_by_kind(results), digits)
    lines.append(
        f"R2 of all numbers {results['r2']:.4f}, codes in use {100 * results['codes_in_use']:.0f} %, perplexity"
        f" {results['place_perplexity']:.0f} places, {results['condition_perplexity']:.0f} conditions"
    )
    return "\n".join(lines)


def curves(rows: list[dict]) -> list[Curve]:
    """From the rows of metrics.jsonl."""
    found = []
    trained, held = [row for row in rows if "error" in row], [row for row in rows if "validation/loss" in row]
    if trained:
        series = [Series("training", [row["step"] for row in trained], [row["error"] for row in trained])]
        found.append(Curve("Error", "updates", "squared error in variances, both parts", series, log_y=True))
    if held:
        steps = [row["step"] for row in held]
        places = [
            Series(KINDS[kind], steps, [row[f"validation/{kind}_position_error"] for row in held])
            for kind in ("ally", "enemy")
            if f"validation/{kind}_position_error" in held[0]
        ]
        found.append(Curve("Position error, held out", "updates", "map units", places, smooth=False))
        use = [
            Series(f"{part} codes", steps, [100 * row[f"validation/{part}_codes_in_use"] for row in held])
            for part in ("place", "condition")
        ]
        found.append(Curve("Codes in use, held out", "updates", "%", use, smooth=False))
    return found


def write_run_report(run: Path, config, task, results: dict, rows: list[dict]) -> Path:
    """report.html and plots of a finished stage; `rows` are those of metrics.jsonl."""
    summary = [
        ("R2, all numbers", round(results["r2"], 4)),
        ("codes in use, %", round(100 * results["codes_in_use"])),
        ("place perplexity", round(results["place_perplexity"])),
        ("updates", results["steps"]),
        ("processes", results["processes"]),
    ]
    columns = ["node", *[heading for _, heading, _ in FIGURES]]
    caption = "Of living units in episodes that were not learnt from, with unlimited sight."
    return write_report(
        run, title=f"Tokens of units on {config.map}", summary=summary,
        tables=[Table("Held-out episodes", columns, rows_by_kind(results), caption)],
        curves=curves(rows), figures=[], config=config_dict(config),
    )  # fmt: skip


def model_card(config, results: dict) -> str:
    """README.md of the export."""
    return f"""---
library_name: quartet
tags: [multi-agent, smac, vq-vae]
---
# Tokens of units on the map {config.map}

A vector-quantised autoencoder: what an agent is told of a unit as two tokens, a place ({config.n_codes} codes) and a
condition ({config.n_condition_codes}). Learnt from {config.graph_pretrain_episodes:,} episodes of
`{config.policies}`, sight {config.sight:g}.

On episodes that were not learnt from: R2 {results["r2"]:.4f}, {100 * results["codes_in_use"]:.0f} % of the codes in
use. Codes {results["codebook_sha256"][:12]}.
"""
