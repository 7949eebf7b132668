"""Options, plans, tests and the words of a run."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from squad_samples import scripted_battle

from lib.args import parse
from lib.errors import UserError
from lib.omagd import comparison, reporting
from lib.omagd.battle.maps import MAPS
from lib.omagd.evaluation import Tally, Trials, play_share
from lib.omagd.learning.networks import Agent
from lib.omagd.options import ALIASES, OmagdOptions, check_options
from lib.omagd.players import ScriptedPlayer, greedy
from lib.omagd.progress import Plan, Progress
from lib.omagd.senses import Senses
from lib.runlog import read_metrics


def options(*words: str) -> OmagdOptions:
    return parse(OmagdOptions, list(words), ALIASES)


def test_names_of_the_originals_are_understood():
    config = options("--map_name", "2s3z", "--learning_rate", "5e-4", "--batch_size", "16")
    assert (config.map, config.lr, config.per_device_batch_size) == ("2s3z", 5e-4, 16)
    sizes = config.qmix_config()
    assert (sizes.agent.obs_size, sizes.agent.n_actions, sizes.state_size) == (80, 11, 120)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--map 3n", "did you mean 3m"),
        ("--gradient_accumulation_steps 2", "larger --per_device_batch_size"),
        ("--buffer_size 20 --per_device_batch_size 21", "never holds"),
        ("--buffer_size 40", "--batch_size_run 64: --buffer_size 40 cannot hold"),
        ("--buffer_steps 3839", "give 3840 or more"),
        ("--epsilon_finish 1 --epsilon_start 0.5", r"--epsilon_finish 1\.0 is above"),
        ("--leaky_mask", "no effect with --sight 9"),
        ("--sight 2000", "at most 1000"),
        ("--spawn_jitter 3", "at most 2"),
    ],
)
def test_contradictions_are_refused(flags, words):
    with pytest.raises(UserError, match=words):
        check_options(options(*flags.split()))
    assert "aligned" in check_options(options("--smac_type_bits", "raw"))[0]
    assert check_options(options("--buffer_steps", "3840", "--leaky_mask", "--sight", "4")) == []


def test_a_plan_of_updates_follows_the_steps_played():
    config = options(
        "--batch_size_run", "8", "--per_device_batch_size", "16", "--steps_per_update", "32", "--t_max", "5000"
    )
    plan, progress = Plan(config, MAPS["3m"], 2), Progress()
    assert plan.first_update == 120  # twice the longest episode: by then each slot has given two
    updates = []
    while not plan.spent(progress):
        if plan.due(progress):
            progress.step += 1
            updates.append(progress.played)
        else:
            progress.played += 1
            progress.env_steps += plan.per_step
    assert progress.env_steps == 16 * 313 and updates == list(range(124, 314, 4)) and len(updates) == plan.updates
    assert plan.epsilon(Progress()) == 1.0 and plan.epsilon(Progress(env_steps=250_000)) == pytest.approx(0.525)
    assert plan.epsilon(Progress(env_steps=900_000)) == 0.05
    resumed = Progress(step=10, played=200)
    plan.begin_anew(resumed)
    assert not plan.due(resumed)
    resumed.played += plan.first_update + 4
    assert plan.due(resumed)


def test_a_run_resumed_by_more_processes_keeps_its_counts():
    config = options("--t_max", "20000", "--batch_size_run", "8")
    progress = Progress(step=300, played=900, env_steps=15_000, episodes=400, copied=390)
    plan = Plan(config, MAPS["3m"], 2)
    plan.begin_anew(progress)
    assert not plan.spent(progress) and progress.former_episodes == 400 and progress.copied == 390
    progress.env_steps = 20_000
    assert plan.spent(progress)


def test_limits_of_updates_and_time():
    plan = Plan(options("--max_steps", "3", "--max_minutes", "2"), MAPS["3m"], 1)
    assert plan.updates == 3 and plan.max_wall_s == 120
    assert plan.spent(Progress(step=3)) and plan.spent(Progress(share=1.0)) and not plan.spent(Progress(step=2))


def test_the_learning_rate_falls_with_steps_or_time():
    plan = Plan(options("--lr_schedule", "linear", "--t_max", "10000"), MAPS["3m"], 1)
    for steps, share, expected in ((0, 0.0, 1.0), (5000, 0.0, 0.55), (5000, 0.8, 0.28), (20_000, 0.1, 0.1)):
        assert plan.rate_factor(Progress(env_steps=steps, share=share)) == pytest.approx(expected)
    assert Plan(options("--t_max", "10000"), MAPS["3m"], 1).rate_factor(Progress(env_steps=9000, share=0.9)) == 1.0


def test_better_tests_are_noted():
    progress = Progress(step=5)
    assert progress.judged(0.0) and (progress.best_step, progress.validated_step) == (5, 5)
    progress.step = 9
    assert not progress.judged(0.0) and (progress.best_step, progress.validated_step) == (5, 9)
    assert progress.judged(0.5) and progress.best_step == 9


def share(rank: int, processes: int, **flags) -> Trials:
    return Trials("3m", 10, seed=3, rank=rank, processes=processes, device="cpu", **flags)


def test_test_battles_are_the_same_on_any_number_of_processes():
    torch.manual_seed(0)
    agent = Agent(options().qmix_config().agent)
    nearest, uniform = (ScriptedPlayer(name).start for name in ("nearest", "random"))
    for start in (lambda battles: greedy(agent, battles, Senses(battles, False)), nearest, uniform):
        whole = play_share(share(0, 1), start)
        parts = [play_share(share(rank, 3), start) for rank in range(3)]
        assert whole.battles == 10
        for field in dataclasses.fields(Tally):
            total = sum(getattr(part, field.name) for part in parts)
            assert getattr(whole, field.name) == pytest.approx(total, abs=1e-4), field.name
    test = share(0, 1)
    assert play_share(test, nearest) == play_share(test, nearest)
    none = play_share(Trials("3m", 1, seed=0, rank=0, processes=2, device="cpu"), nearest)
    assert none == Tally() and none.mean("won") == 0.0
    assert play_share(share(0, 1), nearest, should_stop=lambda: True).battles == 0


def test_agents_that_are_told_everything_act_otherwise():
    torch.manual_seed(1)
    agent = Agent(options().qmix_config().agent)
    test = Trials("3m", 16, seed=3, rank=0, processes=1, device="cpu", sight=2.0)
    seen = play_share(test, lambda battles: greedy(agent, battles, Senses(battles)))
    told = play_share(test, lambda battles: greedy(agent, battles, Senses(battles, full=True)))
    assert seen != told


def test_words_and_tables():
    low, high = Tally(battles=100, won=90).interval()
    assert (round(low, 3), round(high, 3)) == (0.826, 0.945)  # Wilson 1927
    tallies = {
        "test": Tally(512, 500, 10_000.0, 9_000, 0, 300, 1500),
        "scripted": Tally(512, 100, 5_000.0, 9_000, 0, 1400, 700),
        "random": Tally(512, 0, 800.0, 9_000, 5, 1536, 20),
    }
    results = reporting.results_of(tallies) | Progress(step=7, env_steps=100, train_wall_s=2.0).results()
    assert results["win_rate_test"] == 500 / 512 and results["return_test"] == pytest.approx(19.53, abs=0.01)
    assert results["env_steps_per_s"] == 50 and results["win_rate_random_high"] < 0.01
    table = reporting.result_table(results | {"processes": 2})
    assert "the team, greedy                    97.7 %" in table and "7 updates" in table and "2 processes" in table
    card = reporting.model_card(options(), results)
    assert "map 3m" in card and "97.7 %" in card and "not the bot of StarCraft II" in card


def test_the_report_of_a_run(tmp_path):
    rows = [
        {"step": step, "env_steps": 100 * step, "error": 0.5, "value": 1.0, "train/win_rate": 0.1, "train/return": 3.0}
        for step in (1, 2, 3)
    ]
    rows.append({"step": 3, "test/win_rate": 0.4, "test/return": 8.0, "train_s": 1.5})
    tallies = {name: Tally(8, 2, 80.0, 200, 0, 10, 12) for name in reporting.PLAYERS}
    results = reporting.results_of(tallies) | Progress(step=3).results() | {"processes": 1}
    battle = scripted_battle("nearest", "3m")
    page = reporting.write_run_report(tmp_path, options(), results, tallies, rows, battle, []).read_text(
        encoding="utf-8"
    )
    assert "<h2>A test battle of the team</h2>" in page and battle.outcome() in page
    assert "QMIX on 3m" in page and "script: attack the nearest" in page and "not StarCraft II" in page
    titles = [curve.title for curve in reporting.curves(rows)]
    assert titles == [
        "Test win rate",
        "Win rate while training",
        "Return while training",
        "TD error",
        "Value of the team",
    ]
    assert len(list((tmp_path / "plots").glob("*.png"))) == 5


def finished(folder: Path, observe: str, rates: list[float], **changed) -> None:
    """A run of agents, as far as other runs read it."""
    folder.mkdir(parents=True)
    rows = [{"step": k, "env_steps": 1000 * k, "test/win_rate": rate} for k, rate in enumerate(rates)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(results_of_a_run(observe, rates[-1]) | changed), encoding="utf-8")


def results_of_a_run(observe: str, rate: float) -> dict:
    tallies = {name: Tally(8, int(8 * rate), 80.0, 200, 0, 10, 12) for name in reporting.PLAYERS}
    more = {"observe": observe, "map": "3m", "env": "embedded", "sight": 5.0, "processes": 1}
    return reporting.results_of(tallies) | Progress(step=3, env_steps=3000).results() | more


def test_other_runs_stand_beside_it(tmp_path):
    """Three arms of a comparison in the report of the last; a run of all stages, and one of the same name."""
    finished(tmp_path / "first", "obs", [0.0, 0.25])
    finished(tmp_path / "second" / "qmix", "full_obs", [0.0, 0.5, 0.75], sight=None)
    finished(tmp_path / "other" / "first", "obs", [0.5])
    others = comparison.read_runs(f"{tmp_path}/first, {tmp_path}/second,{tmp_path}/other/first", read_metrics)
    assert [run.name for run in others] == ["obs, first", "full_obs, second", "obs, first (2)"]
    rows = [{"step": 2, "env_steps": 2000, "error": 0.5}, {"step": 3, "test/win_rate": 0.4, "train_s": 1.5}]
    mine = comparison.run_of("obs, this run", results_of_a_run("obs", 0.25), rows)
    (curve,) = comparison.compared([mine, *others])
    assert [(one.label, list(one.x), list(one.y)) for one in curve.series] == [
        ("obs, this run", [2000], [0.4]),
        ("obs, first", [0, 1000], [0.0, 0.25]),
        ("full_obs, second", [0, 1000, 2000], [0.0, 0.5, 0.75]),
        ("obs, first (2)", [0], [0.5]),
    ]
    tallies = {name: Tally(8, 2, 80.0, 200, 0, 10, 12) for name in reporting.PLAYERS}
    results = results_of_a_run("obs", 0.25)
    page = reporting.write_run_report(tmp_path, options(), results, tallies, rows, None, others).read_text("utf-8")
    assert "Beside other runs" in page and "<td>full_obs, second</td>" in page and "of each type" in page


def test_what_cannot_stand_beside_it(tmp_path):
    finished(tmp_path / "fine", "obs", [0.5])
    (tmp_path / "empty").mkdir()
    finished(tmp_path / "tokens", "obs", [0.5])
    (tmp_path / "tokens" / "results.json").write_text(json.dumps({"stage": "tokenizer"}))
    finished(tmp_path / "listed", "obs", [0.5])
    (tmp_path / "listed" / "results.json").write_text("[1]")
    finished(tmp_path / "half", "obs", [0.5])
    (tmp_path / "half" / "metrics.jsonl").unlink()
    finished(tmp_path / "odd", "obs", [0.5])
    (tmp_path / "odd" / "metrics.jsonl").write_text('{"step": 1, "test/win_rate": null}\n')
    assert comparison.read_runs(None, read_metrics) == []
    for name in ("empty", "tokens", "listed", "half", "odd", "missing"):
        with pytest.raises(UserError, match=f"--compare {tmp_path}/{name}: no finished run of --stage qmix is there"):
            comparison.read_runs(f"{tmp_path}/fine,{tmp_path}/{name}", read_metrics)
    with pytest.raises(UserError, match="--compare has no effect with --no_visualize"):
        check_options(options("--compare", str(tmp_path / "fine"), "--no_visualize"))


def test_the_update_that_the_last_steps_owe():
    """Steps beyond t_max, played between a backward pass and its step, owe none."""
    plan = Plan(options("--t_max", "100000", "--batch_size_run", "64", "--steps_per_update", "256"), MAPS["3m"], 2)
    first = plan.first_update
    for played, step in ((first + 3, 0), (first + 4, 0), (first + 4, 1)):
        progress = Progress(step=step, played=played, env_steps=played * plan.per_step)
        assert plan.due(progress) == (step == 0 and played == first + 4) and not plan.spent(progress)
    at_end = 782  # plays: 100,096 steps
    for played, owed, spent in ((at_end - 1, True, False), (at_end, True, False), (at_end + 1, True, True),
                                (at_end, False, True)):  # fmt: skip
        step = (played - first) // 4 - owed
        progress = Progress(step=step, played=played, env_steps=played * plan.per_step)
        assert plan.due(progress) == owed and plan.spent(progress) == spent, played
