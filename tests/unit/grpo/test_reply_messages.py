"""Reading what an assistant writes: text, calls in both forms, and everything that is neither."""

import json

import pytest

from lib.grpo.messages import MOST_CALLS, MOST_CHARACTERS, call_message, read_reply


def test_text_and_calls_of_a_dict():
    reply = read_reply({"role": "assistant", "content": "Hello", "tool_calls": None})
    assert (reply.text, reply.calls, reply.problem) == ("Hello", (), None)
    message = call_message("get_user_details", {"user_id": "x"}, id="abc")
    assert [(c.id, c.name, c.arguments, c.problem) for c in read_reply(message).calls] == [
        ("abc", "get_user_details", {"user_id": "x"}, None)
    ]


def test_arguments_may_be_json_text_or_absent():
    call = {"function": {"name": "f", "arguments": '{"a": [1, {"b": "}\\""}]}'}}
    assert read_reply({"content": None, "tool_calls": [call]}).calls[0].arguments == {"a": [1, {"b": '}"'}]}
    for arguments in ("", "{}"):
        call = {"function": {"name": "f", "arguments": arguments}}
        assert read_reply({"tool_calls": [call]}).calls[0].arguments == {}
    assert read_reply({"tool_calls": [{"name": "f"}]}).calls[0].arguments == {}


def test_hermes_calls_in_text():
    first = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    reply = read_reply(f'Let me see.\n{first}\n<tool_call>{{"name": "g"}}</tool_call>', first_id=3)
    assert reply.text == "Let me see."
    assert [(c.id, c.name, c.arguments) for c in reply.calls] == [("call_3", "f", {"x": 1}), ("call_4", "g", {})]


def test_thoughts_are_neither_text_nor_calls():
    text = '<think>I could <tool_call>{"name": "f"}</tool_call></think>Hello'
    assert read_reply(text) == read_reply("Hello")
    assert read_reply("<think>never closed").text == ""


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("not json", "not JSON"),
        ('{"name": "f", "arguments": {"x": NaN}}', "NaN"),
        ('{"name": "f"', "not JSON"),
        ("[1, 2]", "expected"),
        ('{"arguments": {}}', "expected"),
        ('{"name": 3}', "expected"),
        ('{"name": "f", "arguments": [1]}', "expected an object"),
        ('{"name": "f", "arguments": "{broken"}', "not JSON"),
        ('{"name": "f", "arguments": {"x": ' + "[" * 40 + "]" * 40 + "}}", "nested"),
        ("[" * 9000, "malformed"),
        ('{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}", "malformed"),
    ],
)
def test_malformed_calls_carry_their_problem(call, problem):
    reply = read_reply(f"<tool_call>{call}</tool_call>")
    assert reply.problem is None and len(reply.calls) == 1
    assert problem in reply.calls[0].problem and len(reply.calls[0].problem) < 300


@pytest.mark.parametrize(
    "call", [None, 3, [], {"function": None}, {"function": {"name": None}}, {"function": "f"}, True]
)
def test_odd_call_objects(call):
    assert "expected" in read_reply({"tool_calls": [call]}).calls[0].problem


@pytest.mark.parametrize("id", [None, 7, "", ["x"]])
def test_an_unusable_id_is_replaced(id):
    assert read_reply({"tool_calls": [{"id": id, "function": {"name": "f"}}]}).calls[0].id == "call_0"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (None, "NoneType"),
        (3, "int"),
        ({"content": 3}, "int"),
        ({"content": ["a"]}, "list"),
        ({"tool_calls": "f"}, "list"),
        ({"tool_calls": {"name": "f"}}, "list"),
        ("x" * (MOST_CHARACTERS + 1), "too long"),
        ({"tool_calls": [{"name": "f"}] * (MOST_CALLS + 1)}, "too many"),
    ],
)
def test_unusable_messages(message, problem):
    reply = read_reply(message)
    assert problem in reply.problem and not reply.calls and not reply.text


def test_an_argument_is_never_code():
    for text in ("__import__('os').system('x')", "{{7*7}}", "${HOME}", "'; DROP TABLE users; --"):
        call = {"function": {"name": "f", "arguments": json.dumps({"x": text})}}
        assert read_reply({"tool_calls": [call]}).calls[0].arguments == {"x": text}
