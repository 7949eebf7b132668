"""What the agent's text tells the user to do on the phone: phrases and tool names become calls of the user's tools.

A sentence is read from left to right as marks: verbs ("turn off", "check"), things ("airplane mode"), positions ("on"),
actions ("reboot"), and who is meant ("I will", "please"). What the agent says of itself is not done.
"""

import re
from dataclasses import dataclass, field

from lib.grpo.users.parser import sentences
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
ON, OFF = r"on|enabled?|activated?", r"off|disabled?|deactivated?"
# Earlier ones win where several begin at one place.
MARKS = {
    "tool": r"[a-z]+(?:_[a-z]+)+",
    "mine": r"(?:i|we)(?:'ll|'ve|'m|'d| will| have| can| could| am| shall| would| may| enabled| added| sent)\b"
    r"(?! (?:also )?(?:see|notice|think|like you|want you|need you|ask you|suggest|recommend))|let me\b(?! know)"
    r"|(?:shall|should|can|may) i\b|(?:want|like) me to\b",
    "negated": r"(?:do not|don't|never|need not|needn't|no need|avoid|instead of)\b",
    "reboot": r"reboot|re-?start|power[- ]cycle|turn (?:your|the) (?:phone|device) off and (?:back )?on(?: again)?",
    "reseat": r"re-?seat|re-?insert|(?:take|remove|pull)(?: out)?(?: and \w+)?(?: the| your)? sim",
    "reset": r"reset(?:ting)?\b[^.?!,]{0,40}\bapn(?: settings)?|apn\b[^.?!,]{0,30}\breset|"
    r"(?:restore|set)\b[^.?!,]{0,30}\bapn\b[^.?!,]{0,20}\bdefaults?",
    "reset_it": r"reset(?:ting)? (?:it|them|these|those)\b",
    "pay": r"(?:make|complet|approv|accept|submit|go ahead with)\w*(?: the| your| this| a| that)? payment(?: request)?"
    r"|pay(?:ing)? (?:the|your|this|that|it)\b",
    "speed": r"speed ?test|internet speed|how fast",
    "mms": r"send(?:ing)? (?:an? |any |some )?(?:test )?(?:mms|picture|photo|image)|(?:mms|picture messag\w+) works?",
    "grant": r"(?:grant|allow|give)(?:ing)?\b",
    "set_on": r"(?:turn|switch|toggle|put|set)(?:t?ing)?(?: back)? on\b|enabl(?:e|ing)\b|activat(?:e|ing)\b"
    r"|connect(?:ing)? (?:to )?(?:the |your )?(?=vpn)",
    "set_off": r"(?:turn|switch|toggle|put|set)(?:t?ing)?(?: back)? off\b|disabl(?:e|ing)\b|deactivat(?:e|ing)\b"
    r"|disconnect(?:ing)?(?: from)?\b",
    "adjust": r"(?:turn|switch|toggle|flip|put|set|keep|leave|change)(?:ing)?\b|make sure|ensure",
    "must_be": r"(?:should|must|needs? to|has to|have to) be\b",
    "check": r"check|look at|have a look|verify|confirm (?:that|if|whether)|tell me|let me know|view|open|show me"
    r"|(?<!i )(?<!can )see\b|what\b",
    "yours": r"(?:please|now|first|next|so|try|let's)\b|(?:can|could|would|will) you\b"
    r"|you (?:can|could|should|need|must|have|will|may)\b",
    "again": r"(?:and|then)(?: then)?(?: back)? (?:on|off)(?: again| and|(?=[.,;!)]|$))",
    "saver": r"(?:mobile )?data[- ]saver(?: mode)?|data restriction",
    "roaming": r"(?:mobile |international )?(?:data )?roaming(?: mode)?",
    "data": r"(?:mobile|cellular) (?:data|internet)(?! usage| plan)",
    "airplane": r"(?:air|aero)plane mode|flight mode",
    "calling": r"wi-?fi[- ]calling",
    "wifi": r"wi-?fi\b",
    "vpn": r"vpn\b",
    "mode": r"(?:preferred )?network (?:mode|type)(?: preference)?|network preference|preferred network",
    "network": r"network (?:status|connection)|cellular connection",
    "bar": r"status bar|signal\b",
    "sim": r"sim(?: card)?\b",
    "apn": r"apn(?: settings?)?\b|mmsc",
    "apps": r"installed apps",
    "permission": r"permissions?\b",
    "request": r"payment requests?",
    "it": r"it\b",
    "them": r"(?:them|both)\b",
    "off": rf"(?:{OFF})\b",
    "on": rf"(?:{ON})\b(?! (?:your|the|my|this|that|its|an?|it|all|line)\b)",
}
MARK = re.compile(r"\b(?:" + "|".join(f"(?P<{name}>{words})" for name, words in MARKS.items()) + r")|(?P<stop>[,;:])")
MODE = re.compile(r"(?P<both>4g_5g_preferred|4g ?[/&+-]? ?(?:and |or )?5g|5g)|(?P<only>[234]g)[ _]only")
MODE_TARGET = re.compile(rf"(?:\bto|\bas|=|\bmode|\buse|\bselect|\bchoose|\bprefer)[\s\"'(:]*(?:{MODE.pattern})")
MODE_VERB = re.compile(r"\b(?:set|chang|switch|select|choos|use|turn|mak|prefer)")
PERMISSIONS = re.compile(r"\b(sms|storage)\b|\b(phone|network)[\"']? permission|permission[\s\"':=]+(phone|network)\b")
GRANT = re.compile(r"grant|allow|giv")
TRY = re.compile(
    r"try (?:it |that |this |once )?(?:again|now|out)|(?:does|is) (?:it|that|this|everything) (?:now )?work"
    r"|works? (?:now|again)|working (?:now|again|properly|as)|if (?:it|that|this)(?: now)? works|any better"
    r"|check again|(?:problem|issue)s? (?:is |been |has been |are )?(?:now )?(?:solved|fixed|resolved|gone)"
    r"|test (?:it|again)|try to "
)
# "Would you like to pay the bill?" is no order to pay.
ASKS_WILL = re.compile(r"\b(?:like|want|willing|able|ready|prefer|do you|are you|confirm)\b")


