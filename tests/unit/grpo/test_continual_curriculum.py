"""Stages, gates, the tasks of a step, and the dealing of episodes to processes."""

from collections import Counter

import pytest

from lib.errors import UserError
from lib.grpo.continual.curriculum import (
    GRPO,
    WARM_START,
    Cursor,
    Gate,
    StepTasks,
    deal,
    make_curriculum,
    old_tasks,
    plan_lines,
)
from lib.grpo.continual.tasks import TaskRow

DOMAINS = ("airline", "retail", "telecom")
POOLS = {domain: tuple(TaskRow(domain, str(number)) for number in range(10)) for domain in DOMAINS}


def plan(**more):
    return make_curriculum(DOMAINS, **{"steps_per_domain": 5, "prompts_per_step": 8, "group_size": 4, **more})


def test_sequential_stages_have_the_originals_names():
    curriculum = plan(warm_start_steps=50)
    assert [stage.name for stage in curriculum.stages] == [
        "stage_0_warm_start", "stage_1_airline", "stage_2_retail", "stage_3_telecom",
    ]  # fmt: skip
    assert [stage.kind for stage in curriculum.stages] == [WARM_START, GRPO, GRPO, GRPO]
    assert [stage.number for stage in curriculum.stages] == [0, 1, 2, 3]
    assert curriculum.domains == DOMAINS and curriculum.learnt == (1, 2, 3)
    assert [curriculum.earlier(stage) for stage in curriculum.stages] == [(), (), ("airline",), ("airline", "retail")]
    assert curriculum.to_json()["stages"][1]["steps"] == 5


def test_joint_stage_has_the_steps_of_all():
    curriculum = plan(joint=True)
    (stage,) = curriculum.stages
    assert (stage.name, stage.steps, stage.domains) == ("stage_1_joint", 15, DOMAINS)
    assert curriculum.learnt == (1, 1, 1) and curriculum.earlier(stage) == ()


def test_orders_and_subsets():
    curriculum = make_curriculum(("telecom", "airline"), steps_per_domain=1, prompts_per_step=2, group_size=2)
    assert [stage.name for stage in curriculum.stages] == ["stage_1_telecom", "stage_2_airline"]


@pytest.mark.parametrize(("domains", "group_size"), [((), 4), (("retail", "retail"), 4), (("retail",), 1)])
def test_what_cannot_be_learnt_is_refused(domains, group_size):
    with pytest.raises(UserError, match="expected"):
        make_curriculum(domains, steps_per_domain=1, prompts_per_step=2, group_size=group_size)


def test_gate_repeats_until_it_is_passed_or_its_cap():
    curriculum = plan(warm_start_steps=3, gate=Gate(min_pass=0.5, max_repeats=2))
    cursor = Cursor(step=3)
    assert not cursor.leave(curriculum, 0.0), "a warm start is not repeated"
    stage = curriculum.stages[cursor.stage]
    assert cursor.steps_left(stage) == 5
    cursor.step = 5
    assert cursor.leave(curriculum, 0.4) and cursor.steps_left(stage) == 5
    cursor.step = 10
    assert cursor.leave(curriculum, 0.4) and cursor.stage == 1
    cursor.step = 15
    assert not cursor.leave(curriculum, 0.4), "the cap"
    assert cursor == Cursor(stage=2)
    cursor.step = 5
    assert not cursor.leave(curriculum, 0.5), "passed"
    assert not Gate().repeats(0, 0.0)


def test_steps_take_fixed_numbers_of_new_and_old_tasks():
    curriculum = plan()
    old = {domain: POOLS[domain] for domain in DOMAINS[:2]}
    steps = StepTasks(curriculum.stages[2], 7, 8, {"telecom": POOLS["telecom"]}, old, old_count=3)
    picks = [steps.of_step(step) for step in range(20)]
    for step in picks:
        assert [pick.group for pick in step] == list(range(8)) and len({pick.row.key for pick in step}) == 8
        assert [pick.old for pick in step] == [False] * 5 + [True] * 3
        assert all((pick.row.domain == "telecom") != pick.old for pick in step)
    # 100 draws of the new pool of ten, 30 of each old one: every task equally often.
    counts = Counter(pick.row.key for step in picks for pick in step)
    assert {counts[("telecom", str(number))] for number in range(10)} == {10}
    assert {counts[(domain, str(number))] for domain in DOMAINS[:2] for number in range(10)} == {3}


