"""Retail templates about whole orders and addresses. Each is a function (case, outcome) -> Request."""

from collections.abc import Callable

from lib.grpo.generation.people import draw_address
from lib.grpo.generation.request import DENY, TRANSFER, Request, Step, ask, confirm, look, or_human, say, write
from lib.grpo.generation.retail_case import (
    ADDRESS,
    CANCEL,
    NO_HELP,
    PAY,
    PLEASE,
    WANTS_HUMAN,
    Plan,
    RetailCase,
    Thought,
    address_text,
    method_of,
    numbers,
)
from lib.grpo.generation.retail_world import ENGRAVED, LARGE, PLAIN, money, total

# What the user says -> the tool's reason.
REASONS = {
    "I do not need that any more.": "no longer needed",
    "That is no longer needed.": "no longer needed",
    "I ordered it by mistake.": "ordered by mistake",
    "That was a mistake, I clicked on the wrong button.": "ordered by mistake",
}
# What a summary calls the reason, for `must`.
REASON_WORDS = {
    "no longer needed": "no longer need*|not need*|don't need*|doesn't need*|no need*|unneeded|no longer want*",
    "ordered by mistake": "mistake*|accident*|error*|unintention*|wrong*",
}
# What the user says, and what a summary calls it.
OTHER_REASONS = {
    "I found it cheaper in another shop.": "cheaper|another shop|elsewhere",
    "The delivery takes too long.": "deliver*|too long|too slow",
    "I have read bad reviews about it.": "review*",
    "I want to order it again with a voucher.": "voucher*|again|reorder*",
}
HOW_MUCH_BACK = "Please tell me how much I get back."
MODIFIED = "pending (item modified)"
ONLY_USA = "an address has to be in the USA."


def cancel_order(case: RetailCase, outcome: str) -> Request:
    """Cancel one pending order for one of two reasons."""
    draw = case.draw
    opening = draw.pick(
        ("I want to cancel an order.", "Please cancel one of my orders.", "An order has to be cancelled.")
    )
    opening = case.asks(opening, HOW_MUCH_BACK)
    if outcome == TRANSFER:
        return transfer_cancel(case, opening)
    if outcome == DENY:
        return _deny_cancel(case, opening)
    said = draw.pick(list(REASONS))
    row = case.order(kinds=(case.plain(), PLAIN)[: draw.between(1, 2)])
    other = case.order() if case.changes_mind() else None
    details, steps = case.find(row)
    thought = None
    if other:
        name = other["order_id"]
        plan = cancel_plan([other], REASONS[said])
        if name not in case.seen:
            case.seen.add(name)
            plan.steps.insert(0, look("get_order_details", order_id=name))
        sentence = f"Sorry, I mixed that up: please cancel order {name} and not the first one."
        thought = Thought(sentence, plan, {"order_id": f"The order id is {name}."})
    return case.act(
        opening, [*steps, ask("reason")], {**details, "reason": said}, cancel_plan([row], REASONS[said]), thought
    )


def transfer_cancel(case: RetailCase, opening: str, count: int = 1) -> Request:
    """To cancel orders that only a human may cancel."""
    said = case.draw.pick(list(REASONS))
    return case.transfer(opening, "pending", lambda row: (cancel_words(said), {"reason": said}), count)


def cancel_words(said: str) -> list[str]:
    """What a summary of a cancellation names besides the orders: the action, and the user's reason and no other."""
    return [CANCEL, REASON_WORDS[REASONS[said]] if said in REASONS else OTHER_REASONS[said]]


def _deny_cancel(case: RetailCase, opening: str) -> Request:
    draw = case.draw
    said = draw.pick(list(REASONS))
    reason, must = {"reason": said}, cancel_words(said)
    if case.tools_refuse():
        row = case.order(draw.pick(("processed", MODIFIED, "delivered")))
        why = f"the status of the order is {row['status']}."
        return case.deny(opening, [row], why, must, reason, (), "It is pending.")
    kind = draw.pick(("reason", "engraved", "stranger"))
    if kind == "stranger":
        return case.deny_stranger(opening, "pending", must, reason)
    if kind == "engraved":
        row = case.order(kinds=(PLAIN, ENGRAVED)[draw.below(2) :])
        return case.deny(opening, [row], "it has an engraved item.", must, reason, ())
    said = draw.pick(list(OTHER_REASONS))
    return case.deny(opening, [case.order()], "this reason is not accepted.", cancel_words(said), {"reason": said})


