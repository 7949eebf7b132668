"""Airline templates that change or cancel a reservation. Each is a function (case, outcome) -> Request."""

from lib.grpo.generation.airline_case import AirlineCase, paid, route_of
from lib.grpo.generation.airline_world import date
from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, ask, confirm, say, write
from lib.grpo.generation.request import look as look_up

FLOWN = "a flight of it has already been flown."


def cancel_plans(case: AirlineCase, outcome: str) -> Request:
    """Change of plan: allowed for business class or within 24 hours."""
    opening = case.draw.pick(
        ("I want to cancel a trip.", "Please cancel one of my bookings.", "I have to cancel a reservation.")
    )
    reason = case.draw.pick(("My plans changed.", "I do not need to travel any more.", "My meeting was called off."))
    if outcome == TRANSFER:
        return case.transfer(opening, case.trip(cabin="business", flown=True), FLOWN)
    if outcome == DENY:
        row = case.trip(cabin=case.draw.pick(("economy", "basic_economy")), hours_ago=case.draw.between(30, 300))
        why = "it was booked more than 24 hours ago, is not in business class, and a change of plan is not covered."
        return case.deny(opening, row, why, {"reason": reason})
    fresh = case.draw.chance(0.5)
    row = case.trip(cabin="economy", hours_ago=case.draw.between(1, 20)) if fresh else case.trip(cabin="business")
    return _cancel(case, row, opening, reason)


def cancel_sick(case: AirlineCase, outcome: str) -> Request:
    """Health or weather: allowed with insurance."""
    opening = case.draw.pick(
        ("I need to cancel my flight.", "Please cancel a reservation of mine.", "I cannot make my trip.")
    )
    reason = case.draw.pick(("I am ill and must not fly.", "I broke my leg.", "There is a storm where I want to go."))
    if outcome == TRANSFER:
        return case.transfer(opening, case.trip(flown=True, insurance=True), FLOWN)
    row = case.trip(cabin=case.draw.pick(("economy", "basic_economy")), insurance=outcome == ACT)
    if outcome == DENY:
        return case.deny(opening, row, "it has no insurance, which would cover that reason.", {"reason": reason})
    return _cancel(case, row, opening, reason)


def cancel_after_airline(case: AirlineCase, outcome: str) -> Request:
    """The user says that the airline cancelled a flight: allowed if it did."""
    opening = case.draw.pick(
        ("The airline cancelled my flight, so I want to cancel the booking.", "Please cancel my trip.")
    )
    reason = "The airline cancelled the flight."
    if outcome == TRANSFER:
        return case.transfer(opening, case.trip(flown=True), FLOWN)
    row = case.trip(status="cancelled" if outcome == ACT else "on time")
    flight = row["flights"][0]
    check = look_up("get_flight_status", flight_number=flight["flight_number"], date=flight["date"])
    if outcome == DENY:
        request = case.deny(opening, row, "the flight is on time, and no other rule allows it.", {"reason": reason})
        request.steps.insert(-1, check)
        return request
    request = _cancel(case, row, opening, reason)
    request.steps.insert(next(i for i, step in enumerate(request.steps) if step.kind == "confirm"), check)
    return request


def _cancel(case: AirlineCase, row: dict, opening: str, reason: str) -> Request:
    details, steps = case.find(row)
    refund = str(paid(row))
    name = row["reservation_id"]
    wants_amount = case.level >= 3
    steps += [
        ask("reason"),
        confirm(f"I will cancel reservation {name} ({route_of(row)}) and refund {refund} dollars."),
        write("cancel_reservation", reservation_id=name),
        say(f"Reservation {name} has been cancelled, {refund} dollars will be refunded."),
    ]
    return Request(
        opening + (" Please tell me how much I get back." if wants_amount else ""),
        ACT,
        steps,
        {**details, "reason": reason},
        must=[name],
        communicate=[refund] if wants_amount else [],
    )


