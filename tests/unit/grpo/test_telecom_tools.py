"""The telecom agent's tools: look-ups, lines, bills, data, and what the phone learns of them."""

import json
import tomllib

import pytest
from episode_samples import real_data
from telecom_samples import ANNA, BEN, TELECOM, agent_call, agent_data, make_world, phone_call, refused

from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.telecom_data import read_phone, read_telecom
from lib.grpo.worlds.tools import ToolError
from lib.grpo.worlds.world import World


def row(world, table, key):
    return world.agent.db.find(table, key)


def answer(world, name, **arguments):
    """The parsed result of an agent's call that must succeed."""
    call = agent_call(world, name, **arguments)
    assert not call.error, call.text
    return json.loads(call.text)


# Reading.


def test_reading_casts_and_fills_in():
    base = read_telecom(agent_data())
    assert list(base.tables) == ["plans", "customers", "lines", "bills", "devices"]
    assert list(base.tables["lines"]) == ["L1", "L2", "L3", "L4"]
    found = base.tables["lines"]["L1"]
    assert repr(found["data_used_gb"]) == "3.0" and found["roaming_enabled"] is False
    assert found["suspension_start_date"] is None and list(found)[:4] == [
        "line_id",
        "phone_number",
        "status",
        "plan_id",
    ]
    person = base.tables["customers"]["C1"]
    assert (person["account_status"], person["created_at"]) == ("Pending Verification", "2025-01-01")


def test_reading_takes_dates_of_toml_and_of_json():
    data = agent_data()
    data["customers"][0]["created_at"] = "2025-01-15T10:30:00"
    data["devices"][0]["activation_date"] = "2025-01-20"
    tables = read_telecom(data).tables
    assert tables["customers"]["C1"]["created_at"] == "2025-01-15 10:30:00"
    assert tables["devices"]["D1"]["activation_date"] == "2025-01-20 00:00:00"
    with_dates = tomllib.loads("[[lines]]\nline_id='L1'\nphone_number='1'\nplan_id='P'\ncontract_end_date=2026-12-31")
    assert read_telecom(with_dates).tables["lines"]["L1"]["contract_end_date"] == "2026-12-31"


def test_reading_names_what_is_wrong():
    data = agent_data()
    data["lines"][2]["status"] = "Asleep"
    with pytest.raises(DataError, match=r"db\.lines\[2\]\.status is 'Asleep'"):
        read_telecom(data)
    data = agent_data()
    data["bills"].append(data["bills"][1])
    with pytest.raises(DataError, match=r"db\.bills has 'B2' more than once"):
        read_telecom(data)
    with pytest.raises(DataError, match="unknown field 'towers'"):
        read_telecom({**agent_data(), "towers": []})


# Look-ups.


def test_customer_by_phone_number_of_contact_or_line():
    world = make_world()
    for number, name in {"555-000-1000": "C1", "555-000-0002": "C1", BEN: "C2"}.items():
        assert answer(world, "get_customer_by_phone", phone_number=number)["customer_id"] == name
    message = refused(world, "assistant", "get_customer_by_phone", phone_number="1")
    assert message == "Customer with phone number 1 not found"


def test_customer_by_id_and_by_name():
    world = make_world()
    assert answer(world, "get_customer_by_id", customer_id="C2")["full_name"] == "Ben Moe"
    assert refused(world, "assistant", "get_customer_by_id", customer_id="C9") == "Customer with ID C9 not found"
    found = answer(world, "get_customer_by_name", full_name="anna LIND", dob="1990-01-02")
    assert [person["customer_id"] for person in found] == ["C1"]
    assert answer(world, "get_customer_by_name", full_name="Anna Lind", dob="1990-01-03") == []


def test_details_by_the_first_letter_of_the_id():
    world = make_world()
    for key, field in {"C1": "full_name", "L1": "plan_id", "D1": "model", "B1": "total_due", "P1": "name"}.items():
        assert field in answer(world, "get_details_by_id", id=key)
    assert refused(world, "assistant", "get_details_by_id", id="P7") == "Plan with ID P7 not found"
    for strange in ("X1", "l1", ""):
        assert refused(world, "assistant", "get_details_by_id", id=strange).startswith("Unknown ID format or type")


