"""Train a team for unit battles in SMAC's layout by QMIX, against scripted enemies.

CPU demo:    make train-omagd
One process: python scripts/train_omagd.py --map 3m --max_minutes 1
Tokens:      python scripts/train_omagd.py --stage tokenizer --map 2s3z --sight 5
All stages:  accelerate launch scripts/train_omagd.py --stage all --map 2s3z --sight 5 --output_dir RUN
Guesses:     python scripts/train_omagd.py --stage predictor --map 2s3z --sight 5 --tokenizer RUN
8 GPUs:      accelerate launch --config_file accelerate_configs/gpu_8.yaml scripts/train_omagd.py --map 3s5z ...
Many nodes:  sbatch slurm/many_nodes.sbatch, see docs/launching.md
Resume:      add --resume auto
"""

import copy
import math
import os
import sys
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path

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
    load_export,
    load_rank,
    on_main,
    refuse_other,
    save_checkpoint,
    save_export,
)
from lib.clock import StepClock
from lib.distributed import assert_equal_across_ranks, global_sums, state_hash
from lib.errors import UserError
from lib.fitting import Fit
from lib.local_average import Averaging
from lib.manifests import read_manifest
from lib.omagd import evaluation, reporting
from lib.omagd.battles import make_battles
from lib.omagd.comparison import FormerRun, read_runs
from lib.omagd.evaluation import SCRIPTED, Tally, Trials
from lib.omagd.foreign.choose import EMBEDDED
from lib.omagd.former import settle_former
from lib.omagd.learning.collector import Collector
from lib.omagd.learning.qmix import STATISTICS, Episodes, Learner, Targets
from lib.omagd.learning.replay import EpisodeReplay
from lib.omagd.options import AGENTS, ALIASES, ALL, OmagdOptions, check_buffers, check_options, stages_of
from lib.omagd.players import NetworkPlayer, ScriptedPlayer, greedy, teams_of
from lib.omagd.progress import Plan, Progress
from lib.omagd.recon import predictor_reporting, tokenizer_reporting
from lib.omagd.recon.episodes import EpisodeSet, collect, read_mixture
from lib.omagd.recon.stages import (
    PREDICTOR,
    TOKENIZER,
    Artifact,
    predictor_of,
    predictor_stage,
    read_stage,
    tokenizer_stage,
)
from lib.omagd.recon.stored import are_kept, keep, read_episodes, settle_stored
from lib.omagd.replay import record_battle
from lib.omagd.senses import GUESSES, RECONSTRUCTED, Eyes, told_size
from lib.rank_files import raise_anywhere, under_prefix, with_prefix
from lib.ranks import Ranks
from lib.recent import RecentUpdates
from lib.runlog import RunLog, read_metrics, tracker_kinds
from lib.runs import RUNS
from lib.seeds import derive, seed_global

TRAINER = "omagd"
LOOK_PLAYS = 50  # steps of all battles after which there is such a look in any case
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
    eyes: Eyes
    test: Trials | None = None
    progress: Progress = None
    log: RunLog | None = None
    saved_step: int = -1
    looked: int = 0  # steps of all battles at the last look
    drawn: Episodes | None = None  # the batch of the next update, where it is drawn ahead
    told: torch.Tensor | None = None  # by all processes with the last gradients, until it is looked at
    others: list[FormerRun] = field(default_factory=list)  # of --compare

    @cached_property
    def bare(self) -> Learner:
        """Agent and mixer, without the wrapper of data parallel training; looking through it takes long."""
        return self.acc.unwrap_model(self.learner)


def main(config: OmagdOptions) -> None:
    tracker_kinds(config.report_to)
    acc = launch.start(config, precision="fp32", sharding=False, handlers=(ONE_BUCKET,))
    notes = settle_former(config) + check_options(config)
    check_buffers(config)
    notes += settle_stored(config, [each.output_dir or f"{RUNS}/{TRAINER}" for each in stages_of(config)])
    others = read_runs(config.compare, read_metrics)
    for each in stages_of(config):
        if config.stage == ALL and config.resume == "auto" and on_main(acc, partial(ended, each.output_dir)):
            acc.print(f"stage {each.stage}: ended before, in {each.output_dir}; it is taken as it is")
            continue
        acc.free_memory()  # of the stage before
        if not run_stage(acc, each, others, notes):
            break
        notes = []  # the first of them has said it
        if config.stage == ALL and config.dry_run:
            acc.print("the later stages are learnt from what this one makes: they are not planned before")
            break


