"""A tiny airline, in the form of version 1 of a parsed `db.json` (users carry no id, reservations no status), and what
its tests share: good arguments, calls that must succeed and calls that must not."""

import json

from lib.grpo.worlds.airline_data import read_airline
from lib.grpo.worlds.airline_tools import AirlineTools
from lib.grpo.worlds.world import ASSISTANT, Domain, World

EARLIER, LATER = "2024-05-20", "2024-05-21"
STATUSES = ("landed", "flying", "on time", "delayed", "cancelled")
CABINS = ("basic_economy", "economy", "business")


def offer(*prices: int, seats: tuple[int, ...] = (2, 5, 1)) -> dict:
    return {
        "status": "available",
        "available_seats": dict(zip(CABINS, seats)),
        "prices": dict(zip(CABINS, prices)),
    }


def flight(number: str, origin: str, destination: str, leaves: str, arrives: str, dates: dict) -> dict:
    return {
        # Not in the order of the tables: the reader puts fields in order.
        "dates": dates,
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": leaves,
        "scheduled_arrival_time_est": arrives,
    }


def passenger(first: str) -> dict:
    return {"first_name": first, "last_name": "Lee", "dob": "1990-01-02"}


def user(first: str, methods: list[dict], membership: str) -> dict:
    return {
        "name": {"first_name": first, "last_name": "Lee"},
        "address": {"address1": "1 Main St", "city": "Rome", "country": "USA", "state": "NY", "zip": "10001"},
        "email": f"{first.lower()}@example.com",
        "dob": "1990-01-02",
        "payment_methods": {method["id"]: method for method in methods},
        "saved_passengers": [passenger("Kim")],
        "membership": membership,
        "reservations": ["R1", "R2"] if methods else [],
    }


def segment(number: str, day: str, price: float, origin: str = "SFO", destination: str = "JFK") -> dict:
    return {"flight_number": number, "date": day, "price": price, "origin": origin, "destination": destination}


def reservation(reservation_id: str, user_id: str, cabin: str, flights: list[dict], people: list[str], **more) -> dict:
    paid = sum(row["price"] for row in flights) * len(people)
    return {
        "reservation_id": reservation_id,
        "user_id": user_id,
        "origin": "SFO",
        "destination": "JFK",
        "flight_type": "one_way",
        "cabin": cabin,
        "flights": flights,
        "passengers": [passenger(name) for name in people],
        "payment_history": [{"payment_id": "gift_1", "amount": paid}],
        "created_at": "2024-05-10T10:00:00",
        "total_baggages": 2,
        "nonfree_baggages": 1,
        "insurance": "no",
        **more,
    }


def airline() -> dict:
    """Ann's reservations R1 (two people, prices that are not today's), R2 (a flown segment, then a connection) and R4
    (one flight twice, at two prices); Bob has nothing; R3 belongs to nobody. HAT001 was or is everything that a flight
    can be."""
    times = {
        name: f"2024-05-15T0{hour}:00:00"
        for hour, name in enumerate(
            (
                "actual_departure_time_est",
                "actual_arrival_time_est",
                "estimated_departure_time_est",
                "estimated_arrival_time_est",
            )
        )
    }
    first = {f"2024-05-{14 + place}": {"status": name, **times} for place, name in enumerate(STATUSES)}
    first |= {EARLIER: offer(80, 160, 400), LATER: offer(90.0, 150, 410)}
    flights = [
        flight("HAT001", "SFO", "JFK", "06:00:00", "11:00:00", first),
        flight("HAT002", "JFK", "BOS", "11:00:00", "12:00:00", {EARLIER: offer(30, 60, 90)}),
        flight("HAT003", "JFK", "BOS", "10:59:00", "12:00:00", {EARLIER: offer(10, 20, 30), LATER: offer(11, 21, 31)}),
        flight(
            "HAT004",
            "SFO",
            "JFK",
            "22:00:00",
            "06:30:00+1",
            {day: offer(70, 140, 300) for day in ("2024-05-08", EARLIER)},
        ),
        flight("HAT005", "JFK", "BOS", "07:00:00", "08:00:00", {day: offer(1, 2, 3) for day in ("2024-05-09", LATER)}),
        flight("HAT006", "BOS", "SFO", "07:00:00", "08:00:00", {LATER: {"status": "cancelled"}}),
    ]
    methods = [
        {"source": "gift_card", "id": "gift_1", "amount": 200},
        {"source": "certificate", "id": "certificate_1", "amount": 150},
        {"source": "credit_card", "id": "card_1", "brand": "visa", "last_four": "1234"},
        {"source": "gift_card", "id": "gift_2", "amount": 1000.5},
    ]
    flown = [segment("HAT001", "2024-05-14", 55), segment("HAT002", EARLIER, 40, "JFK", "BOS")]
    reservations = [
        reservation("R1", "ann", "economy", [segment("HAT001", EARLIER, 100.0)], ["Ann", "Kim"]),
        reservation("R2", "ann", "business", flown, ["Ann"], insurance="yes"),
        reservation("R3", "ghost", "economy", [segment("HAT001", EARLIER, 100)], ["Gus"]),
        reservation("R4", "ann", "economy", [segment("HAT001", EARLIER, 10), segment("HAT001", EARLIER, 25)], ["Ann"]),
    ]
    return {
        "flights": {row["flight_number"]: row for row in flights},
        "users": {"ann": user("Ann", methods, "silver"), "bob": user("Bob", [], "regular")},
        "reservations": {row["reservation_id"]: row for row in reservations},
    }


DOMAIN = Domain("airline", AirlineTools, read_airline)
BASE = read_airline(airline())


def call(world: World, name: str, **arguments):
    """The result of a call that must succeed, as the agent reads it."""
    done = world.call(ASSISTANT, name, arguments)
    assert not done.error, done.text
    return done.text if name in ("send_certificate", "get_flight_status") else json.loads(done.text)


def refusal(world: World, name: str, **arguments) -> str:
    """The error of a call that must leave no trace."""
    before = world.state()
    done = world.call(ASSISTANT, name, arguments)
    assert done.error and world.state() == before, done.text
    return done.text.removeprefix("Error: ")


def paid(*entries: tuple[str, int]) -> list[dict]:
    return [{"payment_id": method, "amount": amount} for method, amount in entries]


def legs(*flights: tuple[str, str]) -> list[dict]:
    return [{"flight_number": number, "date": day} for number, day in flights]


BOOKING = {
    "user_id": "ann",
    "origin": "SFO",
    "destination": "BOS",
    "flight_type": "round_trip",
    "cabin": "economy",
    "flights": legs(("HAT001", EARLIER), ("HAT002", EARLIER)),
    "passengers": [passenger("Ann"), passenger("Kim")],
    "payment_methods": paid(("certificate_1", 100), ("gift_1", 150), ("card_1", 350)),
    "total_baggages": 3,
    "nonfree_baggages": 2,
    "insurance": "yes",
}
FLIGHTS = {"reservation_id": "R1", "cabin": "economy", "flights": legs(("HAT001", LATER)), "payment_id": "gift_1"}
BAGS = {"reservation_id": "R1", "total_baggages": 4, "nonfree_baggages": 3, "payment_id": "gift_1"}
