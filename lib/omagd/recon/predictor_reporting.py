"""What the predictor's stage shows: the result table, report.html, the model card."""

from pathlib import Path

from lib.args import config_dict
from lib.omagd.recon.episodes import TEST
from lib.omagd.recon.picture import CAPTION as CAPTION_OF_PICTURE
from lib.omagd.recon.picture import draw_guesses
from lib.report import Curve, Series, Table, in_columns, write_report

GUESSERS = {
    "model": "this model, mean",
    "tokens": "this model, likeliest tokens",
    "last_seen": "last seen, else prior",
    "prior": "prior of slot and step",
    "marginal": "most common",
}
FIGURES = (  # of each guesser: key, heading, factor, digits
    ("position_error", "position error", 1.0, 3),
    ("enemy_position_error", "of enemies", 1.0, 3),
    ("ally_position_error", "of allies", 1.0, 3),
    ("health_error", "health error", 1.0, 3),
    ("place", "place, %", 100.0, 1),
    ("condition", "condition, %", 100.0, 1),
    ("existence_loss", "p(lives), nats", 1.0, 3),
)
CAPTION = (
    "Units that a living agent does not see, in episodes that were not learnt from. Errors of those that live, in map"
    " units and shares of health; hits of their tokens; log loss of whether a unit lives."
)


def plan_notes(config, task, processes: int, updates: int) -> tuple[str, dict[str, str]]:
    """The effective batch in words, and further lines of the announcement."""
    batch = f"{config.predictor_batch_size} episodes a process, {config.predictor_batch_size * processes} in all"
    parts = ", ".join(f"{len(episodes):,} for {part}" for part, episodes in task.parts.items())
    hidden, slot = config.predictor_sizes()
    parameters = sum(value.numel() for value in task.module.parameters())
    return batch, {
        "episodes": f"{parts}, on {config.map}, sight {config.sight:g}, by {config.policies}",
        "tokens": f"{config.tokenizer}, {task.about['sha256_of_codes'][:12]}",
        "model": f"{parameters:,} parameters, memory {config.memory}, belief {hidden}, slots {slot},"
        f" matching {config.matching}",
        "plan": f"{updates:,} updates, {task.epoch_updates:,} an epoch",
    }


def rows_by_guesser(results: dict) -> list[list]:
    """Of each guesser its figures; None where there is none."""
    found = []
    for guesser, words in GUESSERS.items():
        values = [results.get(f"{guesser}_{key}") for key, *_ in FIGURES]
        values = [
            None if value is None else factor * value for value, (*_, factor, _) in zip(values, FIGURES, strict=True)
        ]
        found.append([words, *values])
    return found


def result_table(results: dict) -> str:
    """The result, for the terminal."""
    headings, digits = [heading for _, heading, *_ in FIGURES], [number for *_, number in FIGURES]
    lines = in_columns("unseen units", headings, rows_by_guesser(results), digits)
    lines.append(
        f"{results['hidden_slots']:,.0f} living units unseen, {100 * results['hidden_seen_share']:.0f} % of them seen"
        f" before; p(lives) is off by {results['existence_calibration_error']:.3f};"
        f" {100 * results['model_place_hungarian']:.1f} % of places are hit where units of a kind may change places"
    )
    return "\n".join(lines)


def curves(rows: list[dict]) -> list[Curve]:
    """From the rows of metrics.jsonl."""
    found = []
    trained, held = [row for row in rows if "place" in row], [row for row in rows if "validation/loss" in row]
    if trained:
        steps = [row["step"] for row in trained]
        parts = [Series(name, steps, [row[name] for row in trained]) for name in ("place", "condition", "existence")]
        found.append(Curve("Parts of the loss", "updates", "nats a slot", parts))
    if held:
        steps = [row["step"] for row in held]
        for title, unit, key, factor in (
            ("Position error, held out", "map units", "position_error", 1.0),
            ("Place token, held out", "% hit", "place", 100.0),
        ):
            series = [
                Series(GUESSERS[name], steps, [factor * row[f"validation/{name}_{key}"] for row in held])
                for name in ("model", "last_seen", "prior")
            ]
            found.append(Curve(title, "updates", unit, series, smooth=False))
    return found


def write_run_report(run: Path, config, task, results: dict, rows: list[dict]) -> Path:
    """report.html and plots of a finished stage; `rows` are those of metrics.jsonl.

    The battle that is shown is the one of median length of the test's.
    """
    test = task.parts[TEST]
    shown = test[task.frames.played.lengths[test].argsort(stable=True)[len(test) // 2]].view(1)
    picture = draw_guesses(run / "plots" / "guesses.png", task.module, task.frames.views(shown), task.sight)
    summary = [
        ("position error, map units", round(results["model_position_error"], 3)),
        ("last seen, else prior", round(results["last_seen_position_error"], 3)),
        ("p(lives) is off by", round(results["existence_calibration_error"], 4)),
        ("updates", results["steps"]),
        ("processes", results["processes"]),
    ]
    columns = ["guess", *[heading for _, heading, *_ in FIGURES]]
    return write_report(
        run, title=f"Guesses of unseen units on {config.map}, sight {config.sight:g}", summary=summary,
        tables=[Table("Held-out episodes", columns, rows_by_guesser(results), CAPTION)],
        curves=curves(rows), figures=[(CAPTION_OF_PICTURE, picture)], config=config_dict(config),
    )  # fmt: skip


def model_card(config, results: dict) -> str:
    """README.md of the export."""
    return f"""---
library_name: quartet
tags: [multi-agent, smac, partial-observability]
---
# Guesses of unseen units on the map {config.map}

From what an agent saw so far (memory `{config.memory}`, matching `{config.matching}`), sight
{config.sight:g}: whether each unit out of sight lives, its row, its tokens. Learnt from
{config.graph_pretrain_episodes:,} episodes of `{config.policies}`.

On episodes that were not learnt from, units that live and are not seen: position error
{results["model_position_error"]:.3f} map units (last seen, else prior: {results["last_seen_position_error"]:.3f}),
p(lives) off by {results["existence_calibration_error"]:.3f}. Tokens {results["codebook_sha256"][:12]}.
"""
