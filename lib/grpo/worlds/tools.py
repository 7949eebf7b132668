"""Tools: methods that an agent may call, with JSON schemas from signature and docstring, and checked arguments.

A toolkit is a class whose methods are marked with `@tool(READ | WRITE | GENERIC)`. The first paragraph of a docstring
is the description the model reads; lines `name: text` under `Args:` describe the arguments; see `schemas`.
"""

import inspect
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass

from lib.grpo.worlds.calculator import calculate
from lib.grpo.worlds.schemas import check_value, read_docstring, schema_of
from lib.grpo.worlds.store import Database

READ, WRITE, GENERIC = "read", "write", "generic"
TRANSFER_TOOL = "transfer_to_human_agents"


class ToolError(ValueError):
    """What the agent reads as `Error: <message>`; the database stays as it was."""


@dataclass(frozen=True)
class Tool:
    """One tool: its name, "read", "write" or "generic", the method, and the schema of its arguments."""

    name: str
    kind: str
    method: Callable
    description: str
    parameters: dict

    @property
    def schema(self) -> dict:
        """The form in which chat templates and endpoints take it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def check(self, arguments: dict) -> str | None:
        """What is wrong with `arguments`, in one line; None when they fit the schema."""
        return check_value(self.parameters, arguments, self.name, "argument")


def tool(kind: str) -> Callable:
    """Marks a method as a tool of this kind; WRITE means that it may change the database."""

    def mark(method):
        method.tool_kind = kind
        return method

    return mark


def _make_tool(name: str, method: Callable) -> Tool:
    description, texts = read_docstring(inspect.getdoc(method) or "")
    hints = typing.get_type_hints(method)
    properties, required = {}, []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        entry = schema_of(hints[parameter.name])
        if parameter.name in texts:
            entry["description"] = texts[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            entry["default"] = parameter.default
        properties[parameter.name] = entry
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Tool(name, method.tool_kind, method, description, parameters)


class Toolkit:
    """Base of all toolkits: `tools` is name -> Tool, in order of definition; the methods work on `self.db`."""

    tools: typing.ClassVar[dict[str, Tool]] = {}

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        found = {}
        for owner in reversed(cls.__mro__):
            for name, method in vars(owner).items():
                if hasattr(method, "tool_kind"):
                    found[name] = _make_tool(name, method)
        cls.tools = found

    def __init__(self, db: Database):
        self.db = db


class ServiceToolkit(Toolkit):
    """The tool that every domain's agent has."""

    @tool(GENERIC)
    def transfer_to_human_agents(self, summary: str) -> str:
        """Transfer the user to a human agent. Only when the user asks for one, or the policy and the tools do not
        allow to solve the issue.

        Args:
            summary: A summary of the user's issue.
        """
        return "Transfer successful"


class CalculatingToolkit(ServiceToolkit):
    """Agents who also calculate: the airline's and the retail's."""

    @tool(GENERIC)
    def calculate(self, expression: str) -> str:
        """Calculate the result of an arithmetic expression.

        Args:
            expression: Numbers, + - * /, parentheses and spaces, such as '2 + 2'.
        """
        try:
            return calculate(expression)
        except ValueError as error:
            raise ToolError(str(error)) from None


def written(name: str, arguments: dict) -> str:
    """A call as people read it: `name(argument='value')`."""
    return f"{name}({', '.join(f'{argument}={value!r}' for argument, value in arguments.items())})"


def render(result) -> str:
    """A tool's result as the text the model reads: strings as they are, everything else as JSON."""
    return result if isinstance(result, str) else json.dumps(result)
