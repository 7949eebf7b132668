"""Train a tool-calling agent by GRPO over service domains in turn, and measure what it learns and what it forgets.

CPU demo:    make train-grpo
One GPU:     accelerate launch --config_file accelerate_configs/gpu_1.yaml scripts/train_grpo.py --lora r=16 ...
8 GPUs:      accelerate launch --config_file accelerate_configs/gpu_8.yaml scripts/train_grpo.py --group-size 8 ...
Many nodes:  sbatch slurm/many_nodes.sbatch, see docs/launching.md
Resume:      add --resume auto
"""

import contextlib
import copy
import math
import sys
import time
from dataclasses import dataclass, field

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
from lib.distributed import assert_equal_across_ranks, gather_rows, global_sums, state_hash
from lib.errors import UserError
from lib.grpo import run_results, run_setup
from lib.grpo.continual import curriculum as plans
from lib.grpo.continual import evaluations as measured
from lib.grpo.continual.methods import Method, borrowed, copy_of, load_weights, trainable
from lib.grpo.continual.penalties import SquaredGradients
from lib.grpo.continual.scores import mean_forgetting
from lib.grpo.continual.tasks import TaskSets
from lib.grpo.dry_run import dry_run_text
from lib.grpo.engine import make_engine
from lib.grpo.episodes import Job, play
from lib.grpo.learning.advantages import compute_advantages
from lib.grpo.learning.losses import Objective, describe_statistics, merge_statistics, no_statistics
from lib.grpo.learning.packing import PackedBatch, Sample, empty_batch, pack
from lib.grpo.learning.policy import Policy, layer_classes, log_probs, verify_model
from lib.grpo.learning.warm_start import Demonstrations, copying_examples, parse_warm_start
from lib.grpo.models import merged
from lib.grpo.options import ALIASES, GrpoOptions, check_options
from lib.grpo.progress import Progress, drop_evaluations
from lib.grpo.trajectory import Trajectory
from lib.grpo.trajectory_files import drop_after, row_of, write_trajectories
from lib.rank_files import under_prefix, with_prefix
from lib.runlog import RunLog, read_metrics, tracker_kinds
from lib.sharding import copy_whole, divide_by_layers, divided_like, is_divided, release, whole, whole_on_main

TRAINER = "grpo"
SFT = Objective(kind="sft")


@dataclass
class Session:
    """What the steps below share."""

    acc: Accelerator
    run: RunDirectory
    config: GrpoOptions
    policy: torch.nn.Module
    optimiser: torch.optim.Optimizer
    engine: object
    played: torch.nn.Module  # whose weights the engine reads: the trained model, or under FSDP a whole copy of it
    setup: run_setup.Setup
    curriculum: plans.Curriculum
    sets: TaskSets
    method: Method
    progress: Progress = field(default_factory=Progress)
    reference: dict | None = None  # the weights that GRPO began with, where there is a KL term
    signals: StopSignals = field(default_factory=StopSignals)
    log: RunLog | None = None
    saved: dict = field(default_factory=dict)  # the progress of the newest checkpoint
    cut_short: bool = False  # a limit ended the run inside a stage: what follows is for the report, and not saved

    @property
    def saved_step(self) -> int:
        return self.saved.get("step", 0)

    @property
    def model(self):
        """The language model, without the wrapper of data parallel training."""
        return self.acc.unwrap_model(self.policy).model

    @property
    def share(self) -> tuple[int, int]:
        return self.acc.process_index, self.acc.num_processes


def main(config: GrpoOptions) -> None:
    tracker_kinds(config.report_to)
    auto = "auto" if torch.cuda.is_available() and config.device != "cpu" else None
    precision = auto if config.dtype == "auto" else config.dtype
    acc = launch.start(config, precision=precision, sharding=("FSDP",))
    notes = check_options(config, acc.num_processes)
    if is_divided(acc):
        run_setup.check_divided(config)
    if config.dry_run:
        acc.print(dry_run_text(config, config.num_gpus or acc.num_processes, "fsdp2" if is_divided(acc) else "none"))
        return
    curriculum, sets = run_setup.plan(config)
    setup = run_setup.prepare(config, acc.device)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    for note in (*notes, *setup.chat.notes, *sets.notes):
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
            session.log.note(f"stopped by {name} after step {session.saved_step}: continue with --resume auto")
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
    return Session(
        acc, run, config, policy, optimiser, engine, played, setup, curriculum, sets,
        run_setup.method_of(config, curriculum),
    )  # fmt: skip


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
        run_setup.demonstrated(config, sets), sets.make, session.setup.environment, session.setup.chat,
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
        figures = update(session, [(samples, SFT)], rate)
        tokens = global_sums(session.acc, {"tokens": sum(len(sample.trajectory.ids) for sample in samples)})["tokens"]
        session.log.add_units(int(tokens))
        row = {"loss": figures["policy_loss"], "lr": rate, "stage": stage.name, "grad_norm": figures["grad_norm"]}
        if not end_step(session, stage, row, time.monotonic() - start):
            return False
    return True