def ended(folder: str) -> bool:
    """Whether a run ended there."""
    return Path(folder, "results.json").exists() and Path(folder, "export").is_dir()


def run_stage(acc: Accelerator, config: OmagdOptions, others: list[FormerRun], notes: list[str]) -> bool:
    """One stage in a run directory of its own; False when a signal ended it. others: the runs of --compare."""
    made_before = None
    if config.stage == PREDICTOR:
        made_before = read_stage(config, TOKENIZER, load_export)
    elif config.stage == AGENTS and config.observe == RECONSTRUCTED:
        made_before = read_stage(config, PREDICTOR, load_export)
    run = RunDirectory.create(acc, config, TRAINER, launch.environment_facts(acc))
    for note in notes:
        run.note(acc, note)
    if config.stage == AGENTS:
        done = train_agents(acc, run, config, made_before, others)
    else:
        done = train_before(acc, run, config, made_before)
    run.close()
    return done


def train_before(acc: Accelerator, run: RunDirectory, config: OmagdOptions, made_before: Artifact | None) -> bool:
    """Stages 1 and 2: tokens of units, from episodes with unlimited sight; guesses of those that agents do not see.

    made_before: the tokens that the guesses are made in. False when a signal ended it.
    """
    played = episodes_of(acc, run, config)
    seed_global(config.seed, config.stage)
    ranks = Ranks(acc)
    if config.stage == TOKENIZER:
        stage, shows = tokenizer_stage(config, played, ranks), tokenizer_reporting
    else:
        stage, shows = predictor_stage(config, played, ranks, made_before), predictor_reporting
    module = stage.task.module
    assert_equal_across_ranks(acc, state_hash(module), "initial weights")
    rate = launch.scaled_learning_rate(config.graph_rate(), config.lr_scale, acc.num_processes, 1)
    prepared = acc.prepare(module, torch.optim.Adam(module.parameters(), lr=rate))
    fit = Fit(acc, run, config, stage.task, prepared, stage.updates)
    batch, facts = shows.plan_notes(config, stage.task, acc.num_processes, fit.updates)
    launch.announce(acc, config, trainer=TRAINER, effective_batch=batch, learning_rate=rate, notes=facts)
    if config.dry_run:
        acc.print("dry run: nothing was trained")
        return True
    figures = fit.go(stage.unit)
    if figures is None:
        return False
    weights = state_hash(module)
    assert_equal_across_ranks(acc, weights, "final weights")
    results = {"stage": config.stage, "map": config.map, "sight": config.sight, **figures, **fit.results()}
    results["weights_sha256"] = weights
    # What later stages say they were made with.
    results["codebook_sha256"] = stage.config.get("sha256_of_codes", weights)
    described = stage.config | {"sha256_of_codes": results["codebook_sha256"]}
    save_export(acc, run, model=module, config=described, card=shows.model_card(config, results))
    if acc.is_main_process:
        for path in filter(None, (run.path / "results.json", config.report_json)):
            atomic_write_json(path, results)
        if config.visualize:
            shows.write_run_report(run.path, config, stage.task, results, read_metrics(run.path / "metrics.jsonl"))
        print(
            f"{shows.result_table(results)}\nresults.json, report.html and export/ are in {run.path}",
            flush=True,
        )
    return True


def episodes_of(acc: Accelerator, run: RunDirectory, config: OmagdOptions) -> EpisodeSet:
    """What stages 1 and 2 learn from: as kept in --pretrain_buffer_path, or played by every process."""
    neighbours = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    # One look for all: some may not see what another has just written.
    kept = on_main(acc, partial(are_kept, config))
    played, failure = None, ""
    try:
        if kept or (config.pretrain_buffer_path is not None and not config.save_pretrain_buffer):
            played = read_episodes(config, neighbours=neighbours)
        else:
            mixture = read_mixture(config.policies)
            teams = teams_of((policy.player for policy in mixture), load_export)
            played = collect(
                config.map, mixture, config.graph_pretrain_episodes, teams=teams,
                seed=derive(config.seed, "episodes") % 2**63, neighbours=neighbours, **config.battle_options(),
            )  # fmt: skip
    except UserError as error:
        failure = str(error)
    raise_anywhere(acc, failure)
    assert_equal_across_ranks(acc, played.digest(), "episodes")
    if config.save_pretrain_buffer and not kept and not config.dry_run:
        run.note(acc, on_main(acc, partial(keep, played, config)))
    return played


