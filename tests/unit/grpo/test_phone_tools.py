"""The telecom user's phone: what its tools show and change, and what its rules follow from."""

import pytest
from telecom_samples import agent_call, make_world, phone_call, refused

from lib.grpo.worlds.phone_tools import PhoneTools
from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.telecom_data import read_phone
from lib.grpo.worlds.tools import READ, ToolError

GOOD_BAR = "Status Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔋 80%"
DEAD_BAR = "Status Bar: 📵 No Signal | 📵 Data Disabled | 🔋 80%"


def make_searched(**device):
    """A phone that has found its network: the file's defaults show a good signal where an excellent one is."""
    world = make_world(**device)
    world.run("user", "simulate_network_search", {})
    return world


def bar(world) -> str:
    return phone_call(world, "check_status_bar")


def last_line(text: str) -> str:
    return text.splitlines()[-1]


# Reading.


def test_absent_tables_and_fields_get_defaults():
    tables = read_phone({}).tables
    device, around = tables["device"][""], tables["surroundings"][""]
    assert device["app_statuses"]["messaging"]["permissions"] == {
        "sms": True,
        "storage": True,
        "phone": True,
        "network": False,
    }
    assert device["active_apn_settings"]["mmsc_url"] == "http://mms.carrier.com/mms/wapenc"
    assert device["vpn_details"] is None and device["battery_level"] == 80
    assert around["signal_strength"] == {"2G": "poor", "3G": "fair", "4G": "good", "5G": "excellent"}
    assert around["line_active"] is True and around["payment_request"] is None


def test_reading_names_what_is_wrong():
    with pytest.raises(DataError, match="signal_strength"):
        read_phone({"surroundings": {"signal_strength": {"6G": "good"}}})
    with pytest.raises(DataError, match="battery"):
        read_phone({"device": {"battery": 5}})
    null = read_phone({"device": {"active_apn_settings": {"mmsc_url": None}}}).tables["device"][""]
    assert null["active_apn_settings"]["mmsc_url"] is None


def test_all_tools_are_there():
    assert len(PhoneTools.tools) == 30
    assert sum(item.kind == READ for item in PhoneTools.tools.values()) == 15
    assert all(item.description for item in PhoneTools.tools.values())


# Looking.


def test_status_bar():
    assert bar(make_searched()) == GOOD_BAR
    assert bar(make_searched(airplane_mode=True)) == "Status Bar: ✈️ Airplane Mode | 🔋 80%"
    assert bar(make_searched(data_saver_mode=True)) == (
        "Status Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔽 Data Saver | 🔋 80%"
    )
    assert bar(make_searched(data_enabled=False)) == "Status Bar: 📶⁴ Excellent | 5G | 📵 Data Disabled | 🔋 80%"
    assert bar(make_searched(vpn_connected=True, battery_level=7)).endswith(
        "📱 Data Enabled | 🔒 VPN Connected | 🔋 7%"
    )
    wifi = {"wifi_enabled": True, "wifi_connected": True}
    assert "| 📡 Enabled |" in bar(make_searched(**wifi))
    assert "| 📡 Connected to Café |" in bar(make_searched(wifi_ssid="Café", **wifi))


@pytest.mark.parametrize(
    "mode, shown",
    [("4g_only", "📶³ Good | 4G"), ("3g_only", "📶² Fair | 3G"), ("2g_only", "📶¹ Poor | 2G")],
)
def test_status_bar_shows_the_signal_of_the_mode(mode, shown):
    assert bar(make_searched(network_mode_preference=mode)) == f"Status Bar: {shown} | 📱 Data Enabled | 🔋 80%"


def test_network_status():
    world = make_searched(wifi_enabled=True, wifi_connected=True, wifi_ssid="home")
    assert phone_call(world, "check_network_status").splitlines() == [
        "Airplane Mode: OFF",
        "SIM Card Status: active",
        "Cellular Connection: connected",
        "Cellular Signal: excellent",
        "Cellular Network Type: 5G",
        "Mobile Data Enabled: Yes",
        "Data Roaming Enabled: No",
        "Wi-Fi Radio: ON",
        "Wi-Fi Connected: Yes",
        "Connected Wi-Fi Network: home",
    ]


