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
COLOURS = {"training": "#9fb3c8", "model": "#0072b2", "level": "#555555", "bound": "#c04f00"}
TICKS = (7, 8, 9, 10, 12, 15, 18)
LEVELS = (
    ("unigram", "baseline_unigram_ppl", "level"),
    ("table phi/psi x burial", "baseline_table_ppl", "level"),
    ("model, one shot", "val_ppl_one_shot", "model"),
    ("Bayes bound, one shot", "bayes_ppl_one_shot", "bound"),
    ("Bayes bound, masked", "bayes_ppl_masked", "bound"),
)


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


def spread(values: list[float], gap: float) -> list[float]:
    """Heights near `values`, in the same order, at least `gap` apart."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    placed = [values[index] for index in order]
    for _ in range(200):
        for low, high in zip(range(len(placed)), range(1, len(placed))):
            short = gap - (placed[high] - placed[low])
            if short > 1e-9:
                placed[low] -= short / 2
                placed[high] += short / 2
    heights = dict(zip(order, placed))
    return [heights[index] for index in range(len(values))]


def draw(data: dict, path: Path) -> None:
    """Perplexity over the seconds of the run; what it is compared with stands as lines and names at the right."""
    results = data["results"]
    figure, axes = plt.subplots(figsize=(8.4, 4.0), layout="constrained", dpi=130)
    seconds, loss = zip(*data["training"])
    axes.plot(seconds, loss, color=COLOURS["training"], lw=1.2, label="training batches")
    if data["validation_any_order"]:
        seconds, loss = zip(*data["validation_any_order"])
        axes.plot(seconds, loss, "o-", color=COLOURS["model"], ms=4, lw=1.6, label="validation, any order")
    end = axes.get_xlim()[1]
    shown = [(label, math.log(results[key]), colour) for label, key, colour in LEVELS if key in results]
    for (label, level, colour), height in zip(shown, spread([level for _, level, _ in shown], 0.052)):
        if colour == "model":
            axes.plot([end], [level], "D", color=COLOURS[colour], ms=5, clip_on=False, zorder=5)
        else:
            axes.axhline(level, color=COLOURS[colour], lw=1.0, ls="--", zorder=0)
        axes.annotate(
            f"{label} {math.exp(level):.2f}", (end, level), xytext=(1.03, height), color=COLOURS[colour], va="center",
            textcoords=axes.get_yaxis_transform(), annotation_clip=False, fontsize=9,
            arrowprops={"arrowstyle": "-", "color": COLOURS[colour], "lw": 0.6, "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip
    axes.set_xlim(0, end)
    axes.set_yticks([math.log(tick) for tick in TICKS], [str(tick) for tick in TICKS])
    axes.set_xlabel("seconds of the run")
    axes.set_ylabel("perplexity")
    axes.set_title(f"make train: synthetic set, {results['processes']} CPU processes", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.93))
    figure.savefig(path, facecolor="white")


def main() -> None:
    if len(sys.argv) > 1:
        data = collect(Path(sys.argv[1]))
        DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    draw(json.loads(DATA.read_text(encoding="utf-8")), HERE / "training.png")


if __name__ == "__main__":
    main()
