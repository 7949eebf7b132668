"""The tools of the telecom user's phone, with the names, arguments, effects and texts of tau2-bench (version 1.0.1).

As there, a failure that a real phone would show on its screen is an ordinary text, not an error.
"""

from typing import Literal, TypedDict

from lib.grpo.worlds.phone_tasks import VPN, PhoneTasks
from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.telecom_data import APN_SETTINGS, NETWORK_MODES
from lib.grpo.worlds.tools import READ, WRITE, ToolError, tool

SIM_TEXTS = {
    "active": "Your SIM card is active and working.",
    "missing": "No SIM card detected in the phone.",
    "locked_pin": "The SIM card is locked with a PIN code.",
    "locked_puk": "The SIM card is locked with a PUK code.",
}
ADVICE = {
    "Very Poor": "Connection is very slow. Basic web browsing might be difficult.",
    "Poor": "Connection is slow. Web browsing may be sluggish, streaming difficult.",
    "Fair": "Connection is okay for web browsing and some standard definition streaming.",
    "Good": "Connection is good for most activities, including HD streaming.",
    "Excellent": "Connection is very fast.",
}


class ApnSettings(TypedDict, total=False):
    apn_name: Literal["internet", "broken"]
    reset_at_reboot: bool
    mms_apn: str | None
    mmsc_url: str | None
    mms_proxy: str | None
    mms_port: int | None


