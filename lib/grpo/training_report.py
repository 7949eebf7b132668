"""What a run of the trainer shows at its end: results, the table in the terminal, report.html, the model card."""

import re
from collections.abc import Sequence
from pathlib import Path

from lib.args import config_dict
from lib.files import atomic_write_bytes
from lib.grpo.continual import scores
from lib.grpo.continual.curriculum import WARM_START
from lib.grpo.continual.evaluations import Evaluation, pooled_counts
from lib.grpo.trajectory_files import samples_fragment
from lib.report import INK, Curve, Series, Table, to_png, write_report

# Keys of rows in metrics.jsonl that are drawn where a run has them: title, label of the axis, key -> label.
CURVES = (
    ("Reward of the training episodes", "mean over a step", {"reward": "reward", "success": "success"}),
    ("Loss", "loss", {"loss": "loss"}),
    ("KL to the reference", "nats a token (k3)", {"kl": "KL"}),
    ("Entropy of the policy", "nats a token", {"entropy": "entropy"}),
    ("Groups without contrast", "share of the groups",
     {"zero_std_fraction": "all equal", "all_zero_fraction": "all failed", "all_one_fraction": "all succeeded"}),
    ("Clipped tokens", "share of the sampled tokens", {"clip_low_fraction": "below", "clip_high_fraction": "above"}),
    ("Length of an episode", "tokens", {"episode_tokens": "all", "sampled_tokens": "sampled"}),
    ("Speed", "tokens/s", {"rollout_tokens_per_s": "rollout", "train_tokens_per_s": "training"}),
)  # fmt: skip
EVAL_KEY = "eval/success_"


def final_scores(
    matrix: scores.Matrix,
    evaluations: dict[str, Evaluation],
    learnt: Sequence[int],
    row_names: Sequence[str],
    *,
    held_out: dict[str, Evaluation] | None = None,
    do_nothing: dict[str, float] | None = None,
    joint: Sequence[float] | None = None,
) -> dict:
    """The keys of results.json that come from evaluations; `evaluations` are those after the last stage.

    `matrix` is R with a name for each row; `joint` the last row of a joint run; `do_nothing` the success of an agent
    that does nothing, domain -> share. pass_hat_k and pass_at_k are lists, k = 1 first, over the tasks of all domains.
    """
    assert len(row_names) == len(matrix), f"{len(matrix)} rows and the names {row_names}"
    results = {**scores.continual_scores(matrix, list(evaluations), learnt, joint), "stages": list(row_names)}
    results |= evaluation_scores(evaluations, do_nothing)
    for domain, found in (held_out or {}).items():
        results |= _success_keys(f"success_held_out_{domain}", found)
    return results


def evaluation_scores(evaluations: dict[str, Evaluation], do_nothing: dict[str, float] | None = None) -> dict:
    """The keys of results.json that need nothing but an evaluation; see `final_scores`."""
    results = {}
    table = scores.pass_table(pooled_counts(evaluations))
    for name, column in (("pass_hat_k", 1), ("pass_at_k", 2)):
        intervals = [row[column] for row in table]
        results[name] = [interval.value for interval in intervals]
        results[f"{name}_low"] = [interval.low for interval in intervals]
        results[f"{name}_high"] = [interval.high for interval in intervals]
    for domain, found in evaluations.items():
        results |= _success_keys(f"success_{domain}", found)
    return results | {f"success_do_nothing_{domain}": value for domain, value in (do_nothing or {}).items()}


def _success_keys(name: str, found: Evaluation) -> dict[str, float]:
    return {name: found.success.value, f"{name}_low": found.success.low, f"{name}_high": found.success.high}


