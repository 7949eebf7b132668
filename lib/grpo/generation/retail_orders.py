"""Retail templates about whole orders and addresses. Each is a function (case, outcome) -> Request."""

from collections.abc import Callable

from lib.grpo.generation.people import draw_address
from lib.grpo.generation.request import DENY, TRANSFER, Request, Step, ask, confirm, look, say, write
from lib.grpo.generation.retail_case import NO_HELP, PLEASE, Plan, RetailCase, address_text, method_of
from lib.grpo.generation.retail_world import ENGRAVED, LARGE, PLAIN, money, total

# What the user says -> the tool's reason.
REASONS = {
    "I do not need that any more.": "no longer needed",
    "That is no longer needed.": "no longer needed",
    "I ordered it by mistake.": "ordered by mistake",
    "That was a mistake, I clicked on the wrong button.": "ordered by mistake",
}
OTHER_REASONS = (
    "I found it cheaper in another shop.",
    "The delivery takes too long.",
    "I have read bad reviews about it.",
    "I want to order it again with a voucher.",
)
MODIFIED = "pending (item modified)"
ONLY_USA = "an address has to be in the USA."


def cancel_order(case: RetailCase, outcome: str) -> Request:
    """Cancel one pending order for one of two reasons."""
    draw = case.draw
    opening = draw.pick(
        ("I want to cancel an order.", "Please cancel one of my orders.", "An order has to be cancelled.")
    )
    if outcome == TRANSFER:
        return case.transfer(opening, "pending")
    if outcome == DENY:
        return _deny_cancel(case, opening)
    said = draw.pick(list(REASONS))
    row = case.order(kinds=(case.plain(), PLAIN)[: draw.between(1, 2)])
    thought = None
    if case.changes_mind():
        other = case.order()
        plan = cancel_plan([other], REASONS[said])
        plan.steps.insert(0, look("get_order_details", order_id=other["order_id"]))
        thought = (f"Sorry, I mixed that up: please cancel order {other['order_id']} and not the first one.", plan)
    details, steps = case.find(row)
    return case.act(
        opening,
        [*steps, ask("reason")],
        {**details, "reason": said},
        cancel_plan([row], REASONS[said]),
        thought,
        "Please tell me how much I get back.",
    )


def _deny_cancel(case: RetailCase, opening: str) -> Request:
    draw = case.draw
    reason = {"reason": draw.pick(list(REASONS))}
    if case.tools_refuse():
        row = case.order(draw.pick(("processed", MODIFIED, "delivered")))
        return case.deny(opening, [row], f"the status of the order is {row['status']}.", reason, (), "It is pending.")
    kind = draw.pick(("reason", "engraved", "stranger"))
    if kind == "stranger":
        return case.deny_stranger(opening, "pending", reason)
    if kind == "engraved":
        row = case.order(kinds=(PLAIN, ENGRAVED)[draw.below(2) :])
        return case.deny(opening, [row], "it has an engraved item.", reason, ())
    return case.deny(opening, [case.order()], "this reason is not accepted.", {"reason": draw.pick(OTHER_REASONS)})


def cancel_two_orders(case: RetailCase, outcome: str) -> Request:
    """Cancel two pending orders, or none of them."""
    draw = case.draw
    opening = draw.pick(("I want to cancel two orders.", "Please cancel two of my orders."))
    if outcome == TRANSFER:
        return case.transfer(opening, "pending", 2)
    said = draw.pick(list(REASONS))
    both = f"{opening} Both or none, please."
    if outcome == DENY and draw.chance(0.5):
        rows = [case.order(), case.order()]
        return case.deny(both, rows, "this reason is not accepted.", {"reason": draw.pick(OTHER_REASONS)})
    if outcome == DENY:
        engraved = case.order(kinds=(PLAIN, ENGRAVED)[draw.below(2) :])
        why = f"order {engraved['order_id']} has an engraved item."
        return case.deny(both, draw.sample((engraved, case.order()), 2), why, {"reason": said}, ())
    rows = [case.order(), case.order()]
    details, steps = case.find(*rows)
    thought = None
    if case.changes_mind():
        only = cancel_plan(rows[1:], REASONS[said])
        thought = (f"Wait, cancel only {rows[1]['order_id']}. I keep the other one.", only)
    return case.act(
        opening if thought else both,
        [*steps, ask("reason")],
        {**details, "reason": said},
        cancel_plan(rows, REASONS[said]),
        thought,
        "Please tell me how much I get back in total.",
    )


