"""Drawing tokens: one random number for each (conversation, position), the same whoever else is being sampled."""

import torch
from torch import Tensor

from lib.grpo.engine.conversation import Sampling

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
# 48 bits: even the largest number, times the sum of the weights in float64, stays below that sum.
_BITS = 48


def _signed(word: int) -> int:
    """The int64 with the bits of an unsigned 64-bit word: torch has no arithmetic on unsigned ones."""
    return word - (1 << 64) if word >> 63 else word


def _shifted(x: Tensor, bits: int) -> Tensor:
    """x >> bits with zeros shifted in (torch shifts the sign in)."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words, products modulo 2^64."""
    x = (x ^ _shifted(x, 30)) * _signed(_FIRST)
    x = (x ^ _shifted(x, 27)) * _signed(_SECOND)
    return x ^ _shifted(x, 31)


def uniforms(noise: Tensor, positions: Tensor) -> Tensor:
    """Numbers in [0, 1), float64, for int64 `noise` and `positions` that broadcast: 48 bits of a hash of both.

    `noise` is the conversation's, a position the index of the token that is drawn in the conversation's ids.
    """
    mixed = _mix(noise ^ _mix((positions + 1) * _signed(_GOLDEN)))
    return _shifted(mixed, 64 - _BITS).to(torch.float64) * 2.0**-_BITS


def turn_budget(length: int, sampling: Sampling) -> int:
    """Tokens that may be sampled after `length` ids; 0 when the conversation has to be cut."""
    return max(0, min(sampling.max_new_tokens, sampling.max_length - length))


def draw(logits: Tensor, uniform: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Tokens (rows,) int64 and their log-probabilities (rows,) float32 from logits (rows, vocabulary).

    The token is the first whose cumulative probability, in the order of the vocabulary, exceeds `uniform` (rows,).
    The log-probability is that of softmax(logits / temperature), before top-k and top-p; at temperature 0, where the
    most probable token is taken, that of softmax(logits).
    """
    logits = logits.float()
    if sampling.temperature == 0:
        tokens = logits.argmax(-1, keepdim=True)
        return tokens.squeeze(-1), logits.log_softmax(-1).gather(-1, tokens).squeeze(-1)
    if sampling.temperature != 1:
        logits = logits / sampling.temperature
    log_probs = logits.log_softmax(-1)
    probabilities = log_probs.exp()
    weights = probabilities if sampling.top_k <= 0 and sampling.top_p >= 1 else _cut(probabilities, sampling)
    cumulative = weights.cumsum(-1, dtype=torch.float64)  # (rows, vocabulary)
    target = uniform.unsqueeze(-1) * cumulative[:, -1:]
    # A token of weight zero is never the first above the target: its cumulative weight is its predecessor's.
    tokens = torch.searchsorted(cumulative, target, right=True)  # (rows, 1)
    return tokens.squeeze(-1), log_probs.gather(-1, tokens).squeeze(-1)


def _cut(probabilities: Tensor, sampling: Sampling) -> Tensor:
    """The probabilities with those outside top-k, then outside top-p of the rest, set to zero (not normalised)."""
    kept = min(sampling.top_k, probabilities.shape[-1]) if sampling.top_k > 0 else probabilities.shape[-1]
    largest, tokens = probabilities.topk(kept, dim=-1)  # (rows, kept), falling
    if sampling.top_p < 1:
        before = largest.cumsum(-1, dtype=torch.float64) - largest
        outside = before >= sampling.top_p * largest.sum(-1, keepdim=True, dtype=torch.float64)
        outside[:, 0] = False
        largest = largest.masked_fill(outside, 0)
    return torch.zeros_like(probabilities).scatter_(-1, tokens, largest)
