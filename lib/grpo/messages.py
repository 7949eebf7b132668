"""What an assistant writes, as text or as a message dict, taken apart into text and tool calls; it never raises.

Messages have the form of chat templates and endpoints: {"role", "content", "tool_calls"}. Raw text carries calls in the
Hermes form that Qwen3 uses: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

import json
import re
from dataclasses import dataclass, field

MOST_CHARACTERS = 20_000
MOST_CALLS = 16
# Brackets opened without being closed, anywhere in a call; deeper JSON would exhaust the interpreter's stack.
MOST_DEPTH = 32
THOUGHT = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """One call as it was asked for; `problem` says why it cannot be carried out."""

    id: str
    name: str
    arguments: dict = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True)
class Reply:
    """Text to the user and tool calls; `problem` when the message as a whole is unusable."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    problem: str | None = None


def read_reply(message, first_id: int = 0) -> Reply:
    """A `str` or an assistant message dict. `first_id` numbers calls that carry no id of their own."""
    if isinstance(message, str):
        text, asked = message, None
    elif isinstance(message, dict):
        text, asked = message.get("content"), message.get("tool_calls")
        text = "" if text is None else text
    else:
        return Reply(problem=f"a message is text or a dict, got {type(message).__name__}")
    if not isinstance(text, str):
        return Reply(problem=f"content must be text, got {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        return Reply(problem=f"message too long: {len(text)} characters, at most {MOST_CHARACTERS}")
    text = THOUGHT.sub("", text)
    written = CALL.findall(text)
    if asked is not None and not isinstance(asked, list):
        return Reply(problem=f"tool_calls must be a list, got {type(asked).__name__}")
    asked = [*(asked or []), *written]
    if len(asked) > MOST_CALLS:
        return Reply(problem=f"too many tool calls: {len(asked)}, at most {MOST_CALLS}")
    calls = tuple(_read_call(call, f"call_{first_id + place}") for place, call in enumerate(asked))
    return Reply(CALL.sub("", text).strip(), calls)


def call_message(name: str, arguments: dict, id: str = "") -> dict:
    """An assistant message that makes one call."""
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]}


def text_message(text: str) -> dict:
    """An assistant message to the user."""
    return {"role": "assistant", "content": text}


def _read_call(call, default_id: str) -> ToolCall:
    if isinstance(call, str):
        call = _read_json(call)
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        id, call = call.get("id"), call["function"]
    else:
        id = call.get("id") if isinstance(call, dict) else None
    id = id if isinstance(id, str) and id else default_id
    if isinstance(call, _Malformed):
        return ToolCall(id, "", problem=f"malformed tool call: {call.why}")
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return ToolCall(id, "", problem='malformed tool call: expected {"name": ..., "arguments": {...}}')
    arguments = call.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _read_json(arguments or "{}")
    if isinstance(arguments, _Malformed):
        return ToolCall(id, call["name"], problem=f"malformed arguments: {arguments.why}")
    if not isinstance(arguments, dict):
        return ToolCall(id, call["name"], problem="malformed arguments: expected an object")
    if _depth(arguments) > MOST_DEPTH:
        return ToolCall(id, call["name"], problem=f"malformed arguments: nested deeper than {MOST_DEPTH}")
    return ToolCall(id, call["name"], arguments)


@dataclass(frozen=True)
class _Malformed:
    why: str


def _read_json(text: str):
    if len(text) > MOST_CHARACTERS:
        return _Malformed(f"{len(text)} characters, at most {MOST_CHARACTERS}")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return _Malformed(f"not JSON ({error})" if isinstance(error, ValueError) else "nested too deeply")


def _refuse_constant(name: str):
    raise ValueError(f"{name} is no JSON number")


def _depth(value) -> int:
    """Levels of nesting, counted without recursion and no further than needed."""
    level, deep = [value], 0
    while level and deep <= MOST_DEPTH:
        deep += 1
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, dict | list)
        ]
    return deep
