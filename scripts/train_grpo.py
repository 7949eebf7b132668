"""Train a tool-calling agent by GRPO over service domains in turn, and measure what it learns and what it forgets.

CPU demo:    make train-grpo
One GPU:     accelerate launch --config_file accelerate_configs/gpu_1.yaml scripts/train_grpo.py --lora r=16 ...
8 GPUs:      accelerate launch --config_file accelerate_configs/gpu_8.yaml scripts/train_grpo.py --group-size 8 ...
Many nodes:  sbatch slurm/many_nodes.sbatch, see docs/launching.md
Resume:      add --resume auto
"""

import copy
import sys
import time
from dataclasses import dataclass, field
from functools import partial

import torch
from accelerate import Accelerator

from lib import launch
from lib.checkpoint import (
    RunDirectory,
    StopSignals,
    atomic_write_json,
    find_checkpoint,
    load_checkpoint,
    load_common,
    on_main,
    save_checkpoint,
    save_export,
)
from lib.distributed import assert_equal_across_ranks, global_sums, state_hash
from lib.divided import divided_like
from lib.grpo import run_results, run_setup
from lib.grpo.continual import curriculum as plans
from lib.grpo.continual import evaluations as measured
from lib.grpo.continual.methods import Method, copy_of, load_weights
from lib.grpo.continual.scores import mean_forgetting
from lib.grpo.continual.tasks import TaskSets, dropped_note
from lib.grpo.dry_run import dry_run_text
from lib.grpo.engine import make_engine
from lib.grpo.learner import Learner
from lib.grpo.learning.losses import Objective
from lib.grpo.learning.policy import Policy, layer_classes, verify_model
from lib.grpo.learning.warm_start import Demonstrations, copying_examples, parse_warm_start
from lib.grpo.models import merged
from lib.grpo.options import ALIASES, GrpoOptions, check_options
from lib.grpo.progress import Progress, drop_evaluations
from lib.grpo.rollouts import Played, Roller, error_text
from lib.grpo.trajectory_files import drop_after, row_of, write_trajectories
from lib.rank_files import under_prefix, with_prefix
from lib.ranks import Ranks
from lib.runlog import RunLog, read_metrics, tracker_kinds
from lib.sharding import divide_by_layers, is_divided, keeps_layers, whole_on_main

TRAINER = "grpo"
SFT = Objective(kind="sft")


@dataclass
class Session:
    """What the steps below share."""

    acc: Accelerator
    run: RunDirectory
    config: GrpoOptions
    learner: Learner
    roller: Roller
    setup: run_setup.Setup
    curriculum: plans.Curriculum
    sets: TaskSets
    method: Method
    progress: Progress
    signals: StopSignals
    reference: dict | None = None  # the weights that GRPO began with, where there is a KL term
    log: RunLog | None = None
    saved: dict = field(default_factory=dict)  # the progress of the newest checkpoint
    cut_short: bool = False  # a limit ended the run inside a stage: what follows is for the report, and not saved

    @property
    def share(self) -> tuple[int, int]:
        return self.acc.process_index, self.acc.num_processes


