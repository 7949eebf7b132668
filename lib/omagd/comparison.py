"""Other runs beside this one: the win rates they reached, and how fast."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lib.errors import UserError
from lib.report import Curve, Series

AGENTS_OF_ALL = "qmix"  # the folder of the agents in a run of --stage all
COLUMNS = ["run", "map", "game", "sight", "steps", "battles", "won, %", "95 % interval"]
CAPTION = "Each in test battles of its own seed; `obs`, `reconstructed` and `full_obs` are what its agents were told."


@dataclass(frozen=True)
class FormerRun:
    """A finished run of agents: its name here, its row of the table (COLUMNS), its tests (steps, win rate)."""

    name: str
    row: list
    tests: list[tuple[float, float]]

    def curve(self) -> Series | None:
        """Its test win rates by its steps; None where there were no tests."""
        return Series(self.name, *(list(column) for column in zip(*self.tests, strict=True))) if self.tests else None


def read_runs(listed: str | None, read_rows: Callable[[Path], list[dict]]) -> list[FormerRun]:
    """The runs of folders, separated by commas. UserError for one that holds no finished run of agents.

    read_rows: `lib.runlog.read_metrics`.
    """
    found, names = [], Counter()
    for folder in filter(None, (words.strip() for words in (listed or "").split(","))):
        place = Path(folder).resolve()
        if (place / AGENTS_OF_ALL / "results.json").is_file():
            place = place / AGENTS_OF_ALL
        try:
            results = json.loads((place / "results.json").read_text(encoding="utf-8"))
            name = f"{results['observe']}, {place.parent.name if place.name == AGENTS_OF_ALL else place.name}"
            names[name] += 1
            title = name if names[name] == 1 else f"{name} ({names[name]})"
            run = run_of(title, results, read_rows(place / "metrics.jsonl"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"--compare {folder}: no finished run of --stage qmix is there ({type(error).__name__}: {error})"
            ) from None
        found.append(run)
    return found


def run_of(name: str, results: dict, rows: list[dict]) -> FormerRun:
    """From results.json and the rows of metrics.jsonl. KeyError, TypeError or ValueError where they are of another."""
    low, high = 100 * results["win_rate_test_low"], 100 * results["win_rate_test_high"]
    sight = "of each type" if results["sight"] is None else results["sight"]
    row = [name, results["map"], results["env"], sight, results["env_steps"], results["battles_test"],
           100 * results["win_rate_test"], f"{low:.1f} to {high:.1f}"]  # fmt: skip
    tests, steps = [], 0.0
    for each in rows:
        steps = float(each.get("env_steps", steps))  # a test of an older run has none: that of the row before
        if "test/win_rate" in each:
            tests.append((steps, float(each["test/win_rate"])))
    return FormerRun(name, row, tests)


def compared(runs: list[FormerRun]) -> list[Curve]:
    """One picture of the test win rates of runs; none where there were no tests."""
    series = [curve for curve in (run.curve() for run in runs) if curve is not None]
    if not series:
        return []
    return [Curve("Beside other runs", "steps of all battles", "share of test battles won", series, smooth=False)]
