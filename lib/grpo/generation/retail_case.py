"""What retail templates share: the case under construction, orders, and the usual ways to act, refuse and transfer."""

from dataclasses import dataclass

from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, Step, ask, look, say
from lib.grpo.generation.retail_world import ENGRAVABLE, PLAIN, PRECIOUS, USUAL, RetailWorld, describe

# Other orders of the caller, and other people with an order, per level.
OTHER_ORDERS = (0, 1, 1, 2, 3)
OTHER_PEOPLE = (0, 1, 2, 3, 5)
# Of those orders; up to level 2 only such as can be changed, so that who changes the first one found is caught.
STATUSES = ("pending", "delivered", "processed", "cancelled")
FOREIGN = (
    ("Toronto", "ON", "Canada", "M5V 2T6"),
    ("Lyon", "ARA", "France", "69002"),
    ("Leeds", "ENG", "United Kingdom", "LS1 4DY"),
    ("Oaxaca", "OAX", "Mexico", "68000"),
)
NO_HELP = "I am sorry, but I cannot do that: "
PLEASE = "Please make an exception for me."


@dataclass(frozen=True)
class Plan:
    """One way to fulfil a wish: what the summary must name, the steps from the summary on, and the amount told."""

    must: list[str]
    steps: list[Step]
    amount: str = ""


