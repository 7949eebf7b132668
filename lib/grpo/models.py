"""The model that is trained: from the hub, from a directory, or built on the spot; with adapters where asked for."""

from pathlib import Path

import torch
from torch import nn

from lib.errors import UserError
from lib.grpo.chat.format import ChatFormat
from lib.grpo.chat.tiny import TinySize, build_tiny
from lib.seeds import seed_global

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LORA = "r=16,alpha=32,targets=all-linear,dropout=0"


def load_model(
    name: str, *, domains: tuple[str, ...], user: str, seed: int, dtype: torch.dtype, chat_template: str = "auto"
) -> tuple[nn.Module, ChatFormat]:
    """The causal language model `name` and its chat format.

    `name`: tiny[:WIDTH,DEPTH], a directory, or a hub id. Raises UserError for what is not there or cannot chat.
    """
    if name.partition(":")[0] == "tiny" and not Path(name).exists():
        seed_global(seed, "weights")
        model, tokenizer = build_tiny(TinySize.parse(name), domains, user)
        return model.to(dtype), ChatFormat(tokenizer, chat_template)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = Path(name)
    if where.is_dir() and not (where / "config.json").is_file():
        raise UserError(f"--model {name}: the directory holds no config.json; give a transformers model, export/ say")
    if where.is_dir() and not any((where / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json")):
        raise UserError(f"--model {name}: the directory holds no tokenizer: save one beside the weights")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"--model {name} cannot be loaded: {first}; give tiny, a directory or a hub id") from error
    if model.get_input_embeddings().num_embeddings < len(tokenizer):
        raise UserError(
            f"--model {name}: the tokenizer has {len(tokenizer)} tokens, the model"
            f" {model.get_input_embeddings().num_embeddings}"
        )
    return model, ChatFormat(tokenizer, chat_template)


def add_lora(model: nn.Module, text: str) -> nn.Module:
    """`model` with adapters of peft as --lora describes them: r=16,alpha=32,targets=all-linear,dropout=0.

    `targets` are names of layers joined by +, or all-linear. Raises UserError.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise UserError("--lora needs peft: pip install peft") from None
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
    targets = targets if targets == "all-linear" else targets.split("+")
    try:
        return get_peft_model(
            model, LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, task_type="CAUSAL_LM")
        )
    except ValueError as error:
        raise UserError(f"--lora {text}: {error}") from None


def merged(model: nn.Module) -> nn.Module:
    """The plain model, adapters added to its weights. The model given is used up."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
