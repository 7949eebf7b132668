"""Attention of a row laid out as a prefix tree, for any causal language model of transformers.

`prepare_model` makes a model's attention layers call `packed_attention`. A forward that hands a `TreeLayout` to the
model (`**packed_arguments(layout)`) then attends along the tree; every other forward runs sdpa as before.

Each segment attends causally to itself, and all descendants of a node attend to the node in one call without a mask.
The parts meet by their log-sum-exps: with m = log(exp(a) + exp(b)), out = out_a exp(a - m) + out_b exp(b - m). Given
the final output and log-sum-exp, the gradient of each part is that of attention over its keys alone (the identity
behind ring attention, Liu et al., arXiv:2310.01889), so no part is computed twice and no score matrix is kept.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from lib.errors import UserError
from lib.grpo.learning.block_attention import attend, attend_backward
from lib.grpo.learning.prefix_tree import CausalBin, TreeLayout

NAME = "quartet_packed"
# The shape of the mask that stands for the layout.
PLACEHOLDER = (1, 1, 1, 1)
ADVICE = "train on plain rows (shared=False)"


def prepare_model(model: PreTrainedModel) -> None:
    """Lets `model` (not wrapped) run packed rows; its other forwards stay sdpa. UserError where it cannot."""
    config = model.config.get_text_config()
    sliding = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if sliding or (getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)):
        found = ", ".join(sorted(sliding)) or f"a window of {config.sliding_window} tokens"
        raise UserError(f"{config.model_type} has layers of {found}; packed rows need full attention: {ADVICE}")
    if getattr(config, "attention_dropout", 0.0):
        raise UserError(f"attention_dropout is {config.attention_dropout}; packed rows need 0: {ADVICE} or set it to 0")
    if not model._supports_attention_backend:
        raise UserError(f"{config.model_type} does not take attention functions from outside: {ADVICE}")
    model.set_attn_implementation(NAME)


def packed_arguments(layout: TreeLayout, device: torch.device) -> dict:
    """Keyword arguments of the model's forward that make it attend along `layout`.

    transformers hands a mask of four dimensions on as it is: this one keeps it from making its own.
    """
    return {"quartet_layout": layout, "attention_mask": torch.zeros(PLACEHOLDER, device=device)}


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    quartet_layout: TreeLayout | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """The attention function of transformers: query (1, heads, tokens, head_dim), key and value (1, kv_heads, tokens,
    head_dim); returns (1, tokens, heads, head_dim). Without a layout it is sdpa."""
    if quartet_layout is None:
        lost = attention_mask is not None and attention_mask.shape == PLACEHOLDER and key.shape[2] > 1
        assert not lost, "the model does not hand its keyword arguments on to its attention layers"
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs
        )
    unknown = [name for name in ("sliding_window", "softcap", "s_aux", "position_bias") if kwargs.get(name) is not None]
    if unknown or dropout:
        raise UserError(f"packed rows do not support {', '.join(unknown) or 'dropout'} in attention: {ADVICE}")
    if query.shape[0] != 1 or query.shape[2] != quartet_layout.tokens:
        raise AssertionError(f"one row of {quartet_layout.tokens} tokens was laid out, found {tuple(query.shape)}")
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    by_token = [each[0].transpose(0, 1) for each in (query, key, value)]  # (tokens, heads, head_dim)
    return _TreeAttention.apply(*by_token, quartet_layout, scaling)[None], None


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


class _TreeAttention(torch.autograd.Function):
    """query (tokens, heads, head_dim), key and value (tokens, kv_heads, head_dim) -> (tokens, heads, head_dim)."""

    @staticmethod
    def forward(ctx, query, key, value, layout: TreeLayout, scaling: float):
        tokens, heads, _ = query.shape
        out = torch.empty(query.shape, dtype=_exact(query), device=query.device)
        lse = torch.empty(tokens, heads, dtype=out.dtype, device=query.device)
        for causal in layout.bins:
            part, part_lse = attend(*_rows_of((query, key, value), causal), True, scaling)
            _store(out, part.transpose(1, 2), causal)
            _store(lse, part_lse.transpose(1, 2), causal)
        for start, end, stop in layout.ancestors:
            part, part_lse = attend(*_descendants(query, key, value, start, end, stop), False, scaling)
            part, part_lse = _by_token(part), _by_token(part_lse)
            own = lse[end:stop]
            out[end:stop].lerp_(part.to(out.dtype), torch.sigmoid(part_lse - own)[..., None])
            torch.logaddexp(own, part_lse, out=own)
        out = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.layout, ctx.scaling = layout, scaling
        return out

    @staticmethod
    def backward(ctx, grad_out):
        query, key, value, out, lse = ctx.saved_tensors
        # A projection hands back its gradient in another order of memory; the parts are cut from token rows.
        grad_out = grad_out.contiguous()
        grads = [torch.empty(each.shape, dtype=_exact(each), device=each.device) for each in (query, key, value)]
        for causal in ctx.layout.bins:
            inputs = _rows_of((query, key, value, out, grad_out), causal)
            if causal.valid is not None:
                inputs[-1].mul_(causal.valid.view(causal.segments, 1, causal.width, 1))
            part_lse = _rows_of((lse,), causal)[0]
            parts = attend_backward(*inputs, part_lse, True, ctx.scaling)
            for grad, part in zip(grads, parts):
                _store(grad, part.transpose(1, 2), causal)
        for start, end, stop in ctx.layout.ancestors:
            inputs = _descendants(query, key, value, start, end, stop)
            outputs = [_by_head(each[end:stop], key.shape[1]) for each in (out, grad_out, lse)]
            parts = attend_backward(*inputs, *outputs, False, ctx.scaling)
            grads[0][end:stop] += _by_token(parts[0])
            for grad, part in zip(grads[1:], parts[1:]):
                grad[start:end] += part.sum(1).transpose(0, 1)
        return *(grad.to(each.dtype) for grad, each in zip(grads, (query, key, value))), None, None


def _exact(tensor: torch.Tensor) -> torch.dtype:
    """Half precisions are summed in float32."""
    return tensor.dtype if tensor.dtype == torch.float64 else torch.float32


def _rows_of(tensors: tuple[torch.Tensor, ...], causal: CausalBin) -> list[torch.Tensor]:
    """(tokens, heads, ...) -> (segments, heads, width, ...) of the bin's segments."""
    rows = []
    for tensor in tensors:
        if causal.start is None:
            part = tensor[causal.index]
        else:
            part = tensor[causal.start : causal.start + causal.segments * causal.width]
            part = part.unflatten(0, (causal.segments, causal.width))
        rows.append(part.transpose(1, 2))
    return rows


