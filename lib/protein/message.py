"""The edge computation of a message layer as one differentiable function, in blocks that stay in cache.

For an edge i <- j with state e_ij, node terms a_i and t_j:

    p_ij = W_e e_ij + a_i + t_j
    q_ij = W_2 g(p_ij) + b_2
    s_i  = sum_j g(q_ij)                      message sum; its output projection is applied by the caller, per node
    e'_ij = e_ij + W_4 g(q_ij) + b_4          only where the layer updates its edges

W_e, a_i and t_j are the parts of one linear layer over the concatenation [e_ij, h_i, h_j], split so that the node parts
are computed once per node. Written out by hand because PyTorch's composition of the same operations moves each
(residues x slots, hidden) tensor through memory a dozen times and keeps twice as many for backward.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

CPU_BLOCK_EDGES = 4096


@dataclass(slots=True)
class Gather:
    """Which row of the node-term table every edge reads, and the same by row for the backward sum.

    index: (residues, slots); order: (edges,) edges sorted by row; offsets: (rows,) start of each row in `order`.
    """

    index: Tensor
    order: Tensor
    offsets: Tensor
    valid: Tensor | None  # (residues, slots) bool; None = all


def make_gather(index: Tensor, rows: int, valid: Tensor | None) -> Gather:
    """Sort the edges by the table row they read. index: (residues, slots) int64 in 0..rows-1."""
    flat = index.reshape(-1)
    sorted_rows, order = flat.sort(stable=True)
    offsets = torch.searchsorted(sorted_rows, torch.arange(rows, device=flat.device))
    return Gather(index, order, offsets, valid)


def block_residues(residues: int, slots: int, device: torch.device) -> int:
    """Residues per block: everything at once on an accelerator, about CPU_BLOCK_EDGES edges on a CPU."""
    return residues if device.type != "cpu" else max(1, CPU_BLOCK_EDGES // slots)


class EdgeMessages(torch.autograd.Function):
    """See the module docstring. Node terms and weights arrive in float32, edges in the compute type."""

    @staticmethod
    def forward(ctx, edges, own, table, gather, w_edge, w_2, b_2, w_4, b_4):
        """edges (residues*slots, hidden); own (residues, hidden); table (rows, hidden); weights (in, out)."""
        dtype = edges.dtype
        residues, slots = gather.index.shape
        hidden = edges.shape[1]
        own, table = own.to(dtype), table.to(dtype)
        low = [None if w is None else w.to(dtype) for w in (w_edge, w_2, b_2, w_4, b_4)]
        first, second = torch.empty_like(edges), torch.empty_like(edges)
        total = own.new_empty(residues, hidden, dtype=torch.float32)
        new_edges = None if w_4 is None else torch.empty_like(edges)
        step = block_residues(residues, slots, edges.device)
        for lo in range(0, residues, step):
            hi = min(lo + step, residues)
            span = slice(lo * slots, hi * slots)
            p, q = first[span], second[span]
            torch.mm(edges[span], low[0], out=p)
            p += table.index_select(0, gather.index[lo:hi].reshape(-1))
            p.view(hi - lo, slots, hidden).add_(own[lo:hi, None])
            torch.addmm(low[2], functional.gelu(p), low[1], out=q)
            message = functional.gelu(q)
            if gather.valid is not None:
                message.view(hi - lo, slots, hidden).mul_(gather.valid[lo:hi, :, None])
            torch.sum(message.view(hi - lo, slots, hidden), 1, dtype=torch.float32, out=total[lo:hi])
            if new_edges is not None:
                torch.addmm(edges[span], message, low[3], out=new_edges[span])
                new_edges[span] += low[4]
        ctx.gather = gather
        ctx.table_rows = len(table)
        ctx.has_update = w_4 is not None
        saved = [edges, first, second, low[0], low[1]]
        ctx.save_for_backward(*saved, *([low[3]] if ctx.has_update else []))
        return (total, new_edges) if ctx.has_update else total

    @staticmethod
    def backward(ctx, d_total, d_new_edges=None):
        edges, first, second, w_edge, w_2, *rest = ctx.saved_tensors
        gather = ctx.gather
        dtype, hidden = edges.dtype, edges.shape[1]
        residues, slots = gather.index.shape
        d_total = d_total.to(dtype)
        d_new_edges = d_new_edges.contiguous() if ctx.has_update else None
        d_first, d_edges = torch.empty_like(edges), torch.empty_like(edges)
        d_own = d_total.new_empty(residues, hidden, dtype=torch.float32)
        zeros = lambda *shape: edges.new_zeros(*shape, dtype=torch.float32)  # noqa: E731
        d_w_edge, d_w_2, d_b_2 = zeros(hidden, hidden), zeros(hidden, hidden), zeros(hidden)
        d_w_4, d_b_4 = (zeros(hidden, hidden), zeros(hidden)) if ctx.has_update else (None, None)
        step = block_residues(residues, slots, edges.device)
        for lo in range(0, residues, step):
            hi = min(lo + step, residues)
            span = slice(lo * slots, hi * slots)
            p, q = first[span], second[span]
            d_message = d_total[lo:hi, None].repeat(1, slots, 1).view(-1, hidden)
            if ctx.has_update:
                d_out = d_new_edges[span]
                message = functional.gelu(q)
                if gather.valid is not None:
                    message.view(hi - lo, slots, hidden).mul_(gather.valid[lo:hi, :, None])
                d_w_4 += message.t() @ d_out
                d_b_4 += d_out.sum(0, dtype=torch.float32)
                d_message.addmm_(d_out, rest[0].t())
            if gather.valid is not None:
                d_message.view(hi - lo, slots, hidden).mul_(gather.valid[lo:hi, :, None])
            d_q = torch.ops.aten.gelu_backward(d_message, q)
            d_w_2 += functional.gelu(p).t() @ d_q
            d_b_2 += d_q.sum(0, dtype=torch.float32)
            d_p = d_first[span]
            torch.ops.aten.gelu_backward.grad_input(d_q @ w_2.t(), p, grad_input=d_p)
            d_w_edge += edges[span].t() @ d_p
            torch.sum(d_p.view(hi - lo, slots, hidden), 1, dtype=torch.float32, out=d_own[lo:hi])
            if ctx.has_update:
                torch.addmm(d_out, d_p, w_edge.t(), out=d_edges[span])
            else:
                torch.mm(d_p, w_edge.t(), out=d_edges[span])
        d_table = functional.embedding_bag(gather.order, d_first, gather.offsets, mode="sum").float()
        return d_edges, d_own, d_table, None, d_w_edge, d_w_2, d_b_2, d_w_4, d_b_4
