"""Airline templates that book, compensate or answer. Each is a function (case, outcome) -> Request."""

from dataclasses import dataclass

from lib.grpo.generation.airline_case import (
    BOOK,
    CERTIFICATE,
    LOOK_UP,
    NO_HELP,
    WANTS_HUMAN,
    AirlineCase,
    city,
    full_name,
    paid,
)
from lib.grpo.generation.airline_world import date
from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, Step, ask, confirm, or_human, say, write
from lib.grpo.generation.request import look as look_up


@dataclass(frozen=True)
class Trip:
    """A new trip: what the user says of it, and what it takes to book it."""

    details: dict[str, str]
    ends: tuple[str, str]
    days: tuple[int, ...]
    cabin: str
    people: list[dict]
    bags: int
    insurance: bool
    method: str


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
    trip = _draw_trip(case, days)
    if outcome == ACT:
        return _book_allowed(case, opening, trip)
    details = dict(trip.details)
    asks = [ask(name) for name in details]
    if outcome == TRANSFER:
        needs = (
            ("One of us needs a wheelchair.", "wheelchair"),
            ("My cat has to come along.", "cat|pet*"),
            ("My child of 7 travels alone.", "child|alone|minor"),
        )
        need, word = draw.pick(needs)
        details["passengers"] += f" {need}"
        summary = f"New booking: {need}"
        return Request(opening, TRANSFER, asks, details, must=or_human([BOOK, word]), summary=summary)
    kind = draw.pick(("crowd", "card", "certificates"))
    if kind == "crowd":
        value = str(draw.between(6, 9))
        details["passengers"] = f"We are {value} people on one booking, my family and I."
        why = "a booking has at most 5 passengers."
    elif kind == "card":
        other = case.world.user()
        value = next(iter(other["payment_methods"]))
        owner = draw.pick(("brother", "sister", "friend"))
        details["payment"] = f"I pay with {value}, the credit card of my {owner}."
        why = "only payment methods of your profile can be used."
    else:
        value = "two|both|2"
        details["payment"] = "I pay with two travel certificates."
        why = "a booking can use at most one certificate."
    insist = ["I am sure that this worked last time."] if case.level >= 4 else []
    return Request(opening, DENY, [*asks, say(NO_HELP + why)], details, must=[BOOK, value], insist=insist)


def _draw_trip(case: AirlineCase, days: tuple[int, ...]) -> Trip:
    draw, user = case.draw, case.user
    origin, destination = case.world.route()
    cabin, insurance = draw.pick(("basic_economy", "economy", "business")), draw.chance(0.4)
    people = [{**user["name"], "dob": user["dob"]}, *user["saved_passengers"]][: draw.between(1, 2)]
    bags = draw.between(0, 3) if case.level else 0
    method = case.method(draw.pick(("credit_card", "gift_card")))
    names = " and ".join(f"{full_name(person)}, born {person['dob']}" for person in people)
    details = {
        "route": f"From {city(origin)} to {city(destination)}.",
        "date": f"On {date(days[0])}" + (f", back on {date(days[1])}." if len(days) > 1 else "."),
        "cabin": f"In {cabin.replace('_', ' ')}.",
        "passengers": f"The passengers: {names}.",
        "bags": f"We need {bags} checked bags.",
        "insurance": "With insurance, please." if insurance else "No insurance.",
        "payment": f"I pay with {method}.",
    }
    return Trip(details, (origin, destination), days, cabin, people, bags, insurance, method)


def _book_allowed(case: AirlineCase, opening: str, trip: Trip) -> Request:
    count, cabin = len(trip.people), trip.cabin.replace("_", " ")
    flights, looks, prices = _flights(case, trip)
    paid_bags = max(0, trip.bags - case.free_bags(trip.cabin, count))
    total = (sum(prices) + 30 * trip.insurance) * count + 50 * paid_bags
    numbers = " and ".join(f"{row['flight_number']} on {row['date']}" for row in flights)
    booking = write(
        "book_reservation",
        user_id=case.user["user_id"],
        origin=trip.ends[0],
        destination=trip.ends[1],
        flight_type="one_way" if len(flights) == 1 else "round_trip",
        cabin=trip.cabin,
        flights=flights,
        passengers=trip.people,
        payment_methods=[{"payment_id": trip.method, "amount": total}],
        total_baggages=trip.bags,
        nonfree_baggages=paid_bags,
        insurance="yes" if trip.insurance else "no",
    )
    steps = [
        *(ask(name) for name in trip.details),
        *looks,
        confirm(
            f"I will book {numbers} in {cabin} for {count} passengers with {trip.bags} bags, "
            f"{'with' if trip.insurance else 'without'} insurance, for {total} dollars with {trip.method}."
        ),
        booking,
        say(f"Your trip has been booked for {total} dollars."),
    ]
    must = [BOOK, *(row["date"] for row in flights), "|".join({cabin: 0, trip.cabin: 0}), trip.method]
    told = [str(total)] if case.level >= 3 else []
    return Request(opening, ACT, steps, trip.details, must=must, communicate=told)


