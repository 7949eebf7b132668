"""JSON schemas of arguments: made from annotations and docstrings, and checked against what a model wrote.

Annotations: str, int, float, bool, Literal, list[...], TypedDict, and `| None` with a default for what may be left out.
"""

import math
import types
import typing

SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}
# Of a value that does not fit, an error shows the head only.
SHOWN_CHARACTERS = 80


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """(description, argument -> text); a line break inside a paragraph is a space."""
    head, _, tail = text.partition("\nArgs:\n")
    description = " ".join(head.split("\n\n")[0].split())
    texts, name = {}, None
    for line in tail.splitlines():
        first, colon, rest = line.strip().partition(": ")
        if colon and first.isidentifier():
            name = first
            texts[name] = rest
        elif name and line.strip():
            texts[name] += " " + line.strip()
    return description, texts


def schema_of(hint) -> dict:
    """JSON schema of an annotation; anything unknown is our own mistake."""
    if hint in SCALARS:
        return {"type": SCALARS[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"type": "string", "enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0])}
    if origin in (typing.Union, types.UnionType) and type(None) in inner:
        kinds = [schema_of(kind) for kind in inner if kind is not type(None)]
        assert len(kinds) == 1, hint
        return {**kinds[0], "nullable": True}
    assert typing.is_typeddict(hint), f"no JSON schema for {hint!r}"
    properties = {name: schema_of(kind) for name, kind in typing.get_type_hints(hint).items()}
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(hint.__required_keys__, key=list(properties).index),
    }


def check_value(schema: dict, value, where: str, what: str = "field") -> str | None:
    """None, or one line on the first place where `value` does not fit `schema`."""
    if value is None and schema.get("nullable"):
        return None
    kind = schema["type"]
    if kind == "object":
        return _check_object(schema, value, where, what)
    if kind == "array":
        if type(value) is not list:
            return f"{where} must be a list, got {shown(value)}"
        problems = (check_value(schema["items"], item, f"{where}[{place}]") for place, item in enumerate(value))
        return next((problem for problem in problems if problem), None)
    if kind == "string":
        fits = type(value) is str
    elif kind == "boolean":
        fits = type(value) is bool
    else:
        fits = type(value) is int or (type(value) is float and math.isfinite(value))
        fits = fits and (kind == "number" or value == int(value)) and abs(value) < 1e15
    if not fits:
        article = "an" if kind == "integer" else "a"
        return f"{where} must be {article} {kind}, got {shown(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(map(repr, schema['enum']))}, got {shown(value)}"
    return None


def _check_object(schema: dict, value, where: str, what: str) -> str | None:
    if type(value) is not dict:
        return f"{where} must be an object, got {shown(value)}"
    properties = schema["properties"]
    for name in schema["required"]:
        if name not in value:
            return f"{where}: missing {what} {name!r}"
    for name, item in value.items():
        if name in properties:
            problem = check_value(properties[name], item, f"{where}.{name}")
            if problem:
                return problem
        elif schema.get("additionalProperties") is False:
            return f"{where}: unknown {what} {shown(name)}; expected {', '.join(properties) or 'none'}"
    return None


def shown(value) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        # Nested too deeply to be written, or an integer of thousands of digits.
        return f"something of type {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."
