"""Train a team for unit battles in SMAC's layout by QMIX, against scripted enemies.

CPU demo:    make train-omagd
One process: python scripts/train_omagd.py --map 3m --max_minutes 1
8 GPUs:      accelerate launch --config_file accelerate_configs/gpu_8.yaml scripts/train_omagd.py --map 3s5z ...
Many nodes:  sbatch slurm/many_nodes.sbatch, see docs/launching.md
Resume:      add --resume auto
"""

import math
import sys
from dataclasses import asdict, dataclass

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs

from lib import launch
from lib.checkpoint import (
    RunDirectory,
    StopSignals,
    atomic_write_json,
    best_checkpoint,
    find_checkpoint,
    load_checkpoint,
    load_common,
    load_rank,
    save_checkpoint,
    save_export,
)
from lib.clock import StepClock
from lib.distributed import assert_equal_across_ranks, global_sums, state_hash
from lib.errors import UserError
from lib.local_average import Averaging
from lib.manifests import read_manifest
from lib.omagd import evaluation, reporting
from lib.omagd.battle.battle import BattleVec
from lib.omagd.evaluation import SCRIPTED, Tally, Trials
from lib.omagd.learning.collector import Collector
from lib.omagd.learning.qmix import STATISTICS, Learner, Targets
from lib.omagd.learning.replay import EpisodeReplay
from lib.omagd.options import ALIASES, OmagdOptions, check_options
from lib.omagd.progress import Plan, Progress
from lib.rank_files import under_prefix, with_prefix
from lib.ranks import Ranks
from lib.recent import RecentUpdates
from lib.runlog import RunLog, read_metrics, tracker_kinds
from lib.seeds import derive, seed_global

TRAINER = "omagd"
LOOK_PLAYS = 50  # steps of all battles between the same looks
LOOK_STEPS = 5  # updates between looks at signals, at the clock and at the episodes of all processes
# One small model: one message for all gradients.
ONE_BUCKET = DistributedDataParallelKwargs(bucket_cap_mb=64)


@dataclass
class Session:
    """What the steps below share."""

    acc: Accelerator
    run: RunDirectory
    config: OmagdOptions
    plan: Plan
    ranks: Ranks
    signals: StopSignals
    learner: torch.nn.Module
    optimiser: torch.optim.Optimizer
    rate: float  # after --lr_scale
    targets: Targets
    averaging: Averaging
    collector: Collector
    recent: RecentUpdates
    sums: torch.Tensor  # of the updates since the last row of the log, by STATISTICS
    test: Trials | None = None
    progress: Progress = None
    log: RunLog | None = None
    saved_step: int = -1

    @property
    def bare(self) -> Learner:
        """Agent and mixer, without the wrapper of data parallel training."""
        return self.acc.unwrap_model(self.learner)


def main(config: OmagdOptions) -> None:
    tracker_kinds(config.report_to)
    acc = launch.start(config, precision="fp32", sharding=(), handlers=(ONE_BUCKET,))
    notes = check_options(config)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    for note in notes:
        run.note(acc, note)
    session = prepare(acc, run, config)
    layout = session.collector.battles.layout
    parameters = sum(value.numel() for value in session.bare.parameters())
    batch, facts = reporting.plan_notes(config, parameters, session.plan, layout, acc.num_processes)
    if acc.num_processes > 1:
        facts["gradients"] = f"averaged by {'shared memory' if session.averaging.shared else 'all-reduce'}"
    launch.announce(acc, config, trainer=TRAINER, effective_batch=batch, learning_rate=session.rate, notes=facts)
    if config.dry_run:
        acc.print("dry run: nothing was trained")
        return
    found = find_checkpoint(acc, run, config.resume)
    if found is not None:
        restore(session, found)
    with session.signals, RunLog(acc, run, config, session.plan.updates, "env_steps") as session.log:
        done = train(session)
        results = finish(session) if done else None
        if results is None:
            name = session.signals.name or "a signal"
            session.log.note(f"stopped by {name} after step {session.saved_step}: continue with --resume auto")
    if acc.is_main_process and results is not None:
        print(f"{reporting.result_table(results)}\nresults.json, report.html and export/ are in {run.path}")
        print("Training completed!", flush=True)
    run.close()