def cancel_plan(rows: list[dict], reason: str) -> Plan:
    """To cancel pending orders."""
    ids = [row["order_id"] for row in rows]
    amount = money(sum(total(row) for row in rows))
    names = " and ".join(ids)
    return Plan(
        [order_id[1:] for order_id in ids],
        [
            confirm(f"I will cancel {names}, reason: {reason}, and refund {amount} dollars as it was paid."),
            *(write("cancel_pending_order", order_id=order_id, reason=reason) for order_id in ids),
            say(f"Done: {names} cancelled, {amount} dollars will be refunded."),
        ],
        amount,
    )


def change_order_address(case: RetailCase, outcome: str) -> Request:
    """Send a pending order elsewhere in the USA."""
    draw = case.draw
    opening = draw.pick(("An order of mine should go to another address.", "I need to change where an order is sent."))
    if outcome == TRANSFER:
        return case.transfer(opening, "pending")
    address = draw_address(draw)
    known = {"address": f"The new address is {address_text(address)}."}
    if outcome == DENY:
        if case.tools_refuse():
            row = case.order(draw.pick(("processed", "delivered")))
            return case.deny(opening, [row], f"the order is already {row['status']}.", known, (), "It is pending.")
        kind = draw.pick(("foreign", "modified", "stranger"))
        if kind == "stranger":
            return case.deny_stranger(opening, "pending", known)
        if kind == "modified":
            return case.deny(opening, [case.order(MODIFIED)], "its items were modified already.", known, ())
        known = {"address": f"The new address is {address_text(case.foreign(address))}."}
        return case.deny(opening, [case.order()], ONLY_USA, known)
    row = case.order()
    name = row["order_id"]

    def plan(address: dict) -> Plan:
        return _address_plan(
            f"order {name}", [name[1:]], address, write("modify_pending_order_address", order_id=name, **address)
        )

    details, steps = case.find(row)
    steps.append(ask("address"))
    return case.act(opening, steps, {**details, **known}, plan(address), _another_suite(case, address, plan))


def change_user_address(case: RetailCase, outcome: str) -> Request:
    """A new address in the caller's profile."""
    draw, user_id = case.draw, case.user["user_id"]
    opening = draw.pick(("I have moved, please change my address.", "I need a new address in my profile."))
    if outcome == TRANSFER:
        need = draw.pick(("And I want to talk to a human.", "And I need a company invoice with it."))
        return Request(f"{opening} {need}", TRANSFER, [], summary=f"New address of {user_id}. {need}")
    address = draw_address(draw)
    known = {"address": f"The new address is {address_text(address)}."}
    if outcome == DENY and draw.chance(0.2):
        known = {"address": f"The new address is {address_text(case.foreign(address))}."}
        steps = [ask("address"), say(f"{NO_HELP}{ONLY_USA}")]
        return Request(opening, DENY, steps, known, insist=[PLEASE] if case.level >= 4 else [])
    if outcome == DENY or case.wants_more():
        return _move(case, outcome, f"{opening} And one of my orders should go there too. Both or nothing.", address)

    def plan(address: dict) -> Plan:
        return _address_plan("your profile", [], address, write("modify_user_address", user_id=user_id, **address))

    return case.act(opening, [ask("address")], known, plan(address), _another_suite(case, address, plan))


