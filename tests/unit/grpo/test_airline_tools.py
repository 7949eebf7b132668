"""The airline's tools on a tiny airline: what they find, take, keep and write down."""

import pytest
from airline_samples import (
    BAGS,
    BASE,
    BOOKING,
    DOMAIN,
    EARLIER,
    FLIGHTS,
    LATER,
    STATUSES,
    call,
    legs,
    paid,
    passenger,
    refusal,
    segment,
)

from lib.grpo.worlds.airline_tools import AirlineTools
from lib.grpo.worlds.store import canonical
from lib.grpo.worlds.world import ASSISTANT, World

CONTENT = canonical(BASE.tables)


@pytest.fixture
def world():
    world = World(DOMAIN, BASE)
    yield world
    assert not world.faults
    assert canonical(BASE.tables) == CONTENT, "a tool changed the base"


def methods(world: World) -> dict:
    return call(world, "get_user_details", user_id="ann")["payment_methods"]


def seats(world: World, number: str, day: str) -> list[int]:
    return list(world.agent.db.find("flights", number)["dates"][day]["available_seats"].values())


# Looking up.


def test_toolkit_has_the_tools_of_the_benchmark():
    kinds = [tool.kind for tool in AirlineTools.tools.values()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"read": 6, "write": 6, "generic": 2}
    for tool in AirlineTools.tools.values():
        assert tool.description, tool.name
        assert all("description" in entry for entry in tool.parameters["properties"].values()), tool.name


def test_reads(world):
    assert call(world, "get_reservation_details", reservation_id="R1") == BASE.tables["reservations"]["R1"]
    assert call(world, "get_user_details", user_id="bob")["reservations"] == []
    airports = call(world, "list_all_airports")
    assert len(airports) == 20 and airports[1] == {"iata": "JFK", "city": "New York"}
    for place, status in enumerate(STATUSES):
        assert call(world, "get_flight_status", flight_number="HAT001", date=f"2024-05-{14 + place}") == status
    assert call(world, "get_flight_status", flight_number="HAT001", date=LATER) == "available"
    assert world.call(ASSISTANT, "calculate", {"expression": "2 * 1.255"}).text == "2.51"
    assert world.call(ASSISTANT, "transfer_to_human_agents", {"summary": "x"}).text == "Transfer successful"
    assert world.state() == World(DOMAIN, BASE).state()


def test_direct_flights_are_the_available_ones(world):
    def found(origin, destination, date):
        return call(world, "search_direct_flight", origin=origin, destination=destination, date=date)

    rows = found("SFO", "JFK", EARLIER)
    assert [row["flight_number"] for row in rows] == ["HAT001", "HAT004"]
    assert rows[0] == {
        "flight_number": "HAT001",
        "origin": "SFO",
        "destination": "JFK",
        "status": "available",
        "scheduled_departure_time_est": "06:00:00",
        "scheduled_arrival_time_est": "11:00:00",
        "date": None,
        "available_seats": {"basic_economy": 2, "economy": 5, "business": 1},
        "prices": {"basic_economy": 80, "economy": 160, "business": 400},
    }
    assert found("BOS", "SFO", LATER) == found("SFO", "JFK", "2024-05-14") == found("SFO", "JFK", "tomorrow") == []
    assert found("JFK", "SFO", EARLIER) == found("sfo", "JFK", EARLIER) == []


def test_connections(world):
    def found(date):
        pairs = call(world, "search_onestop_flight", origin="SFO", destination="BOS", date=date)
        return [tuple((row["flight_number"], row["date"]) for row in pair) for pair in pairs]

    # HAT003 leaves a minute before HAT001 arrives; HAT004 arrives on the day after.
    assert found(EARLIER) == [
        (("HAT001", EARLIER), ("HAT002", EARLIER)),
        (("HAT004", EARLIER), ("HAT003", LATER)),
        (("HAT004", EARLIER), ("HAT005", LATER)),
    ]
    # As in the benchmark: the day after the 8th is "2024-05-9", on which nothing flies.
    assert found("2024-05-08") == [] and found("2024-05-09") == []


# Booking.


def test_booking_takes_seats_and_money(world):
    row = call(world, "book_reservation", **BOOKING)
    assert row == {
        "reservation_id": "HATHAT",
        **{name: BOOKING[name] for name in ("user_id", "origin", "destination", "flight_type", "cabin")},
        "flights": [segment("HAT001", EARLIER, 160), segment("HAT002", EARLIER, 60, "JFK", "BOS")],
        "passengers": BOOKING["passengers"],
        "payment_history": BOOKING["payment_methods"],
        "created_at": "2024-05-15T15:00:00",
        "total_baggages": 3,
        "nonfree_baggages": 2,
        "insurance": "yes",
        "status": None,
    }
    assert call(world, "get_reservation_details", reservation_id="HATHAT") == row
    user = call(world, "get_user_details", user_id="ann")
    assert user["reservations"] == ["R1", "R2", "HATHAT"]
    # The certificate held 150 and paid 100: the rest is lost.
    assert list(user["payment_methods"]) == ["gift_1", "card_1", "gift_2"]
    assert repr(user["payment_methods"]["gift_1"]["amount"]) == "50.0"
    assert [seats(world, name, EARLIER) for name in ("HAT001", "HAT002")] == [[2, 3, 1], [2, 3, 1]]
    assert seats(world, "HAT001", LATER) == [2, 5, 1]


