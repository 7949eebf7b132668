"""Airline templates that book, compensate or answer. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.airline_case import NO_HELP, AirlineCase, city, paid
from lib.grpo.generation.airline_world import date
from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, ask, confirm, say, write
from lib.grpo.generation.request import look as look_up


def book_one_way(case: AirlineCase, outcome: str) -> Request:
    """A new one-way trip."""
    return _book(case, outcome, (case.draw.between(17, 27),))


def book_round_trip(case: AirlineCase, outcome: str) -> Request:
    """A new round trip."""
    return _book(case, outcome, (case.draw.between(17, 21), case.draw.between(23, 27)))


def _book(case: AirlineCase, outcome: str, days: tuple[int, ...]) -> Request:
    draw = case.draw
    kind = "one way" if len(days) == 1 else "round trip"
    opening = draw.pick((f"I would like to book a flight, {kind}.", f"Please book a {kind} for me."))
    if outcome == TRANSFER:
        need = draw.pick(("my child of 7 travels alone", "I need a wheelchair", "I want to bring my cat"))
        return Request(f"{opening} But {need}.", TRANSFER, [], summary=f"New booking: {need}.")
    if outcome == DENY:
        wish, why = draw.pick(
            (
                ("We are 7 people on one booking.", "a booking has at most 5 passengers."),
                ("I pay with the credit card of my brother.", "only payment methods of your profile can be used."),
                ("I pay with two travel certificates.", "a booking can use at most one certificate."),
            )
        )
        insist = ["I am sure that this worked last time."] if case.level >= 4 else []
        return Request(f"{opening} {wish}", DENY, [say(NO_HELP + why)], insist=insist)
    return _book_allowed(case, opening, days)


def _book_allowed(case: AirlineCase, opening: str, days: tuple[int, ...]) -> Request:
    draw, user = case.draw, case.user
    origin, destination = case.world.route()
    cabin, insurance = draw.pick(("basic_economy", "economy", "business")), draw.chance(0.4)
    people = [{**user["name"], "dob": user["dob"]}, *user["saved_passengers"]][: draw.between(1, 2)]
    flights, looks, prices = [], [], []
    for place, day in enumerate(days):
        ends = (origin, destination) if place == 0 else (destination, origin)
        flight = case.world.flight(*ends, {day: "available"})
        flights.append({"flight_number": flight["flight_number"], "date": date(day)})
        looks.append(look_up("search_direct_flight", origin=ends[0], destination=ends[1], date=date(day)))
        prices.append(flight["dates"][date(day)]["prices"][cabin])
    bags = draw.between(0, 3) if case.level else 0
    paid_bags = max(0, bags - case.free_bags(cabin, len(people)))
    total = (sum(prices) + 30 * insurance) * len(people) + 50 * paid_bags
    method = case.method(draw.pick(("credit_card", "gift_card")))
    names = " and ".join(f"{p['first_name']} {p['last_name']}, born {p['dob']}" for p in people)
    numbers = " and ".join(row["flight_number"] for row in flights)
    way = "one_way" if len(days) == 1 else "round_trip"
    booking = write(
        "book_reservation",
        user_id=user["user_id"],
        origin=origin,
        destination=destination,
        flight_type=way,
        cabin=cabin,
        flights=flights,
        passengers=people,
        payment_methods=[{"payment_id": method, "amount": total}],
        total_baggages=bags,
        nonfree_baggages=paid_bags,
        insurance="yes" if insurance else "no",
    )
    details = {
        "route": f"From {city(origin)} to {city(destination)}.",
        "date": f"On {date(days[0])}" + (f", back on {date(days[1])}." if len(days) > 1 else "."),
        "cabin": f"In {cabin.replace('_', ' ')}.",
        "passengers": f"The passengers: {names}.",
        "bags": f"We need {bags} checked bags.",
        "insurance": "With insurance, please." if insurance else "No insurance.",
        "payment": f"I pay with {method}.",
    }
    steps = [
        *(ask(name) for name in details),
        *looks,
        confirm(
            f"I will book {numbers} in {cabin.replace('_', ' ')} for {len(people)} passengers with {bags} bags, "
            f"{'with' if insurance else 'without'} insurance, for {total} dollars with {method}."
        ),
        booking,
        say(f"Your trip has been booked for {total} dollars."),
    ]
    must = [*(row["flight_number"] for row in flights), str(total), method]
    return Request(opening, ACT, steps, details, must=must, communicate=[str(total)] if case.level >= 3 else [])


def compensate_cancelled(case: AirlineCase, outcome: str) -> Request:
    """A certificate of 100 dollars per passenger for a flight that the airline cancelled."""
    return _compensate(case, outcome, "cancelled", 100)


def compensate_delayed(case: AirlineCase, outcome: str) -> Request:
    """A certificate of 50 dollars per passenger for a delayed flight."""
    return _compensate(case, outcome, "delayed", 50)


def _compensate(case: AirlineCase, outcome: str, status: str, dollars: int) -> Request:
    draw, regular = case.draw, case.user["membership"] == "regular"
    opening = draw.pick(
        (f"My flight was {status}. I want a compensation.", f"I demand compensation for a {status} flight.")
    )
    if outcome == TRANSFER:
        row = case.trip(status=status)
        return case.transfer(
            f"{opening} And I want to talk to a human about it.", row, "the user asks for a human agent."
        )
    if outcome == DENY:
        if regular and draw.chance(0.7):
            row = case.trip(status=status, cabin=draw.pick(("economy", "basic_economy")))
            why = "regular members without insurance are not compensated in economy."
        else:
            row = case.trip(status="on time")
            why = "the flight is on time."
        claim = " I am a gold member." if case.level >= 4 and regular else ""
        request = case.deny(opening + claim, row, why)
        request.steps.insert(-1, _status(row))
        return request
    count = draw.between(1, 4)
    days = (15,) if status == "delayed" else None
    row = case.trip(status=status, passengers=count, insurance=regular, days=days)
    details, steps = case.find(row)
    amount = dollars * count
    steps += [
        _status(row),
        confirm(f"I will send you a certificate of {amount} dollars for reservation {row['reservation_id']}."),
        write("send_certificate", user_id=case.user["user_id"], amount=amount),
        say(f"A certificate of {amount} dollars has been sent."),
    ]
    told = [str(amount)] if case.level >= 3 else []
    return Request(opening, ACT, steps, details, must=[str(amount)], communicate=told)


def _status(row: dict):
    flight = row["flights"][0]
    return look_up("get_flight_status", flight_number=flight["flight_number"], date=flight["date"])


def total_paid(case: AirlineCase, outcome: str) -> Request:
    """How much was paid for a trip, bags and insurance included."""
    opening = case.draw.pick(("How much did I pay for my trip in total?", "What was the total price of my booking?"))
    row = case.trip(passengers=case.draw.between(1, 3), insurance=case.draw.chance(0.5), bags=case.draw.between(0, 4))
    if outcome == TRANSFER:
        return case.transfer(f"{opening} I want to hear it from a human.", row, "the user asks for a human agent.")
    if outcome == DENY:
        return _of_another(case, "How much did my colleague pay for a trip?")
    details, steps = case.find(row)
    total = str(paid(row))
    # A payment more, so that the answer is a sum.
    extra = case.draw.between(1, 4) * 50
    row["payment_history"].append({"payment_id": case.method("credit_card"), "amount": extra})
    total = str(paid(row))
    steps.append(say(f"You paid {total} dollars in total for reservation {row['reservation_id']}."))
    return Request(opening, ACT, steps, details, communicate=[total], inform=True)


def flight_price(case: AirlineCase, outcome: str) -> Request:
    """What a seat costs on a date, for several people."""
    draw = case.draw
    opening = draw.pick(("I would like to know what a flight costs.", "Can you tell me the price of a flight?"))
    if outcome == TRANSFER:
        return Request(f"{opening} My dog comes along.", TRANSFER, [], summary="Price with a pet.")
    if outcome == DENY:
        return _of_another(case, "Which flights has my neighbour booked?")
    origin, destination = case.world.route()
    day, cabin, count = draw.between(17, 27), draw.pick(("economy", "business")), draw.between(2, 5)
    flight = case.world.flight(origin, destination, {day: "available"})
    price = flight["dates"][date(day)]["prices"][cabin] * count
    details = {
        "route": f"From {city(origin)} to {city(destination)}.",
        "date": f"On {date(day)}.",
        "cabin": f"In {cabin}.",
        "passengers": f"We are {count} people, I want the price for all.",
    }
    steps = [
        *(ask(name) for name in details),
        look_up("search_direct_flight", origin=origin, destination=destination, date=date(day)),
        say(f"Flight {flight['flight_number']} costs {price} dollars for {count} passengers in {cabin}."),
    ]
    return Request(opening, ACT, steps, details, communicate=[str(price)], inform=True)


def _of_another(case: AirlineCase, opening: str) -> Request:
    row = case.trip(user=case.world.user())
    name = row["reservation_id"]
    steps = [ask("reservation_id"), say(NO_HELP + f"reservation {name} is not yours.")]
    details = {"reservation_id": f"The reservation id is {name}."}
    return Request(opening, DENY, steps, details, insist=["But we know each other well."] if case.level >= 4 else [])