def test_bills_newest_first():
    world = make_world()
    assert [item["bill_id"] for item in answer(world, "get_bills_for_customer", customer_id="C1")] == ["B3", "B2", "B1"]
    found = answer(world, "get_bills_for_customer", customer_id="C1", limit=2.0)
    assert [item["bill_id"] for item in found] == ["B3", "B2"]
    refused(world, "assistant", "get_bills_for_customer", customer_id="C9")


def test_data_usage_shows_numbers_as_text():
    assert answer(make_world(), "get_data_usage", customer_id="C1", line_id="L1") == {
        "line_id": "L1",
        "data_used_gb": "3.0",
        "data_limit_gb": "5.0",
        "data_refueling_gb": "0.0",
        "cycle_end_date": "2025-02-28",
    }


# Lines.

ON_LINES = {
    "suspend_line": {"reason": "lost"},
    "resume_line": {},
    "get_data_usage": {},
    "enable_roaming": {},
    "disable_roaming": {},
    "refuel_data": {"gb_amount": 1},
}


@pytest.mark.parametrize("name", ON_LINES)
def test_a_line_must_be_the_customers(name):
    world = make_world()
    more = ON_LINES[name]
    message = refused(world, "assistant", name, customer_id="C2", line_id="L1", **more)
    assert message == "Line L1 not found for customer C2"
    assert "Customer" in refused(world, "assistant", name, customer_id="C9", line_id="L1", **more)


def test_suspend_and_resume():
    world = make_world()
    result = answer(world, "suspend_line", customer_id="C1", line_id="L1", reason="lost")
    assert "$5/month" in result["message"] and result["line"]["status"] == "Suspended"
    assert result["line"]["suspension_start_date"] == "2025-02-25"
    message = refused(world, "assistant", "suspend_line", customer_id="C1", line_id="L1", reason="lost")
    assert message == "Line must be active to suspend"
    for name in ("L1", "L2", "L3"):
        answer(world, "resume_line", customer_id="C1", line_id=name)
        assert row(world, "lines", name)["status"] == "Active"
        assert row(world, "lines", name)["suspension_start_date"] is None
        refused(world, "assistant", "resume_line", customer_id="C1", line_id=name)


def test_suspended_and_resumed_at_once_is_no_change():
    world = make_world()
    before = world.state()
    agent_call(world, "suspend_line", customer_id="C1", line_id="L1", reason="")
    assert world.state() != before
    agent_call(world, "resume_line", customer_id="C1", line_id="L1")
    assert world.state() == before


def test_a_resumed_line_has_service_after_a_reboot_only():
    world = make_world()
    agent_call(world, "suspend_line", customer_id="C1", line_id="L1", reason="lost")
    assert "No Signal" in phone_call(world, "reboot_device")
    assert world.run("user", "assert_service_status", {"expected_status": "no_service"})
    agent_call(world, "resume_line", customer_id="C1", line_id="L1")
    assert world.run("user", "assert_service_status", {"expected_status": "no_service"})
    phone_call(world, "reboot_device")
    assert world.run("user", "assert_service_status", {"expected_status": "connected"})


def test_roaming():
    world = make_world()
    arguments = {"customer_id": "C1", "line_id": "L1"}
    before = world.state()
    assert agent_call(world, "disable_roaming", **arguments).text == "Roaming was already disabled"
    assert world.state() == before
    assert agent_call(world, "enable_roaming", **arguments).text == "Roaming enabled successfully"
    assert world.user.surroundings["roaming_allowed"] is True
    assert agent_call(world, "enable_roaming", **arguments).text == "Roaming was already enabled"
    assert agent_call(world, "disable_roaming", **arguments).text == "Roaming disabled successfully"
    assert world.state() == before


# Data.


