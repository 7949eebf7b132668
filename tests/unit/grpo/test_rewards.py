"""The reward: product over the basis, by the benchmark's rules, part by part."""

from dataclasses import replace

import pytest
from episode_samples import CANCEL, airline_task, run, write_airline

from lib.errors import UserError
from lib.grpo.environment import Environment
from lib.grpo.messages import call_message, text_message
from lib.grpo.reward import _check_communicated, matches, score
from lib.grpo.shaping import Shaping
from lib.grpo.task import Action
from lib.grpo.tau2_io import load_tau2
from lib.grpo.worlds.world import ASSISTANT, Call

CANCEL_IT = call_message("cancel_reservation", {"reservation_id": "AAA111"})
DONE = text_message("It has been done.")


def task_with(tmp_path, **criteria):
    return load_tau2(write_airline(tmp_path, [airline_task(**criteria)])).tasks[0]


def outcome(task, *messages, end="user_stop"):
    world = task.world()
    said = []
    for message in messages:
        for call in message.get("tool_calls") or []:
            world.call(ASSISTANT, call["function"]["name"], call["function"]["arguments"])
        if message["content"]:
            said.append(message["content"])
    return score(task, world, said, end)


def test_the_gold_actions_earn_1_and_nothing_else_does(tmp_path):
    task = task_with(tmp_path)
    assert outcome(task, CANCEL_IT).breakdown == {"DB": 1.0, "COMMUNICATE": 1.0}
    assert outcome(task, CANCEL_IT).total == 1
    assert outcome(task).total == 0
    assert outcome(task, CANCEL_IT, CANCEL_IT).total == 0, "cancelled twice appends payments twice"
    bags = {"reservation_id": "AAA111", "total_baggages": 1, "nonfree_baggages": 0, "payment_id": "credit_card_1"}
    assert outcome(task, CANCEL_IT, call_message("update_reservation_baggages", bags)).total == 0


def test_refused_calls_change_no_reward(tmp_path):
    wrong = call_message("cancel_reservation", {"reservation_id": "NOPE"})
    assert outcome(task_with(tmp_path), wrong, CANCEL_IT, call_message("no_such_tool", {})).total == 1


def test_a_failing_tool_is_seen_and_earns_nothing(tmp_path, monkeypatch):
    task = task_with(tmp_path)
    assert task.gold_state

    def broken(*_, **__):
        raise KeyError("our own mistake")

    tools = task.world().agent.tools
    monkeypatch.setitem(tools, "get_user_details", replace(tools["get_user_details"], method=broken))
    look = call_message("get_user_details", {"user_id": "ada"})
    reward = outcome(task, look, CANCEL_IT)
    assert reward.total == reward.success == 0 and "our own mistake" in reward.note
    assert len(reward.faults) == 1 and "KeyError" in reward.faults[0]
    assert Shaping(read=0.1).add(reward, None) is reward
    # Gold actions that make a tool fail are no task at all.
    monkeypatch.setitem(tools, "cancel_reservation", replace(tools["cancel_reservation"], method=broken))
    with pytest.raises(AssertionError, match="our own mistake"):
        task_with(tmp_path).gold_state  # noqa: B018


@pytest.mark.parametrize("end", ["max_turns", "too_many_errors", "gave_up", None])
def test_an_early_end_earns_nothing(tmp_path, end):
    reward = outcome(task_with(tmp_path), CANCEL_IT, end=end)
    assert reward.total == 0 and "early" in reward.note


def test_no_criteria_and_no_actions(tmp_path):
    row = {**airline_task(), "evaluation_criteria": None}
    assert outcome(load_tau2(write_airline(tmp_path, [row])).tasks[0], CANCEL_IT).total == 1
    task = task_with(tmp_path, actions=None, env_assertions=None, communicate_info=["150"])
    assert outcome(task, CANCEL_IT, text_message("150")).total == 1, "the database is not looked at"
    assert outcome(task, text_message("15")).total == 0


def test_a_gold_action_that_is_refused_is_skipped(tmp_path):
    bad = {**CANCEL, "arguments": {"reservation_id": "NOPE"}}
    assert outcome(task_with(tmp_path, actions=[bad, CANCEL]), CANCEL_IT).total == 1
    assert outcome(task_with(tmp_path, actions=[bad])).total == 1, "then nothing is to be changed"


def test_communicate_is_a_substring_without_commas_and_case(tmp_path):
    task = task_with(tmp_path, communicate_info=["1150", "Berlin"])
    assert outcome(task, CANCEL_IT, text_message("It is $1,150."), text_message("To BERLIN")).total == 1
    assert outcome(task, CANCEL_IT, text_message("11 50 Berlin")).breakdown == {"DB": 1.0, "COMMUNICATE": 0.0}


