"""Train a team for the game snakes 3v3 by discrete multi-agent DDPG, against bots and against itself.

CPU demo:    make train-snakes
One process: python scripts/train_snakes.py --opponent_difficulty_strategy fixed --max_minutes 1
8 GPUs:      accelerate launch --config_file accelerate_configs/gpu_8.yaml scripts/train_snakes.py ...
Many nodes:  sbatch slurm/many_nodes.sbatch, see docs/launching.md
Resume:      add --resume auto
"""

import math
import os
import sys
from dataclasses import dataclass
from functools import cached_property

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
from lib.local_average import Averaging
from lib.manifests import read_manifest
from lib.rank_files import under_prefix, with_prefix
from lib.ranks import Ranks
from lib.recent import RecentUpdates
from lib.runlog import RunLog, read_metrics, tracker_kinds
from lib.seeds import derive, seed_global
from lib.snakes import evaluation, former_runs, reporting
from lib.snakes.collector import STATISTICS as GAME_STATISTICS
from lib.snakes.collector import Collector
from lib.snakes.league import LEARNER, League
from lib.snakes.learner import STATISTICS, Learner, Targets
from lib.snakes.options import ALIASES, SnakesOptions, check_options, judge_names
from lib.snakes.playing import Games
from lib.snakes.progress import Progress

TRAINER = "snakes"
LOOK_STEPS = 50  # updates between looks at signals and at numbers that are not finite
# One small model: one message for all gradients.
ONE_BUCKET = DistributedDataParallelKwargs(bucket_cap_mb=64)


@dataclass
class Session:
    """What the steps below share."""

    acc: Accelerator
    run: RunDirectory
    config: SnakesOptions
    ranks: Ranks
    signals: StopSignals
    learner: torch.nn.Module
    optimiser: torch.optim.Optimizer
    rates: tuple[float, float]  # actor's and critics' after --lr_scale
    targets: Targets
    averaging: Averaging
    games: Games
    recent: RecentUpdates
    sums: torch.Tensor  # of the updates since the last row of the log, by STATISTICS
    drawn: tuple | None = None  # the batch of the next update and its seats, where it is drawn ahead
    told: torch.Tensor | None = None  # by all processes with the last gradients, until it is looked at
    log: RunLog | None = None
    saved_step: int = -1

    @cached_property
    def actor(self):
        """The actor that plays, without the wrapper of data parallel training; looking through it takes long."""
        return self.acc.unwrap_model(self.learner).actor

    @property
    def progress(self) -> Progress:
        return self.games.progress


def main(config: SnakesOptions) -> None:
    notes = check_options(config)
    tracker_kinds(config.report_to)
    acc = launch.start(config, precision="fp32", sharding=False, handlers=(ONE_BUCKET,))
    first = former_runs.weights(config)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    for note in notes:
        run.note(acc, note)
    session = prepare(acc, run, config, first)
    budget = session.games.budget
    parameters = sum(value.numel() for value in acc.unwrap_model(session.learner).parameters())
    batch, facts = reporting.plan_notes(config, parameters, budget, acc.num_processes)
    if acc.num_processes > 1:
        facts["gradients"] = f"averaged by {'shared memory' if session.averaging.shared else 'all-reduce'}"
    launch.announce(acc, config, trainer=TRAINER, effective_batch=batch, learning_rate=session.rates[0], notes=facts)
    if config.dry_run:
        acc.print("dry run: nothing was trained")
        return
    found = find_checkpoint(acc, run, config.resume)
    if found is not None:
        restore(session, found)
    with session.signals, RunLog(acc, run, config, budget.planned_updates, "env_steps") as log:
        session.log = session.games.log = log
        done = train(session)
        results = finish(session) if done else None
        if results is None:
            name = session.signals.name or "a signal"
            log.note(f"stopped by {name} after step {session.saved_step}: continue with --resume auto")
    if acc.is_main_process and results is not None:
        print(f"{reporting.result_table(results)}\nresults.json, report.html and export/ are in {run.path}")
        print("Training completed!", flush=True)
    run.close()


def prepare(acc: Accelerator, run: RunDirectory, config: SnakesOptions, first: dict | None) -> Session:
    """Networks, optimiser, targets, games and replay; equal weights on every rank, other games on each."""
    seed_global(config.seed, "weights")
    ranks, signals = Ranks(acc), StopSignals()
    learner = Learner(config.learner_config())
    if first is not None:
        learner.load_state_dict(first)
    n = acc.num_processes
    rates = tuple(launch.scaled_learning_rate(rate, config.lr_scale, n, 1) for rate in (config.a_lr, config.c_lr))
    groups = [
        {"params": list(part.parameters()), "lr": rate} for part, rate in zip((learner.actor, learner.critics), rates)
    ]
    optimiser = torch.optim.Adam(groups, fused=True)
    assert_equal_across_ranks(acc, state_hash(learner), "initial weights")
    learner, optimiser = acc.prepare(learner, optimiser)
    averaging = Averaging(acc, learner, config.dist_timeout)
    bare = acc.unwrap_model(learner)
    league = None
    if config.opponent_difficulty_strategy == "league":
        league = League(config.league, config.num_envs, bare.actor.config, config.seed, acc.device)
    neighbours = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    collector = Collector(config, league, rank=ranks.index, device=acc.device, neighbours=neighbours)
    return Session(
        acc, run, config, ranks, signals, learner, optimiser, rates, Targets(bare, config.gamma), averaging,
        Games(config, collector, league, ranks, signals), RecentUpdates(ranks, "lower --a_lr and --c_lr"),
        torch.zeros(len(STATISTICS), device=acc.device),
    )  # fmt: skip


