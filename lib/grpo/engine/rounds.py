"""What engines share that play all conversations turn after turn."""

from lib.grpo.engine.conversation import Conversation, Sampling
from lib.grpo.engine.sampling import turn_budget

# A conversation and the ids it holds so far.
Talk = tuple[Conversation, list[int]]


def begun(conversations: list[Conversation]) -> list[Talk]:
    """The conversations with their prompts, for an engine that plays turn after turn."""
    return [(conversation, [*conversation.shared, *conversation.opening]) for conversation in conversations]


def with_room(talks: list[Talk], sampling: Sampling) -> list[Talk]:
    """Those that have room for another turn; the others are cut."""
    fitting = []
    for conversation, ids in talks:
        if turn_budget(len(ids), sampling):
            fitting.append((conversation, ids))
        else:
            conversation.cut()
    return fitting
