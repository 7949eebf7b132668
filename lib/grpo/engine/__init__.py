"""Rollout engines: conversations in, sampled token ids and log-probabilities out (`conversation.Engine`)."""

import torch
from torch import nn

from lib.errors import UserError
from lib.grpo.engine.conversation import Conversation, Engine, Sampling

ENGINES = ("static", "hf", "vllm")

__all__ = ["ENGINES", "Conversation", "Engine", "Sampling", "make_engine"]


def make_engine(
    kind: str, model: nn.Module, sampling: Sampling, slots: int = 64, dtype: torch.dtype | None = None
) -> Engine:
    """The engine called `kind` over an unwrapped causal LM, for at most `slots` conversations at once.

    `static` computes in `dtype`, by default that of the weights.

    Raises UserError for an unknown kind, an architecture that `static` cannot run, `vllm` that is not installed.
    """
    if kind == "static":
        from lib.grpo.engine.static import StaticEngine

        return StaticEngine(model, sampling, slots, dtype)
    if kind == "hf":
        from lib.grpo.engine.reference import ReferenceEngine

        return ReferenceEngine(model, sampling, slots)
    if kind == "vllm":
        from lib.grpo.engine.vllm import VllmEngine

        return VllmEngine(model, sampling, slots)
    raise UserError(f"--engine is {kind!r}; expected one of {', '.join(ENGINES)}")
