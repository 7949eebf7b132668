"""A GRU over whole episodes without padding, forward and backward, as few large steps.

On the CPU the backward pass of torch's own makes a tensor of zeros as large as the whole batch for each step, and
multiplies the gradients of the weights out step by step. Here what does not depend on the step before is done for all
steps at once: the products with the inputs, and the gradients of the weights. On GPUs, and where there is no backward
pass, torch's own is better.

With x the input, h the state before, r, z, n the gates (Cho et al. 2014, arXiv 1406.1078, in the form of torch.nn.GRU):

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        m = W_hn h + b_hn
    z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)        n = tanh(W_in x + b_in + r m)        h' = n + z (h - n)
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence


def run(gru: nn.GRU, inputs: Tensor, sizes: list[int]) -> Tensor:
    """States of a GRU of one layer that begins with zeros: (rows, in) -> (rows, hidden).

    sizes: how many sequences have a first, a second ... step, never more than before; their rows lie step behind step,
    as in torch's PackedSequence. One layer, with biases, in one direction and one precision; once differentiable.
    """
    assert gru.num_layers == 1 and gru.bias and not gru.bidirectional, "expected a plain GRU of one layer"
    if inputs.device.type != "cpu" or not torch.is_grad_enabled():
        return gru(PackedSequence(inputs, torch.tensor(sizes)))[0].data
    return _Recurrence.apply(inputs, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0, sizes)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, inputs: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, sizes: list[int]
    ) -> Tensor:
        width = w_hh.shape[1]
        both = 2 * width  # the columns of r and z
        # tanh(x) = 2 sigmoid(2 x) - 1, of which torch's tanh is five times as slow: the part of n is doubled.
        doubled = torch.cat([torch.ones(both, dtype=b_ih.dtype), torch.full((width,), 2.0, dtype=b_ih.dtype)])
        # The constants of r and z are added here, that of m belongs to each step's product.
        constant = (b_ih + torch.cat([b_hh[:both], b_hh.new_zeros(width)])) * doubled
        inner = torch.addmm(constant, inputs, w_ih.t() * doubled)
        offset, minus_one = torch.cat([b_hh.new_zeros(both), b_hh[both:]]), -torch.ones((), dtype=b_hh.dtype)
        gates, states = torch.empty_like(inner), inputs.new_empty(len(inputs), width)  # r, z, m and the state after
        transposed, before = w_hh.t(), inputs.new_zeros(sizes[0], width)
        for given_r_z, new, gate, r_z, r, z, m, state in zip(
            inner[:, :both].split(sizes), inner[:, both:].split(sizes), gates.split(sizes),
            gates[:, :both].split(sizes), *(part.split(sizes) for part in gates.split(width, 1)), states.split(sizes),
        ):  # fmt: skip
            before = before[: len(state)]
            torch.addmm(offset, before, transposed, out=gate)
            r_z.add_(given_r_z).sigmoid_()
            new.addcmul_(r, m, value=2.0).sigmoid_()
            torch.add(minus_one, new, alpha=2.0, out=new)
            before = torch.lerp(new, before, z, out=state)
        ctx.save_for_backward(inputs, w_ih, w_hh, gates, inner[:, both:], states)
        ctx.sizes = sizes
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):
        inputs, w_ih, w_hh, gates, new, states = ctx.saved_tensors
        sizes, width = ctx.sizes, w_hh.shape[1]
        first = sizes[0]
        # Of n, z, r, m before their functions: the first three go to the inputs, the last three to the states before.
        inner = gradient.new_empty(len(gradient), 4 * width)
        to_inputs, to_states = inner[:, : 3 * width], inner[:, width:]
        back = torch.cat([w_hh[width : 2 * width], w_hh[:width], w_hh[2 * width :]])
        kept, spare = gradient.new_empty(2, first, width)
        steps = [part.split(sizes) for part in (gradient.clone(), states, new, to_states)]
        steps += [part.split(sizes) for matrix in (gates, inner) for part in matrix.split(width, 1)]
        nothing, carried = states.new_zeros(first, width), gradient.new_empty(0, width)
        for number in range(len(sizes) - 1, -1, -1):
            arriving, _, n, back_going, r, z, m, of_n, of_z, of_r, of_m = (part[number] for part in steps)
            size = sizes[number]
            before, by_z, product = steps[1][number - 1][:size] if number else nothing, kept[:size], spare[:size]
            arriving[: len(carried)].add_(carried)
            torch.mul(arriving, z, out=by_z)
            _tanh_backward(torch.sub(arriving, by_z, out=product), n, grad_input=of_n)
            _sigmoid_backward(torch.sub(before, n, out=product).mul_(arriving), z, grad_input=of_z)
            _sigmoid_backward(torch.mul(of_n, m, out=product), r, grad_input=of_r)
            torch.mul(of_n, r, out=of_m)
            if number:
                carried = torch.addmm(by_z, back_going, back)
        d_inputs = None
        if ctx.needs_input_grad[0]:
            d_inputs = to_inputs @ torch.cat([w_ih[2 * width :], w_ih[width : 2 * width], w_ih[:width]])
        d_n, d_z, d_r = (to_inputs.t() @ inputs).split(width)
        of_z, of_r, of_m = (to_states[first:].t() @ states[_rows_before(sizes)]).split(width)
        b_n, b_z, b_r, b_m = inner.sum(0).split(width)
        return (d_inputs, torch.cat([d_r, d_z, d_n]), torch.cat([of_r, of_z, of_m]), torch.cat([b_r, b_z, b_n]),
                torch.cat([b_r, b_z, b_m]), None)  # fmt: skip


_tanh_backward, _sigmoid_backward = torch.ops.aten.tanh_backward.grad_input, torch.ops.aten.sigmoid_backward.grad_input


def _rows_before(sizes: list[int]) -> Tensor:
    """For every row from the second step on the row of the same sequence's step before."""
    sizes = torch.tensor(sizes)
    back = torch.repeat_interleave(sizes[:-1], sizes[1:])
    return torch.arange(int(sizes[0]), int(sizes[0]) + len(back)) - back