@dataclass(frozen=True)
class Step:
    """One call of a user tool."""

    name: str
    arguments: dict = field(default_factory=dict)


def instructions(normal: str, world: World) -> list[Step]:
    """The calls that a normalised text asks for, in the order of the text; each once, but for switches."""
    reader = _Reader(world)
    for sentence in sentences(normal):
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
        # "check", "adjust", or the position wanted.
        self.verb: str | bool | None = "check" if sentence.rstrip().endswith("?") else None
        self.mine = self.negated = False
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
        elif kind == "yours":
            self.mine = self.negated = False
        elif kind == "negated":
            self.negated = True
        elif kind in CHECKS:
            self._thing(kind)
        elif kind == "it":
            self._refer(self.recent[-1:] if not self.named else self.named[-1:])
        elif kind == "them":
            self._refer(self.named or self.recent)
        elif self.mine or self.negated:
            return
        elif kind == "tool":
            self._tool(match)
        elif kind in ACTIONS:
            if kind != "pay" or not (match.string.rstrip().endswith("?") and ASKS_WILL.search(match.string)):
                self._do(ACTIONS[kind])
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
                self._grant(match.start())
        elif kind in ("adjust", "must_be"):
            self.verb = "toggle" if match[0].startswith("toggl") else "adjust"
            self.waiting = [thing for thing in self.named[-1:] if thing in SWITCHES] if kind == "must_be" else []
            self._set_mode()
        elif kind in ("on", "off"):
            # "turn it off": the position comes after the thing; "is on" alone is no order.
            for thing in self.waiting:
                self._switch(thing, kind == "on")
            self.waiting = []

    def _thing(self, thing: str) -> None:
        self.named.append(thing)
        if thing == "permission":
            self.permissions += [name for name in _permissions(self.sentence) if name not in self.permissions]
        if thing == "request" and "sent" in self.sentence:
            # Whoever hears that one was sent looks at it.
            self._do(CHECKS[thing])
        if self.mine or self.negated or (self.granted and thing == "permission"):
            return
        if self.verb == "check":
            self._do(CHECKS[thing], _app(self.sentence) if thing == "permission" else None)
        elif thing in SWITCHES and self.verb is not None:
            self._adjust([thing])

    def _refer(self, things: list[str]) -> None:
        if not self.mine and not self.negated and self.verb not in (None, "check"):
            self._adjust([thing for thing in things if thing in SWITCHES])

    def _adjust(self, things: list[str]) -> None:
        for thing in things:
            if self.verb in (True, False):
                self._switch(thing, self.verb)
            elif thing not in self.waiting:
                self.waiting.append(thing)
                self.toggled += [thing] if self.verb == "toggle" else []

    def _tool(self, match: re.Match) -> None:
        name = match[0]
        if name in THING_OF_TOOL:
            self.verb = "toggle"
            self.named.append(THING_OF_TOOL[name])
            self._adjust(self.named[-1:])
        elif name == "grant_app_permission":
            self._grant(match.start())
        elif name == "set_network_mode_preference":
            self._set_mode()
        elif name in ("check_app_permissions", "check_app_status"):
            self._do(name, _app(self.sentence))
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
        if self.mode_read or not re.search(r"network|mode|prefer", self.sentence):
            return
        self.mode_read = True
        found = MODE_TARGET.search(self.sentence) or next(reversed([*MODE.finditer(self.sentence)]), None)
        if found and MODE_VERB.search(self.sentence):
            mode = "4g_5g_preferred" if found["both"] else f"{found['only']}_only"
            self._do("set_network_mode_preference", {"mode": mode})

    def _grant(self, place: int) -> None:
        """ "Grant the messaging app the sms permission", or what was said before: "please grant it"."""
        rest = self.sentence[place:]
        grants = GRANT.match(rest) is not None
        if self.granted or not (grants or "permission" in rest):
            return
        names = _permissions(rest)
        if not names and grants and re.search(r"\b(?:it|them|this|that|these|those|both)\b", rest):
            names = self.permissions
        for name in names:
            self.granted = True
            self._do("grant_app_permission", {**_app(self.sentence), "permission": name})

    def _do(self, name: str, arguments: dict | None = None) -> None:
        self._flip()
        step = Step(name, arguments or {})
        if step not in self.steps:
            self.steps.append(step)


def _permissions(text: str) -> list[str]:
    """Permissions in the order of the text; "on your phone" names none."""
    return list(dict.fromkeys(name for match in PERMISSIONS.findall(text) for name in match if name))


def _app(sentence: str) -> dict:
    return {"app_name": "browser" if "browser" in sentence else "messaging"}
