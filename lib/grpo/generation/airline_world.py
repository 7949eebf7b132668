"""Small airline databases: people, flights around their trips, reservations. It is 2024-05-15 15:00 EST."""

from lib.grpo.domains import AIRLINE
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.people import draw_address, draw_birthday, draw_name
from lib.grpo.task import Setting
from lib.grpo.worlds.airline_data import SHAPES
from lib.grpo.worlds.airline_tools import AIRPORTS
from lib.grpo.worlds.store import Base

TODAY = 15
NOW = TODAY * 24 + 15
# Statuses of today's flights that have not left yet.
WAITING = ("on time", "delayed")
CODES = tuple(AIRPORTS)
# Dollars a flight costs, per cabin.
PRICES = {"basic_economy": (50, 99), "economy": (100, 199), "business": (300, 499)}
FREE_BAGS = {
    "regular": {"basic_economy": 0, "economy": 1, "business": 2},
    "silver": {"basic_economy": 1, "economy": 2, "business": 3},
    "gold": {"basic_economy": 2, "economy": 3, "business": 4},
}
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
POLICY = """You are an airline agent. The current time is 2024-05-15 15:00:00 EST.
You help users book, change and cancel reservations, and answer questions about them.

- Ask for the user id first. Help only with reservations of this user; deny requests about other people's.
- Find a reservation id that the user does not know in the user's profile.
- Before every change list its details and get the user's yes.
- Deny what these rules do not allow. Transfer to a human agent only if the user asks for one, if a flight of the \
reservation has already been flown (before today) and the user wants to change or cancel it, or for special services \
(wheelchair, pet, child travelling alone, lost luggage). To transfer call transfer_to_human_agents, then write \
"YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."

Cancel: ask for the reason. Allowed if the booking was made within the last 24 hours, or it is business class, or the \
airline cancelled a flight of it, or it has insurance and the reason is health or weather. All payments are refunded.
Change flights: not in basic economy. Origin and destination stay. Unchanged flights keep their price.
Change cabin: for all flights and all passengers at once, in every class. The user pays or gets the price difference.
Change passengers: names and birthdays may be corrected, the number of passengers may not change.
Bags: may be added, not removed. Free bags per passenger: regular member 0 in basic economy, 1 in economy, 2 in \
business; silver 1, 2, 3; gold 2, 3, 4. Each further bag costs 50 dollars.
Book: one cabin for all, at most 5 passengers. Insurance costs 30 dollars per passenger; it cannot be added later. At \
most one certificate and one credit card; only payment methods of the profile.
Changes are paid with, and refunded to, one credit card or gift card of the profile.
Compensation: only if the user asks, and is silver or gold member, or has insurance, or flies business. For a flight \
that the airline cancelled: a certificate of 100 dollars per passenger; for a delayed one: 50 dollars per passenger. \
Check the flight's status first. Nothing else is compensated."""


