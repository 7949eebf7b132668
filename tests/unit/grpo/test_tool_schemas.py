"""Schemas from signatures and docstrings, what they refuse and in which words, and calls that never raise."""

import json
from typing import Literal, NotRequired, TypedDict

import pytest

from lib.grpo.worlds.schemas import SHOWN_CHARACTERS, schema_of, shown
from lib.grpo.worlds.store import DICT, Base, Database, canonical
from lib.grpo.worlds.tools import GENERIC, READ, WRITE, CalculatingToolkit, ToolError, tool
from lib.grpo.worlds.world import ASSISTANT, MOST_ERROR_CHARACTERS, USER, Domain, World


class Part(TypedDict):
    name: str
    price: float
    colour: NotRequired[str]


class Workshop(CalculatingToolkit):
    """One tool for every kind of argument and of failure."""

    @tool(WRITE)
    def order(self, count: int, price: float, fast: bool, size: Literal["small", "large"], parts: list[Part]) -> dict:
        """Order things
        for a customer.

        Only the first paragraph is shown.

        Args:
            count: How many,
                such as 3.
            fast: Whether it hurries: yes or no.
        """
        return self.db.insert("orders", f"O{len(list(self.db.rows('orders')))}", {"count": count, "price": price})

    @tool(READ)
    def find(self, text: str, limit: int = 5, note: str | None = None) -> list:
        """Find."""
        return [text, limit, note]

    @tool(WRITE)
    def refuse(self, message: str) -> None:
        """Change something, then refuse."""
        self.db.edit("orders", "A")["count"] += 1
        raise ToolError(message)

    @tool(WRITE)
    def crash(self) -> None:
        """Change something, then fail by a mistake of ours."""
        self.db.edit("orders", "A")["count"] += 1
        self.db.insert("orders", "C", {})
        self.db.find("orders", "A")["nothing"]

    @tool(READ)
    def unwritable(self) -> object:
        """A result that JSON does not know."""
        return {1, 2}

    @tool(GENERIC)
    def say(self) -> str:
        """Text is not quoted."""
        return 'so "be" it'

    def set_count(self, order_id: str, count: int) -> int:
        """Not a tool: what an initial state calls."""
        row = self.db.edit("orders", order_id)
        row["count"] = count
        if count < 0:
            raise ToolError("negative")
        return 10 // count


TABLES = {"orders": {"A": {"count": 1, "price": 2.0}}}
DOMAIN = Domain("workshop", Workshop, lambda data: Base(data, {"orders": DICT}))
GOOD = {"count": 1, "price": 2.5, "fast": True, "size": "small", "parts": [{"name": "cog", "price": 1}]}


@pytest.fixture
def world():
    base = DOMAIN.read_agent_base(TABLES)
    before = canonical(base.tables)
    yield World(DOMAIN, base)
    assert canonical(base.tables) == before


def refused(world: World, name, arguments) -> str:
    """The text of a call that must fail without a trace."""
    before = world.state()
    done = world.call(ASSISTANT, name, arguments)
    assert done.error and world.state() == before and not world.agent.db.pending
    return done.text


# Schemas.


def test_schema_of_a_tool():
    part = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "price": {"type": "number"}, "colour": {"type": "string"}},
        "required": ["name", "price"],
    }
    assert Workshop.tools["order"].schema == {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Order things for a customer.",
            "parameters": {
                "type": "object",
                "properties": {
                    "count": {"type": "integer", "description": "How many, such as 3."},
                    "price": {"type": "number"},
                    "fast": {"type": "boolean", "description": "Whether it hurries: yes or no."},
                    "size": {"type": "string", "enum": ["small", "large"]},
                    "parts": {"type": "array", "items": part},
                },
                "required": ["count", "price", "fast", "size", "parts"],
                "additionalProperties": False,
            },
        },
    }


def test_schema_of_what_may_be_left_out():
    parameters = Workshop.tools["find"].parameters
    assert parameters["required"] == ["text"]
    assert parameters["properties"]["limit"] == {"type": "integer", "default": 5}
    assert parameters["properties"]["note"] == {"type": "string", "nullable": True, "default": None}


def test_an_annotation_without_schema_is_our_mistake():
    for hint in (bytes, dict, int | str, int | str | None):
        with pytest.raises((AssertionError, TypeError)):
            schema_of(hint)