def train(session: Session) -> bool:
    """Play, draw, learn, log, evaluate, save; False when a signal ended it (the state is saved)."""
    games, progress = session.games, session.progress
    if evaluation_due(session) and not evaluate(session):  # a signal came in the midst of it, before this resume
        return False
    games.agree_on_time()  # a resumed run may have been given more
    clock = StepClock()
    while not games.spent:
        if progress.credit < 1 or not games.can_draw:
            stop = play(session)
            clock.add_to(progress)
            if stop:
                look(session)
                return save(session)
            continue
        noticed = update(session)
        saves = games.save_due()
        logs = progress.step % session.config.log_every == 0
        looks = noticed or logs or saves or evaluation_due(session) or len(session.recent) >= LOOK_STEPS
        stop = (looks and look(session)) or noticed
        clock.add_to(progress)
        if logs:
            report(session)
        if looks and not stop and evaluation_due(session):
            stop = not evaluate(session)
        if (stop or saves) and session.saved_step != progress.step:
            save(session)
        if saves:
            write_weights(session)
        if stop:
            return False
        clock.start()
    stop = look(session)
    if float(session.sums[-1]):  # updates since the last row
        report(session)
    write_weights(session)
    return not stop or save(session)


def play(session: Session) -> bool:
    """One step of all games. True when a signal was noticed."""
    session.log.add_units(session.games.steps_per_play)
    return session.games.play(session.actor)


def update(session: Session) -> bool:
    """One optimiser step along the mean loss over the transitions of all processes. True when a signal was noticed.

    The games that are due until the next update are played between the backward pass and the step, with the weights of
    before, and its batch is drawn: a rank that is a little late then keeps nobody waiting, and one process does the
    same as many.
    """
    acc, config, games, progress = session.acc, session.config, session.games, session.progress
    batch, seats = session.drawn or games.draw()
    seed = derive(config.seed, "gumbel", progress.step, acc.process_index)
    targets = session.targets(batch, seed)
    for group, rate in zip(session.optimiser.param_groups, session.rates, strict=True):
        group["lr"] = rate * games.rate_factor()
    loss, sums, finite = session.averaging.model(batch.features, batch.actions, targets, batch.weight, seed)
    acc.backward(loss)
    # Transitions whose future was cut off do not count.
    rows, stop = batch.weight.sum() * batch.actions.shape[1], float(session.signals.requested)
    session.averaging.post(rows, session.recent.met(finite), stop)
    progress.step += 1
    progress.credit -= 1.0
    noticed = False
    while games.due:  # all of them: a run that goes on must not play the rest with other weights
        noticed = play(session) or noticed
    session.drawn = games.draw() if progress.credit >= 1 else None
    session.told = session.averaging.take()
    norm = acc.clip_grad_norm_(session.learner.parameters(), config.max_grad_norm or math.inf)
    session.optimiser.step()
    session.optimiser.zero_grad()
    session.targets.follow(config.tau)
    session.sums += sums
    session.recent.add(progress.step, seats, finite, norm)
    return noticed


def look(session: Session) -> bool:
    """End at numbers that are not finite; whether a signal came to any process.

    What has been told with the gradients is not asked again.
    """
    name_of = session.games.collector.name_of
    if session.told is None:
        return session.recent.look(session.signals.requested, name_of, session.saved_step)
    _, bad, stop = session.told.tolist()
    session.told = None
    session.recent.judge(bad > 0, name_of, session.saved_step)
    return stop > 0


def report(session: Session) -> None:
    """A row of metrics, and a block of the log for every --log_interval games."""
    games, progress, collector = session.games, session.progress, session.games.collector
    mine = dict(zip(STATISTICS, session.sums.tolist(), strict=True))
    mine |= {f"game {name}": value for name, value in collector.look().items()}
    session.sums.zero_()
    seen = global_sums(session.acc, mine)
    values, played = reporting.training_row(session.config, seen), {n: seen[f"game {n}"] for n in GAME_STATISTICS}
    values |= {"epsilon": collector.epsilon, "games": progress.games}
    values |= {"lr": session.optimiser.param_groups[0]["lr"]}
    if games.league is not None:
        values["elo"] = games.league.ratings[LEARNER]
    session.log.log(progress.step, values)
    block = progress.block = {name: progress.block.get(name, 0.0) + played[name] for name in GAME_STATISTICS}
    if block["games"] >= session.config.log_interval:
        session.log.say(reporting.block(session.config, collector, block, values))
        progress.block = {}


