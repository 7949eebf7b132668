"""What the tests of chat format, episodes and scripts share: a tiny model of one domain, made once, and its export."""

from functools import cache
from pathlib import Path

import torch

from lib.grpo.chat.format import ChatFormat
from lib.grpo.chat.tiny import TinySize, build_tiny, build_tokenizer

DOMAIN = "airline"


@cache
def tokenizer(domains: tuple[str, ...] = (DOMAIN,)):
    """The vocabulary of these domains. Not to be changed."""
    return build_tokenizer(domains)


@cache
def chat_format() -> ChatFormat:
    return ChatFormat(tokenizer())


def write_export(folder: Path, seed: int = 0) -> Path:
    """A tiny model of the airline with random weights, as a directory that `--model` takes."""
    torch.manual_seed(seed)
    model, own = build_tiny(TinySize(64, 1), (DOMAIN,))
    model.save_pretrained(folder)
    own.save_pretrained(folder)
    return folder