def prepare(acc: Accelerator, run: RunDirectory, config: OmagdOptions) -> Session:
    """Networks, optimiser, targets, battles and replay; equal weights on every rank, other battles on each."""
    seed_global(config.seed, "weights")
    ranks, n = Ranks(acc), config.batch_size_run
    learner = Learner(config.qmix_config())
    rate = launch.scaled_learning_rate(config.lr, config.lr_scale, acc.num_processes, 1)
    optimiser = torch.optim.Adam(learner.parameters(), lr=rate, fused=True)
    assert_equal_across_ranks(acc, state_hash(learner), "initial weights")
    learner, optimiser = acc.prepare(learner, optimiser)
    averaging = Averaging(acc, learner, config.dist_timeout)
    battles = BattleVec(
        config.map, n, device=acc.device, seed=derive(config.seed, "battles") % 2**63,
        first_battle=acc.process_index * n, **config.battle_options(),
    )  # fmt: skip
    replay = EpisodeReplay(
        battles.layout, config.buffer_size, config.buffer_steps, n, acc.process_index * n, acc.device
    )
    return Session(
        acc, run, config, Plan(config, battles.map, acc.num_processes), ranks, StopSignals(), learner, optimiser, rate,
        Targets(acc.unwrap_model(learner)), averaging, Collector(battles, replay, config.observe == "full_obs"),
        RecentUpdates(ranks, "lower --lr"), torch.zeros(len(STATISTICS), device=acc.device), progress=Progress(),
    )  # fmt: skip


def train(session: Session) -> bool:
    """Play, draw, learn, log, test, save; False when a signal ended it (the state is saved)."""
    config, progress, plan = session.config, session.progress, session.plan
    if test_due(session) and not evaluate(session):  # a signal came in the midst of it, before this resume
        return False
    look(session)  # a resumed run may have been given more time
    clock = StepClock()
    while not plan.spent(progress):
        if not plan.due(progress):
            play(session)
            if progress.played % LOOK_PLAYS == 0 and look(session):  # there may be no updates for long
                clock.add_to(progress)
                return save(session)
            continue
        update(session)
        logs, saves = progress.step % config.log_every == 0, save_due(session)
        looks = logs or saves or test_due(session) or progress.step % LOOK_STEPS == 0
        stop = looks and look(session)
        clock.add_to(progress)
        if logs:
            report(session)
        if not stop and test_due(session):
            stop = not evaluate(session)
        if (stop or saves) and session.saved_step != progress.step:
            save(session)
        if stop:
            return False
        clock.start()
    clock.add_to(progress)
    stop = look(session)
    if float(session.sums[-1]):  # updates since the last row
        report(session)
    return not stop or save(session)


def play(session: Session) -> None:
    """One step of all battles."""
    progress = session.progress
    session.collector.step(session.bare.agent, session.plan.epsilon(progress))
    progress.played += 1
    progress.env_steps += session.plan.per_step
    session.log.add_units(session.plan.per_step)


def update(session: Session) -> None:
    """One optimiser step along the mean loss over the steps of all processes' episodes."""
    acc, config, progress = session.acc, session.config, session.progress
    batch = session.collector.replay.sample(config.per_device_batch_size, config.seed, progress.step)
    steps = acc.reduce(torch.tensor(float(len(batch.rewards)), device=acc.device), reduction="sum")
    with session.averaging.local():
        loss, sums = session.learner(batch, session.targets)
        # The gradients are averaged over the processes: times their number, over the global count, is the global mean.
        acc.backward(loss * (acc.num_processes / steps))
    session.averaging.post()
    session.averaging.take()
    norm = acc.clip_grad_norm_(session.learner.parameters(), config.max_grad_norm or math.inf)
    session.optimiser.step()
    session.optimiser.zero_grad()
    progress.step += 1
    session.sums += sums
    finite = torch.isfinite(loss).view(1)
    session.recent.add(progress.step, torch.tensor([progress.step], device=acc.device), finite, norm)