def test_tasks_of_a_step_do_not_depend_on_what_was_asked_before():
    stage = plan().stages[0]
    steps = [StepTasks(stage, 7, 8, {"airline": POOLS["airline"]}) for _ in range(2)]
    forward = [steps[0].of_step(step) for step in range(6)]
    assert [steps[1].of_step(step) for step in reversed(range(6))] == forward[::-1]
    assert StepTasks(stage, 8, 8, {"airline": POOLS["airline"]}).of_step(0) != forward[0]


def test_joint_steps_take_the_domains_in_turn():
    stage = plan(joint=True).stages[0]
    steps = StepTasks(stage, 7, 8, POOLS)
    picks = [pick.row for step in range(15) for pick in steps.of_step(step)]
    assert set(Counter(row.key for row in picks).values()) == {4}, "120 draws of 30 tasks"
    for step in range(15):
        assert sorted(Counter(row.domain for row in picks[8 * step : 8 * step + 8]).values()) == [2, 3, 3]


def test_fewer_tasks_than_a_step_takes():
    stage = plan().stages[0]
    step = StepTasks(stage, 7, 8, {"airline": POOLS["airline"][:3]}).of_step(0)
    assert sorted(Counter(pick.row.id for pick in step).values()) == [2, 3, 3]
    assert [pick.group for pick in step] == list(range(8))


def test_old_share_is_rounded_and_never_none_nor_all():
    assert [old_tasks(16, share) for share in (0.0, 0.01, 0.2, 0.25, 0.5, 1.0)] == [0, 1, 3, 4, 8, 15]
    assert old_tasks(1, 0.5) == 0


def test_plan_lines_name_what_is_taken():
    lines = plan_lines(plan(warm_start_steps=50, gate=Gate(0.5, 2)), {"airline": 10, "retail": 20, "telecom": 40}, 0.25)
    assert lines[0] == "stage_0_warm_start: 50 steps"
    assert lines[1] == "stage_1_airline: 5 steps x 8 tasks x 4 samples, from 10 of airline (4.0 times each)"
    assert lines[3].endswith("from 40 of telecom (0.8 times each); 2 of 8 from airline, retail")
    assert lines[4] == "a stage is repeated below 0.5 success, at most 2 times"


def test_ten_tasks_on_three_ranks_are_interleaved():
    assert [[group for group, _ in rank] for rank in deal(10, 1, 3)] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("groups", "size"), [(10, 1), (10, 8), (2, 4), (1, 2), (16, 8), (7, 3)])
@pytest.mark.parametrize("known", [False, True])
def test_dealing_loses_and_doubles_nothing(groups, size, ranks, known):
    lengths = [float((7 * group) % 11) for group in range(groups)] if known else None
    dealt = deal(groups, size, ranks, lengths)
    pairs = [pair for rank in dealt for pair in rank]
    assert sorted(pairs) == [(group, sample) for group in range(groups) for sample in range(size)]
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    # Whole groups wherever they fit: each rank has its size // group size of them.
    whole = sum(len(rank) // size for rank in dealt)
    kept = sum(Counter(group for group, _ in rank)[group] == size for rank in dealt for group in range(groups))
    assert kept >= whole


def test_longest_first_and_to_the_least_loaded():
    lengths = [1.0, 9.0, 2.0, 8.0, 7.0, 3.0]
    dealt = [[group for group, sample in rank if sample == 0] for rank in deal(6, 4, 2, lengths)]
    assert dealt == [[1, 5, 2], [3, 4, 0]]
    loads = [sum(lengths[group] for group in rank) for rank in dealt]
    assert max(loads) - min(loads) <= 2
