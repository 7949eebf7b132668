"""What airline templates share: the case under construction, trips, and how an expert finds a reservation."""

from lib.grpo.generation.airline_world import FREE_BAGS, AirlineWorld
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import DENY, TRANSFER, Request, Step, ask, look, say
from lib.grpo.worlds.airline_data import CABINS
from lib.grpo.worlds.airline_tools import AIRPORTS

# Other trips of the caller, and other people with a trip, per level.
OTHER_TRIPS = (0, 1, 1, 2, 3)
OTHER_PEOPLE = (0, 1, 2, 3, 5)
NO_HELP = "I am sorry, but I cannot do that: "


class AirlineCase:
    """One task's draw, level, world and caller."""

    def __init__(self, draw: Draw, level: int):
        self.draw, self.level = draw, level
        self.world = AirlineWorld(draw)
        self.user = self.world.user()
        for _ in range(OTHER_TRIPS[level]):
            self.trip(cabin=draw.pick(CABINS), insurance=draw.chance(0.3))
        for _ in range(OTHER_PEOPLE[level]):
            self.trip(user=self.world.user())

    def trip(
        self,
        user: dict | None = None,
        cabin: str = "economy",
        days: tuple[int, ...] | None = None,
        status: str = "available",
        flown: bool = False,
        **details,
    ) -> dict:
        """A round trip (or one way: one day) whose flights also go on the next two days; `status` is the first flight's
        on its day; `flown`: its first flight landed days ago."""
        draw = self.draw
        if days is None:
            first = draw.between(8, 13) if flown else draw.between(17, 21)
            days = (first, draw.between(23, 27)) if flown or draw.chance(0.6) else (first,)
        origin, destination = self.world.route()
        flights = []
        for place, day in enumerate(days):
            ends = (origin, destination) if place == 0 else (destination, origin)
            on_day = ("landed" if flown else status) if place == 0 else "available"
            others = dict.fromkeys((day + 1, day + 2), "available" if day + 2 > 15 else "landed")
            flights.append((self.world.flight(*ends, {day: on_day, **others}), day))
        return self.world.reservation(user or self.user, flights, cabin, **details)

    def find(self, row: dict) -> tuple[dict[str, str], list[Step]]:
        """(details, steps) that lead to a reservation: its id is known to the caller, or it has to be looked for."""
        reservation_id = row["reservation_id"]
        if self.level <= 1 or self.draw.chance(0.5):
            sentence = f"The reservation id is {reservation_id}."
            looks = [look("get_reservation_details", reservation_id=reservation_id)]
        else:
            sentence = f"I don't remember the reservation id. It is my trip from {route_of(row)}."
            ids = self.user["reservations"]
            looks = [
                look("get_reservation_details", reservation_id=other) for other in ids[: ids.index(reservation_id) + 1]
            ]
        return {"reservation_id": sentence}, [ask("reservation_id"), *looks]

    def method(self, source: str) -> str:
        """The caller's credit card, gift card or certificate."""
        return next(name for name in self.user["payment_methods"] if name.startswith(source))

    def free_bags(self, cabin: str, passengers: int) -> int:
        return FREE_BAGS[self.user["membership"]][cabin] * passengers

    def transfer(self, opening: str, row: dict, why: str) -> Request:
        """A wish that only a human may fulfil, found out after looking at the reservation."""
        details, steps = self.find(row)
        return Request(opening, TRANSFER, steps, details, summary=f"Reservation {row['reservation_id']}: {why}")

    def deny(self, opening: str, row: dict, why: str, details: dict | None = None, **more) -> Request:
        """A wish that the rules forbid, found out after looking at the reservation."""
        found, steps = self.find(row)
        details = {**found, **(details or {})}
        asks = [ask(name) for name in details if name != "reservation_id"]
        insist = more.pop("insist", [])
        if self.level >= 4 and not insist:
            insist = [self.draw.pick(("But I was told that this is possible.", "Please make an exception for me."))]
        return Request(opening, DENY, [*steps, *asks, say(NO_HELP + why)], details, insist=insist, **more)


def route_of(row: dict) -> str:
    return f"{city(row['origin'])} to {city(row['destination'])}"


def city(code: str) -> str:
    return f"{AIRPORTS[code]} ({code})"


def paid(row: dict) -> int:
    """Dollars paid for a reservation."""
    return sum(entry["amount"] for entry in row["payment_history"])
