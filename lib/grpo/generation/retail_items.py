"""Retail templates about items: change, return, exchange. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.request import DENY, TRANSFER, Request, Step, ask, confirm, look, say, write
from lib.grpo.generation.retail_case import Plan, RetailCase, method_of
from lib.grpo.generation.retail_world import ENGRAVED, HYGIENE, HYGIENE_NAMES, PLAIN, cents, describe, money

CHANGE, EXCHANGE = "modify_pending_order_items", "exchange_delivered_order_items"
NOT_BACK = {ENGRAVED: "engraved items cannot be given back.", HYGIENE: "hygiene articles cannot be given back."}
BROKEN = "An item of my order arrived broken."


def change_items(case: RetailCase, outcome: str) -> Request:
    """Another option of an item in a pending order."""
    opening = case.draw.pick(
        ("I want to change an item of an order.", "I ordered the wrong option of an item, please change it.")
    )
    if outcome == TRANSFER:
        return case.transfer(opening, "pending")
    if outcome == DENY:
        return _deny_swap(case, opening, "pending", (ENGRAVED,))
    return _swap(case, opening, "pending", CHANGE, 1)


def exchange_items(case: RetailCase, outcome: str) -> Request:
    """Items of a delivered order for other options of the same products."""
    opening = case.draw.pick(
        ("I would like to exchange something that I received.", "Something you sent me is not what I wanted.")
    )
    if outcome == TRANSFER:
        if case.draw.chance(0.3):
            return case.hand_over(f"{opening} {BROKEN}", [case.order("delivered")], "an item arrived broken.")
        return case.transfer(opening, "delivered")
    opening += " I want another option."
    if outcome == DENY:
        return _deny_swap(case, opening, "delivered", (ENGRAVED, HYGIENE))
    return _swap(case, opening, "delivered", EXCHANGE, case.draw.between(1, 2) if case.level >= 3 else 1)


def _swap(case: RetailCase, opening: str, status: str, tool: str, count: int) -> Request:
    """Allowed: so many items of an order for other options."""
    draw = case.draw
    row = case.order(status, (case.plain(), *_kept(case), *[PLAIN] * (count - 1)))
    items = [row["items"][0], *row["items"][len(row["items"]) - count + 1 :]]
    picked = [draw.sample(_others(case, item), 2) for item in items]
    own = case.draw.chance(0.5)
    method = method_of(row) if own else case.method("gift_card")
    swaps, others = ([(item, pair[place]) for item, pair in zip(items, picked)] for place in (0, 1))
    details, steps = case.find(row)
    steps += [ask("items"), ask("new_items"), ask("payment"), *_products(items)]
    details |= {
        "items": f"It is about {list_items(items)}.",
        "new_items": _wanted(swaps, "I would like to have"),
        "payment": f"The price difference should go by {method}.",
    }
    thought = None
    if case.changes_mind():
        thought = (_wanted(others, "On second thought, I prefer"), _swap_plan(row, others, method, tool))
    question = "Please tell me the price difference."
    return case.act(opening, steps, details, _swap_plan(row, swaps, method, tool), thought, question)


def _deny_swap(case: RetailCase, opening: str, status: str, kinds: tuple[str, ...]) -> Request:
    draw, claim = case.draw, ""
    kind = draw.pick((*kinds, "payment"))
    refused = case.tools_refuse()
    paid_by = case.method(draw.pick(("credit_card", "paypal")))
    row = case.order(status, (PLAIN if refused or kind == "payment" else kind, *_kept(case)), method=paid_by)
    item = row["items"][0]
    new, method = draw.pick(_others(case, item)), method_of(row)
    asked: tuple[str, ...] = ("items",)
    looks: list[Step] = []
    if refused:
        asked, looks = ("items", "new_items"), _products([item])
        new, why = _unavailable(case, item), "that option is not available."
    elif kind == "payment":
        method, asked = case.other_method(row), ("items", "new_items", "payment")
        why = "the price difference goes by the payment method of the order or a gift card."
        claim = f"I paid that order with {method}."
    else:
        why = "engraved items cannot be changed." if status == "pending" else NOT_BACK[kind]
    known = {
        "items": f"It is about {list_items([item])}.",
        "new_items": _wanted([(item, new)], "I would like to have"),
        "payment": f"The price difference should go by {method}.",
    }
    request = case.deny(opening, [row], why, known, asked, claim)
    request.steps[-1:-1] = looks
    return request


def cheapest_option(case: RetailCase, outcome: str) -> Request:
    """The cheapest available option instead of what was ordered."""
    draw = case.draw
    opening = draw.pick(
        (
            "I ordered something too expensive, I want its cheapest option.",
            "Please give me the cheapest option instead.",
        )
    )
    if outcome == TRANSFER:
        return case.transfer(opening, "pending")
    if outcome == DENY:
        return _deny_cheapest(case, opening)
    row = case.order(kinds=(PLAIN, *_kept(case)))
    item = row["items"][0]
    new = _make_cheapest(case, item)
    chosen, other = draw.sample((method_of(row), case.spent_card()), 2)
    details, steps = case.find(row)
    steps += [ask("items"), ask("payment"), *_products([item])]
    details |= {
        "items": f"It is about {list_items([item])}.",
        "payment": f"The price difference should go to {chosen}.",
    }
    thought = None
    if case.changes_mind():
        thought = (f"On second thought, refund {other}.", _swap_plan(row, [(item, new)], other, CHANGE))
    question = "Please tell me how much I save."
    return case.act(opening, steps, details, _swap_plan(row, [(item, new)], chosen, CHANGE), thought, question)


def _deny_cheapest(case: RetailCase, opening: str) -> Request:
    if case.draw.chance(0.5):
        row = case.order(kinds=(ENGRAVED, *_kept(case)))
        asked, method, why = ("items",), method_of(row), "engraved items cannot be changed."
    else:
        row = case.order(kinds=(PLAIN, *_kept(case)), method=case.method(case.draw.pick(("credit_card", "paypal"))))
        asked, method = ("items", "payment"), case.other_method(row)
        why = "the price difference goes by the payment method of the order or a gift card."
    item = row["items"][0]
    _make_cheapest(case, item)
    known = {
        "items": f"It is about {list_items([item])}.",
        "payment": f"The price difference should go to {method}.",
    }
    return case.deny(opening, [row], why, known, asked)


def _make_cheapest(case: RetailCase, item: dict) -> dict:
    """Make another available option the cheapest; one that is not available may cost even less."""
    variants = case.world.products[item["product_id"]]["variants"].values()
    lowest = min(cents(variant["price"]) for variant in variants)
    new, trap = case.draw.sample(_others(case, item), 2)
    new["price"] = (lowest // 10 * 10 - 100 * case.draw.between(2, 4) + 4) / 100
    trap["price"] = (cents(new["price"]) - 100) / 100
    trap["available"] = False
    return new


def return_items(case: RetailCase, outcome: str) -> Request:
    """Return items of a delivered order."""
    opening = case.draw.pick(
        ("I would like to return something.", "I want to send something back.", "I need to return a purchase.")
    )
    if outcome == TRANSFER:
        return _transfer_return(case, opening)
    if outcome == DENY:
        return _deny_return(case, opening, to_gift_card=case.draw.chance(0.5))
    row = case.order("delivered", (case.plain(), *[PLAIN] * case.draw.between(0, 1), *_kept(case)))
    return return_allowed(case, opening, row, method_of(row))


def return_to_gift_card(case: RetailCase, outcome: str) -> Request:
    """Return items, with the refund to a gift card: possible unless PayPal paid them."""
    opening = case.draw.pick(
        ("I want to return something and have the money on a gift card.", "Please take something back for a gift card.")
    )
    if outcome == TRANSFER:
        return _transfer_return(case, opening)
    if outcome == DENY:
        return _deny_return(case, opening, to_gift_card=True)
    row = case.order("delivered", (PLAIN, *_kept(case)), method=case.method("credit_card"))
    return return_allowed(case, opening, row, case.draw.pick((case.method("gift_card"), case.spent_card())))


def return_allowed(case: RetailCase, opening: str, row: dict, method: str) -> Request:
    """Allowed: some or all of the items that may go back."""
    able = [item for item in row["items"] if _may_go_back(item)]
    chosen = case.draw.sample(able, case.draw.between(1, len(able)))
    details, steps = case.find(row)
    steps += [ask("items"), ask("payment")]
    details |= {"items": f"It is about {list_items(chosen)}.", "payment": f"The refund should go to {method}."}
    thought, left = None, [item for item in able if item not in chosen]
    if case.changes_mind():
        if left:
            thought = (f"Sorry, I keep that. I return {list_items(left)}.", return_plan(row, left, method))
        elif not method_of(row).startswith("paypal") and method != case.spent_card():
            other = case.spent_card()
            thought = (f"Wait, refund {other} instead.", return_plan(row, chosen, other))
    question = "Please tell me how much I get back."
    return case.act(opening, steps, details, return_plan(row, chosen, method), thought, question)


def return_plan(row: dict, items: list[dict], method: str) -> Plan:
    """To return items of an order."""
    name, amount = row["order_id"], money(sum(cents(item["price"]) for item in items))
    return Plan(
        [name[1:], method, *(item["name"] for item in items)],
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


def _transfer_return(case: RetailCase, opening: str) -> Request:
    if case.draw.chance(0.3):
        return case.hand_over(f"{opening} {BROKEN}", [case.order("delivered")], "an item arrived broken.")
    return case.transfer(opening, "delivered")


def _deny_return(case: RetailCase, opening: str, to_gift_card: bool) -> Request:
    """Refused: what never goes back, PayPal's money on a gift card, a second return, money for another card."""
    draw, card, claim = case.draw, case.method("gift_card"), ""
    asked: tuple[str, ...] = ("items",)
    if case.tools_refuse():
        row = case.order(draw.pick(("return requested", "processed")), (PLAIN, PLAIN))
        why, asked = f"the status of the order is {row['status']}.", ()
        claim = "I have received all of it." if row["status"] == "processed" else "I have returned nothing so far."
    elif to_gift_card and draw.chance(0.6):
        row = case.order("delivered", (PLAIN, *_kept(case)), method=case.method("paypal"))
        why, asked = "an order paid by PayPal is refunded only to PayPal.", ("items", "payment")
        claim = "I paid with my credit card."
    else:
        kind = draw.pick((ENGRAVED, HYGIENE))
        row = case.order("delivered", (kind, PLAIN)[: draw.between(1, 2)])
        why = NOT_BACK[kind]
    method = card if to_gift_card else method_of(row)
    known = {"items": f"It is about {list_items(row['items'][:1])}.", "payment": f"The refund should go to {method}."}
    return case.deny(opening, [row], why, known, asked, claim)