def learning_efficiency(rows: Sequence[dict], thresholds: Sequence[float] = (0.5, 0.8)) -> dict:
    """Measures of how fast a run learns, from rows of metrics.jsonl with `stage`, `episodes` and eval/success_<domain>.

    aulc: stage -> domain -> mean of the evaluations during the stage; samples_to: domain -> threshold -> episodes.
    """
    tests = [row for row in rows if any(key.startswith(EVAL_KEY) for key in row)]
    names = list(dict.fromkeys(key for row in tests for key in row if key.startswith(EVAL_KEY)))
    aulc: dict[str, dict[str, float | None]] = {}
    for stage in dict.fromkeys(row.get("stage") for row in tests):
        inside = [row for row in tests if row.get("stage") == stage]
        aulc[str(stage)] = {
            name.removeprefix(EVAL_KEY): scores.area_under_curve([row[name] for row in inside if name in row])
            for name in names
        }
    samples = {}
    for name in names:
        curve = [(row["episodes"], row[name]) for row in tests if name in row and "episodes" in row]
        samples[name.removeprefix(EVAL_KEY)] = {
            f"{threshold:g}": scores.samples_to_threshold(curve, threshold) for threshold in thresholds
        }
    return {"aulc": aulc, "samples_to": samples}


def metric_groups(
    results: dict, evaluations: dict[str, Evaluation], held_out: dict[str, Evaluation] | None, rows: Sequence[dict]
) -> dict:
    """metrics.json: the originals' five groups, from `final_scores`, the last evaluations and the rows of a run."""
    continual = ("acc", "bwt", "fwt", "forgetting", "intransigence", "matrix", "domains", "learnt", "stages")
    basic = {
        domain: {
            "success": found.success.value,
            "success_low": found.success.low,
            "success_high": found.success.high,
            "tasks": len(found.counts),
            "trials": found.trials,
            "reward": found.reward,
            "turns": found.turns,
            "sampled_tokens": found.sampled_tokens,
            "good_ends": found.good_ends,
            "truncated": found.truncated,
            "errors": found.errors,
            "success_do_nothing": results.get(f"success_do_nothing_{domain}"),
        }
        for domain, found in evaluations.items()
    }
    forgotten = {key: value for key, value in results.items() if key.startswith(("forgetting_", "intransigence_"))}
    return {
        "basic": basic,
        "continual_learning": {**{key: results[key] for key in continual if key in results}, **forgotten},
        "learning_efficiency": learning_efficiency(rows),
        "generalization": {
            domain: {
                "success_held_out": found.success.value,
                "success_held_out_low": found.success.low,
                "success_held_out_high": found.success.high,
                "gap": evaluations[domain].success.value - found.success.value,
            }
            for domain, found in (held_out or {}).items()
        },
        "fine_grained": {
            domain: {
                "tools": {
                    name: {"gold": tool.gold, "selection": tool.selection, "arguments": tool.arguments}
                    for name, tool in scores.tool_accuracy(found.tools).items()
                },
                "success_by_level": _shares(found.by_level),
                "success_by_template": _shares(found.by_template),
            }
            for domain, found in evaluations.items()
        },
    }


def _shares(counts: dict[str, list[int]]) -> dict[str, float]:
    return {name: successes / trials for name, (trials, successes) in counts.items()}


def result_table(results: dict) -> str:
    """The result for the terminal: R with its measures, pass^k, speed."""
    domains, names = results["domains"], results["stages"]
    width = max(len(name) for name in [*names, "forgotten", "does nothing"]) + 2
    lines = [f"{'success after':<{width}}" + "".join(f"{domain:>10}" for domain in [*domains, "mean"])]
    for name, row in zip(names, results["matrix"], strict=True):
        lines.append(f"{name:<{width}}" + "".join(f"{value:10.3f}" for value in [*row, sum(row) / len(row)]))
    forgotten = [results[f"forgetting_{domain}"] for domain in domains]
    lines.append(f"{'forgotten':<{width}}" + "".join(f"{value:10.3f}" for value in forgotten))
    nothing = [results.get(f"success_do_nothing_{domain}") for domain in domains]
    if None not in nothing:
        lines.append(f"{'does nothing':<{width}}" + "".join(f"{value:10.3f}" for value in nothing))
    measures = [(name, results.get(name.lower())) for name in ("ACC", "BWT", "FWT", "forgetting", "intransigence")]
    lines.append("  ".join(f"{name} {_signed(value)}" for name, value in measures if value is not None))
    lines += pass_lines(results)
    if "seconds_per_step" in results:
        lines.append(
            f"rollout {results['rollout_tokens_per_s']:,.0f} tokens/s, training"
            f" {results['train_tokens_per_s']:,.0f} tokens/s, {results['seconds_per_step']:.2f} s a step,"
            f" {results['processes']} processes, {results['wall_s']:,.0f} s"
        )
    return "\n".join(lines)