def main(config: GrpoOptions) -> None:
    tracker_kinds(config.report_to)
    auto = "auto" if torch.cuda.is_available() and config.device != "cpu" else None
    precision = auto if config.dtype == "auto" else config.dtype
    acc = launch.start(config, precision=precision, sharding=True)
    notes = check_options(config, acc.num_processes)
    if is_divided(acc):
        run_setup.check_divided(config)
    if config.dry_run:
        sharding = "zero2" if keeps_layers(acc) else "fsdp2" if is_divided(acc) else "none"
        acc.print(dry_run_text(config, config.num_gpus or acc.num_processes, sharding))
        return
    curriculum, sets = run_setup.plan(config)
    setup = run_setup.prepare(config, acc.device)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    dropped = sets.dropped(sets.evaluation) if config.judge == "none" else {}
    for note in (*notes, *setup.chat.notes, *sets.notes, *map(dropped_note, dropped.items())):
        run.note(acc, note)
    session = prepare(acc, run, config, setup, curriculum, sets)
    batch, facts = run_setup.announcement(config, setup.model, curriculum, sets, acc.num_processes)
    launch.announce(
        acc, config, trainer=TRAINER, effective_batch=batch, learning_rate=config.learning_rate, notes=facts
    )
    found = find_checkpoint(acc, run, config.resume)
    # Before anything of a run that is continued is touched.
    on_main(acc, lambda: run_setup.fix_tasks(run.path, curriculum, sets, found is not None))
    if found is not None:
        restore(session, found)
    if acc.is_main_process:
        atomic_write_json(run.path / "curriculum.json", curriculum.to_json())
    planned = run_setup.planned_steps(config, curriculum)
    with session.signals, RunLog(acc, run, config, planned, "tokens") as session.log:
        done = learn(session)
        results = finish(session) if done else None
        if results is None:
            name = session.signals.name or "a signal"
            session.log.note(f"stopped by {name} after step {session.progress.saved_step}: continue with --resume auto")
    if acc.is_main_process and results is not None:
        print(f"{run_results.result_table(results)}\nresults.json, report.html and export/ are in {run.path}")
        print("Training completed!", flush=True)
    run.close()


def prepare(acc, run, config, setup, curriculum, sets) -> Session:
    """Policy, optimiser and engine over the same weights; equal on every rank."""
    policy = Policy(setup.model)
    verify_model(setup.model)
    half = torch.bfloat16 if acc.mixed_precision == "bf16" else None
    played = setup.model
    if is_divided(acc):
        divide_by_layers(acc, layer_classes(setup.model))
        # On the way to its parts the model waits on the CPU: a device never holds it and the copy whole at once.
        setup.model.to("cpu")
        played = copy.deepcopy(setup.model).to(half or torch.float32).to(acc.device).requires_grad_(False)
    # Before the wrapper: the engine may lay the weights out in its own way.
    engine = make_engine(config.engine, played, setup.sampling, config.slots, dtype=half)
    if config.gradient_checkpointing:
        setup.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    weights = [value for value in policy.parameters() if value.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=config.weight_decay)
    assert_equal_across_ranks(acc, state_hash(policy), "initial weights")
    policy, optimiser = acc.prepare(policy, optimiser)
    ranks, progress, signals = Ranks(acc), Progress(), StopSignals()
    learner = Learner(ranks, policy, optimiser, config, progress)
    trained = acc.unwrap_model(policy).model
    roller = Roller(ranks, engine, trained, played, setup, sets, progress, lambda: signals.requested)
    method = run_setup.method_of(config, curriculum)
    return Session(acc, run, config, learner, roller, setup, curriculum, sets, method, progress, signals)


def learn(session: Session) -> bool:
    """Stage after stage; False when a signal ended it (the state is saved)."""
    progress, stages = session.progress, session.curriculum.stages
    while progress.cursor.stage < len(stages):
        stage = stages[progress.cursor.stage]
        if spent(session):
            return cut_short(session, stage)
        if stage.kind == plans.GRPO and not progress.matrix and not open_matrix(session):
            return False
        go_on = warm_up(session, stage) if stage.kind == plans.WARM_START else improve(session, stage)
        if not go_on:
            return False
        passive = stage.kind == plans.GRPO and not session.config.use_grpo
        if (passive or progress.cursor.steps_left(stage) == 0) and not close_stage(session, stage):
            return False
    return progress.matrix != [] or open_matrix(session)


def cut_short(session: Session, stage: plans.Stage) -> bool:
    """A limit ends the run: the state is saved as it is, to go on from, and measured. False when a signal came."""
    progress = session.progress
    save(session)
    session.cut_short = True
    if not progress.matrix and not open_matrix(session):
        return False
    if stage.kind == plans.GRPO and progress.cursor.step:
        found = evaluate(session, stage.name, final=True)
        if found is None:
            return False
        add_row(session, stage.number, stage.name, found)
    return True


