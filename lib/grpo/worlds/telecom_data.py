"""The telecom tables, the provider's and the phone's: what a row holds, and how tau2-bench's files become a `Base`."""

from lib.grpo.worlds.records import (
    MISSING,
    DataError,
    Default,
    Kind,
    boolean,
    choice,
    day,
    integer,
    list_of,
    map_of,
    moment,
    number,
    record,
    text,
)
from lib.grpo.worlds.store import LIST, SINGLE, Base

# Table -> the field that names a row; the order is that of the file.
KEYS = {
    "plans": "plan_id",
    "customers": "customer_id",
    "lines": "line_id",
    "bills": "bill_id",
    "devices": "device_id",
}
PERMISSIONS = ("sms", "storage", "phone", "network")
NETWORK_MODES = ("4g_5g_preferred", "4g_only", "3g_only", "2g_only")
CONNECTIONS = ("connected", "searching", "no_service", "emergency_only")


def or_none(kind: Kind) -> Kind:
    """For a field that may be null although its default is not."""
    return lambda value, where: None if value is None else kind(value, where)


class Uncast(Default):
    """A field whose default is stored as it is: the benchmark does not cast this one."""

    def __call__(self, value, where: str):
        return self.value if value is MISSING else self.kind(value, where)


PLAN = record(
    closed=True,
    plan_id=text,
    name=text,
    data_limit_gb=number,
    price_per_month=number,
    data_refueling_price_per_gb=number,
)
PAYMENT_METHOD = record(
    closed=True,
    method_type=choice("Credit Card", "Debit Card", "PayPal"),
    account_number_last_4=text,
    expiration_date=text,
)
CUSTOMER = record(
    closed=True,
    customer_id=text,
    full_name=text,
    date_of_birth=text,
    email=text,
    phone_number=text,
    address=record(closed=True, street=text, city=text, state=text, zip_code=text),
    account_status=Default(choice("Active", "Suspended", "Pending Verification", "Closed"), "Pending Verification"),
    payment_methods=Default(list_of(PAYMENT_METHOD), []),
    line_ids=Default(list_of(text), []),
    bill_ids=Default(list_of(text), []),
    created_at=Uncast(moment, "2025-01-01"),
    last_extension_date=Default(day),
    goodwill_credit_used_this_year=Default(number, 0.0),
)
LINE = record(
    closed=True,
    line_id=text,
    phone_number=text,
    status=Default(choice("Active", "Suspended", "Pending Activation", "Closed"), "Pending Activation"),
    plan_id=text,
    device_id=Default(text),
    data_used_gb=Default(number, 0.0),
    data_refueling_gb=Default(number, 0.0),
    roaming_enabled=Default(boolean, False),
    contract_end_date=Default(day),
    last_plan_change_date=Default(day),
    last_sim_replacement_date=Default(day),
    suspension_start_date=Default(day),
)
BILL = record(
    closed=True,
    bill_id=text,
    customer_id=text,
    period_start=day,
    period_end=day,
    issue_date=day,
    total_due=number,
    due_date=day,
    line_items=Default(list_of(record(closed=True, description=text, amount=number, date=day, item_type=text)), []),
    status=Default(choice("Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"), "Draft"),
)
DEVICE = record(
    closed=True,
    device_id=text,
    device_type=choice("phone", "router", "tablet", "watch", "other"),
    model=text,
    imei=Default(text),
    is_esim_capable=boolean,
    activated=Default(boolean, False),
    activation_date=Default(moment),
    last_esim_transfer_date=Default(moment),
)
DATABASE = record(
    closed=True,
    plans=Default(list_of(PLAN), []),
    customers=Default(list_of(CUSTOMER), []),
    lines=Default(list_of(LINE), []),
    bills=Default(list_of(BILL), []),
    devices=Default(list_of(DEVICE), []),
)

