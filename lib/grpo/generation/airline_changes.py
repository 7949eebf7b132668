"""Airline templates that change or cancel a reservation. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.airline_case import ADD, BOOK, CANCEL, CHANGE, REMOVE, AirlineCase, full_name, paid, route_of
from lib.grpo.generation.airline_world import date
from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, ask, confirm, say, write
from lib.grpo.generation.request import look as look_up

FLOWN = "a flight of it has already been flown."
BAGS = "bag*|luggage|suitcase*"
HOW_MUCH_BACK = "Please tell me how much I get back."
DIFFERENCE = "I want to know the price difference."
ONLY = "only|just|single|one"


def cancel_plans(case: AirlineCase, outcome: str) -> Request:
    """Change of plan: allowed for business class or within 24 hours."""
    opening = case.draw.pick(
        ("I want to cancel a trip.", "Please cancel one of my bookings.", "I have to cancel a reservation.")
    )
    opening = case.asks(opening, HOW_MUCH_BACK)
    reason = case.draw.pick(("My plans changed.", "I do not need to travel any more.", "My meeting was called off."))
    if outcome == TRANSFER:
        row = case.trip(cabin="business", flown=True)
        return case.transfer(opening, row, FLOWN, (CANCEL,), {"reason": reason})
    if outcome == DENY:
        row = case.trip(cabin=case.draw.pick(("economy", "basic_economy")), hours_ago=case.draw.between(30, 300))
        why = "it was booked more than 24 hours ago, is not in business class, and a change of plan is not covered."
        return case.deny(opening, row, why, (CANCEL,), {"reason": reason})
    fresh = case.draw.chance(0.5)
    row = case.trip(cabin="economy", hours_ago=case.draw.between(1, 20)) if fresh else case.trip(cabin="business")
    return _cancel(case, row, opening, reason)


def cancel_sick(case: AirlineCase, outcome: str) -> Request:
    """Health or weather: allowed with insurance."""
    opening = case.draw.pick(
        ("I need to cancel my flight.", "Please cancel a reservation of mine.", "I cannot make my trip.")
    )
    opening = case.asks(opening, HOW_MUCH_BACK)
    reason = case.draw.pick(("I am ill and must not fly.", "I broke my leg.", "There is a storm where I want to go."))
    if outcome == TRANSFER:
        row = case.trip(flown=True, insurance=True)
        return case.transfer(opening, row, FLOWN, (CANCEL,), {"reason": reason})
    row = case.trip(cabin=case.draw.pick(("economy", "basic_economy")), insurance=outcome == ACT)
    if outcome == DENY:
        why = "it has no insurance, which would cover that reason."
        return case.deny(opening, row, why, (CANCEL,), {"reason": reason})
    return _cancel(case, row, opening, reason)


def cancel_after_airline(case: AirlineCase, outcome: str) -> Request:
    """The user says that the airline cancelled a flight: allowed if it did."""
    opening = case.draw.pick(
        ("The airline cancelled my flight, so I want to cancel the booking.", "Please cancel my trip.")
    )
    opening = case.asks(opening, HOW_MUCH_BACK)
    reason = "The airline cancelled the flight."
    if outcome == TRANSFER:
        return case.transfer(opening, case.trip(flown=True), FLOWN, (CANCEL,), {"reason": reason})
    row = case.trip(status="cancelled" if outcome == ACT else "on time")
    flight = row["flights"][0]
    check = look_up("get_flight_status", flight_number=flight["flight_number"], date=flight["date"])
    if outcome == DENY:
        why = "the flight is on time, and no other rule allows it."
        request = case.deny(opening, row, why, (CANCEL,), {"reason": reason})
        request.steps.insert(-1, check)
        return request
    request = _cancel(case, row, opening, reason)
    request.steps.insert(next(i for i, step in enumerate(request.steps) if step.kind == "confirm"), check)
    return request


def _cancel(case: AirlineCase, row: dict, opening: str, reason: str) -> Request:
    details, steps = case.find(row)
    refund = str(paid(row))
    name = row["reservation_id"]
    steps += [
        ask("reason"),
        confirm(f"I will cancel reservation {name} ({route_of(row)}) and refund {refund} dollars."),
        write("cancel_reservation", reservation_id=name),
        say(f"Reservation {name} has been cancelled, {refund} dollars will be refunded."),
    ]
    return Request(
        opening,
        ACT,
        steps,
        {**details, "reason": reason},
        must=case.must(row, CANCEL),
        communicate=[refund] if case.level >= 3 else [],
    )


def upgrade(case: AirlineCase, outcome: str) -> Request:
    """All flights and passengers into a higher class."""
    opening = case.draw.pick(("I would like to travel in a better class.", "Please upgrade my trip."))
    opening = case.asks(opening, DIFFERENCE)
    if outcome == TRANSFER:
        return _cabin_by_human(case, case.trip(flown=True), "business", opening)
    cabin = case.draw.pick(("economy", "basic_economy"))
    if outcome == DENY:
        row = case.trip(cabin=cabin, passengers=2, days=(18, 25))
        part = case.draw.pick(("the first flight", "one of the two passengers"))
        return _cabin_of_part(case, row, "business", part, opening)
    row = case.trip(cabin=cabin, passengers=case.draw.between(1, 3))
    return _change_cabin(case, row, "business", opening)


def downgrade(case: AirlineCase, outcome: str) -> Request:
    """Business to economy, with a refund."""
    opening = case.draw.pick(
        ("My trip is too expensive for me, I want a cheaper class.", "I would like to travel in a cheaper class.")
    )
    opening = case.asks(opening, DIFFERENCE)
    if outcome == TRANSFER:
        return _cabin_by_human(case, case.trip(cabin="business", flown=True), "economy", opening)
    if outcome == DENY:
        row = case.trip(cabin="business", passengers=2, days=(19, 26))
        return _cabin_of_part(case, row, "economy", "the way back", opening)
    return _change_cabin(case, case.trip(cabin="business", passengers=case.draw.between(1, 3)), "economy", opening)


def _cabin_by_human(case: AirlineCase, row: dict, cabin: str, opening: str) -> Request:
    details = {"cabin": f"{cabin.capitalize()}, please.", "payment": f"Please use {case.method('credit_card')}."}
    return case.transfer(opening, row, FLOWN, (cabin, CHANGE), details)


def _cabin_of_part(case: AirlineCase, row: dict, cabin: str, part: str, opening: str) -> Request:
    details = {
        "cabin": f"{cabin.capitalize()}, but only for {part}.",
        "payment": f"Please use {case.method('credit_card')}.",
    }
    why = "the class can only change for all flights and passengers at once."
    return case.deny(opening, row, why, (cabin, CHANGE, ONLY), details, ("cabin",))


def _change_cabin(case: AirlineCase, row: dict, cabin: str, opening: str) -> Request:
    flights = [(case.world.flights[segment["flight_number"]], segment["date"]) for segment in row["flights"]]
    prices = [flight["dates"][day]["prices"][cabin] for flight, day in flights]
    difference = (sum(prices) - sum(segment["price"] for segment in row["flights"])) * len(row["passengers"])
    details, steps = case.find(row)
    method = case.method("gift_card" if case.draw.chance(0.5) else "credit_card")
    other = case.method("credit_card" if method.startswith("gift") else "gift_card")
    name, money = row["reservation_id"], _to_pay(difference)
    arguments = {"flights": [{"flight_number": f["flight_number"], "date": day} for f, day in flights]}
    looks = [
        look_up("search_direct_flight", origin=f["origin"], destination=f["destination"], date=day)
        for f, day in flights
    ]

    def rest(payment: str) -> list:
        return [
            confirm(f"I will change reservation {name} to {cabin} for all flights, {money}, with {payment}."),
            write("update_reservation_flights", reservation_id=name, cabin=cabin, **arguments, payment_id=payment),
            say(f"Reservation {name} has been changed to {cabin}: {money}."),
        ]

    request = Request(
        opening,
        ACT,
        [*steps, ask("cabin"), ask("payment"), *looks, *rest(method)],
        {**details, "cabin": f"{cabin.capitalize()}, please.", "payment": f"Please use {method}."},
        must=case.must(row, cabin, method, CHANGE),
        communicate=[str(abs(difference))] if case.level >= 3 else [],
    )
    if case.level >= 4 and case.draw.chance(0.5):
        request.second_thought = (f"Wait, use {other} instead.", case.must(row, cabin, other, CHANGE), rest(other))
        request.second_details = {"payment": f"Please use {other}."}
    return request


def change_date(case: AirlineCase, outcome: str) -> Request:
    """A flight a day or two later."""
    opening = case.draw.pick(
        ("I would like to fly on another day.", "Please move a flight of my trip to a later date.")
    )
    method = case.method("gift_card")
    known = {"date": "", "payment": f"Please use {method}."}
    if outcome == TRANSFER:
        row = case.trip(flown=True)
        new = date(int(row["flights"][-1]["date"][-2:]) + 1)
        known["date"] = f"The flight back should be on {new}."
        return case.transfer(opening, row, FLOWN, (new, CHANGE), known)
    cabin = "basic_economy" if outcome == DENY else case.draw.pick(("economy", "business"))
    row = case.trip(cabin=cabin, passengers=case.draw.between(1, 2))
    old_day = int(row["flights"][0]["date"][-2:])
    chosen, other = (date(day) for day in case.draw.sample((old_day + 1, old_day + 2), 2))
    known["date"] = f"The first flight should be on {chosen}."
    if outcome == DENY:
        return case.deny(opening, row, "basic economy flights cannot be changed.", (chosen, CHANGE), known, ())
    details, steps = case.find(row)
    request = Request(
        opening,
        ACT,
        [*steps, ask("date"), ask("payment"), *_move_first(case, row, chosen, method)],
        {**details, **known},
        must=case.must(row, chosen, CHANGE),
    )
    if case.level >= 4 and case.draw.chance(0.5):
        moves = _move_first(case, row, other, method)
        request.second_thought = (f"On second thought, {other} is better.", case.must(row, other, CHANGE), moves)
        request.second_details = {"date": f"The first flight should be on {other}."}
    return request


def _move_first(case: AirlineCase, row: dict, day: str, method: str) -> list:
    """The first flight of a reservation on another day, from the search on."""
    first, *kept = row["flights"]
    flight, name = case.world.flights[first["flight_number"]], row["reservation_id"]
    price = flight["dates"][day]["prices"][row["cabin"]]
    money = _to_pay((price - first["price"]) * len(row["passengers"]))
    flights = [
        {"flight_number": flight["flight_number"], "date": day},
        *({"flight_number": segment["flight_number"], "date": segment["date"]} for segment in kept),
    ]
    return [
        look_up("search_direct_flight", origin=first["origin"], destination=first["destination"], date=day),
        confirm(f"I will move flight {flight['flight_number']} of {name} to {day}, {money}, with {method}."),
        write(
            "update_reservation_flights", reservation_id=name, cabin=row["cabin"], flights=flights, payment_id=method
        ),
        say(f"Flight {flight['flight_number']} has been moved to {day}: {money}."),
    ]


def _to_pay(difference: int) -> str:
    return f"{difference} dollars to pay" if difference >= 0 else f"{-difference} dollars refunded"


def add_bags(case: AirlineCase, outcome: str) -> Request:
    """More checked bags; how many are free depends on membership and class."""
    draw = case.draw
    opening = draw.pick(
        (
            "It is about the checked bags of my trip.",
            "I have a request about the luggage of my booking.",
            "I need help with the bags of a reservation.",
        )
    )
    if case.level >= 4 and case.user["membership"] != "gold":
        opening += " I am a gold member."
    if outcome == TRANSFER:
        return _special_bags(case, opening)
    cabin, before = draw.pick(("basic_economy", "economy", "business")), draw.between(1, 2)
    row = case.trip(cabin=cabin, passengers=draw.between(1, 2), bags=before)
    method = case.method("credit_card")
    total = before - draw.between(1, before) if outcome == DENY else before + draw.between(1, 3)
    known = {"bags": _bags(total, before), "payment": f"Please use {method}."}
    if outcome == DENY:
        count = "0|zero|none" if total == 0 else str(total)
        why = "bags can be added but not removed."
        return case.deny(opening, row, why, (count, BAGS, f"{REMOVE}|{CHANGE}"), known, ("bags",))
    details, steps = case.find(row)
    action = f"{ADD}|{CHANGE}|extra|total*|increas*"
    request = Request(
        opening,
        ACT,
        [*steps, ask("bags"), ask("payment"), *_set_bags(case, row, total, method)],
        {**details, **known},
        must=case.must(row, str(total), BAGS, action),
    )
    if case.level >= 4 and draw.chance(0.5):
        more = total + 1
        must = case.must(row, str(more), BAGS, action)
        request.second_thought = (f"Sorry, make it {more} bags in total.", must, _set_bags(case, row, more, method))
        request.second_details = {"bags": _bags(more, before)}
    return request


def _bags(total: int, before: int) -> str:
    return f"I need {total} bags in total instead of {before}."


def _special_bags(case: AirlineCase, opening: str) -> Request:
    """Lost luggage, a pet, or a trip that has begun."""
    kind = case.draw.pick(("lost", "pet", "flown"))
    before = case.draw.between(1, 2)
    row = case.trip(flown=kind != "pet", bags=before)
    if kind == "flown":
        total = before + case.draw.between(1, 3)
        known = {"bags": _bags(total, before), "payment": f"Please use {case.method('credit_card')}."}
        return case.transfer(opening, row, FLOWN, (str(total), BAGS), known)
    lost = f"{case.draw.pick(('One of my bags', 'My suitcase'))} got lost on that trip, I want it back."
    pet = f"Besides my bags I need a place for a box with my {case.draw.pick(('dog', 'cat'))}."
    known = {"bags": lost if kind == "lost" else pet}
    must = ("lost|missing", BAGS) if kind == "lost" else ("dog|cat|pet*", f"{ADD}|{BOOK}")
    return case.transfer(opening, row, "special service.", must, known, ("bags",))


def _set_bags(case: AirlineCase, row: dict, total: int, method: str) -> list:
    """So many bags for a reservation, from the summary on."""
    name = row["reservation_id"]
    paid_bags = max(0, total - case.free_bags(row["cabin"], len(row["passengers"])))
    price = 50 * max(0, paid_bags - row["nonfree_baggages"])
    return [
        confirm(f"I will set {total} bags for {name}, {paid_bags} of them paid, {price} dollars with {method}."),
        write(
            "update_reservation_baggages",
            reservation_id=name,
            total_baggages=total,
            nonfree_baggages=paid_bags,
            payment_id=method,
        ),
        say(f"Reservation {name} now has {total} bags, it is done for {price} dollars."),
    ]


def correct_passenger(case: AirlineCase, outcome: str) -> Request:
    """A name or birthday was wrong; the number of passengers stays."""
    opening = case.draw.pick(("It is about a passenger of my booking.", "I need help with a passenger of my trip."))
    count = case.draw.between(1, 3)
    row = case.trip(passengers=max(2, count) if outcome == DENY else count)
    old, new = case.draw.pick(row["passengers"]), case.world.passenger()
    full = full_name(new)
    if outcome == TRANSFER:
        need, word = case.draw.pick(
            (
                (f"{full_name(old)} needs a wheelchair.", "wheelchair"),
                (f"{full_name(old)} wants to bring a dog.", "dog|pet*"),
                (f"{full_name(old)} comes with a baby cat, in a basket.", "cat|pet*"),
                ("My child of 7 travels alone on that trip.", "child|alone|minor"),
            )
        )
        must = (word, f"{ADD}|{BOOK}|{CHANGE}|request*|arrang*")
        return case.transfer(opening, row, need, must, {"passengers": need}, ("passengers",))
    if outcome == DENY:
        adds = case.draw.chance(0.5)
        told = f"Please add {full}, born {new['dob']}." if adds else f"Please take {full_name(old)} off the booking."
        must = (ADD, new["first_name"]) if adds else (REMOVE, old["first_name"])
        return case.deny(opening, row, "the number of passengers cannot change.", must, {"passengers": told})
    new["last_name"] = old["last_name"]
    full = full_name(new)
    passengers = [new if person is old else dict(person) for person in row["passengers"]]
    details, steps = case.find(row)
    name = row["reservation_id"]
    steps += [
        ask("passengers"),
        confirm(f"I will change passenger {full_name(old)} of {name} to {full}, born {new['dob']}."),
        write("update_reservation_passengers", reservation_id=name, passengers=passengers),
        say(f"The passenger of {name} has been changed to {full}."),
    ]
    told = f"Passenger {full_name(old)} should be {full}, born {new['dob']}."
    must = case.must(row, new["first_name"], new["last_name"], new["dob"], CHANGE)
    return Request(opening, ACT, steps, {**details, "passengers": told}, must=must)
