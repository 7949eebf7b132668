"""Who talks to the agent: the scripted user's rules, a language model's user, and the choice between them."""

import pytest
from episode_samples import airline_task, write_airline

from lib.errors import UserError
from lib.grpo import Environment, load_tau2, make_task, user_factory
from lib.grpo.users.language import LanguageUser
from lib.grpo.users.parser import mentions, normalise, understand
from lib.grpo.users.scripted import ScriptedUser
from lib.grpo.users.ticket import nobody
from lib.grpo.users.turns import STOP


def user(**request):
    """A scripted user of one request (or the given `requests`), without a world."""
    brief = {
        "persona": request.pop("persona", "terse"),
        "known": {"user_id": "My user id is ada_1.", "email": "It is ada@example.com."},
        "requests": request.pop("requests", None) or [{"opening": "Cancel my trip.", "slots": {}, **request}],
    }
    return ScriptedUser(brief, None)


ASKED = [
    ("Could you please tell me your user id?", ("user_id",)),
    ("May I have your email address or your full name and zip code?", ("email", "name", "zip")),
    ("I'll need your reservation number and the reason for the cancellation.", ("reservation_id", "reason")),
    ("Which payment method would you like to use?", ("payment",)),
    ("What is your date of birth?", ("dob",)),
    ("I have cancelled order number 5 for that reason.", ()),
    ("I cannot cancel it: the reason is not covered.", ()),
    ("Please provide the new shipping address", ("address",)),
]


@pytest.mark.parametrize(("text", "names"), ASKED)
def test_what_is_asked(text, names):
    assert tuple(name for name in understand(text).asked if name in names or not names) == names


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("Shall I proceed?", "confirm"),
        ("Do you confirm (yes/no)?", "confirm"),
        ("I\u2019m unable to do that.", "denial"),
        ("Unfortunately our policy does not allow this.", "denial"),
        ("You are not eligible for compensation.", "denial"),
        ("YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON.", "transfer"),
        ("Your reservation has been cancelled.", "done"),
        ("I can't find that reservation.", ""),
        ("One moment, please.", ""),
    ],
)
def test_what_a_text_is(text, flags):
    heard = understand(text)
    assert {name for name in ("confirm", "denial", "transfer", "done") if getattr(heard, name)} == set(flags.split())


def test_numbers_and_ids_are_mentioned_whole():
    text = normalise("Order **#W123** costs $1,150.50 for Ada.")
    assert mentions(text, ["#W123", "1150.50", "ada"])
    for word in ("#W12", "150.50", "1150", "50"):
        assert not mentions(text, [word]), word


def test_tells_only_what_is_asked_and_known():
    someone = user(slots={"reason": "I am ill."})
    assert someone.open().text == "Cancel my trip."
    assert someone.respond("What is your user id?").text == "My user id is ada_1."
    assert someone.respond("And the reason?").text == "I am ill."
    assert someone.respond("What is your date of birth?").text == "I don't know that."


def test_says_yes_only_to_the_right_summary():
    someone = user(must=["AAA111", "economy"])
    assert "not what I asked for" in someone.respond("Shall I cancel BBB222 in economy?").text
    assert "not what I asked for" in someone.respond("Shall I cancel AAA1110 in economy?").text
    assert someone.respond("Shall I cancel AAA111 (Economy)?").text == "Yes, please go ahead."


def test_a_change_of_mind_comes_once():
    someone = user(must=["AAA111"], change={"say": "No, take BBB222.", "must": ["BBB222"]})
    assert someone.respond("Confirm AAA111?").text == "No, take BBB222."
    assert "not what I asked for" in someone.respond("Confirm AAA111?").text
    assert someone.respond("Confirm BBB222?").text == "Yes, please go ahead."