class PhoneTools(PhoneTasks):
    """Tables `device` and `surroundings`."""

    # Looking.

    @tool(READ)
    def check_status_bar(self) -> str:
        """Show the icons of the status bar: signal, network type, mobile data, Wi-Fi, VPN, battery."""
        return self._status_bar()

    @tool(READ)
    def check_network_status(self) -> str:
        """Show airplane mode, SIM, cellular connection and signal, network type, mobile data, roaming and Wi-Fi."""
        device = self.device
        lines = [
            f"Airplane Mode: {_on_off(device['airplane_mode'])}",
            f"SIM Card Status: {self._sim_status()}",
            f"Cellular Connection: {device['network_connection_status']}",
            f"Cellular Signal: {device['network_signal_strength']}",
            f"Cellular Network Type: {device['network_technology_connected']}",
            f"Mobile Data Enabled: {_yes_no(device['data_enabled'])}",
            f"Data Roaming Enabled: {_yes_no(device['roaming_enabled'])}",
            f"Wi-Fi Radio: {_on_off(device['wifi_enabled'])}",
            f"Wi-Fi Connected: {_yes_no(device['wifi_connected'])}",
        ]
        if device["wifi_connected"]:
            lines.append(f"Connected Wi-Fi Network: {device['wifi_ssid']}")
        return "\n".join(lines)

    @tool(READ)
    def check_network_mode_preference(self) -> str:
        """Show which type of cellular network the phone prefers."""
        return f"Network Mode Preference: {self.device['network_mode_preference']}"

    @tool(READ)
    def check_sim_status(self) -> str:
        """Show whether the SIM card works, is missing, or is locked with a PIN or PUK code."""
        return SIM_TEXTS[self._sim_status()]

    @tool(READ)
    def check_data_restriction_status(self) -> str:
        """Show whether Data Saver mode limits the use of data."""
        if self.device["data_saver_mode"]:
            return "Data Saver mode is ON (limits data usage)."
        return "Data Saver mode is OFF."

    @tool(READ)
    def check_apn_settings(self) -> str:
        """Show the APN name and the MMSC URL for picture messages."""
        settings = self.device["active_apn_settings"]
        url = settings["mmsc_url"] or "Not Set"
        return (
            f"Current APN Name: {settings['apn_name']}\nMMSC URL (for picture messages): {url}\n"
            "(These are technical settings, usually best left unchanged.)"
        )

    @tool(READ)
    def check_wifi_status(self) -> str:
        """Show whether Wi-Fi is on, and the connected network with its signal."""
        device = self.device
        if not device["wifi_enabled"]:
            return "Wi-Fi is turned OFF."
        if not device["wifi_connected"]:
            return "Wi-Fi is ON but not connected to any network."
        return (
            f"Wi-Fi is ON and connected to '{device['wifi_ssid']}'. Signal strength: {device['wifi_signal_strength']}."
        )

    @tool(READ)
    def check_wifi_calling_status(self) -> str:
        """Show whether Wi-Fi Calling is on."""
        return f"Wi-Fi Calling is currently turned {_on_off(self.device['wifi_calling_enabled'])}."

    @tool(READ)
    def check_vpn_status(self) -> str:
        """Show whether a VPN is connected, with its details and performance."""
        device = self.device
        if not device["vpn_connected"]:
            on = device["vpn_enabled_setting"]
            return "VPN is turned ON in settings, but currently not connected." if on else "VPN is turned OFF."
        details = device["vpn_details"]
        if details is None:
            return "VPN is ON and connected (no specific details available)."
        # The benchmark prints a Python dict that holds an enumeration.
        level = details["server_performance"]
        shown = ", ".join(f"{name!r}: {details[name]!r}" for name in ("server_address", "protocol"))
        shown += f", 'server_performance': <PerformanceLevel.{level.upper()}: {level!r}>"
        return f"VPN is ON and connected. Details: {{{shown}}}"

    @tool(READ)
    def check_installed_apps(self) -> str:
        """Show the names of all installed apps."""
        return f"The following apps are installed on the phone: {', '.join(self.device['app_statuses'])}"

    @tool(READ)
    def check_app_status(self, app_name: str) -> str:
        """Show the details of an app: its permissions.

        Args:
            app_name: Such as 'messaging'.
        """
        granted = self._granted(app_name)
        if granted is None:
            return f"App '{app_name}' not found on this phone."
        lines = [" - Permissions Granted:", *(f"   - {name}" for name in granted)]
        return "\n".join([f"Status for App: {app_name}", *(lines if granted else [" - Permissions: None granted."])])

    @tool(READ)
    def check_app_permissions(self, app_name: str) -> str:
        """Show which permissions an app has.

        Args:
            app_name: Such as 'messaging'.
        """
        granted = self._granted(app_name)
        if granted is None:
            return f"App '{app_name}' not found on this phone."
        if not granted:
            return f"App '{app_name}' currently has no permissions granted."
        return f"App '{app_name}' has permission for: {', '.join(granted)}."

    @tool(READ)
    def check_payment_request(self) -> str:
        """Show whether the agent has sent you a payment request."""
        request = self.surroundings["payment_request"]
        if request is None:
            return "No payment request has been made."
        return f"You have a payment request for bill {request['bill_id']} of {request['amount_due']} USD."

    @tool(READ)
    def run_speed_test(self) -> str:
        """Measure the download speed of mobile data."""
        speed, grade = self._measure_speed()
        if speed is None:
            return f"Speed test failed: {grade}."
        return f"Speed Test Result: {speed:.2f} Mbps ({grade}). {ADVICE[grade]}"

    @tool(READ)
    def can_send_mms(self) -> str:
        """Check whether the messaging app can send picture messages (MMS)."""
        return f"Your messaging app {'can' if self._mms_works() else 'cannot'} send MMS messages."

    # Switching.

    @tool(WRITE)
    def toggle_airplane_mode(self) -> str:
        """Turn Airplane Mode on or off. On, it cuts cellular, Wi-Fi and VPN."""
        return self._show(f"Airplane Mode is now {_on_off(self._flip_airplane_mode())}.")

    @tool(WRITE)
    def toggle_data(self) -> str:
        """Turn mobile data on or off."""
        return self._show(f"Mobile Data is now {_on_off(self._flip('data_enabled'))}.")

    @tool(WRITE)
    def toggle_roaming(self) -> str:
        """Turn Data Roaming on or off; on, mobile data may be used abroad."""
        return self._show(f"Data Roaming is now {_on_off(self._flip('roaming_enabled'))}.")

    @tool(WRITE)
    def toggle_data_saver_mode(self) -> str:
        """Turn Data Saver mode on or off; on, it slows data down."""
        return self._show(f"Data Saver Mode is now {_on_off(self._flip('data_saver_mode', search=False))}.")

    @tool(WRITE)
    def toggle_wifi(self) -> str:
        """Turn the Wi-Fi radio on or off; not possible in Airplane Mode."""
        if self.device["airplane_mode"]:
            return self._show("Cannot change Wi-Fi settings while Airplane Mode is ON.")
        enabled = self._flip("wifi_enabled", search=False)
        if not enabled:
            self._drop_wifi()
        return self._show(f"Wi-Fi is now {_on_off(enabled)}.")

    @tool(WRITE)
    def toggle_wifi_calling(self) -> str:
        """Turn Wi-Fi Calling on or off."""
        return self._show(f"Wi-Fi Calling is now {_on_off(self._flip('wifi_calling_enabled', search=False))}.")

    # Setting and repairing.

    @tool(WRITE)
    def set_network_mode_preference(self, mode: str) -> str:
        """Choose the type of cellular network that the phone prefers.

        Args:
            mode: '4g_5g_preferred', '4g_only', '3g_only' or '2g_only'.
        """
        if mode not in NETWORK_MODES:
            options = ", ".join(NETWORK_MODES)
            return self._show(
                f"Failed to set network mode: '{mode}' is not a valid option. Please use one of: {options}"
            )
        self._set_device(network_mode_preference=mode)
        self.simulate_network_search()
        return self._show(f"Preferred Network Mode set to: {mode}")

    @tool(WRITE)
    def set_apn_settings(self, apn_settings: ApnSettings) -> str:
        """Replace the APN settings; what is left out gets its default.

        Args:
            apn_settings: The new settings.
        """
        try:
            settings = APN_SETTINGS(apn_settings, "apn_settings")
        except DataError as error:
            raise ToolError(str(error)) from None
        self._set_device(active_apn_settings=settings)
        self.simulate_network_search()
        return self._show(f"APN settings set to: {settings['apn_name']}")

    @tool(WRITE)
    def reset_apn_settings(self) -> str:
        """Reset the APN settings to the defaults; takes effect at the next reboot."""
        self._set_apn(reset_at_reboot=True)
        self.simulate_network_search()
        return self._show("APN settings will reset at reboot.")

    @tool(WRITE)
    def reseat_sim_card(self) -> str:
        """Take the SIM card out and put it in again."""
        if self.device["sim_card_status"] == "missing":
            raise ToolError("No SIM card to seat")
        self._set_device(sim_card_missing=False)
        self.simulate_network_search()
        return self._show("SIM card re-seated successfully.")

    @tool(WRITE)
    def connect_vpn(self) -> str:
        """Connect to your VPN."""
        if self.device["vpn_connected"]:
            return "VPN already connected."
        self._set_device(vpn_connected=True, vpn_details=dict(VPN))
        return self._show("VPN connected successfully.")

    @tool(WRITE)
    def disconnect_vpn(self) -> str:
        """Disconnect the active VPN."""
        if not self.device["vpn_connected"]:
            return self._show("No active VPN connection to disconnect.")
        self._drop_vpn()
        return self._show("VPN disconnected successfully.")

    @tool(WRITE)
    def grant_app_permission(self, app_name: str, permission: str) -> str:
        """Give a permission to an app.

        Args:
            app_name: Such as 'messaging'.
            permission: 'sms', 'storage', 'phone' or 'network'.
        """
        app = self.device["app_statuses"].get(app_name)
        if app is None:
            return self._show(f"Error. App '{app_name}' not found. Cannot grant permission.")
        permission = permission.lower()
        if permission not in app["permissions"]:
            known = list(app["permissions"])
            return self._show(
                f"Error. Permission '{permission}' not tracked for app '{app_name}', available permissions: {known}"
            )
        self._set_permission(app_name, permission, True)
        return self._show(f"Success. Permission '{permission}' granted to app '{app_name}'.")

    @tool(WRITE)
    def reboot_device(self) -> str:
        """Restart the phone: it applies a reset of the APN settings and searches a network."""
        lines = ["Restarting network services..."]
        if self.device["active_apn_settings"]["reset_at_reboot"]:
            lines.insert(0, "Resetting APN settings...")
            self._set_device(active_apn_settings=APN_SETTINGS({}, "apn_settings"))
        self.simulate_network_search()
        return self._show("\n".join(lines))

    @tool(WRITE)
    def make_payment(self) -> str:
        """Pay the bill for which the agent has sent you a payment request."""
        request = self.surroundings["payment_request"]
        if request is None:
            return "You do not have a payment request."
        self._set_surroundings(payment_request={**request, "paid": True})
        return f"Payment of {request['amount_due']} USD has been made for bill {request['bill_id']}."

    def _show(self, text: str) -> str:
        """What happened, and the status bar as it is now."""
        return f"{text}\n{self._status_bar()}"

    def _granted(self, app_name: str) -> list[str] | None:
        """The permissions that an app has; None when there is no such app."""
        app = self.device["app_statuses"].get(app_name)
        if app is None:
            return None
        return [name for name, granted in app["permissions"].items() if granted]


def _on_off(value: bool) -> str:
    return "ON" if value else "OFF"


def _yes_no(value: bool) -> str:
    return "Yes" if value else "No"