def test_other_checks():
    world = make_world()
    assert phone_call(world, "check_network_mode_preference") == "Network Mode Preference: 4g_5g_preferred"
    assert phone_call(world, "check_data_restriction_status") == "Data Saver mode is OFF."
    assert phone_call(world, "check_wifi_calling_status") == "Wi-Fi Calling is currently turned OFF."
    apps = "The following apps are installed on the phone: messaging, browser"
    assert phone_call(world, "check_installed_apps") == apps
    assert phone_call(world, "check_apn_settings").splitlines()[:2] == [
        "Current APN Name: internet",
        "MMSC URL (for picture messages): http://mms.carrier.com/mms/wapenc",
    ]
    world = make_world(data_saver_mode=True, active_apn_settings={"mmsc_url": None, "apn_name": "broken"})
    assert phone_call(world, "check_data_restriction_status") == "Data Saver mode is ON (limits data usage)."
    assert "Name: broken\nMMSC URL (for picture messages): Not Set\n" in phone_call(world, "check_apn_settings")


@pytest.mark.parametrize(
    "device, text",
    [
        ({}, "Your SIM card is active and working."),
        ({"sim_card_missing": True, "sim_card_status": "locked_pin"}, "No SIM card detected in the phone."),
        ({"sim_card_status": "locked_pin"}, "The SIM card is locked with a PIN code."),
        ({"sim_card_status": "locked_puk"}, "The SIM card is locked with a PUK code."),
    ],
)
def test_sim_status(device, text):
    assert phone_call(make_world(**device), "check_sim_status") == text


@pytest.mark.parametrize(
    "device, text",
    [
        ({}, "Wi-Fi is turned OFF."),
        ({"wifi_enabled": True}, "Wi-Fi is ON but not connected to any network."),
        (
            {"wifi_enabled": True, "wifi_connected": True, "wifi_ssid": "home", "wifi_signal_strength": "fair"},
            "Wi-Fi is ON and connected to 'home'. Signal strength: fair.",
        ),
    ],
)
def test_wifi_status(device, text):
    assert phone_call(make_world(**device), "check_wifi_status") == text


def test_app_checks():
    messaging = {"app_name": "m", "permissions": {"sms": True, "phone": True}}
    world = make_world(app_statuses={"messaging": messaging, "x": {"app_name": "x"}})
    text = "Status for App: messaging\n - Permissions Granted:\n   - sms\n   - phone"
    assert phone_call(world, "check_app_status", app_name="messaging") == text
    assert phone_call(world, "check_app_status", app_name="x") == "Status for App: x\n - Permissions: None granted."
    text = "App 'messaging' has permission for: sms, phone."
    assert phone_call(world, "check_app_permissions", app_name="messaging") == text
    assert phone_call(world, "check_app_permissions", app_name="x") == "App 'x' currently has no permissions granted."
    for name in ("check_app_status", "check_app_permissions"):
        assert phone_call(world, name, app_name="maps") == "App 'maps' not found on this phone."


def test_looking_changes_nothing():
    world = make_world()
    before = world.state()
    for name, item in PhoneTools.tools.items():
        if item.kind == READ:
            phone_call(world, name, **({"app_name": "messaging"} if item.parameters["properties"] else {}))
    assert world.state() == before and not world.user.db.changed


# Network search.


@pytest.mark.parametrize(
    "device, around",
    [
        ({"sim_card_missing": True}, {}),
        ({"sim_card_status": "locked_puk"}, {}),
        ({"active_apn_settings": {"apn_name": "broken"}}, {}),
        ({}, {"line_active": False}),
    ],
)
def test_no_service(device, around):
    # Without a number nobody corrects line_active.
    world = make_world(number=None, around=around, **device)
    world.run("user", "simulate_network_search", {})
    assert bar(world) == DEAD_BAR
    assert world.user.device["network_technology_connected"] == "none"
    assert world.run("user", "assert_service_status", {"expected_status": "no_service"})


def test_search_falls_back_to_4g_only_where_5g_has_no_signal():
    world = make_searched(around={"signal_strength": {"4G": "poor"}})
    assert bar(world).startswith("Status Bar: 📶¹ Poor | 4G | 📱 Data Enabled")
    phone_call(world, "set_network_mode_preference", mode="3g_only")
    assert bar(world).startswith("Status Bar: 📵 No Signal | 3G | 📱 Data Enabled")
    assert world.run("user", "assert_service_status", {"expected_status": "connected"})
    assert world.run("user", "assert_mobile_data_status", {"expected_status": False})


