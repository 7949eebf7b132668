"""lib/grpo/chat: prompts and answers as ids, templates that rewrite history, the tokenizer of the tiny model."""

import re

import pytest
from policy_samples import chat_format, tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lib.errors import UserError
from lib.grpo.chat.format import ChatFormat
from lib.grpo.chat.template import IM_END, IM_START, TRAINING_TEMPLATE
from lib.grpo.chat.tiny import HEADERS, SKIPPED, build_tokenizer
from lib.grpo.demonstrations import expert
from lib.grpo.domains import DOMAINS
from lib.grpo.environment import Environment
from lib.grpo.generation.generate import make_task, task_of_seed, templates
from lib.grpo.messages import call_message, read_reply, text_message

# As Qwen3's own does it: the thoughts of earlier turns are left out.
FORGETS_THOUGHTS = """\
{%- for message in messages -%}
{%- set text = message.content or '' -%}
{%- if message.role == 'assistant' and '</think>' in text and not loop.last -%}
{%- set text = text.split('</think>')[-1].lstrip('\\n') -%}
{%- endif -%}
{{- '<|im_start|>' + message.role + '\\n' + text + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
MARKS_NO_END = """\
{%- for message in messages -%}{{- message.role + ': ' + (message.content or '') -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'assistant: ' -}}{%- endif -%}
"""


def plain_tokenizer(template: str | None, special: tuple[str, ...] = (IM_END, IM_START)) -> PreTrainedTokenizerFast:
    """Bytes as tokens, and these special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(special))
    found = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=special[0] if special else None)
    found.chat_template = template
    return found


def dialogue(domain: str, level: int, chat: ChatFormat) -> tuple[list[int], Environment, list[dict]]:
    """(ids as an episode puts them together, the environment after the expert's dialogue, tools)."""
    environment = Environment()
    messages, tools = environment.reset(task_of_seed(domain, 11, level))
    shared, opening = chat.prompt(messages, tools)
    ids = [*shared, *opening]
    for message in expert(environment.task):
        ids += chat.turn_ids(message)
        answers, done = environment.step(message)
        if done:
            break
        ids += chat.answer(answers, stopped=True)
    return ids, environment, tools


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_dialogue_put_together_is_the_templates_render(domain, level):
    plain = ChatFormat(plain_tokenizer(TRAINING_TEMPLATE))
    ids, environment, tools = dialogue(domain, level, plain)
    # The last message is the user's good-bye, which the model never reads.
    whole = plain.encode(plain.render(environment.messages[:-1], tools, prompt=False))
    assert ids == whole[: len(ids)] and plain.text_of(whole[len(ids) :]) == "\n"


def test_the_tiny_vocabulary_puts_together_what_it_renders():
    ids, environment, tools = dialogue("airline", 2, chat_format())
    whole = chat_format().encode(chat_format().render(environment.messages[:-1], tools, prompt=False))
    assert ids == whole[: len(ids)] and len(whole) - len(ids) <= 1


def test_policy_and_tools_are_shared_by_all_tasks_of_a_domain():
    chat = ChatFormat(plain_tokenizer(TRAINING_TEMPLATE))
    environment = Environment()
    prompts = [chat.prompt(*environment.reset(task_of_seed("retail", seed, 0))) for seed in (1, 2)]
    assert prompts[0][0] == prompts[1][0] and prompts[0][1] != prompts[1][1]
    text = chat.tokenizer.decode(prompts[0][0])
    assert "</policy>" in text and "</tools>" in text, "the policy and the schemas are in the shared part"
    messages, tools = environment.reset(task_of_seed("retail", 1, 2))
    assert chat.prompt(messages[1:], tools)[0] == (), "without a system text nothing is shared"


@pytest.mark.parametrize("stopped", [True, False])
def test_answers_follow_two_results_and_cut_turns(stopped):
    chat = ChatFormat(plain_tokenizer(TRAINING_TEMPLATE))
    calls = [call_message("look", {"id": number})["tool_calls"][0] for number in (1, 2)]
    turn = {"role": "assistant", "content": "", "tool_calls": calls}
    results = [{"role": "tool", "name": "look", "content": f"found {number}"} for number in (1, 2)]
    start = [{"role": "user", "content": "hello"}]
    sampled = chat.turn_ids(turn) if stopped else chat.encode(chat.turn_text(turn))
    ids = chat.encode(chat.render(start)) + sampled + chat.answer(results, stopped)
    assert ids == chat.encode(chat.render([*start, turn, *results]))
    text = chat.tokenizer.decode(ids)
    assert text.count("<tool_response>") == 2 and text.count(f"{IM_START}user") == 2, "results share one user turn"


def test_turn_ids_end_with_the_stop_token_and_hold_text_and_call():
    chat = chat_format()
    ids = chat.turn_ids(call_message("get_user_details", {"user_id": "mia_li_3668"}))
    assert ids[-1] in chat.stop_ids and not set(ids[:-1]) & set(chat.stop_ids)
    text = chat.text_of(ids)
    assert text == '<tool_call>\n{"name": "get_user_details", "arguments": {"user_id": "mia_li_3668"}}\n</tool_call>'
    assert chat.text_of(chat.turn_ids(text_message("Hello."))) == "Hello."


