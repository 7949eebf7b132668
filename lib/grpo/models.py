"""The model that is trained: from the hub, from a directory, or built on the spot; with adapters where asked for."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PretrainedConfig
from transformers.utils import logging

from lib.errors import UserError
from lib.grpo.chat.format import ChatFormat
from lib.grpo.chat.tiny import TinySize, build_tiny, build_tokenizer, tiny_config
from lib.seeds import seed_global

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LORA = "r=16,alpha=32,targets=all-linear,dropout=0"


def load_model(
    name: str, *, domains: tuple[str, ...], user: str, seed: int, dtype: torch.dtype, chat_template: str = "auto"
) -> tuple[nn.Module, ChatFormat]:
    """The causal language model `name` and its chat format.

    `name`: tiny[:WIDTH,DEPTH], a directory, or a hub id. Raises UserError for what is not there or cannot chat.
    """
    if is_tiny(name):
        seed_global(seed, "weights")
        model, tokenizer = build_tiny(TinySize.parse(name), domains, user)
        return model.to(dtype), ChatFormat(tokenizer, chat_template)
    _check_directory(name)
    if Path(name).is_dir() and not has_tokenizer(name):
        raise UserError(f"--model {name}: the directory holds no tokenizer: save one beside the weights")
    # A bar is for people who watch: elsewhere one line of an error stays one line.
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    with _naming(name):
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    if model.get_input_embeddings().num_embeddings < len(tokenizer):
        raise UserError(
            f"--model {name}: the tokenizer has {len(tokenizer)} tokens, the model"
            f" {model.get_input_embeddings().num_embeddings}"
        )
    return model, ChatFormat(tokenizer, chat_template)


def load_config(
    name: str, *, domains: tuple[str, ...], user: str, chat_template: str = "auto"
) -> tuple[PretrainedConfig, ChatFormat | None]:
    """The configuration of the model `name`, without its weights, and its chat format.

    None for a directory without a tokenizer, which is enough for sizes. Raises UserError as `load_model`.
    """
    if is_tiny(name):
        size, tokenizer = TinySize.parse(name), build_tokenizer(domains, user)
        return tiny_config(size, tokenizer), ChatFormat(tokenizer, chat_template)
    _check_directory(name)
    with _naming(name):
        config = AutoConfig.from_pretrained(name)
        if Path(name).is_dir() and not has_tokenizer(name):
            return config, None
        return config, ChatFormat(AutoTokenizer.from_pretrained(name), chat_template)


def is_tiny(name: str) -> bool:
    """Whether `name` is tiny[:WIDTH,DEPTH], and no directory of that name."""
    return name.partition(":")[0] == "tiny" and not Path(name).exists()


def has_tokenizer(directory: str | Path) -> bool:
    return any((Path(directory) / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json"))


def _check_directory(name: str) -> None:
    where = Path(name)
    if (where / "export" / "config.json").is_file():
        raise UserError(f"--model {name} is a run: its model is {where / 'export'}")
    if where.is_dir() and not (where / "config.json").is_file():
        raise UserError(f"--model {name}: the directory holds no config.json; give a transformers model, export/ say")


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """What transformers cannot load is the user's model, named in one line."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"--model {name} cannot be loaded: {first}; give tiny, a directory or a hub id") from error


def parse_lora(text: str) -> tuple[int, float, str | tuple[str, ...]]:
    """(rank, alpha, targets) of --lora, as r=16,alpha=32,targets=all-linear,dropout=0. Raises UserError.

    `targets` are names of layers joined by +, or all-linear.
    """
    values = dict(part.split("=", 1) for part in LORA.split(","))
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or key not in values:
            raise UserError(f"--lora {text}: {part!r}; expected {LORA}, say")
        values[key] = value
    try:
        rank, alpha, dropout = int(values["r"]), float(values["alpha"]), float(values["dropout"])
    except ValueError:
        raise UserError(f"--lora {text}: r, alpha and dropout are numbers, as in {LORA}") from None
    if rank < 1 or dropout:
        raise UserError(f"--lora {text}: r is at least 1, and dropout 0: sampling and training are to agree")
    targets = values["targets"]
    return rank, alpha, targets if targets == "all-linear" else tuple(targets.split("+"))


def add_lora(model: nn.Module, text: str) -> nn.Module:
    """`model` with adapters of peft as --lora describes them (`parse_lora`). Raises UserError."""
    rank, alpha, targets = parse_lora(text)
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise UserError("--lora needs peft: pip install peft") from None
    targets = targets if isinstance(targets, str) else list(targets)
    adapters = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, task_type="CAUSAL_LM")
    try:
        with warnings.catch_warnings():
            # peft asks transformers by a name that transformers is about to drop: nothing a user could mend.
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
            return get_peft_model(model, adapters)
    except ValueError as error:
        raise UserError(f"--lora {text}: {error}") from None


def merged(model: nn.Module) -> nn.Module:
    """The plain model, adapters added to its weights. The model given is used up."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
