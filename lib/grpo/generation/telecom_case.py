"""What telecom templates share: the case under construction, how an expert finds a line, refusals and transfers."""

from lib.grpo.generation.draw import Draw
from lib.grpo.generation.people import FIRST, draw_name
from lib.grpo.generation.request import DENY, TRANSFER, Request, Step, ask, look, say
from lib.grpo.generation.telecom_words import HUMAN, also, line_words
from lib.grpo.generation.telecom_world import DEVICE_TYPES, MONTHS, TelecomWorld
from lib.grpo.worlds.world import ASSISTANT, USER

# Further lines of the caller, and other customers, per level.
OTHER_LINES = (0, 1, 1, 2, 3)
OTHER_PEOPLE = (0, 1, 2, 3, 5)
NO_HELP = "I am sorry, but I cannot do that: "
INSIST = (
    "But I was told that this is possible.",
    "Please make an exception for me.",
    "I have been a customer for years.",
)
PLEADS_FOR_HUMAN = (
    "I want to talk to a human about it.",
    "I only discuss this with a real person.",
    "Please put me through to a human agent for that.",
)


class TelecomCase:
    """One task's draw, level, world and caller. `line` is the line of the caller's phone."""

    def __init__(self, draw: Draw, level: int):
        self.draw, self.level = draw, level
        self.world = TelecomWorld(draw)
        self.customer = self.world.customer()
        self.line = self.world.tables["lines"][self.customer["line_ids"][0]]
        # Who does not know the number gives name and date of birth.
        self.by_name = level >= 2 and draw.chance(0.25)
        self.bills = {month: self.world.bill(self.customer, month) for month in MONTHS}
        self.started = False
        # Device types that a user has named: no line added later may have them.
        self.claimed: set[str] = set()
        for _ in range(OTHER_LINES[level]):
            self.new_line()
        self.others = [self._other(place) for place in range(OTHER_PEOPLE[level])]

    def new_line(self, **fields) -> dict:
        """Another line of the caller."""
        types = [name for name in DEVICE_TYPES if name not in self.claimed]
        row = self.world.line(self.customer, self.draw.pick(types))
        row.update(fields)
        return row

    def target(self, **fields) -> dict:
        """The line that a wish about the account is about. With two requests it is a line of its own, so that neither
        disturbs the other."""
        if self.level >= 3 or (self.level >= 1 and self.draw.chance(0.6)):
            return self.new_line(**fields)
        self.line.update(fields)
        return self.line

    def name_of(self, line: dict) -> str:
        """How an opening speaks of a line; without a word the rules take it for the line of the number given."""
        return "my line" if line is self.line else self.draw.pick(("another line of mine", "one of my other lines"))

    def find(self, line: dict) -> tuple[dict[str, str], list[Step]]:
        """(details, steps) that lead to a line of the caller: by the number that was given at first, or by its own
        number, the end of that, or its device."""
        ids = self.customer["line_ids"]
        before = ids[: ids.index(line["line_id"]) + 1]
        looks = [look("get_details_by_id", id=line_id) for line_id in before]
        if line is self.line and not self.by_name:
            return {}, looks
        # Nobody says its own number who does not know it by heart, but how it ends.
        ways = ("ending", "device") if line is self.line else ("number", "ending", "device")
        way = "number" if self.level <= 1 else self.draw.pick(ways)
        device_type = self.world.device_type(line)
        lines = [self.world.tables["lines"][line_id] for line_id in ids]
        if way == "device" and [self.world.device_type(row) for row in lines].count(device_type) == 1:
            self.claimed.add(device_type)
            sentence = f"It is about the line of my {device_type}."
            looks = [
                step
                for line_id in before
                for step in (
                    look("get_details_by_id", id=line_id),
                    look("get_details_by_id", id=self.world.tables["lines"][line_id]["device_id"]),
                )
            ]
        elif way == "number":
            sentence = f"It is about the number {line['phone_number']}."
        else:
            sentence = f"The number ends in {ending(line)}."
        return {"line": sentence}, [ask("line"), *looks]

    def words_of(self, line: dict) -> str:
        """What a summary names a line by: also the device, for a user who knows it by that."""
        device = self.world.device_type(line)
        return line_words(line, device if device in self.claimed else "")

    def request(self, opening: str, outcome: str, steps: list[Step], details: dict | None = None, **more) -> Request:
        """A request; the first one of a task also tells the phone whose it is. `start` are (function, arguments) on the
        phone. Whom the rules transfer says yes to that, too."""
        if outcome == TRANSFER:
            more["must"] = also(more.get("must", ()), HUMAN)
        start = [_action(USER, name, arguments) for name, arguments in more.pop("start", ())]
        if not self.started:
            self.started = True
            arguments = {"name": self.customer["full_name"], "phone_number": self.line["phone_number"]}
            start.insert(0, _action(USER, "set_user_info", arguments))
        if self.line["status"] != "Active":
            # That shows on the phone only after a search.
            start.append(_action(USER, "simulate_network_search", {}))
        return Request(opening, outcome, steps, details or {}, start=start, **more)

    def deny(self, opening: str, why: str, details: dict, steps: list[Step], **more) -> Request:
        """A wish that the rules forbid, found out after `steps`."""
        insist = more.pop("insist", [self.draw.pick(INSIST)] if self.level >= 4 else [])
        return self.request(opening, DENY, [*steps, say(NO_HELP + why)], details, insist=insist, **more)

    def transfer(self, opening: str, details: dict, must: list[str]) -> Request:
        """A wish that the rules would allow, from somebody who wants a human or (a single request at level 2) whose
        account is not active and who says yes to what names `must`."""
        if self.level == 2 and self.draw.chance(0.6):
            self.customer["account_status"] = self.draw.pick(("Suspended", "Pending Verification"))
            status = self.customer["account_status"]
            summary = f"The account_status is {status}."
            return self.request(opening, TRANSFER, [], details, must=must, summary=summary)
        opening = f"{opening} {self.draw.pick(PLEADS_FOR_HUMAN)}"
        return self.request(opening, TRANSFER, [], details, summary="The user asks for a human agent.")

    def of_another(self, opening: str, *action: str) -> Request:
        """A wish about a line of somebody else; `action` are its words."""
        other = self.draw.pick(self.others) if self.others else self.world.customer()
        number = other["phone_number"]
        steps = [ask("line"), look("get_customer_by_phone", phone_number=number)]
        details = {"line": f"It is about the number {number}."}
        insist = ["But we know each other well."] if self.level >= 4 else []
        lines = [row for row in self.world.tables["lines"].values() if row["line_id"] in other["line_ids"]]
        must = [*action, line_words(lines[0])]
        return self.deny(opening, f"the line {number} is not yours.", details, steps, insist=insist, must=must)

    def _other(self, place: int) -> dict:
        """Somebody else; at level 4 with the caller's last name, one even with the whole name."""
        first, last = self.customer["full_name"].split()
        name = draw_name(self.draw)
        if self.level >= 4:
            name = (first, last) if place == 0 else (self.draw.pick(FIRST), last)
        row = self.world.customer(name)
        while row["date_of_birth"] == self.customer["date_of_birth"]:
            row["date_of_birth"] = f"{self.draw.between(1950, 2003)}-01-01"
        self.world.bill(row, "January", self.draw.pick(("Paid", "Overdue")))
        return row


def ending(line: dict) -> str:
    """What is unique about a line's number."""
    return line["phone_number"][-4:]


def assertion(side: str, function: str, **arguments) -> dict:
    """One entry of `env_assertions` that must hold."""
    return {**_action(side, function, arguments), "assert_value": True}


def line_assertion(function: str, case: TelecomCase, line: dict, **arguments) -> dict:
    return assertion(
        ASSISTANT, function, customer_id=case.customer["customer_id"], line_id=line["line_id"], **arguments
    )


def _action(side: str, function: str, arguments: dict) -> dict:
    return {"env_type": side, "func_name": function, "arguments": arguments}
