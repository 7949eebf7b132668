"""Log-probabilities in slices against log_softmax over everything: values, entropies, gradients, memory."""

import pytest
import torch

from lib.grpo.learning.log_probs import token_log_probs

TOKENS, WIDTH, WORDS = 13, 6, 29


def inputs(dtype=torch.float64, bias=True):
    torch.manual_seed(0)
    hidden, weight = torch.randn(TOKENS, WIDTH, dtype=dtype), torch.randn(WORDS, WIDTH, dtype=dtype)
    leaves = [hidden, weight, *([torch.randn(WORDS, dtype=dtype)] if bias else [])]
    return [leaf.requires_grad_() for leaf in leaves], torch.randint(WORDS, (TOKENS,))


def plain(hidden, weight, bias, targets, temperature):
    table = torch.nn.functional.linear(hidden, weight, bias).div(temperature).log_softmax(-1)
    return table.gather(-1, targets[:, None])[:, 0], -(table.exp() * table).sum(-1)


@pytest.mark.parametrize("through_entropy", [0.0, 0.3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("rows", [1, 4, 13, 100])
def test_values_and_gradients(rows, temperature, bias, through_entropy):
    leaves, targets = inputs(bias=bias)
    hidden, weight, offset = (*leaves, None)[:3]
    grad = torch.randn(TOKENS, dtype=torch.float64)
    results = []
    for found in (
        token_log_probs(hidden, weight, targets, temperature, offset, logits_at_once=rows * WORDS),
        plain(hidden, weight, offset, targets, temperature),
    ):
        objective = (found[0] * grad).sum() + (
            through_entropy * (found[1] * grad.flip(0)).sum() if through_entropy else 0
        )
        results.append([*found, *torch.autograd.grad(objective, leaves)])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_backward_can_be_repeated():
    """A single slice keeps its logits; they must survive the first backward."""
    leaves, targets = inputs()
    total = token_log_probs(*leaves[:2], targets, bias=leaves[2])[0].sum()
    first = torch.autograd.grad(total, leaves, retain_graph=True)
    second = torch.autograd.grad(total, leaves)
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def test_frozen_weights_get_no_gradient_and_no_tokens_are_fine():
    leaves, targets = inputs(bias=False)
    hidden, weight = leaves[0], leaves[1].detach()
    token_log_probs(hidden, weight, targets)[0].sum().backward()
    assert hidden.grad.any() and weight.grad is None
    values, entropy = token_log_probs(hidden[:0], weight, targets[:0])
    assert values.shape == entropy.shape == (0,)
    values.sum().backward()


def test_large_logits_stay_finite():
    leaves, targets = inputs(torch.float32)
    values, entropy = token_log_probs(leaves[0] * 1e4, leaves[1], targets)
    (values + entropy).sum().backward()
    assert torch.isfinite(values).all() and torch.isfinite(entropy).all() and (entropy >= -1e-2).all()
    assert torch.isfinite(leaves[1].grad).all()


def test_half_precision_weights_are_summed_in_float32():
    leaves, targets = inputs(torch.float32, bias=False)
    halves = [leaf.detach().bfloat16().requires_grad_() for leaf in leaves]
    exact = [half.detach().float().requires_grad_() for half in halves]
    found = token_log_probs(*halves, targets, logits_at_once=2 * WORDS)[0]
    expected = token_log_probs(*exact, targets)[0]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0.05)
    found.sum().backward()
    expected.sum().backward()
    assert halves[1].grad.dtype == torch.bfloat16
    torch.testing.assert_close(halves[1].grad.float(), exact[1].grad, atol=0.1, rtol=0.05)


def test_only_a_slice_of_logits_is_ever_held():
    """Sizes of all tensors made between call and end of backward: none has a row for every token."""
    hidden = torch.randn(64, 8, requires_grad=True)
    weight = torch.randn(1000, 8, requires_grad=True)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for each in out if isinstance(out, tuple | list) else (out,):
                if isinstance(each, torch.Tensor):
                    largest = max(largest, each.numel())
            return out

    with Watch():
        token_log_probs(hidden, weight, torch.randint(1000, (64,)), logits_at_once=10_000)[0].sum().backward()
    assert largest == 10_000