def test_mode_preference():
    world = make_searched()
    text = phone_call(world, "set_network_mode_preference", mode="2g_only")
    assert text == "Preferred Network Mode set to: 2g_only\nStatus Bar: 📶¹ Poor | 2G | 📱 Data Enabled | 🔋 80%"
    before = world.state()
    text = phone_call(world, "set_network_mode_preference", mode="5G")
    assert text.splitlines()[0] == (
        "Failed to set network mode: '5G' is not a valid option. "
        "Please use one of: 4g_5g_preferred, 4g_only, 3g_only, 2g_only"
    )
    assert world.state() == before
    refused(world, "user", "set_network_mode_preference", mode=5)


# Switches.


def test_airplane_mode_drops_wifi_and_vpn():
    world = make_searched(wifi_enabled=True, wifi_connected=True, wifi_ssid="home", wifi_signal_strength="good")
    phone_call(world, "connect_vpn")
    text = phone_call(world, "toggle_airplane_mode")
    assert text == "Airplane Mode is now ON.\nStatus Bar: ✈️ Airplane Mode | 🔋 80%"
    device = world.user.device
    assert (device["wifi_connected"], device["wifi_ssid"], device["wifi_signal_strength"]) == (False, None, "none")
    assert (device["vpn_connected"], device["vpn_details"], device["wifi_enabled"]) == (False, None, True)
    assert phone_call(world, "toggle_airplane_mode") == f"Airplane Mode is now OFF.\n{GOOD_BAR}"


def test_data_switches():
    world = make_searched()
    start = world.state()
    off = "Mobile Data is now OFF.\nStatus Bar: 📶⁴ Excellent | 5G | 📵 Data Disabled | 🔋 80%"
    assert phone_call(world, "toggle_data") == off
    assert phone_call(world, "toggle_data") == f"Mobile Data is now ON.\n{GOOD_BAR}"
    assert phone_call(world, "toggle_roaming") == f"Data Roaming is now ON.\n{GOOD_BAR}"
    assert phone_call(world, "toggle_roaming") == f"Data Roaming is now OFF.\n{GOOD_BAR}"
    assert phone_call(world, "toggle_data_saver_mode").startswith("Data Saver Mode is now ON.\n")
    assert phone_call(world, "toggle_data_saver_mode") == f"Data Saver Mode is now OFF.\n{GOOD_BAR}"
    assert phone_call(world, "toggle_wifi_calling") == f"Wi-Fi Calling is now ON.\n{GOOD_BAR}"
    assert phone_call(world, "toggle_wifi_calling") == f"Wi-Fi Calling is now OFF.\n{GOOD_BAR}"
    assert world.state() == start


def test_every_switch_that_searches_notices_a_lost_line():
    for name in ("toggle_data", "toggle_roaming", "reset_apn_settings", "reseat_sim_card", "reboot_device"):
        world = make_searched()
        agent_call(world, "suspend_line", customer_id="C1", line_id="L1", reason="lost")
        assert bar(world) == GOOD_BAR
        for quiet in ("toggle_data_saver_mode", "toggle_wifi", "toggle_wifi_calling", "connect_vpn"):
            assert "📶⁴ Excellent" in phone_call(world, quiet)
        assert "📵 No Signal" in phone_call(world, name)


def test_wifi():
    world = make_searched(wifi_connected=True, wifi_ssid="home", wifi_signal_strength="good")
    assert "Connected to home" in phone_call(world, "toggle_wifi")
    assert phone_call(world, "toggle_wifi") == f"Wi-Fi is now OFF.\n{GOOD_BAR}"
    assert world.user.device["wifi_ssid"] is None
    phone_call(world, "toggle_airplane_mode")
    before = world.state()
    text = phone_call(world, "toggle_wifi")
    assert text == "Cannot change Wi-Fi settings while Airplane Mode is ON.\nStatus Bar: ✈️ Airplane Mode | 🔋 80%"
    assert world.state() == before