def look(session: Session) -> bool:
    """Agree on episodes, time and signals, copy the targets when they are due; end at numbers that are not finite.

    Whether a signal came to any process.
    """
    progress, log = session.progress, session.log
    mine = {"episodes": float(session.collector.replay.added)}
    mine["seconds"] = log.wall_s() if session.acc.is_main_process else 0.0
    seen = global_sums(session.acc, mine)
    progress.episodes = progress.former_episodes + int(seen["episodes"])
    progress.share = seen["seconds"] / session.plan.max_wall_s
    if progress.episodes - progress.copied >= session.config.target_update_interval:
        session.targets.follow(session.bare)
        progress.copied = progress.episodes
    return session.recent.look(session.signals.requested, lambda step: f"batch-{step:06d}", session.saved_step)


def report(session: Session) -> None:
    """A row of metrics."""
    progress = session.progress
    mine = dict(zip(STATISTICS, session.sums.tolist(), strict=True))
    mine |= {f"episodes {name}": value for name, value in session.collector.look().items()}
    session.sums.zero_()
    seen = global_sums(session.acc, mine)
    episodes = {name.removeprefix("episodes "): value for name, value in seen.items() if name.startswith("episodes ")}
    values = reporting.training_row(seen, episodes)
    values |= {"epsilon": session.plan.epsilon(progress), "episodes": progress.episodes}
    values |= {"env_steps": progress.env_steps, "lr": session.optimiser.param_groups[0]["lr"]}
    session.log.log(progress.step, values)


def test_due(session: Session) -> bool:
    """Whether a test follows the update just done: every --eval_every updates."""
    every = 200 if session.config.eval_every is None else session.config.eval_every
    step = session.progress.step
    return every > 0 and step > 0 and step % every == 0 and session.progress.validated_step != step


def play_test(session: Session, test: Trials, player) -> Tally | None:
    """Test battles of all processes; None when a signal came."""
    with session.log.paused():
        mine = evaluation.play_share(test, player, lambda: session.signals.requested)
    if session.signals.agreed(session.acc):
        return None
    return Tally(**global_sums(session.acc, asdict(mine)))


def make_test(session: Session, count: int, purpose: str) -> Trials:
    """Other battles for every purpose: those that chose the best weights do not measure them."""
    acc, config = session.acc, session.config
    return Trials(
        config.map, count, seed=derive(config.seed, "test", purpose) % 2**63, rank=acc.process_index,
        processes=acc.num_processes, device=acc.device, full=config.observe == "full_obs", **config.battle_options(),
    )  # fmt: skip


def evaluate(session: Session) -> bool:
    """The greedy win rate; weights that are the best so far are saved. False when a signal came."""
    config, progress = session.config, session.progress
    session.test = session.test or make_test(session, config.test_nepisode, "best")
    tally = play_test(session, session.test, session.bare.agent)
    if tally is None:
        return False
    better = progress.judged(tally.mean("won"))
    values = {"test/win_rate": tally.mean("won"), "test/return": tally.mean("returns")}
    session.log.log(progress.step, values | {"train_s": round(progress.train_wall_s, 3)}, progress=False)
    if better and config.save_every != 0:
        save(session, best=True)
    return True


def save_due(session: Session) -> bool:
    """Every --save_every updates, 1,000 unless given."""
    every = 1000 if session.config.save_every is None else session.config.save_every
    return every > 0 and session.progress.step % every == 0


