"""A user played by a language model: behind an OpenAI-compatible endpoint, or a model of our own."""

from collections.abc import Callable

from lib.grpo.messages import read_reply
from lib.grpo.task import Task
from lib.grpo.users.turns import GREETING, OUT_OF_SCOPE, STOP, TRANSFER, Turn, end_of
from lib.grpo.worlds.world import USER, World

# (messages, tools) -> an assistant message.
Complete = Callable[[list[dict], list[dict]], dict]
MOST_CALLS = 8
GUIDELINES = """You play a customer who talks to a customer service agent. Stay in your role and follow the scenario.
- One short message at a time. Say only what is needed; tell details when you are asked for them.
- Do not invent anything that the scenario does not say. If you do not know something, say so.
- Say yes to a change only if it is what you want.
- When your request is settled or finally refused, write {stop} and nothing else.
- When you are being transferred to another agent, write {transfer}. When the scenario does not cover what is asked, \
write {out_of_scope}.
{phone}
<scenario>
{scenario}
</scenario>"""
PHONE = (
    "- You hold the phone: when the agent asks you to do or check something on it, call the tool and report its result."
)
FIELDS = {
    "reason_for_call": "Why you call",
    "known_info": "What you know",
    "unknown_info": "What you do not know",
    "task_instructions": "How you behave",
}


class LanguageUser:
    """See the module. `complete` takes messages and tools and gives the model's message; it may raise."""

    def __init__(self, task: Task, world: World, complete: Complete):
        self.world, self.complete = world, complete
        self.tools = [tool.schema for tool in world.user.tools.values()] if world.user else []
        self.messages = [{"role": "system", "content": system_text(task, phone=bool(self.tools))}]

    def open(self) -> Turn:
        return self.respond(GREETING)

    def respond(self, text: str) -> Turn:
        """The model's next message; its calls of the phone's tools are carried out in between."""
        self.messages.append({"role": "user", "content": text})
        for _ in range(MOST_CALLS):
            message = self.complete(self.messages, self.tools)
            reply = read_reply(message, first_id=len(self.messages))
            self.messages.append({**message, "role": "assistant"} if isinstance(message, dict) else _plain(reply.text))
            if not reply.calls:
                return Turn(reply.text, end_of(reply.text))
            for asked in reply.calls:
                call = self.world.call(USER, asked.name, asked.arguments)
                content = f"Error: {asked.problem}" if asked.problem else call.text
                self.messages.append({"role": "tool", "tool_call_id": asked.id, "content": content})
        return Turn("One moment, please.")


def system_text(task: Task, phone: bool) -> str:
    """The model's instructions: guidelines and the task's scenario."""
    scenario = task.data.get("user_scenario") or {}
    lines = [f"Your character: {scenario['persona'].strip()}"] if scenario.get("persona") else []
    for name, title in FIELDS.items():
        if task.instructions.get(name):
            lines.append(f"{title}: {task.instructions[name].strip()}")
    return GUIDELINES.format(
        stop=STOP,
        transfer=TRANSFER,
        out_of_scope=OUT_OF_SCOPE,
        phone=PHONE if phone else "",
        scenario="\n".join(lines),
    )


def _plain(text: str) -> dict:
    return {"role": "assistant", "content": text}
