"""A tiny shop, in the form of a parsed `db.json`."""


def address(street: str, zip_code: str = "10001") -> dict:
    # Not in the order of the tables: the reader puts fields in order.
    return {"zip": zip_code, "address1": street, "address2": "", "city": "Rome", "state": "NY", "country": "USA"}


def product(name: str, number: int, *prices: float) -> dict:
    """Items <number>1, <number>2, ...; the last one is sold out."""
    ids = [f"{number}{place}" for place in range(1, len(prices) + 1)]
    variants = {
        item: {"item_id": item, "options": {"size": item}, "available": item != ids[-1], "price": price}
        for item, price in zip(ids, prices)
    }
    return {"name": name, "product_id": str(number), "variants": variants}


def user(first: str, user_id: str, zip_code: str, methods: list[dict]) -> dict:
    return {
        "user_id": user_id,
        "name": {"first_name": first, "last_name": "Lee"},
        "address": address("1 Main St", zip_code),
        "email": f"{user_id}@Example.com",
        "payment_methods": {method["id"]: method for method in methods},
        "orders": ["#W1"],
    }


def order(order_id: str, status: str, items: list[tuple[str, str, float]], paid: list[tuple[str, float, str]]) -> dict:
    return {
        "order_id": order_id,
        "user_id": "ann",
        "address": address("2 Side St"),
        "items": [
            {"name": "thing", "product_id": number, "item_id": item, "price": price, "options": {"size": item}}
            for number, item, price in items
        ],
        "status": status,
        "fulfillments": [{"tracking_id": ["9"], "item_ids": [items[0][1]]}],
        "payment_history": [
            {"transaction_type": kind, "amount": amount, "payment_method_id": method} for kind, amount, method in paid
        ],
    }


def payment(kind: str, amount: float, method: str) -> dict:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method}


def shop() -> dict:
    """Ann's orders in several states; Bob and Zoe have her name in other letters and another zip code."""
    methods = [
        {"source": "gift_card", "id": "gift_1", "balance": 20.1},
        {"source": "paypal", "id": "paypal_1"},
        {"source": "credit_card", "id": "card_1", "brand": "visa", "last_four": "1234"},
        {"source": "gift_card", "id": "gift_2", "balance": 500.5},
    ]
    items = [("7", "71", 10.1), ("7", "71", 10.1), ("8", "81", 100)]
    orders = [
        order("#W1", "pending", items, [("payment", 120.2, "paypal_1")]),
        order("#W2", "pending", items, [("payment", 120.2, "gift_1"), ("refund", 20.25, "gift_1")]),
        order("#W3", "delivered", items, [("payment", 120.2, "card_1")]),
        order("#W4", "processed", items, [("payment", 120.2, "card_1")]),
        order("#W5", "delivered", items, []),
        order("#W6", "pending", items, [("payment", 120.2, "lost_1")]),
        order("#W7", "pending", [("9", "91", 1.0)], [("payment", 15.33, "gift_2")]),
        order("#W8", "delivered", items, [("payment", 60.2, "card_1"), ("payment", 60.0, "paypal_1")]),
        order("#W9", "pending", items, [("refund", 1.0, "card_1")]),
    ]
    return {
        "products": {
            "8": product("Lamp", 8, 100, 130.3, 90, 1.0),
            "7": product("Cup", 7, 10.1, 12.35, 10.4, 9),
        },
        "users": {
            "ann": user("Ann", "ann", "10001", methods),
            "bob": user("ANN", "bob", "20002", []),
            "zoe": user("ann", "zoe", "20002", []),
        },
        "orders": {row["order_id"]: row for row in orders},
    }
