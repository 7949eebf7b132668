"""What airline templates share: the case under construction, trips, and how an expert finds a reservation."""

from lib.grpo.generation.airline_world import FREE_BAGS, TODAY, WAITING, AirlineWorld
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import DENY, TRANSFER, Request, Step, ask, look, or_human, say
from lib.grpo.worlds.airline_data import CABINS
from lib.grpo.worlds.airline_tools import AIRPORTS

# Other trips of the caller, and other people with a trip, per level.
OTHER_TRIPS = (0, 1, 1, 2, 3)
OTHER_PEOPLE = (0, 1, 2, 3, 5)
NO_HELP = "I am sorry, but I cannot do that: "
WANTS_HUMAN = "I want to talk to a human agent about it."
# What a summary calls an action, for `must`.
CANCEL = "cancel*"
BOOK = "book*|reserv*|purchas*|buy*"
CHANGE = (
    "chang*|updat*|modif*|mov*|set*|switch*|replac*|correct*|edit*|fix*|resched*|rebook*|postpon*|shift*|push*|upgrad*|"
    "downgrad*|convert*|new"
)
ADD, REMOVE = "add*|includ*|new|more", "remov*|tak*|delet*|drop*|without"
CERTIFICATE = "certificate*|voucher*|compensat*"
LOOK_UP = "look*|check|calculat*|comput*|search*|retriev*|sum"


class AirlineCase:
    """One task's draw, level, world and caller."""

    def __init__(self, draw: Draw, level: int):
        self.draw, self.level = draw, level
        self.world = AirlineWorld(draw)
        self.user = self.world.user()
        # Reservations that the expert has looked up, for an earlier request too.
        self.seen: set[str] = set()
        # Reservation id -> what a summary may call it.
        self.names: dict[str, str] = {}
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
            today = status in WAITING or (status == "cancelled" and draw.chance(0.5))
            first = draw.between(8, 13) if flown else TODAY if today else draw.between(17, 21)
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
        name = row["reservation_id"]
        ids = [name]
        if self.level <= 1 or row["user_id"] != self.user["user_id"] or self.draw.chance(0.5):
            sentence = f"The reservation id is {name}."
        else:
            sentence = f"I don't remember the reservation id. It is my trip from {route_of(row)}."
            ids = self.user["reservations"]
            ids = [other for other in ids[: ids.index(name) + 1] if other not in self.seen]
            self.names[name] = f"{name}|{row['destination']}|{AIRPORTS[row['destination']]}"
        self.seen.update(ids)
        looks = [look("get_reservation_details", reservation_id=one) for one in ids]
        return {"reservation_id": sentence}, [ask("reservation_id"), *looks]

    def must(self, row: dict, *words: str) -> list[str]:
        """What a summary about a reservation has to name; its place where the caller has forgotten the id."""
        name = row["reservation_id"]
        return [self.names.get(name, name), *words]

    def asks(self, opening: str, question: str) -> str:
        """An opening that from level 3 on asks for an amount too."""
        return f"{opening} {question}" if self.level >= 3 else opening

    def method(self, source: str) -> str:
        """The caller's credit card, gift card or certificate."""
        return next(name for name in self.user["payment_methods"] if name.startswith(source))

    def free_bags(self, cabin: str, passengers: int) -> int:
        return FREE_BAGS[self.user["membership"]][cabin] * passengers

    def transfer(
        self,
        opening: str,
        row: dict,
        why: str,
        must: tuple[str, ...],
        details: dict[str, str] | None = None,
        asked: tuple[str, ...] = (),
    ) -> Request:
        """A wish that only a human may fulfil, found out by looking at the reservation and asking for `asked`."""
        found, steps = self.find(row)
        steps += [ask(name) for name in asked]
        must = or_human(self.must(row, *must))
        summary = f"Reservation {row['reservation_id']}: {why}"
        return Request(opening, TRANSFER, steps, {**found, **(details or {})}, must=must, summary=summary)

    def transfer_as_told(self, opening: str, row: dict, told: str = WANTS_HUMAN) -> Request:
        """A wish that is for a human because of what the caller says of the reservation when asked for it."""
        details, steps = self.find(row)
        details["reservation_id"] += f" {told}"
        summary = f"Reservation {row['reservation_id']}: {told}"
        return Request(opening, TRANSFER, steps, details, must=or_human([]), summary=summary)

    def deny(
        self,
        opening: str,
        row: dict,
        why: str,
        must: tuple[str, ...],
        details: dict[str, str] | None = None,
        asked: tuple[str, ...] | None = None,
    ) -> Request:
        """A wish that the rules forbid, found out by looking at the reservation and asking for `asked` (default: all
        the `details`)."""
        found, steps = self.find(row)
        details = details or {}
        asks = [ask(name) for name in (details if asked is None else asked)]
        insist = ["But I was told that this is possible.", "Please make an exception for me."]
        return Request(
            opening,
            DENY,
            [*steps, *asks, say(NO_HELP + why)],
            {**found, **details},
            must=self.must(row, *must),
            insist=[self.draw.pick(insist)] if self.level >= 4 else [],
        )

    def deny_stranger(self, opening: str, must: tuple[str, ...]) -> Request:
        """A wish about a reservation that is not the caller's."""
        row = self.trip(user=self.world.user())
        request = self.deny(opening, row, f"reservation {row['reservation_id']} is not yours.", must)
        request.insist = ["But we know each other well."] if request.insist else []
        return request


def route_of(row: dict) -> str:
    return f"{city(row['origin'])} to {city(row['destination'])}"


def city(code: str) -> str:
    return f"{AIRPORTS[code]} ({code})"


def paid(row: dict) -> int:
    """Dollars paid for a reservation."""
    return sum(entry["amount"] for entry in row["payment_history"])


def full_name(person: dict) -> str:
    return f"{person['first_name']} {person['last_name']}"
