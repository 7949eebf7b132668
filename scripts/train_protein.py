"""Train a network that predicts masked residues of a protein from its backbone.

CPU demo:         accelerate launch scripts/train_protein.py --hidden_dim 64 --learning_rate 1e-2 --max_minutes 2
Your structures:  accelerate launch scripts/train_protein.py --pdb_path FOLDER --learning_rate 1e-2 --max_tokens 2000
8 GPUs:           accelerate launch --config_file accelerate_configs/gpu_8.yaml scripts/train_protein.py ...
Many nodes:       sbatch slurm/many_nodes.sbatch, see docs/launching.md
Resume:           add --resume auto
"""

import contextlib
import math
import sys
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator

from lib import launch
from lib.checkpoint import (
    RunDirectory,
    StopSignals,
    atomic_write_json,
    best_checkpoint,
    find_checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_export,
)
from lib.clock import StepClock
from lib.distributed import assert_equal_across_ranks, gather_rows, global_sums, main_only_first, state_hash
from lib.errors import UserError
from lib.protein.batching import eval_shares, plan_counts
from lib.protein.evaluation import Scores, score_units, summarise
from lib.protein.loader import Step, StepLoader
from lib.protein.masking import METRICS
from lib.protein.model import ModelConfig, ProteinModel
from lib.protein.optimiser import learning_rate_factor, make_optimiser, set_learning_rate
from lib.protein.options import ALIASES, ProteinOptions, check_options
from lib.protein.prepare import ProteinData, build_store, locate, open_store, prepare, training_tables
from lib.protein.progress import Budget, Progress
from lib.protein.reporting import model_card, plan_notes, result_table, write_curves, write_run_report
from lib.protein.synthetic_scores import BayesScores
from lib.protein.tables import Tables
from lib.runlog import RunLog, read_metrics, tracker_kinds
from lib.seeds import seed_global

TRAINER = "protein"
LEAK_SE = 5.0  # standard errors below the known optimum that no honest model reaches by chance


@dataclass
class Session:
    """What the steps below share. All that a resume needs is in the model, the optimiser and `progress`."""

    acc: Accelerator
    run: RunDirectory
    config: ProteinOptions
    data: ProteinData
    tables: Tables
    model: torch.nn.Module
    optimiser: torch.optim.Optimizer
    budget: Budget
    rate: float  # learning rate after --lr_scale
    progress: Progress = field(default_factory=Progress)
    signals: StopSignals = field(default_factory=StopSignals)
    log: RunLog | None = None
    window: list = field(default_factory=list)  # steps since the last look: (step, record names, sums)
    poll_steps: int = 1  # steps between looks: looking at device values makes the device wait
    saved_step: int = 0

    @property
    def metric(self) -> str:
        """The validation metric that decides which weights are best."""
        return "any_order" if self.config.objective == "both" else self.config.objective


