"""Generated airline tasks: which templates there are, and how one becomes a task."""

from lib.grpo.generation import airline_bookings as bookings
from lib.grpo.generation import airline_changes as changes
from lib.grpo.generation.airline_case import AirlineCase
from lib.grpo.generation.compose import Identity
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import look

TEMPLATES = {
    "cancel_plans": changes.cancel_plans,
    "cancel_sick": changes.cancel_sick,
    "cancel_after_airline": changes.cancel_after_airline,
    "upgrade": changes.upgrade,
    "change_date": changes.change_date,
    "add_bags": changes.add_bags,
    "correct_passenger": changes.correct_passenger,
    "book_one_way": bookings.book_one_way,
    "compensate_cancelled": bookings.compensate_cancelled,
    "total_paid": bookings.total_paid,
    "downgrade": changes.downgrade,
    "book_round_trip": bookings.book_round_trip,
    "compensate_delayed": bookings.compensate_delayed,
    "flight_price": bookings.flight_price,
}
# Kept out of training, to measure what carries over to requests never seen.
HELD_OUT = ("downgrade", "book_round_trip", "compensate_delayed", "flight_price")


def make_case(draw: Draw, level: int) -> AirlineCase:
    return AirlineCase(draw, level)


def identity(case: AirlineCase) -> Identity:
    """The caller gives its user id; the agent looks at the profile."""
    user = case.user
    name = f"{user['name']['first_name']} {user['name']['last_name']}"
    known = {"user_id": f"My user id is {user['user_id']}."}
    scenario = f"You are {name}. Your user id is {user['user_id']}."
    return Identity(("user_id",), known, (look("get_user_details", user_id=user["user_id"]),), scenario)
