"""Telecom templates about lines, data and bills. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, Step, ask, confirm, look, phone, say, write
from lib.grpo.generation.telecom_case import TelecomCase, assertion, line_assertion
from lib.grpo.generation.telecom_faults import GOALS
from lib.grpo.generation.telecom_words import (
    CHANGE_PLAN,
    DISABLE,
    ENABLE,
    LESS,
    LOOK_UP,
    PAY,
    PRICE,
    REFUEL,
    RESUME,
    ROAMING,
    SUSPEND,
    WITHOUT_PAYMENT,
    also,
    bill_words,
    gigabyte_words,
    line_words,
    month_words,
    refuel_words,
)
from lib.grpo.generation.telecom_world import ENDED, LAST_MONTH, MOST_GB
from lib.grpo.users.phone import PAID
from lib.grpo.worlds.world import ASSISTANT

MOST_MONTHS = 6
SINCE = "2025-02-10"
QUARTER = ("October", "November", "December")


def change_roaming(case: TelecomCase, outcome: str) -> Request:
    """Switch roaming of a line on or off."""
    wanted = case.draw.chance(0.6)
    word, action = ("enable", (ROAMING, *ENABLE)) if wanted else ("disable", (ROAMING, *DISABLE))
    line = case.target(roaming_enabled=not wanted)
    which = case.name_of(line)
    opening = case.draw.pick((f"Please {word} roaming on {which}.", f"I would like to {word} roaming for {which}."))
    details, steps = case.find(line)
    must = [*action, case.words_of(line)]
    if outcome == TRANSFER:
        return case.transfer(opening, details, must)
    if outcome == DENY:
        if case.draw.chance(0.3):
            return case.of_another(f"Please {word} roaming on the line of my sister.", *action)
        line.update(case.draw.pick(({"status": "Closed"}, {"status": "Suspended", "suspension_start_date": SINCE})))
        why = f"the line is {line['status']}, roaming needs an Active line."
        return case.deny(opening, why, details, steps, must=must)

    def rest(row: dict) -> list[Step]:
        return [
            confirm(f"I will {word} roaming on line {row['phone_number']}, free of charge."),
            write(f"{word}_roaming", **_ids(case, row)),
            say(f"Roaming has been {word}d on line {row['phone_number']}."),
        ]

    more = {}
    if case.level >= 4 and case.draw.chance(0.5):
        other = case.new_line(roaming_enabled=not wanted)
        number = other["phone_number"]
        # The other line is looked at before it is changed.
        then = [look("get_details_by_id", id=other["line_id"]), *rest(other)]
        thought = (f"Wait, I meant my other line, the number {number}.", [*action, line_words(other)], then)
        more = {"second_thought": thought, "second_details": {"line": f"It is about the number {number}."}}
    return case.request(opening, ACT, [*steps, *rest(line)], details, must=must, **more)


def refuel(case: TelecomCase, outcome: str) -> Request:
    """More data for a line."""
    draw = case.draw
    line = case.target()
    which = case.name_of(line)
    opening = draw.pick((f"I need more data on {which} this month.", f"Please add some data to {which}."))
    details, steps = case.find(line)
    if outcome == TRANSFER:
        return case.transfer(opening, details, [REFUEL, case.words_of(line)])
    if outcome == DENY:
        amount = draw.pick((2.5, 3, 4, 5))
        details["amount"] = f"I want {amount} GB."
        why = f"at most {MOST_GB} GB can be added."
        must = [REFUEL, gigabyte_words(amount), case.words_of(line)]
        return case.deny(opening, why, details, [*steps, ask("amount")], must=must)
    plan = case.world.plan(line)
    amount, other = draw.sample((0.5, 1.5), 2)
    prices = {gigabytes: str(gigabytes * plan["data_refueling_price_per_gb"]) for gigabytes in (0.5, 1.5)}
    number = line["phone_number"]

    def rest(gigabytes: float) -> list[Step]:
        return [
            confirm(f"I will add {gigabytes} GB to line {number} for {prices[gigabytes]} dollars."),
            write("refuel_data", **_ids(case, line), gb_amount=gigabytes),
            say(f"{gigabytes} GB have been added to line {number} for {prices[gigabytes]} dollars."),
        ]

    more, final = {}, amount
    if case.level >= 4 and draw.chance(0.5):
        final = other
        more = second_amount(f"Sorry, make it {other} GB.", other, case.words_of(line), rest(other))
    filled = line["data_refueling_gb"] + final
    return case.request(
        opening,
        ACT,
        [*steps, ask("amount"), look("get_details_by_id", id=plan["plan_id"]), *rest(amount)],
        {**details, "amount": f"I would like {amount} GB."},
        must=refuel_words(amount, case.words_of(line)),
        communicate=[prices[final]] if case.level >= 3 else [],
        assertions=[line_assertion("assert_data_refueling_amount", case, line, expected_amount=filled)],
        **more,
    )


def second_amount(said: str, gigabytes: float, line: str, steps: list[Step], instead: str = "") -> dict:
    """The fields of a request whose user wants another amount of data in the end; for `instead` see `also`."""
    must = refuel_words(gigabytes, line)
    return {
        "second_thought": (said, also(must, instead) if instead else must, steps),
        "second_details": {"amount": f"I would like {gigabytes} GB."},
    }


def suspend(case: TelecomCase, outcome: str) -> Request:
    """Suspend a line for some months; a lost phone is for humans."""
    draw = case.draw
    line = case.target()
    which = case.name_of(line)
    opening = draw.pick((f"I would like to suspend {which}.", f"Please put {which} on hold."))
    details, steps = case.find(line)
    must = [SUSPEND, case.words_of(line)]
    reason, months = draw.pick(("I am going to travel.", "I do not need it for a while.")), draw.between(2, MOST_MONTHS)
    if outcome == TRANSFER:
        if draw.chance(0.4):
            return case.transfer(opening, details, must)
        reason = draw.pick(("The phone was stolen.", "I lost the SIM card.", "I lost the phone."))
        details["reason"] = reason
        summary = f"Suspension: {reason}"
        return case.request(opening, TRANSFER, [*steps, ask("reason")], details, must=must, summary=summary)
    if outcome == DENY:
        if draw.chance(0.2):
            return case.of_another("Please suspend the line of my husband.", SUSPEND)
        months = draw.between(MOST_MONTHS + 1, 12)
    details |= {"reason": reason, "duration": f"For {months} months."}
    steps += [ask("reason"), ask("duration")]
    must.append(month_words(months))
    if outcome == DENY:
        why = f"a line can be suspended for at most {MOST_MONTHS} months."
        return case.deny(opening, why, details, steps, must=must)
    number = line["phone_number"]
    steps += [
        confirm(f"I will suspend line {number} for {months} months, for 5 dollars a month."),
        write("suspend_line", **_ids(case, line), reason=reason),
        say(f"Line {number} has been suspended."),
    ]
    checks = [line_assertion("assert_line_status", case, line, expected_status="Suspended")]
    return case.request(opening, ACT, steps, details, must=must, assertions=checks)


def resume(case: TelecomCase, outcome: str) -> Request:
    """Resume a line that was suspended at the user's wish."""
    line = case.target(status="Suspended", suspension_start_date=SINCE)
    which = case.name_of(line)
    opening = case.draw.pick((f"I want to use {which} again.", f"Please make {which} active again."))
    details, steps = case.find(line)
    customer_id = case.customer["customer_id"]
    must = [RESUME, case.words_of(line)]
    if outcome == TRANSFER:
        if case.draw.chance(0.3):
            return case.transfer(opening, details, must)
        line["contract_end_date"] = ENDED
        summary = f"The contract of the suspended line {line['line_id']} has ended."
        return case.request(opening, TRANSFER, steps, details, must=must, summary=summary)
    if outcome == DENY and case.draw.chance(0.5):
        line.update(status="Closed", suspension_start_date=None)
        return case.deny(opening, "the line is closed, and a closed line stays closed.", details, steps, must=must)
    steps.append(look("get_bills_for_customer", customer_id=customer_id))
    if outcome == DENY:
        case.bills[LAST_MONTH]["status"] = "Overdue"
        opening += " I do not pay anything for that now."
        must.append(WITHOUT_PAYMENT)
        return case.deny(opening, "an overdue bill has to be paid first.", details, steps, must=must)
    number = line["phone_number"]
    steps += [
        confirm(f"I will resume line {number}, there is no fee for that."),
        write("resume_line", **_ids(case, line)),
    ]
    checks, goal = [line_assertion("assert_line_status", case, line, expected_status="Active")], None
    if line is case.line:
        goal = "service"
        checks += GOALS[goal]
        steps.append(phone(f"Line {number} is now active. Please reboot your phone.", ("reboot_device", {})))
    else:
        steps.append(say(f"Line {number} is now active. Please reboot its device."))
    return case.request(opening, ACT, steps, details, must=must, assertions=checks, goal=goal)