SIGNAL = choice("none", "poor", "fair", "good", "excellent")
TECHNOLOGY = choice("none", "2G", "3G", "4G", "5G")
OFF, ON = Default(boolean, False), Default(boolean, True)
APN_SETTINGS = record(
    closed=True,
    apn_name=Default(choice("internet", "broken"), "internet"),
    reset_at_reboot=OFF,
    mms_apn=Default(or_none(text), "mms"),
    mmsc_url=Default(or_none(text), "http://mms.carrier.com/mms/wapenc"),
    mms_proxy=Default(text),
    mms_port=Default(integer),
)
VPN_DETAILS = record(
    closed=True,
    server_address=Default(text),
    protocol=Default(text),
    server_performance=Default(choice("unknown", "poor", "fair", "good", "excellent"), "unknown"),
)
APP = record(
    closed=True,
    app_name=text,
    permissions=Default(record(closed=True, **dict.fromkeys(PERMISSIONS, OFF)), {}),
)
APPS = {
    "messaging": {"app_name": "messaging", "permissions": {"sms": True, "storage": True, "phone": True}},
    "browser": {"app_name": "browser", "permissions": {"storage": True, "network": True}},
}
PHONE = record(
    closed=True,
    sim_card_status=Default(choice("active", "missing", "locked_pin", "locked_puk"), "active"),
    sim_card_missing=OFF,
    airplane_mode=OFF,
    network_signal_strength=Default(SIGNAL, "good"),
    network_technology_connected=Default(TECHNOLOGY, "5G"),
    network_connection_status=Default(choice(*CONNECTIONS), "connected"),
    battery_level=Default(integer, 80),
    data_enabled=ON,
    roaming_enabled=OFF,
    network_mode_preference=Default(choice(*NETWORK_MODES), "4g_5g_preferred"),
    active_apn_settings=Default(APN_SETTINGS, {}),
    wifi_enabled=OFF,
    wifi_connected=OFF,
    wifi_ssid=Default(text),
    wifi_signal_strength=Default(SIGNAL, "none"),
    wifi_calling_enabled=OFF,
    wifi_calling_mms_over_wifi=OFF,
    data_saver_mode=OFF,
    vpn_enabled_setting=OFF,
    vpn_connected=OFF,
    vpn_details=Default(VPN_DETAILS),
    app_statuses=Default(map_of(APP), APPS),
)


def _signals(value, where: str) -> dict:
    signals = map_of(SIGNAL)(value, where)
    return {TECHNOLOGY(name, f"{where} (a key)"): signal for name, signal in signals.items()}


SURROUNDINGS = record(
    closed=True,
    name=Default(text),
    phone_number=Default(text),
    is_abroad=OFF,
    roaming_allowed=OFF,
    signal_strength=Default(_signals, {"2G": "poor", "3G": "fair", "4G": "good", "5G": "excellent"}),
    mobile_data_usage_exceeded=OFF,
    line_active=ON,
    payment_request=Default(record(closed=True, bill_id=text, amount_due=number, paid=OFF)),
)
PHONE_DATABASE = record(closed=True, device=Default(PHONE, {}), surroundings=Default(SURROUNDINGS, {}))


def read_telecom(data: dict) -> Base:
    """Cast a parsed `db.toml`. Raises DataError that names the first wrong place."""
    tables = {}
    for table, rows in DATABASE(data, "db").items():
        field = KEYS[table]
        keyed = {row[field]: row for row in rows}
        if len(keyed) != len(rows):
            names = [row[field] for row in rows]
            raise DataError(f"db.{table} has {max(names, key=names.count)!r} more than once")
        tables[table] = keyed
    return Base(tables, dict.fromkeys(KEYS, LIST))


def read_phone(data: dict) -> Base:
    """Cast a parsed `user_db.toml`; what it leaves out has the benchmark's defaults. Raises DataError."""
    rows = PHONE_DATABASE(data, "user_db")
    return Base({table: {"": row} for table, row in rows.items()}, dict.fromkeys(rows, SINGLE))
