"""The state of one episode: databases, the toolkits that work on them, and calls that never raise."""

from collections.abc import Callable
from dataclasses import dataclass

from lib.errors import in_words
from lib.grpo.worlds.schemas import shown
from lib.grpo.worlds.store import Base, Database
from lib.grpo.worlds.tools import WRITE, Tool, ToolError, Toolkit, render

ASSISTANT, USER = "assistant", "user"
# Errors repeat what a model wrote, which may be long.
MOST_ERROR_CHARACTERS = 500


@dataclass(frozen=True)
class Domain:
    """What is fixed for a domain. `read_agent_base` and `read_user_base` cast parsed files into tables."""

    name: str
    toolkit: type[Toolkit]
    read_agent_base: Callable[[dict], Base]
    user_toolkit: type[Toolkit] | None = None
    read_user_base: Callable[[dict], Base] | None = None
    synchronise: Callable[[Toolkit, Toolkit], None] | None = None


@dataclass(frozen=True)
class Call:
    """One call of a tool and its outcome; `error`: the text starts with "Error: " and nothing has changed."""

    requestor: str
    name: str
    arguments: dict
    text: str
    error: bool
    kind: str | None = None


class World:
    """Databases on `agent_base` and (telecom's phone) `user_base`, and the tools of both sides.

    `resume` holds what another world on these bases had changed (`Database.changed` of both sides): start from there.
    """

    def __init__(
        self, domain: Domain, agent_base: Base, user_base: Base | None = None, resume: tuple[dict, dict] | None = None
    ):
        self.domain = domain
        self.agent = domain.toolkit(Database(agent_base))
        self.user = domain.user_toolkit(Database(user_base)) if domain.user_toolkit else None
        self.calls: list[Call] = []
        # Exceptions that were no ToolError: our own mistakes. They reach the agent as text; tests want none.
        self.faults: list[str] = []
        if resume is not None:
            self.agent.db.changed.update(resume[0])
            if self.user:
                self.user.db.changed.update(resume[1])
            return
        self.synchronise()
        self._commit()

    def find_tool(self, requestor: str, name: str) -> tuple[Tool, Toolkit] | None:
        kit = self.agent if requestor == ASSISTANT else self.user
        found = kit.tools.get(name) if kit and type(name) is str else None
        return (found, kit) if found else None

    def call(self, requestor: str, name: str, arguments: dict, solo: bool = False) -> Call:
        """Call a tool as `requestor` ("assistant" or "user"); with `solo` the assistant holds the user's tools too.

        Never raises: an unknown tool, arguments that do not fit and a refusal by the tool become an error text, and the
        state is as before. Every call is kept in `calls`.
        """
        found = self.find_tool(requestor, name)
        if found is None and solo:
            found = self.find_tool(USER, name)
        if found is None:
            call = Call(requestor, name, arguments, f"Error: Tool {shown(name)} not found.", True)
        else:
            text, error = self._carry_out(*found, arguments)
            call = Call(requestor, name, arguments, text, error, found[0].kind)
        self.calls.append(call)
        return call

    def _carry_out(self, tool: Tool, kit: Toolkit, arguments: dict) -> tuple[str, bool]:
        """(text, whether it is an error)."""
        problem = tool.check(arguments)
        if problem:
            return f"Error: {problem}", True
        try:
            text = render(tool.method(kit, **arguments))
            if tool.kind == WRITE:
                self.synchronise()
        except ToolError as error:
            self._rollback()
            message = str(error)
            return f"Error: {message[:MOST_ERROR_CHARACTERS]}", True
        except Exception as error:
            self._rollback()
            self.faults.append(f"{tool.name}({shown(arguments)}): {in_words(error)}")
            return "Error: the tool failed", True
        self._commit()
        return text, False

    def run(self, side: str, function: str, arguments: dict):
        """A function of a toolkit that need not be a tool: initialisation actions and assertions of tasks.

        Raises ToolError when there is no such function, when the arguments do not fit, or when it refuses.
        """
        kit = self.agent if side == ASSISTANT else self.user if side == USER else None
        known = kit is not None and type(function) is str and not function.startswith("_")
        method = getattr(kit, function, None) if known else None
        if not callable(method):
            raise ToolError(f"{self.domain.name} has no function {function!r} on the side of the {side}")
        problem = kit.tools[function].check(arguments) if function in kit.tools else None
        if problem:
            raise ToolError(problem)
        try:
            result = method(**arguments)
            self.synchronise()
        except ToolError:
            self._rollback()
            raise
        except Exception as error:
            # These functions have no schemas: what does not fit shows only inside them.
            self._rollback()
            raise ToolError(f"{function}({shown(arguments)}): {in_words(error)}") from error
        self._commit()
        return result

    def synchronise(self) -> None:
        """Carry over what one side's state means for the other; after every change."""
        if self.domain.synchronise:
            self.domain.synchronise(self.agent, self.user)

    def state(self) -> tuple:
        """Equal for two worlds on the same bases exactly when both databases agree."""
        return self.agent.db.state(), self.user.db.state() if self.user else None

    def state_hash(self) -> str:
        """sha256 over both databases, as hexadecimal text."""
        own = self.agent.db.state_hash()
        return own if self.user is None else own + self.user.db.state_hash()

    def _commit(self) -> None:
        self.agent.db.commit()
        if self.user:
            self.user.db.commit()

    def _rollback(self) -> None:
        self.agent.db.rollback()
        if self.user:
            self.user.db.rollback()
