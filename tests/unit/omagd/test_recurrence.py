"""The GRU over whole episodes against torch's own on the same PackedSequence: states and all gradients."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from lib.omagd.learning import recurrence


def both(sizes: list[int], dtype: torch.dtype, width: int = 24, needs_inputs: bool = True):
    """(states, gradients) of torch's and of ours, with the same weights, inputs and arriving gradients."""
    torch.manual_seed(0)
    gru = nn.GRU(16, width).to(dtype)
    inputs = torch.randn(sum(sizes), 16, dtype=dtype, requires_grad=needs_inputs)
    arriving = torch.randn(sum(sizes), width, dtype=dtype)
    leaves = [inputs, *gru.parameters()] if needs_inputs else list(gru.parameters())
    found = []
    for states in (gru(PackedSequence(inputs, torch.tensor(sizes)))[0].data, recurrence.run(gru, inputs, sizes)):
        kept = arriving.clone()
        found.append((states.detach(), torch.autograd.grad(states, leaves, kept)))
        assert torch.equal(kept, arriving), "the arriving gradient belongs to somebody else"
    return found


@pytest.mark.parametrize("sizes", [[12, 12, 9, 7, 7, 3, 1], [5], [1, 1, 1, 1], [4, 4, 4], [6, 1]])
def test_states_and_gradients_are_those_of_torch(sizes):
    (states, gradients), (own, own_gradients) = both(sizes, torch.float64)
    torch.testing.assert_close(own, states, rtol=0, atol=1e-14)
    for mine, other in zip(own_gradients, gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-13)


def test_single_precision():
    sizes = [max(96 - 2 * step, 3) for step in range(60)]
    (states, gradients), (own, own_gradients) = both(sizes, torch.float32, width=64)
    torch.testing.assert_close(own, states, rtol=0, atol=2e-6)
    for mine, other in zip(own_gradients, gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=2e-6 * float(other.abs().max()))


def test_inputs_that_nobody_learns_from():
    (_, gradients), (_, own) = both([3, 2], torch.float64, needs_inputs=False)
    for mine, other in zip(own, gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-14)


def test_without_gradients_it_is_torchs():
    torch.manual_seed(0)
    gru, inputs = nn.GRU(4, 8), torch.randn(5, 4)
    with torch.no_grad():
        assert torch.equal(
            recurrence.run(gru, inputs, [3, 2]), gru(PackedSequence(inputs, torch.tensor([3, 2])))[0].data
        )
