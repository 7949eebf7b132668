"""The telecom agent's tools, with the names, arguments and effects of tau2-bench's telecom domain (version 1.0.1).

What the policy forbids but the tools do not check stays unchecked here: to know the policy is the agent's task. Methods
without `@tool` are the initialisation functions and assertions that tasks name.
"""

from lib.grpo.worlds.phone_network import set_fields
from lib.grpo.worlds.phone_tools import PhoneTools
from lib.grpo.worlds.store import Row
from lib.grpo.worlds.telecom_rows import (
    END_OF_CYCLE,
    LAST_MONTH,
    TODAY,
    add_bill,
    add_charge,
    bills_with_status,
    customer_of_number,
    draft_bill,
    get_row,
    line_of_customer,
    line_of_number,
)
from lib.grpo.worlds.tools import READ, WRITE, ServiceToolkit, ToolError, tool

# First letter of an id -> table.
TABLES = {"L": "lines", "D": "devices", "B": "bills", "C": "customers", "P": "plans"}


class TelecomTools(ServiceToolkit):
    """Tables `plans`, `customers`, `lines`, `bills`, `devices`."""

    @tool(READ)
    def get_customer_by_phone(self, phone_number: str) -> Row:
        """Find a customer by the contact number or the number of a line.

        Args:
            phone_number: Such as '555-123-2002'.
        """
        return customer_of_number(self.db, phone_number)

    @tool(READ)
    def get_customer_by_id(self, customer_id: str) -> Row:
        """Get a customer by id.

        Args:
            customer_id: Such as 'C1001'.
        """
        return get_row(self.db, "customers", customer_id)

    @tool(READ)
    def get_customer_by_name(self, full_name: str, dob: str) -> list[Row]:
        """Find customers by name and date of birth; the list may be empty.

        Args:
            full_name: First and last name.
            dob: Date of birth, YYYY-MM-DD.
        """
        name = full_name.lower()
        rows = (row for _, row in self.db.rows("customers"))
        return [row for row in rows if row["full_name"].lower() == name and row["date_of_birth"] == dob]

    @tool(READ)
    def get_details_by_id(self, id: str) -> Row:
        """Get the details of a customer, line, device, bill or plan.

        Args:
            id: Starts with C, L, D, B or P, such as 'L1002'.
        """
        table = TABLES.get(id[:1])
        if table is None:
            raise ToolError(f"Unknown ID format or type: {id}")
        return get_row(self.db, table, id)

    @tool(WRITE)
    def suspend_line(self, customer_id: str, line_id: str, reason: str) -> Row:
        """Suspend an active line, for at most 6 months; a holding fee of 5 dollars a month applies.

        Args:
            customer_id: The owner of the line.
            line_id: Such as 'L1002'.
            reason: Why the line is suspended.
        """
        if line_of_customer(self.db, customer_id, line_id)["status"] != "Active":
            raise ToolError("Line must be active to suspend")
        line = self._suspend(line_id)
        return {"message": "Line suspended successfully. $5/month holding fee will apply.", "line": line}

    @tool(WRITE)
    def resume_line(self, customer_id: str, line_id: str) -> Row:
        """Make a line active that is suspended or pending activation.

        Args:
            customer_id: The owner of the line.
            line_id: Such as 'L1002'.
        """
        if line_of_customer(self.db, customer_id, line_id)["status"] not in ("Suspended", "Pending Activation"):
            raise ToolError("Line must be suspended to resume")
        line = self.db.edit("lines", line_id)
        line["status"] = "Active"
        line["suspension_start_date"] = None
        return {"message": "Line resumed successfully", "line": line}

    @tool(READ)
    def get_bills_for_customer(self, customer_id: str, limit: int = 12) -> list[Row]:
        """Get the bills of a customer, newest first.

        Args:
            customer_id: Such as 'C1001'.
            limit: The largest number of bills to return.
        """
        bills = [get_row(self.db, "bills", name) for name in get_row(self.db, "customers", customer_id)["bill_ids"]]
        return sorted(bills, key=lambda bill: bill["issue_date"], reverse=True)[: int(limit)]

    @tool(WRITE)
    def send_payment_request(self, customer_id: str, bill_id: str) -> str:
        """Ask the customer to pay a bill; it becomes 'Awaiting Payment'. Only one bill may await payment at a time.
        Whether the bill is overdue or already paid is NOT checked: look first.

        Args:
            customer_id: The owner of the bill.
            bill_id: Such as 'B1002'.
        """
        customer = get_row(self.db, "customers", customer_id)
        if bills_with_status(self.db, customer, "Awaiting Payment"):
            raise ToolError("A bill is already awaiting payment for this customer")
        if bill_id not in customer["bill_ids"]:
            raise ToolError(f"Bill {bill_id} not found for customer {customer_id}")
        self.db.edit("bills", bill_id)["status"] = "Awaiting Payment"
        return f"Payment request sent to the customer for bill {bill_id}"

    @tool(READ)
    def get_data_usage(self, customer_id: str, line_id: str) -> dict[str, str]:
        """Get the data usage of a line in this billing cycle: used, limit of the plan, refueled, end of the cycle.

        Args:
            customer_id: The owner of the line.
            line_id: Such as 'L1002'.
        """
        line = line_of_customer(self.db, customer_id, line_id)
        plan = get_row(self.db, "plans", line["plan_id"])
        # Numbers as text: the form in which the benchmark shows them here.
        return {
            "line_id": line_id,
            "data_used_gb": str(line["data_used_gb"]),
            "data_limit_gb": str(plan["data_limit_gb"]),
            "data_refueling_gb": str(line["data_refueling_gb"]),
            "cycle_end_date": END_OF_CYCLE,
        }

    @tool(WRITE)
    def enable_roaming(self, customer_id: str, line_id: str) -> str:
        """Enable international roaming on a line.

        Args:
            customer_id: The owner of the line.
            line_id: Such as 'L1002'.
        """
        return self._set_roaming(customer_id, line_id, True)

    @tool(WRITE)
    def disable_roaming(self, customer_id: str, line_id: str) -> str:
        """Disable international roaming on a line.

        Args:
            customer_id: The owner of the line.
            line_id: Such as 'L1002'.
        """
        return self._set_roaming(customer_id, line_id, False)

    @tool(WRITE)
    def refuel_data(self, customer_id: str, line_id: str, gb_amount: float) -> dict[str, str]:
        """Add data to a line; the plan's refueling price goes onto the customer's next bill.

        Args:
            customer_id: The owner of the line.
            line_id: Such as 'L1002'.
            gb_amount: Gigabytes to add, more than 0.
        """
        line = line_of_customer(self.db, customer_id, line_id)
        if gb_amount <= 0:
            raise ToolError("Refuel amount must be positive")
        price = get_row(self.db, "plans", line["plan_id"])["data_refueling_price_per_gb"]
        charge = gb_amount * price
        line = self.db.edit("lines", line_id)
        line["data_refueling_gb"] += gb_amount
        add_charge(draft_bill(self.db, customer_id), charge, f"Data refueling: {gb_amount} GB at ${price}/GB")
        return {
            "message": f"Successfully added {gb_amount} GB of data for line {line_id} for ${charge:.2f}",
            "new_data_refueling_gb": str(line["data_refueling_gb"]),
            "charge": str(charge),
        }

    # Initialisation functions of tasks.

    def set_data_usage(self, customer_id: str, line_id: str, data_used_gb: float) -> str:
        line = line_of_customer(self.db, customer_id, line_id)
        if type(data_used_gb) not in (int, float):
            raise ToolError(f"data_used_gb must be a number, got {data_used_gb!r}")
        if repr(line["data_used_gb"]) != repr(data_used_gb):
            self.db.edit("lines", line_id)["data_used_gb"] = data_used_gb
        return f"Data usage set to {data_used_gb} GB for line {line_id}"

    def suspend_line_for_overdue_bill(
        self, customer_id: str, line_id: str, new_bill_id: str, contract_ended: bool
    ) -> str:
        """The customer did not pay last month's bill for this line."""
        line = get_row(self.db, "lines", line_id)
        if line["status"] != "Active":
            raise ToolError("Line must be active to suspend for unpaid bill")
        amount = get_row(self.db, "plans", line["plan_id"])["price_per_month"]
        if amount <= 0:
            raise ToolError("Amount must be positive for overdue bill")
        if bills_with_status(self.db, get_row(self.db, "customers", customer_id), "Overdue"):
            raise ToolError("Customer already has an overdue bill")
        if type(new_bill_id) is not str or self.db.find("bills", new_bill_id):
            raise ToolError(f"{new_bill_id!r} cannot be the id of a new bill")
        bill = add_bill(self.db, customer_id, new_bill_id, "Overdue", LAST_MONTH)
        add_charge(bill, amount, f"Charge for line {line_id}")
        line = self._suspend(line_id)
        if contract_ended:
            line["contract_end_date"] = LAST_MONTH["period_end"]
        return f"Line {line_id} suspended for unpaid bill {new_bill_id}. Contract ended: {contract_ended}"

    # Assertions of tasks.

    def assert_data_refueling_amount(self, customer_id: str, line_id: str, expected_amount: float) -> bool:
        return abs(line_of_customer(self.db, customer_id, line_id)["data_refueling_gb"] - expected_amount) < 1e-6

    def assert_line_status(self, customer_id: str, line_id: str, expected_status: str) -> bool:
        return line_of_customer(self.db, customer_id, line_id)["status"] == expected_status

    def assert_overdue_bill_exists(self, customer_id: str, overdue_bill_id: str) -> bool:
        """As in the benchmark an error, not False, when it does not hold."""
        if overdue_bill_id not in get_row(self.db, "customers", customer_id)["bill_ids"]:
            raise ToolError(f"Overdue bill {overdue_bill_id} not found")
        if get_row(self.db, "bills", overdue_bill_id)["status"] != "Overdue":
            raise ToolError(f"Overdue bill {overdue_bill_id} is not overdue")
        return True

    def assert_no_overdue_bill(self, overdue_bill_id: str) -> bool:
        """The bill is paid, or there is no such bill."""
        bill = self.db.find("bills", overdue_bill_id)
        return bill is None or bill["status"] == "Paid"

    # Changes.

    def _suspend(self, line_id: str) -> Row:
        line = self.db.edit("lines", line_id)
        line["status"] = "Suspended"
        line["suspension_start_date"] = TODAY
        return line

    def _set_roaming(self, customer_id: str, line_id: str, enabled: bool) -> str:
        word = "enabled" if enabled else "disabled"
        if line_of_customer(self.db, customer_id, line_id)["roaming_enabled"] == enabled:
            return f"Roaming was already {word}"
        self.db.edit("lines", line_id)["roaming_enabled"] = enabled
        return f"Roaming {word} successfully"


