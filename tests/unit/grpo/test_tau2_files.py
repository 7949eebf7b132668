"""Reading a tau2-bench data directory, good and damaged, and replaying the real one."""

import dataclasses
import json

import pytest
from episode_samples import CANCEL, airline_data, airline_task, real_data, write_airline

from lib.errors import UserError
from lib.grpo import Environment, load_tau2
from lib.grpo.demonstrations import expert
from lib.grpo.replay import replay, report_row
from lib.grpo.users.ticket import nobody

# Tasks whose gold look-ups (or, in 105, an exchange) the benchmark's own tools refuse.
REFUSED_GOLD = {"2", "3", "4", "35", "37", "46", "47", "54", "67", "105"}
# A write whose effect a later gold write of the task undoes, or that is itself refused.
NO_EFFECT = {("22", "modify_user_address"), ("110", "modify_user_address"), ("105", "exchange_delivered_order_items")}


@pytest.mark.parametrize("above", ["", "domains", "tau2/domains", "data/tau2/domains"])
def test_the_directory_or_one_above_it(tmp_path, above):
    write_airline(tmp_path / above)
    data = load_tau2(tmp_path)
    assert list(data.settings) == ["airline"] and [task.key for task in data.tasks] == [("airline", "0")]


def test_null_and_absent_fields_are_fine(tmp_path):
    bare = {"id": 5}
    nulls = dict.fromkeys(("description", "user_scenario", "ticket", "initial_state", "evaluation_criteria"))
    inner = dict.fromkeys(("actions", "env_assertions", "communicate_info", "nl_assertions", "reward_basis"))
    rows = [bare, {"id": "6", **nulls}, {"id": "7", "evaluation_criteria": inner}]
    for task in load_tau2(write_airline(tmp_path, rows)).tasks:
        reward, calls = replay(task)
        assert reward.total == 1 and not calls
        Environment().reset(task)


def test_tasks_as_an_object_more_files_and_splits(tmp_path):
    folder = write_airline(tmp_path) / "airline"
    (folder / "tasks.json").write_text(json.dumps({"tasks": [airline_task("1"), airline_task("2")]}))
    (folder / "tasks_small.json").write_text(json.dumps([airline_task("2"), airline_task("3")]))
    (folder / "split_tasks.json").write_text(json.dumps({"base": ["1", "2", "3"], "train": ["1"], "test": ["2"]}))
    data = load_tau2(tmp_path)
    assert [(task.id, task.split) for task in data.tasks] == [("1", "train"), ("2", "test"), ("3", "base")]
    assert [task.id for task in data.training_tasks()] == ["1", "3"]


def test_equal_ids_of_two_domains_stay_apart():
    data = load_tau2(real_data())
    assert len({task.key for task in data.tasks}) == len(data.tasks) > len({task.id for task in data.tasks})


def damage(folder, name, text):
    (folder / "airline" / name).write_text(text)


def replace(data, *path_and_value):
    *path, last, value = path_and_value
    holder = data
    for key in path:
        holder = holder[key]
    holder[last] = value
    return data