def cancel_two_orders(case: RetailCase, outcome: str) -> Request:
    """Cancel two pending orders, or none of them."""
    draw = case.draw
    opening = draw.pick(("I want to cancel two orders.", "Please cancel two of my orders."))
    opening = case.asks(opening, "Please tell me how much I get back in total.")
    both = f"{opening} Both or none, please."
    if outcome == TRANSFER:
        return transfer_cancel(case, both, 2)
    said = draw.pick(list(REASONS))
    if outcome == DENY and draw.chance(0.5):
        rows, said = [case.order(), case.order()], draw.pick(list(OTHER_REASONS))
        return case.deny(both, rows, "this reason is not accepted.", cancel_words(said), {"reason": said})
    if outcome == DENY:
        engraved = case.order(kinds=(PLAIN, ENGRAVED)[draw.below(2) :])
        why = f"order {engraved['order_id']} has an engraved item."
        rows = draw.sample((engraved, case.order()), 2)
        return case.deny(both, rows, why, cancel_words(said), {"reason": said}, ())
    rows = [case.order(), case.order()]
    details, steps = case.find(*rows)
    thought = None
    if case.changes_mind():
        name = rows[1]["order_id"]
        only = cancel_plan(rows[1:], REASONS[said])
        sentence = f"Wait, cancel only {name}. I keep the other one."
        thought = Thought(sentence, only, {"order_id": f"The order id is {name}."})
    return case.act(
        opening if thought else both,
        [*steps, ask("reason")],
        {**details, "reason": said},
        cancel_plan(rows, REASONS[said]),
        thought,
    )