def test_toolkits_inherit_tools_and_leave_out_other_methods():
    inherited = ["transfer_to_human_agents", "calculate"]
    assert list(Workshop.tools) == [*inherited, "order", "find", "refuse", "crash", "unwritable", "say"]
    assert {name: entry.kind for name, entry in Workshop.tools.items() if entry.kind != GENERIC} == {
        **dict.fromkeys(("order", "refuse", "crash"), WRITE),
        **dict.fromkeys(("find", "unwritable"), READ),
    }
    assert list(CalculatingToolkit.tools) == inherited
    json.dumps([entry.schema for entry in Workshop.tools.values()])


# Checks.


@pytest.mark.parametrize(
    "change",
    [
        {},
        # As in JSON, where 5 and 5.0 are one number; the tool sees what was written.
        {"count": 5.0},
        {"count": -1},
        {"price": 3},
        {"parts": []},
        {"parts": [{"name": "cog", "price": 1.5, "colour": "red"}, {"name": "", "price": 0, "more": [1]}]},
    ],
)
def test_arguments_that_fit(change):
    assert Workshop.tools["order"].check({**GOOD, **change}) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": True}, "order.count must be an integer, got True"),
        ({"count": 1.5}, "order.count must be an integer, got 1.5"),
        ({"count": "1"}, "order.count must be an integer, got '1'"),
        ({"count": None}, "order.count must be an integer, got None"),
        ({"count": 10**15}, "order.count must be an integer, got 1000000000000000"),
        ({"count": 1e300}, "order.count must be an integer, got 1e+300"),
        ({"count": float("nan")}, "order.count must be an integer, got nan"),
        ({"price": float("nan")}, "order.price must be a number, got nan"),
        ({"price": float("-inf")}, "order.price must be a number, got -inf"),
        ({"price": False}, "order.price must be a number, got False"),
        ({"price": "2.5"}, "order.price must be a number, got '2.5'"),
        ({"fast": 1}, "order.fast must be a boolean, got 1"),
        ({"fast": "yes"}, "order.fast must be a boolean, got 'yes'"),
        ({"size": 3}, "order.size must be a string, got 3"),
        ({"size": "Small"}, "order.size must be one of 'small', 'large', got 'Small'"),
        ({"size": ["small"]}, "order.size must be a string, got ['small']"),
        ({"parts": {}}, "order.parts must be a list, got {}"),
        ({"parts": "[]"}, "order.parts must be a list, got '[]'"),
        ({"parts": ["cog"]}, "order.parts[0] must be an object, got 'cog'"),
        ({"parts": [GOOD["parts"][0], {"name": "cog"}]}, "order.parts[1]: missing field 'price'"),
        ({"parts": [{"name": 1, "price": 1}]}, "order.parts[0].name must be a string, got 1"),
        ({"parts": [{"name": "", "price": 1, "colour": None}]}, "order.parts[0].colour must be a string, got None"),
        ({"extra": 1}, "order: unknown argument 'extra'; expected count, price, fast, size, parts"),
        ({1: 1}, "order: unknown argument 1; expected count, price, fast, size, parts"),
    ],
)
def test_arguments_that_do_not_fit(world, change, said):
    assert refused(world, "order", {**GOOD, **change}) == f"Error: {said}"


@pytest.mark.parametrize("name", list(GOOD))
def test_missing_arguments(world, name):
    arguments = {other: value for other, value in GOOD.items() if other != name}
    assert refused(world, "order", arguments) == f"Error: order: missing argument {name!r}"


def test_other_misfits(world):
    assert refused(world, "say", {"a": 1}) == "Error: say: unknown argument 'a'; expected none"
    for odd in (None, [], "x", 3):
        assert refused(world, "order", odd) == f"Error: order must be an object, got {odd!r}"
    assert refused(world, "find", {"text": 3}) == "Error: find.text must be a string, got 3"
    assert refused(world, "find", {"text": "x", "limit": None}) == "Error: find.limit must be an integer, got None"


def test_huge_values_are_shown_cut(world):
    long = "x" * 100_000
    assert refused(world, "find", {"text": [long]}) == f"Error: find.text must be a string, got ['{'x' * 78}..."
    assert refused(world, long, {}) == f"Error: Tool '{'x' * 79}... not found."
    assert len(refused(world, "find", {"text": "x", long: 1})) < 200
    assert len(shown(long)) == SHOWN_CHARACTERS + 3 and shown("x" * 78) == repr("x" * 78)


def test_values_that_cannot_be_written_are_named_by_type(world):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert refused(world, "find", {"text": deep}) == "Error: find.text must be a string, got something of type list"
    assert refused(world, "order", {**GOOD, "count": 10**5000}).endswith("got something of type int")


