"""Other runs beside this one: the win rates they reached, and how fast."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lib.errors import UserError
from lib.report import Curve, Series


@dataclass(frozen=True)
class FormerRun:
    """A finished run of agents: its name here, its results.json, the rows of its log."""

    name: str
    results: dict
    rows: list[dict]


def read_runs(listed: str | None, read_rows: Callable[[Path], list[dict]]) -> list[FormerRun]:
    """The runs of folders, separated by commas. UserError for one that holds no finished run of agents.

    read_rows: `lib.runlog.read_metrics`.
    """
    found = []
    for folder in (listed or "").split(","):
        if not folder:
            continue
        place = Path(folder)
        try:
            results = json.loads((place / "results.json").read_text(encoding="utf-8"))
            row_of("", results)
            name, rows = f"{results['observe']}, {place.name}", read_rows(place / "metrics.jsonl")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"--compare {folder}: no finished run of --stage qmix is there ({type(error).__name__}: {error})"
            ) from None
        found.append(FormerRun(name, results, rows))
    return found


def tests_of(name: str, rows: list[dict]) -> Series | None:
    """The test win rates of a run by its steps; None where there were no tests."""
    tests = [row for row in rows if "test/win_rate" in row and "env_steps" in row]
    return Series(name, [row["env_steps"] for row in tests], [row["test/win_rate"] for row in tests]) if tests else None


def compared(mine: Series | None, runs: list[FormerRun]) -> list[Curve]:
    """One picture of the test win rates of this run and of others; none without others."""
    series = [one for one in (mine, *(tests_of(run.name, run.rows) for run in runs)) if one is not None]
    if not runs or not series:
        return []
    return [Curve("Beside other runs", "steps of all battles", "share of test battles won", series, smooth=False)]


def row_of(name: str, results: dict) -> list:
    """One row."""
    low, high = 100 * results["win_rate_test_low"], 100 * results["win_rate_test_high"]
    sight = "of each type" if results["sight"] is None else results["sight"]
    return [name, results["map"], sight, results["env_steps"], results["battles_test"],
            100 * results["win_rate_test"], f"{low:.1f} to {high:.1f}"]  # fmt: skip


COLUMNS = ["run", "map", "sight", "steps", "battles", "won, %", "95 % interval"]
CAPTION = "Each in test battles of its own seed; `obs`, `reconstructed` and `full_obs` are what its agents were told."
