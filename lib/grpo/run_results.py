"""The figures of a run: rows of metrics.jsonl, results.json, metrics.json and the report."""

from collections.abc import Sequence
from pathlib import Path

from lib.files import atomic_write_json
from lib.grpo.continual.curriculum import Curriculum
from lib.grpo.continual.evaluations import Evaluation, do_nothing_success
from lib.grpo.continual.tasks import TaskSets
from lib.grpo.learning.advantages import Advantages
from lib.grpo.progress import Progress
from lib.grpo.training_report import final_scores, metric_groups, model_card, result_table, write_run_report
from lib.grpo.trajectory_files import choose_samples, read_trajectories, write_samples

SAMPLES = 9
__all__ = ["model_card", "result_table", "results_of", "rollout_row", "update_row", "write"]


def rollout_row(outcomes: Sequence[dict], advantages: Advantages) -> dict:
    """Of the episodes of a step, from what all processes gathered."""
    count = len(outcomes)

    def mean(key: str) -> float:
        return sum(float(each[key]) for each in outcomes) / count

    return {
        "reward": mean("reward"),
        "success": mean("success"),
        "zero_std_fraction": advantages.zero_std,
        "all_zero_fraction": advantages.all_zero,
        "all_one_fraction": advantages.all_one,
        "turns": mean("turns"),
        "episode_tokens": mean("tokens"),
        "sampled_tokens": mean("sampled_tokens"),
        "truncated": sum(each["truncated"] for each in outcomes),
        "errors": sum(each["error"] is not None for each in outcomes),
    }


def update_row(figures: dict, norm: float, penalty: float, compared: bool) -> dict:
    """Of an update, in the names of metrics.jsonl; there is a `kl` where samples were compared with a reference."""
    row = {
        "loss": figures["policy_loss"],
        "policy_loss": figures["policy_loss"],
        **({"kl": figures["kl"]} if compared else {}),
        "entropy": figures["entropy"],
        "ratio": figures["ratio"],
        "clip_low_fraction": figures["clipped_low"],
        "clip_high_fraction": figures["clipped_high"],
        "is_weight": figures["is_weight"],
        "logprob_diff_mean": figures["log_prob_difference"],
        "logprob_diff_max": figures["log_prob_difference_max"],
        "grad_norm": norm,
    }
    return row | ({"penalty": penalty} if penalty else {})


def results_of(
    curriculum: Curriculum, sets: TaskSets, progress: Progress, final: dict[str, Evaluation], held_out: dict
) -> dict:
    """results.json, but for what only the trainer knows."""
    nothing = {domain: do_nothing_success(rows, sets.make) for domain, rows in sets.evaluation.items()}
    results = final_scores(
        progress.matrix, final, curriculum.learnt, progress.rows, held_out=held_out or None, do_nothing=nothing
    )
    before, after = progress.matrix[0], progress.matrix[-1]
    return results | {
        "success_before": sum(before) / len(before),
        "success_after": sum(after) / len(after),
        **progress.means(),
        "logprob_diff_max": progress.logprob_diff_max,
        "steps": progress.step,
        "episodes": progress.episodes,
    }


def write(run: Path, config, results: dict, final: dict[str, Evaluation], held_out: dict, rows: Sequence[dict]) -> None:
    """results.json, metrics.json, samples.html, report.html; `rows` of metrics.jsonl. On the main process only."""
    for path in filter(None, (run / "results.json", config.report_json)):
        atomic_write_json(path, results)
    atomic_write_json(run / "metrics.json", metric_groups(results, final, held_out or None, rows))
    if not config.visualize:
        return
    samples = choose_samples(read_trajectories(run), SAMPLES)
    if samples:
        write_samples(run / "samples.html", samples, f"Dialogues of {run.name}")
    write_run_report(run, config, results, final, rows, samples, held_out or None)
