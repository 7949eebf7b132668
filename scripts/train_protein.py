"""Train a network that predicts masked residues of a protein from its backbone.

CPU demo, synthetic set:  accelerate launch scripts/train_protein.py --hidden_dim 64 --max_minutes 2 --learning_rate 4e-3
Your structures:          accelerate launch scripts/train_protein.py --pdb_path FOLDER --learning_rate 4e-3 --max_tokens 2000
8 GPUs:                   accelerate launch --config_file accelerate_configs/gpu_8.yaml scripts/train_protein.py --pdb_path FOLDER
Many nodes:               see slurm/ and docs/launching.md
Resume:                   add --resume auto
"""

import contextlib
import sys

import torch
from accelerate import Accelerator
from torch import nn

from lib import launch
from lib.allocator import keep_freed_memory
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
from lib.distributed import any_rank, assert_equal_across_ranks, gather_rows, global_sums, main_only_first, state_hash
from lib.errors import UserError
from lib.protein.batching import eval_shares, plan_counts
from lib.protein.evaluation import Scores, score_units, summarise
from lib.protein.loader import Step, StepLoader
from lib.protein.model import ModelConfig, ProteinModel
from lib.protein.optimiser import learning_rate_factor, make_optimiser, set_learning_rate
from lib.protein.options import ALIASES, ProteinOptions, check_options
from lib.protein.prepare import ProteinData, build_store, locate, open_store, prepare, training_tables
from lib.protein.progress import Budget, Progress, StepClock
from lib.protein.reporting import data_table, model_card, result_table, write_run_report
from lib.protein.synthetic_scores import BayesScores
from lib.runlog import RunLog
from lib.seeds import seed_global

TRAINER = "protein"
POLL_STEPS = {"cpu": 1}  # elsewhere every 10: a look at a device tensor waits for the device
BEST_METRIC = {"masked": "masked", "one_shot": "one_shot", "any_order": "any_order", "both": "any_order"}


def main(config: ProteinOptions) -> None:
    keep_freed_memory()
    notes = check_options(config)
    acc = launch.start(config, precision=config.precision)
    locate(config)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    for note in notes:
        run.note(acc, note)
    data, tables, sizes = load_data(acc, run, config)

    seed_global(config.seed, "weights")
    model = ProteinModel(model_config(config), torch.from_numpy(tables.unigram).float())
    model.recompute = config.recompute
    rate = launch.scaled_learning_rate(
        config.learning_rate, config.lr_scale, acc.num_processes, config.gradient_accumulation_steps
    )
    model, optimiser = acc.prepare(model, make_optimiser(model, config.optimizer, rate, config.weight_decay))
    assert_equal_across_ranks(acc, state_hash(acc.unwrap_model(model)), "initial weights")

    on_cpu = acc.device.type == "cpu"
    loader = StepLoader(
        data.store,
        data.sides["train"],
        config,
        processes=acc.num_processes,
        rank=acc.process_index,
        workers=0 if on_cpu else config.num_workers,
        pin=config.pin_memory and not on_cpu,
    )
    if on_cpu and "num_workers" in config.explicit and config.num_workers:
        run.note(acc, "--num_workers: on a CPU the cores compute, batches are made in between (0 workers)")
    plan = plan_counts(loader.plan(0))
    budget = Budget(config, plan["steps"])
    announce(acc, config, data, plan, budget, rate, model)
    if config.dry_run:
        acc.print("dry run: nothing was trained")
        return

    progress = Progress()
    found = find_checkpoint(acc, run, config.resume)
    if found is not None:
        progress = Progress(**load_checkpoint(acc, found, model=model, optimizer=optimiser)["progress"])
    with StopSignals() as signals, RunLog(acc, run, config, budget.planned_steps, "residues") as log:
        trainer = Training(acc, run, config, data, tables, model, optimiser, budget, progress, rate, signals, log)
        trainer.loop(loader)
        if signals.agreed(acc):
            log.note(f"stopped by {signals.name or 'a signal'} at step {progress.step}; continue with --resume auto")
            return
        results = trainer.finish(sizes)
    if acc.is_main_process:
        print(result_table(results), flush=True)
        print(f"results, report and export in {run.path}", flush=True)
    run.close()