def test_sim_card():
    world = make_searched()
    assert phone_call(world, "reseat_sim_card") == f"SIM card re-seated successfully.\n{GOOD_BAR}"
    world.run("user", "unseat_sim_card", {})
    assert bar(world) == DEAD_BAR
    assert last_line(phone_call(world, "reseat_sim_card")) == GOOD_BAR
    world.run("user", "lock_sim_card", {"mode": "pin"})
    assert last_line(phone_call(world, "reseat_sim_card")) == DEAD_BAR
    with pytest.raises(ToolError):
        world.run("user", "lock_sim_card", {"mode": "face"})
    refused(make_world(sim_card_status="missing"), "user", "reseat_sim_card")


# APN, VPN, apps.


def test_apn_reset_waits_for_the_reboot():
    world = make_searched()
    start = world.state()
    world.run("user", "break_apn_settings", {})
    world.run("user", "break_apn_mms_setting", {})
    assert phone_call(world, "reset_apn_settings") == f"APN settings will reset at reboot.\n{DEAD_BAR}"
    assert "broken" in phone_call(world, "check_apn_settings")
    text = phone_call(world, "reboot_device")
    assert text == f"Resetting APN settings...\nRestarting network services...\n{GOOD_BAR}"
    assert world.state() == start
    assert phone_call(world, "reboot_device") == f"Restarting network services...\n{GOOD_BAR}"


def test_a_reboot_alone_does_not_mend_the_apn():
    world = make_searched()
    world.run("user", "break_apn_settings", {})
    assert last_line(phone_call(world, "reboot_device")) == DEAD_BAR


def test_set_apn_settings():
    world = make_searched()
    text = phone_call(world, "set_apn_settings", apn_settings={"apn_name": "broken", "mms_port": 80.0})
    assert text == f"APN settings set to: broken\n{DEAD_BAR}"
    settings = world.user.device["active_apn_settings"]
    assert (repr(settings["mms_port"]), settings["mms_apn"], settings["reset_at_reboot"]) == ("80", "mms", False)
    assert phone_call(world, "set_apn_settings", apn_settings={}) == f"APN settings set to: internet\n{GOOD_BAR}"
    for wrong in ({"apn_name": "other"}, {"port": 1}, {"mms_port": "many"}, {"mms_port": 1.5}, "internet", None, []):
        refused(world, "user", "set_apn_settings", apn_settings=wrong)
    refused(world, "user", "set_apn_settings")


def test_vpn():
    world = make_searched()
    assert phone_call(world, "check_vpn_status") == "VPN is turned OFF."
    assert phone_call(world, "disconnect_vpn") == f"No active VPN connection to disconnect.\n{GOOD_BAR}"
    assert phone_call(world, "connect_vpn").startswith("VPN connected successfully.\nStatus Bar: ")
    assert phone_call(world, "connect_vpn") == "VPN already connected."
    assert phone_call(world, "check_vpn_status") == (
        "VPN is ON and connected. Details: {'server_address': '192.168.1.1', 'protocol': 'OpenVPN', "
        "'server_performance': <PerformanceLevel.EXCELLENT: 'excellent'>}"
    )
    assert phone_call(world, "disconnect_vpn") == f"VPN disconnected successfully.\n{GOOD_BAR}"
    text = phone_call(make_world(vpn_connected=True), "check_vpn_status")
    assert text == "VPN is ON and connected (no specific details available)."
    text = phone_call(make_world(vpn_enabled_setting=True), "check_vpn_status")
    assert text == "VPN is turned ON in settings, but currently not connected."


def test_a_broken_vpn_does_not_reach_other_connections():
    world = make_searched()
    world.run("user", "break_vpn", {})
    assert "<PerformanceLevel.POOR: 'poor'>" in phone_call(world, "check_vpn_status")
    phone_call(world, "disconnect_vpn")
    for connected in (world, make_world()):
        phone_call(connected, "connect_vpn")
        assert "excellent" in phone_call(connected, "check_vpn_status")
    with pytest.raises(ToolError):
        make_world(vpn_connected=True).run("user", "break_vpn", {})


