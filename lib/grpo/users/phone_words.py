"""The words of instructions for the phone, as patterns on lower-case text: what `phone` reads them from."""

import re

ON, OFF = r"on|enabled?|activated?", r"off|disabled?|deactivated?"
# Earlier ones win where several begin at one place.
MARKS = {
    "tool": r"[a-z]+(?:_[a-z]+)+",
    "mine": r"(?:i|we)(?:'ll|'ve|'m|'d| will| have| can| could| am| shall| would| may| enabled| added| sent)\b"
    r"(?! (?:also )?(?:see|notice|think|like you|want you|need you|ask you|suggest|recommend))|let me\b(?! know)"
    r"|(?:shall|should|can|may) i\b|(?:want|like) me to\b",
    # Asks what the user wants: answered, not carried out.
    "wish": r"would you (?:like|prefer|want|be (?:willing|ready|happy))|do you (?:want|wish|prefer|agree)"
    r"|(?:shall|should) we|are you (?:willing|ready|happy|okay|ok|going)",
    "negated": r"(?:do not|don't|never|need not|needn't|no need|avoid|instead of)\b",
    "reboot": r"reboot|re-?start|power[- ]cycle|turn (?:your|the) (?:phone|device) off and (?:back )?on(?: again)?",
    "reseat": r"re-?seat|re-?insert|(?:take|remove|pull)(?: out)?(?: and \w+)?(?: the| your)? sim",
    "reset": r"reset(?:ting)?\b[^.?!,]{0,40}\bapn(?: settings)?|apn\b[^.?!,]{0,30}\breset|"
    r"(?:restore|set)\b[^.?!,]{0,30}\bapn\b[^.?!,]{0,20}\bdefaults?",
    "reset_it": r"reset(?:ting)? (?:it|them|these|those)\b",
    "pay": r"(?:make|complet|approv|accept|submit|go ahead with)\w*(?: the| your| this| a| that)? payment(?: request)?"
    r"|(?:approv|accept)\w* (?:the|this|that) request|pay(?:ing)? (?:the|your|this|that|it)\b",
    "pay_it": r"(?:approv|accept|complet|submit)(?:e|ing)? (?:it|that|this)\b",
    "speed": r"speed ?test|internet speed|how fast",
    "mms": r"send(?:ing)? (?:an? |any |some )?(?:test )?(?:mms|picture|photo|image)|(?:mms|picture messag\w+) works?",
    "grant": r"(?:grant|allow|give)(?:ing)?\b",
    "set_on": r"(?:turn|switch|toggle|put|set)(?:t?ing)?(?: back)? on\b|enabl(?:e|ing)\b|activat(?:e|ing)\b"
    r"|connect(?:ing)? (?:to )?(?:the |your )?(?=vpn)",
    "set_off": r"(?:turn|switch|toggle|put|set)(?:t?ing)?(?: back)? off\b|disabl(?:e|ing)\b|deactivat(?:e|ing)\b"
    r"|disconnect(?:ing)?(?: from)?\b",
    "adjust": r"(?:turn|switch|toggle|flip|put|set|keep|leave|change)(?:ing)?\b|make sure|ensure",
    "must_be": r"(?:should|must|needs? to|has to|have to) be\b",
    "check": r"check|look at|have a look|verify|confirm (?:that|if|whether)|tell me|let me know|view|open|show me"
    r"|(?<!i )(?<!can )see\b|what\b",
    "yours": r"(?:please|now|first|next|so|try|let's)\b|(?:can|could|would|will) you\b"
    r"|you (?:can|could|should|need|must|have|will|may)\b",
    "again": r"(?:and|then)(?: then)?(?: back)? (?:on|off)(?: again| and|(?=[.,;!)]|$))",
    "saver": r"(?:mobile )?data[- ]saver(?: mode)?|data restriction",
    "roaming": r"(?:mobile |international )?(?:data )?roaming(?: mode)?",
    "data": r"(?:mobile|cellular) (?:data|internet)(?! usage| plan)",
    "airplane": r"(?:air|aero)plane mode|flight mode",
    "calling": r"wi-?fi[- ]calling",
    "wifi": r"wi-?fi\b",
    "vpn": r"vpn\b",
    "mode": r"(?:preferred )?network (?:mode|type)(?: preference)?|network preference|preferred network",
    "network": r"network (?:status|connection)|cellular connection",
    "bar": r"status bar|signal\b",
    "sim": r"sim(?: card)?\b",
    "apn": r"apn(?: settings?)?\b|mmsc",
    "apps": r"installed apps",
    "permission": r"permissions?\b",
    "request": r"payment requests?",
    "it": r"it\b",
    "them": r"(?:them|both)\b",
    "off": rf"(?:{OFF})\b",
    "on": rf"(?:{ON})\b(?! (?:your|the|my|this|that|its|an?|it|all|line)\b)",
}
MARK = re.compile(r"\b(?:" + "|".join(f"(?P<{name}>{words})" for name, words in MARKS.items()) + r")|(?P<stop>[,;:])")
MODE = re.compile(r"(?P<both>4g_5g_preferred|4g ?[/&+-]? ?(?:and |or )?5g|5g)|(?P<only>[234]g)[ _]only")
MODE_TARGET = re.compile(rf"(?:\bto|\bas|=|\bmode|\buse|\bselect|\bchoose|\bprefer)[\s\"'(:]*(?:{MODE.pattern})")
MODE_VERB = re.compile(r"\b(?:set|chang|switch|select|choos|use|turn|mak|prefer)")
PERMISSIONS = re.compile(r"\b(sms|storage)\b|\b(phone|network)[\"']? permission|permission[\s\"':=]+(phone|network)\b")
PRONOUN = re.compile(r"\b(?:it|them|this|that|these|those|both)\b")
GRANT = re.compile(r"grant|allow|giv")
# "Would you like to pay the bill?" is no order to pay.
ASKS_WILL = re.compile(r"\b(?:like|want|willing|able|ready|prefer|do you|are you|confirm)\b")
