"""Log-probabilities of given tokens from hidden states, without ever holding a row of logits for each token."""

from __future__ import annotations

import torch

# Logits held at once: 2^23 numbers are 32 MiB of float32 on a CPU; a GPU wants larger products.
CPU_LOGITS, GPU_LOGITS = 1 << 23, 1 << 27


def token_log_probs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    temperature: float = 1.0,
    bias: torch.Tensor | None = None,
    logits_at_once: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """log softmax((hidden weight^T + bias) / temperature)[targets] and the entropy of that softmax, in nats.

    hidden (tokens, width), weight (vocabulary, width), bias (vocabulary,), targets (tokens,); returns two (tokens,)
    of float32 (float64 for float64 input), both differentiable. Works in slices of `logits_at_once` numbers, whose
    logits are computed again in the backward pass unless one slice holds everything.
    """
    assert temperature > 0, "the temperature divides the logits"
    if logits_at_once is None:
        logits_at_once = CPU_LOGITS if hidden.device.type == "cpu" else GPU_LOGITS
    rows = max(1, logits_at_once // weight.shape[0])
    return _TokenLogProbs.apply(hidden, weight, bias, targets, 1.0 / temperature, rows)


class _TokenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, scale: float, rows: int):
        device = hidden.device.type
        compute = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        exact = torch.float64 if compute == torch.float64 else torch.float32
        log_probs, entropy, lse = (torch.empty(len(hidden), dtype=exact, device=hidden.device) for _ in range(3))
        # Buffers are made once: freed and made again for every slice, they pile up in the allocator.
        logits, scratch = (_buffer(hidden, weight, rows, exact) for _ in range(2))
        with torch.autocast(device, enabled=False):
            matrix = weight.to(compute)
            for at in _slices(len(hidden), rows):
                part = _logits(hidden[at], matrix, bias, scale, logits)
                log_probs[at], entropy[at], lse[at] = _statistics(part, targets[at], scratch)
        kept = logits if len(hidden) <= rows else None
        ctx.save_for_backward(hidden, weight, bias, targets, lse, entropy, kept)
        ctx.scale, ctx.rows, ctx.compute = scale, rows, compute
        ctx.set_materialize_grads(False)
        return log_probs, entropy

    @staticmethod
    def backward(ctx, grad_log_probs, grad_entropy):
        hidden, weight, bias, targets, lse, entropy, kept = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        if grad_log_probs is None:
            grad_log_probs = torch.zeros_like(lse)
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=lse.dtype) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=lse.dtype) if needs_bias else None
        matrix = weight.to(ctx.compute)
        buffer = _buffer(hidden, weight, ctx.rows, lse.dtype)
        for at in _slices(len(hidden), ctx.rows):
            if kept is not None:
                shifted = torch.sub(kept, lse[:, None], out=buffer)
            else:
                shifted = _logits(hidden[at], matrix, bias, ctx.scale, buffer).sub_(lse[at, None])
            through_entropy = None if grad_entropy is None else (grad_entropy[at], entropy[at])
            grads = _logits_gradient(shifted, targets[at], grad_log_probs[at], through_entropy)
            if ctx.scale != 1.0:
                grads.mul_(ctx.scale)
            if needs_bias:
                grad_bias += grads.sum(0)
            grads = grads.to(ctx.compute)
            if needs_hidden:
                grad_hidden[at] = grads @ matrix
            if needs_weight and ctx.compute == grad_weight.dtype:
                grad_weight.addmm_(grads.T, hidden[at].to(ctx.compute))
            elif needs_weight:
                grad_weight += grads.T @ hidden[at].to(ctx.compute)
        return grad_hidden, _cast(grad_weight, weight), _cast(grad_bias, bias), None, None, None


def _cast(grad: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    return None if grad is None else grad.to(like.dtype)


def _slices(tokens: int, rows: int) -> list[slice]:
    return [slice(at, min(at + rows, tokens)) for at in range(0, tokens, rows)]


def _buffer(hidden: torch.Tensor, weight: torch.Tensor, rows: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(min(rows, len(hidden)), weight.shape[0], dtype=dtype, device=hidden.device)


def _logits(hidden, matrix, bias: torch.Tensor | None, scale: float, buffer: torch.Tensor) -> torch.Tensor:
    """(tokens, vocabulary) in `buffer`, divided by the temperature."""
    logits = buffer[: len(hidden)]
    if matrix.dtype == buffer.dtype:
        torch.mm(hidden.to(matrix.dtype), matrix.T, out=logits)
    else:
        logits.copy_(hidden.to(matrix.dtype) @ matrix.T)
    if bias is not None:
        logits += bias
    return logits if scale == 1.0 else logits.mul_(scale)


def _statistics(
    logits: torch.Tensor, targets: torch.Tensor, scratch: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(log-probability, entropy, log-sum-exp) of each token."""
    highest = logits.amax(-1, keepdim=True)
    weights = torch.sub(logits, highest, out=scratch[: len(logits)]).exp_()
    total = weights.sum(-1)
    lse = highest[:, 0] + total.log()
    # H = log Z - E[logit], by one product per row, so that weights * logits is never written.
    mean = torch.bmm(weights[:, None], logits[:, :, None])[:, 0, 0] / total
    return logits.gather(-1, targets[:, None])[:, 0] - lse, lse - mean, lse


def _logits_gradient(
    shifted: torch.Tensor,
    targets: torch.Tensor,
    grad: torch.Tensor,
    through_entropy: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """Gradient of the logits, written over the log-probabilities `shifted` (tokens, vocabulary).

    d log p_y = 1_y - p and dH = -p (log p + H), where `through_entropy` is (gradient of H, H).
    """
    factor = grad[:, None]
    if through_entropy is not None:
        grad_entropy, entropy = through_entropy
        factor = (shifted + entropy[:, None]).mul_(grad_entropy[:, None]).add_(factor)
    gradient = shifted.exp_().mul_(-factor)
    return gradient.scatter_add_(-1, targets[:, None], grad[:, None])
