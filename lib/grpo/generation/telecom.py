"""Generated telecom tasks: which templates there are, and how one becomes a task."""

from lib.grpo.generation import telecom_account as account
from lib.grpo.generation import telecom_phone as phone
from lib.grpo.generation.compose import Identity
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import look
from lib.grpo.generation.telecom_case import TelecomCase

# Trouble on the phone, of which a task holds one at most: two would repair or hide each other.
PHONE = {
    "no_service": phone.no_service,
    "suspended": phone.suspended,
    "no_data": phone.no_data,
    "roaming_abroad": phone.roaming_abroad,
    "slow_data": phone.slow_data,
    "picture_messages": phone.picture_messages,
    "picture_settings": phone.picture_settings,
    "data_used_up": phone.data_used_up,
}
TEMPLATES = PHONE | {
    "pay_bill": account.pay_bill,
    "change_roaming": account.change_roaming,
    "refuel": account.refuel,
    "suspend": account.suspend,
    "data_left": account.data_left,
    "bill_total": account.bill_total,
    "resume": account.resume,
    "refuel_price": account.refuel_price,
}
# Kept out of training, to measure what carries over to requests never seen.
HELD_OUT = ("picture_settings", "data_used_up", "resume", "refuel_price")


def fits(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether two requests, as (template, outcome), can be made in one call."""
    names = {first[0], second[0]}
    return len(names & PHONE.keys()) <= 1 and names != {"pay_bill", "suspended"}


def make_case(draw: Draw, level: int) -> TelecomCase:
    return TelecomCase(draw, level)


def identity(case: TelecomCase) -> Identity:
    """The caller gives its number; who does not know it, name and date of birth."""
    customer, number = case.customer, case.line["phone_number"]
    name, birthday = customer["full_name"], customer["date_of_birth"]
    scenario = f"You are {name}, born on {birthday}. The number of your phone is {number}."
    if not case.by_name:
        found = look("get_customer_by_phone", phone_number=number)
        return Identity(("phone",), {"phone": f"My number is {number}."}, (found,), scenario)
    sentence = f"I do not know my number by heart. My name is {name}, I was born on {birthday}."
    scenario = f"You are {name}, born on {birthday}. You do not know the number of your phone by heart."
    found = look("get_customer_by_name", full_name=name, dob=birthday)
    return Identity(("phone",), {"phone": sentence}, (found,), scenario)
