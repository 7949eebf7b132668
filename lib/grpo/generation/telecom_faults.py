"""Troubles of a phone: how each is made, what shows it and what repairs it, and the dialogue that finds and repairs."""

from dataclasses import dataclass

from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import Step, phone
from lib.grpo.generation.telecom_case import assertion
from lib.grpo.worlds.world import USER

UserCall = tuple[str, dict]
MESSAGING = {"app_name": "messaging"}
NEW_NETWORKS = {"mode": "4g_5g_preferred"}
REFRESH_APN = (("reset_apn_settings", {}), ("reboot_device", {}))


@dataclass(frozen=True)
class Fault:
    """`start` makes it, `check` (a name of CHECKS) shows it, one of `fixes` tells the user to make the calls `repair`;
    `told` is how a user who knows says it."""

    start: UserCall
    check: str
    told: str
    fixes: tuple[str, ...]
    repair: tuple[UserCall, ...]


def _mode(mode: str, told: str) -> Fault:
    fixes = (
        "Please set the network mode preference to 4g_5g_preferred.",
        "Your phone prefers an old network. Please change the network mode to 4g_5g_preferred.",
    )
    repair = (("set_network_mode_preference", NEW_NETWORKS),)
    return Fault(("set_network_mode_preference", {"mode": mode}), "mode", told, fixes, repair)


def _permission(name: str) -> Fault:
    arguments = {**MESSAGING, "permission": name}
    fixes = (
        f"Please grant the messaging app the {name} permission on your phone.",
        f"The messaging app needs the {name} permission. Please grant it.",
    )
    told = f"My messaging app does not have the {name} permission."
    start = ("remove_app_permission", arguments)
    return Fault(start, "permissions", told, fixes, (("grant_app_permission", arguments),))


# In the policy's order.
FAULTS = {
    "airplane": Fault(
        ("turn_airplane_mode_on", {}),
        "network",
        "The phone is in airplane mode.",
        ("Airplane mode is on. Please turn it off.", "Please turn off airplane mode."),
        (("toggle_airplane_mode", {}),),
    ),
    "sim": Fault(
        ("unseat_sim_card", {}),
        "network",
        "The phone says that the SIM card is missing.",
        (
            "There is no SIM card for the phone. Please take out the SIM card and put it in again.",
            "The SIM card is missing. Please re-seat it: re-insert the SIM card.",
        ),
        (("reseat_sim_card", {}),),
    ),
    "apn": Fault(
        ("break_apn_settings", {}),
        "apn",
        "The APN name of my phone is 'broken'.",
        (
            "The APN settings are wrong. Please reset the APN settings and then reboot your phone.",
            "Please reset your APN settings. After that, restart the phone.",
        ),
        REFRESH_APN,
    ),
    "roaming_off": Fault(
        ("turn_roaming_off", {}),
        "network",
        "Data roaming is switched off on my phone.",
        ("As you are abroad, please turn on data roaming.", "Data roaming is off. Please turn it on while abroad."),
        (("toggle_roaming", {}),),
    ),
    "data_off": Fault(
        ("turn_data_off", {}),
        "network",
        "Mobile data is switched off on my phone.",
        ("Mobile data is off. Please turn it on.", "Please switch on mobile data."),
        (("toggle_data", {}),),
    ),
    "saver": Fault(
        ("turn_data_saver_mode_on", {}),
        "saver",
        "Data saver is on.",
        ("Data saver mode is on. Please turn it off.", "Please switch data saver mode off."),
        (("toggle_data_saver_mode", {}),),
    ),
    "mode_3g": _mode("3g_only", "The network mode of my phone is 3g_only."),
    "mode_2g": _mode("2g_only", "The network mode of my phone is 2g_only."),
    "vpn": Fault(
        ("break_vpn", {}),
        "vpn",
        "I use a VPN, and its performance is poor.",
        ("Your VPN is slow. Please disconnect it.", "Please turn off the VPN, its performance is poor."),
        (("disconnect_vpn", {}),),
    ),
    "calling": Fault(
        ("set_wifi_calling", {"enabled": True, "mms_over_wifi": True}),
        "calling",
        "Wi-Fi calling is on.",
        ("Wi-Fi calling is on. Please turn it off.", "Please switch off Wi-Fi calling."),
        (("toggle_wifi_calling", {}),),
    ),
    "mmsc": Fault(
        ("break_apn_mms_setting", {}),
        "apn",
        "The MMSC URL is not set on my phone.",
        (
            "The MMSC URL is missing. Please reset the APN settings and then reboot your phone.",
            "Please reset your APN settings, and then restart the phone.",
        ),
        REFRESH_APN,
    ),
    "sms": _permission("sms"),
    "storage": _permission("storage"),
}
CHECKS: dict[str, tuple[str, UserCall]] = {
    "network": ("the network status", ("check_network_status", {})),
    "apn": ("the APN settings", ("check_apn_settings", {})),
    "saver": ("the data saver status", ("check_data_restriction_status", {})),
    "mode": ("the network mode preference", ("check_network_mode_preference", {})),
    "vpn": ("the VPN status", ("check_vpn_status", {})),
    "calling": ("the Wi-Fi calling status", ("check_wifi_calling_status", {})),
    "permissions": ("the permissions of the messaging app", ("check_app_permissions", MESSAGING)),
}
CHECK_TEXTS = (
    "Please check {} on your phone.",
    "Could you check {}?",
    "Please have a look at {} and tell me what you see.",
)
# What is looked at for a goal, in the policy's order.
ORDER = {
    "service": ("network", "apn"),
    "data": ("network", "apn"),
    "speed": ("network", "apn", "saver", "mode", "vpn"),
    "mms": ("network", "mode", "calling", "apn", "permissions"),
}
GOALS = {
    "service": (assertion(USER, "assert_service_status", expected_status="connected"),),
    "data": (assertion(USER, "assert_mobile_data_status", expected_status=True),),
    "speed": (assertion(USER, "assert_internet_speed", expected_speed=200, expected_desc="excellent"),),
    "mms": (assertion(USER, "assert_can_send_mms", expected_status=True),),
}
# Oddities that do not matter for the goal; the rules say to leave them. This VPN is fast.
CALLING, VPN = ("set_wifi_calling", {"enabled": True}), ("connect_vpn", {})
HARMLESS: dict[str, tuple[UserCall, ...]] = {
    "service": (FAULTS["saver"].start, CALLING, FAULTS["storage"].start, VPN),
    "data": (CALLING, FAULTS["storage"].start, FAULTS["sms"].start, VPN),
    "speed": (CALLING, FAULTS["storage"].start, FAULTS["sms"].start, VPN),
    "mms": (FAULTS["saver"].start, VPN),
}
# Pairs that do not go together: one repair for both, or one fault hides the other for good.
APART = ({"apn", "mmsc"}, {"mode_3g", "mode_2g"}, {"airplane", "vpn"})