WRONG_DATA = [
    (("users", "ada_bauer_1", "membership", "platinum"), "membership is 'platinum'"),
    (("users", "ada_bauer_1", "payment_methods", "gift_card_1", "amount", "much"), "expected a number"),
    (("reservations", "AAA111", "passengers", None), "passengers"),
    (("reservations", "AAA111", "payment_history", [{"payment_id": "x", "amount": 1.5}]), "whole number"),
    (("flights", "HAT001", "dates", {"2024-05-20": {"status": "lost"}}), "status is 'lost'"),
    (("trains", {}), "unknown field 'trains'"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_DATA)
def test_a_database_that_holds_something_else(tmp_path, change, message):
    write_airline(tmp_path, data=replace(airline_data(), *change))
    with pytest.raises(UserError, match=message) as raised:
        load_tau2(tmp_path)
    assert "db.json" in str(raised.value) and "\n" not in str(raised.value)


WRONG_TASKS = [
    ([{"name": "no id"}], "task 0"),
    ("task", "expected a list"),
    ([airline_task(), {**airline_task(), "ticket": "other"}], "twice"),
    ([airline_task(), airline_task()], "twice"),
    ([airline_task(actions=[{"arguments": {}}])], r"actions\[0\] has no name"),
    ([airline_task(actions=[{**CANCEL, "arguments": [1]}])], "arguments is list"),
    ([airline_task(actions=[{**CANCEL, "requestor": "ghost"}])], "ghost"),
    ([airline_task(actions={})], "actions is dict"),
    ([airline_task(reward_basis=["LUCK"])], "LUCK"),
    ([airline_task(communicate_info=[3])], "communicate_info"),
    ([airline_task(env_assertions=[{"env_type": "user"}])], "func_name"),
    ([{**airline_task(), "initial_state": []}], "initial_state is list"),
    ([{**airline_task(), "user_scenario": {"instructions": 3}}], "instructions"),
    ([{**airline_task(), "user_scenario": {"persona": 5}}], "persona is int"),
    ([{**airline_task(), "user_scenario": {"instructions": {"known_info": ["a"]}}}], "known_info is list"),
    ([{**airline_task(), "ticket": 5}], "ticket is int"),
    ([{**airline_task(), "initial_state": {"message_history": ["x"]}}], r"message_history\[0\] is str"),
    ([{**airline_task(), "initial_state": {"message_history": [{"tool_calls": 5}]}}], "tool_calls is int"),
    ([{**airline_task(), "initial_state": {"message_history": [{"tool_calls": [5]}]}}], "tool_calls holds"),
    ([airline_task(actions=[{**CANCEL, "compare_args": 5}])], "compare_args is int"),
    ([airline_task(actions=[{**CANCEL, "compare_args": [[1]]}])], "compare_args holds"),
    ([airline_task(forbidden=5)], "forbidden is int"),
    ([{**airline_task(), "id": True}], "expected an object with an id"),
    ([{**airline_task(), "id": ""}], "expected an object with an id"),
    ([], "holds no task"),
]


@pytest.mark.parametrize(("tasks", "message"), WRONG_TASKS)
def test_tasks_that_hold_something_else(tmp_path, tasks, message):
    write_airline(tmp_path, tasks)
    with pytest.raises(UserError, match=message) as raised:
        load_tau2(tmp_path)
    assert "tasks.json" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["db.json", "tasks.json", "policy.md"])
def test_a_missing_file_is_named(tmp_path, name):
    (write_airline(tmp_path) / "airline" / name).unlink()
    with pytest.raises(UserError, match=name):
        load_tau2(tmp_path)


@pytest.mark.parametrize("name", ["db.json", "tasks.json", "split_tasks.json"])
@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "[" * 100_000, "\x00"])
def test_a_damaged_file_is_named(tmp_path, name, text):
    damage(write_airline(tmp_path), name, text)
    with pytest.raises(UserError, match=name) as raised:
        load_tau2(tmp_path)
    assert len(str(raised.value)) < 400 + len(str(tmp_path))


@pytest.mark.parametrize("name", ["db.json", "tasks.json", "split_tasks.json", "policy.md"])
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path, name):
    """Above all a split file must not be overlooked: it says what is not to be trained on."""
    path = write_airline(tmp_path) / "airline" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(UserError, match=f"{name} is a folder"):
        load_tau2(tmp_path)


def test_a_task_of_another_file_does_not_replace_one_of_tasks_json(tmp_path):
    folder = write_airline(tmp_path) / "airline"
    (folder / "tasks_small.json").write_text(json.dumps([{**airline_task("0"), "ticket": "other"}]))
    assert [task.data.get("ticket") for task in load_tau2(tmp_path).tasks] == [None]


def test_a_message_history_with_odd_calls_is_read(tmp_path):
    calls = [{"function": "x"}, {"name": 3}, {"function": {"name": "cancel_reservation", "arguments": "x"}}]
    history = [{"role": "assistant", "content": None, "tool_calls": calls}]
    row = {**airline_task(), "initial_state": {"message_history": history}}
    task = load_tau2(write_airline(tmp_path, [row])).tasks[0]
    assert task.world().agent.db.find("reservations", "AAA111")["status"] is None