def test_refuel_charges_the_draft_bill():
    world = make_world()
    result = answer(world, "refuel_data", customer_id="C1", line_id="L1", gb_amount=2.0)
    assert result == {
        "message": "Successfully added 2.0 GB of data for line L1 for $5.00",
        "new_data_refueling_gb": "2.0",
        "charge": "5.0",
    }
    draft = row(world, "bills", "B3")
    assert draft["total_due"] == 5.0
    assert draft["line_items"] == [
        {
            "description": "Data refueling: 2.0 GB at $2.5/GB",
            "amount": 5.0,
            "date": "2025-02-25",
            "item_type": "Charge",
        }
    ]
    for amount in (0, -1):
        message = refused(world, "assistant", "refuel_data", customer_id="C1", line_id="L1", gb_amount=amount)
        assert message == "Refuel amount must be positive"


def test_refuel_without_a_draft_bill_makes_the_same_one_everywhere():
    worlds = [make_world(), make_world()]
    agent_call(worlds[0], "refuel_data", customer_id="C2", line_id="L4", gb_amount=1)
    agent_call(worlds[0], "refuel_data", customer_id="C1", line_id="L1", gb_amount=1)
    agent_call(worlds[1], "refuel_data", customer_id="C1", line_id="L1", gb_amount=1)
    agent_call(worlds[1], "refuel_data", customer_id="C2", line_id="L4", gb_amount=1)
    assert worlds[0].state() == worlds[1].state() and worlds[0].state_hash() == worlds[1].state_hash()
    world = worlds[0]
    (new,) = [name for name in row(world, "customers", "C2")["bill_ids"] if name != "B4"]
    assert answer(world, "get_details_by_id", id=new) == {
        "bill_id": new,
        "customer_id": "C2",
        "period_start": "2025-03-01",
        "period_end": "2025-03-31",
        "issue_date": "2025-03-01",
        "total_due": 1.0,
        "due_date": "2025-03-15",
        "line_items": row(world, "bills", new)["line_items"],
        "status": "Draft",
    }
    agent_call(world, "refuel_data", customer_id="C2", line_id="L4", gb_amount=2)
    assert row(world, "bills", new)["total_due"] == 3.0
    agent_call(world, "send_payment_request", customer_id="C2", bill_id=new)
    agent_call(world, "refuel_data", customer_id="C2", line_id="L4", gb_amount=4)
    newer = row(world, "customers", "C2")["bill_ids"][-1]
    assert newer != new and row(world, "bills", newer)["total_due"] == 4.0


def test_exceeded_data_come_back_with_refueling():
    world = make_world()
    world.run("assistant", "set_data_usage", {"customer_id": "C1", "line_id": "L1", "data_used_gb": 5})
    assert world.user.surroundings["mobile_data_usage_exceeded"] is True
    assert phone_call(world, "run_speed_test") == "Speed test failed: No Connection."
    agent_call(world, "refuel_data", customer_id="C1", line_id="L1", gb_amount=0.5)
    assert world.user.surroundings["mobile_data_usage_exceeded"] is False
    assert phone_call(world, "run_speed_test").startswith("Speed Test Result: 220.00 Mbps (Excellent).")


# Payment.


def test_payment_request_flow():
    world = make_world()
    assert phone_call(world, "check_payment_request") == "No payment request has been made."
    assert phone_call(world, "make_payment") == "You do not have a payment request."
    text = agent_call(world, "send_payment_request", customer_id="C1", bill_id="B2").text
    assert text == "Payment request sent to the customer for bill B2"
    assert phone_call(world, "check_payment_request") == "You have a payment request for bill B2 of 120.0 USD."
    message = refused(world, "assistant", "send_payment_request", customer_id="C1", bill_id="B1")
    assert message == "A bill is already awaiting payment for this customer"
    assert row(world, "bills", "B2")["status"] == "Awaiting Payment"
    assert phone_call(world, "make_payment") == "Payment of 120.0 USD has been made for bill B2."
    assert row(world, "bills", "B2")["status"] == "Paid"
    assert world.user.surroundings["payment_request"] is None
    # A paid bill may be requested again, as in the benchmark.
    agent_call(world, "send_payment_request", customer_id="C1", bill_id="B2")
    assert world.user.surroundings["payment_request"]["bill_id"] == "B2"