def _flights(case: AirlineCase, trip: Trip) -> tuple[list[dict], list[Step], list[int]]:
    """A new flight for each day of a trip, how to find it, and what a seat costs."""
    flights, looks, prices = [], [], []
    for place, day in enumerate(trip.days):
        origin, destination = trip.ends if place == 0 else trip.ends[::-1]
        flight = case.world.flight(origin, destination, {day: "available"})
        flights.append({"flight_number": flight["flight_number"], "date": date(day)})
        looks.append(look_up("search_direct_flight", origin=origin, destination=destination, date=date(day)))
        prices.append(flight["dates"][date(day)]["prices"][trip.cabin])
    return flights, looks, prices


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
        lost = f"On the day that it was {status} my luggage got lost, too."
        return case.transfer_as_told(opening, row, draw.pick((WANTS_HUMAN, lost)))
    if outcome == DENY:
        if regular and draw.chance(0.7):
            row = case.trip(status=status, cabin=draw.pick(("economy", "basic_economy")))
            why = "regular members without insurance are not compensated in economy."
        else:
            row = case.trip(status="on time")
            why = "the flight is on time."
        claim = " I am a gold member." if case.level >= 4 and regular else ""
        request = case.deny(opening + claim, row, why, (CERTIFICATE,))
        request.steps.insert(-1, _status(row))
        return request
    count = draw.between(1, 4)
    row = case.trip(status=status, passengers=count, insurance=regular)
    details, steps = case.find(row)
    amount = dollars * count
    steps += [
        _status(row),
        confirm(f"I will send you a certificate of {amount} dollars for reservation {row['reservation_id']}."),
        write("send_certificate", user_id=case.user["user_id"], amount=amount),
        say(f"A certificate of {amount} dollars has been sent."),
    ]
    name, *rest = case.must(row, CERTIFICATE)
    must = [f"{name}|{row['flights'][0]['flight_number']}|flight", *rest]
    told = [str(amount)] if case.level >= 3 else []
    return Request(opening, ACT, steps, details, must=must, communicate=told)


def _status(row: dict) -> Step:
    flight = row["flights"][0]
    return look_up("get_flight_status", flight_number=flight["flight_number"], date=flight["date"])


def total_paid(case: AirlineCase, outcome: str) -> Request:
    """How much was paid for a trip, bags and insurance included."""
    draw = case.draw
    opening = draw.pick(("How much was paid for a trip in total?", "What was the total price of a booking?"))
    if outcome == DENY:
        return case.deny_stranger(opening, (LOOK_UP,))
    row = case.trip(passengers=draw.between(1, 3), insurance=draw.chance(0.5), bags=draw.between(0, 4))
    # A payment more, so that the answer is a sum.
    extra = draw.between(1, 4) * 50
    row["payment_history"].append({"payment_id": case.method("credit_card"), "amount": extra})
    if outcome == TRANSFER:
        lost = "And my suitcase got lost on that trip, please look after it."
        return case.transfer_as_told(opening, row, draw.pick((WANTS_HUMAN, lost)))
    details, steps = case.find(row)
    total = str(paid(row))
    steps.append(say(f"You paid {total} dollars in total for reservation {row['reservation_id']}."))
    must = case.must(row, LOOK_UP)
    return Request(opening, ACT, steps, details, must=must, communicate=[total], inform=True)


def flight_price(case: AirlineCase, outcome: str) -> Request:
    """What a seat costs on a date, for several people."""
    draw = case.draw
    opening = draw.pick(("I would like to know what a flight costs.", "Can you tell me the price of a flight?"))
    origin, destination = case.world.route()
    day, cabin, count = draw.between(17, 27), draw.pick(("economy", "business")), draw.between(2, 5)
    details = {
        "route": f"From {city(origin)} to {city(destination)}.",
        "date": f"On {date(day)}.",
        "cabin": f"In {cabin}.",
        "passengers": f"We are {count} people, I want the price for all.",
    }
    asks = [ask(name) for name in details]
    if outcome == TRANSFER:
        need, word = draw.pick((("our dog comes along", "dog|pet*"), ("one of us needs a wheelchair", "wheelchair")))
        details["passengers"] = f"We are {count} people and {need}. I want the price for all."
        return Request(
            opening, TRANSFER, asks, details, must=or_human([word, LOOK_UP]), summary=f"Price of a flight, {need}."
        )
    if outcome == DENY:
        name = case.trip(user=case.world.user())["reservation_id"]
        friend = draw.pick(("neighbour", "colleague", "cousin"))
        details["route"] = f"The one of reservation {name}, which my {friend} has booked."
        details["date"] = "The day of that reservation."
        refusal = say(f"{NO_HELP}reservation {name} is not yours.")
        insist = ["But we know each other well."] if case.level >= 4 else []
        return Request(opening, DENY, [*asks, refusal], details, must=[name, LOOK_UP], insist=insist)
    flight = case.world.flight(origin, destination, {day: "available"})
    price = flight["dates"][date(day)]["prices"][cabin] * count
    search = look_up("search_direct_flight", origin=origin, destination=destination, date=date(day))
    answer = say(f"Flight {flight['flight_number']} costs {price} dollars for {count} passengers in {cabin}.")
    must = [date(day), LOOK_UP]
    return Request(opening, ACT, [*asks, search, answer], details, must=must, communicate=[str(price)], inform=True)
