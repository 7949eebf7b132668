"""The decoder's forward as the engine runs it: packed tokens, static keys and values, few operations a layer."""

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.grpo.engine.attention import attend, join
from lib.grpo.engine.weights import LayerWeights, Norm, Projection, causal_lm, check_structure


@dataclass
class Segment:
    """Rows with equally many new tokens after equally many own ones, to be prefilled together.

    ids (rows, tokens); keys_values per layer (rows, 2 kv_heads, capacity, head_dim), where the new ones are written
    from `start` on; prefix per layer (1, 2 kv_heads, length, head_dim), or None, comes before a row's own.
    """

    ids: Tensor
    keys_values: list[Tensor]
    start: int
    prefix: list[Tensor] | None
    prefix_length: int


@dataclass
class DecodeStep:
    """Where the next token of each row stands.

    stores per layer (slots, 2 kv_heads, capacity, head_dim), rows being slots 0 to rows - 1; keys and values their
    views (rows, kv_heads, capacity, head_dim); lengths (rows,) own tokens before this one;
    positions (rows,) tokens of the conversation before it; longest = the largest of `lengths`; `equal`: all are equal;
    mask (rows, 1, 1, >= longest + 1), zero where a row has a key, or None when equal; groups: neighbouring rows
    [first, stop) that are attended together, and how many tokens their longest is behind `longest`; prefixes:
    (per-layer prefix as in `Segment`, slots that have it or None for all).
    """

    stores: list[Tensor]
    keys: list[Tensor]
    values: list[Tensor]
    lengths: Tensor
    positions: Tensor
    longest: int
    equal: bool
    mask: Tensor | None
    groups: list[tuple[int, int, int]]
    prefixes: list[tuple[list[Tensor], Tensor | None]]


