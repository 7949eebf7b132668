"""What a template writes: one wish of a user, the rules' answer to it, and the steps of an agent that knows them."""

from dataclasses import dataclass, field

# What the rules say to a wish.
ACT, DENY, TRANSFER = "act", "deny", "transfer"
TRANSFER_TEXT = "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."
# What a question names that offers a human agent, for `must`.
HUMAN = "human*|transfer*|representative*|colleague*|specialist*|supervisor*"


def or_human(must: list[str]) -> list[str]:
    """The `must` of a wish that only a human may fulfil: who wishes it agrees to it and to being handed over."""
    return [f"{word}|{HUMAN}" for word in must] or [HUMAN]


@dataclass(frozen=True)
class Step:
    """One step of the expert: "ask" (a detail), "look" (look up), "confirm" (a summary to say yes to), "write", "say".

    `text` is what is said or the name of the detail or tool; a "phone" step is said, and `user_calls` is what the user
    then does, as (tool, arguments).
    """

    kind: str
    text: str
    arguments: dict = field(default_factory=dict)
    user_calls: tuple[tuple[str, dict], ...] = ()


def ask(detail: str) -> Step:
    return Step("ask", detail)


def look(tool: str, **arguments) -> Step:
    return Step("look", tool, arguments)


def confirm(summary: str) -> Step:
    return Step("confirm", summary)


def write(tool: str, **arguments) -> Step:
    return Step("write", tool, arguments)


def say(text: str) -> Step:
    return Step("say", text)


def phone(text: str, *user_calls: tuple[str, dict]) -> Step:
    return Step("phone", text, user_calls=user_calls)


@dataclass
class Request:
    """One wish.

    `opening` states it in the user's words, without details. `details` is detail -> sentence: told at level 0 with the
    opening, else when asked. `steps` lead to the outcome; for ACT they end with a "say" that answers, for DENY with the
    "say" that refuses, for TRANSFER they stop before the transfer. `must` is what a summary has to name before the user
    agrees: ids, values, and the action itself, as in "cancel*" (see `parser.mentions`). `communicate` are texts that
    some message has to hold. `second_thought`: the user changes its mind at the first summary: (sentence, must, steps
    that follow), and `second_details` replaces details then. `goal` and `assertions`: what must work on the phone.
    `start`: initialization actions of the world. `summary` says for the transfer what it is about.
    """

    opening: str
    outcome: str
    steps: list[Step]
    details: dict[str, str] = field(default_factory=dict)
    must: list[str] = field(default_factory=list)
    communicate: list[str] = field(default_factory=list)
    insist: list[str] = field(default_factory=list)
    inform: bool = False
    second_thought: tuple[str, list[str], list[Step]] | None = None
    second_details: dict[str, str] = field(default_factory=dict)
    goal: str | None = None
    assertions: list[dict] = field(default_factory=list)
    start: list[dict] = field(default_factory=list)
    summary: str = ""
