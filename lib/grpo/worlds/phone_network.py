"""What a phone does by itself: network search, mobile data, speed, MMS, the status bar.

The rules are those of tau2-bench's telecom domain (version 1.0.1).
"""

from lib.grpo.worlds.store import Database, Row
from lib.grpo.worlds.tools import Toolkit

NO_SERVICE = ("no_service", "none", "none")
# Preferred mode -> the technologies that are tried, best first; the last one is taken whatever its signal.
TECHNOLOGIES = {
    "4g_5g_preferred": ("5G", "4G"),
    "4g_only": ("4G",),
    "3g_only": ("3G",),
    "2g_only": ("2G",),
}
# Mbps, from and to.
SPEEDS = {"2G": (0.1, 0.4), "3G": (1.0, 5.0), "4G": (10.0, 100.0), "5G": (50.0, 500.0), "none": (0.0, 0.0)}
SIGNAL_FACTORS = {"none": 0.0, "poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0}
POOR_VPN_FACTOR, DATA_SAVER_FACTOR = 0.1, 0.2
GRADES = ((1, "Very Poor"), (5, "Poor"), (25, "Fair"), (100, "Good"))
SIGNAL_ICONS = {
    "none": "📵 No Signal",
    "poor": "📶¹ Poor",
    "fair": "📶² Fair",
    "good": "📶³ Good",
    "excellent": "📶⁴ Excellent",
}


def set_fields(db: Database, table: str, **fields) -> None:
    """Change fields of a table's only row; every edit copies the row, so nothing is edited where nothing changes."""
    row = db.find(table, "")
    if any(row[name] != value for name, value in fields.items()):
        db.edit(table, "").update(fields)


class Phone(Toolkit):
    """Tables `device` and `surroundings`, one row each."""

    @property
    def device(self) -> Row:
        """The phone, to be read only."""
        return self.db.find("device", "")

    @property
    def surroundings(self) -> Row:
        """Where the phone is and what the provider lets it do, to be read only."""
        return self.db.find("surroundings", "")

    def _set_device(self, **fields) -> None:
        set_fields(self.db, "device", **fields)

    def _set_surroundings(self, **fields) -> None:
        set_fields(self.db, "surroundings", **fields)

    # Network.

    def simulate_network_search(self) -> None:
        """Connect anew, with what SIM, settings, place and line allow."""
        status, technology, strength = self._find_network()
        self._set_device(
            network_connection_status=status,
            network_technology_connected=technology,
            network_signal_strength=strength,
        )

    def _find_network(self) -> tuple[str, str, str]:
        device = self.device
        usable = (
            self._sim_status() == "active"
            and not device["airplane_mode"]
            and device["active_apn_settings"]["apn_name"] != "broken"
            and self.surroundings["line_active"]
        )
        if not usable:
            return NO_SERVICE
        technology, strength = "none", "none"
        for technology in TECHNOLOGIES[device["network_mode_preference"]]:
            strength = self.surroundings["signal_strength"].get(technology, "none")
            if strength != "none":
                break
        return "connected", technology, strength

    def _sim_status(self) -> str:
        return "missing" if self.device["sim_card_missing"] else self.device["sim_card_status"]

    def _data_works(self) -> bool:
        device, around = self.device, self.surroundings
        return (
            not device["airplane_mode"]
            and device["network_signal_strength"] != "none"
            and device["network_connection_status"] != "no_service"
            and (not around["is_abroad"] or (device["roaming_enabled"] and around["roaming_allowed"]))
            and device["data_enabled"]
            and not around["mobile_data_usage_exceeded"]
        )

    def _measure_speed(self) -> tuple[float | None, str]:
        """(Mbps, grade); no number without mobile data."""
        if not self._data_works():
            return None, "No Connection"
        device = self.device
        vpn = device["vpn_details"]
        slow_vpn = device["vpn_connected"] and vpn is not None and vpn["server_performance"] == "poor"
        factor = POOR_VPN_FACTOR if slow_vpn else 1.0
        factor *= DATA_SAVER_FACTOR if device["data_saver_mode"] else 1.0
        low, high = SPEEDS[device["network_technology_connected"]]
        speed = round((low + high) / 2 * SIGNAL_FACTORS[device["network_signal_strength"]] * factor, 2)
        return speed, next((grade for limit, grade in GRADES if speed < limit), "Excellent")

    def _mms_works(self) -> bool:
        device = self.device
        app = device["app_statuses"].get("messaging")
        return (
            self._data_works()
            and device["network_technology_connected"] != "2G"
            and not (device["wifi_calling_enabled"] and device["wifi_calling_mms_over_wifi"])
            and device["active_apn_settings"]["mmsc_url"] is not None
            and app is not None
            and app["permissions"]["storage"]
            and app["permissions"]["sms"]
        )

    def _status_bar(self) -> str:
        device = self.device
        if device["airplane_mode"]:
            icons = ["✈️ Airplane Mode"]
        else:
            icons = [SIGNAL_ICONS[device["network_signal_strength"]]]
            technology = device["network_technology_connected"]
            icons += [technology] if technology != "none" else []
            if device["data_enabled"] and technology != "none":
                icons.append("📱 Data Enabled")
                icons += ["🔽 Data Saver"] if device["data_saver_mode"] else []
            else:
                icons.append("📵 Data Disabled")
        if device["wifi_enabled"] and device["wifi_connected"]:
            icons.append(f"📡 Connected to {device['wifi_ssid']}" if device["wifi_ssid"] else "📡 Enabled")
        icons += ["🔒 VPN Connected"] if device["vpn_connected"] else []
        icons.append(f"🔋 {device['battery_level']}%")
        return "Status Bar: " + " | ".join(icons)

    # Switches.

    def _flip(self, switch: str, search: bool = True) -> bool:
        """Turn a switch of the phone over and, where the phone does so, search a network; the new position."""
        position = not self.device[switch]
        self._set_device(**{switch: position})
        if search:
            self.simulate_network_search()
        return position

    def _flip_airplane_mode(self) -> bool:
        device = self.device
        position = not device["airplane_mode"]
        self._set_device(airplane_mode=position)
        if position or device["wifi_enabled"]:
            self._drop_wifi()
        if position and device["vpn_connected"]:
            self._drop_vpn()
        self.simulate_network_search()
        return position

    def _drop_wifi(self) -> None:
        self._set_device(wifi_connected=False, wifi_ssid=None, wifi_signal_strength="none")

    def _drop_vpn(self) -> None:
        self._set_device(vpn_connected=False, vpn_details=None)

    def _set_apn(self, **fields) -> None:
        """Change single APN settings."""
        self._set_device(active_apn_settings={**self.device["active_apn_settings"], **fields})

    def _set_permission(self, app_name: str, permission: str, granted: bool) -> None:
        """Of an installed app."""
        apps = self.device["app_statuses"]
        permissions = {**apps[app_name]["permissions"], permission: granted}
        self._set_device(app_statuses={**apps, app_name: {**apps[app_name], "permissions": permissions}})
