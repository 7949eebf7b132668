"""Draws docs/img/snakes.png from benchmarks/results/snakes_learning_seconds.json and ..._minutes.json.

    python docs/img/draw_snakes.py

Win rates over seconds of training: the median of the seeds as a line, their range as a band.
"""

import json
import statistics
from pathlib import Path

from lib.files import atomic_write_bytes
from lib.report import Curve, Series, draw, to_png

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"


def band(runs: list[dict], key: str, label: str) -> Series:
    """Median, least and most over the runs, at the updates that all of them reached."""
    curves = [{row["step"]: row for row in run["curve"] if key in row} for run in runs]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    seconds = [statistics.median(curve[step]["train_s"] for curve in curves) for step in steps]
    rates = [[100 * curve[step][key] for curve in curves] for step in steps]
    return Series(
        label, seconds, [statistics.median(r) for r in rates], [min(r) for r in rates], [max(r) for r in rates]
    )


def main() -> None:
    found = {
        mode: json.loads((RESULTS / f"snakes_learning_{mode}.json").read_text()) for mode in ("seconds", "minutes")
    }
    runs = {mode: result["figures"]["runs"] for mode, result in found.items()}
    pictures = {
        "snakes_seconds": [band(runs["seconds"], "eval/win_rate_greedy", "against greedy")],
        "snakes_minutes": [
            band(runs["minutes"], "eval/win_rate_greedy", "against greedy"),
            band(runs["minutes"], "eval/win_rate_hunter", "against hunter"),
        ],
    }
    for name, series in pictures.items():
        curve = Curve(name, "seconds of training", "games won, %", series, smooth=False)
        atomic_write_bytes(HERE / f"{name}.png", to_png(draw(curve)))


if __name__ == "__main__":
    main()
