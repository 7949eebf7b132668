"""Retail templates that ask something, some with a wish besides. Each is a function (case, outcome) -> Request.

Whoever is refused wants something done too: an answer that should not be given would leave no trace in the database.
"""

from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, ask, look, or_human, say
from lib.grpo.generation.retail_case import LOOK_UP, NOT_BACK, RETURN, WANTS_HUMAN, RetailCase, method_of, numbers
from lib.grpo.generation.retail_orders import REASONS, cancel_plan, cancel_words, transfer_cancel
from lib.grpo.generation.retail_returns import (
    hand_over_broken,
    return_details,
    return_plan,
    return_words,
    transfer_return,
)
from lib.grpo.generation.retail_world import ENGRAVED, HYGIENE, PLAIN, cents, list_items, money, total


def order_total(case: RetailCase, outcome: str) -> Request:
    """What two orders cost together; or what one cost that is to be cancelled."""
    draw = case.draw
    reason = draw.pick(list(REASONS))
    if outcome == DENY or case.wants_more():
        opening = draw.pick(
            ("What did my order cost? Please cancel it as well.", "Please cancel an order and tell me what it cost.")
        )
        if outcome == DENY:
            return case.deny_stranger(opening, "pending", cancel_words(reason), {"reason": reason})
        if outcome == TRANSFER:
            return transfer_cancel(case, opening)
        row = case.order()
        details, steps = case.find(row)
        plan = cancel_plan([row], REASONS[reason])
        request = case.act(opening, [*steps, ask("reason")], {**details, "reason": reason}, plan)
        request.communicate = [plan.amount]
        return request
    opening = draw.pick(("How much did I pay for two of my orders together?", "What do two of my orders cost in sum?"))
    rows = [case.order(draw.pick(("pending", "processed", "delivered"))) for _ in range(2)]
    if outcome == TRANSFER:
        need = draw.pick((WANTS_HUMAN[0], "I need a company invoice for them."))
        return case.hand_over_as_told(opening, rows, need)
    amount = money(sum(total(row) for row in rows))
    details, steps = case.find(*rows)
    steps.append(say(f"Together the two orders cost {amount} dollars."))
    must = case.must([*numbers(rows), LOOK_UP])
    return Request(opening, ACT, steps, details, must=must, communicate=[amount], inform=True)


def refund_amount(case: RetailCase, outcome: str) -> Request:
    """What a return of two of three items would bring, or of one that is returned at once."""
    draw = case.draw
    opening = draw.pick(("How much would I get back if I returned something?", "I want to know what a return brings."))
    starts = outcome == DENY or case.wants_more()
    opening += " Please start the return right away." if starts else " Do not start it yet."
    if outcome == TRANSFER and starts and draw.chance(0.5):
        return transfer_return(case, opening)
    if outcome == TRANSFER:
        return hand_over_broken(case, opening)
    if starts:
        kind = draw.pick((HYGIENE, ENGRAVED)) if outcome == DENY else case.plain()
        row = case.order("delivered", (kind, PLAIN)[: draw.between(1, 2)])
        chosen, method = row["items"][:1], method_of(row)
        known = return_details(chosen, method)
        if outcome == DENY:
            return case.deny(opening, [row], NOT_BACK[kind], return_words(chosen, method), known, ("items",))
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
    must = case.must([*numbers([row]), LOOK_UP])
    return Request(opening, ACT, steps, details, must=must, communicate=[amount], inform=True)


def tracking_number(case: RetailCase, outcome: str) -> Request:
    """The tracking number of the parcel with a certain item, which may go back."""
    draw = case.draw
    opening = draw.pick(("I need a tracking number.", "How can I track a parcel of yours?"))
    returns = outcome == DENY or case.wants_more()
    if returns:
        opening += " And I want to return an item of it."
    if outcome == TRANSFER:
        return _transfer_tracking(case, opening, returns)
    if outcome == DENY and draw.chance(0.5):
        known = {"items": "It is about the first item.", "payment": "Please refund the method that I used."}
        return case.deny_stranger(opening, "delivered", [RETURN], known)
    kind = draw.pick((HYGIENE, ENGRAVED)) if outcome == DENY else PLAIN
    row = case.order("delivered" if returns else draw.pick(("processed", "delivered")), (kind, PLAIN, PLAIN))
    item = row["items"][0] if outcome == DENY else draw.pick(row["items"])
    parcel = next(one for one in row["fulfillments"] if item["item_id"] in one["item_ids"])
    number = parcel["tracking_id"][0]
    answer = f"The tracking number is {number}."
    method = method_of(row)
    known = return_details([item], method)
    if not returns:
        known.pop("payment")
    if outcome == DENY:
        why, must = f"{NOT_BACK[kind]} {answer}", return_words([item], method)
        request = case.deny(opening, [row], why, must, known, ("items",))
    else:
        details, steps = case.find(row)
        details |= known
        steps += [ask(name) for name in known]
        if returns:
            plan = return_plan(row, [item], method)
            plan.steps[-1] = say(f"The return has been requested. {answer}")
            request = case.act(opening, steps, details, plan)
        else:
            must = case.must([*numbers([row]), f"track*|{LOOK_UP}"])
            request = Request(opening, ACT, [*steps, say(answer)], details, must=must, inform=True)
    request.communicate = [number]
    return request


def _transfer_tracking(case: RetailCase, opening: str, returns: bool) -> Request:
    if returns:
        return transfer_return(case, opening) if case.draw.chance(0.5) else hand_over_broken(case, opening)
    row = case.order("processed")
    item = row["items"][0]
    known = {"items": f"It is about {list_items([item])}, and I believe that its parcel got lost."}
    return case.hand_over(
        opening, [row], "the parcel is lost.", ["lost|missing", f"track*|parcel*|{LOOK_UP}"], known, ("items",)
    )


def count_options(case: RetailCase, outcome: str) -> Request:
    """How many options of a product can be had, and what the dearest of them costs."""
    draw = case.draw
    if outcome == DENY or case.wants_more():
        opening = draw.pick(
            (
                "How many options of an item are available? And please cancel my order with it.",
                "Please cancel my order, and tell me how many options of the item in it are available.",
            )
        )
        return _count_and_cancel(case, outcome, opening)
    opening = draw.pick(("How many options of an item can I choose from", "In how many options can I buy an item"))
    opening += ", and what does the dearest of those cost?"
    product, _ = case.world.product()
    details = {"items": f"It is about the {product['name']}."}
    if outcome == TRANSFER:
        need = draw.pick((WANTS_HUMAN[0], "And mine needs a repair."))
        details["items"] += f" {need}"
        summary = f"Question about the {product['name']}. {need}"
        return Request(
            opening, TRANSFER, [ask("items")], details, must=or_human([product["name"], "repair*"]), summary=summary
        )
    prices = _available(product)
    count, price = str(len(prices)), money(max(prices))
    steps = [
        ask("items"),
        look("list_all_product_types"),
        look("get_product_details", product_id=product["product_id"]),
        say(f"There are {count} options available, the dearest costs {price} dollars."),
    ]
    must = [product["name"], LOOK_UP]
    return Request(opening, ACT, steps, details, must=must, communicate=[count, price], inform=True)


def _count_and_cancel(case: RetailCase, outcome: str, opening: str) -> Request:
    reason = case.draw.pick(list(REASONS))
    if outcome == DENY:
        return case.deny_stranger(opening, "pending", cancel_words(reason), {"reason": reason})
    if outcome == TRANSFER:
        return transfer_cancel(case, opening)
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
