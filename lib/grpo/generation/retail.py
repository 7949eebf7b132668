"""Generated retail tasks: which templates there are, and how one becomes a task."""

from lib.grpo.generation import retail_items as items
from lib.grpo.generation import retail_orders as orders
from lib.grpo.generation import retail_questions as questions
from lib.grpo.generation import retail_returns as returns
from lib.grpo.generation.compose import Identity
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import ask, look
from lib.grpo.generation.retail_case import RetailCase

TEMPLATES = {
    "cancel_order": orders.cancel_order,
    "change_order_address": orders.change_order_address,
    "change_order_payment": orders.change_order_payment,
    "change_user_address": orders.change_user_address,
    "change_items": items.change_items,
    "return_items": returns.return_items,
    "exchange_items": items.exchange_items,
    "order_total": questions.order_total,
    "refund_amount": questions.refund_amount,
    "count_options": questions.count_options,
    "cancel_two_orders": orders.cancel_two_orders,
    "cheapest_option": items.cheapest_option,
    "return_to_gift_card": returns.return_to_gift_card,
    "tracking_number": questions.tracking_number,
}
# Kept out of training, to measure what carries over to requests never seen.
HELD_OUT = ("cancel_two_orders", "cheapest_option", "return_to_gift_card", "tracking_number")


def make_case(draw: Draw, level: int) -> RetailCase:
    return RetailCase(draw, level)


def identity(case: RetailCase) -> Identity:
    """The caller gives the email, or name and zip code without it; the agent looks at the profile."""
    user = case.user
    first, last, zip_code = user["name"]["first_name"], user["name"]["last_name"], user["address"]["zip"]
    known = {
        "email": f"My email is {user['email']}.",
        "name": f"My name is {first} {last}.",
        "zip": f"My zip code is {zip_code}.",
    }
    profile = look("get_user_details", user_id=user["user_id"])
    scenario = f"You are {first} {last}. Your zip code is {zip_code}."
    if case.forgot_email:
        known["email"] = "I don't remember which email I used."
        by_name = look("find_user_id_by_name_zip", first_name=first, last_name=last, zip=zip_code)
        return Identity(("email",), known, (ask("name"), by_name, profile), f"{scenario} {known['email']}")
    by_email = look("find_user_id_by_email", email=user["email"])
    return Identity(("email",), known, (by_email, profile), f"{scenario} Your email is {user['email']}.")
