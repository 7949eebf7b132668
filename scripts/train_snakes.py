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
from dataclasses import dataclass, field

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
from lib.distributed import assert_equal_across_ranks, gather_rows, global_sums, state_hash
from lib.errors import UserError
from lib.local_average import Averaging
from lib.manifests import read_manifest
from lib.rank_files import under_prefix, with_prefix
from lib.runlog import RunLog, read_metrics, tracker_kinds
from lib.seeds import derive, seed_global
from lib.snakes import evaluation, former_runs, reporting
from lib.snakes.collector import STATISTICS as GAME_STATISTICS
from lib.snakes.collector import Collector
from lib.snakes.league import LEARNER, League
from lib.snakes.learner import STATISTICS, Learner, Targets
from lib.snakes.options import ALIASES, SnakesOptions, check_options, judge_names
from lib.snakes.page import replay_fragment
from lib.snakes.players import NetworkPlayer, ScriptedPlayer
from lib.snakes.progress import Budget, Progress
from lib.snakes.recording import record_game

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
    learner: torch.nn.Module
    optimiser: torch.optim.Optimizer
    targets: Targets
    league: League | None
    collector: Collector
    budget: Budget
    rates: tuple[float, float]  # actor's and critics' after --lr_scale
    averaging: Averaging
    progress: Progress = field(default_factory=Progress)
    signals: StopSignals = field(default_factory=StopSignals)
    log: RunLog | None = None
    sums: torch.Tensor | None = None  # of the updates since the last row of the log, by STATISTICS
    window: list = field(default_factory=list)  # updates since the last look: (step, seats, finite, gradient norm)
    saved_step: int = -1
    drawn: tuple | None = None  # the batch of the next update and its seats, where it is drawn ahead

    @property
    def actor(self):
        """The actor that plays, without the wrapper of data parallel training."""
        return self.acc.unwrap_model(self.learner).actor


def main(config: SnakesOptions) -> None:
    notes = check_options(config)
    tracker_kinds(config.report_to)
    acc = launch.start(config, precision="fp32", sharding=(), handlers=(ONE_BUCKET,))
    first = former_runs.weights(config)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    for note in notes:
        run.note(acc, note)
    session = prepare(acc, run, config, first)
    parameters = sum(value.numel() for value in acc.unwrap_model(session.learner).parameters())
    batch, facts = reporting.plan_notes(config, parameters, session.budget, acc.num_processes)
    if acc.num_processes > 1:
        facts["gradients"] = f"averaged by {'shared memory' if session.averaging.shared else 'all-reduce'}"
    launch.announce(acc, config, trainer=TRAINER, effective_batch=batch, learning_rate=session.rates[0], notes=facts)
    if config.dry_run:
        acc.print("dry run: nothing was trained")
        return
    found = find_checkpoint(acc, run, config.resume)
    if found is not None:
        restore(session, found)
    with session.signals, RunLog(acc, run, config, session.budget.planned_updates, "env_steps") as session.log:
        done = train(session)
        results = finish(session) if done else None
        if results is None:
            name = session.signals.name or "a signal"
            session.log.note(f"stopped by {name} after step {session.saved_step}: continue with --resume auto")
    if acc.is_main_process and results is not None:
        print(f"{reporting.result_table(results)}\nresults.json, report.html and export/ are in {run.path}")
        print("Training completed!", flush=True)
    run.close()


def prepare(acc: Accelerator, run: RunDirectory, config: SnakesOptions, first: dict | None) -> Session:
    """Networks, optimiser, targets, games and replay; equal weights on every rank, other games on each."""
    seed_global(config.seed, "weights")
    n = acc.num_processes
    learner = Learner(config.learner_config())
    if first is not None:
        learner.load_state_dict(first)
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
    collector = Collector(config, league, rank=acc.process_index, device=acc.device, neighbours=neighbours)
    targets = Targets(bare, config.gamma)
    sums = torch.zeros(len(STATISTICS), device=acc.device)
    return Session(
        acc, run, config, learner, optimiser, targets, league, collector, Budget(config), rates, averaging, sums=sums
    )


