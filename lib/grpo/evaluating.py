"""A model measured by itself: which tasks, the results as JSON, the table in the terminal, the page."""

from collections.abc import Sequence
from pathlib import Path

from lib.args import config_dict
from lib.errors import UserError
from lib.grpo.continual.evaluations import Evaluation
from lib.grpo.continual.tasks import EVALUATION, HELD_OUT, TRAIN, TaskRow, TaskSets, gather_tasks
from lib.grpo.options import DOMAINS, levels_of, names_of, task_files, templates_of
from lib.grpo.training_report import evaluation_scores, metric_groups, pass_lines, tables
from lib.grpo.trajectory_files import choose_samples, samples_fragment
from lib.report import Table, write_report

ALL = "all"
SAMPLES = 9


def choose_pools(config) -> tuple[dict[str, tuple[TaskRow, ...]], TaskSets]:
    """domain -> the tasks of --split, at most --eval_tasks of each, and the sets that make them. Raises UserError.

    --split: `evaluation` and `train` are what a run of the trainer measures and learns, `held_out` templates that no
    run learns; of a data directory also `all`, and any name of its split file.
    """
    domains = names_of(config.domains)
    wrong = [name for name in domains if name not in DOMAINS]
    if wrong or not domains:
        raise UserError(f"--domains {config.domains}: expected some of {', '.join(DOMAINS)}")
    names = templates_of(config.templates)
    if names and config.split == HELD_OUT:
        raise UserError(f"--templates with --split {HELD_OUT}, which names the templates itself: drop one of them")
    sets = gather_tasks(
        domains, seed=config.seed, levels=levels_of(config.level), tasks_per_domain=config.eval_tasks,
        eval_tasks=config.eval_tasks, held_out_tasks=config.eval_tasks if config.split == HELD_OUT else 0,
        template_names=names, tau2_data=config.tau2_data, task_files=task_files(config),
    )  # fmt: skip
    return {domain: _rows(config, sets, domain) for domain in domains}, sets


def _rows(config, sets: TaskSets, domain: str) -> tuple[TaskRow, ...]:
    by_name = {EVALUATION: sets.evaluation, TRAIN: sets.training, HELD_OUT: sets.held_out}
    tasks = [task for (own, _), task in sets.benchmark.items() if own == domain]
    if config.split in by_name:
        rows = by_name[config.split].get(domain, ())
    else:
        rows = [TaskRow(task.domain, task.id) for task in tasks if config.split in (ALL, task.split)]
    if not rows:
        known = {task.split for task in tasks} - {None} | {ALL} if tasks else {HELD_OUT}
        known = sorted(known | {EVALUATION, TRAIN})
        raise UserError(f"--split {config.split}: {domain} has no task of it; expected one of {', '.join(known)}")
    return tuple(rows[: config.eval_tasks])


def results_of(config, evaluations: dict[str, Evaluation], do_nothing: dict[str, float], speed: dict) -> dict:
    """What --report_json holds. `speed`: sampled_tokens, seconds of the rollout, wall_s, processes."""
    scores = evaluation_scores(evaluations, do_nothing)
    groups = metric_groups(scores, evaluations, None, ())
    successes = [found.success.value for found in evaluations.values()]
    asked = (
        "model",
        "split",
        "level",
        "user",
        "judge",
        "temperature",
        "seed",
        "eval_tasks",
        "eval_trials",
        "tau2_data",
    )
    return {
        **{name: getattr(config, name) for name in asked},
        "domains": list(evaluations),
        "success": sum(successes) / len(successes),
        **scores,
        "basic": groups["basic"],
        "fine_grained": groups["fine_grained"],
        "trials": {domain: {task: list(pair) for task, pair in found.counts.items()}
                   for domain, found in evaluations.items()},
        "rollout_tokens_per_s": speed["sampled_tokens"] / max(speed["seconds"], 1e-9),
        "wall_s": round(speed["wall_s"], 3),
        "processes": speed["processes"],
    }  # fmt: skip


def table_text(results: dict, evaluations: dict[str, Evaluation]) -> str:
    """The result for the terminal."""
    lines = [f"{results['model']}, split {results['split']}, user {results['user']}"]
    lines.append(f"{'':<10}{'tasks':>6}{'trials':>8}{'success':>9}  {'95 % interval':<17}{'does nothing':>12}"
                 f"{'turns':>7}{'cut':>6}{'errors':>8}")  # fmt: skip
    for domain, found in evaluations.items():
        success = found.success
        lines.append(
            f"{domain:<10}{len(found.counts):>6}{found.trials:>8}{success.value:>9.3f}"
            f"  {f'{success.low:.3f} to {success.high:.3f}':<17}{results[f'success_do_nothing_{domain}']:>12.3f}"
            f"{found.turns:>7.1f}{found.truncated:>6}{found.errors:>8}"
        )
    if len(evaluations) > 1:
        lines.append(f"{'mean':<24}{results['success']:>9.3f}")
    lines += pass_lines(results)
    lines.append(
        f"rollout {results['rollout_tokens_per_s']:,.0f} tokens/s on {results['processes']} process(es),"
        f" {results['wall_s']:,.1f} s"
    )
    return "\n".join(lines)


def write_page(
    path: str | Path, config, results: dict, evaluations: dict[str, Evaluation], rows: Sequence[dict]
) -> Path:
    """One self-contained page: tables, and dialogues out of `rows` (`trajectory_files.row_of`). Raises UserError."""
    path = Path(path)
    samples = choose_samples(rows, SAMPLES)
    summary = [("success, mean of the domains", round(results["success"], 3))]
    summary += [(f"pass^{k}", round(value, 3)) for k, value in enumerate(results["pass_hat_k"], start=1)]
    shares = [
        [domain, what, name, trials, successes / trials]
        for domain, found in evaluations.items()
        for what, counts in (("level", found.by_level), ("template", found.by_template))
        for name, (trials, successes) in counts.items()
    ]
    found = tables(results, evaluations, None, f"Evaluation on split {config.split}")
    if shares:
        found.append(Table("By level and template", ["domain", "by", "name", "trials", "success"], shares))
    return write_report(
        path.parent,
        title=f"{config.model} as an agent with tools: {', '.join(evaluations)}",
        summary=summary,
        tables=found,
        curves=[],
        figures=[],
        config=config_dict(config),
        blocks=[("Dialogues", samples_fragment(samples))] if samples else [],
        name=path.name,
    )