def _move(case: RetailCase, outcome: str, opening: str, address: dict) -> Request:
    """A new address in the profile and for an order."""
    if outcome == DENY:
        known = {"address": f"The new address is {address_text(address)}."}
        if case.draw.chance(0.5):
            row = case.order(MODIFIED)
            return case.deny(opening, [row], "the items of the order were modified already.", known, ())
        known = {"address": f"The new address is {address_text(case.foreign(address))}."}
        return case.deny(opening, [case.order()], ONLY_USA, known)
    row = case.order()
    name, user_id = row["order_id"], case.user["user_id"]

    def plan(address: dict) -> Plan:
        profile = write("modify_user_address", user_id=user_id, **address)
        order = write("modify_pending_order_address", order_id=name, **address)
        return _address_plan(f"your profile and order {name}", [name[1:]], address, profile, order)

    details, steps = case.find(row)
    details["address"] = f"The new address is {address_text(address)}."
    thought = _another_suite(case, address, plan)
    return case.act(opening, [*steps, ask("address")], details, plan(address), thought)


def _another_suite(case: RetailCase, address: dict, plan: Callable[[dict], Plan]) -> tuple[str, Plan] | None:
    if not case.changes_mind():
        return None
    suite = f"Suite {case.draw.between(1000, 1999)}"
    return f"Sorry, that was wrong: it is {suite}, the rest stays.", plan({**address, "address2": suite})


def _address_plan(what: str, must: list[str], address: dict, *changes: Step) -> Plan:
    return Plan(
        [*must, address["address1"], address["address2"]],
        [
            confirm(f"I will change the address of {what} to {address_text(address)}."),
            *changes,
            say(f"The address of {what} has been changed."),
        ],
    )


def change_order_payment(case: RetailCase, outcome: str) -> Request:
    """Pay a pending order by another method."""
    draw = case.draw
    opening = draw.pick(("I want to pay an order in another way.", "Please change the payment of an order."))
    if outcome == TRANSFER:
        return case.transfer(opening, "pending")
    if outcome == DENY:
        return _deny_payment(case, opening)
    row = case.order(method=case.method(draw.pick(("credit_card", "paypal"))))
    name, amount = row["order_id"], money(total(row))
    chosen, other = draw.sample((case.other_method(row), case.method("gift_card")), 2)

    def plan(method: str) -> Plan:
        steps = [
            confirm(f"I will have order {name}, {amount} dollars, paid by {method}, and refund {method_of(row)}."),
            write("modify_pending_order_payment", order_id=name, payment_method_id=method),
            say(f"The payment has been changed: {amount} dollars by {method}."),
        ]
        return Plan([name[1:], method], steps, amount)

    details, steps = case.find(row)
    thought = (f"On second thought, take {other}.", plan(other)) if case.changes_mind() else None
    details["payment"] = f"I want to pay with {chosen}."
    question = "I also want to know the amount."
    return case.act(opening, [*steps, ask("payment")], details, plan(chosen), thought, question)


def _deny_payment(case: RetailCase, opening: str) -> Request:
    card, wallet = case.method("credit_card"), case.method("paypal")
    if case.tools_refuse():
        row = case.order(method=card)
        payment = {"payment": f"I want to pay with {case.spent_card()}."}
        return case.deny(
            opening, [row], "the gift card does not cover the order.", payment, claim="There is enough money on it."
        )
    if case.draw.chance(0.5):
        row = case.order(method=case.method("gift_card"))
        payment = {"payment": f"I want to pay with {case.draw.pick((card, wallet))}."}
        why = "an order paid by gift card keeps its payment."
        return case.deny(opening, [row], why, payment, (), "I paid it by credit card.")
    row = case.order(kinds=(PLAIN,) * 3, dollars=LARGE, method=card)
    payment = {"payment": f"I want to pay with {wallet}."}
    return case.deny(opening, [row], "PayPal takes at most 300 dollars.", payment, claim="It did not cost much.")
