"""A task and its episode as text: brief, dialogue, changes of the database, reward with every check."""

import json
import textwrap

from lib.grpo.environment import Environment
from lib.grpo.reward import Reward
from lib.grpo.task import Task
from lib.grpo.worlds.store import Database
from lib.grpo.worlds.tools import written

WIDTH = 110
# Longer tool results are cut in the terminal; the page holds them whole.
RESULT_CHARACTERS = 400
ROLES = {"system": "policy", "assistant": "agent", "user": "user", "tool": "tool"}


def brief_lines(task: Task) -> list[str]:
    """What the user knows and wants."""
    lines = [f"task {task.domain}/{task.id}"]
    if task.template:
        lines[0] += f"  (template {task.template}, seed {task.seed}, level {task.level})"
    persona = (task.data.get("user_scenario") or {}).get("persona")
    if persona:
        lines.append(f"persona: {' '.join(persona.split())}")
    for name, text in task.instructions.items():
        if text and name != "domain":
            lines += _wrapped(f"{name}: {text}")
    for change in [row["change"]["say"] for row in (task.brief or {}).get("requests", []) if row.get("change")]:
        lines += _wrapped(f"change of mind: {change}")
    return lines


def message_lines(message: dict, whole: bool = False) -> list[str]:
    """One message, with its calls as `name(argument=value)`."""
    role = ROLES.get(message["role"], message["role"])
    lines = []
    content = message.get("content") or ""
    if content:
        if role == "tool" and not whole and len(content) > RESULT_CHARACTERS:
            content = content[:RESULT_CHARACTERS] + f" ... ({len(content)} characters)"
        lines += _wrapped(f"{role + ':':<7}{content}", indent=7)
    for call in message.get("tool_calls") or []:
        lines += _wrapped(f"{role + ':':<7}{call_text(call)}", indent=9)
    return lines or [f"{role}: (nothing)"]


def call_text(call: dict) -> str:
    """A call as it would be written in Python."""
    function = call.get("function") or call
    arguments = function.get("arguments") or {}
    if not isinstance(arguments, dict):
        return f"{function.get('name')}({arguments})"
    return written(function.get("name"), arguments)


def difference_lines(environment: Environment) -> list[str]:
    """What the episode changed, field by field, against the task's initial state."""
    before = environment.task.world()
    lines = _changes(before.agent.db, environment.world.agent.db)
    if environment.world.user:
        lines += [f"user {line}" for line in _changes(before.user.db, environment.world.user.db)]
    return lines or ["nothing"]


def reward_lines(reward: Reward) -> list[str]:
    """The total, the parts, and every check."""
    lines = [f"reward {reward.total:g}" + (f"  ({reward.note})" if reward.note else "")]
    lines += [f"  {part} {value:g}" for part, value in reward.breakdown.items()]
    lines += [f"    [{'x' if check.met else ' '}] {check.part}: {check.what}" for check in reward.checks]
    if reward.dropped:
        lines.append(f"  left out, no judge: {', '.join(reward.dropped)}")
    return lines


def writable(value):
    """A JSON value whose texts a file can hold: lone surrogates become question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {writable(key): writable(item) for key, item in value.items()}
    return [writable(item) for item in value] if isinstance(value, list) else value


def _changes(before: Database, after: Database) -> list[str]:
    lines = []
    for table, key in after.changed:
        old, new = before.find(table, key), after.find(table, key)
        where = f"{table}.{key}" if key else table
        if old is None:
            lines += _wrapped(f"{where}: new row {json.dumps(new)}")
        else:
            lines += [line for change in _field_changes(old, new, where) for line in _wrapped(change)]
    return lines


def _field_changes(old, new, where: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for name in {**old, **new}:
            if name not in new:
                found.append(f"{where}.{name}: {json.dumps(old[name])} -> gone")
            elif name not in old:
                found.append(f"{where}.{name}: new {json.dumps(new[name])}")
            else:
                found += _field_changes(old[name], new[name], f"{where}.{name}")
        return found
    if isinstance(old, list) and isinstance(new, list) and len(new) >= len(old):
        found = [line for i, pair in enumerate(zip(old, new)) for line in _field_changes(*pair, f"{where}[{i}]")]
        return found + [f"{where}[{i}]: new {json.dumps(new[i])}" for i in range(len(old), len(new))]
    return [] if json.dumps(old) == json.dumps(new) else [f"{where}: {json.dumps(old)} -> {json.dumps(new)}"]


def _wrapped(text: str, indent: int = 2) -> list[str]:
    lines = []
    for part in text.split("\n"):
        lines += textwrap.wrap(part, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False) or [""]
    return lines