def train(session: Session) -> bool:
    """Play, draw, learn, log, evaluate, save; False when a signal ended it (the state is saved)."""
    config, progress, collector = session.config, session.progress, session.collector
    if evaluation_due(session) and not evaluate(session):  # a signal came in the midst of it, before this resume
        return False
    agree_on_time(session)  # a resumed run may have been given more
    clock = StepClock()
    while not session.budget.spent(progress, collector.steps):
        if progress.credit < 1 or not can_draw(session):
            stop = play(session)
            clock.add_to(progress)
            if stop:
                look(session)
                return save(session)
            continue
        noticed = update(session)
        saves = save_due(session)
        logs = progress.step % config.log_every == 0
        looks = noticed or logs or saves or evaluation_due(session) or len(session.window) >= LOOK_STEPS
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


def can_draw(session: Session) -> bool:
    """Whether the replay holds a batch: at the same step on every process."""
    collector = session.collector
    return collector.buffer.drawable * len(collector.seats) >= session.config.batch_size


def write_weights(session: Session) -> None:
    """The originals' files of weights."""
    acc, config = session.acc, session.config
    if acc.is_main_process:
        episode = former_runs.episode_name(config, session.progress.games // acc.num_processes)
        former_runs.write(session.run.path, config, episode, acc.unwrap_model(session.learner))


def play(session: Session) -> bool:
    """One step of all games, and what it owes in updates; at the end of a game's length the opponents change. True when
    a signal was noticed then: while the replay fills up there are no updates after which it could be."""
    config, progress, collector = session.config, session.progress, session.collector
    collector.step(session.actor)
    progress.env_steps += config.num_envs * session.acc.num_processes
    session.log.add_units(config.num_envs * session.acc.num_processes)
    if collector.steps % config.update_interval == 0:
        progress.credit += config.updates_per_step * config.update_interval
    if not can_draw(session):
        progress.credit = 0.0
    return collector.turns and turn(session)


def agree_on_time(session: Session) -> None:
    """The main process's clock says for all how much of --max_minutes is used up."""
    seconds = session.log.wall_s() if session.acc.is_main_process else 0.0
    session.progress.share = global_sums(session.acc, {"seconds": seconds})["seconds"] / session.budget.max_wall_s


def turn(session: Session) -> bool:
    """Results of the games that ended, summed over all processes: the league draws its conclusions. True when a signal
    came to any of them."""
    agree_on_time(session)
    played = session.collector.turn()
    values = {"games": float(played[:, 0].sum()), "stop": float(session.signals.requested)}
    values |= session.league.results(played) if session.league is not None else {}
    totals = global_sums(session.acc, values)
    session.progress.games += int(totals.pop("games"))
    stop = bool(totals.pop("stop"))
    if session.league is not None:
        name = session.league.next_generation(totals, session.actor)
        if name is not None:
            rating = session.league.ratings[LEARNER]
            session.log.note(f"{name} joins the league at Elo {rating:.0f}", snapshot=name)
    session.collector.seat_opponents()
    return stop


def update(session: Session) -> bool:
    """One optimiser step along the mean loss over the transitions of all processes. True when a signal was noticed.

    The games that are due until the next update are played between the backward pass and the step, with the weights of
    before, and its batch is drawn: a rank that is a little late then keeps nobody waiting, and one process does the
    same as many.
    """
    acc, config, progress = session.acc, session.config, session.progress
    batch, seats = session.drawn or draw(session)
    seed = derive(config.seed, "gumbel", progress.step, acc.process_index)
    targets = session.targets(batch, seed)
    rows = float(batch.actions.numel() * acc.num_processes)
    if config.episode_length < 200:  # transitions whose future was cut off do not count
        rows = acc.reduce(batch.weight.sum() * batch.actions.shape[1], reduction="sum").clamp_min(1.0)
    set_rates(session)
    with session.averaging.local():
        loss, sums, finite = session.learner(batch.features, batch.actions, targets, batch.weight, seed)
        # The gradients are averaged over the processes: times their number, over the global count, is the global mean.
        acc.backward(loss * (acc.num_processes / rows))
    session.averaging.post()
    progress.step += 1
    progress.credit -= 1.0
    noticed = False
    while progress.credit < 1 and not noticed and session.collector.steps < session.budget.lock_steps:
        noticed = play(session)
    session.drawn = draw(session) if progress.credit >= 1 else None
    session.averaging.take()
    norm = acc.clip_grad_norm_(session.learner.parameters(), config.max_grad_norm or math.inf)
    session.optimiser.step()
    session.optimiser.zero_grad()
    session.targets.follow(config.tau)
    session.sums += sums
    session.window.append((progress.step, seats, finite, norm))
    return noticed


def draw(session: Session) -> tuple:
    """The batch of the next update, and the seat of each of its transitions."""
    config, acc = session.config, session.acc
    buffer = session.collector.buffer
    return buffer.sample(config.batch_size, config.seed, session.progress.step, acc.process_index, acc.num_processes)


def set_rates(session: Session) -> None:
    """The learning rates of the next update."""
    if session.config.lr_schedule == "constant":
        return
    factor = 1.0 - 0.9 * session.budget.done(session.progress, session.collector.steps)
    for group, rate in zip(session.optimiser.param_groups, session.rates, strict=True):
        group["lr"] = rate * factor


def look(session: Session) -> bool:
    """End at numbers that are not finite; whether a signal came to any process."""
    acc, window = session.acc, session.window
    if not window:
        return session.signals.agreed(acc)
    finite = torch.stack([entry[2].all() & torch.isfinite(entry[3]) for entry in window]).cpu()
    seen = global_sums(acc, {"bad": float((~finite).sum()), "stop": float(session.signals.requested)})
    if seen["bad"]:
        rows = [
            (step, session.collector.name_of(seat)) for step, seats, mask, _ in window for seat in seats[~mask].tolist()
        ]
        rows = gather_rows(acc, rows)
        first = min((step for step, _ in rows), default=window[0][0])
        names = sorted({name for step, name in rows if step == first})
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise UserError(
            f"the loss or its gradient is not finite at step {first}, records {', '.join(names[:5]) or 'none'}{more}:"
            f" nothing after step {max(session.saved_step, 0)} was saved; lower --a_lr and --c_lr"
        )
    window.clear()
    return bool(seen["stop"])


def report(session: Session) -> None:
    """A row of metrics, and a block of the log for every --log_interval games."""
    acc, progress = session.acc, session.progress
    mine = dict(zip(STATISTICS, session.sums.tolist(), strict=True))
    mine |= {f"game {name}": value for name, value in session.collector.look().items()}
    session.sums.zero_()
    seen = global_sums(acc, mine)
    values, games = reporting.training_row(session.config, seen), {n: seen[f"game {n}"] for n in GAME_STATISTICS}
    values |= {"epsilon": session.collector.epsilon, "games": progress.games}
    values |= {"lr": session.optimiser.param_groups[0]["lr"]}
    if session.league is not None:
        values["elo"] = session.league.ratings[LEARNER]
    session.log.log(progress.step, values)
    block = progress.block = {name: progress.block.get(name, 0.0) + games[name] for name in GAME_STATISTICS}
    if block["games"] >= session.config.log_interval:
        session.log.say(reporting.block(session.config, session.collector, block, values))
        progress.block = {}


def evaluation_due(session: Session) -> bool:
    """Whether an evaluation follows the update just done: every --eval_every updates."""
    every = 1000 if session.config.eval_every is None else session.config.eval_every
    step = session.progress.step
    return every > 0 and step > 0 and step % every == 0 and session.progress.validated_step != step


def play_matches(session: Session, pairs: list, purpose: str) -> list | None:
    """Matches of the team and of bots, divided over the processes; None when a signal came. Other games for every
    purpose: those that chose the best weights do not measure them."""
    acc = session.acc
    with session.log.paused():
        shares = evaluation.play_shares(
            pairs, session.actor, seed=derive(session.config.seed, "evaluation", purpose), rank=acc.process_index,
            processes=acc.num_processes, device=acc.device, should_stop=lambda: session.signals.requested,
        )  # fmt: skip
    if session.signals.agreed(acc):
        return None
    parts = gather_rows(acc, [shares])
    return [sum(shares[1:], shares[0]) for shares in zip(*parts, strict=True)]


def evaluate(session: Session) -> bool:
    """Win rates against the judges; weights that are the best so far are saved. False when a signal came."""
    config, progress = session.config, session.progress
    matches = play_matches(session, evaluation.judge_pairs(judge_names(config.judges), config.eval_games), "best")
    if matches is None:
        return False
    rates = {match.right: match.win_rate for match in matches}
    progress.validated_step = progress.step
    if "greedy" in rates:
        progress.reach(rates["greedy"])
    mean = sum(rates.values()) / len(rates)
    better = mean > progress.best
    if better:
        progress.best, progress.best_step = mean, progress.step
    values = {f"eval/win_rate_{name}": rate for name, rate in rates.items()}
    session.log.log(progress.step, values | {"train_s": round(progress.train_wall_s, 3)}, progress=False)
    if better and config.save_every != 0:
        save(session, best=True)
    return True


def save_due(session: Session) -> bool:
    """Every --save_every updates where it is given, else every --save_interval games of a process."""
    config, progress = session.config, session.progress
    finished = progress.games // session.acc.num_processes
    if config.save_every is not None:
        return config.save_every > 0 and progress.step % config.save_every == 0
    if config.save_interval == 0 or finished // config.save_interval == progress.saved_games // config.save_interval:
        return False
    progress.saved_games = finished
    return True


def save(session: Session, best: bool = False) -> bool:
    """The whole state, replay included; False, for a caller that stops after it."""
    acc, progress = session.acc, session.progress
    counters, tensors = session.collector.get_state()
    league, snapshots = session.league.get_state() if session.league is not None else ({}, {})
    with session.log.paused():
        save_checkpoint(
            acc, session.run, progress.step, model=session.learner, optimizer=session.optimiser,
            state={"progress": progress.to_dict(), "counters": counters, "league": league},
            keep=session.config.keep_checkpoints, best=best,
            common=with_prefix("targets", session.targets.tensors) | with_prefix("league", snapshots),
            rank_tensors=tensors | {"sums": session.sums.cpu()},
        )  # fmt: skip
    session.saved_step = progress.step
    return False


def restore(session: Session, found) -> None:
    """Continue from a checkpoint; with another number of processes games and replay begin anew."""
    acc, run = session.acc, session.run
    state = load_checkpoint(acc, found, model=session.learner, optimizer=session.optimiser)
    session.progress = Progress(**state["progress"])
    session.saved_step = session.progress.step
    common = load_common(acc, found)
    session.targets.load(under_prefix("targets", common))
    if session.league is not None:
        session.league.set_state(state["league"], under_prefix("league", common))
    tensors = None
    if read_manifest(found).world_size == acc.num_processes:
        tensors = load_rank(acc, found)
        session.sums = tensors.pop("sums").to(acc.device)
    else:
        run.note(acc, "games and replay begin anew: they belong to another number of processes")
    session.collector.set_state(state["counters"], tensors)


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
            replay = record_game(NetworkPlayer(session.actor, name="team"), ScriptedPlayer("greedy"), seed=config.seed)
            rows = read_metrics(run.path / "metrics.jsonl")
            reporting.write_run_report(run.path, config, results, standing, replay_fragment(replay), rows)
    return results


if __name__ == "__main__":
    sys.exit(launch.run(main, SnakesOptions, aliases=ALIASES))