def test_payment_requests_that_are_refused():
    world = make_world()
    message = refused(world, "assistant", "send_payment_request", customer_id="C1", bill_id="B4")
    assert message == "Bill B4 not found for customer C1"
    refused(world, "assistant", "send_payment_request", customer_id="C9", bill_id="B4")


def test_requests_to_another_customer_do_not_reach_this_phone():
    world = make_world()
    agent_call(world, "send_payment_request", customer_id="C2", bill_id="B4")
    assert world.user.surroundings["payment_request"] is None


def test_a_bill_awaiting_payment_follows_a_paid_one():
    data = agent_data()
    data["bills"][0]["status"] = data["bills"][1]["status"] = "Awaiting Payment"
    world = make_world(data)
    assert world.user.surroundings["payment_request"] == {"bill_id": "B1", "amount_due": 40.0, "paid": False}
    phone_call(world, "make_payment")
    assert row(world, "bills", "B1")["status"] == "Paid"
    assert world.user.surroundings["payment_request"] == {"bill_id": "B2", "amount_due": 120.0, "paid": False}


# Synchronising.


def test_without_a_number_the_phone_learns_nothing():
    world = make_world(number=None)
    agent_call(world, "suspend_line", customer_id="C1", line_id="L1", reason="lost")
    assert world.user.surroundings["line_active"] is True
    world.run("user", "set_user_info", {"name": "Anna", "phone_number": ANNA})
    assert world.user.surroundings["line_active"] is False


def test_an_unknown_number_is_refused():
    world = make_world(number=None)
    before = world.state()
    with pytest.raises(ToolError, match="555-9"):
        world.run("user", "set_user_info", {"name": "Anna", "phone_number": "555-9"})
    assert world.state() == before


def test_only_changes_copy_rows():
    world = make_world()
    seen = world.user.surroundings
    agent_call(world, "resume_line", customer_id="C1", line_id="L2")
    agent_call(world, "disable_roaming", customer_id="C1", line_id="L1")
    assert world.user.surroundings is seen
    agent_call(world, "enable_roaming", customer_id="C1", line_id="L1")
    assert world.user.surroundings is not seen and world.user.surroundings["line_active"] is True


# What tasks do.


def test_suspension_for_an_overdue_bill():
    world = make_world()
    arguments = {"customer_id": "C1", "line_id": "L1", "new_bill_id": "B77", "contract_ended": False}
    text = world.run("assistant", "suspend_line_for_overdue_bill", arguments)
    assert text == "Line L1 suspended for unpaid bill B77. Contract ended: False"
    bill = row(world, "bills", "B77")
    assert (bill["status"], bill["total_due"], bill["due_date"]) == ("Overdue", 40.0, "2025-01-15")
    assert (bill["period_start"], bill["period_end"], bill["issue_date"]) == ("2025-01-01", "2025-01-31", "2025-01-01")
    assert bill["line_items"][0]["description"] == "Charge for line L1"
    line = row(world, "lines", "L1")
    assert (line["status"], line["suspension_start_date"]) == ("Suspended", "2025-02-25")
    assert line["contract_end_date"] == "2026-12-31" and row(world, "customers", "C1")["bill_ids"][-1] == "B77"
    assert world.user.surroundings["line_active"] is False
    assert world.run("assistant", "assert_overdue_bill_exists", {"customer_id": "C1", "overdue_bill_id": "B77"})
    assert not world.run("assistant", "assert_no_overdue_bill", {"overdue_bill_id": "B77"})
    agent_call(world, "send_payment_request", customer_id="C1", bill_id="B77")
    phone_call(world, "make_payment")
    assert world.run("assistant", "assert_no_overdue_bill", {"overdue_bill_id": "B77"})


def test_suspension_with_an_ended_contract():
    world = make_world()
    arguments = {"customer_id": "C1", "line_id": "L1", "new_bill_id": "B77", "contract_ended": True}
    world.run("assistant", "suspend_line_for_overdue_bill", arguments)
    assert row(world, "lines", "L1")["contract_end_date"] == "2025-01-31"


