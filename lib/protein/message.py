"""The edge computation of a message layer as one differentiable function, in blocks that stay in cache.

For an edge i <- j with state e_ij, node terms a_i and t_j, and g the GELU:

    p_ij  = W_e e_ij + a_i + t_j
    q_ij  = W_2 g(p_ij) + b_2
    s_i   = sum_j g(q_ij)                 message sum; its output projection is applied by the caller, per node
    e'_ij = e_ij + W_4 g(q_ij) + b_4      only where the layer updates its edges

W_e, a_i and t_j are the parts of one linear layer over the concatenation [e_ij, h_i, h_j], split so that the node parts
are computed once per node. Written out by hand because PyTorch's composition of the same operations moves each
(residues x slots, hidden) tensor through memory a dozen times and keeps twice as many for backward.
"""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

CPU_BLOCK_EDGES = 4096


@dataclass(slots=True)
class Gather:
    """Which row of the node-term table every edge reads, and the same by row for the backward sum.

    index: (residues, slots); order: (edges,) edges sorted by row; offsets: (rows,) start of each row in `order`;
    valid: (residues, slots) bool, None = all.
    """

    index: Tensor
    order: Tensor
    offsets: Tensor
    valid: Tensor | None

    def blocks(self) -> list[tuple[int, int, slice]]:
        """As the function `blocks`, for this graph."""
        return blocks(*self.index.shape, self.index.device)


def make_gather(index: Tensor, rows: int, valid: Tensor | None) -> Gather:
    """Sort the edges by the table row they read. index: (residues, slots) int64 in 0..rows-1."""
    sorted_rows, order = index.reshape(-1).sort(stable=True)
    offsets = torch.searchsorted(sorted_rows, torch.arange(rows, device=index.device))
    return Gather(index, order, offsets, valid)


