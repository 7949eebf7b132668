"""What the agent's text tells the user to do on the phone: phrases and tool names become calls of the user's tools."""

import re
from dataclasses import dataclass, field

from lib.grpo.users.parser import sentences
from lib.grpo.worlds.world import World

ON = r"(?:turn(?:ing)? (?:back )?on|switch(?:ing)? (?:back )?on|enabl(?:e|ing)|activat(?:e|ing))"
OFF = r"(?:turn(?:ing)? (?:back )?off|switch(?:ing)? (?:back )?off|disabl(?:e|ing)|deactivat(?:e|ing))"
# Between verb and object: "turn off the phone's airplane mode".
GAP = r"(?: [\w']+){0,3}? "
# Switches: words -> (tool, field of the device).
SWITCHES = {
    r"airplane mode|flight mode": ("toggle_airplane_mode", "airplane_mode"),
    r"(?:mobile|cellular) data(?! roaming| saver)": ("toggle_data", "data_enabled"),
    r"(?:data )?roaming": ("toggle_roaming", "roaming_enabled"),
    r"data saver(?: mode)?": ("toggle_data_saver_mode", "data_saver_mode"),
    r"wi-?fi calling": ("toggle_wifi_calling", "wifi_calling_enabled"),
    r"wi-?fi(?! calling)": ("toggle_wifi", "wifi_enabled"),
    r"vpn": ("vpn", "vpn_connected"),
}
MODES = ("4g_5g_preferred", "4g_only", "3g_only", "2g_only")
PERMISSIONS = ("sms", "storage", "phone", "network")
# Other actions and checks: words -> tool without arguments.
PLAIN = {
    r"re-?seat|re-?insert|remove (?:and .{0,30})?(?:the|your) sim|take out (?:the|your) sim": "reseat_sim_card",
    r"reset(?:ting)? (?:the |your )?(?:phone's )?apn|apn settings? .{0,20}reset|reset them": "reset_apn_settings",
    r"reboot|restart": "reboot_device",
    r"disconnect (?:from )?(?:the |your )?vpn": "disconnect_vpn",
    r"(?:make|complete) (?:the |your |a )?payment|pay (?:the|your|this) bill|accept the payment": "make_payment",
    r"check .{0,30}payment request": "check_payment_request",
    r"status bar|airplane mode on\?|signal": "check_status_bar",
    r"network status": "check_network_status",
    r"network mode preference|preferred network": "check_network_mode_preference",
    r"sim (?:card )?status|sim card (?:active|locked|inserted|working)": "check_sim_status",
    r"check .{0,30}apn|apn settings\?": "check_apn_settings",
    r"speed ?test|internet speed|how fast": "run_speed_test",
    r"data (?:restriction|saver) status|check .{0,30}data saver": "check_data_restriction_status",
    r"check .{0,20}wi-?fi calling": "check_wifi_calling_status",
    r"check .{0,20}wi-?fi(?! calling)|wi-?fi status": "check_wifi_status",
    r"check .{0,20}vpn|vpn status": "check_vpn_status",
    r"installed apps": "check_installed_apps",
    r"(?:can|able to|try|test).{0,20} send(?:ing)? (?:an? )?(?:mms|picture|photo)|mms .{0,20}work": "can_send_mms",
}
PLAIN_PATTERNS = {re.compile(words): name for words, name in PLAIN.items()}
SWITCH_PATTERNS = [
    (re.compile(f"{verb}{GAP}(?:{words})|(?:{words}) (?:is |to )?(?:{state})\\b(?!\\?)"), names, wanted)
    for words, names in SWITCHES.items()
    for verb, state, wanted in ((ON, "on", True), (OFF, "off", False))
]


@dataclass(frozen=True)
class Step:
    """One call of a user tool."""

    name: str
    arguments: dict = field(default_factory=dict)


def instructions(normal: str, world: World) -> list[Step]:
    """The calls that a normalised text asks for, in the order of the text, each once."""
    found: list[tuple[int, Step]] = []
    offset = 0
    for sentence in sentences(normal):
        found += [(offset + place, step) for place, step in _in_sentence(sentence, world)]
        offset += len(sentence)
    steps: list[Step] = []
    for _, step in sorted(found, key=lambda item: item[0]):
        if step not in steps:
            steps.append(step)
    return steps


def works(goal: str, world: World) -> bool:
    """Whether what the user called about works on the phone."""
    kit = world.user
    if goal == "service":
        return kit.assert_service_status("connected")
    if goal == "data":
        return kit.assert_mobile_data_status(True)
    if goal == "speed":
        return kit.assert_internet_speed(200, "excellent")
    assert goal == "mms", goal
    return kit.assert_can_send_mms(True)


def _in_sentence(sentence: str, world: World) -> list[tuple[int, Step]]:
    found: list[tuple[int, Step]] = []
    named = [(match.start(), match[0]) for match in re.finditer(r"[a-z]+(?:_[a-z]+)+", sentence)]
    for place, name in named:
        if name in world.user.tools and not world.user.tools[name].parameters["required"]:
            found.append((place, Step(name)))
    found += _arguments(sentence)
    device = world.user.db.find("device", "")
    for pattern, (name, field_name), wanted in SWITCH_PATTERNS:
        match = pattern.search(sentence)
        if match and device[field_name] != wanted:
            name = ("connect_vpn" if wanted else "disconnect_vpn") if name == "vpn" else name
            found.append((match.start(), Step(name)))
        elif match:
            found.append((match.start(), Step("check_status_bar")))
    if not found:
        for pattern, name in PLAIN_PATTERNS.items():
            match = pattern.search(sentence)
            if match:
                found.append((match.start(), Step(name)))
    else:
        found += _reboot(sentence)
    return found


def _reboot(sentence: str) -> list[tuple[int, Step]]:
    """A restart is often the end of a sentence that says more."""
    match = re.search(r"reboot|restart", sentence)
    return [(match.start(), Step("reboot_device"))] if match else []


def _arguments(sentence: str) -> list[tuple[int, Step]]:
    """Calls that need arguments: network mode, app permissions."""
    found = []
    mode = re.search("|".join(MODES), sentence)
    if mode:
        found.append((mode.start(), Step("set_network_mode_preference", {"mode": mode[0]})))
    elif match := re.search(rf"(?:set|change|switch){GAP}network mode.{{0,40}}(5g|4g|3g|2g)", sentence):
        mode = "4g_5g_preferred" if "5g" in sentence[match.start() :] else f"{match[1]}_only"
        found.append((match.start(), Step("set_network_mode_preference", {"mode": mode})))
    app = "browser" if "browser" in sentence else "messaging"
    if match := re.search(r"\b(?:grant|allow|give)", sentence):
        for permission in PERMISSIONS:
            if re.search(rf"\b{permission}\b", sentence[match.start() :]):
                found.append((match.start(), Step("grant_app_permission", {"app_name": app, "permission": permission})))
    elif match := re.search(r"permissions?", sentence):
        found.append((match.start(), Step("check_app_permissions", {"app_name": app})))
    return found
