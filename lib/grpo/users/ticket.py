"""No user: the agent works alone from a ticket, and holds the user's tools too."""

from lib.grpo.task import Task
from lib.grpo.worlds.world import World


def nobody(task: Task, world: World) -> None:
    """The user of an environment without one."""
    return None


def text_of(task: Task) -> str:
    """The task's own ticket; without one, what the user would have told."""
    if task.data.get("ticket"):
        return task.data["ticket"]
    told = task.instructions
    parts = [told.get(name) for name in ("reason_for_call", "known_info", "unknown_info", "task_instructions")]
    return "\n".join(part.strip() for part in parts if part)
