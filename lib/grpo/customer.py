"""Being the customer in a terminal: lines are what the agent hears, `/phone` uses the phone of the world."""

import json
from collections.abc import Callable

from lib.grpo.environment import Environment, Limits
from lib.grpo.show import brief_lines, difference_lines, message_lines, reward_lines
from lib.grpo.task import Task
from lib.grpo.users.turns import TRANSFER, Turn, end_of
from lib.grpo.worlds.tools import TRANSFER_TOOL
from lib.grpo.worlds.world import USER, World

HELP = """You are the customer. What you write goes to the agent. Commands:
  ###STOP###   you have your answer          /quit   leave
  /phone   what your phone can do            /phone NAME {"argument": "value"}   do it"""
# How an episode ends that the person left: without a reward.
LEFT = "left"


class Customer:
    """A user (`users.turns.User`) whose words are lines that a person types.

    `read` gives the next line, None at the end of input; `write` shows text.
    """

    def __init__(self, world: World, read: Callable[[], str | None], write: Callable[[str], None]):
        self.world, self.read, self.write = world, read, write
        self.heard = 0

    def open(self) -> Turn:
        return self._line()

    def respond(self, text: str) -> Turn:
        self.heard += 1
        self.write("\n".join(message_lines({"role": "assistant", "content": text})))
        if any(call.name == TRANSFER_TOOL and not call.error for call in self.world.calls):
            self.write("(The agent has handed you over to a person.)")
            return Turn(TRANSFER, "user_stop")
        return self._line()

    def _line(self) -> Turn:
        while True:
            line = self.read()
            if line is None or line.strip() == "/quit":
                return Turn("", LEFT)
            line = line.strip()
            if line.split(" ")[0] == "/phone":
                self._use_phone(line)
            elif line.startswith("/"):
                self.write(HELP)
            elif line:
                return Turn(line, end_of(line))

    def _use_phone(self, line: str) -> None:
        if self.world.user is None:
            self.write("There is no phone in this domain.")
            return
        name, _, text = line[len("/phone") :].strip().partition(" ")
        if not name:
            for tool in self.world.user.tools.values():
                about = tool.schema["function"]
                self.write(f"{about['name']}({', '.join(about['parameters']['properties'])}): {about['description']}")
            return
        try:
            arguments = json.loads(text or "{}")
        except ValueError:
            self.write(f'{text} is no JSON: expected {{"argument": "value"}}')
            return
        self.write(self.world.call(USER, name, arguments).text)


class ShownEnvironment(Environment):
    """An environment whose user is a person, and which shows them what the agent calls and what comes back."""

    def __init__(self, read: Callable[[], str | None], write: Callable[[str], None], limits: Limits | None = None):
        super().__init__(lambda task, world: Customer(world, read, write), limits)
        self.write = write

    def step(self, message: str | dict) -> tuple[list[dict], bool]:
        place, heard = len(self.messages), self.user.heard
        answers, done = super().step(message)
        if self.user.heard == heard:
            for each in (self.messages[place], *answers):
                self.write("\n".join(message_lines(each)))
        return answers, done


def opening_text(task: Task) -> str:
    """Who the person is and what they know and want."""
    return "\n".join(["# you", *brief_lines(task), "", HELP])


def closing_text(environment: Environment) -> str:
    """How it ended, what changed in the databases, and the reward."""
    lines = [f"The conversation ended: {environment.end or 'in the middle'}.", "", "# changes of the database"]
    return "\n".join([*lines, *difference_lines(environment), "", "# reward", *reward_lines(environment.reward())])
