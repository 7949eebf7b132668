"""Small retail databases: customers, products with their options, orders."""

from itertools import product as combinations

from lib.grpo.domains import RETAIL
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.people import draw_address, draw_name
from lib.grpo.task import Setting
from lib.grpo.worlds.retail_data import SHAPES
from lib.grpo.worlds.store import Base

# What the rules know: engraved items and hygiene articles cannot be given back.
PLAIN, ENGRAVABLE, ENGRAVED, HYGIENE = "plain", "engravable", "engraved", "hygiene"
# Dollars an item costs: three usual ones stay under what PayPal may pay, three large ones over it, two precious ones
# over what an agent may decide.
USUAL, LARGE, PRECIOUS = (15, 95), (110, 240), (510, 890)
MOST_BY_PAYPAL, MOST_BY_AGENT = 300, 1000
COLORS = ("color", ("black", "white", "red", "blue"))
SIZES = ("size", ("small", "medium", "large"))
MATERIALS = ("material", ("steel", "glass", "ceramic"))
WOODS = ("wood", ("oak", "pine", "walnut"))
FABRICS = ("fabric", ("cotton", "linen", "wool"))
METALS = ("metal", ("gold", "silver", "titanium"))
FINISHES = ("finish", ("plain", "engraved"))
AXES = {
    **dict.fromkeys(("Backpack", "Raincoat", "Tent", "Yoga Mat", "Suitcase", "Umbrella"), (COLORS, SIZES)),
    **dict.fromkeys(("Tea Kettle", "Vase", "Desk Lamp", "Salad Bowl", "Water Carafe"), (COLORS, MATERIALS)),
    **dict.fromkeys(("Bookshelf", "Picture Frame", "Chess Set", "Wall Clock", "Coffee Table"), (WOODS, SIZES)),
    **dict.fromkeys(("Blanket", "Pillow", "Scarf", "T-Shirt", "Curtain", "Tablecloth"), (FABRICS, COLORS)),
    **dict.fromkeys(("Armchair", "Kitchen Stool", "Bench", "Stool Cover"), (WOODS, COLORS)),
}
METAL_NAMES = ("Wristwatch", "Fountain Pen", "Bracelet", "Hip Flask", "Pocket Knife", "Key Ring", "Tie Clip", "Locket")
HYGIENE_NAMES = ("Electric Toothbrush", "Travel Toothbrush", "Safety Razor", "Electric Razor", "Sport Earbuds")
NAMES = {PLAIN: tuple(AXES), ENGRAVABLE: METAL_NAMES, ENGRAVED: METAL_NAMES, HYGIENE: HYGIENE_NAMES}
AXES |= {**dict.fromkeys(METAL_NAMES, (METALS, FINISHES)), **dict.fromkeys(HYGIENE_NAMES, (COLORS, SIZES))}
# Name -> all its options. Rows share these objects: nobody changes rows in place.
OPTIONS = {
    name: tuple({axes[0][0]: first, axes[1][0]: second} for first, second in combinations(axes[0][1], axes[1][1]))
    for name, axes in AXES.items()
}
NOTHING_YET = dict.fromkeys(
    (
        "cancel_reason",
        "exchange_items",
        "exchange_new_items",
        "exchange_payment_method_id",
        "exchange_price_difference",
        "return_items",
        "return_payment_method_id",
    )
)
POLICY = """You are an agent of an online shop.
You help users cancel, change, return and exchange orders, change their address, and answer questions about their \
orders and our products.

- Ask for the email first; a user who does not know it is found by name and zip code. Help only with the profile and \
orders of this user; deny requests about other people's.
- Find an order id that the user does not know by looking at the orders in the user's profile.
- Before every change list its details and get the user's yes.
- Deny what these rules do not allow. Transfer to a human agent only if the user asks for one, if a parcel is lost or \
an item arrived broken, for repairs and company invoices, or to cancel, change, return or exchange (a part of) an \
order that cost more than 1000 dollars. To transfer call transfer_to_human_agents, then write \
"YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."
- Say amounts in dollars and cents, like 12.34.

Cancel: only with status "pending". Ask for the reason: it must be "no longer needed" or "ordered by mistake", nothing \
else. Not if the order has an engraved item (finish: engraved). All of it is refunded the way it was paid.
Change items: only with status "pending", once per order, to available options of the same product. Engraved items \
cannot be changed. The price difference goes by the order's own payment method or by a gift card that covers it.
Change address: only with status "pending", and only to an address in the USA.
Change payment: only with status "pending", to another method of the profile. An order paid by gift card keeps its \
payment. A gift card must cover the whole order. PayPal takes at most 300 dollars.
With status "pending (item modified)" an order can neither be changed in any way nor cancelled.
Return: only with status "delivered", once per order. Not for engraved items, toothbrushes, razors and earbuds. The \
refund goes to the order's own payment method or to a gift card, but of an order paid by PayPal only to PayPal.
Exchange: only with status "delivered", once per order, for available options of the same product. Not for engraved \
items, toothbrushes, razors and earbuds. The price difference goes by the order's own payment method or by a gift card \
that covers it, however the order was paid.
After a return or an exchange was requested, neither is possible again for that order.
Address of the profile: may be changed to one in the USA. Orders keep their address."""