def upgrade(case: AirlineCase, outcome: str) -> Request:
    """All flights and passengers into a higher class."""
    opening = case.draw.pick(("I would like to fly in business class.", "Please upgrade my trip to business class."))
    if outcome == TRANSFER:
        return case.transfer(opening, case.trip(flown=True), FLOWN)
    cabin = case.draw.pick(("economy", "basic_economy"))
    if outcome == DENY:
        row = case.trip(cabin=cabin, passengers=2, days=(18, 25))
        wish = case.draw.pick(("only the first flight", "only one of the two passengers"))
        return case.deny(
            f"{opening} But {wish}.", row, "the class can only change for all flights and passengers at once."
        )
    row = case.trip(cabin=cabin, passengers=case.draw.between(1, 3))
    return _change_cabin(case, row, "business", opening)


def downgrade(case: AirlineCase, outcome: str) -> Request:
    """Business to economy, with a refund."""
    opening = case.draw.pick(
        ("Business class is too expensive for me, please move me to economy.", "I want economy instead of business.")
    )
    if outcome == TRANSFER:
        return case.transfer(opening, case.trip(cabin="business", flown=True), FLOWN)
    if outcome == DENY:
        row = case.trip(cabin="business", passengers=2, days=(19, 26))
        return case.deny(
            f"{opening} Only on the way back, though.", row, "the class can only change for all flights at once."
        )
    return _change_cabin(case, case.trip(cabin="business", passengers=case.draw.between(1, 3)), "economy", opening)


def _change_cabin(case: AirlineCase, row: dict, cabin: str, opening: str) -> Request:
    flights = [(case.world.flights[segment["flight_number"]], segment["date"]) for segment in row["flights"]]
    prices = [flight["dates"][day]["prices"][cabin] for flight, day in flights]
    difference = (sum(prices) - sum(segment["price"] for segment in row["flights"])) * len(row["passengers"])
    details, steps = case.find(row)
    method = case.method("gift_card" if case.draw.chance(0.5) else "credit_card")
    other = case.method("credit_card" if method.startswith("gift") else "gift_card")
    name = row["reservation_id"]
    money = f"{difference} dollars to pay" if difference >= 0 else f"{-difference} dollars refunded"
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

    wants_amount = case.level >= 3
    thought = None
    if case.level >= 4 and case.draw.chance(0.5):
        thought = (f"Wait, use {other} instead.", [name, other], rest(other))
    return Request(
        opening + (" I want to know the price difference." if wants_amount else ""),
        ACT,
        [*steps, ask("payment"), *looks, *rest(method)],
        {**details, "payment": f"Please use {method}."},
        must=[name, method],
        communicate=[str(abs(difference))] if wants_amount else [],
        second_thought=thought,
    )


def change_date(case: AirlineCase, outcome: str) -> Request:
    """The first flight a day or two later."""
    opening = case.draw.pick(("I would like to fly on another day.", "Please move my outbound flight to a later date."))
    if outcome == TRANSFER:
        return case.transfer(opening, case.trip(flown=True), FLOWN)
    if outcome == DENY:
        return case.deny(opening, case.trip(cabin="basic_economy"), "basic economy flights cannot be changed.")
    row = case.trip(cabin=case.draw.pick(("economy", "business")), passengers=case.draw.between(1, 2))
    first = row["flights"][0]
    flight, old_day = case.world.flights[first["flight_number"]], int(first["date"][-2:])
    days = case.draw.sample((old_day + 1, old_day + 2), 2)
    details, steps = case.find(row)
    name, method = row["reservation_id"], case.method("gift_card")
    kept = [{"flight_number": s["flight_number"], "date": s["date"]} for s in row["flights"][1:]]

    def rest(day: str) -> list:
        price = flight["dates"][day]["prices"][row["cabin"]]
        difference = (price - first["price"]) * len(row["passengers"])
        money = f"{difference} dollars to pay" if difference >= 0 else f"{-difference} dollars refunded"
        flights = [{"flight_number": flight["flight_number"], "date": day}, *kept]
        return [
            look_up("search_direct_flight", origin=first["origin"], destination=first["destination"], date=day),
            confirm(f"I will move flight {flight['flight_number']} of {name} to {day}, {money}, with {method}."),
            write(
                "update_reservation_flights",
                reservation_id=name,
                cabin=row["cabin"],
                flights=flights,
                payment_id=method,
            ),
            say(f"Flight {flight['flight_number']} has been moved to {day}: {money}."),
        ]

    chosen, other = date(days[0]), date(days[1])
    thought = None
    if case.level >= 4 and case.draw.chance(0.5):
        thought = (f"On second thought, {other} is better.", [name, other], rest(other))
    return Request(
        opening,
        ACT,
        [*steps, ask("date"), ask("payment"), *rest(chosen)],
        {**details, "date": f"I would like {chosen}.", "payment": f"Please use {method}."},
        must=[name, chosen],
        second_thought=thought,
    )