def train_agents(
    acc: Accelerator, run: RunDirectory, config: OmagdOptions, made_before: Artifact | None, others: list[FormerRun]
) -> bool:  # fmt: skip
    """Stage 3: the agents, by QMIX. made_before: the guesses of what they do not see, if they are told any.

    False when a signal ended it.
    """
    session = prepare(acc, run, config, made_before)
    session.others = others
    layout = session.collector.battles.layout
    parameters = sum(value.numel() for value in session.bare.parameters())
    batch, facts = reporting.plan_notes(config, parameters, session.plan, layout, acc.num_processes)
    if acc.num_processes > 1:
        facts["gradients"] = f"averaged by {'shared memory' if session.averaging.shared else 'all-reduce'}"
    launch.announce(acc, config, trainer=TRAINER, effective_batch=batch, learning_rate=session.rate, notes=facts)
    if config.dry_run:
        acc.print("dry run: nothing was trained")
        return True
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
    return results is not None


def prepare(acc: Accelerator, run: RunDirectory, config: OmagdOptions, made_before: Artifact | None) -> Session:
    """Networks, optimiser, targets, battles and replay; equal weights on every rank, other battles on each."""
    seed_global(config.seed, "weights")
    ranks, n = Ranks(acc), config.batch_size_run
    learner = Learner(config.qmix_config())
    rate = launch.scaled_learning_rate(config.lr, config.lr_scale, acc.num_processes, 1)
    optimiser = torch.optim.Adam(learner.parameters(), lr=rate, fused=True)
    assert_equal_across_ranks(acc, state_hash(learner), "initial weights")
    learner, optimiser = acc.prepare(learner, optimiser)
    averaging = Averaging(acc, learner, config.dist_timeout)
    battles = make_battles(
        config.env, config.map, n, device=acc.device, seed=derive(config.seed, "battles") % 2**63,
        first_battle=acc.process_index * n, begin=not config.dry_run, strict=config.observe == "full_obs",
        log=teller(acc, run), **config.battle_options(),
    )  # fmt: skip
    neighbours = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    replay = EpisodeReplay(
        battles.layout, config.buffer_size, config.buffer_steps, n, acc.process_index * n, acc.device, neighbours,
        told_size(battles.layout, config.observe),
    )  # fmt: skip
    predictor = made_before and predictor_of(made_before.described, made_before.tensors, made_before.flag)
    if predictor is not None:
        assert_equal_across_ranks(acc, state_hash(predictor), "predictor")
    eyes = Eyes(config.observe, predictor, config.recon)
    return Session(
        acc, run, config, Plan(config, battles.map, acc.num_processes), ranks, StopSignals(), learner, optimiser, rate,
        Targets(acc.unwrap_model(learner)), averaging, Collector(battles, replay, eyes.of(battles)),
        RecentUpdates(ranks, "lower --lr"), torch.zeros(len(STATISTICS), device=acc.device), eyes,
        progress=Progress(),
    )  # fmt: skip


def teller(acc: Accelerator, run: RunDirectory):
    """What takes a line about this process's games; the log is the main process's."""
    if acc.is_main_process:
        return lambda text: run.note(acc, text)
    return lambda text: print(f"process {acc.process_index}: {text}", file=sys.stderr, flush=True)


def train(session: Session) -> bool:
    """Play, draw, learn, log, test, save; False when a signal ended it (the state is saved)."""
    config, progress, plan = session.config, session.progress, session.plan
    if plan.test_due(progress) and not evaluate(session):  # a signal came in the midst of it, before this resume
        return False
    look(session)  # a resumed run may have been given more time
    clock = StepClock()
    while not plan.spent(progress):
        if not plan.due(progress):
            play(session)
            if progress.played - session.looked >= LOOK_PLAYS and look(session):  # there may be no updates for long
                clock.add_to(progress)
                return save(session)
            continue
        update(session)
        logs, saves = progress.step % config.log_every == 0, save_due(session)
        looks = logs or saves or plan.test_due(progress) or progress.step % LOOK_STEPS == 0
        looks = looks or progress.played - session.looked >= LOOK_PLAYS
        stop = looks and look(session)
        clock.add_to(progress)
        if logs:
            report(session)
        if not stop and plan.test_due(progress):
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
    """One optimiser step along the mean loss over the steps of all processes' episodes.

    What is due until the next update is played between the backward pass and the step, with the weights of before, and
    its batch is drawn: nobody waits then for one that is a little late, and one process does the same as many.
    """
    acc, config, progress, plan = session.acc, session.config, session.progress, session.plan
    for group in session.optimiser.param_groups:
        group["lr"] = session.rate * plan.rate_factor(progress)
    batch = session.drawn or draw(session)
    loss, sums = session.averaging.model(batch, session.targets)
    acc.backward(loss)
    finite = torch.isfinite(loss).view(1)
    session.averaging.post(len(batch.rewards), session.recent.met(finite), *own_news(session))
    progress.step += 1
    # Whatever ends the run: one that goes on has played the same by here.
    last = progress.played + LOOK_PLAYS
    while progress.played < last and not plan.due(progress):
        play(session)
    session.drawn = draw(session) if plan.due(progress) else None
    session.told = session.averaging.take()
    norm = acc.clip_grad_norm_(session.learner.parameters(), config.max_grad_norm or math.inf)
    session.optimiser.step()
    session.optimiser.zero_grad()
    session.sums += sums
    session.recent.add(progress.step, torch.tensor([progress.step], device=acc.device), finite, norm)


