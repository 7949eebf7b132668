"""The airline's tables: what a row holds, and how a tau2-bench `db.json` becomes a `Base`."""

from lib.grpo.worlds.records import Default, choice, integer, list_of, map_of, number, record, text, variant
from lib.grpo.worlds.store import DICT, Base

CABINS = ("basic_economy", "economy", "business")
SHAPES = {"flights": DICT, "users": DICT, "reservations": DICT}

FLIGHT_DATE = variant(
    "status",
    available=record(
        status=text,
        available_seats=map_of(integer),
        prices=map_of(integer),
    ),
    landed=record(status=text, actual_departure_time_est=text, actual_arrival_time_est=text),
    cancelled=record(status=text),
    delayed=record(status=text, estimated_departure_time_est=text, estimated_arrival_time_est=text),
    flying=record(status=text, actual_departure_time_est=text, estimated_arrival_time_est=text),
    on_time=record(status=text, estimated_departure_time_est=text, estimated_arrival_time_est=text),
)
FLIGHT = record(
    flight_number=text,
    origin=text,
    destination=text,
    scheduled_departure_time_est=text,
    scheduled_arrival_time_est=text,
    dates=map_of(FLIGHT_DATE),
)
PASSENGER = record(first_name=text, last_name=text, dob=text)
PAYMENT_METHOD = variant(
    "source",
    credit_card=record(source=text, id=text, brand=text, last_four=text),
    gift_card=record(source=text, id=text, amount=number),
    certificate=record(source=text, id=text, amount=number),
)
USER = record(
    user_id=text,
    name=record(first_name=text, last_name=text),
    address=record(address1=text, address2=Default(text), city=text, country=text, state=text, zip=text),
    email=text,
    dob=text,
    payment_methods=map_of(PAYMENT_METHOD),
    saved_passengers=list_of(PASSENGER),
    membership=choice("gold", "silver", "regular"),
    reservations=list_of(text),
)
RESERVATION = record(
    reservation_id=text,
    user_id=text,
    origin=text,
    destination=text,
    flight_type=choice("round_trip", "one_way"),
    cabin=choice(*CABINS),
    flights=list_of(record(flight_number=text, origin=text, destination=text, date=text, price=integer)),
    passengers=list_of(PASSENGER),
    payment_history=list_of(record(payment_id=text, amount=integer)),
    created_at=text,
    total_baggages=integer,
    nonfree_baggages=integer,
    insurance=choice("yes", "no"),
    status=Default(choice("cancelled")),
)


def _with_user_id(key: str, row):
    """Version 1 of the data leaves `user_id` to the key."""
    return {"user_id": key, **row} if type(row) is dict else row


DATABASE = record(
    closed=True, flights=map_of(FLIGHT), users=map_of(USER, fill=_with_user_id), reservations=map_of(RESERVATION)
)


def read_airline(data: dict) -> Base:
    """Cast a parsed `db.json`. Raises DataError that names the first wrong place."""
    return Base(DATABASE(data, "db"), SHAPES)
