"""What a finished run shows: tables in the terminal, report.html with its plots, the model card of the export."""

from pathlib import Path

import numpy as np

from lib.args import config_dict
from lib.files import atomic_write_bytes
from lib.protein.evaluation import CONFIDENCE_BINS, COUNT, TEMPERATURES, Scores, per_amino_acid
from lib.protein.masking import METRICS
from lib.report import Curve, Series, Table, draw, to_png, write_report

METRIC_LABELS = {
    "masked": "model, masked one in seven",
    "any_order": "model, any order",
    "one_shot": "model, one shot (backbone only)",
}
BASELINE_LABELS = {
    "baseline_unigram": "unigram of the training set",
    "baseline_burial": "table: burial",
    "baseline_phi_psi": "table: phi/psi",
    "baseline_table": "table: phi/psi x burial",
}
BAYES_LABELS = {"bayes_ppl_masked": "Bayes bound, masked one in seven", "bayes_ppl_one_shot": "Bayes bound, one shot"}


def plan_notes(config, model, plan: dict, budget, synthetic: bool, processes: int) -> tuple[str, dict[str, str]]:
    """The effective batch in words, and further lines of the announcement, from `plan_counts` of the first epoch."""
    structures, residues = plan["units"] / plan["steps"], plan["residues"] / plan["steps"]
    batch = f"{structures:.1f} structures, {residues:.0f} residues a step"
    batch += f" over {processes} processes x {config.gradient_accumulation_steps} accumulation"
    width = f"hidden {config.hidden_dim}, {config.num_encoder_layers} + {config.num_decoder_layers} layers"
    return batch, {
        "model": f"{sum(p.numel() for p in model.parameters()):,} parameters, {width}, k {config.k_neighbors}",
        "data": ("SYNTHETIC set, " if synthetic else "")
        + f"{plan['units']} distinct training units, {plan['cropped']} cropped, {plan['steps']} steps an epoch",
        "plan": f"{budget.planned_steps} steps, warm-up {budget.warmup:.0%}, {config.lr_schedule}"
        + (", the clock ends it at the latest" if budget.timed else ""),
    }


def result_rows(results: dict) -> list[list]:
    """[what, perplexity, recovery or None] of the model, the baselines and, where known, the optimum."""
    rows = [[label, results[f"{key}_ppl"], results[f"{key}_recovery"]] for key, label in BASELINE_LABELS.items()]
    rows += [
        [METRIC_LABELS[metric], results[f"val_ppl_{metric}"], results[f"val_recovery_{metric}"]]
        for metric in reversed(METRICS)
        if f"val_ppl_{metric}" in results
    ]
    rows += [[label, results[key], None] for key, label in BAYES_LABELS.items() if key in results]
    return rows


def result_table(results: dict) -> str:
    """The result beside its baselines, for the terminal."""
    lines = [f"{'validation, ' + format(results['val_residues'], ',') + ' residues':<36} perplexity  recovery"]
    for label, perplexity, recovery in result_rows(results):
        share = "" if recovery is None else f"{100 * recovery:7.2f} %"
        lines.append(f"{label:<36} {perplexity:10.3f} {share:>9}")
    if "bayes_gap_closed" in results:
        lines.append(
            f"share of the gap from unigram to Bayes closed, one shot: {100 * results['bayes_gap_closed']:.1f} %"
        )
    lines.append(
        f"calibration error {100 * results['calibration_ece']:.2f} %, {100 * results['calibration_ece_fitted']:.2f} % "
        f"at the fitted temperature {results['temperature']:.2f}"
    )
    return "\n".join(lines)