class AirlineWorld:
    """Tables under construction; every method adds rows and returns them."""

    def __init__(self, draw: Draw):
        self.draw = draw
        self.flights: dict[str, dict] = {}
        self.users: dict[str, dict] = {}
        self.reservations: dict[str, dict] = {}

    def user(self) -> dict:
        draw = self.draw
        first, last = draw_name(draw)
        methods = {}
        for source in ("credit_card", "gift_card", "certificate"):
            name = f"{source}_{draw.digits(7)}"
            method = {"source": source, "id": name}
            if source == "credit_card":
                method |= {"brand": draw.pick(("visa", "mastercard")), "last_four": draw.digits(4)}
            else:
                # The gift card covers every change of a trip, the certificate never a whole booking.
                method["amount"] = float(draw.between(3000, 6000) if source == "gift_card" else draw.between(2, 9) * 10)
            methods[name] = method
        row = {
            "user_id": self._free(self.users, lambda: f"{first.lower()}_{last.lower()}_{draw.digits(4)}"),
            "name": {"first_name": first, "last_name": last},
            "address": draw_address(draw),
            "email": f"{first.lower()}.{last.lower()}{draw.digits(3)}@example.com",
            "dob": draw_birthday(draw),
            "payment_methods": methods,
            "saved_passengers": [self.passenger()],
            "membership": draw.pick(tuple(FREE_BAGS)),
            "reservations": [],
        }
        self.users[row["user_id"]] = row
        return row

    def passenger(self) -> dict:
        first, last = draw_name(self.draw)
        return {"first_name": first, "last_name": last, "dob": draw_birthday(self.draw)}

    def route(self) -> tuple[str, str]:
        """Two airports that no other trip of this world connects."""
        taken = {(row["origin"], row["destination"]) for row in self.flights.values()}
        while True:
            origin, destination = self.draw.sample(CODES, 2)
            if (origin, destination) not in taken:
                return origin, destination

    def flight(self, origin: str, destination: str, days: dict[int, str]) -> dict:
        """A flight with a status for each day of May 2024."""
        draw = self.draw
        number = self._free(self.flights, lambda: f"HAT{draw.between(1, 299):03d}")
        hour = draw.between(16 if set(WAITING) & set(days.values()) else 5, 18)
        row = {
            "flight_number": number,
            "origin": origin,
            "destination": destination,
            "scheduled_departure_time_est": f"{hour:02d}:{draw.below(12) * 5:02d}:00",
            "scheduled_arrival_time_est": f"{hour + draw.between(2, 5):02d}:{draw.below(12) * 5:02d}:00",
            "dates": {},
        }
        for day, status in days.items():
            row["dates"][date(day)] = self._date_row(row, day, status)
        self.flights[number] = row
        return row

    def reservation(
        self,
        user: dict,
        flights: list[tuple[dict, int]],
        cabin: str,
        passengers: int = 1,
        insurance: bool = False,
        hours_ago: int | None = None,
        bags: int = 0,
    ) -> dict:
        """A reservation of (flight, day) pairs, paid with the credit card and made `hours_ago`.

        The default is days ago, before its first flight.
        """
        draw = self.draw
        if hours_ago is None:
            hours_ago = draw.between(max(30, _hours_since(*flights[0]) + 2), 300)
        own = {**user["name"], "dob": user["dob"]}
        segments = []
        for flight, day in flights:
            offer = flight["dates"][date(day)]
            price = offer["prices"][cabin] if "prices" in offer else draw.between(*PRICES[cabin])
            # A booking of days ago cost something else than today's offer.
            price = max(PRICES[cabin][0], price - draw.between(1, 20))
            segment = {"flight_number": flight["flight_number"], "origin": flight["origin"]}
            segments.append({**segment, "destination": flight["destination"], "date": date(day), "price": price})
        total = sum(segment["price"] for segment in segments) * passengers + (30 * passengers if insurance else 0)
        free = FREE_BAGS[user["membership"]][cabin] * passengers
        paid_bags = max(0, bags - free)
        card = next(name for name in user["payment_methods"] if name.startswith("credit_card"))
        one_way = len(segments) == 1
        row = {
            "reservation_id": self._free(self.reservations, self._code),
            "user_id": user["user_id"],
            "origin": segments[0]["origin"],
            "destination": segments[0]["destination"],
            "flight_type": "one_way" if one_way else "round_trip",
            "cabin": cabin,
            "flights": segments,
            "passengers": [own, *(self.passenger() for _ in range(passengers - 1))],
            "payment_history": [{"payment_id": card, "amount": total + 50 * paid_bags}],
            "created_at": _ago(hours_ago, draw),
            "total_baggages": bags,
            "nonfree_baggages": paid_bags,
            "insurance": "yes" if insurance else "no",
            "status": None,
        }
        self.reservations[row["reservation_id"]] = row
        user["reservations"].append(row["reservation_id"])
        return row

    def setting(self) -> Setting:
        tables = {"flights": self.flights, "users": self.users, "reservations": self.reservations}
        return Setting(AIRLINE, Base(tables, SHAPES), None, POLICY)

    def _code(self) -> str:
        return "".join(self.draw.pick(LETTERS) if place % 2 else self.draw.digits(1) for place in range(6))

    @staticmethod
    def _free(rows: dict, make) -> str:
        """A key that is not taken; new bookings of an episode get names of their own, which have no digits."""
        key = make()
        while key in rows:
            key = make()
        return key

    def _date_row(self, flight: dict, day: int, status: str) -> dict:
        departs = f"{date(day)}T{flight['scheduled_departure_time_est']}"
        arrives = f"{date(day)}T{flight['scheduled_arrival_time_est']}"
        if status == "available":
            draw = self.draw
            return {
                "status": status,
                "available_seats": {cabin: draw.between(6, 20) for cabin in PRICES},
                "prices": {cabin: draw.between(*bounds) for cabin, bounds in PRICES.items()},
            }
        if status == "landed":
            return {"status": status, "actual_departure_time_est": departs, "actual_arrival_time_est": arrives}
        if status == "cancelled":
            return {"status": status}
        return {"status": status, "estimated_departure_time_est": departs, "estimated_arrival_time_est": arrives}


def date(day: int) -> str:
    return f"2024-05-{day:02d}"


def _hours_since(flight: dict, day: int) -> int:
    """From a flight's departure to the clock; negative for one to come."""
    return NOW - 24 * day - int(flight["scheduled_departure_time_est"][:2])


def _ago(hours: int, draw: Draw) -> str:
    """The moment so many hours before the clock; up to two weeks."""
    whole = NOW - hours
    return f"2024-05-{whole // 24:02d}T{whole % 24:02d}:{draw.below(60):02d}:{draw.below(60):02d}"