def test_insists_then_accepts_a_refusal():
    someone = user(insist=["But please!"])
    assert someone.respond("I cannot do that.") == user(insist=["But please!"]).respond("I cannot do that.")
    assert user(insist=["But please!"]).respond("I cannot do that.").text == "But please!"
    turn = someone.respond("I really cannot.")
    assert turn.end == "user_stop" and turn.text.endswith(STOP) and "pity" in turn.text


def test_one_request_after_the_other():
    someone = user(requests=[{"opening": "One."}, {"opening": "Two.", "inform": True}])
    assert someone.open().text == "One."
    turn = someone.respond("It has been done.")
    assert (turn.text, turn.end) == ("Two.", None)
    assert someone.respond("The answer is 42.").end == "user_stop"


def test_a_transfer_ends_it():
    assert user().respond("You are being transferred to a human agent.").end == "user_stop"


@pytest.mark.parametrize("text", ["", "Hm.", "What is your user id?", "Shall I book something?", "\ud800", "?" * 500])
def test_gives_up_on_an_agent_that_gets_nowhere(text):
    for persona in ("terse", "chatty", "impatient", "confused"):
        someone = user(persona=persona, must=["x1"])
        ends = [someone.respond(text).end for _ in range(6)]
        assert "gave_up" in ends, persona


def test_the_scripted_user_is_deterministic():
    for seed in range(5):
        task = make_task("airline", "upgrade", seed, 4)
        said = [[Environment().reset(task)[0][-1]["content"]] for _ in range(2)]
        assert said[0] == said[1]


def test_a_benchmark_task_has_a_scripted_user(tmp_path):
    task = load_tau2(write_airline(tmp_path)).tasks[0]
    environment = Environment()
    assert environment.reset(task)[0][-1]["content"] == "I want to cancel reservation AAA111."
    assert "ada_bauer_1" in environment.step("Your user id, please?")[0][0]["content"]
    assert "AAA111" in environment.step("What is the reservation id?")[0][0]["content"]
    assert "yes" in environment.step("Shall I cancel AAA111?")[0][0]["content"].lower()


def test_instructions_may_be_plain_text(tmp_path):
    row = airline_task()
    row["user_scenario"]["instructions"] = "You want a refund."
    environment = Environment()
    messages, _ = environment.reset(load_tau2(write_airline(tmp_path, [row])).tasks[0])
    assert messages[-1]["content"] == "I want a refund."


# Language models.


class Recorded:
    """A model that answers from a list and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def complete(self, messages, tools):
        self.asked.append(([dict(message) for message in messages], tools))
        return self.answers.pop(0)


def say(text):
    return {"role": "assistant", "content": text}


def test_a_language_model_plays_the_scenario(tmp_path):
    task = load_tau2(write_airline(tmp_path)).tasks[0]
    model = Recorded(say("Cancel AAA111, please."), say("Yes."), say(f"Thanks {STOP}"))
    environment = Environment(user_factory("openai", model.complete))
    messages, _ = environment.reset(task)
    assert messages[-1]["content"] == "Cancel AAA111, please."
    system = model.asked[0][0][0]["content"]
    assert "You want to cancel reservation AAA111." in system and "ada_bauer_1" in system and "phone" not in system
    assert environment.step("Shall I?") == ([{"role": "user", "content": "Yes."}], False)
    assert environment.step("It has been done.")[1] and environment.end == "user_stop"
    roles = [message["role"] for message in model.asked[-1][0]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"], "the agent is its user"


def test_its_calls_of_tools_that_it_does_not_hold_are_answered(tmp_path):
    task = load_tau2(write_airline(tmp_path)).tasks[0]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "toggle_data"}}]}
    model = Recorded(*[call] * 8)
    someone = LanguageUser(task, task.world(), model.complete)
    assert someone.open().text == "One moment, please.", "it never comes to words"
    assert "not found" in model.asked[-1][0][-1]["content"]


def test_the_choice_of_users():
    assert user_factory("none") is nobody
    with pytest.raises(UserError, match="--user"):
        user_factory("alien")
