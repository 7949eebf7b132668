"""What an expert says and calls in a task: demonstrations for a warm start, and the proof that a task can be solved."""

from lib.grpo.generation.airline_case import NO_HELP
from lib.grpo.generation.compose import CONFIRM_QUESTION
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import TRANSFER_TEXT
from lib.grpo.messages import call_message, text_message
from lib.grpo.task import Task
from lib.grpo.worlds.tools import TRANSFER_TOOL
from lib.grpo.worlds.world import USER

REFUSE = [text_message(f"{NO_HELP}the rules do not allow it.")]
HAND_OVER = [
    call_message(TRANSFER_TOOL, {"summary": "The user asks for a human agent."}),
    text_message(TRANSFER_TEXT),
]


def expert(task: Task, solo: bool = False) -> list[dict]:
    """The assistant messages that solve `task` with the scripted user, or alone from the ticket (`solo`).

    For a task of the benchmark there is no dialogue to follow: the gold calls, what is to be communicated, and a close;
    alone, the agent makes the user's calls too, and with a user they become plain instructions.
    """
    if task.script is not None:
        return [*(task.solo_script if solo else task.script)]
    messages = []
    for action in task.actions:
        if action.requestor == USER and not solo:
            values = ", ".join(f"{name} {value}" for name, value in action.arguments.items())
            messages.append(text_message(f"Please use {action.name} on your phone{': ' + values if values else ''}."))
        else:
            messages.append(call_message(action.name, action.arguments))
    told = (task.criteria or {}).get("communicate_info") or []
    messages.append(text_message(" ".join(["It has been done.", *told])))
    return messages


def fallible_expert(task: Task, draw: Draw, noise: float, solo: bool = False) -> list[dict]:
    """`expert`, but with probability `noise` the first decision is another than the rules ask for.

    Who should act refuses or hands over, who should refuse hands over, who should hand over refuses: all in words and
    calls that are right elsewhere. Tasks of the benchmark and solo dialogues have no such place and stay as they are.
    """
    messages = expert(task, solo)
    if solo or task.script is None or not draw.chance(noise):
        return messages
    place, others = _decision(messages)
    return [*messages[:place], *draw.pick(others)]


def _decision(messages: list[dict]) -> tuple[int, list[list[dict]]]:
    """(where the first request is decided, what a mistaken expert would go on with)."""
    for place, message in enumerate(messages):
        if message["content"].startswith(NO_HELP):
            return place, [HAND_OVER]
        if any(call["function"]["name"] == TRANSFER_TOOL for call in message.get("tool_calls") or []):
            return place, [REFUSE]
        if CONFIRM_QUESTION in message["content"]:
            return place, [REFUSE, HAND_OVER]
    return len(messages) - 1, [REFUSE, HAND_OVER]