def load_data(acc: Accelerator, run: RunDirectory, config: ProteinOptions):
    """Cache on the main process first, then the same units, split and tables everywhere."""
    log = acc.print
    with main_only_first(acc):
        store = build_store(config, log) if acc.is_main_process else open_store(config)
    if acc.is_main_process:
        atomic_write_json(run.path / "data_report.json", store.report)
    data = prepare(config, store, log)
    tables, sizes = training_tables(store, data.sides["train"])
    if acc.is_main_process:
        names = {side: [unit.name for unit in units] for side, units in data.sides.items()}
        atomic_write_json(run.path / "split.json", names | {"rule": data.rule})
        print(data_table(store.report, data.sizes()), flush=True)
    return data, tables, sizes


def model_config(config: ProteinOptions) -> ModelConfig:
    return ModelConfig(
        hidden_dim=config.hidden_dim,
        num_encoder_layers=config.num_encoder_layers,
        num_decoder_layers=config.num_decoder_layers,
        k_neighbors=config.k_neighbors,
        dropout=config.dropout,
    )


def announce(acc, config, data: ProteinData, plan: dict, budget: Budget, rate: float, model: nn.Module) -> None:
    per_step = plan["residues"] / plan["steps"]
    structures = plan["units"] / plan["steps"]
    launch.announce(
        acc,
        config,
        trainer=TRAINER,
        effective_batch=f"{structures:.1f} structures, {per_step:.0f} residues a step over {acc.num_processes} processes"
        f" x {config.gradient_accumulation_steps} accumulation",
        learning_rate=rate,
        notes={
            "model": f"{sum(p.numel() for p in model.parameters()):,} parameters, hidden {config.hidden_dim}, "
            f"{config.num_encoder_layers} + {config.num_decoder_layers} layers, k {config.k_neighbors}",
            "data": ("synthetic, " if data.synthetic else "")
            + f"{plan['units']} distinct training units, {plan['cropped']} cropped, {plan['steps']} steps an epoch",
            "plan": f"{budget.planned_steps} steps, warm-up {budget.warmup:.0%}, {config.lr_schedule}"
            + (", ends by the clock at the latest" if budget.timed else ""),
        },
    )


