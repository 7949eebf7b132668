"""The rows being played: keys and values, logits, random numbers and sampled tokens, one slot each."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from lib.grpo.engine.conversation import Conversation, Sampling
from lib.grpo.engine.decoder import Decoder, DecodeStep, Segment
from lib.grpo.engine.sampling import uniforms

_BUCKET = 64
# Keys that must be spared before it pays to attend to rows in one more call on CPU.
_SPARED = 256


@dataclass(eq=False)
class Prefix:
    """Ids that several rows begin with, computed once: keys and values per layer (1, 2 kv_heads, length, head_dim),
    and the logits (1, vocabulary) after the last of them."""

    keys_values: list[Tensor]
    length: int
    logits: Tensor


@dataclass(eq=False)
class Row:
    """A conversation in its slot. `own` of its ids lay in the slot when the turn began, after the prefix's elsewhere.

    `began` is the clock (decode steps so far) at that moment, `budget` the most tokens of the turn, `pending` ids that
    are still to be prefilled.
    """

    conversation: Conversation
    prefix: Prefix | None
    own: int
    began: int = 0
    budget: int = 0
    pending: list[int] = field(default_factory=list)
    waits: int = 0  # ids in the slot of a row that waits for an answer, whatever the clock says

    @property
    def length(self) -> int:
        """Ids of the conversation when the turn began."""
        return self.own + (self.prefix.length if self.prefix else 0)

    def own_at(self, clock: int) -> int:
        """Ids in the slot now: one more with each step of the turn."""
        return self.waits or self.own + clock - self.began


class Slots:
    """Static buffers for `count` rows; the rows in play are always slots 0 to n - 1. Grows in buckets of tokens."""

    def __init__(self, decoder: Decoder, count: int, sampling: Sampling) -> None:
        self.decoder, self.count = decoder, count
        self.capacity = 0
        device = decoder.device
        self.keys_values = [self._store(0) for _ in decoder.layers]
        self.logits = torch.empty(count, decoder.vocabulary, dtype=decoder.dtype, device=device)
        turn = sampling.max_new_tokens
        self.uniforms = torch.zeros(count, turn, dtype=torch.float64, device=device)
        self.tokens = torch.zeros(count, turn, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(count, turn, dtype=torch.float32, device=device)
        self.turn_places = torch.arange(turn, device=device)

    def _store(self, capacity: int) -> Tensor:
        """Zeros: a mask of -inf on a key that holds a nan would not hide it."""
        decoder = self.decoder
        shape = (self.count, 2 * decoder.kv_heads, capacity, decoder.head_dim)
        return torch.zeros(shape, dtype=decoder.dtype, device=decoder.device)

    def reserve(self, tokens: int) -> None:
        """Room for `tokens` own tokens a row; grows by half at least, layer after layer."""
        if tokens <= self.capacity:
            return
        capacity = -(-max(tokens, self.capacity * 3 // 2) // _BUCKET) * _BUCKET
        for number, old in enumerate(self.keys_values):
            grown = self._store(capacity)
            grown[:, :, : self.capacity] = old
            self.keys_values[number] = grown
        self.capacity = capacity

    def begin_turns(self, turns: list[tuple[int, Row]]) -> None:
        """Random numbers for the turns that begin in these slots."""
        if not turns:
            return
        device = self.uniforms.device
        slots = torch.tensor([slot for slot, _ in turns], device=device)
        noise = torch.tensor([[row.conversation.noise] for _, row in turns], dtype=torch.int64, device=device)
        first = torch.tensor([[row.length] for _, row in turns], device=device)
        self.uniforms[slots] = uniforms(noise, first + self.turn_places)

    def open(self, slots: list[int], opening: Prefix) -> None:
        """Copies the keys, values and logits of an opening into slots."""
        self.reserve(opening.length)
        places = torch.tensor(slots, device=self.logits.device)
        for store, part in zip(self.keys_values, opening.keys_values):
            store[places, :, : opening.length] = part
        self.logits[places] = opening.logits

    def move(self, source: int, target: int, own: int) -> None:
        for store in self.keys_values:
            store[target, :, :own] = store[source, :, :own]
        for buffer in (self.logits, self.uniforms, self.tokens, self.log_probs):
            buffer[target] = buffer[source]

    def swap(self, one: int, other: int, own: int, others: int) -> None:
        """Exchanges two slots of so many own ids."""
        for store in self.keys_values:
            kept = store[one, :, :own].clone()
            store[one, :, :others] = store[other, :, :others]
            store[other, :, :own] = kept
        pair = [one, other]
        for buffer in (self.logits, self.uniforms, self.tokens, self.log_probs):
            buffer[pair] = buffer[pair[::-1]]

    def segments(self, rows: list[tuple[int, Row]]) -> list[Segment]:
        """The pending ids of rows as segments: neighbouring slots of equal shape and prefix together."""
        self.reserve(max(row.own + len(row.pending) for _, row in rows))
        runs: list[list[tuple[int, Row]]] = []
        for slot, row in rows:
            if runs:
                before, other = runs[-1][-1]
                alike = (other.own, len(other.pending), other.prefix) == (row.own, len(row.pending), row.prefix)
                if alike and slot == before + 1:
                    runs[-1].append((slot, row))
                    continue
            runs.append([(slot, row)])
        return [self._segment(run) for run in runs]

    def _segment(self, run: list[tuple[int, Row]]) -> Segment:
        (first, row), last = run[0], run[-1][0]
        ids = torch.tensor([row.pending for _, row in run], device=self.logits.device)
        stores = [store[first : last + 1] for store in self.keys_values]
        prefix = row.prefix.keys_values if row.prefix else None
        return Segment(ids, stores, row.own, prefix, row.prefix.length if row.prefix else 0)

    def arrange(self, rows: list[Row], clock: int) -> "Arrangement":
        return Arrangement(self, rows, clock)


class Arrangement:
    """The rows between two changes: their lengths and places in the turn, on the device, one further with each step."""

    def __init__(self, slots: Slots, rows: list[Row], clock: int) -> None:
        device = slots.logits.device
        self.slots, self.count = slots, len(rows)
        own = [row.own_at(clock) for row in rows]
        prefix = [row.prefix.length if row.prefix else 0 for row in rows]
        self.longest = max(own)
        self.lengths = torch.tensor(own, device=device)
        self.positions = self.lengths + torch.tensor(prefix, device=device)
        self.furthest = max(map(sum, zip(own, prefix)))
        self.turn_step = torch.tensor([[clock - row.began] for row in rows], device=device)
        self.equal = len(set(own)) == 1
        self.mask = None if self.equal else self._mask(rows, clock)
        self.groups = groups_of_rows(own, _SPARED if device.type == "cpu" else None)
        self.prefixes = self._prefixes(rows)
        self._look_again()

    def _look_again(self) -> None:
        """Views of the stores: taken once, not in each step."""
        self.capacity, kv_heads = self.slots.capacity, self.slots.decoder.kv_heads
        self.keys = [store[: self.count, :kv_heads] for store in self.slots.keys_values]
        self.values = [store[: self.count, kv_heads:] for store in self.slots.keys_values]

    def _mask(self, rows: list[Row], clock: int) -> Tensor:
        """Zero for keys that a row has, wide enough for the longest turn in play."""
        width = self.longest + max(row.began + row.budget - clock for row in rows) + 1
        places = torch.arange(width, device=self.lengths.device)
        mask = torch.zeros(self.count, width, dtype=self.slots.logits.dtype, device=places.device)
        return mask.masked_fill_(places > self.lengths.unsqueeze(1), float("-inf")).view(self.count, 1, 1, width)

    def _prefixes(self, rows: list[Row]) -> list[tuple[list[Tensor], Tensor | None]]:
        places: dict[int, list[int]] = {}
        for slot, row in enumerate(rows):
            if row.prefix:
                places.setdefault(id(row.prefix), []).append(slot)
        found = []
        for members in places.values():
            everyone = None if len(members) == self.count else torch.tensor(members, device=self.lengths.device)
            found.append((rows[members[0]].prefix.keys_values, everyone))
        return found

    def step(self) -> DecodeStep:
        """Where the token that was just sampled goes."""
        if self.capacity != self.slots.capacity:
            self._look_again()
        return DecodeStep(
            stores=self.slots.keys_values,
            keys=self.keys,
            values=self.values,
            lengths=self.lengths,
            positions=self.positions,
            longest=self.longest,
            equal=self.equal,
            mask=self.mask,
            groups=self.groups,
            prefixes=self.prefixes,
        )

    def advance(self) -> None:
        self.lengths += 1
        self.positions += 1
        self.longest += 1
        self.furthest += 1
        if self.mask is not None:
            self.mask.view(self.count, -1).scatter_(1, self.lengths.unsqueeze(1), 0.0)


def groups_of_rows(lengths: list[int], spared: int | None) -> list[tuple[int, int, int]]:
    """Neighbouring rows of similar length: (first, stop, tokens that the longest in it is behind the longest of all).

    A row opens a new group when padding it, or padding the group to it, would cost more than `spared` keys; None: one
    group.
    """
    groups, first, widest, longest = [], 0, lengths[0], max(lengths)
    for row, length in enumerate(lengths[1:], 1):
        wider = max(widest, length)
        if spared is not None and wider * (row + 1 - first) - widest * (row - first) - length > spared:
            groups.append((first, row, longest - widest))
            first, wider = row, length
        widest = wider
    return [*groups, (first, len(lengths), longest - widest)]
