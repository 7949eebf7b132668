"""Draws docs/img/training.png: what one `make train` reached, beside the tables and the Bayes bound.

    python docs/img/draw_training.py [RUN]

RUN is the folder of a finished run on the synthetic set; its curve and figures are kept in training.json beside the
picture. Without RUN the picture is drawn again from that file.
"""

import json
import math
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
DATA = HERE / "training.json"
KEPT = (
    "val_ppl_one_shot", "val_ppl_any_order", "val_ppl_masked", "baseline_unigram_ppl", "baseline_table_ppl",
    "bayes_ppl_one_shot", "bayes_ppl_masked", "bayes_gap_closed", "steps", "processes", "wall_s", "residues_seen",
    "train_residues", "val_residues",
)  # fmt: skip
GROUPS = 120  # points of the training curve
COLOURS = {"training": "#9fb3c8", "any order": "#0072b2", "level": "#555555", "bound": "#d55e00"}


def collect(run: Path) -> dict:
    """Curve and figures of a run; rows with a training loss are averaged in GROUPS groups."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    train = [row for row in rows if "loss" in row]
    width = max(len(train) // GROUPS, 1)
    groups = [train[at : at + width] for at in range(0, len(train), width)]
    curve = [[round(part[-1]["wall_s"], 1), round(sum(r["loss"] for r in part) / len(part), 4)] for part in groups]
    checks = [[round(r["wall_s"], 1), round(r["val_loss_any_order"], 4)] for r in rows if "val_loss_any_order" in r]
    return {
        "command": " ".join(
            Path(word).name if word.startswith("/") else word for word in environment["command"].split()
        ),
        "commit": environment["commit"],
        "devices": sorted({rank["device"] for rank in environment["ranks"]}),
        "results": {key: results[key] for key in KEPT if key in results},
        "training": curve,
        "validation_any_order": checks,
    }


def draw(data: dict, path: Path) -> None:
    results = data["results"]
    figure, axes = plt.subplots(figsize=(8.0, 3.8), layout="constrained", dpi=130)
    seconds, loss = zip(*data["training"])
    axes.plot(seconds, [math.exp(value) for value in loss], color=COLOURS["training"], lw=1.2, label="training")
    if data["validation_any_order"]:
        seconds, loss = zip(*data["validation_any_order"])
        label = "validation, any order"
        axes.plot(
            seconds, [math.exp(value) for value in loss], "o-", color=COLOURS["any order"], ms=4, lw=1.6, label=label
        )
    end = axes.get_xlim()[1]
    axes.plot([end], [results["val_ppl_one_shot"]], "D", color=COLOURS["any order"], ms=6, clip_on=False)
    axes.annotate(
        f"one shot {results['val_ppl_one_shot']:.2f}",
        (end, results["val_ppl_one_shot"]),
        xytext=(8, -3),
        textcoords="offset points",
    )
    levels = [("unigram", "baseline_unigram_ppl", "level"), ("table phi/psi x burial", "baseline_table_ppl", "level")]
    levels += [("Bayes bound, one shot", "bayes_ppl_one_shot", "bound")]
    for label, key, colour in levels:
        axes.axhline(results[key], color=COLOURS[colour], lw=1.0, ls="--")
        axes.annotate(f"{label} {results[key]:.2f}", (0.995, results[key]), xycoords=("axes fraction", "data"),
                      xytext=(0, 3), textcoords="offset points", ha="right", color=COLOURS[colour])  # fmt: skip
    axes.set_yscale("log")
    ticks = [6, 8, 10, 12, 15, 20]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("seconds of the run")
    axes.set_ylabel("perplexity")
    axes.set_title(f"make train: synthetic set, {results['processes']} CPU processes", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper center")
    figure.savefig(path, facecolor="white")


def main() -> None:
    if len(sys.argv) > 1:
        data = collect(Path(sys.argv[1]))
        DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    draw(json.loads(DATA.read_text(encoding="utf-8")), HERE / "training.png")


if __name__ == "__main__":
    main()
