"""Attention in parts: over a shared prefix, over a row's own keys, over new tokens; joined by their log-sum-exps.

The softmax over keys A and B together is the two results weighted by exp(lse_A) and exp(lse_B), exactly: a prefix that
many rows share is read once for all of them, and nothing is concatenated. (Milakov, Gimelshein 2018.)
"""

import torch
from torch import Tensor

_cpu_kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Attention (batch, heads, queries, head_dim) and log-sum-exp of the scores (batch, heads, queries), float32.

    query (batch, heads, queries, head_dim); key and value (batch, heads, keys, head_dim); mask is added to the scores
    and broadcasts; causal: query i sees keys 0..i, queries and keys equally many. Any device; fused on CPU.
    """
    if query.device.type == "cpu":
        return _cpu_kernel(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
    return attend_by_products(query, key, value, scale, mask, causal)


def attend_by_products(query, key, value, scale, mask=None, causal=False) -> tuple[Tensor, Tensor]:
    """`attend` in plain operations, for devices without a kernel that returns the log-sum-exp beside a mask."""
    scores = torch.matmul(query, key.transpose(-1, -2)).float() * scale  # (batch, heads, queries, keys)
    if mask is not None:
        scores = scores + mask
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    lse = scores.logsumexp(-1)
    return torch.matmul((scores - lse.unsqueeze(-1)).exp().to(value.dtype), value), lse


def join(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], last: bool = False) -> tuple[Tensor, Tensor]:
    """Two parts of one softmax as one; with `last` the log-sum-exp, no longer wanted, is that of the first part."""
    share = torch.sigmoid(second[1] - first[1]).unsqueeze(-1).to(first[0].dtype)
    return torch.lerp(first[0], second[0], share), first[1] if last else torch.logaddexp(first[1], second[1])