def evaluation_due(session: Session) -> bool:
    """Whether an evaluation follows the update just done: every --eval_every updates."""
    every = 1000 if session.config.eval_every is None else session.config.eval_every
    step = session.progress.step
    return every > 0 and step > 0 and step % every == 0 and session.progress.validated_step != step


def play_matches(session: Session, pairs: list, purpose: str) -> list | None:
    """Matches of the team and of bots; None when a signal came. Other games for every purpose: those that chose the
    best weights do not measure them."""
    seed = derive(session.config.seed, "evaluation", purpose)
    with session.log.paused():
        return evaluation.play_all(session.ranks, pairs, session.actor, seed=seed, signals=session.signals)


def evaluate(session: Session) -> bool:
    """Win rates against the judges; weights that are the best so far are saved. False when a signal came."""
    config, progress = session.config, session.progress
    matches = play_matches(session, evaluation.judge_pairs(judge_names(config.judges), config.eval_games), "best")
    if matches is None:
        return False
    rates = {match.right: match.win_rate for match in matches}
    better = progress.judged(rates)
    values = {f"eval/win_rate_{name}": rate for name, rate in rates.items()}
    session.log.log(progress.step, values | {"train_s": round(progress.train_wall_s, 3)}, progress=False)
    if better and config.save_every != 0:
        save(session, best=True)
    return True


def write_weights(session: Session) -> None:
    """The originals' files of weights."""
    acc, config = session.acc, session.config
    if acc.is_main_process:
        episode = former_runs.episode_name(config, session.progress.games // acc.num_processes)
        former_runs.write(session.run.path, config, episode, acc.unwrap_model(session.learner))


def save(session: Session, best: bool = False) -> bool:
    """The whole state, replay included; False, for a caller that stops after it."""
    acc, progress = session.acc, session.progress
    state, snapshots, own = session.games.get_state()
    with session.log.paused():
        save_checkpoint(
            acc, session.run, progress.step, model=session.learner, optimizer=session.optimiser, state=state,
            keep=session.config.keep_checkpoints, best=best,
            common=with_prefix("targets", session.targets.tensors) | with_prefix("league", snapshots),
            rank_tensors=own | {"sums": session.sums.cpu()},
        )  # fmt: skip
    session.saved_step = progress.step
    return False


def restore(session: Session, found) -> None:
    """Continue from a checkpoint; with another number of processes games and replay begin anew."""
    acc, run = session.acc, session.run
    state = load_checkpoint(acc, found, model=session.learner, optimizer=session.optimiser)
    common = load_common(acc, found)
    session.targets.load(under_prefix("targets", common))
    own = None
    if read_manifest(found).world_size == acc.num_processes:
        own = load_rank(acc, found)
        session.sums = own.pop("sums").to(acc.device)
    else:
        run.note(acc, "games and replay begin anew: they belong to another number of processes")
    session.games.set_state(state, under_prefix("league", common), own)
    session.saved_step = session.progress.step


def finish(session: Session) -> dict | None:
    """Last checkpoint, the best weights, their matches, export and report; None when a signal came."""
    acc, run, config, progress = session.acc, session.run, session.config, session.progress
    if config.save_every != 0:
        if progress.best_step != -1 and progress.validated_step != progress.step and not evaluate(session):
            return None
        if session.saved_step != progress.step:
            save(session)
        best = best_checkpoint(acc, run) if progress.best_step not in (-1, progress.step) else None
        if best is not None and best.name == f"step-{progress.best_step:08d}":
            run.note(acc, f"the weights of step {progress.best_step} are the best in evaluation and are taken")
            load_checkpoint(acc, best, model=session.learner, optimizer=session.optimiser)
    matches = play_matches(session, evaluation.final_pairs(config.final_games), "final")
    if matches is None:
        return None
    standing = evaluation.Standing(matches)
    results = standing.results() | progress.results()
    results |= {"wall_s": round(session.log.wall_s(), 3), "processes": acc.num_processes}
    results["weights_sha256"] = state_hash(acc.unwrap_model(session.learner))
    assert_equal_across_ranks(acc, results["weights_sha256"], "final weights")
    described = session.actor.config.to_dict()
    save_export(acc, run, model=session.actor, config=described, card=reporting.model_card(config, results))
    if acc.is_main_process:
        for path in filter(None, (run.path / "results.json", config.report_json)):
            atomic_write_json(path, results)
        if config.visualize:
            rows = read_metrics(run.path / "metrics.jsonl")
            reporting.write_run_report(run.path, config, results, standing, session.actor, rows)
    return results


if __name__ == "__main__":
    sys.exit(launch.run(main, SnakesOptions, aliases=ALIASES))
