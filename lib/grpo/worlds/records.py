"""Descriptions of rows, and the casts that a data file goes through when it is read.

A kind is a function (value, where) -> value. The casts are those of the benchmark's loader, because number types
count in the state hash: an integer field turns 100.0 into 100, a number field 100 into 100.0, fields appear in the
order of the description, absent optional ones as None, and fields nobody described are dropped.
"""

import math
from collections.abc import Callable
from datetime import date, datetime

Kind = Callable[[object, str], object]
MISSING = object()


class DataError(ValueError):
    """A data file that does not hold what it should; the message names the place."""


def text(value, where: str) -> str:
    if type(value) is not str:
        raise DataError(f"{where} is {value!r}: expected a string")
    return value


def boolean(value, where: str) -> bool:
    if type(value) is not bool:
        raise DataError(f"{where} is {value!r}: expected true or false")
    return value


def integer(value, where: str) -> int:
    """An int, a float without fraction, or either as a string."""
    number_ = number(value, where)
    if number_ != int(number_):
        raise DataError(f"{where} is {value!r}: expected a whole number")
    return value if type(value) is int else int(number_)


def number(value, where: str) -> float:
    """A float, an int, or either as a string; finite."""
    try:
        if type(value) is bool:
            raise ValueError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{where} is {value!r}: expected a number") from None
    if not math.isfinite(result):
        raise DataError(f"{where} is {value!r}: expected a finite number")
    return result


def day(value, where: str) -> str:
    """A date, as YYYY-MM-DD."""
    try:
        if isinstance(value, datetime):
            raise ValueError
        return (value if isinstance(value, date) else date.fromisoformat(value)).isoformat()
    except (TypeError, ValueError):
        raise DataError(f"{where} is {value!r}: expected a date YYYY-MM-DD") from None


def moment(value, where: str) -> str:
    """A date and time, as `YYYY-MM-DD HH:MM:SS` (the form in which the benchmark shows them)."""
    try:
        if type(value) is str:
            value = datetime.fromisoformat(value)
        elif not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return str(value)
    except (AttributeError, ValueError):
        raise DataError(f"{where} is {value!r}: expected a date and time") from None


def choice(*options: str) -> Kind:
    allowed = frozenset(options)

    def kind(value, where: str) -> str:
        if type(value) is not str or value not in allowed:
            raise DataError(f"{where} is {value!r}: expected one of {', '.join(options)}")
        return value

    return kind


class Default:
    """A field that may be absent; `value` (copied) stands for it, and None passes when `nullable`."""

    def __init__(self, kind: Kind, value=None):
        self.kind, self.value = kind, value

    def __call__(self, value, where: str):
        if value is MISSING:
            value = self.value
        return None if value is None and self.value is None else self.kind(value, where)


def list_of(kind: Kind) -> Kind:
    def cast(value, where: str) -> list:
        if type(value) is not list:
            raise DataError(f"{where} is {type(value).__name__}: expected a list")
        return [kind(item, f"{where}[{place}]") for place, item in enumerate(value)]

    return cast


def map_of(kind: Kind, fill: Callable[[str, object], object] | None = None) -> Kind:
    """key -> `kind`; `fill(key, value)` may complete a row from its key."""

    def cast(value, where: str) -> dict:
        if type(value) is not dict:
            raise DataError(f"{where} is {type(value).__name__}: expected an object")
        return {key: kind(fill(key, item) if fill else item, f"{where}.{key}") for key, item in value.items()}

    return cast


def record(closed: bool = False, **fields: Kind) -> Kind:
    """An object with these fields; `closed` refuses others."""

    def cast(value, where: str) -> dict:
        if type(value) is not dict:
            raise DataError(f"{where} is {type(value).__name__}: expected an object")
        if closed and not value.keys() <= fields.keys():
            raise DataError(f"{where} has the unknown field {min(value.keys() - fields.keys())!r}")
        out = {}
        for name, kind in fields.items():
            item = value.get(name, MISSING)
            if item is MISSING and not isinstance(kind, Default):
                raise DataError(f"{where} has no field {name!r}")
            out[name] = kind(item, f"{where}.{name}")
        return out

    return cast


def variant(field: str, **kinds: Kind) -> Kind:
    """An object whose `field` says which of the kinds it is (blanks of its value written as underscores)."""

    def cast(value, where: str) -> dict:
        name = value.get(field) if type(value) is dict else None
        kind = kinds.get(name.replace(" ", "_")) if type(name) is str else None
        if kind is None:
            raise DataError(f"{where}.{field} is {name!r}: expected one of {', '.join(kinds)}")
        return kind(value, where)

    return cast