def test_app_permissions():
    world = make_searched()
    start = world.state()
    done = world.run("user", "remove_app_permission", {"app_name": "messaging", "permission": "SMS"})
    assert done == (True, "Permission 'sms' removed from app 'messaging'.")
    assert world.user.device["app_statuses"]["messaging"]["permissions"]["sms"] is False
    text = phone_call(world, "grant_app_permission", app_name="messaging", permission="Sms")
    assert text == f"Success. Permission 'sms' granted to app 'messaging'.\n{GOOD_BAR}"
    assert world.state() == start
    text = phone_call(world, "grant_app_permission", app_name="messaging", permission="camera")
    assert text.startswith(
        "Error. Permission 'camera' not tracked for app 'messaging', "
        "available permissions: ['sms', 'storage', 'phone', 'network']\n"
    )
    text = phone_call(world, "grant_app_permission", app_name="maps", permission="sms")
    assert text.startswith("Error. App 'maps' not found. Cannot grant permission.\n")
    for arguments in ({"app_name": "maps", "permission": "sms"}, {"app_name": "browser", "permission": 5}):
        assert world.run("user", "remove_app_permission", arguments)[0] is False
    assert world.state() == start


# Speed and MMS.

ABROAD = {"is_abroad": True}
POOR_VPN = {"vpn_connected": True, "vpn_details": {"server_performance": "poor"}}


@pytest.mark.parametrize(
    "device, text",
    [
        ({}, "220.00 Mbps (Excellent). Connection is very fast."),
        ({"data_saver_mode": True}, "55.00 Mbps (Good). Connection is good for most activities"),
        ({"network_mode_preference": "4g_only"}, "44.00 Mbps (Good)."),
        ({"network_mode_preference": "3g_only"}, "1.50 Mbps (Poor). Connection is slow."),
        ({"network_mode_preference": "2g_only"}, "0.05 Mbps (Very Poor). Connection is very slow."),
        (POOR_VPN, "27.50 Mbps (Good)."),
        ({"vpn_connected": True, "vpn_details": {"server_performance": "fair"}}, "275.00 Mbps (Excellent)."),
        ({**POOR_VPN, "data_saver_mode": True}, "5.50 Mbps (Fair). Connection is okay"),
    ],
)
def test_speed(device, text):
    world = make_searched(**device) if device else make_world()
    assert phone_call(world, "run_speed_test").startswith(f"Speed Test Result: {text}")


@pytest.mark.parametrize(
    "device, around",
    [
        ({"airplane_mode": True}, {}),
        ({"sim_card_missing": True}, {}),
        ({"data_enabled": False}, {}),
        ({}, {"mobile_data_usage_exceeded": True}),
        ({}, ABROAD),
        ({"roaming_enabled": True}, ABROAD),
        ({}, {**ABROAD, "roaming_allowed": True}),
    ],
)
def test_no_mobile_data(device, around):
    world = make_world(number=None, around=around, **device)
    world.run("user", "simulate_network_search", {})
    assert phone_call(world, "run_speed_test") == "Speed test failed: No Connection."
    assert phone_call(world, "can_send_mms") == "Your messaging app cannot send MMS messages."
    assert world.run("user", "assert_mobile_data_status", {"expected_status": False})
    assert not world.run("user", "assert_internet_speed", {"expected_speed": 0.1})


def test_data_abroad_need_both_sides_of_roaming():
    world = make_searched(around=ABROAD)
    phone_call(world, "toggle_roaming")
    assert world.run("user", "assert_mobile_data_status", {"expected_status": False})
    agent_call(world, "enable_roaming", customer_id="C1", line_id="L1")
    assert world.run("user", "assert_mobile_data_status", {"expected_status": True})


def test_mms():
    assert phone_call(make_world(), "can_send_mms") == "Your messaging app can send MMS messages."
    messaging = {"app_name": "messaging", "permissions": {"sms": True}}
    faults = (
        {"network_mode_preference": "2g_only"},
        {"wifi_calling_enabled": True, "wifi_calling_mms_over_wifi": True},
        {"active_apn_settings": {"mmsc_url": None}},
        {"app_statuses": {}},
        {"app_statuses": {"messaging": messaging}},
    )
    for fault in faults:
        world = make_searched(**fault)
        assert world.run("user", "assert_can_send_mms", {"expected_status": False}), fault
        assert world.run("user", "assert_mobile_data_status", {"expected_status": True}), fault
    for harmless in ({"wifi_calling_enabled": True}, {"network_mode_preference": "3g_only"}):
        assert make_searched(**harmless).run("user", "assert_can_send_mms", {"expected_status": True}), harmless