def draw(session: Session) -> Episodes:
    """The batch of the next update."""
    return session.collector.replay.sample(
        session.config.per_device_batch_size, session.config.seed, session.progress.step
    )


def own_news(session: Session) -> tuple[float, float, float]:
    """What this process adds to what all know: episodes, whether a signal came, and, from the main one, seconds."""
    seconds = session.log.wall_s() if session.acc.is_main_process else 0.0
    return float(session.collector.replay.added), float(session.signals.requested), seconds


def look(session: Session) -> bool:
    """Agree on episodes, time and signals, copy the targets when they are due; end at numbers that are not finite.

    Whether a signal came to any process. What has been told with the gradients is not asked again where that was just
    now. Targets follow it alone, after every LOOK_STEPS updates: other looks depend on what is logged and saved.
    """
    progress, told = session.progress, session.told
    bad = 0.0
    if told is not None:
        _, bad, episodes, stop, seconds = told.tolist()
        session.told = None
        progress.episodes = progress.former_episodes + int(episodes)
        owed = progress.episodes - progress.copied >= session.config.target_update_interval
        if owed and progress.step % LOOK_STEPS == 0:
            session.targets.follow(session.bare)
            progress.copied = progress.episodes
    if told is None or progress.played - session.looked >= LOOK_PLAYS:
        names = ("episodes", "stop", "seconds")
        seen = global_sums(session.acc, dict(zip(names, own_news(session), strict=True)))
        episodes, stop, seconds = (seen[name] for name in names)
        if told is None:
            progress.episodes = progress.former_episodes + int(episodes)
    progress.share, session.looked = seconds / session.plan.max_wall_s, progress.played
    session.recent.judge(bad > 0, lambda step: f"batch-{step:06d}", session.saved_step)
    return stop > 0


def report(session: Session) -> None:
    """A row of metrics."""
    progress = session.progress
    mine = dict(zip(STATISTICS, session.sums.tolist(), strict=True))
    mine |= {f"episodes {name}": value for name, value in session.collector.look().items()}
    mine["restarts"] = float(session.collector.battles.restarts)
    session.sums.zero_()
    seen = global_sums(session.acc, mine)
    episodes = {name.removeprefix("episodes "): value for name, value in seen.items() if name.startswith("episodes ")}
    values = reporting.training_row(seen, episodes)
    values |= {"epsilon": session.plan.epsilon(progress), "episodes": progress.episodes}
    values |= {"env_steps": progress.env_steps, "lr": session.optimiser.param_groups[0]["lr"]}
    if seen["restarts"]:  # of games that failed, since the run began
        values["restarts"] = int(seen["restarts"])
    session.log.log(progress.step, values)


def team(session: Session) -> evaluation.Start:
    """The greedy play of the network as it is."""
    return lambda battles: greedy(session.bare.agent, battles, session.eyes.of(battles))


def play_test(session: Session, test: Trials, start: evaluation.Start) -> Tally | None:
    """Test battles of all processes; None when a signal came."""
    with session.log.paused():
        mine = evaluation.play_share(test, start, lambda: session.signals.requested)
    if session.signals.agreed(session.acc):
        return None
    return Tally(**global_sums(session.acc, asdict(mine)))


def make_test(session: Session, count: int, purpose: str) -> Trials:
    """Other battles for every purpose: those that chose the best weights do not measure them."""
    acc, config = session.acc, session.config
    return Trials(
        config.map, count, seed=derive(config.seed, "test", purpose) % 2**63, rank=acc.process_index,
        processes=acc.num_processes, device=acc.device, strict=config.observe == "full_obs", env=config.env,
        at_once=config.batch_size_run, log=teller(acc, session.run), **config.battle_options(),
    )  # fmt: skip


