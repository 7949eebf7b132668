"""What the agent's text tells the user to do on the phone: phrases and tool names become calls of the user's tools.

A sentence is read from left to right as marks: verbs ("turn off", "check"), things ("airplane mode"), positions ("on"),
actions ("reboot"), and who is meant ("I will", "please"). What the agent says of itself is not done, and what it asks
whether the user wants ("Would you like to turn on data roaming?") neither. Only the first 2,000 characters of a message
hold instructions; a user does not follow more at once.
"""

import re
from dataclasses import dataclass, field

from lib.grpo.users.parser import sentences
from lib.grpo.users.phone_words import ASKS_WILL, GRANT, MARK, MODE, MODE_TARGET, MODE_VERB, PERMISSIONS, PRONOUN
from lib.grpo.worlds.world import World

# Things with a switch: tool, field of the device. The VPN has two tools.
SWITCHES = {
    "airplane": ("toggle_airplane_mode", "airplane_mode"),
    "data": ("toggle_data", "data_enabled"),
    "roaming": ("toggle_roaming", "roaming_enabled"),
    "saver": ("toggle_data_saver_mode", "data_saver_mode"),
    "calling": ("toggle_wifi_calling", "wifi_calling_enabled"),
    "wifi": ("toggle_wifi", "wifi_enabled"),
    "vpn": ("", "vpn_connected"),
}
THING_OF_TOOL = {tool: thing for thing, (tool, _) in SWITCHES.items() if tool}
# What shows a thing.
CHECKS = {
    "airplane": "check_network_status",
    "data": "check_network_status",
    "roaming": "check_network_status",
    "saver": "check_data_restriction_status",
    "calling": "check_wifi_calling_status",
    "wifi": "check_wifi_status",
    "vpn": "check_vpn_status",
    "bar": "check_status_bar",
    "network": "check_network_status",
    "mode": "check_network_mode_preference",
    "sim": "check_sim_status",
    "apn": "check_apn_settings",
    "apps": "check_installed_apps",
    "permission": "check_app_permissions",
    "request": "check_payment_request",
}
ACTIONS = {
    "reseat": "reseat_sim_card",
    "reset": "reset_apn_settings",
    "reboot": "reboot_device",
    "pay": "make_payment",
    "speed": "run_speed_test",
    "mms": "can_send_mms",
}
# A goal -> what the user looks at to see whether it is reached.
GOAL_CHECKS = {
    "service": "check_status_bar",
    "data": "run_speed_test",
    "speed": "run_speed_test",
    "mms": "can_send_mms",
}
PAID = "paid "
MOST_READ = 2_000
TRY = re.compile(
    r"try (?:it |that |this |once )?(?:again|now|out)|(?:does|is) (?:it|that|this|everything) (?:now )?work"
    r"|works? (?:now|again)|working (?:now|again|properly|as)|if (?:it|that|this)(?: now)? works|any better"
    r"|check again|(?:problem|issue)s? (?:is |been |has been |are )?(?:now )?(?:solved|fixed|resolved|gone)"
    r"|test (?:it|again)|try to "
)


@dataclass(frozen=True)
class Step:
    """One call of a user tool."""

    name: str
    arguments: dict = field(default_factory=dict)


def instructions(normal: str, world: World) -> list[Step]:
    """The calls that a normalised text asks for, in the order of the text; each once, but for switches."""
    reader = _Reader(world)
    for sentence in sentences(normal[:MOST_READ]):
        reader.read(sentence)
    return reader.steps


def works(goal: str, world: World) -> bool:
    """Whether what the user called about works on the phone, or ("paid B1001") the bill is paid."""
    kit = world.user
    if goal == "service":
        return kit.assert_service_status("connected")
    if goal == "data":
        return kit.assert_mobile_data_status(True)
    if goal == "speed":
        return kit.assert_internet_speed(200, "excellent")
    if goal == "mms":
        return kit.assert_can_send_mms(True)
    assert goal.startswith(PAID), goal
    return world.agent.db.find("bills", goal.removeprefix(PAID))["status"] == "Paid"