def pass_lines(results: dict) -> list[str]:
    """pass^k with its intervals, three a line."""
    spans = zip(results["pass_hat_k"], results["pass_hat_k_low"], results["pass_hat_k_high"], strict=True)
    passes = [f"pass^{k} {value:.3f} ({low:.3f} to {high:.3f})" for k, (value, low, high) in enumerate(spans, start=1)]
    return ["  ".join(passes[place : place + 3]) for place in range(0, len(passes), 3)]


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def curves(rows: Sequence[dict]) -> list[Curve]:
    """Success on every domain and what training logs, from the rows of metrics.jsonl; the warm start's loss apart."""
    parts: dict[bool, list[dict]] = {True: [], False: []}
    for row in rows:
        parts["loss" in row and str(row.get("stage")).endswith(WARM_START)].append(row)
    warm, rows = parts[True], parts[False]
    marks = stage_marks(rows)
    found = []
    tests = [row for row in rows if any(key.startswith(EVAL_KEY) for key in row)]
    if tests:
        names = list(dict.fromkeys(key for row in tests for key in row if key.startswith(EVAL_KEY)))
        series = [_series(tests, name, name.removeprefix(EVAL_KEY)) for name in names]
        found.append(Curve("Success", "step", "share of the evaluation trials", series, smooth=False, marks=marks))
    for title, label, keys in CURVES:
        known = [key for key in keys if sum(key in row for row in rows) > 1]
        if known == ["reward", "success"] and all(row.get("reward") == row.get("success") for row in rows):
            known = ["success"]
        if known:
            found.append(Curve(title, "step", label, [_series(rows, key, keys[key]) for key in known], marks=marks))
    if len(warm) > 1:
        found.append(Curve("Loss of the warm start", "step", "nats a token", [_series(warm, "loss", "loss")]))
    return found


def stage_marks(rows: Sequence[dict]) -> list[tuple[str, float]]:
    """Where each stage of training begins (name, step before its first), where there are several."""
    first: dict[str, int] = {}
    for row in rows:
        if "loss" in row and "stage" in row:
            first.setdefault(re.sub(r"^stage_\d+_", "", str(row["stage"])), row["step"] - 1)
    return list(first.items()) if len(first) > 1 else []


def _series(rows: Sequence[dict], key: str, label: str) -> Series:
    seen = [row for row in rows if row.get(key) is not None]
    return Series(label, [row["step"] for row in seen], [float(row[key]) for row in seen])


