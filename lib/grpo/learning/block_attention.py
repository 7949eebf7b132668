"""Attention over one block of keys with its log-sum-exp, and its gradient given the output over all blocks.

On the CPU these are PyTorch's fused kernels; elsewhere plain matrix products over slices of the queries.
"""

from __future__ import annotations

import torch

# Scores held at once where there is no fused kernel: 2^26 numbers are 256 MiB of float32.
SCORES = 1 << 26


def has_fused_kernel(tensor: torch.Tensor) -> bool:
    """Whether this device's kernel gives a log-sum-exp in every precision."""
    return tensor.device.type == "cpu"


def attend(query, key, value, causal: bool, scaling: float) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(scaling q k^T) v and the log-sum-exp of the scaled scores.

    query (rows, heads, tokens, head_dim), key and value (rows, kv_heads, keys, head_dim), heads a multiple of
    kv_heads; returns (rows, heads, tokens, head_dim) and (rows, heads, tokens). `causal` needs tokens == keys.
    """
    key, value = _repeated(key, query), _repeated(value, query)
    if has_fused_kernel(query):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal, scale=scaling)
    parts = [_plain(query[:, :, at], key, value, causal, scaling, at.start) for at in _slices(query, key)]
    return tuple(torch.cat(each, dim=2) for each in zip(*parts))


def attend_backward(query, key, value, out, grad_out, lse, causal: bool, scaling: float) -> tuple[torch.Tensor, ...]:
    """Gradients of query, key and value through this block alone, where `out` (rows, heads, tokens, head_dim) and
    `lse` (rows, heads, tokens) are those over all blocks of keys. Shapes as in `attend`."""
    kv_heads = key.shape[1]
    key, value = _repeated(key, query), _repeated(value, query)
    if has_fused_kernel(query):
        grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad_out, query, key, value, out, lse.contiguous().to(_exact(query)), 0.0, causal, scale=scaling
        )
    else:
        grads = _plain_backward(query, key, value, out, grad_out, lse, causal, scaling)
    if kv_heads == query.shape[1]:
        return grads
    return grads[0], *(grad.unflatten(1, (kv_heads, -1)).sum(2) for grad in grads[1:])


def _exact(tensor: torch.Tensor) -> torch.dtype:
    return tensor.dtype if tensor.dtype == torch.float64 else torch.float32


def _repeated(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """(rows, kv_heads, keys, head_dim) -> (rows, heads, keys, head_dim)."""
    repeats = query.shape[1] // tensor.shape[1]
    return tensor if repeats == 1 else tensor.repeat_interleave(repeats, dim=1)


def _slices(query: torch.Tensor, key: torch.Tensor) -> list[slice]:
    tokens = query.shape[2]
    step = max(1, SCORES // (query.shape[0] * query.shape[1] * key.shape[2]))
    return [slice(at, min(at + step, tokens)) for at in range(0, tokens, step)]


def _scores(query, key, causal: bool, scaling: float, first: int) -> torch.Tensor:
    scores = (query @ key.transpose(-1, -2)).to(_exact(query)) * scaling  # (rows, heads, tokens, keys)
    if causal:
        at = torch.arange(first, first + query.shape[2], device=query.device)
        scores = scores.masked_fill(at[:, None] < torch.arange(key.shape[2], device=query.device), float("-inf"))
    return scores


def _plain(query, key, value, causal: bool, scaling: float, first: int) -> tuple[torch.Tensor, torch.Tensor]:
    scores = _scores(query, key, causal, scaling, first)
    lse = scores.logsumexp(-1)
    return (scores - lse[..., None]).exp().to(value.dtype) @ value, lse


def _plain_backward(query, key, value, out, grad_out, lse, causal: bool, scaling: float) -> tuple[torch.Tensor, ...]:
    exact = _exact(query)
    grad_query = torch.empty(query.shape, dtype=exact, device=query.device)
    grad_key = torch.zeros(key.shape, dtype=exact, device=query.device)
    grad_value = torch.zeros(value.shape, dtype=exact, device=query.device)
    for at in _slices(query, key):
        weights = (_scores(query[:, :, at], key, causal, scaling, at.start) - lse[:, :, at, None]).exp()
        inner = grad_out[:, :, at] @ value.transpose(-1, -2)
        delta = (out[:, :, at].to(exact) * grad_out[:, :, at].to(exact)).sum(-1, keepdim=True)
        grad_scores = (weights * (inner.to(exact) - delta) * scaling).to(query.dtype)
        grad_query[:, :, at] = (grad_scores @ key).to(exact)
        grad_key += (grad_scores.transpose(-1, -2) @ query[:, :, at]).to(exact)
        grad_value += (weights.to(value.dtype).transpose(-1, -2) @ grad_out[:, :, at]).to(exact)
    return grad_query, grad_key, grad_value