def spent(session: Session) -> bool:
    """Whether a limit of the whole run is reached, by the main process's clock."""
    config, progress = session.config, session.progress
    if config.eval_only or (config.max_steps is not None and progress.step >= config.max_steps):
        return True
    if config.max_minutes is None:
        return False
    late = session.acc.is_main_process and session.log.wall_s() > 60 * config.max_minutes
    return bool(global_sums(session.acc, {"late": float(late)})["late"])


def warm_up(session: Session, stage: plans.Stage) -> bool:
    """Copying exercises, then demonstrations. False when a signal came."""
    config, progress, sets = session.config, session.progress, session.sets
    demonstrations = Demonstrations(
        run_setup.demonstrated(config, sets), sets.make, partial(session.setup.environment, judged=False),
        session.setup.chat,
        config.warmstart_noise, config.seed, config.user == "none",
    )  # fmt: skip
    steps, copying = parse_warm_start(config.warmstart), config.copying_steps
    while progress.cursor.steps_left(stage) > 0 and not spent(session):
        at, start = progress.cursor.step, time.monotonic()
        if at < copying:
            samples = copying_examples(len(session.setup.chat.tokenizer), config.seed, at, copying, session.share)
            left = 1.0
        else:
            samples = demonstrations.of_step(at - copying, config.warmstart_dialogues, session.share)
            left = max(0.05, 1 - (at - copying) / steps)
        rate = config.warmstart_lr * min(1.0, (at + 1) / 20) * left
        figures = session.learner.update([(samples, SFT)], rate)
        tokens = global_sums(session.acc, {"tokens": sum(len(sample.trajectory.ids) for sample in samples)})["tokens"]
        session.log.add_units(int(tokens))
        row = {"loss": figures["policy_loss"], "lr": rate, "stage": stage.name, "grad_norm": figures["grad_norm"]}
        if not end_step(session, stage, row, time.monotonic() - start):
            return False
    return True


def improve(session: Session, stage: plans.Stage) -> bool:
    """GRPO on the stage's domains: roll out, compare, learn. False when a signal came."""
    config, progress, method = session.config, session.progress, session.method
    if not progress.began:
        method.begin(session.learner.parameters)
        session.reference = copy_of(session.learner.parameters) if config.beta else None
        progress.began = True
    if evaluation_is_due(session, stage) and evaluate(session, stage.name) is None:
        return save(session)
    old = {domain: session.sets.training[domain] for domain in session.curriculum.earlier(stage)}
    count = config.prompts_per_step
    old_count = plans.old_tasks(count, method.old_share) if old else 0
    new = {domain: session.sets.training[domain] for domain in stage.domains}
    tasks = plans.StepTasks(stage, config.seed, count, new, method.old_rows(old) if old_count else None, old_count)
    rate = launch.scaled_learning_rate(config.learning_rate, config.lr_scale, session.acc.num_processes, 1)
    while config.use_grpo and progress.cursor.steps_left(stage) > 0 and not spent(session):
        start, step = time.monotonic(), progress.cursor.step
        played = session.roller.step(tasks, step, ("train", stage.name, step))
        if played is None:
            return save(session)
        record(session, played)
        figures = session.learner.teach(
            played.own, played.advantages, stage.domains, method, session.reference, rate
        )  # fmt: skip
        method.record(played.outcomes, progress.step)
        if not end_step(session, stage, played.row | figures, time.monotonic() - start):
            return False
    return True


def record(session: Session, played: Played) -> None:
    """Count the episodes of a step, say what went wrong in them, keep some as text."""
    say_errors(session, played.outcomes)
    session.log.add_units(sum(each["tokens"] for each in played.outcomes))
    session.progress.episodes += len(played.outcomes)
    if session.acc.is_main_process and session.config.log_completions:
        step, decode = session.progress.step + 1, session.setup.chat.tokenizer.decode
        rows = [row_of(each, step, decode) for each in played.own[: session.config.log_completions]]
        write_trajectories(session.run.path, step, rows)


def say_errors(session: Session, outcomes: list[dict]) -> None:
    text = error_text(outcomes)
    if text:
        session.log.note(text)


