"""What an engine and an episode say to each other: token ids in, token ids out."""

import abc
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Protocol


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. `temperature` 0 takes the most probable one; `top_k` 0 and `top_p` 1 cut nothing off.

    `max_new_tokens` bounds a turn, `max_length` the whole conversation. `stop_ids` end a turn and belong to it.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 256
    max_length: int = 8192
    stop_ids: tuple[int, ...] = ()


class Conversation(abc.ABC):
    """One dialogue of model turns and answers; to be derived from.

    `shared` are the ids that many conversations begin with (policy and tools of a domain), `opening` those that follow
    and that the conversations of one group share; the first turn is sampled after both. `noise` is a 63-bit number:
    the random number at a position is a function of it and of the position alone, so that what is sampled depends
    neither on the slot nor on who else is being sampled.
    """

    shared: tuple[int, ...]
    opening: tuple[int, ...]
    noise: int

    @abc.abstractmethod
    def hear(self, ids: list[int], log_probs: list[float], stopped: bool) -> list[int] | None:
        """Takes a turn as sampled, its stop token included when `stopped`. Returns the ids that follow up to the next
        turn (a tool's result, what the user said, the header of the reply), or None when the dialogue is over."""

    def take(self, ids: list[int], log_probs: list[float], stopped: bool) -> Callable[[], object] | None:
        """`hear` in two parts, for engines with threads: what may be done in one of them to answer this turn, or None
        when the dialogue is over."""
        return partial(self.hear, ids, log_probs, stopped)

    def told(self, answer) -> list[int] | None:
        """What `hear` returns, from what that gave."""
        return answer

    @abc.abstractmethod
    def cut(self) -> None:
        """Called instead of the next turn when the conversation with the answer would outgrow `max_length`."""


class Engine(Protocol):
    """Plays conversations to their ends. `refresh` is called after the weights have changed."""

    def refresh(self) -> None: ...

    def play(self, conversations: list[Conversation], threads: Executor | None = None) -> dict:
        """Plays them all, in any order. With `threads` turns are answered there, several at a time, while others are
        sampled: the same tokens up to rounding, which depends on who is sampled together.

        Returns counts: `sampled_tokens`, `prefilled_tokens`, `decode_steps`, `busy_share` (sampled tokens over slots
        times decode steps), `seconds`.
        """