def improve(session: Session, stage: plans.Stage) -> bool:
    """GRPO on the stage's domains: roll out, compare, learn. False when a signal came."""
    config, progress, method = session.config, session.progress, session.method
    parameters = trainable(session.model)
    if not progress.began:
        method.begin(parameters)
        session.reference = copy_of(parameters) if config.beta else None
        progress.began = True
    if evaluation_is_due(session, stage) and evaluate(session, stage.name) is None:
        return save(session)
    old = {domain: session.sets.training[domain] for domain in session.curriculum.earlier(stage)}
    count = config.prompts_per_step
    old_count = plans.old_tasks(count, method.old_share) if old else 0
    new = {domain: session.sets.training[domain] for domain in stage.domains}
    tasks = plans.StepTasks(stage, config.seed, count, new, method.old_rows(old) if old_count else None, old_count)
    while config.use_grpo and progress.cursor.steps_left(stage) > 0 and not spent(session):
        start = time.monotonic()
        rolled = roll_out(
            session, stage, tasks.of_step(progress.cursor.step), ("train", stage.name, progress.cursor.step)
        )
        if rolled is None:
            return save(session)
        trajectories, outcomes, advantages, row = rolled
        taught = time.monotonic()
        row |= teach(session, stage, trajectories, advantages)
        row["train_s"] = time.monotonic() - taught
        method.record(outcomes, progress.step)
        if not end_step(session, stage, row, time.monotonic() - start):
            return False
    return True


def roll_out(session: Session, stage: plans.Stage, picks: list[plans.Pick], key: tuple):
    """(own trajectories, outcomes of all, their advantages by (group, sample), figures); None when a signal came.

    Groups without contrast are replaced by new tasks, up to --dynamic_sampling times; what they said stays counted.
    """
    config, acc = session.config, session.acc
    start, own, outcomes = time.monotonic(), [], []
    refresh_engine(session)
    counts = {"sampled_tokens": 0.0, "played_s": 0.0}
    for attempt in range(config.dynamic_sampling + 1):
        jobs = deal(session, [(pick.group, pick.row) for pick in picks], config.group_size)
        found, done = play(
            session.engine, jobs, session.setup.environment, session.setup.chat, config.seed, (*key, attempt),
            lambda: session.signals.requested,
        )  # fmt: skip
        if session.signals.agreed(acc):
            return None
        counts["sampled_tokens"] += done["sampled_tokens"]
        counts["played_s"] += done["seconds"]
        shared = gather_rows(
            acc, [measured.outcome(each) | {"group": each.group, "tokens": len(each.ids)} for each in found]
        )
        shared.sort(key=lambda each: (each["group"], each["sample"]))
        outcomes += shared
        own += found
        judged = compute_advantages(
            [each["reward"] for each in outcomes], [each["group"] for each in outcomes], config.scale_rewards,
            [each["success"] for each in outcomes],
        )  # fmt: skip
        now = {pick.group for pick in picks}
        dead = {each["group"] for each, live in zip(outcomes, judged.live, strict=True) if not live} & now
        if not dead or attempt == config.dynamic_sampling:
            break
        picks = run_setup.replacements(picks, dead, session.sets, stage, config, (*key, attempt))
    kept = {
        (each["group"], each["sample"]): value
        for each, value, live in zip(outcomes, judged.values, judged.live, strict=True)
        if live
    }
    seconds = time.monotonic() - start
    sums = global_sums(acc, counts)
    say_errors(session, outcomes)
    session.log.add_units(sum(each["tokens"] for each in outcomes))
    session.progress.episodes += len(outcomes)
    row = run_results.rollout_row(outcomes, judged) | {
        "rollout_s": seconds,
        # What a process waits for the others, on average.
        "wait_s": seconds - sums["played_s"] / acc.num_processes,
        "rollout_tokens_per_s": sums["sampled_tokens"] / max(seconds, 1e-9),
    }
    if acc.is_main_process and config.log_completions:
        decode = session.setup.chat.tokenizer.decode
        rows = [row_of(each, session.progress.step + 1, decode) for each in own[: config.log_completions]]
        write_trajectories(session.run.path, session.progress.step + 1, rows)
    return own, outcomes, kept, row