class Training:
    """The loop and what it calls; all state that a resume needs is in `progress`, the model and the optimiser."""

    def __init__(self, acc, run, config, data, tables, model, optimiser, budget, progress, rate, signals, log):
        self.acc, self.run, self.config, self.data, self.tables = acc, run, config, data, tables
        self.model, self.optimiser, self.budget, self.progress = model, optimiser, budget, progress
        self.rate, self.signals, self.log = rate, signals, log
        self.poll = POLL_STEPS.get(acc.device.type, 10)
        self.metric = BEST_METRIC[config.objective]
        self.window: list[tuple[int, list[str], torch.Tensor]] = []  # since the last look: step, names, sums
        self.saved_step = progress.step

    def loop(self, loader: StepLoader) -> None:
        """Batch, loss, backward, clip, step, look, evaluate, save; until the budget is spent or someone says stop."""
        progress, config = self.progress, self.config
        for step in loader.steps(progress.epoch, progress.index):
            if self.budget.spent(progress) or progress.stale_epochs >= config.early_stopping_patience:
                break
            with StepClock(progress):
                self.update(step)
            progress.step += 1
            progress.residues += step.residues
            progress.epoch, progress.index = (step.epoch + 1, 0) if step.ends_epoch else (step.epoch, step.index + 1)
            self.log.add_units(step.residues)
            if progress.step % self.poll == 0 or step.ends_epoch:
                self.look()
            stop = self.signals.agreed(self.acc) if progress.step % self.poll == 0 else False
            every = config.eval_every
            due = step.ends_epoch if every is None else every and progress.step % every == 0
            if due and not stop and not self.budget.spent(progress):
                self.validate(step.ends_epoch)
            if stop or (config.save_every and progress.step % config.save_every == 0):
                self.save()
            if stop:
                return
        self.look()

    def update(self, step: Step) -> None:
        """One optimiser step. The gradient is that of the mean over all targets of all processes and micro-batches."""
        acc, progress = self.acc, self.progress
        total = torch.tensor(float(step.targets()), device=acc.device)
        if acc.num_processes > 1:
            total = acc.reduce(total, reduction="sum")
        warmup, schedule = self.budget.warmup, self.config.lr_schedule
        factor = learning_rate_factor(progress.share, warmup, schedule)
        set_learning_rate(self.optimiser, self.rate * factor)
        sums = torch.zeros(4, device=acc.device, dtype=torch.float64)  # loss, recovered, targets, gradient norm
        for number, part in enumerate(step.micro):
            last = number == len(step.micro) - 1
            seed_global(self.config.seed, "dropout", progress.step, number, acc.process_index)
            with contextlib.nullcontext() if last else acc.no_sync(self.model):
                loss, recovered = self.model(
                    part.batch.to(acc.device), part.order.to(acc.device), part.target.to(acc.device)
                )
                # DDP averages over the processes: times their number, over the global count, is the global mean.
                acc.backward(loss * (acc.num_processes / total.clamp_min(1.0)))
            sums[0] += loss.detach()
            sums[1] += recovered
            sums[2] += part.target.sum().to(acc.device)
        if self.config.max_grad_norm > 0:
            sums[3] = acc.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.window.append((progress.step + 1, step.names, sums))

    def look(self) -> None:
        """Agree on how far the run is, log the steps since the last look, and stop at a loss that is not finite."""
        if not self.window:
            return
        acc, progress = self.acc, self.progress
        sums = torch.stack([entry[2] for entry in self.window]).cpu()  # (steps, 4)
        finite = torch.isfinite(sums).all(1)
        share = self.budget.share(progress, self.log.wall_s()) if acc.is_main_process else 0.0
        seen = global_sums(
            acc,
            {
                "bad": float((~finite).sum()),
                "share": share,
                "loss": float(sums[finite, 0].sum()),
                "recovered": float(sums[finite, 1].sum()),
                "targets": float(sums[finite, 2].sum()),
            },
        )
        if seen["bad"]:
            self.refuse_non_finite(finite)
        progress.share = seen["share"]
        targets = max(seen["targets"], 1.0)
        values = {
            "loss": seen["loss"] / targets,
            "recovery": seen["recovered"] / targets,
            "lr": self.optimiser.param_groups[0]["lr"],
            "grad_norm": float(sums[-1, 3]),
            "epoch": progress.epoch,
            "train_cpu_s": round(progress.train_cpu_s, 3),
        }
        self.log.log(progress.step, values)
        self.window.clear()

    def refuse_non_finite(self, finite: torch.Tensor) -> None:
        mine = [
            {"step": step, "names": names}
            for (step, names, _), good in zip(self.window, finite.tolist(), strict=True)
            if not good
        ]
        bad = gather_rows(self.acc, mine)
        first = min(row["step"] for row in bad)
        names = sorted({name for row in bad if row["step"] == first for name in row["names"]})
        raise UserError(
            f"the loss or its gradient is not finite at step {first}, records {', '.join(names)}: nothing after step "
            f"{self.saved_step} was saved; look at these records, lower --learning_rate, or use --precision fp32"
        )

    def scores(self, side: str, metrics, on_unit=None) -> Scores | None:
        """Every unit of a side once over all processes; None when a signal ended it."""
        acc = self.acc
        share = eval_shares(self.data.sides[side], acc.num_processes)[acc.process_index]
        scores = score_units(
            acc.unwrap_model(self.model),
            self.data.store,
            share,
            self.tables,
            seed=self.config.seed,
            max_tokens=self.config.max_tokens or 2000,
            device=acc.device,
            autocast=acc.autocast,
            metrics=metrics,
            should_stop=lambda: self.signals.requested,
            on_unit=on_unit,
        )
        if self.signals.agreed(acc):
            return None
        merged = Scores()
        for part in gather_rows(acc, [scores]):
            merged.merge(part)
        return merged

    def validate(self, ends_epoch: bool) -> None:
        """Validation loss of the best metric; a better one is saved and marked."""
        progress = self.progress
        with self.log.paused():
            scores = self.scores("val", [self.metric])
            if scores is None:
                return
            count, nll, correct = scores.sums[self.metric]
            loss = nll / count
            better = loss < progress.best - self.config.early_stopping_min_delta
            progress.stale_epochs = 0 if better else progress.stale_epochs + int(ends_epoch)
            if better:
                progress.best, progress.best_step = loss, progress.step
            values = {f"val_loss_{self.metric}": loss, f"val_recovery_{self.metric}": correct / count}
            self.log.log(progress.step, values, progress=False)
            if better and self.config.save_every != 0:
                self.save(best=True)

    def save(self, best: bool = False) -> None:
        with self.log.paused():
            save_checkpoint(
                self.acc,
                self.run,
                self.progress.step,
                model=self.model,
                optimizer=self.optimiser,
                state={"progress": self.progress.to_dict()},
                keep=self.config.keep_checkpoints,
                best=best,
            )
        self.saved_step = self.progress.step

    def finish(self, sizes: dict) -> dict:
        """Final checkpoint, evaluation, results, export and report; returns the results."""
        acc, config, progress = self.acc, self.config, self.progress
        bayes = BayesScores.load(self.data, self.tables.unigram, config.seed) if self.data.synthetic else None
        if config.save_every != 0:
            self.save()
        scores = self.scores("val", ("masked", "any_order", "one_shot"), bayes and bayes.add)
        if scores is None:
            return {}
        results = summarise(scores)
        if bayes is not None:
            results |= bayes.results(lambda sums: global_sums(acc, sums))
        results |= self.facts(sizes)
        export = save_export(
            acc,
            self.run,
            model=self.model,
            config={**acc.unwrap_model(self.model).config.to_dict(), "temperature": results["temperature"]},
            card=model_card(config, results, self.data.rule),
            extra={"tables.safetensors": self.tables.tensors()},
        )
        if acc.is_main_process:
            for path in filter(None, (self.run.path / "results.json", config.report_json)):
                atomic_write_json(path, results)
            if config.visualize:
                write_run_report(self.run.path, config, results, scores)
        assert_equal_across_ranks(acc, state_hash(acc.unwrap_model(self.model)), "final weights")
        self.log.note(f"export {export}")
        return results

    def facts(self, sizes: dict) -> dict:
        progress = self.progress
        sides = self.data.sizes()
        return {
            "residues_per_s": progress.residues / max(progress.train_wall_s, 1e-9),
            "train_residues": sizes["train_residues"],
            "train_chains": sides["train"]["chains"],
            "train_units": sides["train"]["units"],
            "val_units": sides["val"]["units"],
            "steps": progress.step,
            "epochs": progress.epoch,
            "residues_seen": progress.residues,
            "cpu_s": round(progress.train_cpu_s, 3),
            "wall_s": round(self.log.wall_s(), 3),
            "processes": self.acc.num_processes,
            "best_step": progress.best_step,
            "synthetic": self.data.synthetic,
        }


if __name__ == "__main__":
    sys.exit(launch.run(main, ProteinOptions, aliases=ALIASES))