def test_a_template_that_rewrites_history():
    rewriting = plain_tokenizer(FORGETS_THOUGHTS)
    found = ChatFormat(rewriting)
    assert found.tokenizer.chat_template == TRAINING_TEMPLATE and "training template is used" in found.notes[0]
    with pytest.raises(UserError, match=r"rewrites earlier turns.*--chat-template training"):
        ChatFormat(plain_tokenizer(FORGETS_THOUGHTS), "model")
    with pytest.raises(UserError, match="rewrites earlier turns"):
        ChatFormat(plain_tokenizer(FORGETS_THOUGHTS, ()))
    kept = plain_tokenizer(FORGETS_THOUGHTS.replace("not loop.last", "false"))
    template = kept.chat_template
    with pytest.raises(UserError, match="leaves calls out"):
        ChatFormat(kept, "model")
    assert kept.chat_template == template, "looking at a template changes nothing"


def test_a_tokenizer_that_cannot_chat():
    with pytest.raises(UserError, match=r"no chat template.*instruction-tuned"):
        ChatFormat(plain_tokenizer(None))
    with pytest.raises(UserError, match=re.escape(f"needs the tokens {IM_START} and {IM_END}")):
        ChatFormat(plain_tokenizer(None, ()), "training")
    assert ChatFormat(plain_tokenizer(None), "training").tokenizer.chat_template == TRAINING_TEMPLATE
    with pytest.raises(UserError):
        ChatFormat(plain_tokenizer(MARKS_NO_END), "model")


def test_the_tiny_vocabulary_is_the_same_every_time():
    first, again = tokenizer(), build_tokenizer(("airline",))
    assert first.get_vocab() == again.get_vocab()
    text = 'Reservation ZFA04Y: {"origin": "SFO", "price": 1234.5}'
    assert first(text)["input_ids"] == again(text)["input_ids"]


def test_ids_are_copied_whole():
    """What a tool returned and what a call repeats of it are the same tokens: to copy is to repeat."""
    own = tokenizer()
    for text in ("HAT136", "mia_li_3668", "2024-05-17", "credit_card_7815826", "ZFA04Y"):
        result = own(f'{{"origin": "SFO", "reservation_id": "{text}", "cabin": "economy"}}')["input_ids"]
        call = own(f'<tool_call>\n{{"name": "look", "arguments": {{"reservation_id": "{text}"}}}}\n</tool_call>')
        inside, repeated = ([own.decode([id]) for id in ids] for ids in (result, call["input_ids"]))
        pieces = [own.decode([id]) for id in own(text)["input_ids"]]
        assert "".join(pieces) == text and len(pieces) < len(text)
        for tokens in (inside, repeated):
            assert any(tokens[at : at + len(pieces)] == pieces for at in range(len(tokens))), (text, tokens)


def test_what_was_encoded_is_decoded_but_for_what_is_skipped():
    own = tokenizer()
    for text in ("Ünïcode, 日本 and \t tabs", 'a "quoted" {"x": [1, 2.50]}', "HAT001 HAT002", "  spaces  "):
        assert own.decode(own(text)["input_ids"]) == text
    for level in (0, 3):
        environment = Environment()
        environment.reset(task_of_seed("airline", 3, level))
        for message in expert(environment.task):
            environment.step(message)
        for message in environment.messages[1:]:
            expected = message.get("content") or ""
            for pattern in SKIPPED:
                expected = re.sub(pattern, "", expected)
            assert own.decode(own(message.get("content") or "")["input_ids"]) == expected


def test_calls_of_the_expert_lose_nothing():
    """What is skipped in results must not be skipped in calls: they would come back without an argument."""
    chat = chat_format()
    for name in templates("airline"):
        for seed in range(3):
            for message in expert(make_task("airline", name, seed, 2)):
                again = read_reply(chat.text_of(chat.turn_ids(message)))
                asked = read_reply(message)
                assert [(call.name, call.arguments) for call in again.calls] == [
                    (call.name, call.arguments) for call in asked.calls
                ], name
                assert again.text == asked.text


def test_policy_and_header_are_a_token_each_and_never_sampled_text():
    chat = chat_format()
    environment = Environment()
    shared, _ = chat.prompt(*environment.reset(task_of_seed("airline", 1, 1)))
    assert len(shared) == 1
    assert all(len(chat.encode(header)) == 1 for header in HEADERS)
    assert chat.text_of(list(shared)) == ""


def test_saved_and_loaded_again(tmp_path):
    own = tokenizer()
    own.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = dialogue("airline", 2, chat_format())[0]
    assert dialogue("airline", 2, ChatFormat(loaded))[0] == ids
    assert loaded.eos_token == IM_END and loaded.chat_template == own.chat_template and len(loaded) == len(own)
    assert loaded.decode(ids) == own.decode(ids)
