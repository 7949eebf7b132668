"""The first weights of a tiny model: random, but for one circuit that copies.

A network without training cannot take an id from where it was read, and learns it late and suddenly: two layers have to
agree (induction heads, Olsson et al. 2022, arXiv 2209.11895). Here they begin in agreement. The first layer's head 0
looks at the token before and writes what it was into a subspace of its own; the second layer's head 0 looks for places
whose token before was the present one, and adds what stands there to the prediction. Everything else, and from the
first step on this too, is learnt.
"""

import math

import torch
from torch import Tensor

# Score of an exact match over the square root of the head's width; larger is a sharper look.
SHARPNESS = 2.5
# How much the random rest says at first, and how loud the copy is.
QUIET, COPIED = 0.1, 6.0


@torch.no_grad()
def initialise(model, seed: int) -> None:
    """Give a Qwen3 model with tied embeddings and at least two layers its first weights; a function of the seed."""
    draw = torch.Generator().manual_seed(seed)
    config = model.config
    width, head = config.hidden_size, config.head_dim
    layers = model.model.layers
    for layer in layers:
        for name, parameter in layer.named_parameters():
            if parameter.ndim == 2:
                out = QUIET if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
                parameter.copy_(_normal(parameter.shape, draw) * (out / math.sqrt(parameter.shape[1])))
    embedding = model.get_input_embeddings().weight
    embedding.copy_(_normal(embedding.shape, draw) / math.sqrt(width))
    if len(layers) < 2:
        return
    # Something that every token has: what a look at a fixed distance can hold on to. As output weights it does nothing.
    constant = _orthonormal(width, 1, draw)[:, 0]
    embedding.sub_(torch.outer(embedding @ constant, constant)).add_(0.7 * constant)
    basis = _orthonormal(width, 2 * head + 1, draw)
    basis = basis - torch.outer(constant, constant @ basis)
    read, write = basis[:, :head], basis[:, head : 2 * head]
    before, match = layers[0].self_attn, layers[1].self_attn
    turns = _angles(config)
    look = torch.zeros(head)
    look[torch.topk(turns, 3).indices] = 1.0  # the first of each fast pair
    half = head // 2
    query = torch.zeros(head)
    query[:half], query[half:] = look[:half] * torch.cos(turns), -look[:half] * torch.sin(turns)
    before.q_proj.weight[:head] = torch.outer(query, constant)
    before.k_proj.weight[:head] = torch.outer(look, constant)
    before.v_proj.weight[:head] = read.T
    before.o_proj.weight[:, :head] = write / math.sqrt(width) * 2.0
    # Pairs that hardly turn over a whole episode carry the match.
    slow = torch.topk(-turns, half // 2).indices
    chosen = torch.cat([slow, slow + half])
    queries = config.num_attention_heads // config.num_key_value_heads
    copied = _orthonormal(width, min(config.num_key_value_heads * head, width), draw)
    match.q_norm.weight.fill_(SHARPNESS)
    for number in range(min(config.num_key_value_heads, width // head)):
        rows = slice(number * head, (number + 1) * head)
        asking = slice(number * queries * head, (number * queries + 1) * head)
        for projection, subspace, place in ((match.q_proj, read, asking), (match.k_proj, write, rows)):
            weight = torch.zeros(head, width)
            weight[chosen] = subspace.T[chosen]
            projection.weight[place] = weight
        match.v_proj.weight[rows] = copied[:, rows].T
        match.o_proj.weight[:, asking] = copied[:, rows] * (COPIED / math.sqrt(width))


def _angles(config) -> Tensor:
    """(head / 2,) how far each pair of a head turns from one token to the next."""
    half = config.head_dim // 2
    theta = config.rope_parameters["rope_theta"]
    return theta ** (-torch.arange(half) / half)


def _normal(shape, draw: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=draw)


def _orthonormal(rows: int, columns: int, draw: torch.Generator) -> Tensor:
    """(rows, columns) orthonormal columns."""
    return torch.linalg.qr(_normal((rows, columns), draw))[0]