def add_bags(case: AirlineCase, outcome: str) -> Request:
    """More checked bags; how many are free depends on membership and class."""
    opening = case.draw.pick(
        ("I need to change the checked bags of my trip.", "It is about the luggage of my booking.")
    )
    if outcome == TRANSFER:
        return case.transfer("My luggage got lost on a trip.", case.trip(flown=True), "lost luggage.")
    cabin, passengers = case.draw.pick(("basic_economy", "economy", "business")), case.draw.between(1, 2)
    before = case.draw.between(1, 2)
    row = case.trip(cabin=cabin, passengers=passengers, bags=before)
    if outcome == DENY:
        return case.deny("I want to remove a checked bag from my trip.", row, "bags can be added but not removed.")
    total = before + case.draw.between(1, 3)
    details, steps = case.find(row)
    name, method = row["reservation_id"], case.method("credit_card")
    claim = ""
    if case.level >= 4 and case.user["membership"] != "gold":
        claim = " I am a gold member."

    def rest(total: int) -> list:
        paid_bags = max(0, total - case.free_bags(cabin, passengers))
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

    thought = None
    if case.level >= 4 and case.draw.chance(0.5):
        thought = (f"Sorry, make it {total + 1} bags in total.", [name, str(total + 1)], rest(total + 1))
    return Request(
        opening + claim,
        ACT,
        [*steps, ask("bags"), ask("payment"), *rest(total)],
        {**details, "bags": f"I need {total} bags in total.", "payment": f"Please use {method}."},
        must=[name, str(total)],
        second_thought=thought,
    )


def correct_passenger(case: AirlineCase, outcome: str) -> Request:
    """A name or birthday was wrong; the number of passengers stays."""
    opening = case.draw.pick(("A passenger's details are wrong.", "I have to correct a passenger of my booking."))
    if outcome == TRANSFER:
        why = case.draw.pick(("a wheelchair", "to bring my dog", "somebody to look after my child who travels alone"))
        return case.transfer(f"For one of my trips I need {why}.", case.trip(), "special service.")
    count = case.draw.between(1, 3)
    row = case.trip(passengers=count)
    if outcome == DENY:
        wish = case.draw.pick(("Please add a passenger to my trip.", "Please take a passenger off my trip."))
        return case.deny(wish, row, "the number of passengers cannot change.")
    place = case.draw.below(count)
    old = row["passengers"][place]
    new = {**case.world.passenger(), "last_name": old["last_name"]}
    passengers = [dict(person) for person in row["passengers"]]
    passengers[place] = new
    details, steps = case.find(row)
    name = row["reservation_id"]
    full = f"{new['first_name']} {new['last_name']}"
    steps += [
        ask("passengers"),
        confirm(f"I will change passenger {_full(old)} of {name} to {full}, born {new['dob']}."),
        write("update_reservation_passengers", reservation_id=name, passengers=passengers),
        say(f"The passenger of {name} has been changed to {full}."),
    ]
    told = f"Passenger {_full(old)} should be {full}, born {new['dob']}."
    return Request(opening, ACT, steps, {**details, "passengers": told}, must=[name, full, new["dob"]])


def _full(person: dict) -> str:
    return f"{person['first_name']} {person['last_name']}"
