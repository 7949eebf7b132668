"""An episode: messages and tools go out, assistant messages come in, and at the end there is a reward.

    environment = Environment()
    messages, tools = environment.reset(task)
    while not done:
        messages, done = environment.step(assistant_message)
    environment.reward().total

Nothing an agent writes raises: what cannot be understood or carried out comes back as a message that says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lib.grpo.judge import Judge
from lib.grpo.messages import Reply, read_reply
from lib.grpo.reward import Reward, score
from lib.grpo.shaping import Shaping
from lib.grpo.task import Task
from lib.grpo.users import ticket
from lib.grpo.users.scripted import scripted_user
from lib.grpo.users.turns import GREETING, Turn, User
from lib.grpo.worlds.world import ASSISTANT, World

SYSTEM = """You are a customer service agent. Help the user according to the policy below. In each turn either call a \
tool or write to the user, not both.

<policy>
{policy}
</policy>"""
SOLO_SYSTEM = """You are a customer service agent. Work on the ticket according to the policy below by calling tools; \
there is nobody to ask. When everything is done, write the answer or call the tool done.

<policy>
{policy}
</policy>"""
DONE = {
    "type": "function",
    "function": {
        "name": "done",
        "description": "Close the ticket when everything is done or cannot be done.",
        "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    },
}
UserFactory = Callable[[Task, World], User | None]


@dataclass(frozen=True)
class Limits:
    """An episode ends without success after so many assistant messages or refused tool calls."""

    max_turns: int = 40
    max_errors: int = 10


class Environment:
    """One episode at a time. `user` makes the user of a task; the default is the scripted one, `ticket.nobody` none.

    judge: of the parts of a reward that are put in words; without one they are left out of it.
    """

    def __init__(
        self, user: UserFactory = scripted_user, limits: Limits | None = None, shaping: Shaping | None = None,
        judge: Judge | None = None,
    ):  # fmt: skip
        self._make_user = user
        self.limits = limits or Limits()
        self.shaping = shaping or Shaping()
        self.judge = judge
        self.task: Task | None = None

    def reset(self, task: Task) -> tuple[list[dict], list[dict]]:
        """Start `task`: the messages so far (policy, greeting, the user's opening or the ticket), the tools' schemas.

        Raises DataError when the task's initial state cannot be applied.
        """
        self.task = task
        self.world = task.world()
        self.said: list[str] = []
        self.end: str | None = None
        self.turns = self.errors = self.asked = 0
        self.user = self._make_user(task, self.world)
        self.solo = self.user is None
        setting = task.setting
        kits = [self.world.agent, self.world.user] if self.solo else [self.world.agent]
        tools = [tool.schema for kit in kits if kit for tool in kit.tools.values()]
        if self.solo:
            policy = setting.solo_policy or setting.policy
            self.messages = [_system(SOLO_SYSTEM, policy), {"role": "user", "content": ticket.text_of(task)}]
            return list(self.messages), [*tools, DONE]
        opening = self.user.open()
        self.messages = [_system(SYSTEM, setting.policy), *_history(task)]
        if len(self.messages) == 1:
            self.messages.append({"role": "assistant", "content": GREETING})
        self._hear(opening)
        return list(self.messages), tools

    def step(self, message: str | dict) -> tuple[list[dict], bool]:
        """Take an assistant message; the messages that answer it, and whether the episode is over.

        Raises ValueError before `reset` and after the end.
        """
        if self.task is None or self.end is not None:
            raise ValueError("no episode is running: call reset(task) first")
        self.turns += 1
        before = len(self.messages)
        reply = read_reply(message, first_id=self.asked)
        self.asked += len(reply.calls)
        self.messages.append(_as_message(message, reply))
        if reply.problem:
            self._refuse({"role": "user", "content": f"Error: {reply.problem}"})
        elif reply.calls:
            self._carry_out(reply)
        else:
            self.said.append(reply.text)
            if self.solo:
                self.end = "agent_stop"
            else:
                self._hear(self.user.respond(reply.text))
        if self.end is None and self.errors >= self.limits.max_errors:
            self.end = "too_many_errors"
        if self.end is None and self.turns >= self.limits.max_turns:
            self.end = "max_turns"
        return self.messages[before + 1 :], self.end is not None

    def reward(self) -> Reward:
        """The reward of the episode so far: 0 until it has ended, see `reward.score`. Asks the judge, who may raise."""
        if self.task is None:
            raise ValueError("no episode: call reset(task) first")
        judge = partial(self.judge.verdicts, messages=self.messages) if self.judge else None
        strict = score(self.task, self.world, self.said, self.end, judge)
        return self.shaping.add(strict, self)

    def _carry_out(self, reply: Reply) -> None:
        if reply.text and self.task.template is None:
            # Text beside a call reaches nobody; the benchmark counts it as said, generated tasks do not.
            self.said.append(reply.text)
        for asked in reply.calls:
            answer = {"role": "tool", "tool_call_id": asked.id, "name": asked.name}
            if asked.problem:
                self._refuse({**answer, "content": f"Error: {asked.problem}"})
                continue
            if self.end is not None:
                self._refuse({**answer, "content": "Error: the ticket is closed"})
                continue
            if self.solo and asked.name == "done":
                self.messages.append({**answer, "content": "Ticket closed."})
                self.end = "agent_stop"
                continue
            call = self.world.call(ASSISTANT, asked.name, asked.arguments, solo=self.solo)
            self.errors += call.error
            self.messages.append({**answer, "content": call.text})

    def _refuse(self, message: dict) -> None:
        self.errors += 1
        self.messages.append(message)

    def _hear(self, turn: Turn) -> None:
        self.messages.append({"role": "user", "content": turn.text})
        self.end = turn.end


def _system(form: str, policy: str) -> dict:
    return {"role": "system", "content": form.format(policy=policy)}


def _history(task: Task) -> list[dict]:
    """The dialogue that a task starts with, if any."""
    rows = (task.data.get("initial_state") or {}).get("message_history") or []
    return [dict(row) for row in rows if row.get("role") in ("assistant", "user", "tool")]


def _as_message(message, reply: Reply) -> dict:
    """The transcript's form of what the agent wrote; calls carry the ids by which they are answered."""
    if reply.problem:
        return {"role": "assistant", "content": message if isinstance(message, str) else ""}
    if not reply.calls:
        return (
            {**message, "role": "assistant"} if isinstance(message, dict) else {"role": "assistant", "content": message}
        )
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.calls
    ]
    return {"role": "assistant", "content": reply.text, "tool_calls": calls}
