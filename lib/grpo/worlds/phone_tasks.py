"""What tasks do to a phone before an episode, and what they assert of it afterwards; none of it is a tool."""

from lib.grpo.worlds.phone_network import Phone
from lib.grpo.worlds.telecom_data import CONNECTIONS
from lib.grpo.worlds.tools import ToolError

# What the phone connects to. In the benchmark `break_vpn` changes this for all later worlds of the process, too; here a
# new connection is always good.
VPN = {"server_address": "192.168.1.1", "protocol": "OpenVPN", "server_performance": "excellent"}


class PhoneTasks(Phone):
    """Names and effects are those of the benchmark."""

    def set_user_info(self, name: str, phone_number: str) -> None:
        self._set_surroundings(name=name, phone_number=phone_number)

    def set_user_location(self, abroad: bool) -> None:
        self._set_surroundings(is_abroad=_flag(abroad, "abroad"))

    def turn_airplane_mode_on(self) -> str:
        # Off and on again when it is on already: that drops Wi-Fi and VPN.
        if not self._flip_airplane_mode():
            self._flip_airplane_mode()
        return "Airplane Mode is now ON."

    def turn_airplane_mode_off(self) -> str:
        if self._flip_airplane_mode():
            self._flip_airplane_mode()
        return "Airplane Mode is now OFF."

    def turn_data_on(self) -> str:
        """As in the benchmark the only switch without a search."""
        self._set_device(data_enabled=True)
        return "Data connection restored."

    def turn_data_off(self) -> str:
        self._set_device(data_enabled=False)
        self.simulate_network_search()
        return "Data connection broken."

    def turn_roaming_on(self) -> str:
        self._set_device(roaming_enabled=True)
        self.simulate_network_search()
        return "Data Roaming is now ON."

    def turn_roaming_off(self) -> str:
        self._set_device(roaming_enabled=False)
        self.simulate_network_search()
        return "Data Roaming is now OFF."

    def turn_data_saver_mode_on(self) -> str:
        self._set_device(data_saver_mode=True)
        return "Data Saver Mode is now ON."

    def turn_data_saver_mode_off(self) -> str:
        self._set_device(data_saver_mode=False)
        return "Data Saver Mode is now OFF."

    def unseat_sim_card(self) -> str:
        self._set_device(sim_card_missing=True)
        self.simulate_network_search()
        return "SIM card un-seated successfully."

    def lock_sim_card(self, mode: str) -> str:
        """`mode` "pin" or "puk"; no tool unlocks it."""
        if mode not in ("pin", "puk"):
            raise ToolError(f"mode must be 'pin' or 'puk', got {mode!r}")
        self._set_device(sim_card_status=f"locked_{mode}")
        self.simulate_network_search()
        return f"SIM card locked successfully in {mode} mode."

    def break_apn_settings(self) -> str:
        self._set_apn(apn_name="broken")
        self.simulate_network_search()
        return "APN settings broken. Please call reset_apn_settings() to fix."

    def break_apn_mms_setting(self) -> str:
        self._set_apn(mmsc_url=None)
        return "APN MMS setting broken. Please call reset_apn_settings() to fix."

    def break_vpn(self) -> str:
        """Connect, to a slow server."""
        details = self.device["vpn_details"] if self.device["vpn_connected"] else VPN
        if details is None:
            raise ToolError("the VPN has no details")
        self._set_device(vpn_connected=True, vpn_details={**details, "server_performance": "poor"})
        return "VPN connection broken."

    def remove_app_permission(self, app_name: str, permission: str) -> tuple[bool, str]:
        app = self.device["app_statuses"].get(app_name)
        if app is None:
            return False, f"App '{app_name}' not found. Cannot remove permission."
        permission = str(permission).lower()
        if permission not in app["permissions"]:
            return False, f"Permission '{permission}' not tracked for app '{app_name}'."
        self._set_permission(app_name, permission, False)
        return True, f"Permission '{permission}' removed from app '{app_name}'."

    def set_wifi_calling(self, enabled: bool, mms_over_wifi: bool | None = None) -> str:
        self._set_device(wifi_calling_enabled=_flag(enabled, "enabled"))
        text = f"Wi-Fi Calling is now {'ON' if enabled else 'OFF'}."
        if mms_over_wifi is None:
            return text
        self._set_device(wifi_calling_mms_over_wifi=_flag(mms_over_wifi, "mms_over_wifi"))
        return f"{text}\nMMS over Wi-Fi is now {'ON' if mms_over_wifi else 'OFF'}."

    # Assertions.

    def assert_airplane_mode_status(self, expected_status: bool) -> bool:
        return self.device["airplane_mode"] == expected_status

    def assert_service_status(self, expected_status: str) -> bool:
        if expected_status not in CONNECTIONS:
            raise ToolError(f"expected_status must be one of {', '.join(CONNECTIONS)}, got {expected_status!r}")
        return self.device["network_connection_status"] == expected_status

    def assert_mobile_data_status(self, expected_status: bool) -> bool:
        return self._data_works() == expected_status

    def assert_mobile_roaming_status(self, expected_status: bool) -> bool:
        """Of the phone's switch; the line has its own."""
        return self.device["roaming_enabled"] == expected_status

    def assert_mobile_data_saver_mode_status(self, expected_status: bool) -> bool:
        return self.device["data_saver_mode"] == expected_status

    def assert_internet_speed(self, expected_speed: float, expected_desc: str | None = None) -> bool:
        """At least `expected_speed` Mbps and, where given, exactly that grade."""
        speed, grade = self._measure_speed()
        fast = (speed or 0.0) >= expected_speed
        return fast and (expected_desc is None or grade.lower() == str(expected_desc).lower())

    def assert_internet_not_excellent(self) -> bool:
        return self._measure_speed()[1] != "Excellent"

    def assert_can_send_mms(self, expected_status: bool) -> bool:
        return self._mms_works() == expected_status

    def assert_mobile_data_usage_exceeded(self, expected_status: bool) -> bool:
        return self.surroundings["mobile_data_usage_exceeded"] == expected_status


def _flag(value, name: str) -> bool:
    if type(value) is not bool:
        raise ToolError(f"{name} must be true or false, got {value!r}")
    return value
