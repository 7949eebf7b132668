"""Small telecom databases: plans, customers with lines, devices and bills, and the phone. It is 2025-02-25."""

from lib.grpo.domains import TELECOM
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.people import draw_address, draw_birthday, draw_name
from lib.grpo.task import Setting
from lib.grpo.worlds.store import LIST, Base
from lib.grpo.worlds.telecom_data import KEYS, read_phone

# Name -> gigabytes a month.
PLANS = {"Basic": 5, "Plus": 15, "Family": 25, "Max": 60}
DEVICE_TYPES = ("phone", "tablet", "watch", "router")
MODELS = {"phone": "Aura 5", "tablet": "Slate 10", "watch": "Orbit 2", "router": "Hub 300"}
# Month -> its days in bills; the last is not due yet.
MONTHS = {
    "October": ("2024-10-01", "2024-10-31", "2024-10-15"),
    "November": ("2024-11-01", "2024-11-30", "2024-11-15"),
    "December": ("2024-12-01", "2024-12-31", "2024-12-15"),
    "January": ("2025-01-01", "2025-01-31", "2025-01-15"),
    "February": ("2025-02-01", "2025-02-28", "2025-03-05"),
}
LAST_MONTH = "January"
ENDED = "2025-01-31"
# Most gigabytes that may be added at once.
MOST_GB = 2
POLICY = """You are a telecom agent. The current time is 2025-02-25 12:00:00 EST.
You help customers with their lines, data and bills, and with trouble on their phones.

- Ask for the phone number first and look up the customer. If the user does not know it, use full name and date of \
birth. Help only with this customer's lines and bills; deny requests about other people's.
- A request is about the line with the number given, unless the user says otherwise. Look at the line before you act.
- Before every change of a line and every payment request name the number of the line or the id of the bill, and the \
price, and get the user's yes. After a payment the line may be resumed without asking again.
- Deny what these rules do not allow. There are no discounts, credits or refunds; charges are not removed; plans \
cannot be changed.
- Transfer to a human agent only if the user asks for one, a phone or SIM was lost or stolen, the SIM is locked (PIN \
or PUK), the bill in question is Disputed, the contract_end_date of a suspended line is over, or the account_status \
is not Active. To transfer call transfer_to_human_agents, then write "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. \
PLEASE HOLD ON."

Data: when data used reaches the plan's limit plus refueled data, mobile data stops. Ask how much to refuel: at most \
2 GB, at the plan's price per GB. Only for Active lines.
Roaming: switched on or off for Active lines, free of charge.
Bills: send a payment request only for an Overdue bill, one at a time; the user checks and pays it on the phone.
Suspend: Active lines, for at most 6 months, 5 dollars a month. Ask for reason and months.
Resume a Suspended line only when all bills of the customer that were Overdue are Paid; then the phone must be \
rebooted. A Closed line stays closed.

Trouble on the phone: look at the line first; if it is about mobile data or picture messages, look at the data usage \
too, and ask whether the user is abroad: then roaming must be on for the line. After that let the user check and \
repair in this order until it works, and change only what a check shows or the user says to be wrong.
- No service: network status: airplane mode on -> turn it off; SIM missing -> re-seat the SIM card. APN settings: \
name not "internet" -> reset the APN settings and reboot.
- No mobile data: first service. Network status: data roaming off -> turn it on if the user is abroad, at home leave \
it; mobile data off -> turn it on.
- Slow data: first mobile data. Data saver on -> turn it off. Network mode preference must be 4g_5g_preferred. VPN \
with poor performance -> disconnect it.
- Picture messages (MMS): first mobile data; network type 2G -> set the network mode to 4g_5g_preferred. Wi-Fi \
calling on -> turn it off. APN settings: MMSC URL not set -> reset the APN settings and reboot. The messaging app \
needs the permissions sms and storage."""
SHAPES = dict.fromkeys(KEYS, LIST)
# As after a search of the network: looking for one again changes nothing.
PHONE = read_phone({"device": {"network_signal_strength": "excellent"}})


