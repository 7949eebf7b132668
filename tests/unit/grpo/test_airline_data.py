"""Reading the airline's `db.json`, and the gold actions of the benchmark's tasks."""

import hashlib
import json

import pytest
from airline_samples import BASE, DOMAIN, EARLIER, LATER, airline
from episode_samples import real_data

from lib.grpo.worlds.airline_data import read_airline
from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.world import ASSISTANT, World

# Computed with the benchmark's own code: of the database, and of all its hashes after the gold actions of a task.
DIGEST = "7d1714e959830778e6b38d63428b660ef6c9009261f0adaa178adb97bfb469d6"
GOLD_DIGEST = "81d9e86d7d3cec1ee04906b22a910e57c135d0b81b063acaf981b1359687c6b6"


def test_reader_casts_numbers_and_completes_rows():
    tables = BASE.tables
    ann, first = tables["users"]["ann"], tables["reservations"]["R1"]
    assert list(ann)[:2] == ["user_id", "name"] and ann["user_id"] == "ann"
    assert [repr(ann["payment_methods"][name]["amount"]) for name in ("gift_1", "certificate_1")] == ["200.0", "150.0"]
    assert ann["address"]["address2"] is None and list(first)[-1] == "status" and first["status"] is None
    assert repr(first["flights"][0]["price"]) == "100" and repr(first["payment_history"][0]["amount"]) == "200"
    assert repr(tables["flights"]["HAT001"]["dates"][LATER]["prices"]["basic_economy"]) == "90"
    assert list(first["flights"][0]) == ["flight_number", "origin", "destination", "date", "price"]
    dates = tables["flights"]["HAT001"]["dates"]
    assert {row["status"]: list(row)[1:] for row in dates.values()} == {
        "landed": ["actual_departure_time_est", "actual_arrival_time_est"],
        "flying": ["actual_departure_time_est", "estimated_arrival_time_est"],
        "on time": ["estimated_departure_time_est", "estimated_arrival_time_est"],
        "delayed": ["estimated_departure_time_est", "estimated_arrival_time_est"],
        "cancelled": [],
        "available": ["available_seats", "prices"],
    }


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("users", "ann", "membership"), "platinum", "db.users.ann.membership is 'platinum'"),
        (("users", "ann", "payment_methods", "gift_1", "source"), "paypal", "gift_1.source"),
        (("users", "bob"), None, "db.users.bob is NoneType"),
        (("reservations", "R1", "cabin"), "first", "db.reservations.R1.cabin"),
        (("reservations", "R1", "status"), "lost", "db.reservations.R1.status"),
        (("reservations", "R2", "flights", 1, "price"), 9.5, r"db.reservations.R2.flights\[1\].price is 9.5"),
        (("flights", "HAT002", "dates", EARLIER, "status"), "lost", f"db.flights.HAT002.dates.{EARLIER}.status"),
        (("flights", "HAT002", "dates", EARLIER, "prices", "business"), "dear", "prices.business is 'dear'"),
        (("planes",), {}, "unknown field 'planes'"),
    ],
)
def test_reader_names_the_wrong_place(path, value, said):
    data = place = airline()
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(DataError, match=said):
        read_airline(data)


@pytest.mark.shared_data
def test_gold_actions_of_the_benchmark():
    folder = real_data("airline/tasks.json") / "airline"
    base = read_airline(json.loads((folder / "db.json").read_text()))
    assert {name: len(rows) for name, rows in base.tables.items()} == {
        "flights": 300,
        "users": 500,
        "reservations": 2000,
    }
    assert base.digest() == DIGEST
    unchanged, hashes = 0, hashlib.sha256()
    tasks = json.loads((folder / "tasks.json").read_text())
    for task in tasks:
        world = World(DOMAIN, base)
        untouched = world.state()
        for action in task["evaluation_criteria"]["actions"] or []:
            done = world.call(ASSISTANT, action["name"], action["arguments"])
            assert not done.error, f"task {task['id']}: {done.text}"
        unchanged += world.state() == untouched
        hashes.update(world.agent.db.full_hash().encode())
        assert not world.faults
    assert (len(tasks), unchanged) == (30, 17)
    assert hashes.hexdigest() == GOLD_DIGEST