def save(session: Session, best: bool = False) -> bool:
    """The whole state, replay included; False, for a caller that stops after it."""
    acc, progress = session.acc, session.progress
    with session.log.paused():
        save_checkpoint(
            acc, session.run, progress.step, model=session.learner, optimizer=session.optimiser,
            state={"progress": progress.to_dict(), "battle": described(session.config)}, best=best,
            keep=session.config.keep_checkpoints, common=with_prefix("targets", session.targets.state_dict()),
            rank_tensors=session.collector.get_state() | {"sums": session.sums.cpu()},
        )  # fmt: skip
    session.saved_step = progress.step
    return False


def described(config: OmagdOptions) -> dict:
    """What is fought and what is told of it."""
    return {"map": config.map, "observe": config.observe, **config.battle_options()}


def restore(session: Session, found) -> None:
    """Continue from a checkpoint; with another number of processes battles and replay begin anew."""
    acc, run = session.acc, session.run
    state = load_checkpoint(acc, found, model=session.learner, optimizer=session.optimiser)
    wanted = described(session.config)
    for name, saved in state["battle"].items():
        if saved != wanted[name]:
            raise UserError(
                f"--{name} {wanted[name]}, and {found} was trained with {saved}: their episodes and tests do not go"
                " together; resume with the saved value, or begin a new run"
            )
    for group in session.optimiser.param_groups:
        group["lr"] = session.rate
    session.progress = Progress(**state["progress"])
    session.saved_step = session.progress.step
    session.targets.load_state_dict(under_prefix("targets", load_common(acc, found)))
    if read_manifest(found).world_size == acc.num_processes:
        tensors = load_rank(acc, found)
        session.sums = tensors.pop("sums").to(acc.device)
        session.collector.set_state(tensors)
    else:
        run.note(acc, "battles and replay begin anew: they belong to another number of processes")
        session.plan.begin_anew(session.progress)


def finish(session: Session) -> dict | None:
    """Last checkpoint, the best weights, their battles, export and report; None when a signal came."""
    acc, run, config, progress = session.acc, session.run, session.config, session.progress
    if config.save_every != 0:
        if progress.best_step != -1 and progress.validated_step != progress.step and not evaluate(session):
            return None
        if session.saved_step != progress.step:
            save(session)
        best = best_checkpoint(acc, run) if progress.best_step not in (-1, progress.step) else None
        if best is not None and best.name == f"step-{progress.best_step:08d}":
            run.note(acc, f"the weights of step {progress.best_step} are the best in tests and are taken")
            load_checkpoint(acc, best, model=session.learner, optimizer=session.optimiser)
    test, tallies = make_test(session, config.final_nepisode, "final"), {}
    for name, player in (("test", session.bare.agent), ("scripted", SCRIPTED), ("random", "random")):
        tallies[name] = play_test(session, test, player)
        if tallies[name] is None:
            return None
    results = reporting.results_of(tallies) | progress.results()
    results |= {"map": config.map, "sight": config.sight, "observe": config.observe}
    results |= {"epsilon": session.plan.epsilon(progress), "processes": acc.num_processes}
    results |= {"wall_s": round(session.log.wall_s(), 3), "weights_sha256": state_hash(session.bare)}
    assert_equal_across_ranks(acc, results["weights_sha256"], "final weights")
    sizes = session.bare.agent.config.to_dict() | {"battle": described(config)}
    save_export(acc, run, model=session.bare.agent, config=sizes, card=reporting.model_card(config, results))
    if acc.is_main_process:
        for path in filter(None, (run.path / "results.json", config.report_json)):
            atomic_write_json(path, results)
        if config.visualize:
            reporting.write_run_report(run.path, config, results, tallies, read_metrics(run.path / "metrics.jsonl"))
    return results


if __name__ == "__main__":
    sys.exit(launch.run(main, OmagdOptions, aliases=ALIASES))
