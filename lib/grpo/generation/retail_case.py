"""What retail templates share: the case under construction, orders, and the usual ways to act, refuse and transfer."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import ACT, DENY, TRANSFER, Request, Step, ask, look, or_human, say
from lib.grpo.generation.retail_world import (
    ENGRAVABLE,
    ENGRAVED,
    HYGIENE,
    PLAIN,
    PRECIOUS,
    USUAL,
    RetailWorld,
    describe,
)

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
NOT_BACK = {ENGRAVED: "engraved items cannot be given back.", HYGIENE: "hygiene articles cannot be given back."}
PLEASE = "Please make an exception for me."
# Said with the order: only a human may do it.
WANTS_HUMAN = ("I want to talk to a human about it.", "Please let a human agent do that.")
# What a summary calls an action, for `must`.
CANCEL = "cancel*"
CHANGE = "chang*|updat*|modif*|mov*|set to|set the|set your|switch*|replac*|correct*|edit*|swap*|new"
EXCHANGE = f"exchang*|{CHANGE}"
RETURN = "return*|send back|sent back|take back|taken back|give back"
ADDRESS = f"{CHANGE}|address|ship*|send*|sent|redirect*|deliver*"
PAY = f"{CHANGE}|pay|paid|charg*|use|using"
LOOK_UP = "look*|check|calculat*|comput*|search*|retriev*|sum|add*"
BROKEN = "broken|damag*|defect*"


@dataclass(frozen=True)
class Plan:
    """One way to fulfil a wish: what the summary must name, the steps from the summary on, and the amount told."""

    must: list[str]
    steps: list[Step]
    amount: str = ""


@dataclass(frozen=True)
class Thought:
    """A change of mind: the sentence, the plan from then on, and what the user then says when asked."""

    said: str
    plan: Plan
    details: dict[str, str] = field(default_factory=dict)


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
        # Orders that the expert has looked up, for an earlier request too.
        self.seen: set[str] = set()
        # Order number -> what a summary may call it.
        self.names: dict[str, str] = {}
        for _ in range(OTHER_ORDERS[level]):
            self.order(self._status())
        for _ in range(OTHER_PEOPLE[level]):
            self._bystander()

    def wants_more(self) -> bool:
        """Whether a wish comes with another one, as it does where it is refused."""
        return self.level >= 2 and self.draw.chance(0.7)

    def asks(self, opening: str, question: str) -> str:
        """An opening that from level 3 on asks for an amount too."""
        return f"{opening} {question}" if self.level >= 3 else opening

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

    def kept(self) -> tuple[str, ...]:
        """Kinds of items that stay in an order: none, or one that the rules treat in their own way."""
        return (self.draw.pick((PLAIN, ENGRAVED, HYGIENE)),) if self.level and self.draw.chance(0.4) else ()

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
            self.names |= {row["order_id"][1:]: f"{row['order_id'][1:]}|{row['items'][0]['name']}" for row in rows}
            ids = orders[: self.settled]
        ids = [order_id for order_id in ids if order_id not in self.seen]
        self.seen.update(ids)
        looks = [look("get_order_details", order_id=order_id) for order_id in ids]
        return {"order_id": sentence}, [ask("order_id"), *looks]

    def act(
        self,
        opening: str,
        steps: list[Step],
        details: dict[str, str],
        plan: Plan,
        thought: Thought | None = None,
    ) -> Request:
        """A wish that the rules allow: `plan`, or after a change of mind another. From level 3 on the final plan's
        amount is to be told."""
        final = thought.plan if thought else plan
        return Request(
            opening,
            ACT,
            [*steps, *plan.steps],
            details,
            must=self.must(plan.must),
            communicate=[final.amount] if self.level >= 3 and final.amount else [],
            second_thought=(thought.said, self.must(final.must), final.steps) if thought else None,
            second_details=thought.details if thought else {},
        )

    def must(self, words: list[str]) -> list[str]:
        """What a summary has to name; an item where the caller has forgotten the order's id."""
        return [self.names.get(word, word) for word in words]

    def deny(
        self,
        opening: str,
        rows: list[dict],
        why: str,
        must: list[str],
        details: dict[str, str] | None = None,
        asked: tuple[str, ...] | None = None,
        claim: str = "",
    ) -> Request:
        """A wish that the rules forbid, found out after looking at the order(s) and asking for `asked` (default: all
        the `details`); a summary of it names the orders and `must`. At level 4 the user makes a false `claim` and does
        not give in at once."""
        found, steps = self.find(*rows)
        details = details or {}
        steps += [ask(name) for name in (details if asked is None else asked)]
        insist = []
        if self.level >= 4:
            opening = f"{opening} {claim}".strip()
            insist = [self.draw.pick(("But I was told that this is possible.", PLEASE))]
        must = self.must([*numbers(rows), *must])
        return Request(opening, DENY, [*steps, say(NO_HELP + why)], {**found, **details}, must=must, insist=insist)

    def deny_stranger(
        self, opening: str, status: str, must: list[str], details: dict[str, str] | None = None
    ) -> Request:
        """A wish about an order that is not the caller's."""
        row = self.order(status, user=self.world.user(self.draw.pick((None, self.user["name"]["last_name"]))))
        why = f"order {row['order_id']} is not yours."
        return self.deny(opening, [row], why, must, details, (), claim="It is my own order.")

    def transfer(
        self,
        opening: str,
        status: str,
        wish: Callable[[dict], tuple[list[str], dict[str, str]]],
        count: int = 1,
    ) -> Request:
        """A wish about so many orders that only a human may fulfil: they cost too much, or the user says so when asked
        for them. `wish`: of an order, what a summary names besides it, and the details that the user knows."""
        if self.draw.chance(0.6):
            rows = [self.order(status, (PLAIN, PLAIN), PRECIOUS) for _ in range(count)]
            must, known = wish(rows[0])
            return self.hand_over(opening, rows, "more than 1000 dollars.", [*numbers(rows), *must], known)
        rows = [self.order(status) for _ in range(count)]
        return self.hand_over_as_told(opening, rows, self.draw.pick(WANTS_HUMAN), wish(rows[0])[1])

    def hand_over(
        self,
        opening: str,
        rows: list[dict],
        why: str,
        must: list[str],
        details: dict[str, str] | None = None,
        asked: tuple[str, ...] = (),
    ) -> Request:
        """A transfer after looking at the orders and asking for `asked`."""
        found, steps = self.find(*rows)
        steps += [ask(name) for name in asked]
        names = " and ".join(row["order_id"] for row in rows)
        details = {**found, **(details or {})}
        return Request(
            opening, TRANSFER, steps, details, must=or_human(self.must(must)), summary=f"Order {names}: {why}"
        )

    def hand_over_as_told(
        self, opening: str, rows: list[dict], told: str, details: dict[str, str] | None = None
    ) -> Request:
        """A transfer because of what the user says of the orders when asked for them."""
        request = self.hand_over(opening, rows, told, [], details)
        request.details["order_id"] += f" {told}"
        return request

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


def numbers(rows: list[dict]) -> list[str]:
    """The orders' ids as words."""
    return [row["order_id"][1:] for row in rows]


def method_of(row: dict) -> str:
    """The payment method with which an order was paid."""
    return row["payment_history"][0]["payment_method_id"]


def address_text(address: dict) -> str:
    names = ("address1", "address2", "city", "state", "country", "zip")
    return ", ".join(address[name] for name in names)
