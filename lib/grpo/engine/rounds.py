"""What engines share that play all conversations turn after turn."""

from concurrent.futures import Executor

from lib.grpo.engine.conversation import Conversation, Sampling
from lib.grpo.engine.sampling import turn_budget

# A conversation and the ids it holds so far.
Talk = tuple[Conversation, list[int]]
# Ids, log-probabilities, and whether a stop token ended them.
Turn = tuple[list[int], list[float], bool]


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


def answered(talks: list[Talk], turns: list[Turn], threads: Executor | None) -> list[Talk]:
    """The conversations that go on after these turns, with the answers."""
    works = [conversation.take(*turn) for (conversation, _), turn in zip(talks, turns, strict=True)]
    begin = threads.map if threads else map
    answers = iter(begin(lambda work: work(), [work for work in works if work is not None]))
    going = []
    for (conversation, ids), (new, _, _), work in zip(talks, turns, works, strict=True):
        after = None if work is None else conversation.told(next(answers))
        if after is not None:
            going.append((conversation, [*ids, *new, *after]))
    return going