class TelecomWorld:
    """Tables under construction; every method adds rows and returns them.

    Prices end in quarters of a dollar that are no halves, and so do their sums of three: in every way of writing an
    amount it has the same digits.
    """

    def __init__(self, draw: Draw):
        self.draw = draw
        self.tables: dict[str, dict[str, dict]] = {table: {} for table in KEYS}
        self.numbers: set[str] = set()
        for name, gigabytes in PLANS.items():
            plan_id = self._new("plans", "P")
            self.tables["plans"][plan_id] = {
                "plan_id": plan_id,
                "name": f"{name} Plan",
                "data_limit_gb": float(gigabytes),
                "price_per_month": self.amount(20, 40) + gigabytes,
                "data_refueling_price_per_gb": draw.between(1, 6) + 0.5,
            }

    def customer(self, name: tuple[str, str] | None = None) -> dict:
        """A customer with one line, their phone, whose number is also the contact number."""
        draw = self.draw
        first, last = name or draw_name(draw)
        address = draw_address(draw)
        customer_id = self._new("customers", "C")
        row = {
            "customer_id": customer_id,
            "full_name": f"{first} {last}",
            "date_of_birth": draw_birthday(draw),
            "email": f"{first.lower()}.{last.lower()}{draw.digits(3)}@example.com",
            "phone_number": "",
            "address": {
                "street": address["address1"],
                "city": address["city"],
                "state": address["state"],
                "zip_code": address["zip"],
            },
            "account_status": "Active",
            "payment_methods": [
                {"method_type": "Credit Card", "account_number_last_4": draw.digits(4), "expiration_date": "12/2027"}
            ],
            "line_ids": [],
            "bill_ids": [],
            "created_at": f"{draw.between(2018, 2023)}-06-{draw.between(10, 28)} 10:00:00",
            "last_extension_date": None,
            "goodwill_credit_used_this_year": 0.0,
        }
        self.tables["customers"][customer_id] = row
        row["phone_number"] = self.line(row, "phone")["phone_number"]
        return row

    def line(self, customer: dict, device_type: str) -> dict:
        """An active line with data left, anywhere among the customer's lines."""
        draw = self.draw
        plan = draw.pick(tuple(self.tables["plans"].values()))
        device_id, line_id = self._new("devices", "D"), self._new("lines", "L")
        self.tables["devices"][device_id] = {
            "device_id": device_id,
            "device_type": device_type,
            "model": MODELS[device_type],
            "imei": draw.digits(15),
            "is_esim_capable": draw.chance(0.5),
            "activated": True,
            "activation_date": "2024-03-01 09:00:00",
            "last_esim_transfer_date": None,
        }
        row = {
            "line_id": line_id,
            "phone_number": self._number(),
            "status": "Active",
            "plan_id": plan["plan_id"],
            "device_id": device_id,
            # Tenths that are no halves: what is left never is a whole number of gigabytes.
            "data_used_gb": draw.below(int(plan["data_limit_gb"]) - 1) + draw.pick((1, 2, 3, 4, 6, 7, 8, 9)) / 10,
            "data_refueling_gb": draw.pick((0.0, 0.0, 0.5, 1.5)),
            "roaming_enabled": False,
            "contract_end_date": f"2026-{draw.between(1, 12):02d}-{draw.between(10, 28)}",
            "last_plan_change_date": None,
            "last_sim_replacement_date": None,
            "suspension_start_date": None,
        }
        self.tables["lines"][line_id] = row
        customer["line_ids"].insert(draw.below(len(customer["line_ids"]) + 1), line_id)
        return row

    def bill(self, customer: dict, month: str, status: str = "Paid") -> dict:
        """A bill with one or two charges."""
        start, end, due = MONTHS[month]
        bill_id = self._new("bills", "B")
        charges = [("Plan charges", self.amount(30, 90))]
        if self.draw.chance(0.5):
            charges.append(("Calls to other countries", float(self.draw.between(3, 30))))
        row = {
            "bill_id": bill_id,
            "customer_id": customer["customer_id"],
            "period_start": start,
            "period_end": end,
            "issue_date": start,
            "total_due": sum(amount for _, amount in charges),
            "due_date": due,
            "line_items": [
                {"description": text, "amount": amount, "date": start, "item_type": "Charge"}
                for text, amount in charges
            ],
            "status": status,
        }
        self.tables["bills"][bill_id] = row
        customer["bill_ids"].append(bill_id)
        return row

    def amount(self, low: int, high: int) -> float:
        """Dollars with a quarter, or three."""
        return self.draw.between(low, high) + self.draw.pick((0.25, 0.75))

    def plan(self, line: dict) -> dict:
        return self.tables["plans"][line["plan_id"]]

    def device_type(self, line: dict) -> str:
        return self.tables["devices"][line["device_id"]]["device_type"]

    def setting(self) -> Setting:
        return Setting(TELECOM, Base(self.tables, SHAPES), PHONE, POLICY)

    def _new(self, table: str, letter: str) -> str:
        key = letter + self.draw.digits(4)
        while key in self.tables[table]:
            key = letter + self.draw.digits(4)
        return key

    def _number(self) -> str:
        """A phone number whose last four digits nobody else has."""
        ending = self.draw.digits(4)
        while ending in self.numbers:
            ending = self.draw.digits(4)
        self.numbers.add(ending)
        return f"555-{self.draw.digits(3)}-{ending}"
