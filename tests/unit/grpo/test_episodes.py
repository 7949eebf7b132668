"""The environment: the flow of an episode, its ends, tickets, and that nothing an agent writes raises."""

import json

import pytest
from episode_samples import CANCEL, airline_task, run, write_airline

from lib.grpo import Environment, Limits, load_tau2, make_task
from lib.grpo.messages import call_message, text_message
from lib.grpo.users.ticket import nobody
from lib.grpo.worlds.records import DataError

DONE = text_message("It has been done.")


@pytest.fixture
def task(tmp_path):
    return load_tau2(write_airline(tmp_path)).tasks[0]


def test_reset_gives_policy_greeting_opening_and_tools(task):
    environment = Environment()
    messages, tools = environment.reset(task)
    assert [message["role"] for message in messages] == ["system", "assistant", "user"]
    assert "Be kind." in messages[0]["content"] and "AAA111" in messages[2]["content"]
    assert len(tools) == 14 and all(tool["type"] == "function" for tool in tools)
    messages.append("mine")
    assert environment.messages[-1] != "mine", "the caller's list is its own"


def test_a_call_is_answered_by_the_tool_and_text_by_the_user(task):
    environment = Environment()
    environment.reset(task)
    answers, done = environment.step(call_message("get_user_details", {"user_id": "ada_bauer_1"}, id="c1"))
    assert [(a["role"], a["tool_call_id"]) for a in answers] == [("tool", "c1")] and not done
    assert json.loads(answers[0]["content"])["membership"] == "gold"
    answers, done = environment.step("What is your user id?")
    assert [a["role"] for a in answers] == ["user"] and "ada_bauer_1" in answers[0]["content"] and not done


def test_several_calls_in_one_message_are_carried_out_in_order(task):
    calls = [call_message("cancel_reservation", {"reservation_id": id})["tool_calls"][0] for id in ("AAA111", "NO")]
    environment = run(task, [{"role": "assistant", "content": "", "tool_calls": calls}])
    tools = [message["content"] for message in environment.messages if message["role"] == "tool"]
    assert '"cancelled"' in tools[0] and tools[1] == "Error: Reservation NO not found" and environment.errors == 1


def test_calls_are_numbered_through_and_the_transcript_holds_their_numbers(task):
    calls = ["<tool_call>broken</tool_call>", '<tool_call>{"name": "nope"}</tool_call>']
    environment = run(task, [*calls, {"tool_calls": [{"function": {"name": "nope"}}]}])
    answered = [message["tool_call_id"] for message in environment.messages if message["role"] == "tool"]
    asked = [call["id"] for message in environment.messages for call in message.get("tool_calls") or []]
    assert answered == asked == ["call_0", "call_1", "call_2"]


def test_after_the_ticket_is_closed_calls_are_refused():
    task = make_task("airline", "cancel_sick", 3, 1)
    names = ("done", "get_user_details")
    message = {"tool_calls": [{"function": {"name": name, "arguments": {}}} for name in names]}
    environment = run(task, [message], Environment(nobody))
    contents = [m["content"] for m in environment.messages if m["role"] == "tool"]
    assert contents == ["Ticket closed.", "Error: the ticket is closed"] and environment.end == "agent_stop"


def test_text_beside_a_call_does_not_reach_the_user(task):
    message = {**call_message("get_user_details", {"user_id": "ada_bauer_1"}), "content": "It has been done."}
    environment = run(task, [message])
    assert environment.end is None and environment.messages[-1]["role"] == "tool"


def test_ends(task):
    assert run(task, [DONE]).end == "user_stop"
    limits = Limits(max_turns=5, max_errors=3)
    look = call_message("get_user_details", {"user_id": "ada_bauer_1"})
    environment = run(task, [look] * 5, Environment(limits=limits))
    assert environment.end == "max_turns" and environment.reward().total == 0
    environment = run(task, [call_message("nope", {})] * 3, Environment(limits=limits))
    assert environment.end == "too_many_errors"
    assert run(task, [text_message("Hm.")] * 4).end == "gave_up"
    with pytest.raises(ValueError, match="reset"):
        environment.step("more")
    with pytest.raises(ValueError, match="reset"):
        Environment().step("more")
    with pytest.raises(ValueError, match="reset"):
        Environment().reward()