def pay_bill(case: TelecomCase, outcome: str) -> Request:
    """Pay a bill: only an overdue one can be requested, a disputed one is for humans."""
    opening = case.draw.pick(
        ("I want to pay a bill.", "Please let me pay what I owe.", "I would like to settle a bill.")
    )
    month = LAST_MONTH
    if outcome == DENY:
        month = case.draw.pick((LAST_MONTH, "February"))
    bill = case.bills[month]
    denied = "Paid" if month == LAST_MONTH else "Issued"
    bill["status"] = {ACT: "Overdue", DENY: denied, TRANSFER: "Disputed"}[outcome]
    details, steps = _find_bill(case, month)
    name, amount, customer_id = bill["bill_id"], str(bill["total_due"]), case.customer["customer_id"]
    must = [PAY, bill_words(bill)]
    if outcome == TRANSFER:
        return case.request(opening, TRANSFER, steps, details, must=must, summary=f"Bill {name} is disputed.")
    if outcome == DENY:
        why = f"bill {name} is {denied}, only overdue bills can be requested."
        return case.deny(opening, why, details, steps, must=must)
    steps += [
        confirm(f"I will send you a payment request for bill {name} over {amount} dollars."),
        write("send_payment_request", customer_id=customer_id, bill_id=name),
        say(f"I have sent you a payment request over {amount} dollars for bill {name}."),
        phone("Please pay the bill.", ("make_payment", {})),
    ]
    return case.request(
        opening,
        ACT,
        steps,
        details,
        must=[*must, PRICE],
        communicate=[amount] if case.level >= 3 else [],
        goal=PAID + name,
        assertions=[assertion(ASSISTANT, "assert_no_overdue_bill", overdue_bill_id=name)],
    )