@pytest.mark.parametrize(
    ("change", "total"),
    [
        ({}, 600),
        ({"insurance": "no"}, 540),
        ({"nonfree_baggages": 0}, 500),
        ({"total_baggages": 9}, 600),
        ({"cabin": "basic_economy"}, 380),
        ({"passengers": [passenger("Ann")]}, 350),
        ({"passengers": [passenger("Ann")], "cabin": "business"}, 620),
        ({"flights": legs(("HAT001", LATER))}, 460),
        ({"flights": []}, 160),
        ({"flights": [], "passengers": [], "nonfree_baggages": 0}, 0),
    ],
)
def test_payments_must_add_up_exactly(world, change, total):
    booking = {**BOOKING, **change}
    for wrong in (total - 1, total + 1):
        said = refusal(world, "book_reservation", **{**booking, "payment_methods": paid(("gift_2", wrong))})
        assert said == f"Payment amount does not add up, total price is {total}, but paid {wrong}"
    call(world, "book_reservation", **{**booking, "payment_methods": paid(("gift_2", total))})
    assert methods(world)["gift_2"]["amount"] == 1000.5 - total


def test_a_fourth_booking_is_refused(world):
    small = {**BOOKING, "flights": [], "nonfree_baggages": 0, "insurance": "no", "payment_methods": []}
    ids = [call(world, "book_reservation", **small)["reservation_id"] for _ in range(3)]
    assert ids == ["HATHAT", "HATHAU", "HATHAV"]
    assert refusal(world, "book_reservation", **small) == "Too many reservations"
    # A cancelled one keeps its id.
    call(world, "cancel_reservation", reservation_id="HATHAU")
    assert refusal(world, "book_reservation", **small) == "Too many reservations"
    assert call(world, "get_user_details", user_id="ann")["reservations"][2:] == ids


def test_a_booking_keeps_the_described_fields_in_their_types(world):
    change = {
        "flights": [{**flight, "price": 1} for flight in BOOKING["flights"]],
        "passengers": [{**person, "seat": "1A"} for person in BOOKING["passengers"]],
        "payment_methods": [{"amount": 600.0, "payment_id": "card_1", "note": "x"}],
        "total_baggages": 3.0,
    }
    row = call(world, "book_reservation", **{**BOOKING, **change})
    assert row["passengers"] == BOOKING["passengers"] and row["flights"][0]["price"] == 160
    assert repr(row["payment_history"]) == "[{'payment_id': 'card_1', 'amount': 600}]"
    assert repr(row["total_baggages"]) == "3"


def test_seats_are_counted_flight_by_flight(world):
    """As in the benchmark: a flight listed twice is checked twice against the same seats."""
    twice = {
        **BOOKING,
        "cabin": "business",
        "flights": legs(*[("HAT002", EARLIER)] * 2),
        "passengers": [passenger("A")],
    }
    call(world, "book_reservation", **{**twice, "payment_methods": paid(("gift_2", 310))})
    assert seats(world, "HAT002", EARLIER) == [2, 5, -1]


# Changing reservations.


def test_cancelling_gives_back_on_paper_only(world):
    row = call(world, "cancel_reservation", reservation_id="R1")
    assert row["status"] == "cancelled" and row["payment_history"] == paid(("gift_1", 200), ("gift_1", -200))
    assert methods(world) == BASE.tables["users"]["ann"]["payment_methods"]
    assert seats(world, "HAT001", EARLIER) == [2, 5, 1]
    # Nothing forbids to do it again.
    row = call(world, "cancel_reservation", reservation_id="R1")
    assert [entry["amount"] for entry in row["payment_history"]] == [200, -200, -200, 200]


