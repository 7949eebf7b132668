"""Generated tasks of all domains: experts succeed, nothing else does, and a task is a function of its four names."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from episode_samples import run

from lib.errors import UserError
from lib.grpo import make_task, task_of_seed, templates
from lib.grpo.agents import BASELINES, EXPLOITS, run_agent
from lib.grpo.demonstrations import expert
from lib.grpo.domains import DOMAINS
from lib.grpo.environment import Environment
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.generate import LEVELS, OUTCOMES
from lib.grpo.users.ticket import nobody
from lib.grpo.worlds.store import Database, canonical

ALL = [(domain, template) for domain in DOMAINS for template in templates(domain)]
# Of the benchmark, which measures 1,000 tasks a domain and level.
SEEDS = range(1000, 1008)
AGENT_TASKS = 150


def test_there_are_enough_templates():
    for domain in DOMAINS:
        held_out = templates(domain, held_out=True)
        assert len(templates(domain)) >= 12 and 2 <= len(held_out) <= 4
        assert set(templates(domain, held_out=False)) == set(templates(domain)) - set(held_out)


@pytest.mark.parametrize(("domain", "template"), ALL)
def test_the_expert_always_succeeds(domain, template):
    for level in LEVELS:
        for seed in SEEDS:
            task = make_task(domain, template, seed, level)
            for solo in (False, True):
                environment = run(task, expert(task, solo=solo), Environment(nobody) if solo else Environment())
                reward = environment.reward()
                assert reward.total == 1, f"{task.key} solo={solo}: {environment.end} {reward}"
                assert environment.errors == 0 and not environment.world.faults, task.key


@pytest.mark.parametrize(("domain", "template"), ALL)
def test_the_database_is_as_a_file_would_hold_it(domain, template):
    """Rows pass the reader of data files unchanged: fields, order and number types."""
    setting = make_task(domain, template, 3, 4).setting
    dump = Database(setting.agent_base).dump()
    read = setting.domain.read_agent_base(json.loads(json.dumps(dump)))
    assert canonical(Database(read).dump()) == canonical(dump)


@pytest.mark.parametrize("domain", DOMAINS)
def test_levels(domain):
    first = make_task(domain, templates(domain)[0], 5, 0)
    assert len(first.brief["requests"]) == 1
    opening = first.brief["requests"][0]["opening"]
    assert all(sentence in opening for sentence in first.brief["known"].values()), "level 0 gives everything at once"
    for template in templates(domain):
        assert len(make_task(domain, template, 5, 1).brief["requests"]) == 1
        assert len(make_task(domain, template, 5, 3).brief["requests"]) == 2
    sizes = [rows_of(make_task(domain, templates(domain)[0], 5, level)) for level in LEVELS]
    assert sizes[0] < sizes[2] < sizes[4], "worlds grow with the level"
    deep = [task_of_seed(domain, seed, 4) for seed in range(40)]
    assert any("change" in request for task in deep for request in task.brief["requests"])
    assert any("insist" in request for task in deep for request in task.brief["requests"])
    assert any(task.data["evaluation_criteria"]["communicate_info"] for task in deep)


def rows_of(task):
    return sum(len(rows) for rows in task.setting.agent_base.tables.values())


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_rules_decide_at_level_2(domain):
    found = Counter()
    for seed in range(600):
        criteria = task_of_seed(domain, seed, 2).data["evaluation_criteria"]
        found["transfer" if "ACTION" in criteria["reward_basis"] else "deny" if criteria["refuse"] else "act"] += 1
    for outcome, share in OUTCOMES.items():
        assert abs(found[outcome] / 600 - share) < 0.07, found


# The bars of the issue, with room for a sample of 150 tasks where chance decides.
MOST = {
    "do_nothing": 0.0,
    "random_tool": 0.02,
    "always_act": 0.45,
    "always_refuse": 0.45,
    "always_transfer": 0.4,
    "claim_and_refuse": 0.45,
}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(("agent", "most"), MOST.items())
def test_agents_that_always_do_the_same_do_not_get_far(domain, agent, most):
    won = sum(run_agent(BASELINES[agent], task_of_seed(domain, seed, 2)).total for seed in range(AGENT_TASKS))
    assert won / AGENT_TASKS <= most


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("agent", EXPLOITS)
@pytest.mark.parametrize("level", [0, 2, 3])
def test_exploits_earn_nothing_to_speak_of(domain, agent, level):
    won = sum(run_agent(EXPLOITS[agent], task_of_seed(domain, seed, level)).total for seed in range(60))
    assert won / 60 <= 0.1


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_gold_write_left_out_or_changed_fails(domain):
    for seed in range(40):
        task = task_of_seed(domain, seed, 1)
        writes = [i for i, m in enumerate(task.solo_script) for c in m.get("tool_calls") or [] if is_write(task, c)]
        for place in writes:
            script = [message for i, message in enumerate(task.solo_script) if i != place]
            assert run(task, script, Environment(nobody)).reward().total == 0, task.key


def is_write(task, call):
    world = task.world()
    name = call["function"]["name"]
    return any(
        found and found[0].kind == "write" for found in (world.find_tool(s, name) for s in ("assistant", "user"))
    )


PRINT_HASHES = """
import sys
from test_generated_tasks import fingerprint
print(fingerprint())
"""


def fingerprint() -> str:
    """Over tasks, databases, dialogues and final states."""
    digest = hashlib.sha256()
    for domain in DOMAINS:
        for level in LEVELS:
            task = task_of_seed(domain, 12_345 + level, level)
            environment = run(task, expert(task))
            for part in (task.data, task.brief, task.script, task.solo_script, environment.messages):
                digest.update(json.dumps(part).encode())
            digest.update(task.setting.agent_base.digest().encode() + environment.world.state_hash().encode())
    return digest.hexdigest()


def test_tasks_are_byte_equal_in_every_process_and_order():
    here = os.path.dirname(__file__)
    root = os.path.abspath(os.path.join(here, "..", "..", ".."))
    found = {fingerprint()}
    task_of_seed("retail", 1, 4)
    found.add(fingerprint())
    for hash_seed in ("0", "77"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([here, root])}
        done = subprocess.run([sys.executable, "-c", PRINT_HASHES], env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout.strip())
    assert len(found) == 1
    # Pinned, so that a change of the worlds is noticed: it changes what published seeds mean.
    assert found == {PINNED}


PINNED = "c4b4a21424918257fb92c64c0247fac39930285718849145acea0d8eddd0fea9"


def test_different_names_give_different_tasks():
    seen = {canonical([task.data, task.brief]) for task in tasks_around(("airline", "cancel_sick", 7, 2))}
    assert len(seen) == 4


def tasks_around(names):
    domain, template, seed, level = names
    yield make_task(domain, template, seed, level)
    yield make_task(domain, "cancel_plans", seed, level)
    yield make_task(domain, template, seed + 1, level)
    yield make_task(domain, template, seed, level + 1)


def test_draws_are_the_same_for_ever():
    draw = Draw("a", 1)
    assert [draw.below(1000) for _ in range(5)] == FIRST_DRAWS
    assert Draw("a", "1").below(10**9) != Draw("a", 1).below(10**9), "1 and '1' are different names"
    assert sorted(Draw("x").sample(range(9), 9)) == list(range(9))


FIRST_DRAWS = [215, 960, 863, 845, 112]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("rail", "x", 0, 0), "no domain 'rail'"),
        (("airline", "fly_to_moon", 0, 0), "no template 'fly_to_moon'"),
        (("airline", "upgrade", -1, 0), "seed -1"),
        (("airline", "upgrade", 0, 5), "level 5"),
    ],
)
def test_unknown_names_are_refused(names, message):
    with pytest.raises(UserError, match=message):
        make_task(*names)