def _store(target: torch.Tensor, part: torch.Tensor, causal: CausalBin) -> None:
    """Writes (segments, width, heads, ...) to the bin's tokens of `target` (tokens, heads, ...)."""
    if causal.start is None:
        target[causal.index.flatten()[causal.valid]] = part.flatten(0, 1)[causal.valid].to(target.dtype)
    else:
        tokens = causal.segments * causal.width
        target[causal.start : causal.start + tokens].unflatten(0, (causal.segments, causal.width)).copy_(part)


def _descendants(query, key, value, start: int, end: int, stop: int) -> list[torch.Tensor]:
    """The queries of end..stop and the keys and values of start..end, each (kv_heads, heads of it, tokens, head_dim);
    keys and values are views that repeat nothing in memory."""
    kv_heads = key.shape[1]
    repeats = query.shape[1] // kv_heads
    pair = [each[start:end].transpose(0, 1)[:, None].expand(-1, repeats, -1, -1) for each in (key, value)]
    return [_by_head(query[end:stop], kv_heads), *pair]


def _by_head(tensor: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """(tokens, heads, ...) -> (kv_heads, heads of it, tokens, ...)."""
    return tensor.unflatten(1, (kv_heads, -1)).movedim(0, 2)


def _by_token(tensor: torch.Tensor) -> torch.Tensor:
    """(kv_heads, heads of it, tokens, ...) -> (tokens, heads, ...)."""
    return tensor.movedim(2, 0).flatten(1, 2)
