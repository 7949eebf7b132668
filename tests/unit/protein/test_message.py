"""The hand-written message function against the same formula left to autograd."""

import itertools

import pytest
import torch
from torch.nn import functional

from lib.protein import message
from lib.protein.message import EdgeMessages, EmbedEdges, blocks, make_gather

RESIDUES, SLOTS, HIDDEN, ROWS = 23, 7, 16, 46


def inputs(dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    edges, own, table = draw(RESIDUES * SLOTS, HIDDEN), draw(RESIDUES, HIDDEN), draw(ROWS, HIDDEN)
    weights = [draw(HIDDEN, HIDDEN), draw(HIDDEN, HIDDEN), draw(HIDDEN), draw(HIDDEN, HIDDEN), draw(HIDDEN)]
    index = torch.randint(0, ROWS, (RESIDUES, SLOTS), generator=generator)
    valid = torch.rand(RESIDUES, SLOTS, generator=generator) < 0.8
    return edges, own, table, weights, index, valid


def reference(edges, own, table, index, valid, w_edge, w_2, b_2, w_4, b_4):
    p = edges @ w_edge + table[index].flatten(0, 1) + own.repeat_interleave(SLOTS, 0)
    m = functional.gelu(functional.gelu(p) @ w_2 + b_2)
    if valid is not None:
        m = m * valid.reshape(-1, 1)
    total = m.view(RESIDUES, SLOTS, HIDDEN).sum(1)
    return (total,) if w_4 is None else (total, edges + m @ w_4 + b_4)


@pytest.mark.parametrize("updates_edges", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("recompute", [True, False])
def test_values_and_gradients_equal_autograd(updates_edges, masked, recompute, monkeypatch):
    monkeypatch.setattr(message, "CPU_BLOCK_EDGES", 3 * SLOTS)  # eight blocks of two sizes
    edges, own, table, weights, index, valid = inputs(torch.float32)
    valid = valid if masked else None
    used = weights if updates_edges else [*weights[:3], None, None]
    leaves = [edges, own, table, *[w for w in used if w is not None]]
    expected = reference(edges, own, table, index, valid, *used)
    cotangents = [torch.randn_like(value) for value in expected]
    wanted = torch.autograd.grad(expected, leaves, cotangents)
    found = EdgeMessages.apply(edges, own, table, make_gather(index, ROWS, valid), recompute, *used)
    found = found if updates_edges else (found,)
    for value, other in zip(found, expected, strict=True):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-4)
    for gradient, other in zip(torch.autograd.grad(found, leaves, cotangents), wanted, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=2e-4 * float(other.abs().max()))


def test_bf16_stays_near_float32():
    edges, own, table, weights, index, valid = inputs(torch.float32)
    gather = make_gather(index, ROWS, valid)
    small = [w.detach() / HIDDEN**0.5 for w in weights]
    exact, _ = EdgeMessages.apply(edges, own, table, gather, False, *small)
    rough, _ = EdgeMessages.apply(edges.bfloat16(), own, table, gather, False, *small)
    assert rough.dtype == torch.float32
    assert float((exact - rough).detach().norm() / exact.detach().norm()) < 0.02


def test_gather_orders_every_edge_once():
    index = torch.tensor([[3, 0, 3], [1, 3, 0]])
    gather = make_gather(index, 5, None)
    assert gather.offsets.tolist() == [0, 2, 3, 3, 6]
    assert index.reshape(-1)[gather.order].tolist() == [0, 0, 1, 3, 3, 3]


def test_embedded_edges_equal_autograd():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 9, generator=generator)
    weight = torch.randn(9, HIDDEN, generator=generator).requires_grad_()
    table = torch.randn(5, HIDDEN, generator=generator).requires_grad_()
    rows = torch.randint(0, 4, (20, 3), generator=generator)  # row 4 is read by no edge
    spans = [slice(0, 24), slice(24, 60)]
    found = EmbedEdges.apply(weight, table, make_gather(rows, 5, None), [features[s] for s in spans], spans)
    expected = features @ weight + table[rows.reshape(-1)]
    torch.testing.assert_close(found, expected)
    cotangent = torch.randn(60, HIDDEN, generator=generator)
    for value, other in zip(
        torch.autograd.grad(found, (weight, table), cotangent),
        torch.autograd.grad(expected, (weight, table), cotangent),
        strict=True,
    ):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-4)


def test_blocks_cover_every_residue_and_have_few_sizes(monkeypatch):
    monkeypatch.setattr(message, "CPU_BLOCK_EDGES", 480)
    sizes = set()
    for residues in range(1, 400):
        parts = blocks(residues, 48, torch.device("cpu"))
        assert parts[0][0] == 0 and parts[-1][1] == residues
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
        assert all(span == slice(lo * 48, hi * 48) and 0 < hi - lo <= 10 for lo, hi, span in parts)
        lengths = {hi - lo for lo, hi, _ in parts}
        assert max(lengths) - min(lengths) <= 1
        sizes |= lengths
    assert len(sizes) == 10