def main(config: ProteinOptions) -> None:
    notes = check_options(config)
    tracker_kinds(config.report_to)
    acc = launch.start(config, precision=config.precision, sharding=False)
    locate(config)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    for note in notes:
        run.note(acc, note)
    data, tables = load_data(acc, run, config)

    seed_global(config.seed, "weights")
    n = acc.num_processes
    rate = launch.scaled_learning_rate(config.learning_rate, config.lr_scale, n, config.gradient_accumulation_steps)
    model = ProteinModel(ModelConfig.of(config), torch.from_numpy(tables.unigram).float())
    model.recompute = config.recompute
    work_type = torch.bfloat16 if acc.mixed_precision == "bf16" else torch.float32
    optimiser = make_optimiser(model, config.optimizer, rate, config.weight_decay, work_type)
    assert_equal_across_ranks(acc, state_hash(model), "initial weights")
    model, optimiser = acc.prepare(model, optimiser)

    on_cpu = acc.device.type == "cpu"
    if on_cpu and "num_workers" in config.explicit and config.num_workers:
        run.note(acc, f"--num_workers {config.num_workers}: 0 are used, on a CPU all cores compute")
    loader = StepLoader(
        data.store, data.sides["train"], config, processes=n, rank=acc.process_index,
        workers=0 if on_cpu else config.num_workers, pin=config.pin_memory and not on_cpu,
    )  # fmt: skip
    plan = plan_counts(loader.plan(0))
    session = Session(acc, run, config, data, tables, model, optimiser, Budget(config, plan["steps"]), rate)
    batch, facts = plan_notes(config, model, plan, session.budget, data.synthetic, n)
    launch.announce(acc, config, trainer=TRAINER, effective_batch=batch, learning_rate=rate, notes=facts)
    if config.dry_run:
        acc.print("dry run: nothing was trained")
        return
    found = find_checkpoint(acc, run, config.resume)
    if found is not None:
        session.progress = Progress(**load_checkpoint(acc, found, model=model, optimizer=optimiser)["progress"])
        session.saved_step = session.progress.step
    with session.signals, RunLog(acc, run, config, session.budget.planned_steps, "residues") as session.log:
        agree_on_share(session)  # a resumed run may have been given more time
        done = train(session, loader)
        results = finish(session) if done else None
        if results is None:
            name = session.signals.name or "a signal"
            session.log.note(f"stopped by {name} after step {session.saved_step}: continue with --resume auto")
    if acc.is_main_process and results is not None:
        print(f"{result_table(results)}\nresults.json, report.html and export/ are in {run.path}", flush=True)
    run.close()


def load_data(acc: Accelerator, run: RunDirectory, config: ProteinOptions) -> tuple[ProteinData, Tables]:
    """The cache on the main process first, then the same units, split and tables everywhere."""
    with main_only_first(acc):
        store = build_store(config, acc.print) if acc.is_main_process else open_store(config)
    data = prepare(config, store, acc.print)
    if acc.is_main_process:
        report = store.data_report()
        report.set_split({side: size for side, size in data.sizes().items() if size["units"]})
        names = {side: [unit.name for unit in units] for side, units in data.sides.items()}
        # Written when the log starts: before that, the checkpoint of a continued run may still be refused.
        run.description |= {"data_report.json": report.to_dict(), "split.json": names | {"rule": data.rule}}
        print(report.table(), flush=True)
    return data, training_tables(store, data.sides["train"])


def train(session: Session, loader: StepLoader) -> bool:
    """Batch, loss, backward, clip, step, log, evaluate, save; False when a signal ended it (the state is saved)."""
    acc, config, progress = session.acc, session.config, session.progress
    if evaluation_due(session) and not validate(session):  # a signal came in the midst of it, before this resume
        return False
    clock = StepClock()
    for step in loader.steps(progress.epoch, progress.taken):
        stale = progress.epoch - progress.best_epoch if progress.best_step >= 0 else 0
        if session.budget.spent(progress) or stale >= config.early_stopping_patience:
            break
        update(session, step)
        progress.advance(step)
        clock.add_to(progress)
        session.log.add_units(step.residues)
        saves = (
            step.ends_epoch
            if config.save_every is None
            else config.save_every and progress.step % config.save_every == 0
        )
        stop = False
        if len(session.window) >= session.poll_steps or saves or evaluation_due(session):
            look(session)
            stop = session.signals.agreed(acc)
        if not stop and evaluation_due(session):
            stop = not validate(session)
        if (stop or saves) and session.saved_step != progress.step:
            save(session)
        if acc.is_main_process and config.visualize and step.ends_epoch and progress.epoch % config.plot_every == 0:
            write_curves(session.run.path, read_metrics(session.run.path / "metrics.jsonl"))
        if stop:
            return False
        clock.start()
    look(session)
    return True


def evaluation_due(session: Session) -> bool:
    """Whether a validation follows the step just done: at the end of an epoch or every --eval_every steps, and after
    the last step where an earlier one was the best so far."""
    config, progress = session.config, session.progress
    if progress.step in (0, progress.validated_step):
        return False
    if session.budget.spent(progress):
        return config.save_every != 0 and progress.best_step not in (-1, progress.step)
    every = config.eval_every
    return progress.taken == 0 if every is None else every > 0 and progress.step % every == 0