def evaluation_is_due(session: Session, stage: plans.Stage) -> bool:
    """Whether --eval_every asks for one here, inside a stage, that has not been made."""
    cursor, every = session.progress.cursor, session.config.eval_every or 0
    if not every or stage.kind != plans.GRPO or not cursor.step or cursor.step % every or not cursor.steps_left(stage):
        return False
    return [session.progress.step, stage.name] not in session.progress.evaluated


def end_step(session: Session, stage: plans.Stage, row: dict, seconds: float) -> bool:
    """Count, log, evaluate and save as due. False when a signal came (the state is saved)."""
    config, progress = session.config, session.progress
    progress.step += 1
    progress.cursor.step += 1
    progress.note_step(stage, row, seconds)
    session.log.log(
        progress.step, row | {"stage": stage.name, "episodes": progress.episodes, "step_s": round(seconds, 3)}
    )
    stop = session.signals.agreed(session.acc)
    last = progress.cursor.steps_left(stage) == 0
    if not stop and evaluation_is_due(session, stage):
        stop = evaluate(session, stage.name) is None
    saves = 50 if config.save_every is None else config.save_every
    if stop or (saves and progress.step % saves == 0 and not last):
        save(session)
    return not stop


def close_stage(session: Session, stage: plans.Stage) -> bool:
    """What is done at the end of a stage: the method's part, a row of the matrix, the gate, a checkpoint."""
    progress, method = session.progress, session.method
    if stage.kind == plans.WARM_START:
        progress.cursor.leave(session.curriculum, None)
        return open_matrix(session) and (save(session) or True)
    parameters, gate, found = session.learner.parameters, session.curriculum.gate, None
    # What a method does at the end of a stage is done once, also when the evaluation after it is interrupted.
    if progress.closed < stage.number:
        if gate.max_repeats:
            found = evaluate(session, stage.name, final=True)
            if found is None:
                return save(session)
            success = sum(found[domain].success.value for domain in stage.domains) / len(stage.domains)
            if gate.repeats(progress.cursor.repeats, success):
                progress.cursor.leave(session.curriculum, success)
                session.log.note(f"{stage.name} reached {success:.3f} and is repeated")
                return True
        fisher = measure_fisher(session, stage) if method.fisher_samples else None
        if method.fisher_samples and fisher is None:
            return save(session)
        method.on_stage_end(stage.domains, parameters, fisher)
        if method.weights_to_evaluate() is not None:
            load_weights(parameters, method.weights_to_evaluate())
            found = None
        progress.closed = stage.number
    found = found or evaluate(session, stage.name, final=True)
    if found is None:
        return save(session)
    add_row(session, stage.number, stage.name, found)
    method.on_evaluated(
        mean_forgetting(progress.matrix, session.curriculum.learnt) if len(progress.matrix) > 2 else None
    )
    if method.weights_to_start() is not None and progress.cursor.stage + 1 < len(session.curriculum.stages):
        load_weights(parameters, method.weights_to_start())
    progress.cursor.leave(session.curriculum, None)
    save(session)
    return True


def open_matrix(session: Session) -> bool:
    """Row 0: what the model can do before GRPO. False when a signal came."""
    name = "warm start" if session.progress.step else "start"
    found = evaluate(session, name, final=True)
    if found is None:
        return save(session)
    add_row(session, 0, name, found)
    return True


def add_row(session: Session, number: int, name: str, found: dict) -> None:
    """A row of the success matrix, and its files."""
    progress = session.progress
    progress.matrix.append([found[domain].success.value for domain in session.curriculum.domains])
    progress.rows.append(name)
    progress.last = {domain: each.to_json() for domain, each in found.items()}
    if session.acc.is_main_process:
        measured.write_stage(session.run.path, number, found, progress.matrix, session.curriculum.learnt)