def write_matrix(file: Path, results: dict) -> Path:
    """R as a heat map: a row for each stage, a column for each domain; the stage that learns a domain is framed."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    matrix, domains, names = results["matrix"], results["domains"], results["stages"]
    figure = Figure(figsize=(2.4 + 1.2 * len(domains), 1.2 + 0.55 * len(matrix)), layout="constrained")
    axes = figure.add_subplot()
    picture = axes.imshow(matrix, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            # The lower part of viridis is dark.
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value < 0.6 else INK)
    for j, learnt in enumerate(results["learnt"]):
        if learnt < len(matrix):
            axes.add_patch(Rectangle((j - 0.48, learnt - 0.46), 0.96, 0.92, fill=False, edgecolor="white", linewidth=2))
    axes.set_xticks(range(len(domains)), domains)
    axes.set_yticks(range(len(names)), names)
    axes.spines[:].set_visible(False)
    figure.colorbar(picture, ax=axes, label="success")
    atomic_write_bytes(file, to_png(figure))
    return file


def matrix_table(results: dict) -> Table:
    """The success matrix: a row for each stage, what the model could do before among them."""
    rows = [[stage, *row] for stage, row in zip(results["stages"], results["matrix"], strict=True)]
    return Table("Success after each stage", ["stage", *results["domains"]], rows)


def tables(
    results: dict, evaluations: dict[str, Evaluation], held_out: dict[str, Evaluation] | None,
    title: str = "Evaluation after the last stage",
) -> list[Table]:  # fmt: skip
    """Success with intervals, pass^k and pass@k, and the accuracy of every tool."""
    rows = []
    for what, found in (("", evaluations), (", held-out templates", held_out or {})):
        for domain, one in found.items():
            interval, nothing = one.success, results.get(f"success_do_nothing_{domain}") if not what else None
            rows.append([domain + what, len(one.counts), one.trials, interval.value, _range(interval), nothing,
                         one.turns, one.errors])  # fmt: skip
    columns = ["tasks", "number", "trials", "success", "95 % interval", "does nothing", "turns", "errors"]
    found = [Table(title, columns, rows, "Intervals: bootstrap over tasks.")]
    passes = scores.pass_table(pooled_counts(evaluations))
    if passes:
        cells = [[k, hat.value, _range(hat), at.value, _range(at)] for k, hat, at in passes]
        columns = ["k", "pass^k", "95 % interval", "pass@k", "95 % interval"]
        caption = "pass^k: all of k trials of a task succeed; pass@k: at least one does. Tasks of all domains."
        found.append(Table("Repeated trials", columns, cells, caption))
    tools = [
        [domain, name, tool.gold, tool.selection, tool.arguments]
        for domain, one in evaluations.items()
        for name, tool in scores.tool_accuracy(one.tools).items()
    ]
    if tools:
        columns = ["domain", "tool", "gold calls", "made", "of these with the right arguments"]
        found.append(Table("Tools", columns, tools, "Calls of the gold solution that the agent made, in all trials."))
    return found


def _range(interval: scores.Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"


def write_run_report(
    run: Path,
    config,
    results: dict,
    evaluations: dict[str, Evaluation],
    rows: Sequence[dict],
    samples: Sequence[dict],
    held_out: dict[str, Evaluation] | None = None,
) -> Path:
    """report.html and plots of a finished run; `rows` of its metrics.jsonl, `samples` rows of its trajectories."""
    measures = {
        "success before": "success_before",
        "success after": "success_after",
        "backward transfer": "bwt",
        "forward transfer": "fwt",
        "forgetting": "forgetting",
    }
    summary = [(label, round(results[key], 3)) for label, key in measures.items() if results[key] is not None]
    summary += [
        ("rollout tokens/s", round(results["rollout_tokens_per_s"])),
        ("seconds a step", round(results["seconds_per_step"], 2)),
        ("processes", results["processes"]),
    ]
    matrix = write_matrix(run / "plots" / "matrix.png", results)
    blocks = [("Dialogues of the last steps", samples_fragment(samples))] if samples else []
    return write_report(
        run,
        title="GRPO of an agent with tools: " + ", ".join(results["domains"]),
        summary=summary,
        tables=[matrix_table(results), *tables(results, evaluations, held_out)],
        curves=curves(rows),
        figures=[("Success on each domain after each stage; framed: the stage that learns the domain.", matrix)],
        config=config_dict(config),
        blocks=blocks,
    )


def model_card(config, results: dict) -> str:
    """README.md of the export. `config` has `model`, `loss`, `group_size`, `beta`, `learning_rate` and `cl`."""
    domains = results["domains"]
    before, after = results["matrix"][0], results["matrix"][-1]
    lines = "\n".join(
        f"| {domain} | {first:.3f} | {last:.3f} | {results[f'success_{domain}_low']:.3f} to"
        f" {results[f'success_{domain}_high']:.3f} |"
        for domain, first, last in zip(domains, before, after, strict=True)
    )
    return f"""---
library_name: transformers
tags: [reinforcement-learning, grpo, tool-use, customer-service]
---
# An agent with tools for {", ".join(domains)}

Trained from `{config.model}` by GRPO (loss `{config.loss}`, {config.group_size} samples a task, beta {config.beta:g},
learning rate {config.learning_rate:g}) over {" -> ".join(results["stages"])}, against forgetting: `{config.cl}`.

| domain | success before | after | 95 % interval |
| --- | --- | --- | --- |
{lines}

Backward transfer {_or_none(results["bwt"])}, forward transfer {_or_none(results["fwt"])}, forgetting
{_or_none(results["forgetting"])}. pass^k over the tasks of all domains, k = 1 first:
{", ".join(f"{value:.3f}" for value in results["pass_hat_k"])}.

Load with `transformers` from this directory; measure with `scripts/evaluate_grpo.py`, talk to it with
`scripts/chat_grpo.py`. Measured on the tasks of this run with their simulated user: real customers write otherwise.
"""


def _or_none(value: float | None) -> str:
    return "not defined" if value is None else _signed(value)
