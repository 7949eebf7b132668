"""What an expert says and calls in a task: demonstrations for a warm start, and the proof that a task can be solved."""

from lib.grpo.messages import call_message, text_message
from lib.grpo.task import Task
from lib.grpo.worlds.world import USER


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