def blocks(residues: int, slots: int, device: torch.device) -> list[tuple[int, int, slice]]:
    """(first residue, last + 1, their edges as a slice): one block on an accelerator, cache-sized ones on a CPU.

    The blocks of a batch are equal but for one residue: the CPU's bf16 matrix product compiles a kernel for every new
    number of rows, 2 ms and a quarter MiB each, so batches of all sizes have to lead to few of them.
    """
    count = 1 if device.type != "cpu" else -(-residues * slots // CPU_BLOCK_EDGES)
    limits = [number * residues // count for number in range(count + 1)]
    return [(lo, hi, slice(lo * slots, hi * slots)) for lo, hi in itertools.pairwise(limits) if hi > lo]


def _pre_activations(edges, own, table, index, w_edge, w_2, b_2, p, q) -> None:
    """Fill p and q (edges, hidden) of one block; own (residues, hidden), index (residues, slots)."""
    residues, slots = index.shape
    torch.mm(edges, w_edge, out=p)
    p += table.index_select(0, index.reshape(-1))
    p.view(residues, slots, -1).add_(own[:, None])
    torch.addmm(b_2, functional.gelu(p), w_2, out=q)


def _message(q: Tensor, valid: Tensor | None) -> Tensor:
    """g(q), zero in slots that no neighbour fills; (edges, hidden)."""
    message = functional.gelu(q)
    return message if valid is None else _silence(message, valid)


def _silence(values: Tensor, valid: Tensor) -> Tensor:
    """Zero, in place, the rows of slots that no neighbour fills."""
    return values.mul_(valid.reshape(-1, 1))


class EdgeMessages(torch.autograd.Function):
    """See the module docstring. Node terms and weights arrive in float32, edges in the compute type.

    With `recompute`, backward computes p and q again instead of keeping them: two (edges, hidden) tensors less.
    """

    @staticmethod
    def forward(ctx, edges, own, table, gather, recompute, w_edge, w_2, b_2, w_4, b_4):
        """edges (residues*slots, hidden); own (rows, hidden); table (table rows, hidden); weights (in, out).

        Rows of `own` beyond the residues of the gather have no edges. Returns s like own, in float32, and, where w_4 is
        given, e' like edges.
        """
        dtype = edges.dtype
        slots = gather.index.shape[1]
        own, table = own.to(dtype), table.to(dtype)
        w_edge, w_2, b_2, w_4, b_4 = (None if w is None else w.to(dtype) for w in (w_edge, w_2, b_2, w_4, b_4))
        first, second = (None, None) if recompute else (torch.empty_like(edges), torch.empty_like(edges))
        total = torch.zeros_like(own, dtype=torch.float32)
        new_edges = None if w_4 is None else torch.empty_like(edges)
        for lo, hi, span in gather.blocks():
            here = edges[span]
            p, q = (torch.empty_like(here), torch.empty_like(here)) if recompute else (first[span], second[span])
            _pre_activations(here, own[lo:hi], table, gather.index[lo:hi], w_edge, w_2, b_2, p, q)
            message = _message(q, None if gather.valid is None else gather.valid[lo:hi])
            torch.sum(message.view(hi - lo, slots, -1), 1, dtype=torch.float32, out=total[lo:hi])
            if new_edges is not None:
                torch.addmm(here, message, w_4, out=new_edges[span])
                new_edges[span] += b_4
        ctx.gather = gather
        ctx.save_for_backward(edges, first, second, own, table, w_edge, w_2, b_2, w_4)
        return total if new_edges is None else (total, new_edges)

    @staticmethod
    def backward(ctx, d_total, d_new_edges=None):
        edges, first, second, own, table, w_edge, w_2, b_2, w_4 = ctx.saved_tensors
        gather, hidden, dtype = ctx.gather, edges.shape[1], edges.dtype
        slots = gather.index.shape[1]
        d_total = d_total.to(dtype)
        d_new_edges = None if w_4 is None else d_new_edges.contiguous()
        d_first, d_edges = torch.empty_like(edges), torch.empty_like(edges)
        d_own = torch.zeros_like(own, dtype=torch.float32)
        d_w_edge, d_w_2, d_w_4 = edges.new_zeros(3, hidden, hidden, dtype=torch.float32)
        d_b_2, d_b_4 = edges.new_zeros(2, hidden, dtype=torch.float32)
        for lo, hi, span in gather.blocks():
            here, d_p = edges[span], d_first[span]
            if first is None:
                p, q = torch.empty_like(here), torch.empty_like(here)
                _pre_activations(here, own[lo:hi], table, gather.index[lo:hi], w_edge, w_2, b_2, p, q)
            else:
                p, q = first[span], second[span]
            valid = None if gather.valid is None else gather.valid[lo:hi]
            d_message = d_total[lo:hi, None].repeat(1, slots, 1).view(-1, hidden)
            if w_4 is not None:
                d_out = d_new_edges[span]
                d_w_4 += _message(q, valid).t() @ d_out
                d_b_4 += d_out.sum(0, dtype=torch.float32)
                d_message.addmm_(d_out, w_4.t())
            if valid is not None:
                _silence(d_message, valid)
            d_q = torch.ops.aten.gelu_backward(d_message, q)
            d_w_2 += functional.gelu(p).t() @ d_q
            d_b_2 += d_q.sum(0, dtype=torch.float32)
            torch.ops.aten.gelu_backward.grad_input(d_q @ w_2.t(), p, grad_input=d_p)
            d_w_edge += here.t() @ d_p
            torch.sum(d_p.view(hi - lo, slots, hidden), 1, dtype=torch.float32, out=d_own[lo:hi])
            if w_4 is None:
                torch.mm(d_p, w_edge.t(), out=d_edges[span])
            else:
                torch.addmm(d_out, d_p, w_edge.t(), out=d_edges[span])
        d_table = functional.embedding_bag(gather.order, d_first, gather.offsets, mode="sum").float()
        if w_4 is None:
            d_w_4 = d_b_4 = None
        return d_edges, d_own, d_table, None, None, d_w_edge, d_w_2, d_b_2, d_w_4, d_b_4


class EmbedEdges(torch.autograd.Function):
    """Edge features times a weight, plus a table row per edge; the features are made in blocks and need no gradient.

    The gradient of the table is summed in float32 over edges sorted by row; PyTorch's own for an embedding adds
    thousands of them up in bf16.
    """

    @staticmethod
    def forward(ctx, weight, table, rows, features, spans):
        """weight (in, hidden) and table (table rows, hidden) float32; rows: Gather of the table row of every edge.

        features: one (edges of the block, in) tensor per block, in the compute type of the result; spans: their slices.
        """
        dtype = features[0].dtype
        low, low_table, index = weight.to(dtype), table.to(dtype), rows.index.reshape(-1)
        out = low.new_empty(len(index), weight.shape[1])
        for block, span in zip(features, spans, strict=True):
            torch.mm(block, low, out=out[span])
            out[span] += low_table.index_select(0, index[span])
        ctx.rows, ctx.features, ctx.spans, ctx.inputs = rows, features, spans, len(weight)
        return out

    @staticmethod
    def backward(ctx, d_out):
        d_out = d_out.contiguous()
        d_weight = torch.zeros(ctx.inputs, d_out.shape[1], dtype=torch.float32, device=d_out.device)
        for block, span in zip(ctx.features, ctx.spans, strict=True):
            d_weight += block.t() @ d_out[span]
        d_table = functional.embedding_bag(ctx.rows.order, d_out, ctx.rows.offsets, mode="sum").float()
        return d_weight, d_table, None, None, None
