"""A small telecom world for tests, and the calls that tests make on it."""

from lib.grpo.worlds.phone_tools import PhoneTools
from lib.grpo.worlds.store import copy_row
from lib.grpo.worlds.telecom_data import read_phone, read_telecom
from lib.grpo.worlds.telecom_tools import TelecomTools, synchronise
from lib.grpo.worlds.world import Call, Domain, World

TELECOM = Domain(
    name="telecom",
    toolkit=TelecomTools,
    read_agent_base=read_telecom,
    user_toolkit=PhoneTools,
    read_user_base=read_phone,
    synchronise=synchronise,
)
ANNA, BEN = "555-000-0001", "555-000-0004"
ADDRESS = {"street": "1 Elm St", "city": "Oslo", "state": "OS", "zip_code": "0150"}


def bill(bill_id: str, customer_id: str, month: int, total: float, status: str) -> dict:
    days = {"period_start": f"2025-0{month}-01", "period_end": f"2025-0{month}-28", "issue_date": f"2025-0{month}-05"}
    return {
        "bill_id": bill_id,
        "customer_id": customer_id,
        **days,
        "due_date": f"2025-0{month}-19",
        "total_due": total,
        "status": status,
    }


def customer(customer_id: str, name: str, number: str, lines: list[str], bills: list[str]) -> dict:
    return {
        "customer_id": customer_id,
        "full_name": name,
        "date_of_birth": "1990-01-02",
        "email": f"{customer_id}@example.com",
        "phone_number": number,
        "address": ADDRESS,
        "line_ids": lines,
        "bill_ids": bills,
    }


def line(line_id: str, status: str, plan_id: str, used: float, **more) -> dict:
    number = f"555-000-000{line_id[1:]}"
    return {
        "line_id": line_id,
        "phone_number": number,
        "status": status,
        "plan_id": plan_id,
        "data_used_gb": used,
        **more,
    }


AGENT = {
    "devices": [{"device_id": "D1", "device_type": "phone", "model": "Brick", "is_esim_capable": False}],
    "plans": [
        {
            "plan_id": "P1",
            "name": "Small",
            "data_limit_gb": 5,
            "price_per_month": 40,
            "data_refueling_price_per_gb": 2.5,
        },
        {
            "plan_id": "P2",
            "name": "Gift",
            "data_limit_gb": 1,
            "price_per_month": 0,
            "data_refueling_price_per_gb": 1,
        },
    ],
    "customers": [
        customer("C1", "Anna Lind", "555-000-1000", ["L1", "L2", "L3"], ["B1", "B2", "B3"]),
        customer("C2", "Ben Moe", "555-000-2000", ["L4"], ["B4"]),
    ],
    "lines": [
        line("L1", "Active", "P1", 3, device_id="D1", contract_end_date="2026-12-31"),
        line("L2", "Suspended", "P1", 0.0, suspension_start_date="2025-02-01"),
        line("L3", "Pending Activation", "P1", 0.0),
        line("L4", "Active", "P2", 0.5, roaming_enabled=True),
    ],
    "bills": [
        bill("B1", "C1", 1, 40, "Paid"),
        bill("B2", "C1", 2, 120, "Issued"),
        bill("B3", "C1", 3, 0, "Draft"),
        bill("B4", "C2", 2, 15.5, "Overdue"),
    ],
}


def agent_data() -> dict:
    """A copy to be changed."""
    return copy_row(AGENT)


def make_world(data: dict | None = None, number: str | None = ANNA, around: dict | None = None, **device) -> World:
    """A world whose phone has this number, these settings and these surroundings; else the defaults."""
    surroundings = {"name": "Anna Lind", "phone_number": number, **(around or {})}
    return World(TELECOM, read_telecom(data or AGENT), read_phone({"device": device, "surroundings": surroundings}))


def agent_call(world: World, name: str, **arguments) -> Call:
    return _call(world, "assistant", name, arguments)


def phone_call(world: World, name: str, **arguments) -> str:
    """The text of a call that must succeed."""
    call = _call(world, "user", name, arguments)
    assert not call.error, call.text
    return call.text


def refused(world: World, requestor: str, name: str, **arguments) -> str:
    """The message of a call that must end in an error and change nothing."""
    before = world.state()
    call = _call(world, requestor, name, arguments)
    assert call.error and call.text.startswith("Error: "), call.text
    assert world.state() == before
    return call.text.removeprefix("Error: ")


def _call(world: World, requestor: str, name: str, arguments: dict) -> Call:
    call = world.call(requestor, name, arguments)
    assert not world.faults
    assert not world.agent.db.pending and not world.user.db.pending
    return call
