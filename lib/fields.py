"""What one field of a configuration accepts: read from its type hint and metadata, applied to one token of text."""

import argparse
import dataclasses
import enum
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path

from lib.errors import UserError

TRUE_WORDS = ("true", "yes", "on", "y", "t", "1")
FALSE_WORDS = ("false", "no", "off", "n", "f", "0")
NONE_WORDS = ("none", "null")


def option(default=dataclasses.MISSING, help: str = "", group: str = "run", **metadata):
    """A dataclass field with the metadata `parse` understands.

    `choices` (allowed values), `minimum`, `maximum` (inclusive), `above` (exclusive) are checked when the user sets the
    field. `secret`: the value is never written down. A list default is copied for every instance.
    """
    metadata = {"help": help, "group": group, **metadata}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Kind:
    """What one field accepts: the scalar type, whether a list or tuple, whether None, which values."""

    name: str
    scalar: type
    many: type | None
    length: int | None
    optional: bool
    choices: tuple
    metadata: typing.Mapping

    @staticmethod
    def of(name: str, hint, metadata: typing.Mapping) -> "Kind":
        """Read a type hint. Raises TypeError (our own bug) for one that no flag can carry."""
        optional, many, length = False, None, None
        choices = tuple(metadata.get("choices") or ())
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            inner = [item for item in typing.get_args(hint) if item is not type(None)]
            optional = len(inner) < len(typing.get_args(hint))
            hint = inner[0] if len(inner) == 1 else hint
        if typing.get_origin(hint) in (list, tuple):
            many, items = typing.get_origin(hint), typing.get_args(hint)
            if many is tuple and Ellipsis not in items:
                length = len(items)
            hint = items[0]
            if set(items) - {hint, Ellipsis}:
                raise TypeError(f"field {name}: a tuple of different types cannot be read from a flag")
        if typing.get_origin(hint) is typing.Literal:
            choices = typing.get_args(hint)
            hint = type(choices[0])
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            choices = tuple(item.value for item in hint)
        elif hint not in (str, int, float, bool, Path):
            raise TypeError(
                f"field {name}: {hint} cannot be read from a flag; use str, int, float, bool, Path or lists"
            )
        return Kind(name, hint, many, length, optional, choices, metadata)

    @property
    def metavar(self) -> str:
        if self.choices:
            return "{" + ",".join(str(choice) for choice in self.choices) + "}"
        return {str: "TEXT", int: "N", float: "X", bool: "true|false", Path: "PATH"}[self.scalar]

    @property
    def expected(self) -> str:
        """What to write, for error messages."""
        if self.choices:
            text = "one of " + ", ".join(str(choice) for choice in self.choices)
        else:
            names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
            text = names[self.scalar]
        bounds = [
            f"{word} {self.metadata[key]}"
            for key, word in (("minimum", ">="), ("above", ">"), ("maximum", "<="))
            if key in self.metadata
        ]
        text = " ".join([text, " and ".join(bounds)]).strip()
        if self.many:
            text = f"{'a list' if self.length is None else f'{self.length} values'}, each {text}"
        return text + (" (or none)" if self.optional else "")

    def convert(self, text: str):
        """One token to one value. Raises argparse.ArgumentTypeError with the whole message."""
        if self.many and self.scalar in (int, float) and "," in text:
            return [self.convert(part) for part in text.split(",") if part.strip()]
        if self.optional and text.lower() in NONE_WORDS:
            return None
        try:
            value = _scalar(self.scalar, text)
        except ValueError:
            self._refuse(text)
        plain = value.value if isinstance(value, enum.Enum) else value
        if self.choices and plain not in self.choices:
            self._refuse(text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            low, above, high = (self.metadata.get(key) for key in ("minimum", "above", "maximum"))
            outside = (low is not None and value < low) or (above is not None and value <= above)
            if outside or (high is not None and value > high) or not math.isfinite(value):
                self._refuse(text)
        return value

    def read(self, value, source: str):
        """A YAML value: like a flag, but already a number, a boolean or a list. Raises UserError."""
        nested = isinstance(value, list) and any(isinstance(item, list | dict) for item in value)
        if isinstance(value, dict) or nested or (isinstance(value, list) and not self.many):
            raise UserError(f"{source} is {show(value)}, expected {self.expected}; the file is flat `name: value`")
        try:
            if isinstance(value, list) or self.many:
                items = value if isinstance(value, list) else [value]
                return self.finish([self.convert(text_of(item)) for item in items], source)
            return self.convert(text_of(value))
        except argparse.ArgumentTypeError as error:
            raise UserError(f"{source} {error}") from None

    def finish(self, value, source: str):
        """Lists are flattened (`1,2` is one token) and tuples get their length checked."""
        if not self.many or not isinstance(value, list):
            return value
        flat = [item for part in value for item in (part if isinstance(part, list) else [part])]
        if self.optional and flat == [None]:
            return None
        if self.length is not None and len(flat) != self.length:
            raise UserError(f"{source} has {len(flat)} values ({show(flat)}), expected {self.expected}")
        return self.many(flat)

    def _refuse(self, text: str) -> typing.NoReturn:
        raise argparse.ArgumentTypeError(f"is {text!r}, expected {self.expected}")


def _scalar(scalar: type, text: str):
    if scalar is bool:
        if text.lower() not in TRUE_WORDS + FALSE_WORDS:
            raise ValueError
        return text.lower() in TRUE_WORDS
    if scalar is int:
        # 1e6 and 1000.0 are whole numbers to a reader; 1.5 is not.
        try:
            return int(text)
        except ValueError:
            number = float(text)
            if not number.is_integer():
                raise ValueError from None
            return int(number)
    return scalar(text)


def text_of(value) -> str:
    """One token that `Kind.convert` reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def show(value) -> str:
    """A value as it would be typed, for messages and help."""
    if isinstance(value, list | tuple):
        return " ".join(show(item) for item in value) or "empty"
    return text_of(value.value if isinstance(value, enum.Enum) else value)