def loss_curves(rows: list[dict], results: dict | None = None) -> list[Curve]:
    """Loss and learning rate from the rows of metrics.jsonl; `results` add the levels of the baselines."""
    train = [row for row in rows if "loss" in row]
    curves = []
    if len(train) > 1:
        width = max(len(train) // 100, 1)
        groups = [train[start : start + width] for start in range(0, len(train), width)]
        loss = Series(
            "training", [g[-1]["step"] for g in groups], [float(np.mean([r["loss"] for r in g])) for g in groups]
        )
        series = [loss]
        for metric in METRICS:
            seen = [row for row in rows if f"val_loss_{metric}" in row]
            if seen:
                label = f"validation, {metric.replace('_', ' ')}"
                series.append(Series(label, [r["step"] for r in seen], [r[f"val_loss_{metric}"] for r in seen]))
        named = {"baseline_unigram_ppl": "unigram", "baseline_table_ppl": "table phi/psi x burial", **BAYES_LABELS}
        known = results or {}
        levels = [(label, float(np.log(known[key]))) for key, label in named.items() if key in known]
        caption = (
            "Cross-entropy of the predicted residues. The horizontal lines are what tables without a network reach."
        )
        curves.append(Curve("Loss", "optimiser step", "nats a residue", series, caption, levels))
        rate = Series("learning rate", [row["step"] for row in train], [row["lr"] for row in train])
        curves.append(Curve("Learning rate", "optimiser step", "learning rate", [rate]))
    return curves


def write_curves(run_path: Path, rows: list[dict]) -> None:
    """The curves so far as plots/*.png, while a run goes on."""
    (run_path / "plots").mkdir(exist_ok=True)
    for curve in loss_curves(rows):
        name = curve.title.lower().replace(" ", "_")
        atomic_write_bytes(run_path / "plots" / f"{name}.png", to_png(draw(curve)))


def _calibration_curve(scores: Scores) -> Curve:
    neutral = int(np.argmin(np.abs(TEMPERATURES - 1.0)))
    histogram = scores.sums["one_shot/confidence"][neutral]
    used = histogram[:, COUNT] > 0
    confidence = histogram[used, 1] / histogram[used, COUNT]
    right = histogram[used, 2] / histogram[used, COUNT]
    diagonal = [0.0, 1.0]
    return Curve(
        "Calibration, one shot",
        "confidence of the most likely type",
        "share that is right",
        [Series("model", confidence.tolist(), right.tolist()), Series("perfectly calibrated", diagonal, diagonal)],
        f"{CONFIDENCE_BINS} equal bins of confidence. Below the diagonal the model is too sure of itself.",
    )


def _amino_acid_figure(scores: Scores, file: Path) -> Path:
    """Bars of recovery by residue type, one-shot beside masked; returns the PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    axes = figure.add_subplot()
    shown = [metric for metric in ("one_shot", "masked") if metric in scores.sums]
    for index, metric in enumerate(shown):
        values = per_amino_acid(scores, metric)
        at = np.arange(len(values)) + 0.4 * (index - 0.5 * (len(shown) - 1))
        axes.bar(at, [100 * v["recovery"] for v in values.values()], 0.4, label=METRIC_LABELS[metric])
    axes.set_xticks(range(len(values)), list(values))
    axes.set_ylabel("recovery, %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(to_png(figure))
    return file


def detail_tables(results: dict, scores: Scores, prefix: str = "val_") -> list[Table]:
    """Result beside baselines, buried and exposed, calibration, and every residue type."""
    rows = [
        [label, round(ppl, 3), None if rec is None else round(100 * rec, 2)] for label, ppl, rec in result_rows(results)
    ]
    own = [index for index, row in enumerate(rows) if row[0].startswith("model")]
    tables = [Table("Validation", ["predictor", "perplexity", "recovery, %"], rows, "", own)]
    sides = []
    for metric in (m for m in METRICS if m in scores.sums):
        for side in ("buried", "exposed"):
            sides.append(
                [METRIC_LABELS[metric], side, round(results[f"{prefix}ppl_{metric}_{side}"], 3),
                 round(100 * results[f"{prefix}recovery_{metric}_{side}"], 2)]
            )  # fmt: skip
    tables.append(
        Table(
            "Buried and exposed",
            ["metric", "residues", "perplexity", "recovery, %"],
            sides,
            "Buried: the more crowded half of the training residues by CB neighbours within 10 angstrom.",
        )
    )
    calibration = []
    for metric in (m for m in METRICS if m in scores.sums):
        shares = (f"ece_{metric}", f"ece_{metric}_fitted", f"recovery_{metric}_median")
        error, fitted, median = (round(100 * results[prefix + key], 2) for key in shares)
        temperature = round(results[f"{prefix}temperature_{metric}"], 2)
        calibration.append([METRIC_LABELS[metric], error, fitted, temperature, median])
    columns = ["metric", "ECE, %", "ECE fitted, %", "temperature", "median recovery of chains, %"]
    tables.append(Table("Calibration", columns, calibration))
    types = per_amino_acid(scores, "one_shot")
    rows = [[k, v["residues"], round(v["ppl"], 2), round(100 * v["recovery"], 1)] for k, v in types.items()]
    tables.append(Table("Residue types, one shot", ["type", "residues", "perplexity", "recovery, %"], rows))
    return tables


def write_run_report(run_path: Path, config, results: dict, scores: Scores, rows: list[dict]) -> Path:
    """report.html and plots of a finished training run; rows of its metrics.jsonl."""
    bars = _amino_acid_figure(scores, run_path / "plots" / "residue_types.png")
    below = 100 * (1 - results["val_ppl_one_shot"] / results["baseline_table_ppl"])
    summary = [
        ("one-shot perplexity", round(results["val_ppl_one_shot"], 3)),
        ("one-shot recovery, %", round(100 * results["val_recovery_one_shot"], 2)),
        ("below the phi/psi x burial table, %", round(below, 1)),
        ("steps", results["steps"]),
        ("residues/s", round(results["residues_per_s"])),
        ("processes", results["processes"]),
    ]  # fmt: skip
    return write_report(
        run_path,
        title="Protein: residues from the backbone" + (" (synthetic set)" if results["synthetic"] else ""),
        summary=summary,
        tables=detail_tables(results, scores),
        curves=[*loss_curves(rows, results), _calibration_curve(scores)],
        figures=[("Recovery by residue type.", bars)],
        config=config_dict(config),
    )


def model_card(config, results: dict, rule: dict) -> str:
    """README.md of the export."""
    data = (
        "the embedded synthetic set (no real proteins)" if results["synthetic"] else f"`{Path(config.pdb_path).name}`"
    )
    rows = "\n".join(
        f"| {label} | {ppl:.3f} | {'' if rec is None else f'{100 * rec:.2f} %'} |"
        for label, ppl, rec in result_rows(results)
    )
    layers = f"{config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder layers"
    errors = f"{100 * results['calibration_ece']:.2f} %; {100 * results['calibration_ece_fitted']:.2f} %"
    return f"""---
library_name: quartet
tags: [protein, inverse-folding, masked-residue-prediction]
---
# Residue types from a protein backbone

Message passing over the {config.k_neighbors} nearest neighbours, hidden width {config.hidden_dim}, {layers}.
Input: N, CA, C, O. Output: 20 logits per residue. The same weights read a structure masked, in any order, or in one
shot.

## Data
Trained on {data}: {results["train_residues"]:,} residues in {results["train_units"]:,} units.
Validated on {results["val_residues"]:,} residues in {results["val_units"]:,} units. Split rule: {rule}.

## Validation
| predictor | perplexity | recovery |
| --- | --- | --- |
{rows}

Expected calibration error {errors} at temperature {results["temperature"]:.2f}, which config.json carries.

## Use and limits
Load with `lib.checkpoint.load_export`; measure with `scripts/evaluate_protein.py`. The model sees backbone atoms only:
no ligands, no nucleic acids, no side chains. It predicts what is likely in nature at a position, not whether a sequence
folds or functions.
"""