def evaluate(session: Session) -> bool:
    """The greedy win rate; weights that are the best so far are saved. False when a signal came."""
    config, progress = session.config, session.progress
    session.test = session.test or make_test(session, config.test_nepisode, "best")
    tally = play_test(session, session.test, team(session))
    if tally is None:
        return False
    better = progress.judged(tally.mean("won"))
    values = {"test/win_rate": tally.mean("won"), "test/return": tally.mean("returns")}
    values |= {"env_steps": progress.env_steps, "train_s": round(progress.train_wall_s, 3)}
    session.log.log(progress.step, values, progress=False)
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
            state={"progress": progress.to_dict(), "battle": described(session)}, best=best,
            keep=session.config.keep_checkpoints, common=with_prefix("targets", session.targets.state_dict()),
            rank_tensors=session.collector.get_state() | {"sums": session.sums.cpu()},
        )  # fmt: skip
    session.saved_step = progress.step
    return False


def described(session: Session) -> dict:
    """What is fought and what is told of it."""
    config = session.config
    found = {"env": config.env, "map": config.map, "observe": config.observe, **config.battle_options()}
    if session.eyes.predictor is not None:
        found |= {"predictor": state_hash(session.eyes.predictor), "recon": config.recon}
    return found


def restore(session: Session, found) -> None:
    """Continue from a checkpoint; with another number of processes battles and replay begin anew."""
    acc, run = session.acc, session.run
    state = load_checkpoint(acc, found, model=session.learner, optimizer=session.optimiser)
    sides = {"env": EMBEDDED, **state["battle"]}, described(session)
    refuse_other(found, *({f"--{name}": value for name, value in side.items()} for side in sides))
    session.progress = Progress(**state["progress"])
    session.saved_step = session.progress.step
    session.targets.load_state_dict(under_prefix("targets", load_common(acc, found)))
    if read_manifest(found).world_size == acc.num_processes:
        tensors = load_rank(acc, found)
        session.sums = tensors.pop("sums").to(acc.device)
        session.collector.set_state(tensors)
        if not session.collector.battles.resumable:
            run.note(acc, f"battles begin anew: those of {session.config.env} cannot be saved; the replay is kept")
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
    session.collector.battles.close()  # StarCraft II needs much memory: no more of them than play
    if session.test is not None:
        session.test.close()
    test, tallies = make_test(session, config.final_nepisode, "final"), {}
    scripts = [ScriptedPlayer(name).start for name in (SCRIPTED, "random")]
    for name, start in zip(reporting.PLAYERS, (team(session), *scripts), strict=True):
        tallies[name] = play_test(session, test, start)
        if tallies[name] is None:
            return None
    test.close()
    results = reporting.results_of(tallies) | progress.results()
    results |= {"env": config.env, "map": config.map, "sight": config.sight, "observe": config.observe}
    results |= {"epsilon": session.plan.epsilon(progress), "processes": acc.num_processes}
    results |= {"wall_s": round(session.log.wall_s(), 3), "weights_sha256": state_hash(session.bare)}
    assert_equal_across_ranks(acc, results["weights_sha256"], "final weights")
    battle = {"env": config.env, "map": config.map, "observe": config.observe, **config.battle_options()}
    sizes, exported = session.bare.agent.config.to_dict() | {"battle": battle}, session.bare.agent
    guesses = session.eyes.predictor
    if guesses is not None:  # a team is played from one folder
        exported = copy.deepcopy(exported)
        exported.add_module(GUESSES, guesses)
        sizes |= {"recon": config.recon, GUESSES: guesses.config.to_dict()}
    save_export(acc, run, model=exported, config=sizes, card=reporting.model_card(config, results))
    if acc.is_main_process:
        for path in filter(None, (run.path / "results.json", config.report_json)):
            atomic_write_json(path, results)
        if config.visualize:
            shown, rows = None, read_metrics(run.path / "metrics.jsonl")
            if config.env == EMBEDDED:
                options = {"map": config.map, "observe": config.observe, **config.battle_options()}
                player = NetworkPlayer(session.bare.agent, options, "the team", session.eyes)
                shown = record_battle(player, seed=test.seed, device=acc.device)
            reporting.write_run_report(run.path, config, results, tallies, rows, shown, session.others)
    return results


if __name__ == "__main__":
    sys.exit(launch.run(main, OmagdOptions, aliases=ALIASES))
