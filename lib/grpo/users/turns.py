"""What every user shares: the turn it takes, the stop words, and the interface."""

from dataclasses import dataclass
from typing import Protocol

STOP, TRANSFER, OUT_OF_SCOPE = "###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"
# How the agent answers the call.
GREETING = "Hi! How can I help you today?"
STOPS = (STOP, TRANSFER, OUT_OF_SCOPE)


@dataclass(frozen=True)
class Turn:
    """What the user says; `end` is None while it wants to go on, else why it leaves.

    "user_stop": content or denied, it has its answer; "gave_up": the agent did not get anywhere, which is a failure.
    """

    text: str
    end: str | None = None


class User(Protocol):
    """One conversation's user. It may use the phone of its world through `World.call("user", ...)`."""

    def open(self) -> Turn:
        """The first message."""

    def respond(self, text: str) -> Turn:
        """The answer to what the agent said."""


def end_of(text: str) -> str | None:
    """Whether a message of a language model ends the conversation."""
    return "user_stop" if any(stop in text for stop in STOPS) else None