def update(session: Session, step: Step) -> None:
    """One optimiser step along the mean cross-entropy over all targets of all processes and micro-batches."""
    acc, config, progress = session.acc, session.config, session.progress
    targets = torch.full((), step.targets(), dtype=torch.float32, device=acc.device)
    targets = acc.reduce(targets, reduction="sum").clamp_min(1.0)
    factor = learning_rate_factor(session.budget.done(progress), session.budget.warmup, config.lr_schedule)
    set_learning_rate(session.optimiser, session.rate * factor)
    sums = torch.zeros(4, device=acc.device, dtype=torch.float64)  # loss, recovered, targets, gradient norm
    for number, part in enumerate(step.micro):
        seed_global(config.seed, "dropout", progress.step, number, acc.process_index)
        last = number == len(step.micro) - 1
        with contextlib.nullcontext() if last else acc.no_sync(session.model):
            batch = part.batch.to(acc.device)
            order, target = (value.to(acc.device, non_blocking=True) for value in (part.order, part.target))
            loss, recovered = session.model(batch, order, target)
            # DDP averages over the processes: times their number, over the global count, is the global mean.
            acc.backward(loss * (acc.num_processes / targets))
        sums += torch.stack((loss.detach().double(), recovered, target.sum(), torch.zeros_like(recovered)))
    sums[3] = acc.clip_grad_norm_(session.model.parameters(), config.max_grad_norm or math.inf)
    session.optimiser.step()
    session.optimiser.zero_grad()
    session.window.append((progress.step + 1, step.names, sums))


def look(session: Session) -> None:
    """Agree on how far the run is, log the steps since the last look, and end at a loss that is not finite."""
    acc, progress, window = session.acc, session.progress, session.window
    if not window:
        return
    sums = torch.stack([entry[2] for entry in window]).cpu()  # (steps, 4)
    bad = ~torch.isfinite(sums).all(1)
    totals = dict(zip(("loss", "recovered", "targets"), sums[~bad, :3].sum(0).tolist()))
    seen = global_sums(acc, {**totals, "bad": float(bad.sum())})
    if seen["bad"]:
        rows = [(step, name) for (step, names, _), broken in zip(window, bad.tolist()) if broken for name in names]
        rows = gather_rows(acc, rows)
        first = min(step for step, _ in rows)
        raise UserError(
            f"the loss or its gradient is not finite at step {first}, records "
            f"{', '.join(sorted({name for step, name in rows if step == first}))}: nothing after step "
            f"{session.saved_step} was saved; look at these records, lower --learning_rate, or use --precision fp32"
        )
    agree_on_share(session)
    values = {
        "loss": seen["loss"] / max(seen["targets"], 1.0),
        "recovery": seen["recovered"] / max(seen["targets"], 1.0),
        "lr": session.optimiser.param_groups[0]["lr"],
        "grad_norm": float(sums[-1, 3]),
        "epoch": progress.epoch,
        "train_cpu_s": round(progress.train_cpu_s, 3),
    }
    session.log.log(progress.step, values)
    window.clear()


def agree_on_share(session: Session) -> None:
    """The main process's clock says for all how far the run is, and how many steps take about a second: that
    often an accelerator is looked at, so that a signal is answered in time."""
    acc, progress = session.acc, session.progress
    mine = {"share": session.budget.clock_share(progress, session.log.wall_s()), "train_s": progress.train_wall_s}
    seen = global_sums(acc, {name: value if acc.is_main_process else 0.0 for name, value in mine.items()})
    progress.share = seen["share"]
    if acc.device.type != "cpu" and progress.step:
        session.poll_steps = max(1, min(10, int(progress.step / max(seen["train_s"], 1e-9))))


