"""Task pools: apart, capped, from files; and decks that lose and double nothing."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from episode_samples import airline_task, write_airline

from lib.errors import UserError
from lib.grpo.continual import tasks as module
from lib.grpo.continual.tasks import (
    TRAIN,
    Deck,
    TaskRow,
    divide,
    gather_tasks,
    generated_rows,
    read_rows,
    write_rows,
    write_task_files,
)
from lib.grpo.generation.generate import TRAINING_SEEDS, task_of_seed, templates

DOMAINS = ("airline", "retail", "telecom")


def sets_of(**more):
    options = {"seed": 3, "levels": (1, 2), "tasks_per_domain": 12, "eval_tasks": 8, "held_out_tasks": 4}
    return gather_tasks(DOMAINS, **{**options, **more})


def test_generated_sets_are_apart_and_make_their_tasks():
    sets = sets_of()
    for domain in DOMAINS:
        learnt, measured, kept = sets.training[domain], sets.evaluation[domain], sets.held_out[domain]
        assert (len(learnt), len(measured), len(kept)) == (12, 8, 4)
        assert all(row.seed < TRAINING_SEEDS for row in learnt)
        assert all(row.seed >= TRAINING_SEEDS for row in measured + kept)
        assert {row.template for row in learnt + measured} <= set(templates(domain, held_out=False))
        assert {row.template for row in kept} <= set(templates(domain, held_out=True))
        assert Counter(row.level for row in learnt) == {1: 6, 2: 6}
        for row in learnt + measured + kept:
            assert sets.make(row).key == row.key and sets.make(row).level == row.level
    # Ids repeat between domains; keys do not.
    assert len({row.key for domain in DOMAINS for row in sets.evaluation[domain]}) == 24


def test_a_row_is_the_task_of_its_seed():
    row = sets_of().training["retail"][0]
    assert task_of_seed("retail", row.seed, row.level) == sets_of().make(row)


def test_runs_learn_from_other_tasks_and_are_measured_on_the_same():
    first, other = sets_of(), sets_of(seed=4)
    assert first == sets_of()
    assert first.evaluation == other.evaluation and first.held_out == other.held_out
    assert not {row.key for row in first.training["airline"]} & {row.key for row in other.training["airline"]}


def test_chosen_templates_and_levels():
    rows = generated_rows("airline", 0, 30, (0,), ("change_date", "add_bags"))
    assert {row.template for row in rows} == {"change_date", "add_bags"} and {row.level for row in rows} == {0}
    with pytest.raises(UserError, match="has no template 'fly'"):
        generated_rows("airline", 0, 1, (0,), ("fly",))
    with pytest.raises(UserError, match="level 7"):
        generated_rows("airline", 0, 1, (0, 7), ("add_bags",))


def test_rows_survive_a_file(tmp_path):
    sets = sets_of()
    write_task_files(tmp_path, sets)
    found = read_rows(tmp_path / "tasks_airline.jsonl")
    assert found["train"] == sets.training["airline"] and found["held_out"] == sets.held_out["airline"]
    line = json.loads((tmp_path / "tasks_airline.jsonl").read_text().splitlines()[0])
    assert sorted(line) == ["domain", "id", "level", "seed", "set", "template"]
    # A run that goes on meets the same tasks, or says so.
    write_task_files(tmp_path, sets_of())
    with pytest.raises(UserError, match="other tasks than these flags"):
        write_task_files(tmp_path, sets_of(seed=4))
    # A list of a former run is a task file.
    again = gather_tasks(
        ("airline",), seed=9, levels=(4,), tasks_per_domain=5, eval_tasks=3, held_out_tasks=1,
        task_files={"airline": str(tmp_path / "tasks_airline.jsonl")},
    )  # fmt: skip
    assert again.training["airline"] == sets.training["airline"][:5]
    assert again.evaluation["airline"] == sets.evaluation["airline"][:3] and len(again.held_out["airline"]) == 1


def test_damaged_and_foreign_lists_are_refused(tmp_path):
    path = tmp_path / "list.jsonl"

    def refused(text: str) -> str:
        path.write_text(text)
        with pytest.raises(UserError) as caught:
            gather_tasks(("airline",), seed=0, levels=(1,), tasks_per_domain=5, eval_tasks=3,
                         task_files={"airline": str(path)})  # fmt: skip
        return str(caught.value)

    assert "line 1 is no task" in refused("{}\n")
    assert "line 1 is no task" in refused("[1]\n") and "line 1 is no task" in refused("damaged\n")
    row = TaskRow("airline", "x", "add_bags", 5, 1)
    for wrong, text in (
        (replace(row, domain="retail"), "is of the domain retail"),
        (replace(row, seed=TRAINING_SEEDS), "for evaluation only"),
        (TaskRow("airline", "3"), "has no template"),
        (row, "no task to be measured on"),
    ):
        write_rows(path, {TRAIN: [wrong]})
        assert text in refused(path.read_text())


@pytest.fixture
def small_tau2(tmp_path):
    """The airline of a tiny tau2-bench directory with ten tasks."""
    return write_airline(tmp_path / "data", [airline_task(str(number)) for number in range(10)]) / "airline"


def tau2_sets(folder, **more):
    options = {"seed": 0, "levels": (1,), "tasks_per_domain": 100, "eval_tasks": 100, **more}
    return gather_tasks(("airline",), **options)


def test_test_split_is_measured_and_never_learnt(small_tau2):
    ids = [row["id"] for row in json.loads((small_tau2 / "tasks.json").read_text())]
    # The last id stands in both: test wins.
    split = {"train": [*ids[:6], ids[9]], "test": [ids[8], ids[9]], "base": ids}
    (small_tau2 / "split_tasks.json").write_text(json.dumps(split))
    sets = tau2_sets(small_tau2, tau2_data=small_tau2.parent)
    assert [row.id for row in sets.training["airline"]] == ids[:6]
    assert [row.id for row in sets.evaluation["airline"]] == ids[8:]
    assert sets.make(sets.training["airline"][0]).id == ids[0] and not sets.held_out
    capped = tau2_sets(small_tau2, tau2_data=small_tau2.parent, tasks_per_domain=2, eval_tasks=1)
    assert len(capped.training["airline"]) == 2 and len(capped.evaluation["airline"]) == 1


def test_without_a_split_the_first_60_percent_are_learnt(small_tau2):
    sets = tau2_sets(small_tau2, task_files={"airline": str(small_tau2 / "tasks.json")})
    ids = [row["id"] for row in json.loads((small_tau2 / "tasks.json").read_text())]
    assert [row.id for row in sets.training["airline"]] == ids[:6]
    assert [row.id for row in sets.evaluation["airline"]] == ids[6:]
    assert "the first 6 of 10 are learnt" in sets.notes[0]


def test_a_task_file_chooses_among_the_tasks_of_its_directory(small_tau2):
    rows = json.loads((small_tau2 / "tasks.json").read_text())
    hard = small_tau2 / "tasks_hard.json"
    hard.write_text(json.dumps({"tasks": rows[7:2:-1]}))
    sets = tau2_sets(small_tau2, task_files={"airline": str(hard)})
    found = [row.id for row in sets.training["airline"] + sets.evaluation["airline"]]
    assert found == [row["id"] for row in rows[7:2:-1]]
    elsewhere = small_tau2.parent / "mine.json"
    hard.rename(elsewhere)
    with pytest.raises(UserError, match=r"expected airline/tasks\.json or"):
        tau2_sets(small_tau2, task_files={"airline": str(elsewhere)})
    with pytest.raises(UserError, match="no such file"):
        tau2_sets(small_tau2, task_files={"airline": str(hard)})


def test_divide_keeps_tasks_of_other_splits():
    tasks = [replace(task_of_seed("retail", seed, 0), split=split) for seed, split in enumerate(("base", None, "test"))]
    learnt, measured, _ = divide("retail", tasks)
    assert [row.id for row in learnt] == [task.id for task in tasks[:2]] and [row.id for row in measured] == [
        tasks[2].id
    ]


@pytest.mark.parametrize(("count", "window"), [(1, 1), (5, 2), (7, 7), (10, 4), (16, 15), (3, 8)])
def test_deck_loses_and_doubles_nothing(count, window):
    deck = Deck(count, window, 5, "new tasks", "stage_1_airline")
    seen = deck.take(0, 6 * count + 2)
    for epoch in range(6):
        assert sorted(seen[epoch * count : (epoch + 1) * count]) == list(range(count))
    near = min(window, count)
    assert all(len(set(seen[place : place + near])) == near for place in range(len(seen) - near))
    # A place is looked up in any order, as after a resume.
    fresh = Deck(count, window, 5, "new tasks", "stage_1_airline")
    assert fresh.take(4 * count + 1, 2) == seen[4 * count + 1 : 4 * count + 3]
    assert fresh.take(1, count) == seen[1 : count + 1]


def test_decks_of_other_names_and_epochs_differ():
    first = Deck(50, 8, 5, "a").take(0, 100)
    assert first[:50] != first[50:] and first != Deck(50, 8, 5, "b").take(0, 100) != Deck(50, 8, 6, "b").take(0, 100)


def test_rows_are_made_once(monkeypatch):
    sets = sets_of()
    row = sets.training["airline"][0]
    made = sets.make(row)
    monkeypatch.setattr(module, "make_task", None)
    assert sets.make(row) is made
