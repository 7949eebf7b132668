"""What the agent's text wants from the user: deterministic rules on words, no model.

`understand` finds the details that are asked for, a request to confirm, a refusal, a transfer, a report that something
is done. One text may hold several; `scripted` decides which counts.
"""

import re
from dataclasses import dataclass

# What a detail is called when it is asked for.
SLOT_WORDS = {
    "user_id": r"user[ _-]?id|customer[ _-]?id|account (?:id|number)|username",
    "email": r"e-?mail",
    "name": r"(?:full|first|last|your) names?|name and zip|name, ",
    "zip": r"\bzip|postal code",
    "phone": r"phone number|(?:your|contact|affected) number|number (?:of|for) (?:the|your) line",
    "dob": r"date of birth|birth ?date|\bdob\b",
    "reservation_id": r"(?:reservation|booking|confirmation)(?:'s)?[ _](?:id|number|code|reference)"
    r"|which (?:reservation|booking|trip)",
    "order_id": r"order(?:'s)?[ _](?:id|number)|which order|number of (?:the|your) order",
    "reason": r"\breasons?\b|\bwhy\b",
    "payment": r"payment method|method of payment|which card|pay (?:for|with|by)|like to pay|payment id"
    r"|refund(?:ed)? (?:to|method)|how .{0,20}\bpay\b",
    "date": r"(?:new|which|what|travel|departure|preferred) dates?|when (?:would|do) you|\bdate\b(?! of birth)",
    "flight": r"which flight|flight number|what flight|preferred flight",
    "route": r"where .{0,30}(?:fly|travel|from|to)\b|origin|destination|from where",
    "passengers": r"passenger|who (?:will|is going to) (?:fly|travel)|travell?er",
    "bags": r"\bbags?\b|baggage|luggage|suitcase",
    "cabin": r"\bcabin\b|which class|travel class",
    "insurance": r"insurance",
    "items": r"which items?|what items?|which products?|item (?:id|name)s?|items? (?:do|would) you",
    "new_items": r"new items?|which (?:option|variant|version)|what .{0,30}instead|replace(?:ment)?"
    r"|exchange .{0,20}for|like to (?:receive|get)",
    "address": r"(?<!mail )address",
    "amount": r"how (?:much|many)|amount|gigabytes|\bgb\b",
    "line": r"which (?:line|number|device)|line id|(?:affected|other|that) line|line(?:'s)? number",
    "bill": r"which (?:bill|month)|bill(?:'s)? (?:id|number)|(?:id|number) of the bill",
    "duration": r"how long|how many months|until when",
    "location": r"abroad|travell?ing|where are you|location|roam",
    "issue": r"what (?:is|seems to be) the (?:problem|issue)|describe|more (?:details|information)"
    r"|how (?:can|may) i help",
}
ASKING = re.compile(
    r"\?|please (?:provide|share|tell|give|send|specify|state|enter|let)|could you|can you|may i|might i|"
    r"i(?:'ll| will| would)? need|let me know|^\W*(?:what|which)\b|tell me|provide me"
)
CONFIRM = re.compile(
    r"\bconfirm|proceed|go ahead|shall i|should i|do you want me to|would you like me to|do you agree|"
    r"is (?:that|this|everything) (?:correct|right|ok|okay|fine)|\(yes|say yes|reply yes|yes/no|yes or no"
)
DENIAL = re.compile(
    r"\b(?:can ?not|can't|cant|unable|not able|won't be able|not possible|impossible|not allowed|not permitted|"
    r"not eligible|ineligible|isn't eligible|aren't eligible|does not qualify|doesn't qualify|not qualify|"
    r"against (?:our|the|company) policy|policy (?:does not|doesn't|forbids|prohibits)|den(?:y|ied)|declined?|refuse|"
    r"i(?:'m| am) afraid|unfortunately|not something (?:i|we) can)\b"
)
# "I cannot find your order" is no refusal.
NOT_FOUND = re.compile(r"(?:can ?not|can't|unable to|not able to) (?:find|locate|see|look up|access|verify|identify)")
TRANSFER = re.compile(
    r"being transferred|transferr?(?:ing|ed)? you|transferred to a human|connect you (?:to|with) a human"
)
DONE = re.compile(
    r"\b(?:has|have) (?:now )?been\b|\bis now\b|\bare now\b|successful|\bdone\b|complet|\bi(?:'ve| have) |"
    r"\bwas (?:cancelled|updated|changed|booked|sent|added)|will be refunded|all set"
)
NUMERIC = re.compile(r"\d+(?:\.\d+)?")
SLOTS = {name: re.compile(pattern) for name, pattern in SLOT_WORDS.items()}
SENTENCE = re.compile(r"[^.?!\n]*(?:\.(?=\S)[^.?!\n]*)*[.?!\n]*")


@dataclass(frozen=True)
class Understood:
    """What a text holds. `asked` are names of `SLOT_WORDS`, in the order of the text."""

    asked: tuple[str, ...]
    confirm: bool
    denial: bool
    transfer: bool
    done: bool
    normal: str


def understand(text: str) -> Understood:
    """Read one message of the agent; case and curly quotes do not matter."""
    normal = normalise(text)
    asked: dict[str, None] = {}
    for sentence in sentences(normal):
        # "I cannot do that, the reason is not covered" asks for no reason.
        if ASKING.search(sentence) and ("?" in sentence or not DENIAL.search(sentence)):
            places = [(match.start(), name) for name, word in SLOTS.items() if (match := word.search(sentence))]
            asked.update((name, None) for _, name in sorted(places))
    return Understood(
        tuple(asked),
        bool(CONFIRM.search(normal)),
        bool(DENIAL.search(NOT_FOUND.sub(" ", normal))),
        bool(TRANSFER.search(normal)),
        bool(DONE.search(normal)),
        normal,
    )


def sentences(normal: str) -> list[str]:
    """Sentences of a normalised text, with their closing marks; a dot inside a number ends none."""
    return [part for part in SENTENCE.findall(normal) if part.strip()]


def normalise(text: str) -> str:
    """Lower case, plain quotes, no thousands commas, single blanks (line ends stay)."""
    text = text.lower().replace("\u2019", "'").replace("`", "").replace("**", "")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    return re.sub(r"[ \t]+", " ", text)


def mentions(normal: str, words: list[str]) -> bool:
    """Whether a normalised text names all of `words`, each as a whole; "1.5gb" names 1.5."""
    for word in map(normalise, words):
        end = r"(?!\d|\.\d)" if NUMERIC.fullmatch(word) else r"(?!\w|\.\d)"
        if re.search(rf"(?<![\w.]){re.escape(word)}{end}", normal) is None:
            return False
    return True
