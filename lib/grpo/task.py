"""Tasks in tau2-bench's format, the setting they happen in, and the world they start from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.store import Base, Database
from lib.grpo.worlds.tools import WRITE, ToolError
from lib.grpo.worlds.world import ASSISTANT, USER, Domain, World

# The parts of a reward. The last two are our own, for generated tasks: tools that must not have been called, and
# whether the user was told of the refusal that the rules ask for.
# Statements in words, which a language model judges.
JUDGED = "NL_ASSERTION"
BASIS = ("DB", "ENV_ASSERTION", "COMMUNICATE", "ACTION", JUDGED, "FORBIDDEN", "REFUSAL")


@dataclass(frozen=True)
class Setting:
    """Where tasks happen: the domain, its databases and the policy texts (`solo_policy` for agents without a user)."""

    domain: Domain
    agent_base: Base
    user_base: Base | None
    policy: str
    solo_policy: str | None = None


@dataclass(frozen=True)
class Action:
    """A call that the gold solution makes."""

    name: str
    arguments: dict
    requestor: str = ASSISTANT
    compare_args: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Task:
    """One task. `data` is the JSON object of the file format; `split` is None when no split file names the id.

    Generated tasks know where they came from (`template`, `seed`, `level`), what the scripted user knows (`brief`) and
    the dialogue of the expert (`script`: with a user, `solo_script`: from the ticket alone), as assistant messages.
    """

    domain: str
    id: str
    data: dict
    setting: Setting = field(repr=False, compare=False)
    split: str | None = None
    template: str | None = None
    seed: int | None = None
    level: int | None = None
    brief: dict | None = field(default=None, repr=False)
    script: tuple[dict, ...] | None = field(default=None, repr=False)
    solo_script: tuple[dict, ...] | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, str]:
        """Ids repeat between domains."""
        return self.domain, self.id

    @cached_property
    def criteria(self) -> dict | None:
        return self.data.get("evaluation_criteria")

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """The gold calls, in order."""
        found = []
        for row in (self.criteria or {}).get("actions") or []:
            compare = row.get("compare_args")
            requestor = row.get("requestor") or ASSISTANT
            arguments = row.get("arguments") or {}
            found.append(Action(row["name"], arguments, requestor, None if compare is None else tuple(compare)))
        return tuple(found)

    @cached_property
    def basis(self) -> tuple[str, ...]:
        return tuple((self.criteria or {}).get("reward_basis") or ())

    @cached_property
    def instructions(self) -> dict:
        """The user's instructions; free text becomes {"task_instructions": text}."""
        instructions = (self.data.get("user_scenario") or {}).get("instructions") or {}
        return {"task_instructions": instructions} if isinstance(instructions, str) else instructions

    def world(self) -> World:
        """A fresh world with the task's initial state. Raises DataError when that cannot be applied."""
        start = self._start
        return World(self.setting.domain, start[0], start[1], resume=(start[2], start[3]))

    @cached_property
    def _start(self) -> tuple[Base, Base | None, dict, dict]:
        """Bases and changes after the initial state, worked out once: a reset copies two small dicts."""
        initial = self.data.get("initial_state") or {}
        bases = _merge_data(self.setting, initial.get("initialization_data") or {}, self.where)
        world = World(self.setting.domain, *bases)
        for place, call in enumerate(initial.get("initialization_actions") or []):
            try:
                world.run(call["env_type"], call["func_name"], call.get("arguments") or {})
            except ToolError as error:
                raise DataError(f"{self.where}: initialization_actions[{place}]: {error}") from error
        for call in calls_of(initial.get("message_history") or []):
            found = world.find_tool(call.requestor, call.name)
            if found and found[0].kind == WRITE:
                world.call(call.requestor, call.name, call.arguments)
        return *bases, dict(world.agent.db.changed), dict(world.user.db.changed) if world.user else {}

    @cached_property
    def gold_state(self) -> tuple:
        """`World.state()` after the gold actions; those that are refused are skipped, as in the benchmark."""
        world = self.world()
        for action in self.actions:
            world.call(action.requestor, action.name, action.arguments)
        assert not world.faults, f"{self.where}: {world.faults}"
        return world.state()

    @property
    def where(self) -> str:
        return f"task {self.domain}/{self.id}"


def calls_of(messages: list[dict]) -> Iterator[Action]:
    """The tool calls of a message history, by assistant and user."""
    for message in messages:
        requestor = USER if message.get("role") == USER else ASSISTANT
        for call in message.get("tool_calls") or []:
            function = call.get("function")
            function = function if isinstance(function, dict) else call
            arguments = function.get("arguments")
            if isinstance(function.get("name"), str) and isinstance(arguments, dict):
                yield Action(function["name"], arguments, requestor)


def _merge_data(setting: Setting, data: dict, where: str) -> tuple[Base, Base | None]:
    """The setting's bases with a task's `initialization_data` merged in: objects recursively, lists replaced."""
    agent_base, user_base = setting.agent_base, setting.user_base
    try:
        if data.get("agent_data"):
            merged = _merged(Database(agent_base).dump(), data["agent_data"])
            agent_base = setting.domain.read_agent_base(merged)
        if data.get("user_data"):
            if user_base is None:
                raise DataError(f"the {setting.domain.name} domain has no user data")
            user_base = setting.domain.read_user_base(_merged(Database(user_base).dump(), data["user_data"]))
    except DataError as error:
        raise DataError(f"{where}: initialization_data: {error}") from None
    return agent_base, user_base


def _merged(old, new):
    if type(old) is dict and type(new) is dict:
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return new