@pytest.mark.parametrize(
    "change",
    [
        {"line_id": "L2"},  # not active
        {"line_id": "L4"},  # its plan costs nothing
        {"customer_id": "C2"},  # has an overdue bill
        {"customer_id": "C9"},
        {"new_bill_id": "B2"},  # taken
        {"new_bill_id": 5},
        {"new_bill_id": ["B9"]},
        {"line_id": "L9"},
        {"surplus": 1},
    ],
)
def test_suspensions_that_are_refused(change):
    world = make_world()
    before = world.state()
    arguments = {"customer_id": "C1", "line_id": "L1", "new_bill_id": "B77", "contract_ended": False, **change}
    with pytest.raises(ToolError):
        world.run("assistant", "suspend_line_for_overdue_bill", arguments)
    assert world.state() == before and not world.agent.db.pending


def test_data_usage_keeps_the_number_as_given():
    world = make_world()
    arguments = {"customer_id": "C1", "line_id": "L1", "data_used_gb": 3}
    assert world.run("assistant", "set_data_usage", arguments) == "Data usage set to 3 GB for line L1"
    assert repr(row(world, "lines", "L1")["data_used_gb"]) == "3"
    with pytest.raises(ToolError):
        world.run("assistant", "set_data_usage", {**arguments, "data_used_gb": "much"})


def test_assertions():
    world = make_world()
    on_line = {"customer_id": "C1", "line_id": "L1"}
    for status, holds in {"Active": True, "Suspended": False}.items():
        assert world.run("assistant", "assert_line_status", {**on_line, "expected_status": status}) is holds
    assert not world.run("assistant", "assert_data_refueling_amount", {**on_line, "expected_amount": 0.3})
    for _ in range(3):
        agent_call(world, "refuel_data", gb_amount=0.1, **on_line)
    assert world.run("assistant", "assert_data_refueling_amount", {**on_line, "expected_amount": 0.3})
    assert world.run("assistant", "assert_no_overdue_bill", {"overdue_bill_id": "B9"})
    assert world.run("assistant", "assert_no_overdue_bill", {"overdue_bill_id": "B1"})
    assert not world.run("assistant", "assert_no_overdue_bill", {"overdue_bill_id": "B2"})
    for person, name in (("C1", "B9"), ("C1", "B1"), ("C9", "B1")):
        with pytest.raises(ToolError):
            world.run("assistant", "assert_overdue_bill_exists", {"customer_id": person, "overdue_bill_id": name})


# The benchmark's own tasks.


@pytest.fixture(scope="module")
def bases():
    for name in ("db.toml", "user_db.toml", "tasks.json", "tasks_small.json"):
        folder = real_data(f"telecom/{name}") / "telecom"
    files = (tomllib.loads((folder / name).read_text("utf-8")) for name in ("db.toml", "user_db.toml"))
    return [read(data) for read, data in zip((read_telecom, read_phone), files)]


def holds(world, task) -> bool:
    return all(
        world.run(item["env_type"], item["func_name"], item["arguments"]) == item["assert_value"]
        for item in task["evaluation_criteria"]["env_assertions"]
    )


@pytest.mark.shared_data
@pytest.mark.parametrize("name, count, held_before", [("tasks.json", 146, 0), ("tasks_small.json", 20, 2)])
def test_gold_actions_solve_every_task(bases, name, count, held_before):
    tasks = json.loads((real_data() / "telecom" / name).read_text("utf-8"))
    assert len(tasks) == count
    before = 0
    for task in tasks:
        world = World(TELECOM, *bases)
        for action in task["initial_state"]["initialization_actions"]:
            world.run(action["env_type"], action["func_name"], action["arguments"])
        before += holds(world, task)
        for action in task["evaluation_criteria"]["actions"] or []:
            call = world.call(action["requestor"], action["name"], action["arguments"])
            assert not call.error, (task["id"], call)
        assert holds(world, task), task["id"]
        assert not world.faults
    assert before == held_before


@pytest.mark.shared_data
def test_real_data_are_read_whole(bases):
    sizes = {table: len(rows) for base in bases for table, rows in base.tables.items()}
    assert sizes == {
        "plans": 5,
        "customers": 4,
        "lines": 9,
        "bills": 6,
        "devices": 9,
        "device": 1,
        "surroundings": 1,
    }