def evaluate(session: Session, stage: str, final: bool = False, held_out: bool = False) -> dict | None:
    """domain -> Evaluation, every domain on the same tasks and seeds each time; None when a signal came."""
    config, progress = session.config, session.progress
    pools = session.sets.held_out if held_out else session.sets.evaluation
    with session.log.paused():
        name = "held out" if held_out else "tasks"
        played = session.roller.evaluate(pools, config.eval_trials if final else 1, name)
    if played is None:
        return None
    say_errors(session, played.outcomes)
    evaluations = measured.evaluations_of(played.outcomes, pools)
    if not held_out:
        values = {f"eval/success_{domain}": each.success.value for domain, each in evaluations.items()}
        values["eval/success"] = sum(values.values()) / len(values)
        progress.evaluated.append([progress.step, stage])
        session.log.log(progress.step, values | {"stage": stage, "episodes": progress.episodes}, progress=False)
    return evaluations


def measure_fisher(session: Session, stage: plans.Stage) -> dict | None:
    """Mean squared policy gradients of episodes of the stage's tasks, over all processes; None when a signal came."""
    pools = [row for domain in stage.domains for row in session.sets.training[domain]]
    rows = [(number, pools[number % len(pools)]) for number in range(session.method.fisher_samples)]
    session.roller.refresh()
    played = session.roller.play(rows, 1, ("fisher", stage.name))
    return None if played is None else session.learner.squared_gradients(played.own)


def save(session: Session) -> bool:
    """The whole state; False, for a caller that stops after it."""
    acc, progress = session.acc, session.progress
    tensors, data = session.method.state()
    if session.config.save_every != 0 and not session.cut_short and session.saved != progress.to_dict():
        common = with_prefix("method", tensors) | with_prefix("reference", session.reference or {})
        progress.saved_step = progress.step
        with session.log.paused():
            save_checkpoint(
                acc, session.run, progress.step, model=session.learner.policy, optimizer=session.learner.optimiser,
                state={"progress": progress.to_dict(), "method": data}, keep=session.config.keep_checkpoints,
                common=whole_on_main(acc, common),
            )  # fmt: skip
        session.saved = progress.to_dict()
    return False


def restore(session: Session, found) -> None:
    """Continue from a checkpoint."""
    learner, progress = session.learner, session.progress
    state = load_checkpoint(session.acc, found, model=learner.policy, optimizer=learner.optimiser)
    progress.load(state["progress"])
    progress.saved_step = progress.step
    session.saved = progress.to_dict()
    common = load_common(session.acc, found)
    session.method.load_state(divided_like(under_prefix("method", common), learner.parameters), state["method"])
    session.reference = divided_like(under_prefix("reference", common), learner.parameters) or None
    if session.acc.is_main_process:
        drop_after(session.run.path, progress.step)
        drop_evaluations(session.run.path / "metrics.jsonl", len(progress.evaluated))


def finish(session: Session) -> dict | None:
    """Last checkpoint, held-out templates, export and report; None when a signal came."""
    acc, run, config, progress = session.acc, session.run, session.config, session.progress
    held_out = evaluate(session, "held out", final=True, held_out=True) if session.sets.held_out else {}
    if held_out is None:
        save(session)
        return None
    save(session)
    final = {domain: measured.Evaluation.of_json(values) for domain, values in progress.last.items()}
    results = run_results.results_of(session.curriculum, session.sets, progress, final, held_out)
    results |= {"wall_s": round(session.log.wall_s(), 3), "processes": acc.num_processes}
    results["dropped"] = session.sets.dropped(session.sets.evaluation) if config.judge == "none" else {}
    results["weights_sha256"] = state_hash(acc.unwrap_model(session.learner.policy))
    assert_equal_across_ranks(acc, results["weights_sha256"], "final weights")
    model = merged(session.roller.whole_model(acc.is_main_process))
    save_export(acc, run, model=model, config=model.config.to_dict(), card=run_results.model_card(config, results))
    if acc.is_main_process:
        session.setup.chat.tokenizer.save_pretrained(run.path / "export")
        rows = read_metrics(run.path / "metrics.jsonl")
        run_results.write(run.path, config, results, final, held_out, rows)
    return results


if __name__ == "__main__":
    sys.exit(launch.run(main, GrpoOptions, aliases=ALIASES))
