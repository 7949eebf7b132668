"""What agents write in their own words: the scripted user must hear it as it is meant."""

import time

import pytest

from lib.grpo.users.parser import mentions, normalise, understand
from lib.grpo.users.scripted import ScriptedUser

KNOWN = {"user_id": "My user id is ada_1.", "email": "It is ada@example.com."}


def someone(**request):
    slots = {
        "reservation_id": "It is AAA111.",
        "reason": "I am ill.",
        "date": "On 2024-05-19.",
        "payment": "With card_1.",
    }
    return ScriptedUser({"known": KNOWN, "requests": [{"opening": "Change my trip.", "slots": slots, **request}]}, None)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Sure! I just need your User ID.", {"user_id"}),
        ("Kindly provide your **user ID** so that I can help.", {"user_id"}),
        ("Please verify your email address.", {"email"}),
        ("Please reply with your user ID", {"user_id"}),
        ("Your user ID is required to continue.", {"user_id"}),
        ("Please confirm your user ID.", {"user_id"}),
        ("Can you share:\n- user ID\n- reservation ID\n- preferred new date?", {"user_id", "reservation_id", "date"}),
        ("Before we proceed, I need:\n1. Your user ID\n2. The reason for the cancellation", {"user_id", "reason"}),
        ("I\u2019d need your reservation number, and how would you like to pay?", {"reservation_id", "payment"}),
        ("I cannot continue until you tell me your user id.", {"user_id"}),
    ],
)
def test_questions_are_answered(text, asked):
    assert asked <= set(understand(text).asked)
    answer = someone(must=["zzz"]).respond(text)
    assert answer.end is None
    for name in asked:
        known = {**KNOWN, **someone().slots}
        assert known[name] in answer.text


@pytest.mark.parametrize(
    "text",
    [
        "Thank you, I have located your profile.",
        "I have pulled up reservation 6S4N6J. The new fare is 26 dollars higher.",
        "I have checked: flight HAT183 is available.",
        "Your profile has been found.",
        "Thank you! Let me look that up for you.",
        "One moment, please.",
        "I will check the flight's status now.",
        "I can't do anything before you tell me more.",
        "Note that this change cannot be undone.",
        "I was unable to locate that reservation.",
        "Would you like me to transfer you to a human agent?",
    ],
)
@pytest.mark.parametrize("inform", [False, True, "number"])
def test_work_in_progress_settles_nothing(text, inform):
    if inform == "number" and "fare" in text:
        text = "I have pulled up reservation 6S4N6J of 2024-05-19."
    assert someone(must=["AAA111"], inform=inform).respond(text).end is None


@pytest.mark.parametrize(
    "text",
    [
        "I have cancelled your reservation.",
        "Your reservation has been changed.",
        "The change has now been completed.",
        "All set!",
        "It was updated as you asked. Is there anything else I can help you with?",
        "I've successfully moved your flight.",
        "Done. 50 dollars will be refunded.",
    ],
)
def test_what_is_done_settles_it(text):
    assert someone(must=["AAA111"]).respond(text).end == "user_stop"


def test_an_answer_may_be_followed_by_an_offer():
    asker = someone(must=["AAA111"], inform="number")
    assert asker.respond("Just to be sure: 3 passengers?").end is None
    assert asker.respond("It costs $300. Would you like me to book it?").end == "user_stop"


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, basic economy tickets are non-changeable.",
        "This isn't permitted.",
        "This isn't possible under our rules.",
        "We don't allow changes of that kind.",
        "You are not entitled to a compensation.",
        "Only silver and gold members are eligible for that.",
        "The order can no longer be changed.",
        "Changes aren't allowed in basic economy.",
        "That is prohibited.",
        "I'm not authorized to do that.",
        "I don't have the ability to add insurance.",
        "I must decline this request.",
        "Unfortunately, I am not able to cancel it.",
        "Refunds are not possible for regular members without insurance.",
    ],
)
def test_refusals_are_understood(text):
    assert understand(text).denial
    turn = someone().respond(text)
    assert turn.end == "user_stop" and "pity" in turn.text


@pytest.mark.parametrize(
    "text",
    ["Unfortunately.", "I'm afraid you are being transferred to a human agent.", "Can't you wait?", "No problem!"],
)
def test_what_sounds_like_a_refusal_is_none(text):
    assert not understand(text).denial


@pytest.mark.parametrize(
    "ending",
    [
        "Sound good?", "Is that alright?", "Would you like to make this change?", "Ready to change it?", "Correct?",
        "Does that work for you?", "Please type 'yes' to continue.", "Shall we?", "Do you confirm (yes/no)?",
        "I need your approval.", "OK?", "Would you like me to go ahead?",
    ],
)  # fmt: skip
def test_confirmations_are_heard_as_such(ending):
    summary = "I will change the flight of AAA111 to May 19, 2024 for $1,150.50. "
    must = ["AAA111", "2024-05-19", "1150.5", "change*|move*"]
    assert someone(must=must).respond(summary + ending).text == "Yes, please go ahead."
    wrong = summary.replace("May 19", "May 20")
    assert "not what I asked for" in someone(must=must).respond(wrong + ending).text


@pytest.mark.parametrize(
    ("words", "text", "there"),
    [
        (["cancel*"], "I am cancelling it", True),
        (["cancel*"], "I am changing it", False),
        (["change|move*"], "We moved it", True),
        (["change|move*"], "We changed it", False),
        (["1.5"], "Add 1.5GB for $3.", True),
        (["1.5"], "Add 11.5 GB", False),
        (["26"], "It costs 26.00 dollars", True),
        (["26"], "Order #W26 of 2024-05-26 at 26:00", False),
        (["2024-05-19"], "on 19th of May", True),
        (["2024-05-19"], "on May 19th, 2024", True),
        (["2024-05-19"], "on May 19, 2025", False),
        (["2025-05-19"], "on Sep 19", False),
        (["gift_card_12"], "with gift_card_123", False),
        (["Ada Bauer"], "for ada bauer.", True),
    ],
)
def test_what_a_text_names(words, text, there):
    assert mentions(normalise(text), words) is there


def test_after_a_change_of_mind_the_new_detail_is_told():
    change = {"say": "No, 2024-05-20 is better.", "must": ["2024-05-20"], "slots": {"date": "On 2024-05-20."}}
    user = someone(must=["2024-05-19"], change=change)
    assert user.respond("Which date would you like?").text == "On 2024-05-19."
    assert user.respond("Shall I take 2024-05-19?").text == "No, 2024-05-20 is better."
    assert "2024-05-20" in user.respond("Which date would you like?").text
    assert user.respond("Shall I take 2024-05-20?").text == "Yes, please go ahead."


@pytest.mark.parametrize(
    "piece", ["which ", "?", ".", "a", "1,", "<tool_call>", "please provide ", "may 1 ", "i have ", "- id\n"]
)
def test_long_texts_are_read_quickly(piece):
    """20,000 characters, the longest message that is let through."""
    text = piece * (20_000 // len(piece))
    start = time.perf_counter()
    mentions(normalise(text), ["AAA111", "cancel*", "12"])
    understand(text)
    assert time.perf_counter() - start < 1.0
