"""Retail templates about other options of items: change, exchange. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.request import DENY, TRANSFER, Request, Step, ask, confirm, look, say, write
from lib.grpo.generation.retail_case import CHANGE, EXCHANGE, NOT_BACK, Plan, RetailCase, Thought, method_of
from lib.grpo.generation.retail_returns import hand_over_broken
from lib.grpo.generation.retail_world import ENGRAVED, HYGIENE, PLAIN, cents, describe, list_items, money

# The order's status -> the tool for other options, and what a summary calls that.
SWAPS = {
    "pending": ("modify_pending_order_items", CHANGE),
    "delivered": ("exchange_delivered_order_items", EXCHANGE),
}
DIFFERENCE = "Please tell me the price difference."


def change_items(case: RetailCase, outcome: str) -> Request:
    """Another option of an item in a pending order."""
    opening = case.draw.pick(
        ("I want to change an item of an order.", "I ordered the wrong option of an item, please change it.")
    )
    opening = case.asks(opening, DIFFERENCE)
    if outcome == TRANSFER:
        return _transfer_swap(case, opening, "pending")
    if outcome == DENY:
        return _deny_swap(case, opening, "pending", (ENGRAVED,))
    return _swap(case, opening, "pending", 1)


def exchange_items(case: RetailCase, outcome: str) -> Request:
    """Items of a delivered order for other options of the same products."""
    opening = case.draw.pick(
        ("I would like to exchange something that I received.", "Something you sent me is not what I wanted.")
    )
    opening = case.asks(f"{opening} I want another option.", DIFFERENCE)
    if outcome == TRANSFER:
        if case.draw.chance(0.3):
            return hand_over_broken(case, opening)
        return _transfer_swap(case, opening, "delivered")
    if outcome == DENY:
        return _deny_swap(case, opening, "delivered", (ENGRAVED, HYGIENE))
    return _swap(case, opening, "delivered", case.draw.between(1, 2) if case.level >= 3 else 1)


def _transfer_swap(case: RetailCase, opening: str, status: str) -> Request:
    def wish(row: dict) -> tuple[list[str], dict[str, str]]:
        item = row["items"][0]
        known = _swap_details([(item, case.draw.pick(_others(case, item)))], method_of(row))
        return [item["name"], SWAPS[status][1]], known

    return case.transfer(opening, status, wish)


def _swap_details(swaps: list[tuple[dict, dict]], method: str) -> dict[str, str]:
    return {
        "items": f"It is about {list_items([item for item, _ in swaps])}.",
        "new_items": _wanted(swaps, "I would like to have"),
        "payment": f"The price difference should go by {method}.",
    }


def _swap(case: RetailCase, opening: str, status: str, count: int) -> Request:
    """Allowed: so many items of an order for other options."""
    draw = case.draw
    row = case.order(status, (case.plain(), *case.kept(), *[PLAIN] * (count - 1)))
    items = [row["items"][0], *row["items"][len(row["items"]) - count + 1 :]]
    picked = [draw.sample(_others(case, item), 2) for item in items]
    own = case.draw.chance(0.5)
    method = method_of(row) if own else case.method("gift_card")
    swaps, others = ([(item, pair[place]) for item, pair in zip(items, picked)] for place in (0, 1))
    details, steps = case.find(row)
    steps += [ask("items"), ask("new_items"), ask("payment"), *_products(items)]
    details |= _swap_details(swaps, method)
    thought = None
    if case.changes_mind():
        said, plan = _wanted(others, "On second thought, I prefer"), _swap_plan(row, others, method, status)
        thought = Thought(said, plan, {"new_items": _wanted(others, "I would like to have")})
    return case.act(opening, steps, details, _swap_plan(row, swaps, method, status), thought)


def _deny_swap(case: RetailCase, opening: str, status: str, kinds: tuple[str, ...]) -> Request:
    draw, claim = case.draw, ""
    kind = draw.pick((*kinds, "payment"))
    refused = case.tools_refuse()
    paid_by = case.method(draw.pick(("credit_card", "paypal")))
    row = case.order(status, (PLAIN if refused or kind == "payment" else kind, *case.kept()), method=paid_by)
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
    must = [method, *new["options"].values(), SWAPS[status][1]]
    request = case.deny(opening, [row], why, must, _swap_details([(item, new)], method), asked, claim)
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
    opening = case.asks(opening, "Please tell me how much I save.")
    if outcome == TRANSFER:
        return _transfer_cheapest(case, opening)
    if outcome == DENY:
        return _deny_cheapest(case, opening)
    row = case.order(kinds=(PLAIN, *case.kept()))
    item = row["items"][0]
    new = _make_cheapest(case, item)
    chosen, other = draw.sample((method_of(row), case.spent_card()), 2)
    details, steps = case.find(row)
    steps += [ask("items"), ask("payment"), *_products([item])]
    details |= _cheapest_details(item, chosen)
    thought = None
    if case.changes_mind():
        plan = _swap_plan(row, [(item, new)], other, "pending")
        known = {"payment": _cheapest_details(item, other)["payment"]}
        thought = Thought(f"On second thought, refund {other}.", plan, known)
    return case.act(opening, steps, details, _swap_plan(row, [(item, new)], chosen, "pending"), thought)


def _cheapest_details(item: dict, method: str) -> dict[str, str]:
    return {
        "items": f"It is about {list_items([item])}.",
        "payment": f"The price difference should go to {method}.",
    }


def _transfer_cheapest(case: RetailCase, opening: str) -> Request:
    def wish(row: dict) -> tuple[list[str], dict[str, str]]:
        item = row["items"][0]
        _make_cheapest(case, item)
        return [item["name"], CHANGE], _cheapest_details(item, method_of(row))

    return case.transfer(opening, "pending", wish)


def _deny_cheapest(case: RetailCase, opening: str) -> Request:
    if case.draw.chance(0.5):
        row = case.order(kinds=(ENGRAVED, *case.kept()))
        asked, method, why = ("items",), method_of(row), "engraved items cannot be changed."
    else:
        row = case.order(kinds=(PLAIN, *case.kept()), method=case.method(case.draw.pick(("credit_card", "paypal"))))
        asked, method = ("items", "payment"), case.other_method(row)
        why = "the price difference goes by the payment method of the order or a gift card."
    item = row["items"][0]
    new = _make_cheapest(case, item)
    must = [method, *new["options"].values(), CHANGE]
    return case.deny(opening, [row], why, must, _cheapest_details(item, method), asked)


def _make_cheapest(case: RetailCase, item: dict) -> dict:
    """Make another available option the cheapest; one that is not available may cost even less."""
    variants = case.world.products[item["product_id"]]["variants"].values()
    lowest = min(cents(variant["price"]) for variant in variants)
    new, trap = case.draw.sample(_others(case, item), 2)
    new["price"] = (lowest // 10 * 10 - 100 * case.draw.between(2, 4) + 4) / 100
    trap["price"] = (cents(new["price"]) - 100) / 100
    trap["available"] = False
    return new


def _swap_plan(row: dict, swaps: list[tuple[dict, dict]], method: str, status: str) -> Plan:
    name = row["order_id"]
    tool, action = SWAPS[status]
    difference = sum(cents(new["price"]) - cents(item["price"]) for item, new in swaps)
    amount = money(abs(difference))
    how = f"{amount} dollars {'to pay' if difference > 0 else 'refunded'}, with {method}"
    what = " and ".join(f"{describe(item)} by {_options(new)}" for item, new in swaps)
    return Plan(
        [name[1:], method, *(value for _, new in swaps for value in new["options"].values()), action],
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


def _wanted(swaps: list[tuple[dict, dict]], start: str) -> str:
    """The options that the user wants instead."""
    if len(swaps) == 1:
        return f"{start} {_options(swaps[0][1])}."
    return f"{start} " + " and ".join(f"{_options(new)} for the {item['name']}" for item, new in swaps) + "."