def draw_faults(draw: Draw, own: tuple[str, ...], more: tuple[str, ...], count: int) -> list[str]:
    """`count` faults that go together: the first of `own`, the others of both lists."""
    chosen = [draw.pick(own)]
    for name in draw.sample((*own, *more), len(own) + len(more)):
        together = {name, *chosen}
        if len(chosen) < count and name not in chosen and not any(pair <= together for pair in APART):
            chosen.append(name)
    return chosen


def repair(draw: Draw, goal: str, names: list[str], told: bool) -> list[Step]:
    """Checks and repairs in the policy's order, until everything is repaired; `told`: the user said what is wrong."""
    names = [name for name in FAULTS if name in names]
    if told:
        return [phone(draw.pick(FAULTS[name].fixes), *FAULTS[name].repair) for name in names]
    needed = {FAULTS[name].check for name in names}
    # The network status tells when these need not be looked at.
    spared = {"speed": "apn", "mms": "mode"}.get(goal)
    order = [name for name in ORDER[goal] if name != spared or name in needed]
    groups = [[name] for name in order]
    if draw.chance(0.5) and goal in ("speed", "mms"):
        groups = [order[:1], order[1:]]
    steps, seen = [], set()
    for group in groups:
        steps.append(look_at(draw, *group))
        seen |= set(group)
        # What the network status shows of mobile data waits for the APN settings, as these are about service.
        shown = [FAULTS[name].check in seen for name in names]
        found = names[: [*shown, False].index(False)]
        names = names[len(found) :]
        fixes = [(draw.pick(FAULTS[name].fixes), FAULTS[name].repair) for name in found]
        if len(found) > 1 and draw.chance(0.5):
            steps.append(phone(" ".join(text for text, _ in fixes), *(call for _, calls in fixes for call in calls)))
        else:
            steps += [phone(text, *calls) for text, calls in fixes]
        if not names:
            return steps
    raise AssertionError(f"{goal}: nothing shows {names}")


def look_at(draw: Draw, *names: str) -> Step:
    """The user looks at these things, by their names in CHECKS."""
    things, calls = zip(*(CHECKS[name] for name in names), strict=True)
    listed = " and ".join(filter(None, (", ".join(things[:-1]), things[-1])))
    return phone(draw.pick(CHECK_TEXTS).format(listed), *calls)