@pytest.mark.parametrize("message", [None, 7, {"content": 1}, {"tool_calls": 1}, "x" * 30_000, b"bytes", [], {"a": 1}])
def test_unusable_messages_are_answered_with_an_error(task, message):
    environment = Environment()
    environment.reset(task)
    answers, done = environment.step(message)
    if message == {"a": 1}:
        assert environment.errors == 0, "an empty message is a message"
        return
    assert not done and environment.errors == 1 and answers[0]["content"].startswith("Error: ")
    assert len(answers[0]["content"]) < 200 and environment.world.state() == task.world().state()


def test_alone_the_agent_holds_all_tools_and_closes_the_ticket():
    task = make_task("airline", "cancel_sick", 3, 1)
    environment = Environment(nobody)
    messages, tools = environment.reset(task)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert tools[-1]["function"]["name"] == "done" and task.data["ticket"] == messages[1]["content"]
    environment = run(task, task.solo_script, Environment(nobody))
    assert environment.end == "agent_stop" and environment.reward().total == 1
    calls = [message for message in task.solo_script if message.get("tool_calls")]
    environment = run(task, [*calls, call_message("done", {})], Environment(nobody))
    assert environment.end == "agent_stop" and environment.reward().total == 1


def test_a_ticket_for_a_task_that_has_none(task):
    messages, _ = Environment(nobody).reset(task)
    assert "AAA111" in messages[1]["content"] and "ada_bauer_1" in messages[1]["content"]


def test_initial_state_data_actions_and_history(tmp_path):
    row = airline_task(reward_basis=["DB"])
    history = [
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Cancel it."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "cancel_reservation", **arguments()}]},
        {"role": "tool", "id": "1", "content": "{}"},
    ]
    data = {"agent_data": {"users": {"ada_bauer_1": {"membership": "silver"}}}}
    row["initial_state"] = {"initialization_data": data, "initialization_actions": None, "message_history": history}
    task = load_tau2(write_airline(tmp_path, [row])).tasks[0]
    world = task.world()
    assert world.agent.db.find("users", "ada_bauer_1")["membership"] == "silver"
    assert world.agent.db.find("reservations", "AAA111")["status"] == "cancelled"
    assert task.setting.agent_base.tables["users"]["ada_bauer_1"]["membership"] == "gold"
    messages, _ = Environment().reset(task)
    assert [message["content"] for message in messages[1:3]] == ["Hello!", "Cancel it."]


def arguments():
    return {"arguments": {"reservation_id": "AAA111"}}


@pytest.mark.parametrize(
    "state",
    [
        {"initialization_data": {"agent_data": {"users": {"ada_bauer_1": {"membership": "platinum"}}}}},
        {"initialization_data": {"agent_data": {"trains": {}}}},
        {"initialization_data": {"user_data": {"device": {}}}},
        {"initialization_actions": [{"env_type": "user", "func_name": "turn_data_off", "arguments": {}}]},
        {"initialization_actions": [{"env_type": "assistant", "func_name": "_user", "arguments": {}}]},
        {"initialization_actions": [{"env_type": "assistant", "func_name": "get_user_details", "arguments": {"a": 1}}]},
    ],
)
def test_an_initial_state_that_cannot_be_applied_is_named(tmp_path, state):
    task = load_tau2(write_airline(tmp_path, [{**airline_task("7"), "initial_state": state}])).tasks[0]
    with pytest.raises(DataError, match="task airline/7"):
        Environment().reset(task)


def test_a_reset_forgets_everything(task):
    environment = run(task, [call_message("cancel_reservation", CANCEL["arguments"]), DONE])
    assert environment.reward().total == 1
    environment.reset(task)
    assert environment.world.state() == task.world().state() and environment.reward().total == 0
    assert len(environment.messages) == 3 and environment.errors == environment.turns == 0