def synchronise(agent: TelecomTools, phone: PhoneTools) -> None:
    """Carry over the state of the line to the phone's surroundings, and payments and requests for them.

    Nothing happens before the phone has a number. Raises ToolError when no line has that number.
    """
    seen = phone.db.find("surroundings", "")
    phone_number = seen["phone_number"]
    if phone_number is None:
        return
    line = line_of_number(agent.db, phone_number)
    limit = get_row(agent.db, "plans", line["plan_id"])["data_limit_gb"] + line["data_refueling_gb"]
    request = seen["payment_request"]
    if request is not None and request["paid"]:
        if get_row(agent.db, "bills", request["bill_id"])["status"] != "Paid":
            agent.db.edit("bills", request["bill_id"])["status"] = "Paid"
        request = None
    if request is None:
        customer = customer_of_number(agent.db, phone_number)
        for bill in bills_with_status(agent.db, customer, "Awaiting Payment")[:1]:
            request = {"bill_id": bill["bill_id"], "amount_due": bill["total_due"], "paid": False}
    set_fields(
        phone.db,
        "surroundings",
        line_active=line["status"] == "Active",
        roaming_allowed=line["roaming_enabled"],
        mobile_data_usage_exceeded=line["data_used_gb"] >= limit,
        payment_request=request,
    )