def say_errors(session: Session, outcomes: list[dict]) -> None:
    """One line when environments raised: episodes without them go on, but not in silence."""
    errors = [each["error"] for each in outcomes if each["error"] is not None]
    if errors:
        session.log.note(f"{len(errors)} of {len(outcomes)} episodes ended by an error, the first: {errors[0]}")


def refresh_engine(session: Session) -> None:
    """Give the engine the present weights. UserError where they have gone too far: nothing can be sampled from nan."""
    if session.played is not session.model:
        copy_whole(session.model, session.played)
    with torch.no_grad():
        logits = session.played(input_ids=torch.zeros(1, 1, dtype=torch.long, device=session.acc.device)).logits
    if not global_sums(session.acc, {"finite": float(logits.isfinite().all())})["finite"] == session.acc.num_processes:
        raise UserError(
            f"the model's logits are not finite after step {session.progress.step}: nothing after step"
            f" {session.saved_step} was saved; lower --learning-rate"
        )
    session.engine.refresh()


def deal(session: Session, rows: list[tuple[int, object]], samples: int) -> list[Job]:
    """This process's share of (task, sample) pairs; all compute the same division."""
    dealt = plans.deal(len(rows), samples, session.acc.num_processes)[session.acc.process_index]
    return [Job(rows[at][0], sample, session.sets.make(rows[at][1])) for at, sample in dealt]


def teach(session: Session, stage: plans.Stage, trajectories: list[Trajectory], advantages: dict) -> dict:
    """The updates of a step from this process's trajectories; those without an advantage carry no gradient."""
    config, method = session.config, session.method
    sets: dict[tuple[float, float], list[Sample]] = {}
    for each in trajectories:
        value = advantages.get((each.group, each.sample))
        terms = method.terms(each.domain, stage.domains)
        if value is None and not terms.anchor:
            continue
        key = (terms.anchor, config.beta)
        sets.setdefault(key, []).append(Sample(each, terms.policy * (value or 0.0)))
    beta_keys = sorted(gather_keys(session.acc, list(sets)))
    parts = []
    for anchor, beta in beta_keys:
        samples = sets.get((anchor, beta), [])
        weights = session.method.snapshot if anchor else session.reference
        if config.is_correction != "off":
            fill(session, samples, "old_log_probs")
        if anchor or beta:
            with borrowed(trainable(session.model), weights):
                fill(session, samples, "reference_log_probs")
        parts.append((samples, run_setup.objective_of(config, beta=anchor or beta)))
    figures, start = {}, time.monotonic()
    for _ in range(config.updates_per_batch):
        for number in range(config.minibatches):
            chosen = [
                ([s for s in samples if s.trajectory.group % config.minibatches == number], objective)
                for samples, objective in parts
            ]
            rate = launch.scaled_learning_rate(config.learning_rate, config.lr_scale, session.acc.num_processes, 1)
            found = update(session, chosen, rate, penalise=True)
            # Later updates compare with weights that are no longer those of the rollout.
            kept = {name: value for name, value in figures.items() if name.startswith("logprob_diff")}
            figures = {**found, **kept}
    tokens = sum(len(sample.trajectory.ids) for samples, _ in parts for sample in samples)
    total = global_sums(session.acc, {"tokens": float(tokens)})["tokens"] * config.updates_per_batch
    figures["train_tokens_per_s"] = total / max(time.monotonic() - start, 1e-9)
    return figures


def gather_keys(acc: Accelerator, keys: list) -> set:
    """The keys that any process has: every process makes the same number of passes."""
    return {tuple(key) for key in gather_rows(acc, keys)}