def cancel_plan(rows: list[dict], reason: str) -> Plan:
    """To cancel pending orders."""
    ids = [row["order_id"] for row in rows]
    amount = money(sum(total(row) for row in rows))
    names = " and ".join(ids)
    return Plan(
        [*numbers(rows), CANCEL, REASON_WORDS[reason]],
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
    address = draw_address(draw)
    known, must = _told_address(address), _address_words(address)
    if outcome == TRANSFER:
        return case.transfer(opening, "pending", lambda row: (must, known))
    if outcome == DENY:
        if case.tools_refuse():
            row = case.order(draw.pick(("processed", "delivered")))
            why = f"the order is already {row['status']}."
            return case.deny(opening, [row], why, must, known, (), "It is pending.")
        kind = draw.pick(("foreign", "modified", "stranger"))
        if kind == "stranger":
            return case.deny_stranger(opening, "pending", must, known)
        if kind == "modified":
            return case.deny(opening, [case.order(MODIFIED)], "its items were modified already.", must, known, ())
        return _deny_abroad(case, opening, address)
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
    address = draw_address(draw)
    known, must = _told_address(address), _address_words(address)
    if case.wants_more():
        return _move(case, outcome, f"{opening} And one of my orders should go there too. Both or nothing.", address)
    if outcome == TRANSFER:
        need = draw.pick((WANTS_HUMAN[0], "And I need a company invoice with it."))
        known["address"] += f" {need}"
        summary = f"New address of {user_id}. {need}"
        return Request(
            opening, TRANSFER, [ask("address")], known, must=or_human(["invoice*", ADDRESS]), summary=summary
        )
    if outcome == DENY:
        address = case.foreign(address)
        known, must = _told_address(address), _address_words(address)
        steps = [ask("address"), say(f"{NO_HELP}{ONLY_USA}")]
        return Request(opening, DENY, steps, known, must=must, insist=[PLEASE] if case.level >= 4 else [])

    def plan(address: dict) -> Plan:
        return _address_plan("your profile", [], address, write("modify_user_address", user_id=user_id, **address))

    return case.act(opening, [ask("address")], known, plan(address), _another_suite(case, address, plan))


def _move(case: RetailCase, outcome: str, opening: str, address: dict) -> Request:
    """A new address in the profile and for an order."""
    known, must = _told_address(address), _address_words(address)
    if outcome == TRANSFER:
        return case.transfer(opening, "pending", lambda row: (must, known))
    if outcome == DENY and case.draw.chance(0.5):
        return case.deny(
            opening, [case.order(MODIFIED)], "the items of the order were modified already.", must, known, ()
        )
    if outcome == DENY:
        return _deny_abroad(case, opening, address)
    row = case.order()
    name, user_id = row["order_id"], case.user["user_id"]

    def plan(address: dict) -> Plan:
        profile = write("modify_user_address", user_id=user_id, **address)
        order = write("modify_pending_order_address", order_id=name, **address)
        return _address_plan(f"your profile and order {name}", [name[1:]], address, profile, order)

    details, steps = case.find(row)
    thought = _another_suite(case, address, plan)
    return case.act(opening, [*steps, ask("address")], {**details, **known}, plan(address), thought)


def _deny_abroad(case: RetailCase, opening: str, address: dict) -> Request:
    abroad = case.foreign(address)
    return case.deny(opening, [case.order()], ONLY_USA, _address_words(abroad), _told_address(abroad))


def _told_address(address: dict) -> dict[str, str]:
    return {"address": f"The new address is {address_text(address)}."}


def _address_words(address: dict) -> list[str]:
    """What a summary of a new address names."""
    return [address["address1"], address["address2"], address["city"], ADDRESS]


def _another_suite(case: RetailCase, address: dict, plan: Callable[[dict], Plan]) -> Thought | None:
    if not case.changes_mind():
        return None
    suite = f"Suite {case.draw.between(1000, 1999)}"
    new = {**address, "address2": suite}
    return Thought(f"Sorry, that was wrong: it is {suite}, the rest stays.", plan(new), _told_address(new))


def _address_plan(what: str, must: list[str], address: dict, *changes: Step) -> Plan:
    return Plan(
        [*must, *_address_words(address)],
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
    opening = case.asks(opening, "I also want to know the amount.")
    if outcome == TRANSFER:
        return case.transfer(opening, "pending", lambda row: _other_payment(case.other_method(row)))
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
        return Plan([name[1:], method, PAY], steps, amount)

    details, steps = case.find(row)
    thought = None
    if case.changes_mind():
        thought = Thought(f"On second thought, take {other}.", plan(other), _told_payment(other))
    return case.act(opening, [*steps, ask("payment")], {**details, **_told_payment(chosen)}, plan(chosen), thought)


def _told_payment(method: str) -> dict[str, str]:
    return {"payment": f"I want to pay with {method}."}


def _other_payment(method: str) -> tuple[list[str], dict[str, str]]:
    return [method, PAY], _told_payment(method)


def _deny_payment(case: RetailCase, opening: str) -> Request:
    card, wallet = case.method("credit_card"), case.method("paypal")
    if case.tools_refuse():
        row, new = case.order(method=card), case.spent_card()
        why, claim = "the gift card does not cover the order.", "There is enough money on it."
        return case.deny(opening, [row], why, [new, PAY], _told_payment(new), claim=claim)
    if case.draw.chance(0.5):
        row, new = case.order(method=case.method("gift_card")), case.draw.pick((card, wallet))
        why = "an order paid by gift card keeps its payment."
        return case.deny(opening, [row], why, [new, PAY], _told_payment(new), (), "I paid it by credit card.")
    row = case.order(kinds=(PLAIN,) * 3, dollars=LARGE, method=card)
    why, claim = "PayPal takes at most 300 dollars.", "It did not cost much."
    return case.deny(opening, [row], why, [wallet, PAY], _told_payment(wallet), claim=claim)
