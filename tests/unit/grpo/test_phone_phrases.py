"""What natural instructions make the user do on the phone, and how fast they are read."""

import time

import pytest
from telecom_samples import make_world

from lib.grpo.users import phone
from lib.grpo.users.parser import understand


def calls_of(text, world):
    """Names of the calls, with the permission or the mode."""
    return [" ".join([step.name, *step.arguments.values()]) for step in phone.instructions(normal(text), world)]


def normal(text):
    return understand(text).normal


# What is said, how the phone differs from its defaults, and what the user does.
PHRASES = [
    ("Airplane mode is on. Please turn it off.", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("Please turn airplane mode off.", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("I see that airplane mode is on, turn it off please", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("Could you toggle airplane mode?", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("Please use `toggle_airplane_mode` to turn airplane mode off.", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("Please use toggle_airplane_mode on your phone.", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    (
        "Make sure that airplane mode is off and mobile data is on.",
        {"airplane_mode": True, "data_enabled": False},
        ["toggle_airplane_mode", "toggle_data"],
    ),
    ("Please ensure airplane mode is disabled.", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("Airplane mode should be off.", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("Please turn airplane mode on and then off again.", {}, ["toggle_airplane_mode", "toggle_airplane_mode"]),
    (
        "Turn off airplane mode, data saver and VPN on your phone.",
        {"airplane_mode": True, "data_saver_mode": True, "vpn_connected": True},
        ["toggle_airplane_mode", "toggle_data_saver_mode", "disconnect_vpn"],
    ),
    ("Is airplane mode on?", {"airplane_mode": True}, ["check_network_status"]),
    ("Airplane mode is on.", {"airplane_mode": True}, []),
    (
        "Airplane mode and data saver are on. Please turn them off.",
        {"airplane_mode": True, "data_saver_mode": True},
        ["toggle_airplane_mode", "toggle_data_saver_mode"],
    ),
    ("If mobile data is off, please turn it on.", {"data_enabled": False}, ["toggle_data"]),
    ("If mobile data is off, please turn it on.", {}, ["check_network_status"]),
    ("I will enable roaming on line 555-123-2002, free of charge. Do you confirm (yes/no)?", {}, []),
    (
        "I have enabled roaming on your line. Please turn on data roaming on your phone and run a speed test.",
        {},
        ["toggle_roaming", "run_speed_test"],
    ),
    ("Shall I enable roaming on your line?", {}, []),
    ("Would you like me to turn on roaming for your line?", {}, []),
    ("I would like you to turn on data roaming.", {}, ["toggle_roaming"]),
    ("I need you to disable Wi-Fi calling.", {"wifi_calling_enabled": True}, ["toggle_wifi_calling"]),
    (
        "Turn Wi-Fi calling off and mobile data on.",
        {"wifi_calling_enabled": True, "data_enabled": False},
        ["toggle_wifi_calling", "toggle_data"],
    ),
    ("Please switch off wifi calling.", {"wifi_calling_enabled": True}, ["toggle_wifi_calling"]),
    ("Do not turn on roaming, please reboot.", {}, ["reboot_device"]),
    ("Please reset the APN settings and then reboot your phone.", {}, ["reset_apn_settings", "reboot_device"]),
    (
        "The APN settings are wrong. Please reset them and restart the phone.",
        {},
        ["reset_apn_settings", "reboot_device"],
    ),
    (
        "Please reset your APN settings to default. Then reboot your device. After the reboot, run a speed test.",
        {},
        ["reset_apn_settings", "reboot_device", "run_speed_test"],
    ),
    ("Please turn your phone off and on again.", {}, ["reboot_device"]),
    ("Please take out the SIM card and put it in again.", {}, ["reseat_sim_card"]),
    ("Please remove and reinsert your SIM card.", {}, ["reseat_sim_card"]),
    ("Please re-seat the SIM card.", {}, ["reseat_sim_card"]),
    ("Please grant the messaging app the sms permission on your phone.", {}, ["grant_app_permission messaging sms"]),
    (
        "Please grant the SMS and storage permissions to the messaging app on your phone.",
        {},
        ["grant_app_permission messaging sms", "grant_app_permission messaging storage"],
    ),
    (
        "The messaging app needs the storage permission. Please grant it on your phone.",
        {},
        ["grant_app_permission messaging storage"],
    ),
    (
        "Please use grant_app_permission on your phone: app_name messaging, permission sms.",
        {},
        ["grant_app_permission messaging sms"],
    ),
    ("Allow the messaging app to use storage.", {}, ["grant_app_permission messaging storage"]),
    ("Grant the phone permission to the messaging app.", {}, ["grant_app_permission messaging phone"]),
    ("Please check the permissions of the messaging app.", {}, ["check_app_permissions messaging"]),
    ("What permissions does your messaging app have?", {}, ["check_app_permissions messaging"]),
    ("Please set the network mode preference to 4g_5g_preferred.", {}, ["set_network_mode_preference 4g_5g_preferred"]),
    (
        "Your network mode is 3g_only, please change it to 4G/5G preferred.",
        {},
        ["set_network_mode_preference 4g_5g_preferred"],
    ),
    (
        "Please use set_network_mode_preference on your phone: mode 4g_5g_preferred.",
        {},
        ["set_network_mode_preference 4g_5g_preferred"],
    ),
    (
        "Please change your preferred network type from 3G only to 5G.",
        {},
        ["set_network_mode_preference 4g_5g_preferred"],
    ),
    ("Please check your network mode preference.", {}, ["check_network_mode_preference"]),
    (
        "Please check the network status, the APN settings and the VPN status.",
        {},
        ["check_network_status", "check_apn_settings", "check_vpn_status"],
    ),
    (
        "Could you check the data saver status, the network mode preference and the VPN status on your phone?",
        {},
        ["check_data_restriction_status", "check_network_mode_preference", "check_vpn_status"],
    ),
    ("Please have a look at the Wi-Fi calling status and tell me what it shows.", {}, ["check_wifi_calling_status"]),
    ("What does the status bar show?", {}, ["check_status_bar"]),
    ("Please check your SIM card.", {}, ["check_sim_status"]),
    ("Is your SIM card inserted properly?", {}, ["check_sim_status"]),
    ("Please disconnect from the VPN.", {"vpn_connected": True}, ["disconnect_vpn"]),
    ("Your VPN is slow. Please disconnect it.", {"vpn_connected": True}, ["disconnect_vpn"]),
    ("Are you connected to a VPN?", {}, ["check_vpn_status"]),
    ("Please run check_vpn_status and run_speed_test.", {}, ["check_vpn_status", "run_speed_test"]),
    (
        "I have sent you a payment request. Please check the payment request and pay the bill.",
        {},
        ["check_payment_request", "make_payment"],
    ),
    ("Please accept the payment request.", {}, ["make_payment"]),
    ("Would you like to pay the bill now?", {}, []),
    ("I will send you a payment request for bill B1 over 45.25 dollars. Do you confirm (yes/no)?", {}, []),
    ("Can you send picture messages now?", {}, ["can_send_mms"]),
    ("Please try sending a picture message.", {}, ["can_send_mms"]),
    ("Are you abroad at the moment?", {}, []),
    ("How much data would you like to add, in GB?", {}, []),
    ("Could you please tell me your phone number?", {}, []),
    ("Which line is it about?", {}, []),
    ("Please try again. Does it work now?", {}, []),
    (
        "First, turn off airplane mode.\n2. Turn on mobile data.\n3. Reboot.",
        {"airplane_mode": True, "data_enabled": False},
        ["toggle_airplane_mode", "toggle_data", "reboot_device"],
    ),
    ("You need to enable data roaming in your settings", {}, ["toggle_roaming"]),
    ("Please check whether data roaming is turned on.", {}, ["check_network_status"]),
    ("Please turn on cellular data.", {"data_enabled": False}, ["toggle_data"]),
    ("Please turn off data saver mode on your phone.", {"data_saver_mode": True}, ["toggle_data_saver_mode"]),
    ("Please switch data saver mode off.", {"data_saver_mode": True}, ["toggle_data_saver_mode"]),
    (
        "Grant sms permission to messaging and turn off airplane mode.",
        {"airplane_mode": True},
        ["grant_app_permission messaging sms", "toggle_airplane_mode"],
    ),
    ("I can see your line is active. Let me check your data usage.", {}, []),
    ("Let me enable roaming on your line.", {}, []),
    ("Please turn off Wi-Fi.", {"wifi_enabled": True}, ["toggle_wifi"]),
    ("Please open your settings and disable the data saver.", {"data_saver_mode": True}, ["toggle_data_saver_mode"]),
    ("Enable the storage permission for the messaging app.", {}, ["grant_app_permission messaging storage"]),
    ("Toggle mobile data off and then back on.", {}, ["toggle_data", "toggle_data"]),
    (
        "Please check if airplane mode is on. If it is on, turn it off.",
        {"airplane_mode": True},
        ["check_network_status", "toggle_airplane_mode"],
    ),
    ("Please let me know what the status bar shows.", {}, ["check_status_bar"]),
    (
        "Please go to the settings and make sure that Wi-Fi calling is turned off.",
        {"wifi_calling_enabled": True},
        ["toggle_wifi_calling"],
    ),
    ("Data roaming needs to be switched on.", {}, ["toggle_roaming"]),
    ("**Airplane Mode**: please make sure it's off", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("1) Airplane mode: turn it OFF", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    ("Have you tried restarting your phone?", {}, ["reboot_device"]),
    (
        "I'll guide you through it. First, let's turn off Airplane Mode.",
        {"airplane_mode": True},
        ["toggle_airplane_mode"],
    ),
    (
        "It looks like mobile data is turned off. Could you please turn it on and let me know if it works?",
        {"data_enabled": False},
        ["toggle_data"],
    ),
    ("Your line is active and roaming is enabled on your line.", {}, []),
    ("Roaming has been enabled. Please make sure roaming is also enabled on your phone.", {}, ["toggle_roaming"]),
    (
        "Thank you! To fix this, please disable Data Saver and disconnect your VPN.",
        {"data_saver_mode": True, "vpn_connected": True},
        ["toggle_data_saver_mode", "disconnect_vpn"],
    ),
    ("We need to reset your APN settings. Please do that and restart.", {}, ["reset_apn_settings", "reboot_device"]),
    ("Please make the payment using make_payment.", {}, ["make_payment"]),
    ("I've turned on roaming for your line L1002.", {}, []),
    ("Switching airplane mode off should help, please do so.", {"airplane_mode": True}, ["toggle_airplane_mode"]),
    (
        "Please turn on Airplane Mode for 10 seconds, then turn it off.",
        {},
        ["toggle_airplane_mode", "toggle_airplane_mode"],
    ),
    ("Once you have paid the bill, I will resume your line and you need to reboot your phone.", {}, ["reboot_device"]),
    (
        "Please make sure the messaging app has both SMS and Storage permissions.",
        {},
        ["grant_app_permission messaging sms", "grant_app_permission messaging storage"],
    ),
    ("Ensure the storage permission is granted to the messaging app.", {}, ["grant_app_permission messaging storage"]),
    ("Please check that the messaging app has the SMS permission.", {}, ["check_app_permissions messaging"]),
    (
        "Go to Settings > Apps > Messaging > Permissions and enable Storage.",
        {},
        ["grant_app_permission messaging storage"],
    ),
    (
        "Please open Settings > Apps > Messaging > Permissions and enable Storage.",
        {},
        ["check_app_permissions messaging", "grant_app_permission messaging storage"],
    ),
    (
        "Open the messaging app's permissions. Enable Storage and SMS.",
        {},
        [
            "check_app_permissions messaging",
            "grant_app_permission messaging storage",
            "grant_app_permission messaging sms",
        ],
    ),
    ("Please open the payment request and approve it.", {}, ["check_payment_request", "make_payment"]),
    ("You will see a payment request. Please accept it.", {}, ["check_payment_request", "make_payment"]),
    ("I have sent you a payment request. Please confirm that you see it.", {}, ["check_payment_request"]),
    ("Would you like to open the payment request and approve it?", {}, []),
    ("Would you like to turn on data roaming?", {}, []),
    ("Would you like to turn on data roaming now?", {}, []),
    ("Shall I turn on data roaming?", {}, []),
    ("Shall we turn off airplane mode?", {"airplane_mode": True}, []),
    ("Do you want to reboot your phone now?", {}, []),
    ("Are you willing to turn off the VPN?", {"vpn_connected": True}, []),
    ("Would you please turn on data roaming?", {}, ["toggle_roaming"]),
    ("Would you mind rebooting your phone?", {}, ["reboot_device"]),
    ("Would you like to go on? Then please turn on data roaming.", {}, ["toggle_roaming"]),
    ("Are you sure that airplane mode is off?", {}, ["check_network_status"]),
]


@pytest.mark.parametrize(("text", "device", "calls"), PHRASES)
def test_a_phrase_is_carried_out_as_it_is_meant(text, device, calls):
    assert calls_of(text, make_world(**device)) == calls


LONG = [
    "grant ",
    "grant it ",
    "permission ",
    "turn ",
    "network mode to ",
    "to 4g ",
    "make sure messaging app ",
    "airplane mode them on ",
    "turn airplane mode on, check vpn, turn it off. ",
    "pay the bill ",
    "reset apn ",
    "take out and x the sim ",
    "would you like to ",
    "toggle_data ",
    "a_",
    "please\n",
    "\n",
    "1. ",
]


@pytest.mark.parametrize("word", LONG)
@pytest.mark.parametrize("end", ["", "?"])
def test_long_texts_are_read_in_linear_time(word, end):
    text, world = normal(word * (20_000 // len(word)) + end), make_world()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        phone.instructions(text, world)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.03


def test_only_the_beginning_of_a_long_message_is_carried_out():
    said = "Please turn on data roaming. "
    assert calls_of(said + "Well. " * 1000, make_world()) == ["toggle_roaming"]
    assert calls_of("Well. " * 1000 + said, make_world()) == []
