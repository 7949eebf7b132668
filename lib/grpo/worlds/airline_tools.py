"""The airline agent's tools, with the names, arguments and effects of tau2-bench's airline domain (version 1.0.1).

What the policy forbids but the tools do not check stays unchecked here: to know the policy is the agent's task.
"""

from typing import Literal, TypedDict

from lib.grpo.worlds.store import Row
from lib.grpo.worlds.tools import READ, WRITE, CalculatingToolkit, ToolError, tool

NOW = "2024-05-15T15:00:00"
INSURANCE_FEE = 30
BAG_FEE = 50
# An episode makes at most three bookings and hands out at most three certificates.
NEW_RESERVATIONS = ("HATHAT", "HATHAU", "HATHAV")
NEW_CERTIFICATES = ("certificate_3221322", "certificate_3221323", "certificate_3221324")
AIRPORTS = {
    "SFO": "San Francisco",
    "JFK": "New York",
    "LAX": "Los Angeles",
    "ORD": "Chicago",
    "DFW": "Dallas",
    "DEN": "Denver",
    "SEA": "Seattle",
    "ATL": "Atlanta",
    "MIA": "Miami",
    "BOS": "Boston",
    "PHX": "Phoenix",
    "IAH": "Houston",
    "LAS": "Las Vegas",
    "MCO": "Orlando",
    "EWR": "Newark",
    "CLT": "Charlotte",
    "MSP": "Minneapolis",
    "DTW": "Detroit",
    "PHL": "Philadelphia",
    "LGA": "LaGuardia",
}

FlightType = Literal["round_trip", "one_way"]
Cabin = Literal["business", "economy", "basic_economy"]
YesNo = Literal["yes", "no"]


class FlightInfo(TypedDict):
    flight_number: str
    date: str


class Passenger(TypedDict):
    first_name: str
    last_name: str
    dob: str


class Payment(TypedDict):
    payment_id: str
    amount: int