# Calls.


def test_results_as_the_model_reads_them(world):
    done = world.call(ASSISTANT, "order", GOOD)
    assert (done.text, done.error, done.kind) == ('{"count": 1, "price": 2.5}', False, WRITE)
    assert world.call(ASSISTANT, "find", {"text": "x"}).text == '["x", 5, null]'
    assert world.call(ASSISTANT, "find", {"text": "x", "limit": 2.0, "note": None}).text == '["x", 2.0, null]'
    assert world.call(ASSISTANT, "say", {}).text == 'so "be" it'
    assert world.calls[0] is done and len(world.calls) == 4


def test_unknown_tools(world):
    # Also what is no tool but a method, and what Python would find.
    for name in ("fly", "", "Order", "set_count", "__init__", "db", "tools", "a'b"):
        assert refused(world, name, {}) == f"Error: Tool {name!r} not found."
    for odd in (None, 3, ["order"], {"name": "order"}):
        assert refused(world, odd, {}) == f"Error: Tool {odd!r} not found."
    # There is no user's side here.
    assert world.call(USER, "say", {}).error and world.call(ASSISTANT, "fly", {}, solo=True).error
    assert not world.faults


def test_refusals_and_crashes_leave_no_trace(world):
    world.call(ASSISTANT, "order", GOOD)
    assert refused(world, "refuse", {"message": "not today"}) == "Error: not today"
    assert refused(world, "refuse", {"message": "x" * 9999}) == "Error: " + "x" * MOST_ERROR_CHARACTERS
    assert not world.faults
    assert refused(world, "crash", {}) == refused(world, "unwritable", {}) == "Error: the tool failed"
    assert [fault.split(":")[0] for fault in world.faults] == ["crash({})", "unwritable({})"]
    assert world.agent.db.find("orders", "A")["count"] == 1 and not world.agent.db.find("orders", "C")


def test_run_calls_functions_that_are_no_tools(world):
    assert world.run(ASSISTANT, "set_count", {"order_id": "A", "count": 5}) == 2
    assert world.agent.db.changed["orders", "A"]["count"] == 5 and not world.agent.db.pending
    assert world.run(ASSISTANT, "find", {"text": "x"}) == ["x", 5, None]
    assert not world.calls, "what a task does is no call of the agent"


@pytest.mark.parametrize(
    ("side", "function", "arguments", "said"),
    [
        (ASSISTANT, "fly", {}, "workshop has no function 'fly' on the side of the assistant"),
        (USER, "set_count", {}, "workshop has no function 'set_count' on the side of the user"),
        ("nobody", "set_count", {}, "on the side of the nobody"),
        (ASSISTANT, "__init__", {"db": Database(Base({}, {}))}, "has no function '__init__'"),
        (ASSISTANT, "db", {}, "has no function 'db'"),
        (ASSISTANT, None, {}, "has no function None"),
        (ASSISTANT, "set_count", {"order_id": "A"}, "missing 1 required positional argument: 'count'"),
        (ASSISTANT, "set_count", {"order_id": "A", "count": 1, "more": 2}, "unexpected keyword argument 'more'"),
        (ASSISTANT, "set_count", [1], "must be a mapping"),
        (ASSISTANT, "set_count", {"order_id": "Z", "count": 1}, "orders has no row 'Z'"),
        (ASSISTANT, "set_count", {"order_id": "A", "count": "5"}, "not supported between"),
        (ASSISTANT, "set_count", {"order_id": "A", "count": 0}, "division"),
        (ASSISTANT, "set_count", {"order_id": "A", "count": -1}, "^negative$"),
        (ASSISTANT, "find", {"text": 3}, r"^find.text must be a string, got 3$"),
        (ASSISTANT, "crash", {}, "nothing"),
    ],
)
def test_run_raises_tool_errors_only_and_rolls_back(world, side, function, arguments, said):
    before = world.state()
    with pytest.raises(ToolError, match=said):
        world.run(side, function, arguments)
    assert world.state() == before and not world.agent.db.pending


def test_a_world_resumes_where_another_one_stopped(world):
    world.call(ASSISTANT, "order", GOOD)
    other = World(DOMAIN, world.agent.db.base, resume=(world.agent.db.changed, {}))
    assert other.state() == world.state() and other.state_hash() == world.state_hash()
    other.run(ASSISTANT, "set_count", {"order_id": "O1", "count": 3})
    assert world.agent.db.find("orders", "O1")["count"] == 1