class RetailWorld:
    """Tables under construction; every method adds rows and returns them."""

    def __init__(self, draw: Draw):
        self.draw = draw
        self.products: dict[str, dict] = {}
        self.users: dict[str, dict] = {}
        self.orders: dict[str, dict] = {}
        self._names: set[str] = set()

    def user(self, last: str | None = None) -> dict:
        """A customer with a gift card for everything, a credit card, PayPal, and a gift card that is nearly spent."""
        draw = self.draw
        first, drawn = draw_name(draw)
        last = last or drawn
        card, wallet = f"credit_card_{draw.digits(7)}", f"paypal_{draw.digits(7)}"
        full, spent = f"gift_card_{draw.digits(7)}", f"gift_card_{draw.digits(6)}0"
        brand = draw.pick(("visa", "mastercard"))
        row = {
            "user_id": _free(self.users, lambda: f"{first.lower()}_{last.lower()}_{draw.digits(4)}"),
            "name": {"first_name": first, "last_name": last},
            "address": draw_address(draw),
            "email": f"{first.lower()}.{last.lower()}{draw.digits(3)}@example.com",
            "payment_methods": {
                full: {"source": "gift_card", "id": full, "balance": float(draw.between(2000, 4000))},
                card: {"source": "credit_card", "id": card, "brand": brand, "last_four": draw.digits(4)},
                wallet: {"source": "paypal", "id": wallet},
                spent: {"source": "gift_card", "id": spent, "balance": float(draw.between(2, 9))},
            },
            "orders": [],
        }
        self.users[row["user_id"]] = row
        return row

    def product(self, kind: str = PLAIN, dollars: tuple[int, int] = USUAL) -> tuple[dict, dict]:
        """A product that no order has yet, and the variant to order. Three more variants at least, two available."""
        draw = self.draw
        name = draw.pick(NAMES[kind])
        while name in self._names:
            name = draw.pick(NAMES[kind])
        self._names.add(name)
        options = draw.sample(OPTIONS[name], draw.between(4, 6))
        if name in METAL_NAMES:
            finish = "engraved" if kind == ENGRAVED else "plain"
            options.sort(key=lambda option: option["finish"] != finish)
        low, high = dollars
        variants = {}
        for place, option in enumerate(options):
            item_id = draw.digits(10)
            # Sums of a few ordered items, and differences to others, never end in 0: amounts have one spelling.
            cents = 100 * draw.between(low, high - 1) + 10 * draw.below(10) + draw.between(1, 2) + 3 * (place > 0)
            available = place < 3 or draw.chance(0.5)
            variants[item_id] = {"item_id": item_id, "options": option, "available": available, "price": cents / 100}
        ordered = next(iter(variants.values()))
        product_id = draw.digits(10)
        # In the order of the ids, so that the place in the table tells nothing.
        row = {"name": name, "product_id": product_id, "variants": dict(sorted(variants.items()))}
        self.products[product_id] = row
        return row, ordered

    def order(self, user: dict, items: list[tuple[dict, dict]], status: str, method: str, place: int) -> dict:
        """An order of (product, variant) pairs, entered at `place` among the orders of `user`."""
        draw = self.draw
        order_id = _free(self.orders, lambda: f"#W{draw.digits(7)}")
        lines = [
            {
                "name": product["name"],
                "product_id": product["product_id"],
                "item_id": variant["item_id"],
                "price": variant["price"],
                "options": variant["options"],
            }
            for product, variant in items
        ]
        amount = sum(cents(line["price"]) for line in lines) / 100
        paid = {"transaction_type": "payment", "amount": amount, "payment_method_id": method}
        row = {
            "order_id": order_id,
            "user_id": user["user_id"],
            "address": user["address"] if draw.chance(0.3) else draw_address(draw),
            "items": lines,
            "status": status,
            "fulfillments": [],
            "payment_history": [paid],
            **NOTHING_YET,
        }
        if status == "pending (item modified)":
            row["payment_history"].append({**paid, "amount": draw.between(1, 9) + 0.5})
        elif status == "cancelled":
            row["payment_history"].append({**paid, "transaction_type": "refund"})
            row["cancel_reason"] = "no longer needed"
        elif status == "return requested":
            row |= {"return_items": [lines[0]["item_id"]], "return_payment_method_id": method}
        if not status.startswith("pending") and status != "cancelled":
            self._send(row)
        self.orders[order_id] = row
        user["orders"].insert(place, order_id)
        return row

    def setting(self) -> Setting:
        tables = {"products": self.products, "users": self.users, "orders": self.orders}
        return Setting(RETAIL, Base(tables, SHAPES), None, POLICY)

    def _send(self, row: dict) -> None:
        """Three items go in two parcels."""
        ids = [line["item_id"] for line in row["items"]]
        parcels = [ids[:2], ids[2:]] if len(ids) > 2 else [ids]
        row["fulfillments"] = [{"tracking_id": [self.draw.digits(12)], "item_ids": part} for part in parcels]


def _free(rows: dict, make) -> str:
    """A key that is not taken."""
    key = make()
    while key in rows:
        key = make()
    return key


def cents(price: float) -> int:
    """Dollars of a row as cents: what is added up stays exact."""
    return round(100 * price)


def total(row: dict) -> int:
    """Cents that the items of an order cost."""
    return sum(cents(item["price"]) for item in row["items"])


def money(amount: int) -> str:
    """Cents as dollars."""
    return f"{amount / 100:.2f}"


def describe(item: dict) -> str:
    """A line of an order in the user's words."""
    return f"{item['name']} ({', '.join(item['options'].values())})"


def list_items(items: list[dict]) -> str:
    """Items in the user's words."""
    return " and ".join(f"the {describe(item)}" for item in items)
