"""Telecom templates about trouble on the phone. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, Step, ask, confirm, look, phone, say, write
from lib.grpo.generation.telecom_account import second_amount
from lib.grpo.generation.telecom_case import TelecomCase, assertion, line_assertion
from lib.grpo.generation.telecom_faults import FAULTS, GOALS, HARMLESS, VPN, draw_faults, look_at, repair
from lib.grpo.generation.telecom_words import (
    ENABLE,
    GUIDE,
    PAY,
    PRICE,
    REFUEL,
    RESUME,
    ROAMING,
    WITHOUT_PAYMENT,
    also,
    gigabyte_words,
    refuel_words,
)
from lib.grpo.generation.telecom_world import ENDED, LAST_MONTH, MOST_GB
from lib.grpo.users.phone import check_of
from lib.grpo.worlds.world import ASSISTANT

COUNTRIES = ("France", "Japan", "Brazil", "Kenya", "Italy", "Canada")
VERIFY = {
    "service": "Please check the status bar.",
    "data": "Please run a speed test.",
    "speed": "Please run a speed test.",
    "mms": "Please try to send a picture message.",
}
REFUSES = "I am not going to pay that bill now. Just lift the suspension."


def no_service(case: TelecomCase, outcome: str) -> Request:
    """Airplane mode, SIM card or APN settings."""
    opening = case.draw.pick(
        ("My phone has no service.", "I cannot make calls, there is no signal.", "My phone shows no network at all.")
    )
    return _trouble(case, outcome, opening, "service", ("airplane", "sim", "apn"), ())


def no_data(case: TelecomCase, outcome: str) -> Request:
    """Mobile data or what it needs is off."""
    opening = case.draw.pick(
        (
            "My mobile internet does not work.",
            "I cannot open any page on my phone.",
            "The internet on my phone is dead.",
        )
    )
    return _trouble(case, outcome, opening, "data", ("data_off", "airplane"), ("sim", "apn", "roaming_off"))


def slow_data(case: TelecomCase, outcome: str) -> Request:
    """Data saver, an old network, a poor VPN."""
    opening = case.draw.pick(
        (
            "My mobile internet does not work well, I want an excellent speed again.",
            "Videos do not play on my phone. I want the internet to be really fast.",
        )
    )
    own = ("saver", "mode_3g", "mode_2g", "vpn")
    return _trouble(case, outcome, opening, "speed", own, ("data_off", "sim", "roaming_off"))


def picture_messages(case: TelecomCase, outcome: str) -> Request:
    """Permissions of the messaging app, or Wi-Fi calling."""
    own = ("sms", "storage", "calling")
    return _trouble(case, outcome, _no_pictures(case), "mms", own, ("data_off", "mode_2g", "airplane", "roaming_off"))


def picture_settings(case: TelecomCase, outcome: str) -> Request:
    """The address of the message service is gone."""
    own, more = ("mmsc",), ("data_off", "mode_2g", "sim", "roaming_off")
    return _trouble(case, outcome, _no_pictures(case), "mms", own, more)


def _no_pictures(case: TelecomCase) -> str:
    return case.draw.pick(
        ("I cannot send picture messages.", "My photos do not go out as MMS.", "Sending a photo by message fails.")
    )


def _trouble(
    case: TelecomCase, outcome: str, opening: str, goal: str, own: tuple[str, ...], more: tuple[str, ...]
) -> Request:
    """Faults of the phone alone: one up to level 2, at level 4 two to four."""
    if outcome != ACT:
        return _hopeless(case, outcome, opening, goal)
    draw = case.draw
    count = 1 if case.level < 3 else draw.between(1, 2) if case.level == 3 else draw.between(2, 4)
    names = draw_faults(draw, own, more, count)
    abroad = "roaming_off" in names
    case.line["roaming_enabled"] = abroad
    details, steps = _first_look(case, goal, abroad)
    details |= _told(case, " ".join(FAULTS[name].told for name in names))
    steps += repair(draw, goal, names, told=case.level == 0)
    return _request(case, opening, goal, details, steps, names, abroad, must=[GUIDE])


def roaming_abroad(case: TelecomCase, outcome: str) -> Request:
    """Roaming is off on the line, on the phone, or on both."""
    draw = case.draw
    opening = draw.pick(
        ("I have no internet on my phone.", "Since my plane landed my mobile data does not work.", "My data is dead.")
    )
    if outcome != ACT:
        return _hopeless(case, outcome, opening, "data")
    line = case.line
    line["roaming_enabled"] = draw.chance(0.35)
    blocked = not line["roaming_enabled"]
    names = ["roaming_off"] if not blocked or draw.chance(0.5) else []
    if case.level >= 4:
        names += draw_faults(draw, ("data_off", "airplane", "sim"), (), draw.between(1, 2))
    details, steps = _first_look(case, "data", abroad=True)
    told = [*(FAULTS[name].told for name in names), *(["My line is not enabled for roaming."] if blocked else [])]
    details |= _told(case, " ".join(told))
    if blocked:
        steps += [
            confirm(f"I will enable roaming for line {line['phone_number']}, free of charge."),
            write("enable_roaming", **_ids(case)),
        ]
        if not names:
            steps.append(_verify("data", "I have enabled roaming for your line."))
    start = () if "roaming_off" in names else (("turn_roaming_on", {}),)
    if names:
        steps += repair(draw, "data", names, told=case.level == 0)
    must = also([ROAMING, *ENABLE, case.words_of(line)] if blocked else [], GUIDE)
    return _request(case, opening, "data", details, steps, names, True, start=start, must=must)


def data_used_up(case: TelecomCase, outcome: str) -> Request:
    """The line has no data left: refuel."""
    draw, line = case.draw, case.line
    opening = draw.pick(
        ("My mobile internet stopped working.", "There is no internet on my phone any more.", "Mobile data is gone.")
    )
    if outcome == TRANSFER:
        return _hopeless(case, outcome, opening, "data")
    if outcome == DENY:
        return _too_much(case, opening)
    names = []
    if case.level >= 4:
        names = draw_faults(draw, ("data_off", "airplane", "sim"), (), draw.between(1, 3))
    plan = case.world.plan(line)
    _use_up(case)
    details, steps = _first_look(case, "data")
    amount, other = draw.sample((0.5, 1.5), 2)
    details |= {"amount": f"Please add {amount} GB."}

    def rest(gigabytes: float) -> list[Step]:
        price = gigabytes * plan["data_refueling_price_per_gb"]
        return [
            confirm(f"I will add {gigabytes} GB to line {line['phone_number']} for {price} dollars."),
            write("refuel_data", **_ids(case), gb_amount=gigabytes),
            say(f"I have added {gigabytes} GB to your line for {price} dollars. {VERIFY['data']}"),
            *(repair(draw, "data", names, told=False) if names else []),
        ]

    thought, final, words = {}, amount, case.words_of(line)
    if case.level >= 4 and draw.chance(0.5):
        final = other
        thought = second_amount(f"On second thought, {other} GB is better.", other, words, rest(other), GUIDE)
    steps += [ask("amount"), look("get_details_by_id", id=plan["plan_id"]), *rest(amount)]
    filled = line["data_refueling_gb"] + final
    more = {
        "must": also(refuel_words(amount, words), GUIDE),
        **thought,
        "communicate": [str(final * plan["data_refueling_price_per_gb"])] if case.level >= 3 else [],
        "assertions": [line_assertion("assert_data_refueling_amount", case, line, expected_amount=filled)],
    }
    return _request(case, opening, "data", details, steps, names, **more)


def suspended(case: TelecomCase, outcome: str) -> Request:
    """The line is suspended for an unpaid bill: payment request, payment, resume, reboot."""
    draw, line = case.draw, case.line
    opening = draw.pick(
        ("My phone has no service any more.", "I cannot call anybody, there is no network.", "My phone is dead silent.")
    )
    if outcome == TRANSFER:
        return _hopeless(case, outcome, opening, "service")
    bill = case.bills[LAST_MONTH]
    bill["status"] = "Overdue"
    line.update(status="Suspended", suspension_start_date="2025-02-10")
    details, steps = _first_look(case, "service")
    steps.append(look("get_bills_for_customer", customer_id=case.customer["customer_id"]))
    if outcome == DENY:
        # Without a goal: this user does not touch the phone, least of all to pay.
        opening = f"My line was suspended because of a bill. {REFUSES}"
        must = [RESUME, WITHOUT_PAYMENT]
        return case.deny(opening, "the bill has to be paid first.", details, steps, must=must)
    names = draw_faults(draw, ("airplane", "sim", "apn"), (), draw.between(1, 2)) if case.level >= 4 else []
    opening += " I have paid all my bills." if case.level >= 4 and draw.chance(0.6) else ""
    details |= _told(case, f"I know that bill {bill['bill_id']} is overdue, and I am ready to pay it.")
    steps += _pay_and_resume(case, bill)
    resumed = "I have resumed your line. Please reboot your phone."
    if names:
        # The repairs will search the network, too: this reboot is no part of the gold.
        steps += [say(resumed), *repair(draw, "service", names, told=False)]
    else:
        steps.append(phone(resumed, ("reboot_device", {})))
    assertions = [
        assertion(ASSISTANT, "assert_no_overdue_bill", overdue_bill_id=bill["bill_id"]),
        line_assertion("assert_line_status", case, line, expected_status="Active"),
    ]
    amount = [str(bill["total_due"])] if case.level >= 3 else []
    # Paying and resuming may be asked about at once or one after the other.
    more = {"must": also([PAY, PRICE], f"{RESUME}|{GUIDE}"), "communicate": amount, "assertions": assertions}
    return _request(case, opening, "service", details, steps, names, **more)


def _pay_and_resume(case: TelecomCase, bill: dict) -> list[Step]:
    name, amount = bill["bill_id"], bill["total_due"]
    return [
        confirm(
            f"Bill {name} over {amount} dollars is overdue, so your line is suspended. I will send a payment request "
            "for it and, once it is paid, resume the line."
        ),
        write("send_payment_request", customer_id=case.customer["customer_id"], bill_id=name),
        say(f"I have sent you a payment request over {amount} dollars for bill {name}."),
        phone("Please pay the bill.", ("make_payment", {})),
        look("get_details_by_id", id=name),
        write("resume_line", **_ids(case)),
    ]


# What the templates share.


def _request(
    case: TelecomCase,
    opening: str,
    goal: str,
    details: dict,
    steps: list[Step],
    names: list[str],
    abroad: bool = False,
    start: tuple = (),
    assertions: tuple | list = (),
    **more,
) -> Request:
    """A trouble that is repaired: faults made, and sometimes something odd that has to stay as it is."""
    calls = [("set_user_location", {"abroad": True})] if abroad else []
    # Often, or somebody who has everything repaired without a look would be right by chance.
    if case.draw.chance(0.85):
        calls += case.draw.sample([call for call in HARMLESS[goal] if call != VPN or "vpn" not in names], 2)
    calls += [*start, *(FAULTS[name].start for name in names)]
    checks = [*GOALS[goal], *assertions]
    return case.request(opening, ACT, steps, details, start=calls, goal=goal, assertions=checks, **more)


def _first_look(case: TelecomCase, goal: str, abroad: bool = False) -> tuple[dict[str, str], list[Step]]:
    """The line; for data also its usage and where the user is."""
    details, steps = case.find(case.line)
    details["location"] = f"I am abroad, in {case.draw.pick(COUNTRIES)}." if abroad else "I am at home."
    if goal != "service":
        steps += [look("get_data_usage", **_ids(case)), ask("location")]
    return details, steps


def _ids(case: TelecomCase) -> dict[str, str]:
    return {"customer_id": case.customer["customer_id"], "line_id": case.line["line_id"]}


def _told(case: TelecomCase, text: str) -> dict[str, str]:
    """At level 0 the user says what is wrong."""
    return {"issue": text} if case.level == 0 else {}


def _verify(goal: str, text: str) -> Step:
    return phone(f"{text} {VERIFY[goal]}", (check_of(goal).name, {}))


def _use_up(case: TelecomCase) -> None:
    line = case.line
    limit = case.world.plan(line)["data_limit_gb"]
    line["data_used_gb"] = limit + line["data_refueling_gb"] + case.draw.between(0, 3) / 10


def _too_much(case: TelecomCase, opening: str) -> Request:
    """No data left, and the user wants more than the rules allow."""
    _use_up(case)
    amount = case.draw.pick((2.5, 3, 4, 5))
    details, steps = _first_look(case, "data")
    details["amount"] = f"I want {amount} GB more, not less."
    why = f"at most {MOST_GB} GB can be added."
    # A summary with less is not what this user wants.
    must = also([REFUEL, gigabyte_words(amount)], GUIDE)
    return case.deny(opening, why, details, [*steps, ask("amount")], must=must, goal="data")


def _hopeless(case: TelecomCase, outcome: str, opening: str, goal: str) -> Request:
    """The same complaint, but the rules refuse it or leave it to a human."""
    draw, line, must = case.draw, case.line, [f"{RESUME}|{GUIDE}"]
    if outcome == DENY:
        if goal != "service" and draw.chance(0.6):
            return _too_much(case, opening)
        line["status"] = "Closed"
        details, steps = _first_look(case, "service")
        why = "the line is closed, and a closed line stays closed."
        return case.deny(opening, why, details, steps, goal=goal, must=must)
    kind = draw.pick(("locked", "locked", "ended", "asks"))
    details, steps = _first_look(case, goal if kind == "locked" else "service")
    if kind == "asks":
        return case.transfer(opening, details, must)
    if kind == "ended":
        line.update(status="Suspended", contract_end_date=ENDED, suspension_start_date="2025-02-10")
        summary = f"The contract of the suspended line {line['line_id']} has ended."
        return case.request(opening, TRANSFER, steps, details, goal=goal, must=must, summary=summary)
    code = draw.pick(("pin", "puk"))
    steps.append(look_at(draw, "network"))
    details["issue"] = f"My phone asks for a {code.upper()} code that I do not have."
    start = [("lock_sim_card", {"mode": code})]
    more = {"must": must, "summary": "The SIM card is locked."}
    return case.request(opening, TRANSFER, steps, details, start=start, goal=goal, **more)
