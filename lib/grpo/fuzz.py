"""Hostile use of a world: calls and messages that nobody should send, to show that nothing breaks.

Arguments mix what fits with what does not: ids that exist, wrong types, huge and nested values, quotes, code, lone
surrogates. After every refused call the state must be as before; the tables underneath must never change.
"""

import json
import math
from dataclasses import dataclass, field

from lib.grpo.environment import Environment
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.generate import task_of_seed
from lib.grpo.users.choose import user_factory
from lib.grpo.worlds.store import canonical
from lib.grpo.worlds.world import ASSISTANT, USER

HOSTILE = (
    "", " ", "x", "0", "-1", "null", "None", "'; DROP TABLE users; --", '"}]}', "{{7*7}}", "__import__('os').getcwd()",
    "\ud800", "\x00", "\u202e", "../../etc/passwd", "<script>alert(1)</script>", "###STOP###", "9**9**9", "(" * 300,
    "1/0", "a" * 30_000, "%s%s%n", "${HOME}", "</tool_call>", "\n\n", "\U0001f600" * 50,
)  # fmt: skip
ODD = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**63,
    10**400,
    1.5,
    -0.0,
    1e308,
    math.inf,
    math.nan,
    [],
    {},
    [[]],
    [None],
    {"a": None},
)
# Calls (and messages) on one world before a fresh one.
PER_WORLD = 60


@dataclass
class FuzzReport:
    """What happened; the lists should be empty."""

    calls: int = 0
    errors: int = 0
    successes: int = 0
    faults: list[str] = field(default_factory=list)
    changed_by_errors: list[str] = field(default_factory=list)
    base_changed: bool = False


def fuzz_calls(domain: str, count: int, seed: int) -> FuzzReport:
    """`count` calls by both sides on generated worlds of all levels."""
    draw, report = Draw("fuzz calls", domain, seed), FuzzReport()
    while report.calls < count:
        task = task_of_seed(domain, draw.below(10_000), draw.below(5))
        world = task.world()
        before = _tables(task)
        known = _known_values(task)
        for _ in range(min(PER_WORLD, count - report.calls)):
            requestor = USER if world.user and draw.chance(0.4) else ASSISTANT
            kit = world.user if requestor == USER else world.agent
            name = draw.pick(list(kit.tools)) if draw.chance(0.95) else draw.pick(HOSTILE)
            arguments = _arguments(draw, kit.tools.get(name), known)
            state = world.state()
            call = world.call(requestor, name, arguments, solo=draw.chance(0.5))
            report.calls += 1
            report.errors += call.error
            report.successes += not call.error
            if call.error and world.state() != state:
                report.changed_by_errors.append(f"{name}({arguments!r})"[:300])
        report.faults += world.faults
        report.base_changed |= _tables(task) != before
    return report


def fuzz_messages(domain: str, count: int, seed: int) -> FuzzReport:
    """`count` assistant messages, good and bad, to environments with and without a user."""
    draw, report = Draw("fuzz messages", domain, seed), FuzzReport()
    while report.calls < count:
        task = task_of_seed(domain, draw.below(10_000), draw.below(5))
        before = _tables(task)
        environment = Environment(user_factory(draw.pick(("scripted", "none"))))
        environment.reset(task)
        known = _known_values(task)
        for _ in range(min(PER_WORLD, count - report.calls)):
            message = _message(draw, task, known)
            errors, state = environment.errors, environment.world.state()
            answers, done = environment.step(message)
            report.calls += 1
            refused = environment.errors > errors
            report.errors += refused
            report.successes += not refused
            only = refused and len(answers) == environment.errors - errors
            if only and environment.world.state() != state:
                report.changed_by_errors.append(repr(message)[:300])
            json.dumps(environment.messages)
            if done:
                environment.reward()
                break
        report.faults += environment.world.faults
        report.base_changed |= _tables(task) != before
    return report


def _tables(task) -> str:
    """The text of the tables themselves: `Base.digest` is kept once it is known."""
    bases = (task.setting.agent_base, task.setting.user_base)
    return canonical([base.tables for base in bases if base])


def _known_values(task) -> list:
    """Values of the database, ids above all."""
    found = []
    for rows in task.setting.agent_base.tables.values():
        for key, row in rows.items():
            found.append(key)
            found += [value for value in row.values() if isinstance(value, str | int | float)]
    return found


def _arguments(draw: Draw, tool, known: list) -> dict:
    properties = tool.parameters["properties"] if tool else {"x": {"type": "string"}}
    arguments = {}
    for name, schema in properties.items():
        if not draw.chance(0.03):
            arguments[name] = _value(draw, schema, known)
    if draw.chance(0.05):
        arguments[draw.pick(("extra", *HOSTILE[:8]))] = draw.pick(ODD)
    return arguments


def _value(draw: Draw, schema: dict, known: list, depth: int = 0):
    """Mostly what the schema asks for, filled with what exists; sometimes anything."""
    roll = draw.between(0, 99)
    if roll < 6:
        return draw.pick(ODD)
    if roll < 12:
        return draw.pick(HOSTILE)
    if "enum" in schema:
        return draw.pick(schema["enum"])
    kind = schema["type"]
    if kind == "array":
        return [_value(draw, schema["items"], known, depth + 1) for _ in range(draw.below(4))]
    if kind == "object":
        return {name: _value(draw, inner, known, depth + 1) for name, inner in schema.get("properties", {}).items()}
    if kind == "boolean":
        return draw.chance(0.5)
    if kind in ("integer", "number"):
        return draw.pick((0, 1, 2, -1, 5, 100, 2.0, draw.between(-50, 5000)))
    return str(draw.pick(known)) if draw.chance(0.9) else draw.pick(HOSTILE)


def _message(draw: Draw, task, known: list):
    kind = draw.between(0, 9)
    if kind == 0:
        return draw.pick((*ODD, b"bytes", object()))
    if kind == 1:
        return draw.pick(HOSTILE)
    if kind == 2:
        return {
            "role": draw.pick(("assistant", "user", "")),
            "content": draw.pick((*HOSTILE, *ODD)),
            "tool_calls": draw.pick(ODD),
        }
    if kind == 3:
        text = json.dumps({"name": draw.pick(HOSTILE), "arguments": draw.pick(HOSTILE)})
        return f"<tool_call>{text[: draw.between(0, len(text))]}"
    if kind == 4:
        return {
            "content": "",
            "tool_calls": [draw.pick((*ODD, "text", {"function": draw.pick(ODD)})) for _ in range(3)],
        }
    if kind == 5:
        return draw.pick(task.script)
    tools = list(task.setting.domain.toolkit.tools.values())
    calls = []
    for _ in range(draw.between(1, 3)):
        tool = draw.pick(tools)
        arguments = _arguments(draw, tool, known)
        arguments = json.dumps(arguments) if draw.chance(0.3) else arguments
        calls.append({"id": draw.pick(ODD), "function": {"name": tool.name, "arguments": arguments}})
    return {"role": "assistant", "content": draw.pick(("", None, "text")), "tool_calls": calls}
