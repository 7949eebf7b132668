"""The three domains."""

from lib.grpo.worlds.airline_data import read_airline
from lib.grpo.worlds.airline_tools import AirlineTools
from lib.grpo.worlds.phone_tools import PhoneTools
from lib.grpo.worlds.retail_data import read_retail
from lib.grpo.worlds.retail_tools import RetailTools
from lib.grpo.worlds.telecom_data import read_phone, read_telecom
from lib.grpo.worlds.telecom_tools import TelecomTools, synchronise
from lib.grpo.worlds.world import Domain

AIRLINE = Domain("airline", AirlineTools, read_airline)
RETAIL = Domain("retail", RetailTools, read_retail)
TELECOM = Domain("telecom", TelecomTools, read_telecom, PhoneTools, read_phone, synchronise)
DOMAINS = {domain.name: domain for domain in (AIRLINE, RETAIL, TELECOM)}
