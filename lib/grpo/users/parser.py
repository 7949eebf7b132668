"""What the agent's text wants from the user: deterministic rules on words, no model.

`understand` finds the details that are asked for, a request to confirm, a refusal, a transfer, a report that something
is done. One text may hold several; `scripted` decides which counts.
"""

import re
from dataclasses import dataclass

from lib.grpo.users.vocabulary import (
    ASKING,
    BULLET,
    CONDITION,
    CONFIRM,
    DENIAL,
    DONE,
    LOOKED,
    MONTHS,
    NAMED_DATE,
    NOT_FOUND,
    NUMBER,
    NUMBERED,
    NUMERIC,
    SENTENCE,
    SLOTS,
    TRANSFER,
    WAIT,
    YEARS,
)


@dataclass(frozen=True)
class Understood:
    """What a text holds.

    `asked` are names of `SLOT_WORDS`, in the order of the text; `waits`: the agent wants time, or tells of looking
    something up; `number`: it states one that is no part of an id or a date.
    """

    asked: tuple[str, ...]
    confirm: bool
    denial: bool
    transfer: bool
    done: bool
    waits: bool
    number: bool
    normal: str


def understand(text: str) -> Understood:
    """Read one message of the agent; case and curly quotes do not matter."""
    normal = normalise(text)
    parts = sentences(normal)
    return Understood(
        tuple(_asked(parts)),
        CONFIRM.search(normal) is not None,
        any(_denies(part) for part in parts),
        any("?" not in part and TRANSFER.search(part) for part in parts),
        any("?" not in part and DONE.search(LOOKED.sub(" ", part)) for part in parts),
        any(pattern.search(normal) for pattern in (WAIT, LOOKED, NOT_FOUND, CONDITION)),
        any("?" not in part and NUMBER.search(part) for part in parts),
        normal,
    )


def _asked(parts: list[str]) -> dict[str, None]:
    """Details that are asked for; the lines of a list are asked for when what introduces it asks."""
    asked: dict[str, None] = {}
    listing = False
    for part in parts:
        # "I cannot do that, the reason is not covered" asks for no reason.
        asks = ASKING.search(part) is not None and ("?" in part or not DENIAL.search(part) or CONDITION.search(part))
        if asks or (listing and BULLET.match(part)):
            places = [(match.start(), name) for name, word in SLOTS.items() if (match := word.search(part))]
            asked.update((name, None) for _, name in sorted(places))
            listing = True
        elif not BULLET.match(part):
            listing = False
    return asked


def _denies(part: str) -> bool:
    found = DENIAL.search(NOT_FOUND.sub(" ", part))
    return found is not None and "?" not in part and CONDITION.search(part) is None


def sentences(normal: str) -> list[str]:
    """Sentences of a normalised text, with their closing marks; a dot inside a number ends none."""
    # "1. Your user id" is one line of a list, not the sentence "1." and another.
    return [part for part in SENTENCE.findall(NUMBERED.sub("- ", normal)) if part.strip()]


def normalise(text: str) -> str:
    """Lower case, plain quotes, no thousands commas, single blanks (line ends stay)."""
    text = text.lower().replace("\u2019", "'").replace("`", "").replace("**", "")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    return re.sub(r"[ \t]+", " ", text)


def mentions(normal: str, words: list[str]) -> bool:
    """Whether a normalised text names all of `words`, each as a whole.

    A word may give alternatives ("change|move"), and one that ends in `*` is a beginning ("cancel*"). Numbers are
    compared by their value ("1.5gb" and "$1.50" name 1.5), dates in words name the date ("May 19, 2024").
    """
    numbers = {float(number) for number in NUMBER.findall(normal)}
    text = f"{normal} {' '.join(_named_dates(normal))}"
    return all(any(_names(text, numbers, choice) for choice in normalise(word).split("|")) for word in words)


def _names(text: str, numbers: set[float], word: str) -> bool:
    if NUMERIC.fullmatch(word):
        return float(word) in numbers
    end = "" if word.endswith("*") else r"(?!\w|\.\d)"
    return re.search(rf"(?<![\w.]){re.escape(word.rstrip('*'))}{end}", text) is not None


def _named_dates(normal: str) -> list[str]:
    """The dates that a text gives by the month's name, as YYYY-MM-DD."""
    found = []
    for first, day, other_day, second, year in NAMED_DATE.findall(normal):
        month = next(n for n, name in enumerate(MONTHS, 1) if name.startswith((first or second)[:3]))
        for number in (year,) if year else YEARS:
            found.append(f"{number}-{month:02d}-{int(day or other_day):02d}")
    return found
