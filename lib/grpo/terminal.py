"""Being the agent in a terminal: lines are messages to the user, `/call` calls a tool."""

from collections.abc import Callable

from lib.grpo.environment import Environment
from lib.grpo.messages import read_reply
from lib.grpo.show import message_lines, reward_lines
from lib.grpo.task import Task

HELP = """You are the agent. What you write goes to the user. Commands:
  /call NAME {"argument": "value"}   call a tool        /tools   list them
  /policy   read the policy          /reward   the reward so far          /quit   leave"""


def play(environment: Environment, task: Task, read: Callable[[], str | None], write: Callable[[str], None]) -> None:
    """Run `task` with a person as the agent. `read` gives the next line, None at the end of input."""
    messages, tools = environment.reset(task)
    write(HELP)
    for message in messages[1:]:
        write("\n".join(message_lines(message)))
    while environment.end is None:
        line = read()
        if line is None or line.strip() == "/quit":
            break
        line = line.strip()
        if line == "/tools":
            write("\n".join(_tool_line(tool["function"]) for tool in tools))
        elif line == "/policy":
            write(messages[0]["content"])
        elif line == "/reward":
            write("\n".join(reward_lines(environment.reward())))
        elif line.startswith("/") and not line.startswith("/call"):
            write(HELP)
        elif line:
            answers, _ = environment.step(_message(line, len(environment.world.calls)))
            for answer in answers:
                write("\n".join(message_lines(answer, whole=True)))
    write(f"The episode {'ended: ' + environment.end if environment.end else 'was left'}.")
    write("\n".join(reward_lines(environment.reward())))


def _message(line: str, first_id: int) -> str | dict:
    """A line as an assistant message; `/call` takes the arguments as JSON, none for a tool without any."""
    if not line.startswith("/call"):
        return {"role": "assistant", "content": line}
    name, _, arguments = line[len("/call") :].strip().partition(" ")
    call = {"id": f"call_{first_id}", "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    # Unreadable arguments are answered by the environment, as a model's would be.
    assert read_reply(message).problem is None
    return message


def _tool_line(function: dict) -> str:
    required = function["parameters"]["required"]
    names = [name if name in required else f"{name}?" for name in function["parameters"]["properties"]]
    return f"{function['name']}({', '.join(names)}): {function['description']}"