def _find_bill(case: TelecomCase, month: str) -> tuple[dict[str, str], list[Step]]:
    """By its id, or by its month."""
    name = case.bills[month]["bill_id"]
    if case.level <= 1 or case.draw.chance(0.4):
        return {"bill": f"It is bill {name}."}, [ask("bill"), look("get_details_by_id", id=name)]
    steps = [ask("bill"), look("get_bills_for_customer", customer_id=case.customer["customer_id"])]
    return {"bill": f"I mean the bill of {month}."}, steps


def bill_total(case: TelecomCase, outcome: str) -> Request:
    """What a bill, or a quarter of bills, came to."""
    draw = case.draw
    opening = draw.pick(("I want to know what some bills came to.", "I need the sum of some bills for my tax papers."))
    if outcome == DENY:
        if draw.chance(0.3):
            return case.of_another("How high are the bills of my neighbour?", LOOK_UP)
        opening = draw.pick(("A charge on my bill is too high, take it off.", "I want a discount on my bill."))
        details, steps = _find_bill(case, draw.pick((LAST_MONTH, "February")))
        return case.deny(opening, "charges are not removed, and there are no discounts.", details, steps, must=[LESS])
    # A sum, so that the answer stands nowhere.
    bills = [case.bills[month] for month in QUARTER]
    names, looks = QUARTER, [look("get_bills_for_customer", customer_id=case.customer["customer_id"])]
    if case.level <= 1:
        names = [bill["bill_id"] for bill in bills]
        looks = [look("get_details_by_id", id=name) for name in names]
    details = {"bill": f"I mean {', '.join(names[:2])} and {names[2]}, all together."}
    if outcome == TRANSFER:
        return case.transfer(opening, details, [LOOK_UP])
    total = sum(bill["total_due"] for bill in bills)
    steps = [ask("bill"), *looks, say(f"The total of the three bills is {total} dollars.")]
    return case.request(opening, ACT, steps, details, must=[LOOK_UP], communicate=[str(total)], inform=True)


def data_left(case: TelecomCase, outcome: str) -> Request:
    """How much data a line has left."""
    line = case.target()
    which = case.name_of(line)
    opening = case.draw.pick((f"How much data is left on {which}?", f"I want to know how much data {which} has left."))
    details, steps = case.find(line)
    if outcome == TRANSFER:
        return case.transfer(opening, details, [LOOK_UP])
    if outcome == DENY:
        return case.of_another("How much data does my daughter have left on her line?", LOOK_UP)
    left = case.world.plan(line)["data_limit_gb"] + line["data_refueling_gb"] - line["data_used_gb"]
    left = str(round(left, 1))
    steps += [
        look("get_data_usage", **_ids(case, line)),
        say(f"Line {line['phone_number']} has {left} GB left."),
    ]
    return case.request(opening, ACT, steps, details, must=[LOOK_UP], communicate=[left], inform=True)


def refuel_price(case: TelecomCase, outcome: str) -> Request:
    """What more data would cost: a question, not an order."""
    draw = case.draw
    line = case.target()
    which = case.name_of(line)
    opening = draw.pick(
        (f"What would more data cost on {which}?", f"I only want to know the price of extra data for {which}.")
    )
    details, steps = case.find(line)
    if outcome == TRANSFER:
        return case.transfer(opening, details, [LOOK_UP])
    if outcome == DENY:
        wish, why = draw.pick(
            (
                (f"I would like to change to a cheaper plan on {which}.", "plans cannot be changed."),
                (f"I want a larger plan for {which}.", "plans cannot be changed."),
                (f"I want a discount on the plan of {which}.", "there are no discounts."),
            )
        )
        must = [LESS if "discount" in wish else CHANGE_PLAN, case.words_of(line)]
        return case.deny(wish, why, details, steps, must=must)
    amount, plan = draw.pick((0.5, 1.5)), case.world.plan(line)
    price = str(amount * plan["data_refueling_price_per_gb"])
    details["amount"] = f"It would be {amount} GB."
    steps += [
        ask("amount"),
        look("get_details_by_id", id=plan["plan_id"]),
        say(f"{amount} GB would cost {price} dollars."),
    ]
    return case.request(opening, ACT, steps, details, must=[LOOK_UP], communicate=[price], inform=True)


def _ids(case: TelecomCase, line: dict) -> dict[str, str]:
    return {"customer_id": case.customer["customer_id"], "line_id": line["line_id"]}