@torch.no_grad()
def fill(session: Session, samples: list[Sample], name: str) -> None:
    """Log-probabilities of the samples under the weights that the model has now; as many passes on every process."""
    acc = session.acc
    batches = [batch.to(acc.device) for batch in pack(samples, session.config.micro_batch_tokens)]
    passes = max(gather_rows(acc, [len(batches)]))
    batches += [empty_batch().to(acc.device)] * (passes - len(batches))
    values = log_probs(acc.unwrap_model(session.policy), batches, len(samples), session.config.temperature)
    for sample, own in zip(samples, values, strict=True):
        setattr(sample, name, own)
    release(session.policy)


def update(session: Session, parts: list[tuple[list[Sample], Objective]], rate: float, penalise: bool = False) -> dict:
    """One optimiser step along the loss of all processes' samples, each part by its objective.

    Every process makes the same number of passes, empty ones where it has nothing, and takes part in the same
    collectives; the loss is a sum divided by the global count.
    """
    acc, config = session.acc, session.config
    batches: list[tuple[PackedBatch, Objective]] = []
    records: list[list[str]] = []
    divisor = 0.0
    for samples, objective in parts:
        packed = pack(samples, config.micro_batch_tokens)
        batches += [(batch, objective) for batch in packed]
        records += [["/".join(samples[at].trajectory.key) for at in batch.members] for batch in packed]
        divisor += objective.divisor(sample.trajectory.sampled_tokens for sample in samples)
    sizes = gather_rows(acc, [(len(batches), divisor)])
    divisor, passes = sum(size[1] for size in sizes), max(size[0] for size in sizes)
    for group in session.optimiser.param_groups:
        group["lr"] = rate
    rows = [no_statistics(acc.device)]
    for number in range(passes):
        batch, objective = batches[number] if number < len(batches) else (empty_batch(), parts[0][1])
        # Divided gradients add up where they belong; keeping them whole until the last pass would take their memory.
        waits = number < passes - 1 and not is_divided(acc)
        context = acc.no_sync(session.policy) if waits else contextlib.nullcontext()
        with context:
            loss, statistics = session.policy(batch.to(acc.device), objective)
            # Gradients are averaged over the processes: times their number, over the global count, is the sum.
            acc.backward(loss * (acc.num_processes / max(divisor, 1.0)))
        rows.append(statistics)
    penalty = session.method.add_gradients(trainable(session.model)) if penalise and passes else 0.0
    everyone = torch.tensor(gather_rows(acc, [merge_statistics(torch.stack(rows)).tolist()]), dtype=torch.float64)
    norm = torch.zeros(())
    if passes:
        norm = whole(acc.clip_grad_norm_(session.policy.parameters(), config.max_grad_norm or math.inf))
        if not (math.isfinite(float(norm)) and everyone.isfinite().all()):
            raise not_finite(session, records, [bool(row.isfinite().all()) for row in rows[1 : len(records) + 1]])
        session.optimiser.step()
        session.optimiser.zero_grad()
    return run_results.update_row(describe_statistics(merge_statistics(everyone), divisor), float(norm), penalty)


def not_finite(session: Session, records: list[list[str]], fine: list[bool]) -> UserError:
    """What to say of a loss that is no number; `records` and `fine` are of this process's micro-batches."""
    broken = gather_rows(session.acc, [name for names, good in zip(records, fine) if not good for name in names])
    names = sorted(set(broken or gather_rows(session.acc, [name for names in records for name in names])))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return UserError(
        f"the loss or its gradient is not finite at step {session.progress.step + 1}, records {', '.join(names[:5])}"
        f"{more}: nothing after step {session.saved_step} was saved; look at these tasks, or lower --learning-rate"
    )


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
    parameters, gate, found = trainable(session.model), session.curriculum.gate, None
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
    config, acc = session.config, session.acc
    pools = session.sets.held_out if held_out else session.sets.evaluation
    sampling = session.setup.evaluation_sampling
    trials = config.eval_trials if final else 1
    with session.log.paused():
        refresh_engine(session)
        session.engine.sampling, before = sampling, session.engine.sampling
        rows = [(number, row) for number, row in enumerate(row for pool in pools.values() for row in pool)]
        found, _ = play(
            session.engine, deal(session, rows, trials), session.setup.environment, session.setup.chat, config.seed,
            ("evaluation", "held out" if held_out else "tasks"), lambda: session.signals.requested,
        )  # fmt: skip
        session.engine.sampling = before
    if session.signals.agreed(acc):
        return None
    rows = sorted(gather_rows(acc, [measured.outcome(each) | {"group": each.group} for each in found]),
                  key=lambda each: (each["group"], each["sample"]))  # fmt: skip
    say_errors(session, rows)
    evaluations = measured.evaluations_of(rows, pools)
    if not held_out:
        values = {f"eval/success_{domain}": each.success.value for domain, each in evaluations.items()}
        values["eval/success"] = sum(values.values()) / len(values)
        row = values | {"stage": stage, "episodes": session.progress.episodes}
        session.progress.evaluated.append([session.progress.step, stage])
        session.log.log(session.progress.step, row, progress=False)
    return evaluations


