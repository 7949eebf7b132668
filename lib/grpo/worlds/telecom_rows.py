"""Look-ups and bookings in the telecom provider's tables, shared by the agent's tools and `synchronise`.

Every date of the benchmark's telecom world hangs on its fixed today, 2025-02-25.
"""

from lib.grpo.worlds.store import Database, Row
from lib.grpo.worlds.telecom_data import KEYS
from lib.grpo.worlds.tools import ToolError

TODAY = "2025-02-25"
END_OF_CYCLE = "2025-02-28"
LAST_MONTH = {
    "period_start": "2025-01-01",
    "period_end": "2025-01-31",
    "issue_date": "2025-01-01",
    "due_date": "2025-01-15",
}
NEXT_MONTH = {
    "period_start": "2025-03-01",
    "period_end": "2025-03-31",
    "issue_date": "2025-03-01",
    "due_date": "2025-03-15",
}


def get_row(db: Database, table: str, key: str) -> Row:
    row = db.find(table, key)
    if row is None:
        raise ToolError(f"{KEYS[table].removesuffix('_id').capitalize()} with ID {key} not found")
    return row


def line_of_number(db: Database, phone_number: str) -> Row:
    for _, line in db.rows("lines"):
        if line["phone_number"] == phone_number:
            return line
    raise ToolError(f"Line with phone number {phone_number} not found")


def customer_of_number(db: Database, phone_number: str) -> Row:
    """By the contact number or that of any line; the first customer wins."""
    for _, customer in db.rows("customers"):
        if customer["phone_number"] == phone_number:
            return customer
        if any(get_row(db, "lines", line_id)["phone_number"] == phone_number for line_id in customer["line_ids"]):
            return customer
    raise ToolError(f"Customer with phone number {phone_number} not found")


def line_of_customer(db: Database, customer_id: str, line_id: str) -> Row:
    if line_id not in get_row(db, "customers", customer_id)["line_ids"]:
        raise ToolError(f"Line {line_id} not found for customer {customer_id}")
    return get_row(db, "lines", line_id)


def bills_with_status(db: Database, customer: Row, status: str) -> list[Row]:
    """In the order of the customer's list of bills."""
    bills = [get_row(db, "bills", bill_id) for bill_id in customer["bill_ids"]]
    return [bill for bill in bills if bill["status"] == status]


def add_bill(db: Database, customer_id: str, bill_id: str, status: str, dates: dict[str, str]) -> Row:
    """A new bill over nothing, listed with its customer."""
    row = {
        "bill_id": bill_id,
        "customer_id": customer_id,
        "period_start": dates["period_start"],
        "period_end": dates["period_end"],
        "issue_date": dates["issue_date"],
        "total_due": 0.0,
        "due_date": dates["due_date"],
        "line_items": [],
        "status": status,
    }
    db.edit("customers", customer_id)["bill_ids"].append(bill_id)
    return db.insert("bills", bill_id, row)


def add_charge(bill: Row, amount: float, description: str) -> None:
    """Put a charge (a credit, when negative) on a bill that may be changed."""
    kind = "Credit" if amount < 0 else "Charge"
    bill["line_items"].append({"description": description, "amount": amount, "date": TODAY, "item_type": kind})
    bill["total_due"] += amount


def draft_bill(db: Database, customer_id: str) -> Row:
    """The customer's bill of the next cycle, to be changed; made when there is none."""
    for bill_id in get_row(db, "customers", customer_id)["bill_ids"]:
        if get_row(db, "bills", bill_id)["status"] == "Draft":
            return db.edit("bills", bill_id)
    # The benchmark draws a random id. This one depends on the customer only, so that equal actions end in equal states.
    count = 1
    while db.find("bills", f"B-{customer_id}-{count}"):
        count += 1
    return add_bill(db, customer_id, f"B-{customer_id}-{count}", "Draft", NEXT_MONTH)
