"""The words by which the scripted user understands an agent, as patterns on lower-case text."""

import re

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
    "|".join(
        (
            r"\?",
            r"please (?:also )?(?:provide|share|tell|give|send|specify|state|enter|let|verify|reply with)",
            r"please confirm (?:your|the)",
            r"kindly|could you|can you|may i|might i|let me know|tell me|provide me",
            r"i(?:'ll| will| would|'d)?(?: just| also)? need|need your|(?:is|are) required",
            r"^\W*(?:what|which)\b",
            r"to (?:proceed|continue|help you)[^.]*:",
        )
    )
)
BULLET = re.compile(r"^\s*(?:[-*\u2022]|\d+[.)])\s*")
CONFIRM = re.compile(
    "|".join(
        (
            r"\bconfirm|proceed|go ahead|\b(?:shall|should|may) (?:i|we)\b",
            r"do you (?:want|wish|agree|accept|approve)|would you like (?:me )?to|want me to|ready to",
            r"sounds? good|(?:does|would) (?:that|this) work|happy with",
            r"\b(?:correct|right|ok|okay|alright|all right|fine)\?",
            r"is (?:that|this|everything|it) (?:correct|right|ok|okay|fine|alright)",
            r"(?:say|reply|type|answer|with) \W?yes|\(yes|yes/no|yes or no",
            r"your (?:approval|permission|consent|go-ahead)",
        )
    )
)
DENIAL = re.compile(
    "|".join(
        (
            r"\b(?:can ?not|can't|cant|unable|impossible|ineligible|prohibited|denied|declined)\b",
            r"\bnon-?(?:changeable|refundable|transferable)\b",
            r"(?:\bnot|n't|\bnever|\bno longer)(?: \w+)? (?:able|possible|allow(?:ed)?|permit(?:ted)?|eligible)\b",
            r"(?:\bnot|n't|\bnever|\bno longer)(?: \w+)? (?:entitled|authori[sz]ed|covered|offer|qualify)\b",
            r"(?:\bnot|n't|\bno longer)(?: \w+)? be (?:changed|cancelled|refunded|returned|exchanged|modified|done)\b",
            r"against (?:our|the|company) policy|policy (?:does not|doesn't|forbids|prohibits)",
            r"\bonly (?:\w+ ){1,6}(?:are|is) (?:eligible|allowed|entitled)\b",
            r"\b(?:ha(?:ve|s) to|must|i) (?:deny|decline|refuse)\b",
            r"(?:don't|do not) have the (?:ability|authority|option)|not something (?:i|we) can",
        )
    )
)
# "I cannot go on until you tell me ..." refuses nothing, and "this cannot be undone" neither.
CONDITION = re.compile(
    r"\b(?:(?:before|until|unless|without|once) (?:you|your|i|knowing)|undone|reversed|if you (?:do|don't))\b"
)
# "I cannot find your order" is no refusal.
NOT_FOUND = re.compile(r"(?:can ?not|can't|unable to|not able to) (?:find|locate|see|look up|access|verify|identify)")
TRANSFER = re.compile(
    r"being transferred|transferring you|(?:am|are|will be) transferr(?:ing|ed)|transferred (?:you )?to|"
    r"connect(?:ing|ed) you (?:to|with) a human"
)
# Looking something up settles nothing: "I have located your profile".
LOOKED = re.compile(
    r"\b(?:i(?:'ve| have)|has been|have been|was|were) (?:now |just |already |successfully )*"
    r"(?:located|found|looked|checked|pulled|retrieved|reviewed|verified|identified|seen|got|noted|received|confirmed)\b"
)
DONE = re.compile(
    "|".join(
        (
            r"\b(?:has|have) (?:now |just |already )*been\b|successfully|\bdone\b|\bcompleted?\b|all set",
            r"\bi(?:'ve| have) (?:\w+ )?\w+(?:ed|sent|made)\b",
            r"\b(?:is|are) now\b|will be refunded",
            r"\b(?:was|were) (?:cancelled|updated|changed|booked|sent|added)",
        )
    )
)
WAIT = re.compile(
    r"let me (?!know)|(?:one|just a) moment|hold on|please wait|bear with me|looking (?:it|that|this|into)|"
    r"i(?:'ll| will| am going to)(?: now)? (?:check|look|pull|search|find|review|verify)"
)
NUMBERED = re.compile(r"(?m)^[ \t]*\d+[.)][ \t]+")
NUMERIC = re.compile(r"\d+(?:\.\d+)?")
# A number by itself or with its unit, but no part of an id, a date or a time.
NUMBER = re.compile(r"(?<![\w.#:-])\d+(?:\.\d+)?(?=gb|mb|%|x\b|[^\w:-]|-(?!\d)|$)")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS)
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
NAMED_DATE = re.compile(rf"\b(?:({_MONTH})\.? {_DAY}|{_DAY}(?: of)? ({_MONTH}))\b(?:,? (\d{{4}}))?")
# Years of the domains' clocks, for dates without one.
YEARS = ("2024", "2025")
SLOTS = {name: re.compile(pattern) for name, pattern in SLOT_WORDS.items()}
SENTENCE = re.compile(r"[^.?!\n]*(?:\.(?=\S)[^.?!\n]*)*[.?!\n]*")
