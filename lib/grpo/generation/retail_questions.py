"""Retail templates that ask something, some with a wish besides. Each is a function (case, outcome) -> Request.

Whoever is refused wants something done too: an answer that should not be given would leave no trace in the database.
"""

from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, ask, look, say
from lib.grpo.generation.retail_case import RetailCase, method_of
from lib.grpo.generation.retail_items import NOT_BACK, list_items, return_plan
from lib.grpo.generation.retail_orders import REASONS, cancel_plan
from lib.grpo.generation.retail_world import ENGRAVED, HYGIENE, PLAIN, cents, money, total


def order_total(case: RetailCase, outcome: str) -> Request:
    """What two orders cost together; or what one cost that is to be cancelled."""
    draw = case.draw
    reason = draw.pick(list(REASONS))
    if outcome == DENY or (outcome == ACT and case.wants_more()):
        opening = draw.pick(
            ("What did my order cost? Please cancel it as well.", "Please cancel an order and tell me what it cost.")
        )
        if outcome == DENY:
            return case.deny_stranger(opening, "pending", {"reason": reason})
        row = case.order()
        details, steps = case.find(row)
        plan = cancel_plan([row], REASONS[reason])
        request = case.act(opening, [*steps, ask("reason")], {**details, "reason": reason}, plan)
        request.communicate = [plan.amount]
        return request
    opening = draw.pick(("How much did I pay for two of my orders together?", "What do two of my orders cost in sum?"))
    rows = [case.order(draw.pick(("pending", "processed", "delivered"))) for _ in range(2)]
    if outcome == TRANSFER:
        need = draw.pick(("I want to hear it from a human.", "I need a company invoice for them."))
        return case.hand_over(f"{opening} {need}", rows, need)
    amount = money(sum(total(row) for row in rows))
    details, steps = case.find(*rows)
    steps.append(say(f"Together the two orders cost {amount} dollars."))
    return Request(opening, ACT, steps, details, communicate=[amount], inform=True)


def refund_amount(case: RetailCase, outcome: str) -> Request:
    """What a return of two of three items would bring, or of one that is returned at once."""
    draw = case.draw
    opening = draw.pick(("How much would I get back if I returned something?", "I want to know what a return brings."))
    if outcome == TRANSFER:
        row = case.order("delivered")
        return case.hand_over(f"{opening} An item arrived broken.", [row], "an item arrived broken.")
    if outcome == DENY or case.wants_more():
        kind = draw.pick((HYGIENE, ENGRAVED)) if outcome == DENY else case.plain()
        row = case.order("delivered", (kind, PLAIN)[: draw.between(1, 2)])
        chosen, method = row["items"][:1], method_of(row)
        opening += " Please start the return right away."
        known = {"items": f"It is about {list_items(chosen)}.", "payment": f"Please refund {method}."}
        if outcome == DENY:
            return case.deny(opening, [row], NOT_BACK[kind], known, ("items",))
        details, steps = case.find(row)
        plan = return_plan(row, chosen, method)
        request = case.act(opening, [*steps, ask("items"), ask("payment")], {**details, **known}, plan)
        request.communicate = [plan.amount]
        return request
    row = case.order("delivered", (PLAIN, case.plain(), PLAIN))
    chosen = draw.sample(row["items"], 2)
    amount = money(sum(cents(item["price"]) for item in chosen))
    details, steps = case.find(row)
    details["items"] = f"It would be {list_items(chosen)}."
    steps += [ask("items"), say(f"For these two items you would get {amount} dollars back.")]
    return Request(f"{opening} Do not start it yet.", ACT, steps, details, communicate=[amount], inform=True)


def tracking_number(case: RetailCase, outcome: str) -> Request:
    """The tracking number of the parcel with a certain item, which may go back."""
    draw = case.draw
    opening = draw.pick(("I need a tracking number.", "How can I track a parcel of yours?"))
    if outcome == TRANSFER:
        return case.hand_over(f"{opening} I believe it got lost.", [case.order("processed")], "the parcel is lost.")
    returns = outcome == DENY or case.wants_more()
    if returns:
        opening += " And I want to return an item of it."
    if outcome == DENY and draw.chance(0.5):
        known = {"items": "It is about the first item.", "payment": "Please refund the method that I used."}
        return case.deny_stranger(opening, "delivered", known)
    kind = draw.pick((HYGIENE, ENGRAVED)) if outcome == DENY else PLAIN
    row = case.order("delivered" if returns else draw.pick(("processed", "delivered")), (kind, PLAIN, PLAIN))
    item = row["items"][0] if outcome == DENY else draw.pick(row["items"])
    parcel = next(one for one in row["fulfillments"] if item["item_id"] in one["item_ids"])
    number = parcel["tracking_id"][0]
    answer = f"The tracking number is {number}."
    known = {"items": f"It is about {list_items([item])}."}
    if returns:
        known["payment"] = f"Please refund {method_of(row)}."
    if outcome == DENY:
        request = case.deny(opening, [row], f"{NOT_BACK[kind]} {answer}", known, ("items",))
    else:
        details, steps = case.find(row)
        details |= known
        steps += [ask(name) for name in known]
        if returns:
            plan = return_plan(row, [item], method_of(row))
            plan.steps[-1] = say(f"The return has been requested. {answer}")
            request = case.act(opening, steps, details, plan)
        else:
            request = Request(opening, ACT, [*steps, say(answer)], details, inform=True)
    request.communicate = [number]
    return request


def count_options(case: RetailCase, outcome: str) -> Request:
    """How many options of a product can be had, and what the dearest of them costs."""
    draw = case.draw
    cancels = outcome == DENY or (outcome == ACT and case.wants_more())
    if cancels:
        opening = draw.pick(
            (
                "How many options of an item are available? And please cancel my order with it.",
                "Please cancel my order, and tell me how many options of the item in it are available.",
            )
        )
        return _count_and_cancel(case, outcome, opening)
    opening = draw.pick(("How many options of an item can I choose from", "In how many options can I buy an item"))
    opening += ", and what does the dearest of those cost?"
    if outcome == TRANSFER:
        need = draw.pick(("I want to talk to a human.", "And mine needs a repair."))
        return Request(f"{opening} {need}", TRANSFER, [], summary=f"Question about products. {need}")
    product, _ = case.world.product()
    prices = _available(product)
    count, price = str(len(prices)), money(max(prices))
    steps = [
        ask("items"),
        look("list_all_product_types"),
        look("get_product_details", product_id=product["product_id"]),
        say(f"There are {count} options available, the dearest costs {price} dollars."),
    ]
    details = {"items": f"It is about the {product['name']}."}
    return Request(opening, ACT, steps, details, communicate=[count, price], inform=True)


def _count_and_cancel(case: RetailCase, outcome: str, opening: str) -> Request:
    reason = case.draw.pick(list(REASONS))
    if outcome == DENY:
        return case.deny_stranger(opening, "pending", {"reason": reason})
    row = case.order(kinds=(PLAIN,))
    product_id = row["items"][0]["product_id"]
    count = str(len(_available(case.world.products[product_id])))
    details, steps = case.find(row)
    plan = cancel_plan([row], REASONS[reason])
    plan.steps.insert(0, look("get_product_details", product_id=product_id))
    plan.steps[-1] = say(f"The order has been cancelled. There are {count} options available.")
    request = case.act(opening, [*steps, ask("reason")], {**details, "reason": reason}, plan)
    request.communicate = [count]
    return request


def _available(product: dict) -> list[int]:
    """Prices of the variants that can be had, in cents."""
    return [cents(variant["price"]) for variant in product["variants"].values() if variant["available"]]