def measure_fisher(session: Session, stage: plans.Stage) -> dict | None:
    """Mean squared policy gradients of single episodes of the stage's tasks, over all processes; None when a signal
    came."""
    config, acc = session.config, session.acc
    wanted = session.method.fisher_samples
    pools = [row for domain in stage.domains for row in session.sets.training[domain]]
    rows = [(number, pools[number % len(pools)]) for number in range(wanted)]
    refresh_engine(session)
    found, _ = play(
        session.engine, deal(session, rows, 1), session.setup.environment, session.setup.chat, config.seed,
        ("fisher", stage.name), lambda: session.signals.requested,
    )  # fmt: skip
    if session.signals.agreed(acc):
        return None
    model, objective = acc.unwrap_model(session.policy), Objective(kind="reinforce", temperature=config.temperature)
    parameters = trainable(session.model)
    squared = SquaredGradients(parameters)
    for trajectory in found:
        for batch in pack([Sample(trajectory, 1.0)], config.micro_batch_tokens):
            loss, _ = model(batch.to(acc.device), objective)
            loss.backward()
            squared.add(parameters)
            model.zero_grad()
    for name in squared.sums:
        squared.sums[name] = acc.reduce(squared.sums[name], reduction="sum")
    squared.count = int(global_sums(acc, {"count": float(squared.count)})["count"])
    return squared.mean()


def save(session: Session) -> bool:
    """The whole state; False, for a caller that stops after it."""
    acc, progress = session.acc, session.progress
    tensors, data = session.method.state()
    if session.config.save_every != 0 and not session.cut_short and session.saved != progress.to_dict():
        common = with_prefix("method", tensors) | with_prefix("reference", session.reference or {})
        with session.log.paused():
            save_checkpoint(
                acc, session.run, progress.step, model=session.policy, optimizer=session.optimiser,
                state={"progress": progress.to_dict(), "method": data}, keep=session.config.keep_checkpoints,
                common=whole_on_main(acc, common),
            )  # fmt: skip
        session.saved = progress.to_dict()
    return False


def restore(session: Session, found) -> None:
    """Continue from a checkpoint."""
    state = load_checkpoint(session.acc, found, model=session.policy, optimizer=session.optimiser)
    session.progress = Progress.from_dict(state["progress"])
    session.saved = session.progress.to_dict()
    common, parameters = load_common(session.acc, found), trainable(session.model)
    session.method.load_state(divided_like(under_prefix("method", common), parameters), state["method"])
    session.reference = divided_like(under_prefix("reference", common), parameters) or None
    if session.acc.is_main_process:
        drop_after(session.run.path, session.progress.step)
        drop_evaluations(session.run.path / "metrics.jsonl", len(session.progress.evaluated))


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
    results["weights_sha256"] = state_hash(acc.unwrap_model(session.policy))
    assert_equal_across_ranks(acc, results["weights_sha256"], "final weights")
    if session.played is not session.model:
        if acc.is_main_process:  # the other copies only take part
            session.played.to("cpu", torch.float32)
        copy_whole(session.model, session.played)
    model = merged(session.played)
    save_export(acc, run, model=model, config=model.config.to_dict(), card=run_results.model_card(config, results))
    if acc.is_main_process:
        session.setup.chat.tokenizer.save_pretrained(run.path / "export")
        rows = read_metrics(run.path / "metrics.jsonl")
        run_results.write(run.path, config, results, final, held_out, rows)
    return results


if __name__ == "__main__":
    sys.exit(launch.run(main, GrpoOptions, aliases=ALIASES))
