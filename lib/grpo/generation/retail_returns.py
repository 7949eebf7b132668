"""Retail templates that return items. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.request import DENY, TRANSFER, Request, ask, confirm, say, write
from lib.grpo.generation.retail_case import BROKEN, EXCHANGE, NOT_BACK, RETURN, Plan, RetailCase, Thought, method_of
from lib.grpo.generation.retail_world import ENGRAVED, HYGIENE, HYGIENE_NAMES, PLAIN, cents, list_items, money

HOW_MUCH_BACK = "Please tell me how much I get back."


def return_items(case: RetailCase, outcome: str) -> Request:
    """Return items of a delivered order."""
    opening = case.draw.pick(
        ("I would like to return something.", "I want to send something back.", "I need to return a purchase.")
    )
    opening = case.asks(opening, HOW_MUCH_BACK)
    if outcome == TRANSFER:
        return _transfer_return(case, opening)
    if outcome == DENY:
        return _deny_return(case, opening, to_gift_card=case.draw.chance(0.5))
    row = case.order("delivered", (case.plain(), *[PLAIN] * case.draw.between(0, 1), *case.kept()))
    return _return_allowed(case, opening, row, method_of(row))


def return_to_gift_card(case: RetailCase, outcome: str) -> Request:
    """Return items, with the refund to a gift card: possible unless PayPal paid them."""
    opening = case.draw.pick(
        ("I want to return something and have the money on a gift card.", "Please take something back for a gift card.")
    )
    opening = case.asks(opening, HOW_MUCH_BACK)
    if outcome == TRANSFER:
        return _transfer_return(case, opening, to_gift_card=True)
    if outcome == DENY:
        return _deny_return(case, opening, to_gift_card=True)
    row = case.order("delivered", (PLAIN, *case.kept()), method=case.method("credit_card"))
    return _return_allowed(case, opening, row, case.draw.pick((case.method("gift_card"), case.spent_card())))


def _return_allowed(case: RetailCase, opening: str, row: dict, method: str) -> Request:
    """Allowed: some or all of the items that may go back."""
    able = [item for item in row["items"] if _may_go_back(item)]
    chosen = case.draw.sample(able, case.draw.between(1, len(able)))
    details, steps = case.find(row)
    steps += [ask("items"), ask("payment")]
    details |= return_details(chosen, method)
    thought, left = None, [item for item in able if item not in chosen]
    if case.changes_mind():
        if left:
            plan, known = return_plan(row, left, method), {"items": return_details(left, method)["items"]}
            thought = Thought(f"Sorry, I keep that. I return {list_items(left)}.", plan, known)
        elif not method_of(row).startswith("paypal") and method != case.spent_card():
            other = case.spent_card()
            plan, known = return_plan(row, chosen, other), {"payment": return_details(chosen, other)["payment"]}
            thought = Thought(f"Wait, refund {other} instead.", plan, known)
    return case.act(opening, steps, details, return_plan(row, chosen, method), thought)


def return_details(items: list[dict], method: str) -> dict[str, str]:
    """What a user knows who returns items."""
    return {"items": f"It is about {list_items(items)}.", "payment": f"The refund should go to {method}."}


def return_plan(row: dict, items: list[dict], method: str) -> Plan:
    """To return items of an order."""
    name, amount = row["order_id"], money(sum(cents(item["price"]) for item in items))
    return Plan(
        [name[1:], *return_words(items, method)],
        [
            confirm(f"I will start the return of {list_items(items)} of order {name}: {amount} dollars to {method}."),
            write(
                "return_delivered_order_items",
                order_id=name,
                item_ids=[item["item_id"] for item in items],
                payment_method_id=method,
            ),
            say(f"The return has been requested, {amount} dollars will be refunded to {method}."),
        ],
        amount,
    )


def return_words(items: list[dict], method: str) -> list[str]:
    """What a summary of a return names besides the order."""
    return [method, *(item["name"] for item in items), RETURN]


def _transfer_return(case: RetailCase, opening: str, to_gift_card: bool = False) -> Request:
    if case.draw.chance(0.3):
        return hand_over_broken(case, opening)
    return transfer_return(case, opening, to_gift_card)


def transfer_return(case: RetailCase, opening: str, to_gift_card: bool = False) -> Request:
    """A return of an order that costs too much, or that a human shall do."""

    def wish(row: dict) -> tuple[list[str], dict[str, str]]:
        method = case.method("gift_card") if to_gift_card else method_of(row)
        chosen = row["items"][:1]
        return return_words(chosen, method), return_details(chosen, method)

    return case.transfer(opening, "delivered", wish)


def _deny_return(case: RetailCase, opening: str, to_gift_card: bool) -> Request:
    """Refused: what never goes back, PayPal's money on a gift card, a second return, money for another card."""
    draw, card, claim = case.draw, case.method("gift_card"), ""
    asked: tuple[str, ...] = ("items",)
    if case.tools_refuse():
        row = case.order(draw.pick(("return requested", "processed")), (PLAIN, PLAIN))
        why, asked = f"the status of the order is {row['status']}.", ()
        claim = "I have received all of it." if row["status"] == "processed" else "I have returned nothing so far."
    elif to_gift_card and draw.chance(0.6):
        row = case.order("delivered", (PLAIN, *case.kept()), method=case.method("paypal"))
        why, asked = "an order paid by PayPal is refunded only to PayPal.", ("items", "payment")
        claim = "I paid with my credit card."
    else:
        kind = draw.pick((ENGRAVED, HYGIENE))
        row = case.order("delivered", (kind, PLAIN)[: draw.between(1, 2)])
        why = NOT_BACK[kind]
    method = card if to_gift_card else method_of(row)
    chosen = row["items"][:1]
    known = return_details(chosen, method)
    return case.deny(opening, [row], why, return_words(chosen, method), known, asked, claim)


def hand_over_broken(case: RetailCase, opening: str) -> Request:
    """Something about an item of a delivered order; it turns out to have arrived broken."""
    row = case.order("delivered")
    item = case.draw.pick(row["items"])
    known = {
        "items": f"It is about {list_items([item])}, which arrived broken.",
        "payment": f"The money should go by {method_of(row)}.",
    }
    must = [row["order_id"][1:], item["name"], BROKEN, f"{RETURN}|{EXCHANGE}"]
    return case.hand_over(opening, [row], "an item arrived broken.", must, known, ("items",))


def _may_go_back(item: dict) -> bool:
    return item["options"].get("finish") != "engraved" and item["name"] not in HYGIENE_NAMES
