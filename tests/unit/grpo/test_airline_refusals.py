"""Every refusal of the airline's tools, in its words and without a trace."""

import pytest
from airline_samples import BAGS, BASE, BOOKING, DOMAIN, EARLIER, FLIGHTS, LATER, call, legs, paid, passenger, refusal

from lib.grpo.worlds.store import canonical
from lib.grpo.worlds.world import World

CONTENT = canonical(BASE.tables)
REFUSALS = [
    ("get_user_details", {"user_id": "Ann"}, "User Ann not found"),
    ("get_reservation_details", {"reservation_id": "r1"}, "Reservation r1 not found"),
    ("get_flight_status", {"flight_number": "HAT9", "date": EARLIER}, "Flight HAT9 not found"),
    ("get_flight_status", {"flight_number": "HAT001", "date": "x"}, "Flight HAT001 not found on date x"),
    ("calculate", {"expression": "ann"}, "Invalid characters in expression"),
    ("send_certificate", {"user_id": "eve", "amount": 1}, "User eve not found"),
    ("cancel_reservation", {"reservation_id": "R9"}, "Reservation R9 not found"),
    ("update_reservation_passengers", {"reservation_id": "R9", "passengers": []}, "Reservation R9 not found"),
    (
        "update_reservation_passengers",
        {"reservation_id": "R1", "passengers": [passenger("Ann")]},
        "Number of passengers does not match",
    ),
    ("book_reservation", {**BOOKING, "user_id": "eve"}, "User eve not found"),
    ("book_reservation", {**BOOKING, "flights": legs(("HAT9", LATER))}, "Flight HAT9 not found"),
    ("book_reservation", {**BOOKING, "flights": legs(("HAT002", LATER))}, f"Flight HAT002 not found on date {LATER}"),
    ("book_reservation", {**BOOKING, "cabin": "business"}, "Not enough seats on flight HAT001"),
    ("book_reservation", {**BOOKING, "user_id": "bob"}, "Payment method certificate_1 not found"),
    (
        "book_reservation",
        {**BOOKING, "payment_methods": paid(("certificate_1", 151), ("card_1", 449))},
        "Not enough balance in payment method certificate_1",
    ),
    (
        "book_reservation",
        {**BOOKING, "payment_methods": paid(("gift_1", 201), ("card_1", 399))},
        "Not enough balance in payment method gift_1",
    ),
    # Unlike the benchmark, which fails half way here and keeps what it took: an error changes nothing.
    (
        "book_reservation",
        {**BOOKING, "payment_methods": paid(("certificate_1", 100), ("certificate_1", 100), ("card_1", 400))},
        "Payment method certificate_1 not found",
    ),
    ("book_reservation", {**BOOKING, "payment_methods": []}, "total price is 600, but paid 0"),
    ("book_reservation", {**BOOKING, "cabin": "first"}, "must be one of"),
    ("book_reservation", {**BOOKING, "passengers": [{"first_name": "A"}]}, "passengers[0]: missing field 'last_name'"),
]
# One day for each status but available.
for day in range(14, 19):
    REFUSALS.append(
        (
            "book_reservation",
            {**BOOKING, "flights": legs(("HAT001", f"2024-05-{day}"))},
            f"Flight HAT001 not available on date 2024-05-{day}",
        )
    )
for name, update in (("update_reservation_flights", FLIGHTS), ("update_reservation_baggages", BAGS)):
    REFUSALS += [
        (name, {**update, "reservation_id": "R9"}, "Reservation R9 not found"),
        (name, {**update, "reservation_id": "R3"}, "User ghost not found"),
        (name, {**update, "payment_id": "card_2"}, "Payment method not found"),
        (name, {**update, "payment_id": "certificate_1"}, "Certificate cannot be used to update reservation"),
    ]
REFUSALS += [
    ("update_reservation_baggages", {**BAGS, "nonfree_baggages": 6}, "Gift card balance is not enough"),
    ("update_reservation_flights", {**FLIGHTS, "flights": legs(*[("HAT001", EARLIER)] * 3)}, "Gift card balance"),
    ("update_reservation_flights", {**FLIGHTS, "cabin": "business"}, "Not enough seats on flight HAT001"),
    ("update_reservation_flights", {**FLIGHTS, "flights": legs(("HAT9", LATER))}, "Flight HAT9 not found"),
    ("update_reservation_flights", {**FLIGHTS, "flights": legs(("HAT006", LATER))}, "Flight HAT006 not available"),
    ("update_reservation_flights", {**FLIGHTS, "flights": [{"date": LATER}]}, "missing field 'flight_number'"),
]


@pytest.mark.parametrize(("name", "arguments", "said"), REFUSALS)
def test_refusals_change_nothing(name, arguments, said):
    world = World(DOMAIN, BASE)
    call(world, "update_reservation_baggages", **{**BAGS, "reservation_id": "R2", "payment_id": "card_1"})
    text = refusal(world, name, **arguments)
    assert said in text, text
    assert not world.faults and canonical(BASE.tables) == CONTENT
