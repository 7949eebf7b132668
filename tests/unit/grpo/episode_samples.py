"""What the episode tests share: running assistant messages, a tiny tau2-bench directory, where the real data lie."""

import json
import os
from pathlib import Path

import pytest

from lib.grpo.environment import Environment
from lib.grpo.task import Task

TAU2 = Path(os.environ.get("QUARTET_TAU2", Path(__file__).resolve().parents[4] / "shared" / "data" / "tau2"))


def real_data(name: str = "airline/db.json") -> Path:
    """The real data's folder; skips the test where the file `name` is missing in it."""
    if not (TAU2 / name).is_file():
        pytest.skip(f"needs real tau2-bench data: no {name} in {TAU2} (QUARTET_TAU2 names another folder)")
    return TAU2


def run(task: Task, messages, environment: Environment | None = None) -> Environment:
    """The environment after these messages, which must not outlive the episode."""
    environment = environment or Environment()
    environment.reset(task)
    for message in messages:
        assert environment.end is None, f"{task.key}: over before {message}"
        environment.step(message)
    return environment


USER = {
    "name": {"first_name": "Ada", "last_name": "Bauer"},
    "address": {"address1": "1 Oak Street", "city": "Austin", "country": "USA", "state": "TX", "zip": "78701"},
    "email": "ada@example.com",
    "dob": "1980-01-02",
    "payment_methods": {
        "credit_card_1": {"source": "credit_card", "id": "credit_card_1", "brand": "visa", "last_four": "1234"},
        "gift_card_1": {"source": "gift_card", "id": "gift_card_1", "amount": 500},
    },
    "saved_passengers": [],
    "membership": "gold",
    "reservations": ["AAA111"],
}
RESERVATION = {
    "reservation_id": "AAA111",
    "user_id": "ada_bauer_1",
    "origin": "SFO",
    "destination": "JFK",
    "flight_type": "one_way",
    "cabin": "economy",
    "flights": [{"origin": "SFO", "destination": "JFK", "flight_number": "HAT001", "date": "2024-05-20", "price": 150}],
    "passengers": [{"first_name": "Ada", "last_name": "Bauer", "dob": "1980-01-02"}],
    "payment_history": [{"payment_id": "credit_card_1", "amount": 150}],
    "created_at": "2024-05-10T10:00:00",
    "total_baggages": 0,
    "nonfree_baggages": 0,
    "insurance": "no",
}


def airline_data() -> dict:
    """A database of one of everything, as its file holds it."""
    flight = {
        "flight_number": "HAT001",
        "origin": "SFO",
        "destination": "JFK",
        "scheduled_departure_time_est": "06:00:00",
        "scheduled_arrival_time_est": "11:00:00",
        "dates": {
            "2024-05-20": {
                "status": "available",
                "available_seats": {"basic_economy": 5, "economy": 5, "business": 5},
                "prices": {"basic_economy": 80, "economy": 160, "business": 400},
            }
        },
    }
    data = {"flights": {"HAT001": flight}, "users": {"ada_bauer_1": USER}, "reservations": {"AAA111": RESERVATION}}
    return json.loads(json.dumps(data))


CANCEL = {"action_id": "0", "name": "cancel_reservation", "arguments": {"reservation_id": "AAA111"}, "info": None}


def airline_task(id: str = "0", **criteria) -> dict:
    """A task as its file holds it; `criteria` replaces entries of evaluation_criteria."""
    return {
        "id": id,
        "user_scenario": {
            "persona": None,
            "instructions": {
                "domain": "airline",
                "reason_for_call": "You want to cancel reservation AAA111.",
                "known_info": "You are Ada Bauer. Your user id is ada_bauer_1.",
                "unknown_info": None,
                "task_instructions": "Be brief.",
            },
        },
        "initial_state": None,
        "evaluation_criteria": {"actions": [CANCEL], "reward_basis": ["DB", "COMMUNICATE"], **criteria},
    }


def write_airline(folder: Path, tasks: list[dict] | None = None, data: dict | None = None) -> Path:
    """A data directory with the airline alone; `folder` is what --tau2_data takes."""
    (folder / "airline").mkdir(parents=True, exist_ok=True)
    (folder / "airline" / "policy.md").write_text("Be kind.")
    (folder / "airline" / "db.json").write_text(json.dumps(airline_data() if data is None else data))
    (folder / "airline" / "tasks.json").write_text(json.dumps([airline_task()] if tasks is None else tasks))
    return folder