# What tasks do.

SWITCHES = {
    "airplane_mode": ("airplane_mode", "assert_airplane_mode_status"),
    "data": ("data_enabled", None),
    "roaming": ("roaming_enabled", "assert_mobile_roaming_status"),
    "data_saver_mode": ("data_saver_mode", "assert_mobile_data_saver_mode_status"),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_of_tasks(name):
    field, assertion = SWITCHES[name]
    for start in (True, False):
        for word, position in (("on", True), ("off", False)):
            world = make_searched(**{field: start})
            world.run("user", f"turn_{name}_{word}", {})
            assert world.user.device[field] is position
            if assertion:
                assert world.run("user", assertion, {"expected_status": position})
                assert not world.run("user", assertion, {"expected_status": not position})


def test_only_turning_data_on_does_not_search():
    world = make_searched()
    agent_call(world, "suspend_line", customer_id="C1", line_id="L1", reason="lost")
    world.run("user", "turn_data_on", {})
    assert bar(world) == GOOD_BAR
    world.run("user", "turn_data_off", {})
    assert bar(world) == DEAD_BAR


def test_airplane_mode_of_tasks_drops_the_vpn_either_way():
    for name, start in (("turn_airplane_mode_on", False), ("turn_airplane_mode_off", False)):
        world = make_searched(airplane_mode=start)
        phone_call(world, "connect_vpn")
        world.run("user", name, {})
        assert world.user.device["vpn_connected"] is False


def test_wifi_calling_of_tasks():
    world = make_world()
    text = world.run("user", "set_wifi_calling", {"enabled": True, "mms_over_wifi": True})
    assert text == "Wi-Fi Calling is now ON.\nMMS over Wi-Fi is now ON."
    assert world.run("user", "set_wifi_calling", {"enabled": False}) == "Wi-Fi Calling is now OFF."
    device = world.user.device
    assert (device["wifi_calling_enabled"], device["wifi_calling_mms_over_wifi"]) == (False, True)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("set_user_location", {"abroad": "far"}),
        ("set_wifi_calling", {"enabled": 1}),
        ("set_wifi_calling", {"enabled": True, "mms_over_wifi": "no"}),
        ("assert_service_status", {"expected_status": "fine"}),
        ("set_user_info", {"name": "Anna"}),
        ("_flip", {"switch": "data_enabled"}),
        ("device", {}),
    ],
)
def test_wrong_arguments_of_tasks_are_refused(name, arguments):
    world = make_world()
    before = world.state()
    with pytest.raises(ToolError):
        world.run("user", name, arguments)
    assert world.state() == before and not world.user.db.pending


def test_speed_assertions():
    world = make_searched()
    for arguments, holds in (
        ({"expected_speed": 200, "expected_desc": "excellent"}, True),
        ({"expected_speed": 200, "expected_desc": "Good"}, False),
        ({"expected_speed": 300}, False),
        ({"expected_speed": 275.0}, True),
    ):
        assert world.run("user", "assert_internet_speed", arguments) is holds
    assert world.run("user", "assert_internet_not_excellent", {}) is False
    world.run("user", "turn_data_saver_mode_on", {})
    assert world.run("user", "assert_internet_not_excellent", {}) is True
    for exceeded in (True, False):
        holds = world.run("user", "assert_mobile_data_usage_exceeded", {"expected_status": exceeded})
        assert holds is not exceeded


def test_setting_what_is_set_copies_nothing():
    world = make_searched()
    before = world.user.device
    for name in ("turn_data_on", "turn_data_saver_mode_off", "turn_roaming_off", "simulate_network_search"):
        world.run("user", name, {})
    for name in ("reseat_sim_card", "disconnect_vpn", "reboot_device"):
        phone_call(world, name)
    phone_call(world, "set_network_mode_preference", mode="4g_5g_preferred")
    phone_call(world, "grant_app_permission", app_name="messaging", permission="sms")
    phone_call(world, "grant_app_permission", app_name="maps", permission="sms")
    assert world.user.device is before
