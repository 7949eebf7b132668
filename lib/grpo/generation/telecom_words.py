"""What a summary has to name before a telecom user says yes: words with synonyms, as `parser.mentions` reads them.

Only what the user knows: the action, the line, amounts it gave, that there is a price, but not which.
"""

from lib.grpo.generation.telecom_world import MONTHS

# Two words, so that "disable roaming on line 1" is not taken for "turn roaming on".
ENABLE = (
    "enabl*|activat*|reactivat*|allow*|start*|add*|turn*|switch*|set*|put*",
    "enabl*|activat*|reactivat*|allow*|start*|add*|on",
)
DISABLE = (
    "disabl*|deactivat*|stop*|block*|remov*|cancel*|turn*|switch*|set*|put*",
    "disabl*|deactivat*|stop*|block*|remov*|cancel*|off",
)
ROAMING = "roam*"
REFUEL = "refuel*|add*|top*|increas*|buy*|purchas*|boost*|extra|more|put*|recharg*|load*|credit*|provid*|give*"
SUSPEND = "suspen*|hold|paus*|freez*|frozen|deactivat*|block*|stop*|inactiv*"
RESUME = "resum*|reactivat*|activ*|restor*|unsuspend*|unpaus*|unfreez*|lift*|back|unblock*"
PAY = "pay*|paid|settl*|request*"
CHANGE_PLAN = "plan|plans|tariff*"
LESS = "discount*|reduc*|lower*|remov*|credit*|refund*|waiv*|cheaper|take off|taken off|adjust*"
PRICE = "dollar*|$*|us$*|usd|price*|cost*|charg*|fee*|total*|amount*|free"
# What somebody who only asks lets the agent do; "add" and the like are none of it.
LOOK_UP = "check*|look*|find*|tell*|show*|calculat*|sum|add up|adding up|want to know|like to know|asking"
# Whose phone is in trouble lets the agent begin.
GUIDE = "guid*|walk you*|walk through|go through|troubleshoot*|step by step|get started"
HUMAN = "human*|transfer*|person|representative*|specialist*|colleague*|agent*"
WITHOUT_PAYMENT = "without pay*|without any pay*|without the pay*|without having to pay|without your pay*|no payment"
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
PARTS = {0.5: ("half",), 1.5: ("one and a half",)}


def line_words(line: dict, device: str = "") -> str:
    """A line by its number, which agents write in many ways, its id, or the device that the user knows it by."""
    number = line["phone_number"]
    names = [f"your {device}", f"the {device}", f"{device} line"] if device else []
    return "|".join([f"{number[-4:]}*", number.replace("-", ""), line["line_id"], *names])


def gigabyte_words(amount: float) -> str:
    """An amount of data. A whole number needs its unit: the price may be the same one."""
    words = [f"{amount * size:g}{blank}mb" for size in (1000, 1024) for blank in ("", " ")]
    if amount == int(amount):
        return "|".join([*_with_unit(int(amount), "gb"), *_with_unit(int(amount), "gig*"), f"{amount:.1f} gb", *words])
    return "|".join([f"{amount:g}", *PARTS.get(amount, ()), *words])


def month_words(months: int) -> str:
    return "|".join(_with_unit(months, "month*"))


def bill_words(bill: dict) -> str:
    """A bill by its id or its month: users know one of them."""
    month = next(name for name, (start, *_) in MONTHS.items() if start == bill["period_start"])
    return f"{bill['bill_id']}|{month[:3]}*|{bill['period_start'][:7]}*"


def refuel_words(gigabytes: float, line: str) -> list[str]:
    """More data, in words: for `line` see `line_words`."""
    return [REFUEL, gigabyte_words(gigabytes), line, PRICE]


def also(words: tuple[str, ...] | list[str], other: str) -> list[str]:
    """The words, or instead of all of them `other`."""
    return [f"{word}|{other}" for word in words] or [other]


def _with_unit(number: int, unit: str) -> list[str]:
    """Ways to write it: "3 months", "3-month", "3months", "three (3) months", "three months"."""
    word = NUMBERS[number - 1]
    return [f"{number} {unit}", f"{number}-{unit}", f"{number}{unit}", f"{number}) {unit}", f"{word} {unit}"]