def check_of(goal: str) -> Step:
    """What the user looks at when asked whether it works."""
    return Step(GOAL_CHECKS.get(goal, "check_payment_request"))


def verdict(goal: str, reached: bool) -> str:
    """What the user says of it after doing something on the phone."""
    if goal.startswith(PAID):
        return "I have paid it." if reached else ""
    return "It works now!" if reached else "It still does not work."


class _Reader:
    """Reads one message; `steps` is what is to be done."""

    def __init__(self, world: World):
        self.steps: list[Step] = []
        self.tools = world.user.tools
        self.device = world.user.db.find("device", "")
        # Where the switches will be after the steps so far.
        self.positions: dict[str, bool] = {}
        # Things and permissions that "it" and "them" may mean.
        self.recent: list[str] = []
        self.permissions: list[str] = []

    def read(self, sentence: str) -> None:
        self.sentence = sentence
        self.question = sentence.rstrip().endswith("?")
        self.asks_will = self.question and ASKS_WILL.search(sentence) is not None
        self.app = {"app_name": "browser" if "browser" in sentence else "messaging"}
        # Permissions with their places; the last places of the word and of pronouns.
        self.allowed = [(match.start(), match[match.lastindex]) for match in PERMISSIONS.finditer(sentence)]
        self.permission_word = sentence.rfind("permission")
        self.pronoun = max((match.start() for match in PRONOUN.finditer(sentence)), default=-1)
        # "check", "adjust", or the position wanted.
        self.verb: str | bool | None = "check" if self.question else None
        self.mine = self.negated = self.wish = False
        # Things whose position is still to come ("turn it ... off"), and things to be flipped if none comes.
        self.waiting: list[str] = []
        self.toggled: list[str] = []
        self.named: list[str] = []
        self.mode_read = self.granted = False
        for match in MARK.finditer(sentence):
            self._mark(match.lastgroup, match)
        self._flip()
        if self.named:
            self.recent = self.named

    def _mark(self, kind: str, match: re.Match) -> None:
        if kind == "stop":
            self.negated = False
        elif kind == "mine":
            self.mine = True
        elif kind == "wish":
            self.wish = self.question
        elif kind == "yours":
            self.mine = self.negated = False
            # "Would you like to reboot it now?" still asks.
            self.wish = self.wish and match[0] != "please" and " you" not in match[0]
        elif kind == "negated":
            self.negated = True
        elif kind in CHECKS:
            self._thing(kind)
        elif kind == "it":
            self._refer(self.recent[-1:] if not self.named else self.named[-1:])
        elif kind == "them":
            self._refer(self.named or self.recent)
        elif not self._is_not_asked():
            self._order(kind, match)

    def _is_not_asked(self) -> bool:
        return self.mine or self.negated or self.wish

    def _order(self, kind: str, match: re.Match) -> None:
        if kind == "tool":
            self._tool(match[0])
        elif kind in ACTIONS:
            if kind != "pay" or not self.asks_will:
                self._do(ACTIONS[kind])
        elif kind == "pay_it":
            if "request" in (*self.recent, *self.named) and not self.asks_will:
                self._do(ACTIONS["pay"])
        elif kind == "reset_it":
            if "apn" in (*self.recent, *self.named):
                self._do(ACTIONS["reset"])
        else:
            self._verb(kind, match)

    def _verb(self, kind: str, match: re.Match) -> None:
        if kind == "grant":
            self._grant(match.start())
        elif kind == "check":
            self.verb, self.waiting = "check", []
        elif kind == "again":
            if self.named and self.named[-1] in SWITCHES:
                self._switch(self.named[-1], " on" in match[0])
        elif kind in ("set_on", "set_off"):
            self.verb, self.waiting = kind == "set_on", []
            if kind == "set_on":
                self._grant(match.start(), known="permission" in (*self.recent, *self.named))
        elif kind in ("adjust", "must_be"):
            self.verb = "toggle" if match[0].startswith("toggl") else "adjust"
            if match[0] in ("make sure", "ensure"):
                self._grant(match.start(), known="messaging app" in self.sentence)
            self.waiting = [thing for thing in self.named[-1:] if thing in SWITCHES] if kind == "must_be" else []
            self._set_mode()
        elif kind in ("on", "off"):
            # "turn it off": the position comes after the thing; "is on" alone is no order.
            for thing in self.waiting:
                self._switch(thing, kind == "on")
            self.waiting = []

    def _thing(self, thing: str) -> None:
        self._name(thing)
        if thing == "permission":
            self.permissions = list(dict.fromkeys((*self.permissions, *(name for _, name in self.allowed))))
        if thing == "request" and "sent" in self.sentence:
            # Whoever hears that one was sent looks at it.
            self._do(CHECKS[thing])
        if self._is_not_asked() or (self.granted and thing == "permission"):
            return
        if self.verb == "check":
            self._do(CHECKS[thing], self.app if thing == "permission" else None)
        elif thing in SWITCHES and self.verb is not None:
            self._adjust([thing])

    def _name(self, thing: str) -> None:
        """It is what was named last."""
        if thing in self.named:
            self.named.remove(thing)
        self.named.append(thing)

    def _refer(self, things: list[str]) -> None:
        if not self._is_not_asked() and self.verb not in (None, "check"):
            self._adjust([thing for thing in things if thing in SWITCHES])

    def _adjust(self, things: list[str]) -> None:
        for thing in things:
            if self.verb in (True, False):
                self._switch(thing, self.verb)
            elif thing not in self.waiting:
                self.waiting.append(thing)
                self.toggled += [thing] if self.verb == "toggle" else []

    def _tool(self, name: str) -> None:
        if name in THING_OF_TOOL:
            self.verb = "toggle"
            self._name(THING_OF_TOOL[name])
            self._adjust(self.named[-1:])
        elif name == "grant_app_permission":
            self._grant(self.sentence.find(name))
        elif name == "set_network_mode_preference":
            self._set_mode()
        elif name in ("check_app_permissions", "check_app_status"):
            self._do(name, self.app)
        elif name in self.tools and not self.tools[name].parameters["required"]:
            self._do(name)

    def _flip(self) -> None:
        """ "Toggle it": to the other position, when none was named."""
        for thing in [*self.toggled]:
            self._switch(thing, not self._position(thing))

    def _position(self, thing: str) -> bool:
        return self.positions.get(thing, self.device[SWITCHES[thing][1]])

    def _switch(self, thing: str, wanted: bool) -> None:
        if thing in self.toggled:
            self.toggled.remove(thing)
        if self._position(thing) == wanted:
            # Nothing to switch; what is asked for may still be told.
            self._do(CHECKS[thing])
            return
        self._flip()
        self.positions[thing] = wanted
        self.steps.append(Step(SWITCHES[thing][0] or ("connect_vpn" if wanted else "disconnect_vpn")))

    def _set_mode(self) -> None:
        if self.mode_read:
            return
        self.mode_read = True
        if not re.search(r"network|mode|prefer", self.sentence) or not MODE_VERB.search(self.sentence):
            return
        found = MODE_TARGET.search(self.sentence) or next(reversed([*MODE.finditer(self.sentence)]), None)
        if found:
            mode = "4g_5g_preferred" if found["both"] else f"{found['only']}_only"
            self._do("set_network_mode_preference", {"mode": mode})

    def _grant(self, place: int, known: bool = False) -> None:
        """ "Grant the messaging app the sms permission", or what was said before: "please grant it". `known`: it is
        clear that permissions are meant."""
        grants = GRANT.match(self.sentence, place) is not None
        if self.granted or not (grants or known or self.permission_word > place):
            return
        names = []
        if self.allowed and self.allowed[-1][0] >= place:
            names = [name for at, name in self.allowed if at >= place]
        if not names and grants and self.pronoun >= place:
            names = self.permissions
        for name in dict.fromkeys(names):
            self.granted = True
            self._do("grant_app_permission", {**self.app, "permission": name})

    def _do(self, name: str, arguments: dict | None = None) -> None:
        self._flip()
        step = Step(name, arguments or {})
        if step not in self.steps:
            self.steps.append(step)
