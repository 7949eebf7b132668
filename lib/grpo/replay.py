"""Replaying the gold actions of tasks through the engine, as a check of data and engine."""

from lib.grpo.reward import Reward, score
from lib.grpo.task import Action, Task
from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.world import Call


def replay(task: Task, actions: tuple[Action, ...] | None = None) -> tuple[Reward, list[Call]]:
    """Carry out `actions` (default: the gold ones) in a fresh world and say what is to be communicated.

    The reward, and the calls with their outcomes; gold look-ups that are refused are part of some benchmark tasks.
    """
    world = task.world()
    actions = task.actions if actions is None else actions
    calls = [world.call(action.requestor, action.name, action.arguments) for action in actions]
    said = list((task.criteria or {}).get("communicate_info") or [])
    return score(task, world, said, "user_stop"), calls


def report_row(task: Task) -> dict:
    """What a replay report says of a task; one whose initial state cannot be applied has no reward, and the cause."""
    try:
        reward, calls = replay(task)
    except DataError as error:
        row = {"id": task.id, "domain": task.domain, "reward": 0.0, "checks": {}, "dropped": []}
        return {**row, "tool_errors": [f"initial state: {error}"]}
    return {
        "id": task.id,
        "domain": task.domain,
        "reward": reward.total,
        "checks": reward.breakdown,
        "dropped": list(reward.dropped),
        "tool_errors": [f"{call.name}: {call.text}" for call in calls if call.error],
    }