class Decoder:
    """Own forward over the weights of a Hugging Face causal LM. UserError when the architecture does not fit."""

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None) -> None:
        self.lm = causal_lm(model)
        check_structure(self.lm)
        body = self.lm.model
        self.dtype = dtype or body.embed_tokens.weight.dtype
        self.device = body.embed_tokens.weight.device
        self.layers = [LayerWeights(layer, self.dtype) for layer in body.layers]
        self.final_norm = Norm.of(body.norm, self.dtype)
        self.head = Projection([self.lm.lm_head], self.dtype)
        first = self.layers[0]
        self.heads, self.kv_heads, self.head_dim = first.heads, first.kv_heads, first.head_dim
        self.vocabulary = self.head.weight.shape[0]
        self.cosine = self.sine = torch.empty(0, 1, self.head_dim, dtype=self.dtype, device=self.device)
        self.refresh()

    def refresh(self) -> None:
        for layer in self.layers:
            layer.refresh()
        self.final_norm.refresh()
        self.head.refresh()
        self.embedding = self.lm.model.embed_tokens.weight.data  # (vocabulary, hidden)
        self.cosine, self.sine = self.cosine[:0], self.sine[:0]

    def reach(self, positions: int) -> None:
        """Makes the rotary tables long enough for positions 0 to `positions` - 1."""
        if positions <= self.cosine.shape[0]:
            return
        length = -(-positions * 3 // 2 // 256) * 256
        places = torch.arange(length, device=self.device).unsqueeze(0)
        cosine, sine = self.lm.model.rotary_emb(torch.empty(0, dtype=self.dtype, device=self.device), places)
        assert cosine.shape[-1] == self.head_dim, "the rotary embedding covers a part of the head only"
        half = self.head_dim // 2
        # rotate_half as a swap of halves: the sign goes into the table.
        sine = torch.cat([-sine[..., :half], sine[..., half:]], -1)
        self.cosine, self.sine = cosine[0].unsqueeze(1), sine[0].unsqueeze(1)  # (positions, 1, head_dim)

    def forward(self, ids: Tensor, positions: Tensor, attention, kept: Tensor | None = None) -> Tensor:
        """Hidden states (tokens, hidden) of ids (tokens,) at positions (tokens,), or of the tokens `kept` only.

        attention(layer, qkv (tokens, heads + 2 kv_heads, head_dim)) stores keys and values and returns
        (tokens, heads * head_dim), in the last layer of the tokens `kept`: nothing after it needs the others.
        """
        hidden = functional.embedding(ids, self.embedding).to(self.dtype)  # (tokens, hidden)
        cosine, sine = self.cosine[positions], self.sine[positions]  # (tokens, 1, head_dim)
        rotated, half = self.heads + self.kv_heads, self.head_dim // 2
        for number, layer in enumerate(self.layers):
            normed = rms_norm(hidden, layer.before_attention)
            qkv = layer.qkv(normed).view(-1, rotated + self.kv_heads, self.head_dim)
            turned = qkv[:, :rotated]
            if layer.query_key_weight is not None:
                rms_norm_(turned, layer.query_key_weight, layer.query_norm)
            if layer.rotates:
                swapped = turned.roll(half, -1)
                turned.mul_(cosine).addcmul_(swapped, sine)
            attended = attention(number, qkv)
            if kept is not None and number == len(self.layers) - 1:
                hidden = hidden[kept]
            hidden = layer.out.added_to(hidden, attended)
            normed = rms_norm(hidden, layer.before_mlp)
            gate, up = layer.gate_up(normed).chunk(2, -1)
            hidden = layer.down.added_to(hidden, functional.silu(gate).mul_(up))
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """(rows, hidden) -> (rows, vocabulary)."""
        return self.head(rms_norm(hidden, self.final_norm))

    def decode(self, ids: Tensor, step: DecodeStep) -> Tensor:
        """Logits (rows, vocabulary) after one more token of each row, ids (rows,)."""
        rows, known, group = ids.shape[0], step.longest + 1, self.heads // self.kv_heads
        if not step.equal:
            capacity = step.stores[0].shape[2]
            places = torch.arange(rows * 2 * self.kv_heads, device=ids.device).view(rows, -1) * capacity
            places = (places + step.lengths.unsqueeze(1)).view(-1)  # (rows * 2 kv_heads,)

        def attention(number: int, qkv: Tensor) -> Tensor:
            store, scale = step.stores[number], self.layers[number].scale
            if step.equal:
                store[:rows, :, step.longest] = qkv[:, self.heads :]
            else:
                store.view(-1, self.head_dim).index_copy_(0, places, qkv[:, self.heads :].reshape(-1, self.head_dim))
            query = qkv[:, : self.heads].view(rows, self.kv_heads, group, self.head_dim)
            own = self._attend_own(query, step.keys[number], step.values[number], known, step, scale)
            for prefix, slots in step.prefixes:
                own = self._with_prefix(own, query, prefix[number], slots, scale)
            return own[0].reshape(rows, -1)

        return self.logits(self.forward(ids, step.positions, attention))

    def _attend_own(self, query: Tensor, key: Tensor, value: Tensor, known: int, step: DecodeStep, scale: float):
        """Attention and log-sum-exp over the rows' own tokens, `known` in the longest row."""
        if step.equal:
            return attend(query, key.narrow(2, 0, known), value.narrow(2, 0, known), scale)
        parts = []
        for first, stop, behind in step.groups:
            some, width = slice(first, stop), known - behind
            mask = step.mask[some, :, :, :width] if stop - first > 1 else None
            parts.append(attend(query[some], key[some, :, :width], value[some, :, :width], scale, mask))
        return parts[0] if len(parts) == 1 else tuple(torch.cat(pieces) for pieces in zip(*parts))

    def _with_prefix(self, own, query: Tensor, prefix: Tensor, slots: Tensor | None, scale: float):
        """Joins the attention of the rows in `slots` over their common prefix, read once for all of them."""
        part = self._attend_prefix(query if slots is None else query[slots], prefix, scale)
        if slots is None:
            return join(own, part, last=True)
        joined, _ = join((own[0][slots], own[1][slots]), part, last=True)
        return own[0].index_copy(0, slots, joined), own[1]

    def prefill(self, segments: list[Segment]) -> Tensor:
        """Writes the keys and values of all segments; returns the last tokens' hidden states (rows of all, hidden)."""
        ids = torch.cat([segment.ids.reshape(-1) for segment in segments])
        places, last, end = [], [], 0
        for segment in segments:
            rows, tokens = segment.ids.shape
            first = segment.prefix_length + segment.start
            places.append(torch.arange(first, first + tokens, device=ids.device).repeat(rows))
            last.append(torch.arange(end + tokens - 1, end + rows * tokens, tokens, device=ids.device))
            end += rows * tokens
            self.reach(first + tokens)

        def attention(number: int, qkv: Tensor) -> Tensor:
            final, parts, begin = number == len(self.layers) - 1, [], 0
            for segment in segments:
                stop = begin + segment.ids.numel()
                parts.append(self._attend_segment(number, qkv[begin:stop], segment, final))
                begin = stop
            return torch.cat(parts)

        return self.forward(ids, torch.cat(places), attention, torch.cat(last))

    def _attend_segment(self, number: int, qkv: Tensor, segment: Segment, final: bool) -> Tensor:
        """(rows * tokens, heads * head_dim): over the row's earlier tokens, causally over the new, over the prefix.

        final: of the last token of each row only, (rows, heads * head_dim).
        """
        rows, tokens = segment.ids.shape
        start, kv_heads, group = segment.start, self.kv_heads, self.heads // self.kv_heads
        # (rows, heads + 2 kv_heads, tokens, head_dim)
        block = qkv.view(rows, tokens, -1, self.head_dim).transpose(1, 2)
        store, new, scale = segment.keys_values[number], block[:, self.heads :], self.layers[number].scale
        store[:, :, start : start + tokens] = new
        if final:
            query = block[:, : self.heads, -1:].contiguous()  # sees everything that is stored
            start += tokens
        else:
            query = block[:, : self.heads].contiguous()
        asking = query.shape[2]
        # The query heads of one kv head as more queries of it: its keys are read once for all.
        grouped = query.view(rows, kv_heads, group * asking, self.head_dim)
        parts = []
        if start:
            out, lse = attend(grouped, store[:, :kv_heads, :start], store[:, kv_heads:, :start], scale)
            parts.append((out.reshape(query.shape), lse.reshape(query.shape[:-1])))
        if not final:
            key, value = (part.repeat_interleave(group, 1) for part in (new[:, :kv_heads], new[:, kv_heads:]))
            parts.append(attend(query, key, value, scale, causal=True))
        if segment.prefix is not None:
            out, lse = self._attend_prefix(grouped, segment.prefix[number], scale)
            parts.append((out.reshape(query.shape), lse.reshape(query.shape[:-1])))
        return reduce(join, parts)[0].transpose(1, 2).reshape(rows * asking, -1)

    def _attend_prefix(self, query: Tensor, prefix: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Attention (rows, kv_heads, queries, head_dim) and log-sum-exp (rows, kv_heads, queries) over one prefix
        (1, 2 kv_heads, length, head_dim), read once for all rows."""
        rows, kv_heads, asking, head_dim = query.shape
        together = query.transpose(0, 1).reshape(1, kv_heads, rows * asking, head_dim)
        out, lse = attend(together, prefix[:, :kv_heads], prefix[:, kv_heads:], scale)
        out = out.view(kv_heads, rows, asking, head_dim).transpose(0, 1)
        return out, lse.view(kv_heads, rows, asking).transpose(0, 1)


def rms_norm(x: Tensor, norm: Norm) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * weight over the last dimension. (Zhang, Sennrich 2019.)"""
    if x.dtype == torch.float32 and x.device.type == "cpu":
        return (x * _inverse_rms(x, norm.epsilon_tensor)).mul_(norm.weight)
    return functional.rms_norm(x, x.shape[-1:], None, norm.epsilon) * norm.weight


def rms_norm_(x: Tensor, weight: Tensor, norm: Norm) -> Tensor:
    """`rms_norm` in place, with another weight."""
    if x.dtype == torch.float32 and x.device.type == "cpu":
        return x.mul_(_inverse_rms(x, norm.epsilon_tensor)).mul_(weight)
    return x.copy_(functional.rms_norm(x, x.shape[-1:], None, norm.epsilon) * weight)


def _inverse_rms(x: Tensor, epsilon: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return torch.addcmul(epsilon, length, length, value=1 / x.shape[-1]).rsqrt_()