def test_kept_flights_keep_their_price_in_their_cabin_only(world):
    both = legs(("HAT001", EARLIER), ("HAT003", EARLIER))
    row = call(world, "update_reservation_flights", **{**FLIGHTS, "flights": both})
    assert row["flights"] == [segment("HAT001", EARLIER, 100), segment("HAT003", EARLIER, 20, "JFK", "BOS")]
    assert row["payment_history"] == paid(("gift_1", 200), ("gift_1", 40))
    assert methods(world)["gift_1"]["amount"] == 160.0
    # Today's economy price is 160, not 100, and it is asked for after a change of cabin and back.
    row = call(world, "update_reservation_flights", **{**FLIGHTS, "cabin": "basic_economy", "flights": both})
    assert (row["cabin"], [leg["price"] for leg in row["flights"]]) == ("basic_economy", [80, 10])
    assert row["payment_history"][2:] == paid(("gift_1", -60))
    row = call(world, "update_reservation_flights", **{**FLIGHTS, "flights": both})
    assert row["payment_history"][3:] == paid(("gift_1", 180)) and row["flights"][0]["price"] == 160
    assert methods(world)["gift_1"]["amount"] == 160.0 + 60 - 180
    assert seats(world, "HAT001", EARLIER) == [2, 5, 1], "only bookings take seats"


def test_a_gift_card_grows_on_a_refund(world):
    call(world, "update_reservation_baggages", **BAGS)
    assert methods(world)["gift_1"]["amount"] == 100.0
    # By more than it holds.
    row = call(world, "update_reservation_flights", **{**FLIGHTS, "flights": []})
    assert row["flights"] == [] and row["payment_history"][2:] == paid(("gift_1", -200))
    assert methods(world)["gift_1"]["amount"] == 300.0


def test_flown_flights_may_be_kept(world):
    flown = ("HAT001", "2024-05-14")
    change = {"reservation_id": "R2", "cabin": "business", "payment_id": "card_1"}
    row = call(world, "update_reservation_flights", **change, flights=legs(flown, flown))
    assert [leg["price"] for leg in row["flights"]] == [55, 55] and row["payment_history"][1:] == paid(("card_1", 15))
    said = refusal(world, "update_reservation_flights", **{**change, "cabin": "economy"}, flights=legs(flown))
    assert said == "Flight HAT001 not available on date 2024-05-14"


def test_of_a_flight_that_is_there_twice_the_first_price_is_kept(world):
    change = {**FLIGHTS, "reservation_id": "R4", "flights": legs(("HAT001", EARLIER))}
    row = call(world, "update_reservation_flights", **change)
    assert row["flights"] == [segment("HAT001", EARLIER, 10)] and row["payment_history"][1:] == paid(("gift_1", -25))


def test_a_difference_of_zero_is_not_recorded(world):
    same = legs(("HAT001", EARLIER))
    row = call(world, "update_reservation_flights", **{**FLIGHTS, "flights": same})
    assert row == BASE.tables["reservations"]["R1"] and methods(world)["gift_1"]["amount"] == 200.0
    assert world.state() == World(DOMAIN, BASE).state()
    # Still, the payment method has to be a good one.
    assert "Certificate" in refusal(
        world, "update_reservation_flights", **{**FLIGHTS, "flights": same, "payment_id": "certificate_1"}
    )


@pytest.mark.parametrize(
    ("total", "nonfree", "amount"), [(4, 3, 100), (9, 1, None), (0, 0, None), (2.0, 2.0, 50), (1, 5, 200)]
)
def test_added_paid_bags_cost_fifty_each(world, total, nonfree, amount):
    bags = {**BAGS, "total_baggages": total, "nonfree_baggages": nonfree}
    row = call(world, "update_reservation_baggages", **bags)
    # As in the benchmark, what was given is kept as it was written.
    assert repr((row["total_baggages"], row["nonfree_baggages"])) == repr((total, nonfree))
    assert repr(row["payment_history"][1:]) == repr(paid(("gift_1", amount)) if amount else [])
    assert methods(world)["gift_1"]["amount"] == 200 - (amount or 0)


def test_passengers_are_replaced(world):
    people = [passenger("Zoe"), {**passenger("Kim"), "seat": 3}]
    row = call(world, "update_reservation_passengers", reservation_id="R1", passengers=people)
    assert row["passengers"] == [passenger("Zoe"), passenger("Kim")]
    assert row == {**BASE.tables["reservations"]["R1"], "passengers": row["passengers"]}


def test_certificates(world):
    for number in (3221322, 3221323, 3221324):
        said = call(world, "send_certificate", user_id="ann", amount=50)
        assert said == f"Certificate certificate_{number} added to user ann with amount 50."
    assert refusal(world, "send_certificate", user_id="ann", amount=50) == "Too many certificates"
    entry = methods(world)["certificate_3221323"]
    assert repr(entry) == "{'source': 'certificate', 'id': 'certificate_3221323', 'amount': 50.0}"
    # Each user has their own three; one that is used up is free again.
    assert "3221322" in call(world, "send_certificate", user_id="bob", amount=1)
    spend = {**BOOKING, "flights": [], "insurance": "no", "nonfree_baggages": 1}
    call(world, "book_reservation", **{**spend, "payment_methods": paid(("certificate_3221323", 50))})
    assert "3221323" in call(world, "send_certificate", user_id="ann", amount=7)