def test_a_task_that_cannot_start_is_a_row_of_the_report(tmp_path):
    call = {"env_type": "user", "func_name": "turn_data_off", "arguments": {}}
    bad = {**airline_task("bad"), "initial_state": {"initialization_actions": [call]}}
    rows = [report_row(task) for task in load_tau2(write_airline(tmp_path, [bad, airline_task("good")])).tasks]
    assert [(row["id"], row["reward"]) for row in rows] == [("bad", 0), ("good", 1)]
    assert "turn_data_off" in rows[0]["tool_errors"][0]


def test_not_text(tmp_path):
    (write_airline(tmp_path) / "airline" / "policy.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"policy\.md cannot be read"):
        load_tau2(tmp_path)


def test_no_such_directory_domain_or_folder(tmp_path):
    with pytest.raises(UserError, match="is no folder"):
        load_tau2(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds none of the folders"):
        load_tau2(tmp_path)
    write_airline(tmp_path)
    with pytest.raises(UserError, match="no domain 'rail'"):
        load_tau2(tmp_path, ("rail",))
    with pytest.raises(UserError, match="no folder retail"):
        load_tau2(tmp_path, ("airline", "retail"))


# The real data.


@pytest.mark.shared_data
def test_every_gold_replay_earns_1_and_only_known_gold_is_refused():
    rows = [report_row(task) for task in load_tau2(real_data()).tasks]
    assert len(rows) == 30 + 74 + 166
    assert [row["id"] for row in rows if row["reward"] != 1] == []
    assert {row["id"] for row in rows if row["tool_errors"]} == REFUSED_GOLD
    assert all(row["domain"] == "retail" for row in rows if row["tool_errors"])
    assert sum("NL_ASSERTION" in row["dropped"] for row in rows) == 73


@pytest.mark.shared_data
def test_a_gold_write_left_out_or_changed_earns_0():
    left_out, changed = set(), set()
    for task in load_tau2(real_data()).tasks:
        world = task.world()
        for place, action in enumerate(task.actions):
            if world.find_tool(action.requestor, action.name)[0].kind != "write":
                continue
            before, after = task.actions[:place], task.actions[place + 1 :]
            if replay(task, before + after)[0].total:
                left_out.add((task.id, action.name))
            for name, value in action.arguments.items():
                other = changed_value(value)
                wrong = dataclasses.replace(action, arguments={**action.arguments, name: other})
                if replay(task, (*before, wrong, *after))[0].total:
                    changed.add((task.id, action.name))
    assert {row for row in left_out if row[1] != "reboot_device"} == NO_EFFECT
    # Where a task asks for two reboots one is enough: nothing between them waits for it.
    assert len([row for row in left_out if row[1] == "reboot_device"]) == 1
    assert changed == NO_EFFECT


def changed_value(value):
    if isinstance(value, list):
        return value[:-1]
    return value + 1 if isinstance(value, int | float) else f"{value}x"


@pytest.mark.shared_data
@pytest.mark.parametrize("solo", [False, True])
def test_the_gold_calls_as_a_dialogue_earn_1(solo):
    for task in load_tau2(real_data()).tasks:
        environment = Environment(nobody) if solo else Environment()
        environment.reset(task)
        for message in expert(task, solo=solo):
            if environment.end is None:
                environment.step(message)
        assert environment.reward().total == 1, task.key
        assert not environment.world.faults


@pytest.mark.shared_data
def test_the_policy_of_the_telecom_holds_the_manual():
    setting = load_tau2(real_data(), ("telecom",)).settings["telecom"]
    assert setting.policy.startswith("<main_policy>\n# Telecom Agent Policy")
    assert "\n</main_policy>\n<tech_support_policy>\n# Introduction" in setting.policy
    assert setting.solo_policy and setting.solo_policy != setting.policy