def _swap_plan(row: dict, swaps: list[tuple[dict, dict]], method: str, tool: str) -> Plan:
    name = row["order_id"]
    difference = sum(cents(new["price"]) - cents(item["price"]) for item, new in swaps)
    amount = money(abs(difference))
    how = f"{amount} dollars {'to pay' if difference > 0 else 'refunded'}, with {method}"
    what = " and ".join(f"{describe(item)} by {_options(new)}" for item, new in swaps)
    return Plan(
        [name[1:], method, *(value for _, new in swaps for value in new["options"].values())],
        [
            confirm(f"I will replace in order {name}: {what}; {how}."),
            write(
                tool,
                order_id=name,
                item_ids=[item["item_id"] for item, _ in swaps],
                new_item_ids=[new["item_id"] for _, new in swaps],
                payment_method_id=method,
            ),
            say(f"The change has been made: {how}."),
        ],
        amount,
    )


def _kept(case: RetailCase) -> tuple[str, ...]:
    """Kinds of items that stay in an order: none, or one that the rules treat in their own way."""
    return (case.draw.pick((PLAIN, ENGRAVED, HYGIENE)),) if case.level and case.draw.chance(0.4) else ()


def _may_go_back(item: dict) -> bool:
    return item["options"].get("finish") != "engraved" and item["name"] not in HYGIENE_NAMES


def _others(case: RetailCase, item: dict) -> list[dict]:
    """Available variants of an item's product, without its own."""
    variants = case.world.products[item["product_id"]]["variants"].values()
    return [variant for variant in variants if variant["available"] and variant["item_id"] != item["item_id"]]


def _unavailable(case: RetailCase, item: dict) -> dict:
    new = case.draw.pick(_others(case, item))
    new["available"] = False
    return new


def _products(items: list[dict]) -> list[Step]:
    return [look("get_product_details", product_id=item["product_id"]) for item in items]


def _options(variant: dict) -> str:
    return ", ".join(variant["options"].values())


def list_items(items: list[dict]) -> str:
    """Items in the user's words."""
    return " and ".join(f"the {describe(item)}" for item in items)


def _wanted(swaps: list[tuple[dict, dict]], start: str) -> str:
    """The options that the user wants instead."""
    if len(swaps) == 1:
        return f"{start} {_options(swaps[0][1])}."
    return f"{start} " + " and ".join(f"{_options(new)} for the {item['name']}" for item, new in swaps) + "."
