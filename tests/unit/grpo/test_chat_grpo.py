"""scripts/chat_grpo.py: a person as the customer, what they see, and how it ends."""

import io
import json
import sys
from pathlib import Path

import pytest
import script_modules
from policy_samples import write_export

from lib import launch
from lib.args import parse
from lib.errors import UserError
from lib.grpo.customer import LEFT, ShownEnvironment, closing_text, opening_text
from lib.grpo.demonstrations import HAND_OVER, expert
from lib.grpo.environment import Environment, Limits
from lib.grpo.generation.generate import make_task, task_of_seed
from lib.grpo.messages import call_message, text_message

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = script_modules.load("chat_grpo")


class Person:
    """Lines to be typed, and what was shown."""

    def __init__(self, *lines: str):
        self.lines, self.shown = list(lines), []

    def read(self) -> str | None:
        return self.lines.pop(0) if self.lines else None

    def environment(self, task, **limits) -> ShownEnvironment:
        found = ShownEnvironment(self.read, self.shown.append, Limits(**limits))
        found.reset(task)
        return found

    @property
    def text(self) -> str:
        return "\n".join(self.shown)


def test_who_says_what_the_scripted_user_says_earns_what_it_earns():
    """The same dialogue, once with the scripted user and once with a person who types its lines."""
    task = make_task("retail", "cancel_order", 7, 1)
    scripted = Environment()
    scripted.reset(task)
    for message in expert(task):
        scripted.step(message)
    said = [message["content"] for message in scripted.messages if message["role"] == "user"]
    assert said[-1] == "###STOP###" or "###STOP###" in said[-1]
    person = Person(*said)
    environment = person.environment(task)
    for message in expert(task):
        environment.step(message)
    assert environment.end == "user_stop" and environment.reward().total == scripted.reward().total == 1.0
    assert environment.messages == scripted.messages
    assert "agent: cancel_pending_order(" in person.text and "tool:  " in person.text
    closing = closing_text(environment)
    assert "status" in closing and '"cancelled"' in closing and "reward 1" in closing and "[x] DB" in closing


@pytest.mark.parametrize("lines", [("hello", "/quit"), ("hello",)])
def test_leaving_earns_nothing(lines):
    person = Person(*lines)
    environment = person.environment(task_of_seed("retail", 3, 1))
    assert environment.end is None
    _, done = environment.step(text_message("Who are you?"))
    assert done and environment.end == LEFT and environment.reward().total == 0.0
    assert "agent: Who are you?" in person.text and "ended early: left" in closing_text(environment)


def test_leaving_at_once():
    assert Person("/quit").environment(task_of_seed("retail", 3, 1)).end == LEFT


def test_the_agent_hands_over():
    person = Person("hello", "please")
    environment = person.environment(task_of_seed("retail", 3, 1))
    for message in HAND_OVER:
        _, done = environment.step(message)
    assert done and environment.end == "user_stop" and "handed you over" in person.text
    assert person.lines == ["please"], "nothing more was asked for"


def test_a_refused_call_and_a_message_that_is_none_are_shown():
    person = Person("hello")
    environment = person.environment(task_of_seed("retail", 3, 1))
    environment.step("<tool_call>nonsense</tool_call>")
    environment.step(call_message("get_order_details", {"order_id": "#W0"}))
    environment.step("x" * 30_000)
    assert "malformed tool call" in person.text and "get_order_details(order_id='#W0')" in person.text
    assert "Error: message too long" in person.text


def test_empty_lines_commands_and_the_phone():
    task = task_of_seed("telecom", 3, 1)
    person = Person("", "  ", "/help", "/phone", "/phone toggle_airplane_mode", "/phone no_such", "/phone x {", "hello")
    environment = person.environment(task)
    assert environment.messages[-1] == {"role": "user", "content": "hello"}
    assert "You are the customer" in person.text and "reboot_device(): " in person.text
    assert "Error: Tool 'no_such' not found" in person.text and "{ is no JSON" in person.text
    assert [call.name for call in environment.world.calls] == ["toggle_airplane_mode", "no_such"]
    assert "user device" in closing_text(environment) or "airplane" in closing_text(environment)
    without = Person("/phone", "hello")
    without.environment(task_of_seed("retail", 3, 1))
    assert "no phone" in without.text


def test_the_scenario_is_told():
    text = opening_text(make_task("retail", "cancel_order", 7, 1))
    assert text.startswith("# you\ntask retail/") and "known_info: " in text and "/quit" in text


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    return write_export(tmp_path_factory.mktemp("model"))


def talk(monkeypatch, capsys, lines: str, *flags) -> str:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    SCRIPT.main(parse(SCRIPT.Config, [str(flag) for flag in flags]))
    return capsys.readouterr().out


def test_a_conversation_through_a_pipe(export, monkeypatch, capsys, tmp_path):
    flags = ["--model", export, "--domain", "airline", "--template", "cancel_sick", "--seed", 1_000_003, "--level", 1]
    flags += ["--max_new_tokens", 10, "--max_turns", 4, "--html", tmp_path / "talk.html"]
    lines = "hello there\nmy id is x\n\nyes\nplease go on\nand on\n"
    text = talk(monkeypatch, capsys, lines, *flags)
    places = [
        text.index(part) for part in ("# you", "you: hello there", "agent: ", "# changes of the database", "# reward")
    ]
    assert places == sorted(places)
    assert "template cancel_sick, seed 1000003, level 1" in text and "The conversation ended: max_turns." in text
    assert "reward 0" in text and "hello there" in (tmp_path / "talk.html").read_text()
    assert talk(monkeypatch, capsys, lines, *flags) == text, "the same lines, the same conversation"
    other = talk(monkeypatch, capsys, "###STOP###\n", *flags[:-2])
    assert "The conversation ended: user_stop." in other and "agent: " not in other
    assert "The conversation ended: left." in talk(monkeypatch, capsys, "", *flags[:-2])


def test_refusals(export, monkeypatch, capsys, tmp_path):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "config.json").write_text(json.dumps({}))
    for flags, expected in (
        (["--model", tmp_path], "is a run: its model is"),
        (["--model", export, "--template", "no_such"], "retail has no template 'no_such'"),
        (["--model", export, "--device", "toaster"], "--device toaster"),
    ):
        with pytest.raises(SystemExit) as left:
            launch.run(SCRIPT.main, SCRIPT.Config, argv=[str(flag) for flag in flags])
        error = capsys.readouterr().err.strip()
        assert left.value.code == 2 and expected in error and len(error.splitlines()) == 1, error
    with pytest.raises(UserError, match="--level"):
        parse(SCRIPT.Config, ["--model", "x", "--level", "5"])