FLIGHTS = [f"- HAT00{n} on 2024-05-1{n} at 06:1{n}-11:4{n}: {n}7 dollars" for n in range(8)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("You paid $1,150.50 in total.", True),
        ("It is 1150.5 dollars.", True),
        ("It is 11150.5 dollars.", False),
        ("Order #W1150.5, gift_card_1150.5", False),
        # Every flight with its date, times and price: nine numbers that count.
        (
            "\n".join(f"- HAT00{n} on 2024-05-1{n} at 06:1{n}-11:4{n}: {n}7 dollars" for n in range(8))
            + "\nTotal: 1150.50",
            True,
        ),
        (" ".join(str(n) for n in range(100, 112)) + " 1150.5", False),
    ],
)
def test_generated_tasks_compare_numbers_by_value(text, said):
    assert _check_communicated(["1150.5"], [text], strict=True)[0].met is said


def test_counts_are_not_guessed_by_saying_them_all():
    assert _check_communicated(["7"], ["There are 7 options from 10.50 to 12.30 dollars."], strict=True)[0].met
    assert not _check_communicated(["7"], ["1 2 3 4 5 6 7"], strict=True)[0].met


def test_words_are_searched_for_as_they_are():
    assert _check_communicated(["BEING TRANSFERRED"], ["You are being transferred."], strict=True)[0].met


def test_parts_outside_the_basis_are_shown_but_do_not_count(tmp_path):
    reward = outcome(task_with(tmp_path, reward_basis=["DB"], communicate_info=["42"]), CANCEL_IT)
    assert reward.total == 1 and reward.breakdown == {"DB": 1.0}
    assert [check.met for check in reward.checks if check.part == "COMMUNICATE"] == [False]


def test_judged_parts_are_dropped_and_named(tmp_path):
    reward = outcome(task_with(tmp_path, reward_basis=["DB", "NL_ASSERTION"], nl_assertions=["is kind"]), CANCEL_IT)
    assert reward.total == 1 and reward.dropped == ("NL_ASSERTION",) and "NL_ASSERTION" not in reward.breakdown


def call(name, **arguments):
    return Call(ASSISTANT, name, arguments, "", False)


@pytest.mark.parametrize(
    ("compare", "given", "same"),
    [
        (None, call("refuel", gb=2, line="L1"), True),
        (None, call("refuel", gb=2), True),
        (None, call("refuel"), True),
        (None, call("refuel", gb=2, line="L2"), False),
        (None, call("refuel", gb=2, extra=1), False),
        (("gb",), call("refuel", gb=2, line="L9"), True),
        (("gb",), call("refuel", gb=3, line="L1"), False),
        (("gb",), call("refuel", line="L1"), False),
        ((), call("refuel", gb=99), True),
        ((), call("other", gb=2), False),
    ],
)
def test_actions_are_compared_by_the_arguments_that_the_call_gives(compare, given, same):
    assert matches(Action("refuel", {"gb": 2, "line": "L1"}, compare_args=compare), given) is same


def test_action_in_the_basis_wants_every_gold_call(tmp_path):
    look = {"name": "get_user_details", "arguments": {"user_id": "ada_bauer_1"}}
    task = task_with(tmp_path, actions=[look, CANCEL], reward_basis=["DB", "ACTION"])
    assert outcome(task, CANCEL_IT).breakdown == {"DB": 1.0, "ACTION": 0.0}
    assert outcome(task, call_message("get_user_details", {"user_id": "ada_bauer_1"}), CANCEL_IT).total == 1


def test_shaping_is_off_by_default_and_bounded(tmp_path):
    task = task_with(tmp_path)
    plain = run(task, [CANCEL_IT, DONE])
    assert plain.reward().total == plain.reward().success == 1
    shaping = Shaping.parse("db_fraction:0.2,read:0.1,format:0.05,step_cost:0.1")
    shaped = run(task, [CANCEL_IT, DONE], Environment(shaping=shaping)).reward()
    assert shaped.success == 1 and shaped.total == pytest.approx(1 + 0.2 + 0.05 - 0.1 * 2 / 40)
    nothing = run(task, [DONE], Environment(shaping=shaping)).reward()
    assert nothing.success == 0 and nothing.total == pytest.approx(0.05 - 0.1 / 40), (
        "doing nothing earns no db_fraction"
    )
    wrong = call_message("send_certificate", {"user_id": "ada_bauer_1", "amount": 50})
    harmful = run(task, [CANCEL_IT, wrong, DONE], Environment(shaping=Shaping(db_fraction=0.5))).reward()
    assert harmful.total == 0, "one row right, one wrong"


@pytest.mark.parametrize(
    "text", ["db:0.1", "read", "read:x", "read:-0.1", "read:0.6", "read:0.3,format:0.3", "read:nan"]
)
def test_shaping_refuses(text):
    with pytest.raises(UserError, match="--reward-shaping"):
        Shaping.parse(text)