def score(session: Session, metrics, on_unit=None) -> Scores | None:
    """Every validation unit exactly once over all processes; None when a signal came."""
    acc, config = session.acc, session.config
    scores = score_units(
        acc.unwrap_model(session.model), session.data.store,
        eval_shares(session.data.sides["val"], acc.num_processes)[acc.process_index], session.tables,
        seed=config.seed, max_tokens=config.max_tokens or 2000, device=acc.device, autocast=acc.autocast,
        metrics=metrics, should_stop=lambda: session.signals.requested, on_unit=on_unit,
    )  # fmt: skip
    if session.signals.agreed(acc):
        return None
    merged = Scores()
    for part in gather_rows(acc, [scores]):
        merged.merge(part)
    return merged


def validate(session: Session) -> bool:
    """Log the validation loss and save weights that are the best so far; False when a signal came."""
    progress = session.progress
    with session.log.paused():
        scores = score(session, [session.metric])
    if scores is None:
        return False
    count, nll, correct = scores.sums[session.metric]
    better = nll / count < progress.best - session.config.early_stopping_min_delta
    progress.validated_step = progress.step
    if better:
        progress.best, progress.best_step, progress.best_epoch = nll / count, progress.step, progress.epoch
    values = {f"val_loss_{session.metric}": nll / count, f"val_recovery_{session.metric}": correct / count}
    session.log.log(progress.step, values, progress=False)
    if better and session.config.save_every != 0:
        save(session, best=True)
    return True


def save(session: Session, best: bool = False) -> None:
    progress = session.progress
    with session.log.paused():
        save_checkpoint(
            session.acc, session.run, progress.step, model=session.model, optimizer=session.optimiser,
            state={"progress": progress.to_dict()}, keep=session.config.keep_checkpoints, best=best,
        )  # fmt: skip
    session.saved_step = progress.step


def finish(session: Session) -> dict | None:
    """Last checkpoint, the best weights, their evaluation, export and report; None when a signal came."""
    acc, run, config, progress = session.acc, session.run, session.config, session.progress
    if config.save_every != 0:
        if progress.best_step != -1 and progress.validated_step != progress.step and not validate(session):
            return None
        save(session)
        best = best_checkpoint(acc, run) if progress.best_step not in (-1, progress.step) else None
        if best is not None and best.name == f"step-{progress.best_step:08d}":
            run.note(acc, f"the weights of step {progress.best_step} are the best on validation and are taken")
            load_checkpoint(acc, best, model=session.model, optimizer=session.optimiser)
    bayes = BayesScores.load(session.data, session.tables.unigram, config.seed) if session.data.synthetic else None
    scores = score(session, METRICS, bayes and bayes.add)
    if scores is None:
        return None
    results = summarise(scores)
    results |= bayes.results(lambda sums: global_sums(acc, sums)) if bayes else {}
    if min(results.get(f"bayes_excess_se_{metric}", 0.0) for metric in ("one_shot", "masked")) < -LEAK_SE:
        session.log.note(
            "below the Bayes bound of the synthetic set: the model is told what it should predict", leak=True
        )
    results |= progress.results() | session.data.results()
    results |= {"wall_s": round(session.log.wall_s(), 3), "processes": acc.num_processes}
    model = acc.unwrap_model(session.model)
    results["weights_sha256"] = state_hash(model)
    assert_equal_across_ranks(acc, results["weights_sha256"], "final weights")
    described = {**model.config.to_dict(), "temperature": results["temperature"]}
    card, extra = model_card(config, results, session.data.rule), {"tables.safetensors": session.tables.tensors()}
    save_export(acc, run, model=session.model, config=described, card=card, extra=extra)
    if acc.is_main_process:
        for path in filter(None, (run.path / "results.json", config.report_json)):
            atomic_write_json(path, results)
        if config.visualize:
            write_run_report(run.path, config, results, scores, read_metrics(run.path / "metrics.jsonl"))
    return results


if __name__ == "__main__":
    sys.exit(launch.run(main, ProteinOptions, aliases=ALIASES))