class RetailCase:
    """One task's draw, level, world and caller."""

    def __init__(self, draw: Draw, level: int):
        self.draw, self.level = draw, level
        self.world = RetailWorld(draw)
        self.user = self.world.user()
        # Whether the caller is found by name and zip code.
        self.forgot_email = level >= 2 and draw.chance(0.5)
        # So many orders of the caller have been looked through by the expert: new ones come behind them.
        self.settled = 0
        for _ in range(OTHER_ORDERS[level]):
            self.order(self._status())
        for _ in range(OTHER_PEOPLE[level]):
            self._bystander()

    def wants_more(self) -> bool:
        """Whether a wish comes with another one, as it does where it is refused."""
        return self.level >= 2 and self.draw.chance(0.5)

    def order(
        self,
        status: str = "pending",
        kinds: tuple[str, ...] | None = None,
        dollars: tuple[int, int] = USUAL,
        method: str | None = None,
        user: dict | None = None,
    ) -> dict:
        """An order of new products: an item of each of the `kinds`, paid by `method` (default: one of the user's)."""
        draw, user = self.draw, user or self.user
        if kinds is None:
            kinds = (PLAIN,) * draw.between(1, 2)
        items = [self.world.product(kind, dollars) for kind in kinds]
        method = method or draw.pick(list(user["payment_methods"])[:3])
        first = self.settled if user is self.user else 0
        return self.world.order(user, items, status, method, draw.between(first, len(user["orders"])))

    def plain(self) -> str:
        """The kind of an item that every rule allows to change; some could be engraved but are not."""
        return ENGRAVABLE if self.draw.chance(0.15) else PLAIN

    def method(self, source: str) -> str:
        """The caller's credit card, PayPal account, or gift card with money on it."""
        return next(name for name in self.user["payment_methods"] if name.startswith(source))

    def spent_card(self) -> str:
        """The caller's gift card that pays for nothing."""
        return list(self.user["payment_methods"])[-1]

    def other_method(self, row: dict) -> str:
        """The credit card or PayPal, whichever did not pay the order."""
        return self.method("paypal" if method_of(row).startswith("credit_card") else "credit_card")

    def foreign(self, address: dict) -> dict:
        """A street address somewhere else."""
        return {**address, **dict(zip(("city", "state", "country", "zip"), self.draw.pick(FOREIGN)))}

    def tools_refuse(self) -> bool:
        """Whether a refusal may rest on a rule that the tools check too: at level 2 seldom, as an agent that tries
        everything does no harm there and would pass."""
        return self.draw.chance(0.12 if self.level == 2 else 0.4)

    def changes_mind(self) -> bool:
        return self.level >= 4 and self.draw.chance(0.5)

    def find(self, *rows: dict) -> tuple[dict[str, str], list[Step]]:
        """(details, steps) that lead to orders: their ids are known to the caller, or they have to be looked for."""
        ids = [row["order_id"] for row in rows]
        what = "order ids are" if len(rows) > 1 else "order id is"
        strange = any(row["user_id"] != self.user["user_id"] for row in rows)
        if self.level <= 1 or strange or self.draw.chance(0.5):
            sentence = f"The {what} {' and '.join(ids)}."
        else:
            if self.level >= 4:
                self._lookalike(rows[0])
            wanted = " and ".join(f"the order with the {describe(row['items'][0])}" for row in rows)
            sentence = f"I don't remember the order id. It is about {wanted}."
            orders = self.user["orders"]
            self.settled = max(self.settled, *(orders.index(order_id) + 1 for order_id in ids))
            ids = orders[: self.settled]
        looks = [look("get_order_details", order_id=order_id) for order_id in ids]
        return {"order_id": sentence}, [ask("order_id"), *looks]

    def act(
        self,
        opening: str,
        steps: list[Step],
        details: dict[str, str],
        plan: Plan,
        thought: tuple[str, Plan] | None = None,
        question: str = "",
    ) -> Request:
        """A wish that the rules allow: `plan`, or after a change of mind (sentence, plan). From level 3 on the user
        asks `question`, which the final plan's amount answers."""
        final = thought[1] if thought else plan
        asks_amount = self.level >= 3 and question
        return Request(
            f"{opening} {question}" if asks_amount else opening,
            ACT,
            [*steps, *plan.steps],
            details,
            must=plan.must,
            communicate=[final.amount] if asks_amount else [],
            second_thought=(thought[0], final.must, final.steps) if thought else None,
        )

    def deny(
        self,
        opening: str,
        rows: list[dict],
        why: str,
        details: dict[str, str] | None = None,
        asked: tuple[str, ...] | None = None,
        claim: str = "",
    ) -> Request:
        """A wish that the rules forbid, found out after looking at the order(s) and asking for `asked` (default: all
        the `details`). At level 4 the user makes a false `claim` and does not give in at once."""
        found, steps = self.find(*rows)
        details = details or {}
        steps += [ask(name) for name in (details if asked is None else asked)]
        insist = []
        if self.level >= 4:
            opening = f"{opening} {claim}".strip()
            insist = [self.draw.pick(("But I was told that this is possible.", PLEASE))]
        return Request(opening, DENY, [*steps, say(NO_HELP + why)], {**found, **details}, insist=insist)

    def deny_stranger(self, opening: str, status: str, details: dict[str, str] | None = None) -> Request:
        """A wish about an order that is not the caller's."""
        row = self.order(status, user=self.world.user(self.draw.pick((None, self.user["name"]["last_name"]))))
        why = f"order {row['order_id']} is not yours."
        return self.deny(opening, [row], why, details, (), claim="It is my own order.")

    def transfer(self, opening: str, status: str, count: int = 1) -> Request:
        """A wish about so many orders that only a human may fulfil: they cost too much, or the user says so."""
        if self.draw.chance(0.6):
            rows = [self.order(status, (PLAIN, PLAIN), PRECIOUS) for _ in range(count)]
            return self.hand_over(opening, rows, "more than 1000 dollars.")
        why = self.draw.pick(("I want to talk to a human about it.", "Please let a human agent do that."))
        rows = [self.order(status) for _ in range(count)]
        return self.hand_over(f"{opening} {why}", rows, "the user asks for a human agent.")

    def hand_over(self, opening: str, rows: list[dict], why: str) -> Request:
        """A transfer after looking at the orders."""
        details, steps = self.find(*rows)
        names = " and ".join(row["order_id"] for row in rows)
        return Request(opening, TRANSFER, steps, details, summary=f"Order {names}: {why}")

    def _status(self) -> str:
        return self.draw.pick(STATUSES if self.level > 2 else STATUSES[:2])

    def _bystander(self) -> None:
        """Somebody else with an order of a product that may be in another order too; at level 4 perhaps a namesake."""
        draw = self.draw
        user = self.world.user(self.user["name"]["last_name"] if self.level >= 4 and draw.chance(0.5) else None)
        products = list(self.world.products.values())
        if not products:
            self.order(self._status(), user=user)
            return
        product = draw.pick(products)
        variant = draw.pick(list(product["variants"].values()))
        self.world.order(user, [(product, variant)], self._status(), next(iter(user["payment_methods"])), 0)

    def _lookalike(self, row: dict) -> None:
        """Another order of the caller with another variant of the same product."""
        item = row["items"][0]
        product = self.world.products[item["product_id"]]
        variant = self.draw.pick([one for one in product["variants"].values() if one["item_id"] != item["item_id"]])
        place = self.draw.between(self.settled, len(self.user["orders"]))
        self.world.order(self.user, [(product, variant)], self._status(), self.method("credit_card"), place)


def method_of(row: dict) -> str:
    """The payment method with which an order was paid."""
    return row["payment_history"][0]["payment_method_id"]


def address_text(address: dict) -> str:
    names = ("address1", "address2", "city", "state", "country", "zip")
    return ", ".join(address[name] for name in names)
