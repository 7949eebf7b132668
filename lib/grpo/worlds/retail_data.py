"""The shop's tables: what a row holds, and how a tau2-bench `db.json` becomes a `Base`."""

from lib.grpo.worlds.records import Default, boolean, choice, list_of, map_of, number, record, text, variant
from lib.grpo.worlds.store import DICT, Base

CANCEL_REASONS = ("no longer needed", "ordered by mistake")
SHAPES = {"products": DICT, "users": DICT, "orders": DICT}

ADDRESS = record(address1=text, address2=text, city=text, country=text, state=text, zip=text)
PRODUCT = record(
    name=text,
    product_id=text,
    variants=map_of(record(item_id=text, options=map_of(text), available=boolean, price=number)),
)
PAYMENT_METHOD = variant(
    "source",
    credit_card=record(source=text, id=text, brand=text, last_four=text),
    gift_card=record(source=text, id=text, balance=number),
    paypal=record(source=text, id=text),
)
USER = record(
    user_id=text,
    name=record(first_name=text, last_name=text),
    address=ADDRESS,
    email=text,
    payment_methods=map_of(PAYMENT_METHOD),
    orders=list_of(text),
)
ORDER = record(
    order_id=text,
    user_id=text,
    address=ADDRESS,
    items=list_of(record(name=text, product_id=text, item_id=text, price=number, options=map_of(text))),
    status=choice(
        "processed",
        "pending",
        "pending (item modified)",
        "delivered",
        "cancelled",
        "exchange requested",
        "return requested",
    ),
    fulfillments=list_of(record(tracking_id=list_of(text), item_ids=list_of(text))),
    payment_history=list_of(
        record(transaction_type=choice("payment", "refund"), amount=number, payment_method_id=text)
    ),
    cancel_reason=Default(choice(*CANCEL_REASONS)),
    exchange_items=Default(list_of(text)),
    exchange_new_items=Default(list_of(text)),
    exchange_payment_method_id=Default(text),
    exchange_price_difference=Default(number),
    return_items=Default(list_of(text)),
    return_payment_method_id=Default(text),
)
DATABASE = record(closed=True, products=map_of(PRODUCT), users=map_of(USER), orders=map_of(ORDER))


def read_retail(data: dict) -> Base:
    """Cast a parsed `db.json`. Raises DataError that names the first wrong place."""
    return Base(DATABASE(data, "db"), SHAPES)
