"""The retail agent's tools, with the names, arguments and effects of tau2-bench's retail domain (version 1.0.1).

What the policy forbids but the tools do not check stays unchecked here: to know the policy is the agent's task.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Literal

from lib.grpo.worlds.store import Base, Row
from lib.grpo.worlds.tools import READ, WRITE, CalculatingToolkit, ToolError, tool

CancelReason = Literal["no longer needed", "ordered by mistake"]


class RetailTools(CalculatingToolkit):
    """Tables `products`, `users`, `orders`."""

    @tool(WRITE)
    def cancel_pending_order(self, order_id: str, reason: CancelReason) -> Row:
        """Cancel a pending order and refund its payments.

        Args:
            order_id: With the leading '#', such as '#W0000000'.
            reason: Why the user cancels.
        """
        before = self._row("orders", order_id)
        if before["status"] != "pending":
            raise ToolError(f"Order {order_id} is {before['status']}, only a pending order can be cancelled")
        refunds = []
        for paid in before["payment_history"]:
            refunds.append(_payment("refund", paid["amount"], paid["payment_method_id"]))
            self._move_money(before["user_id"], paid["payment_method_id"], paid["amount"])
        row = self.db.edit("orders", order_id)
        row["status"] = "cancelled"
        row["cancel_reason"] = reason
        row["payment_history"] += refunds
        return row

    @tool(WRITE)
    def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Row:
        """Exchange items of a delivered order for other items of the same products. Possible once per order.

        Args:
            order_id: With the leading '#', such as '#W0000000'.
            item_ids: EVERY item to give back, such as '1008292230'.
            new_item_ids: The new items, in the same order, each of the same product as the old one.
            payment_method_id: Pays or receives the price difference, such as 'gift_card_0000000'.
        """
        before = self._row("orders", order_id)
        if before["status"] != "delivered":
            raise ToolError(f"Order {order_id} is {before['status']}, only a delivered order can be exchanged")
        _, difference = self._new_items(before, item_ids, new_item_ids)
        difference = round(difference, 2)
        # A gift card is only checked: the money moves after the exchange.
        self._check_balance(before["user_id"], payment_method_id, difference)
        row = self.db.edit("orders", order_id)
        row["status"] = "exchange requested"
        row["exchange_items"] = sorted(item_ids)
        row["exchange_new_items"] = sorted(new_item_ids)
        row["exchange_payment_method_id"] = payment_method_id
        row["exchange_price_difference"] = difference
        return row

    @tool(READ)
    def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """Find a user id by name and zip code. Only when the user cannot be found by email.

        Args:
            first_name: Such as 'John'.
            last_name: Such as 'Doe'.
            zip: Zip code, such as '12345'.
        """
        return self._find_user(_name_and_zip, (first_name.lower(), last_name.lower(), zip))

    @tool(READ)
    def find_user_id_by_email(self, email: str) -> str:
        """Find a user id by email.

        Args:
            email: Such as 'something@example.com'.
        """
        return self._find_user(_email, email.lower())

    @tool(READ)
    def get_order_details(self, order_id: str) -> Row:
        """Get status, items, address and payments of an order.

        Args:
            order_id: With the leading '#', such as '#W0000000'.
        """
        return self._row("orders", order_id)

    @tool(READ)
    def get_product_details(self, product_id: str) -> Row:
        """Get all items of a product, with options, availability and price.

        Args:
            product_id: Such as '6086499569'; not an item id.
        """
        return self._row("products", product_id)

    @tool(READ)
    def get_item_details(self, item_id: str) -> Row:
        """Get options, availability and price of an item.

        Args:
            item_id: Such as '1008292230'; not a product id.
        """
        for _, product in self.db.rows("products"):
            if item_id in product["variants"]:
                return product["variants"][item_id]
        raise ToolError(f"{item_id} not found in the items of all products")

    @tool(READ)
    def get_user_details(self, user_id: str) -> Row:
        """Get the profile of a user: address, payment methods, order ids.

        Args:
            user_id: Such as 'sara_doe_496'.
        """
        return self._row("users", user_id)

    @tool(READ)
    def list_all_product_types(self) -> str:
        """List the names of all products with their product ids."""
        return json.dumps({row["name"]: row["product_id"] for _, row in self.db.rows("products")}, sort_keys=True)

    @tool(WRITE)
    def modify_pending_order_address(
        self, order_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> Row:
        """Change the shipping address of a pending order.

        Args:
            order_id: With the leading '#', such as '#W0000000'.
            address1: First line, such as '123 Main St'.
            address2: Second line, such as 'Apt 1' or ''.
            city: Such as 'San Francisco'.
            state: Such as 'CA'.
            country: Such as 'USA'.
            zip: Zip code, such as '12345'.
        """
        self._pending_order(order_id)
        row = self.db.edit("orders", order_id)
        row["address"] = _address(address1, address2, city, country, state, zip)
        return row

    @tool(WRITE)
    def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Row:
        """Replace items of a pending order by other items of the same products. Possible once per order.

        Args:
            order_id: With the leading '#', such as '#W0000000'.
            item_ids: EVERY item to be replaced, such as '1008292230'.
            new_item_ids: The new items, in the same order, each of the same product as the old one.
            payment_method_id: Pays or receives the price difference, such as 'gift_card_0000000'.
        """
        before = self._row("orders", order_id)
        if before["status"] != "pending":
            raise ToolError(f"Order {order_id} is {before['status']}, only items of a pending order can be replaced")
        variants, difference = self._new_items(before, item_ids, new_item_ids, same_allowed=False)
        self._check_balance(before["user_id"], payment_method_id, difference)
        self._move_money(before["user_id"], payment_method_id, -difference)
        row = self.db.edit("orders", order_id)
        # As in the benchmark: the difference is not rounded ...
        kind = "payment" if difference > 0 else "refund"
        row["payment_history"].append(_payment(kind, abs(difference), payment_method_id))
        for item_id, new_item_id in zip(item_ids, new_item_ids):
            item = next(item for item in row["items"] if item["item_id"] == item_id)
            # ... and every replaced item gets the price and the options of the last new one.
            item["item_id"] = new_item_id
            item["price"] = variants[-1]["price"]
            item["options"] = dict(variants[-1]["options"])
        row["status"] = "pending (item modified)"
        return row

    @tool(WRITE)
    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> Row:
        """Pay a pending order by another method; the first payment is refunded.

        Args:
            order_id: With the leading '#', such as '#W0000000'.
            payment_method_id: The new method, of the user's profile, such as 'gift_card_0000000'.
        """
        before = self._pending_order(order_id)
        user_id, history = before["user_id"], before["payment_history"]
        self._payment_method(user_id, payment_method_id)
        if len(history) != 1 or history[0]["transaction_type"] != "payment":
            raise ToolError(f"Order {order_id} does not have exactly one payment")
        old_method_id, amount = history[0]["payment_method_id"], history[0]["amount"]
        if old_method_id == payment_method_id:
            raise ToolError(f"Order {order_id} is already paid by {payment_method_id}")
        self._check_balance(user_id, payment_method_id, amount)
        self._move_money(user_id, payment_method_id, -amount)
        self._move_money(user_id, old_method_id, amount)
        row = self.db.edit("orders", order_id)
        row["payment_history"] += [
            _payment("payment", amount, payment_method_id),
            _payment("refund", amount, old_method_id),
        ]
        return row

    @tool(WRITE)
    def modify_user_address(
        self, user_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> Row:
        """Change the default address of a user; orders keep theirs.

        Args:
            user_id: Such as 'sara_doe_496'.
            address1: First line, such as '123 Main St'.
            address2: Second line, such as 'Apt 1' or ''.
            city: Such as 'San Francisco'.
            state: Such as 'CA'.
            country: Such as 'USA'.
            zip: Zip code, such as '12345'.
        """
        self._row("users", user_id)
        row = self.db.edit("users", user_id)
        row["address"] = _address(address1, address2, city, country, state, zip)
        return row

    @tool(WRITE)
    def return_delivered_order_items(self, order_id: str, item_ids: list[str], payment_method_id: str) -> Row:
        """Return items of a delivered order. Possible once per order.

        Args:
            order_id: With the leading '#', such as '#W0000000'.
            item_ids: EVERY item to return, such as '1008292230'.
            payment_method_id: Receives the refund: the order's payment method or a gift card of the user.
        """
        before = self._row("orders", order_id)
        if before["status"] != "delivered":
            raise ToolError(f"Order {order_id} is {before['status']}, only a delivered order can be returned")
        method = self._payment_method(before["user_id"], payment_method_id)
        paid_by = [paid["payment_method_id"] for paid in before["payment_history"][:1]]
        if method["source"] != "gift_card" and payment_method_id not in paid_by:
            raise ToolError(f"Refund goes to a gift card or the method of the order, not to {payment_method_id}")
        _check_items(before, item_ids)
        row = self.db.edit("orders", order_id)
        row["status"] = "return requested"
        row["return_items"] = sorted(item_ids)
        row["return_payment_method_id"] = payment_method_id
        return row

    # Look-ups and payments.

    def _row(self, table: str, key: str) -> Row:
        row = self.db.find(table, key)
        if row is None:
            raise ToolError(f"{key} not found in {table}")
        return row

    def _pending_order(self, order_id: str) -> Row:
        """Address and payment may also be changed after the items were."""
        row = self._row("orders", order_id)
        if "pending" not in row["status"]:
            raise ToolError(f"Order {order_id} is {row['status']}, only a pending order can be modified")
        return row

    def _payment_method(self, user_id: str, payment_method_id: str) -> Row:
        method = self._row("users", user_id)["payment_methods"].get(payment_method_id)
        if method is None:
            raise ToolError(f"{payment_method_id} not found in the payment methods of user {user_id}")
        return method

    def _find_user(self, identity: Callable[[Row], Hashable], wanted: Hashable) -> str:
        if any(table == "users" for table, _ in (*self.db.changed, *self.db.pending)):
            found = next((key for key, row in self.db.rows("users") if identity(row) == wanted), None)
        else:
            found = _user_index(self.db.base, identity).get(wanted)
        if found is None:
            raise ToolError("User not found")
        return found

    def _new_items(
        self, order: Row, item_ids: list[str], new_item_ids: list[str], same_allowed: bool = True
    ) -> tuple[list[Row], float]:
        """The variants that replace the items, and what they cost more. Raises ToolError when one cannot be had."""
        _check_items(order, item_ids)
        if len(item_ids) != len(new_item_ids):
            raise ToolError(f"{len(item_ids)} items cannot be exchanged for {len(new_item_ids)} items")
        variants, difference = [], 0
        for item_id, new_item_id in zip(item_ids, new_item_ids):
            if item_id == new_item_id and not same_allowed:
                raise ToolError(f"Item {item_id} would be replaced by itself")
            item = next(item for item in order["items"] if item["item_id"] == item_id)
            variant = self._row("products", item["product_id"])["variants"].get(new_item_id)
            if variant is None:
                raise ToolError(f"Item {new_item_id} is not of the product of item {item_id}")
            if not variant["available"]:
                raise ToolError(f"Item {new_item_id} is not available")
            variants.append(variant)
            # Step by step: sum() of newer Pythons rounds otherwise, and the last bit counts in the state hash.
            difference += variant["price"] - item["price"]
        return variants, difference

    def _check_balance(self, user_id: str, payment_method_id: str, price: float) -> None:
        method = self._payment_method(user_id, payment_method_id)
        if method["source"] == "gift_card" and method["balance"] < price:
            raise ToolError(f"Balance of {payment_method_id} is not enough")

    def _move_money(self, user_id: str, payment_method_id: str, amount: float) -> None:
        """Give back `amount`, or take it when negative; only of gift cards does the database know the balance."""
        if self._payment_method(user_id, payment_method_id)["source"] == "gift_card":
            method = self.db.edit("users", user_id)["payment_methods"][payment_method_id]
            method["balance"] = round(method["balance"] + amount, 2)


def _check_items(order: Row, item_ids: list[str]) -> None:
    missing = Counter(item_ids) - Counter(item["item_id"] for item in order["items"])
    if missing:
        raise ToolError(f"Item {next(iter(missing))} not found in order, or not that often")


def _payment(kind: str, amount: float, payment_method_id: str) -> Row:
    return {"transaction_type": kind, "amount": float(amount), "payment_method_id": payment_method_id}


def _address(address1: str, address2: str, city: str, country: str, state: str, zip: str) -> Row:
    return {"address1": address1, "address2": address2, "city": city, "country": country, "state": state, "zip": zip}


def _email(row: Row) -> str:
    return row["email"].lower()


def _name_and_zip(row: Row) -> tuple[str, str, str]:
    return row["name"]["first_name"].lower(), row["name"]["last_name"].lower(), row["address"]["zip"]


@lru_cache(maxsize=8)
def _user_index(base: Base, identity: Callable[[Row], Hashable]) -> dict[Hashable, str]:
    """identity -> the first user who has it. Bases never change; whoever looks at changed users has to search."""
    found = {}
    for user_id, row in base.tables["users"].items():
        found.setdefault(identity(row), user_id)
    return found
