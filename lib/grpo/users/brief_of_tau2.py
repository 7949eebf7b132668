"""A brief for the scripted user from a benchmark task, whose instructions are free text.

The opening is the reason for the call; details come from what the user knows and from the gold arguments. It is a
stand-in for a language model, good for training and for tests, not for published benchmark results.
"""

import re

from lib.grpo.task import Task
from lib.grpo.users.vocabulary import SLOT_WORDS

GOALS = {"mms_issue": "mms", "mobile_data_issue": "speed", "service_issue": "service"}
ARGUMENTS = {
    "reservation_id": ("reservation_id",),
    "order_id": ("order_id",),
    "payment": ("payment_id", "payment_method_id", "payment_methods"),
    "reason": ("reason",),
    "cabin": ("cabin",),
    "bags": ("total_baggages",),
    "passengers": ("passengers",),
    "insurance": ("insurance",),
    "flight": ("flights",),
    "date": ("flights",),
    "items": ("item_ids",),
    "new_items": ("new_item_ids",),
    "address": ("address1", "address2", "city", "state", "zip"),
    "amount": ("gb_amount", "amount"),
}
PERSONS = (
    (r"\bYou are\b", "I am"), (r"\bYou're\b", "I'm"), (r"\byou are\b", "I am"), (r"\bYour\b", "My"),
    (r"\byour\b", "my"), (r"\b[Yy]ourself\b", "myself"), (r"\b[Yy]ou\b", "I"),
)  # fmt: skip


def brief_of_tau2(task: Task) -> dict:
    """The brief of `users.scripted` for a task without one."""
    told = task.instructions
    reason = _first_person(told.get("reason_for_call") or told.get("task_instructions") or "I need help.")
    known_text = _first_person(told.get("known_info") or "")
    known = {name: known_text for name in SLOT_WORDS if known_text}
    slots = {}
    for name, arguments in ARGUMENTS.items():
        values = [
            _show(action.arguments[argument])
            for action in task.actions
            for argument in arguments
            if argument in action.arguments
        ]
        if values:
            slots[name] = f"{', '.join(dict.fromkeys(values))}."
    kind = re.match(r"\[(\w+)\]", task.id)
    request = {"opening": reason, "slots": slots, "must": [], "goal": GOALS.get(kind[1]) if kind else None}
    if not any(action.name for action in task.actions if not action.name.startswith(("get_", "find_", "search_"))):
        request["inform"] = True
    return {"persona": "terse", "known": known, "requests": [request]}


def _show(value) -> str:
    if isinstance(value, list):
        return ", ".join(_show(item) for item in value)
    if isinstance(value, dict):
        return " ".join(str(item) for item in value.values())
    return str(value)


def _first_person(text: str) -> str:
    for pattern, word in PERSONS:
        text = re.sub(pattern, word, text)
    return " ".join(text.split())
