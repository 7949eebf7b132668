"""A user played by a transformers model: a tiny Qwen3 from its configuration, with a tokenizer trained here."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from lib.grpo import Environment, make_task, user_factory
from lib.grpo.users.local_model import LocalModel

TEMPLATE = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def local():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = ["<unk>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["Please cancel my reservation.", "My user id is ada_1."], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")
    fast.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=8192, eos_token_id=fast.eos_token_id,
    )  # fmt: skip
    return LocalModel(Qwen3ForCausalLM(config).eval(), fast, max_new_tokens=8)


def test_it_speaks_and_holds_the_phone_in_telecom(local):
    seen = []

    def complete(messages, tools):
        seen.append(tools)
        return local.complete(messages, tools)

    environment = Environment(user_factory("hf", complete))
    messages, _ = environment.reset(make_task("telecom", "no_service", 0, 0))
    assert messages[-1]["role"] == "user" and isinstance(messages[-1]["content"], str)
    assert len(seen[0]) == 30, "the phone's tools"
    answers, _ = environment.step("Could you tell me your phone number?")
    assert answers[-1]["role"] == "user"


def test_it_takes_the_likeliest_token_each_time(local):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    text = local.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = local.tokenizer(text, return_tensors="pt")["input_ids"]
    length = ids.shape[1]
    for _ in range(local.max_new_tokens):
        ids = torch.cat([ids, local.model(ids).logits[:, -1:].argmax(-1)], dim=1)
        if ids[0, -1] == local.tokenizer.eos_token_id:
            break
    expected = local.tokenizer.decode(ids[0, length:], skip_special_tokens=True)
    assert local.complete(messages, []) == {"role": "assistant", "content": expected}
