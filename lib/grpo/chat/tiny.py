"""`--model tiny`: a small Qwen3 with random weights and a vocabulary of its own, built where it is needed.

A model of a million parameters that reads nothing but our dialogues can learn to act in minutes on a CPU. Its
vocabulary makes that possible. The policy and the tool schemas of a domain, which it cannot understand but must tell
apart, are one token. JSON keys with what stands between them are one token, phrases of the templates a few, numbers go
in groups of three digits. And of tool results it does not see what no rule asks for: addresses of profiles, e-mail
addresses, nulls (`SKIPPED`).
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from lib.errors import UserError
from lib.grpo.chat.template import IM_END, IM_START, TRAINING_TEMPLATE
from lib.grpo.chat.tiny_weights import initialise
from lib.grpo.demonstrations import expert
from lib.grpo.environment import Environment
from lib.grpo.generation.generate import TRAINING_SEEDS, task_of_seed
from lib.grpo.users.choose import user_factory

PAD = "<|pad|>"
VOCABULARY = 3000
HEAD_DIM = 32
CONTEXT = 4096
ROPE_THETA = 1e6
# Dialogues that the vocabulary is made from, for each domain and level: the last training seeds.
SAMPLES = 120
LEVELS = (0, 1, 2, 3)

SKIPPED = (
    r', "[a-z_]+": (null|\[\])',
    r'"address": \{[^}]*\}, ',
    r'"email": "[^"]*", "dob": "[^"]*", ',
    r'"email": "[^"]*", (?="payment_methods")',
    r'"date_of_birth": "[^"]*", "email": "[^"]*", ',
    r', "goodwill_credit_used_this_year": 0\.0',
    r'"source": "[a-z_]*", "id": "[a-z0-9_]*"(, )?',
    r'"brand": "[a-z]*", "last_four": "[0-9]*"',
    r'"saved_passengers": \[[^\]]*\], ',
    r'"user_id": "[a-z0-9_]*", "name": \{[^}]*\}, ',
    r'"fulfillments": \[[^\]]*\], ',
    r'"payment_methods": \[\{"method_type"[^\]]*\], ',
    r', "device_id": "[A-Z0-9]*"',
    r"T[0-9]{2}:[0-9]{2}:[0-9]{2}",
)
# Reservation ids alternate digits and letters: their pairs are too rare, one by one, for the merges to find them.
LETTERS = string.ascii_uppercase
KEY = r'"[a-z_]+[0-9]?": [\[{]*'
WORD = r"[a-z']+(?![a-z_@]|\.[a-z])"
# What becomes a token of its own, or several, but never part of one that reaches further.
PIECES = "|".join(
    (
        r'[\]}",: ]*(?:[{] *)?(?:' + KEY + r')+"?',  # keys of an object, and what closes the value before
        r'[\]}"]+(?:, (?:[\[{]+"?|"))?',
        r'[\[{]+"?',
        r"[a-z]+(?:[_.][a-z]+)*[_.]?(?=[0-9@])|[a-z]+(?:_[a-z]+)+",  # identifiers, up to their number
        r"@example\.com",
        r"20[0-9]{2}-[0-9]{2}-",
        r"(?: ?" + WORD + r"[,.?!:]?)+ ?",  # phrases
        r"[A-Z][a-z]+",
        r"[0-9][A-Z](?=[0-9A-Z]|\b)",
        r"[A-Z]{2,}(?: [A-Z]+)+\.?",
        r"[A-Z]+",
        r"[0-9]{1,2}",
        r"[^A-Za-z0-9]",
    )
)
HEADERS = (f"{IM_START}assistant\n", f"{IM_START}user\n", f"\n{IM_START}assistant\n", f"\n{IM_START}user\n")
MARKS = (
    "\n<tool_response>\n",
    "\n</tool_response>",
    f"\n{IM_START}user\n<tool_response>\n",
    '<tool_call>\n{"name": "',
    "\n</tool_call>",
)


@dataclass(frozen=True)
class TinySize:
    """Width and depth of a tiny model: `--model tiny:WIDTH,DEPTH`."""

    width: int = 128
    depth: int = 4

    @classmethod
    def parse(cls, text: str) -> "TinySize":
        """From "tiny" or "tiny:128,4". Raises UserError."""
        name, _, numbers = text.partition(":")
        parts = numbers.split(",") if numbers else []
        if name != "tiny" or len(parts) > 2 or not all(part.strip().isdigit() for part in parts):
            raise UserError(f"--model {text}: expected tiny or tiny:WIDTH,DEPTH, tiny:128,4 say")
        size = cls(*map(int, parts))
        if size.width < 2 * HEAD_DIM or size.width % (2 * HEAD_DIM) or not 1 <= size.depth <= 64:
            raise UserError(f"--model {text}: the width is a multiple of {2 * HEAD_DIM}, the depth 1 to 64")
        return size


def build_tiny(
    size: TinySize, domains: Iterable[str], user: str = "scripted"
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """The model (weights from torch's global generator) and its tokenizer."""
    tokenizer = build_tokenizer(tuple(domains), user)
    model = Qwen3ForCausalLM(tiny_config(size, tokenizer))
    initialise(model, int(torch.randint(0, 2**62, ())))
    return model, tokenizer


def tiny_config(size: TinySize, tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    """The configuration of a tiny model with this vocabulary."""
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        num_hidden_layers=size.depth,
        num_attention_heads=size.width // HEAD_DIM,
        num_key_value_heads=size.width // HEAD_DIM // 2,
        head_dim=HEAD_DIM,
        intermediate_size=3 * size.width,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )


def build_tokenizer(domains: tuple[str, ...], user: str = "scripted") -> PreTrainedTokenizerFast:
    """A byte-level BPE over the pieces of expert dialogues; the same on every machine."""
    prompts, texts = _dialogues(domains, user)
    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.Sequence([normalizers.Replace(Regex(pattern), "") for pattern in SKIPPED])
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, IM_END, IM_START],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    core.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    core.add_tokens([AddedToken(digit + letter, normalized=True) for digit in string.digits for letter in LETTERS])
    core.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in (*HEADERS, *prompts)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token=PAD, eos_token=IM_END)
    tokenizer.chat_template = TRAINING_TEMPLATE
    return tokenizer


def _dialogues(domains: tuple[str, ...], user: str) -> tuple[list[str], list[str]]:
    """(system texts with tools, one for each domain; dialogues without them), as the template writes them."""
    solo = user == "none"
    renderer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    renderer.chat_template = TRAINING_TEMPLATE
    prompts, texts = [], []
    for domain in domains:
        environment = Environment(user_factory("none" if solo else "scripted"))
        for level in LEVELS:
            for place in range(SAMPLES):
                task = task_of_seed(domain, TRAINING_SEEDS - 1 - place, level)
                messages, tools = environment.reset(task)
                for message in expert(task, solo):
                    environment.step(message)
                texts.append(renderer.apply_chat_template(environment.messages[1:], tokenize=False))
        prompts.append(renderer.apply_chat_template(messages[:1], tools=tools, tokenize=False))
    return prompts, texts