class AirlineTools(CalculatingToolkit):
    """Tables `flights`, `users`, `reservations`."""

    @tool(WRITE)
    def book_reservation(
        self,
        user_id: str,
        origin: str,
        destination: str,
        flight_type: FlightType,
        cabin: Cabin,
        flights: list[FlightInfo],
        passengers: list[Passenger],
        payment_methods: list[Payment],
        total_baggages: int,
        nonfree_baggages: int,
        insurance: YesNo,
    ) -> Row:
        """Book a reservation. The payments must add up to the total price exactly.

        Args:
            user_id: Who books, such as 'sara_doe_496'.
            origin: Airport code, such as 'SFO'.
            destination: Airport code, such as 'JFK'.
            flight_type: 'one_way' or 'round_trip'.
            cabin: Class of all flights.
            flights: Every flight, in order.
            passengers: Every passenger.
            payment_methods: Methods of the user's profile, with amounts in dollars.
            total_baggages: Number of checked bags.
            nonfree_baggages: Number of those that are paid.
            insurance: Whether to buy travel insurance.
        """
        self._user(user_id)
        reservation_id = next((name for name in NEW_RESERVATIONS if not self.db.find("reservations", name)), None)
        if reservation_id is None:
            raise ToolError("Too many reservations")
        count = len(passengers)
        segments = [self._segment(flight, cabin, count) for flight in flights]
        total = sum(segment["price"] for segment in segments) * count
        total += INSURANCE_FEE * count if insurance == "yes" else 0
        total += BAG_FEE * nonfree_baggages
        payments = [_fields(payment, payment_id=str, amount=int) for payment in payment_methods]
        self._pay_booking(user_id, payments, total)
        for flight in flights:
            self.db.edit("flights", flight["flight_number"])["dates"][flight["date"]]["available_seats"][cabin] -= count
        self.db.edit("users", user_id)["reservations"].append(reservation_id)
        row = {
            "reservation_id": reservation_id,
            "user_id": user_id,
            "origin": origin,
            "destination": destination,
            "flight_type": flight_type,
            "cabin": cabin,
            "flights": segments,
            "passengers": [_passenger(passenger) for passenger in passengers],
            "payment_history": payments,
            "created_at": NOW,
            "total_baggages": int(total_baggages),
            "nonfree_baggages": int(nonfree_baggages),
            "insurance": insurance,
            "status": None,
        }
        return self.db.insert("reservations", reservation_id, row)

    @tool(WRITE)
    def cancel_reservation(self, reservation_id: str) -> Row:
        """Cancel the whole reservation.

        Args:
            reservation_id: Such as 'ZFA04Y'.
        """
        self._reservation(reservation_id)
        row = self.db.edit("reservations", reservation_id)
        history = row["payment_history"]
        history += [{"payment_id": paid["payment_id"], "amount": -paid["amount"]} for paid in history]
        row["status"] = "cancelled"
        return row

    @tool(READ)
    def get_reservation_details(self, reservation_id: str) -> Row:
        """Get the details of a reservation.

        Args:
            reservation_id: Such as '8JX2WO'.
        """
        return self._reservation(reservation_id)

    @tool(READ)
    def get_user_details(self, user_id: str) -> Row:
        """Get the profile of a user: membership, payment methods, reservation ids.

        Args:
            user_id: Such as 'sara_doe_496'.
        """
        return self._user(user_id)

    @tool(READ)
    def list_all_airports(self) -> list[Row]:
        """List all airports with their cities."""
        return [{"iata": iata, "city": city} for iata, city in AIRPORTS.items()]

    @tool(READ)
    def search_direct_flight(self, origin: str, destination: str, date: str) -> list[Row]:
        """Search available direct flights between two airports on a date.

        Args:
            origin: Airport code, such as 'JFK'.
            destination: Airport code, such as 'LAX'.
            date: YYYY-MM-DD.
        """
        return self._direct_flights(date, origin, destination)

    @tool(READ)
    def search_onestop_flight(self, origin: str, destination: str, date: str) -> list[list[Row]]:
        """Search available connections with one stop between two airports on a date.

        Args:
            origin: Airport code, such as 'JFK'.
            destination: Airport code, such as 'LAX'.
            date: YYYY-MM-DD.
        """
        found = []
        for first in self._direct_flights(date, origin):
            arrival, second_date = first["scheduled_arrival_time_est"], date
            if "+1" in arrival:
                if not date[-2:].isdecimal():
                    raise ToolError(f"Invalid date {date}")
                # As in the benchmark: always May, not padded.
                second_date = f"2024-05-{int(date[-2:]) + 1}"
            first = {**first, "date": date}
            for second in self._direct_flights(second_date, first["destination"], destination, arrival):
                found.append([first, {**second, "date": second_date}])
        return found

    @tool(WRITE)
    def send_certificate(self, user_id: str, amount: int) -> str:
        """Send a travel certificate to a user. Be careful!

        Args:
            user_id: Such as 'sara_doe_496'.
            amount: Dollars.
        """
        methods = self._user(user_id)["payment_methods"]
        name = next((name for name in NEW_CERTIFICATES if name not in methods), None)
        if name is None:
            raise ToolError("Too many certificates")
        certificate = {"source": "certificate", "id": name, "amount": float(amount)}
        self.db.edit("users", user_id)["payment_methods"][name] = certificate
        return f"Certificate {name} added to user {user_id} with amount {amount}."

    @tool(WRITE)
    def update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> Row:
        """Change the number of checked bags of a reservation; added paid bags cost 50 dollars each.

        Args:
            reservation_id: Such as 'ZFA04Y'.
            total_baggages: New total number of bags.
            nonfree_baggages: New number of paid bags.
            payment_id: A gift card or credit card of the profile, such as 'gift_card_7815826'.
        """
        before = self._reservation(reservation_id)
        price = BAG_FEE * max(0, nonfree_baggages - before["nonfree_baggages"])
        payment = self._pay_update(before["user_id"], payment_id, price)
        row = self.db.edit("reservations", reservation_id)
        row["payment_history"] += payment
        row["total_baggages"] = total_baggages
        row["nonfree_baggages"] = nonfree_baggages
        return row

    @tool(WRITE)
    def update_reservation_flights(
        self, reservation_id: str, cabin: Cabin, flights: list[FlightInfo], payment_id: str
    ) -> Row:
        """Change flights or cabin of a reservation; the price difference is paid or refunded.

        Args:
            reservation_id: Such as 'ZFA04Y'.
            cabin: The cabin of all flights.
            flights: EVERY flight of the new reservation, unchanged ones too.
            payment_id: A gift card or credit card of the profile, such as 'gift_card_7815826'.
        """
        before = self._reservation(reservation_id)
        count = len(before["passengers"])
        kept = {}
        if cabin == before["cabin"]:
            for segment in reversed(before["flights"]):
                kept[segment["flight_number"], segment["date"]] = segment
        segments = []
        for flight in flights:
            segment = kept.get((flight["flight_number"], flight["date"]))
            segments.append(dict(segment) if segment else self._segment(flight, cabin, count))
        difference = (sum(s["price"] for s in segments) - sum(s["price"] for s in before["flights"])) * count
        payment = self._pay_update(before["user_id"], payment_id, difference)
        row = self.db.edit("reservations", reservation_id)
        row["payment_history"] += payment
        row["flights"] = segments
        row["cabin"] = cabin
        return row

    @tool(WRITE)
    def update_reservation_passengers(self, reservation_id: str, passengers: list[Passenger]) -> Row:
        """Change the passengers of a reservation; their number stays.

        Args:
            reservation_id: Such as 'ZFA04Y'.
            passengers: Every passenger, unchanged ones too.
        """
        if len(passengers) != len(self._reservation(reservation_id)["passengers"]):
            raise ToolError("Number of passengers does not match")
        row = self.db.edit("reservations", reservation_id)
        row["passengers"] = [_passenger(passenger) for passenger in passengers]
        return row

    @tool(READ)
    def get_flight_status(self, flight_number: str, date: str) -> str:
        """Get the status of a flight.

        Args:
            flight_number: Such as 'HAT001'.
            date: YYYY-MM-DD.
        """
        return self._flight_date(flight_number, date)["status"]

    # Look-ups and payments.

    def _user(self, user_id: str) -> Row:
        row = self.db.find("users", user_id)
        if row is None:
            raise ToolError(f"User {user_id} not found")
        return row

    def _reservation(self, reservation_id: str) -> Row:
        row = self.db.find("reservations", reservation_id)
        if row is None:
            raise ToolError(f"Reservation {reservation_id} not found")
        return row

    def _flight_date(self, flight_number: str, date: str) -> Row:
        flight = self.db.find("flights", flight_number)
        if flight is None:
            raise ToolError(f"Flight {flight_number} not found")
        if date not in flight["dates"]:
            raise ToolError(f"Flight {flight_number} not found on date {date}")
        return flight["dates"][date]

    def _segment(self, flight: FlightInfo, cabin: str, seats: int) -> Row:
        """The row of a flight that is booked today. Raises ToolError when it is not available or full."""
        number, date = flight["flight_number"], flight["date"]
        offer = self._flight_date(number, date)
        if offer["status"] != "available":
            raise ToolError(f"Flight {number} not available on date {date}")
        if offer["available_seats"].get(cabin, 0) < seats or cabin not in offer["prices"]:
            raise ToolError(f"Not enough seats on flight {number}")
        row = self.db.find("flights", number)
        return {
            "flight_number": number,
            "origin": row["origin"],
            "destination": row["destination"],
            "date": date,
            "price": offer["prices"][cabin],
        }

    def _direct_flights(
        self, date: str, origin: str, destination: str | None = None, leave_after: str | None = None
    ) -> list[Row]:
        found = []
        for number, row in self.db.rows("flights"):
            if row["origin"] != origin or (destination is not None and row["destination"] != destination):
                continue
            offer = row["dates"].get(date)
            if offer is None or offer["status"] != "available":
                continue
            if leave_after is not None and row["scheduled_departure_time_est"] < leave_after:
                continue
            found.append(
                {
                    "flight_number": number,
                    "origin": row["origin"],
                    "destination": row["destination"],
                    "status": "available",
                    "scheduled_departure_time_est": row["scheduled_departure_time_est"],
                    "scheduled_arrival_time_est": row["scheduled_arrival_time_est"],
                    "date": None,
                    "available_seats": offer["available_seats"],
                    "prices": offer["prices"],
                }
            )
        return found

    def _pay_booking(self, user_id: str, payments: list[Payment], total: int) -> None:
        methods = self._user(user_id)["payment_methods"]
        for payment in payments:
            name = payment["payment_id"]
            if name not in methods:
                raise ToolError(f"Payment method {name} not found")
            if methods[name]["source"] != "credit_card" and methods[name]["amount"] < payment["amount"]:
                raise ToolError(f"Not enough balance in payment method {name}")
        paid = sum(payment["amount"] for payment in payments)
        if paid != total:
            raise ToolError(f"Payment amount does not add up, total price is {total}, but paid {paid}")
        methods = self.db.edit("users", user_id)["payment_methods"]
        for payment in payments:
            method = methods.get(payment["payment_id"])
            if method is None:
                raise ToolError(f"Payment method {payment['payment_id']} not found")
            if method["source"] == "gift_card":
                method["amount"] -= payment["amount"]
            elif method["source"] == "certificate":
                # A certificate is used up whole.
                del methods[payment["payment_id"]]

    def _pay_update(self, user_id: str, payment_id: str, price: int) -> list[Row]:
        """Charge (or, when negative, refund) `price`; the entries for the payment history, none for 0 dollars."""
        method = self._user(user_id)["payment_methods"].get(payment_id)
        if method is None:
            raise ToolError("Payment method not found")
        if method["source"] == "certificate":
            raise ToolError("Certificate cannot be used to update reservation")
        if method["source"] == "gift_card":
            if method["amount"] < price:
                raise ToolError("Gift card balance is not enough")
            self.db.edit("users", user_id)["payment_methods"][payment_id]["amount"] -= price
        return [{"payment_id": payment_id, "amount": int(price)}] if price else []


def _fields(row: dict, **kinds: type) -> Row:
    """The named fields of an object that a model wrote; it may have written more."""
    return {name: kind(row[name]) for name, kind in kinds.items()}


def _passenger(row: Passenger) -> Row:
    return _fields(row, first_name=str, last_name=str, dob=str)
