"""Agents without a model that should not succeed: what a reward has to tell from a solution.

Each is a function (task, draw) -> generator that yields assistant messages and is sent the messages that answer them.
They are made strong on purpose: where it helps them, they know the expert's questions and look-ups.
"""

import json
from collections.abc import Generator

from lib.grpo.environment import Environment
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import TRANSFER_TEXT
from lib.grpo.messages import call_message, text_message
from lib.grpo.reward import Reward
from lib.grpo.task import Task
from lib.grpo.users.parser import understand
from lib.grpo.users.vocabulary import SLOT_WORDS
from lib.grpo.worlds.tools import READ, TRANSFER_TOOL, WRITE, Tool

Moves = Generator[dict, list[dict], None]
REFUSAL = "I am sorry, but I cannot do that."
CLAIM = "It has been done."


def do_nothing(task: Task, draw: Draw) -> Moves:
    """Says nothing that helps."""
    while True:
        yield text_message("Okay.")


def random_tool(task: Task, draw: Draw) -> Moves:
    """Calls tools at random, with arguments that the task knows of or that it makes up."""
    known = _Known()
    tools = list(task.setting.domain.toolkit.tools.values())
    while True:
        for _ in range(draw.between(1, 4)):
            tool = draw.pick(tools)
            known.learn((yield call_message(tool.name, known.arguments(tool, draw))))
        yield text_message(draw.pick((CLAIM, "Could you tell me your user id?", "Do you confirm (yes/no)?")))


def always_act(task: Task, draw: Draw) -> Moves:
    """Does what it is asked whatever the rules say: the expert, but with a write instead of every refusal."""
    known = _Known()
    for message in task.script:
        refused = message.get("content") and understand(message["content"]).denial
        if refused or _calls(message, TRANSFER_TOOL) or message.get("content") == TRANSFER_TEXT:
            for tool in _writes(task, draw):
                answers = yield call_message(tool.name, known.arguments(tool, None))
                if not answers[-1]["content"].startswith("Error"):
                    break
            yield text_message(CLAIM)
        else:
            known.learn((yield message))
    while True:
        yield text_message(CLAIM)


def always_refuse(task: Task, draw: Draw) -> Moves:
    """Asks who is calling, and refuses."""
    yield task.script[0]
    while True:
        yield text_message(REFUSAL)


def always_transfer(task: Task, draw: Draw) -> Moves:
    """Hands everybody over."""
    yield call_message(TRANSFER_TOOL, {"summary": "The user needs help."})
    while True:
        yield text_message(TRANSFER_TEXT)


def claim_and_refuse(task: Task, draw: Draw) -> Moves:
    """Touches nothing, and says both that it is done and that it cannot be."""
    while True:
        yield text_message(f"{REFUSAL} {CLAIM}")


def forbidden_writes(task: Task, draw: Draw) -> Moves:
    """Looks up what the expert looks up, then performs every write it can, and says both."""
    known = _Known()
    for message in task.script:
        if any(_calls(message, tool.name) for tool in _of_kind(task, READ)):
            known.learn((yield message))
    for tool in _writes(task, draw):
        yield call_message(tool.name, known.arguments(tool, None))
    while True:
        yield text_message(f"{CLAIM} {REFUSAL}")


def every_tool(task: Task, draw: Draw) -> Moves:
    """Calls every tool once, with the expert's arguments where it has some, and says both."""
    known = _Known()
    expert = {}
    for message in task.script:
        for call in message.get("tool_calls") or []:
            expert[call["function"]["name"]] = message
    for tool in task.setting.domain.toolkit.tools.values():
        known.learn((yield expert.get(tool.name) or call_message(tool.name, known.arguments(tool, None))))
    while True:
        yield text_message(f"{CLAIM} {REFUSAL}")


def every_number(task: Task, draw: Draw) -> Moves:
    """Looks up what the expert looks up, then says numbers: those it saw first, then all from 1 on."""
    known = _Known()
    for message in task.script:
        if not any(_calls(message, tool.name) for tool in _of_kind(task, WRITE)) and not _calls(message, TRANSFER_TOOL):
            known.learn((yield message)) if message.get("tool_calls") else None
    numbers = [*known.numbers(), *map(str, range(1, 4000))]
    at_once = 12
    while True:
        yield text_message("The answer is " + " ".join(numbers[:at_once]) + ".")
        numbers = numbers[at_once:] or ["0"]


def ask_forever(task: Task, draw: Draw) -> Moves:
    """Asks for one detail after the other, without end."""
    names = [name.replace("_", " ") for name in SLOT_WORDS]
    while True:
        for name in names:
            yield text_message(f"Could you please tell me your {name}?")


BASELINES = {
    "do_nothing": do_nothing,
    "random_tool": random_tool,
    "always_act": always_act,
    "always_refuse": always_refuse,
    "always_transfer": always_transfer,
    "claim_and_refuse": claim_and_refuse,
}
EXPLOITS = {
    "forbidden_writes": forbidden_writes,
    "every_tool": every_tool,
    "every_number": every_number,
    "ask_forever": ask_forever,
}


def run_agent(agent, task: Task, environment: Environment | None = None) -> Reward:
    """One episode of an agent of this module."""
    environment = environment or Environment()
    environment.reset(task)
    moves = agent(task, Draw("agent", task.domain, task.id))
    message = next(moves, None)
    while message is not None:
        answers, done = environment.step(message)
        if done:
            break
        try:
            message = moves.send(answers or [{"role": "user", "content": ""}])
        except StopIteration:
            break
    return environment.reward()


class _Known:
    """Values by field name, from tool results: what an agent can fill arguments with."""

    def __init__(self):
        self.values: dict[str, object] = {}
        self.seen: dict[str, None] = {}

    def learn(self, answers: list[dict]) -> None:
        for answer in answers:
            try:
                self._gather("", json.loads(answer["content"]))
            except ValueError:
                pass

    def _gather(self, name: str, value) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                self._gather(key, item)
            if name == "payment_methods" and value:
                method = next(iter(value))
                self.values |= {"payment_id": method, "payment_method_id": method}
        elif isinstance(value, list):
            if value and not isinstance(value[0], list):
                self.values[name] = value
            for item in value:
                self._gather(name[:-1] if name.endswith("s") else name, item)
        elif isinstance(value, str | int | float):
            self.values.setdefault(name, value)
            if not isinstance(value, str):
                self.seen[f"{value:g}"] = None

    def numbers(self) -> list[str]:
        return list(self.seen)

    def arguments(self, tool: Tool, draw: Draw | None) -> dict:
        """Arguments that fit the schema, known ones where there are."""
        found = {}
        for name, schema in tool.parameters["properties"].items():
            known = self.values.get(name)
            if known is None or (draw is not None and draw.chance(0.2)):
                known = _made_up(name, schema)
            found[name] = known
        return found


def _made_up(name: str, schema: dict):
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "array":
        return []
    if schema["type"] == "object":
        return {}
    return {"string": "no longer needed" if name == "reason" else "x", "boolean": True}.get(schema["type"], 1)


def _of_kind(task: Task, kind: str) -> list[Tool]:
    return [tool for tool in task.setting.domain.toolkit.tools.values() if tool.kind == kind]


def _writes(task: Task, draw: Draw) -> list[Tool]:
    """The write tools in random order."""
    tools = _of_kind(task, WRITE)
    return draw.sample(tools, len(tools))


def _calls(message: dict, name: str) -> bool:
    return any(call["function"]["name"] == name for call in message.get("tool_calls") or [])
