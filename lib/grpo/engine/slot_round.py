"""Conversations played to their ends in slots: prefixes computed once, refill (`static.StaticEngine`)."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lib.grpo.engine.conversation import Conversation
from lib.grpo.engine.decoder import Decoder, Segment
from lib.grpo.engine.sampling import draw
from lib.grpo.engine.slots import Arrangement, Prefix, Row, Slots

if TYPE_CHECKING:
    from lib.grpo.engine.static import StaticEngine


def new_stores(decoder: Decoder, rows: int, tokens: int) -> list[Tensor]:
    """Empty keys and values of every layer (rows, 2 kv_heads, tokens, head_dim)."""
    shape = (rows, 2 * decoder.kv_heads, tokens, decoder.head_dim)
    return [torch.empty(shape, dtype=decoder.dtype, device=decoder.device) for _ in decoder.layers]


class Round:
    """One call of `play`."""

    def __init__(self, engine: StaticEngine, conversations: list[Conversation]) -> None:
        self.engine, self.decoder, self.sampling = engine, engine.decoder, engine.sampling
        self.waiting: deque[Conversation] = deque()
        # Openings are dropped when the last conversation that begins with one is in its slot.
        self.users: Counter = Counter()
        for conversation in conversations:
            length = len(conversation.shared) + len(conversation.opening)
            assert length, "a conversation without a prompt"
            if engine.budget(conversation, length):
                self.waiting.append(conversation)
                self.users[self._prompt(conversation)] += 1
            else:
                conversation.cut()
        self.openings: dict[tuple, Prefix] = {}
        self.rows: list[Row] = []
        self.slots = Slots(self.decoder, min(engine.slots, max(1, len(self.waiting))), self.sampling)
        self.clock = 0
        self.counts = {"sampled_tokens": 0, "prefilled_tokens": 0, "decode_steps": 0}

    def _prompt(self, conversation: Conversation) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shared, opening = tuple(conversation.shared), tuple(conversation.opening)
        return (shared, opening) if self.engine.share_prefix else ((), shared + opening)

    def play(self) -> dict:
        began = time.perf_counter()
        self._admit(list(range(self.slots.count)))
        arrangement = self._arrange() if self.rows else None
        while self.rows:
            ended, forwarded = self._advance(arrangement)
            if ended:
                self._finish(ended, forwarded)
                arrangement = self._arrange() if self.rows else None
        return self._summary(time.perf_counter() - began)

    def _summary(self, seconds: float) -> dict:
        busy = self.counts["sampled_tokens"] / max(1, self.engine.slots * self.counts["decode_steps"])
        return self.counts | {"busy_share": busy, "seconds": seconds}

    def _advance(self, arrangement: Arrangement) -> tuple[list[tuple[int, int, bool]], bool]:
        """A token for every row that is being sampled; (the turns that are over, whether it went through the model)."""
        self._sample(arrangement)
        ended = self._ended() if self._look() else []
        forwarded = len(ended) < arrangement.count
        if forwarded:
            self._forward(arrangement)
        return ended, forwarded

    @property
    def playing(self) -> list[Row]:
        """The rows that are being sampled, in the first slots."""
        return self.rows

    def _sample(self, arrangement: Arrangement) -> None:
        slots, count, step = self.slots, arrangement.count, arrangement.turn_step
        uniform = slots.uniforms[:count].gather(1, step).squeeze(1)
        tokens, log_probs = draw(slots.logits[:count], uniform, self.sampling)
        slots.tokens[:count].scatter_(1, step, tokens.unsqueeze(1))
        slots.log_probs[:count].scatter_(1, step, log_probs.unsqueeze(1))
        step += 1
        self.drawn = tokens
        self.stopped |= self.engine.stops[tokens]
        self.clock += 1
        self.counts["decode_steps"] += 1

    def _look(self) -> bool:
        """Whether to look for ended turns now: a turn's tokens are all used, or some have stopped."""
        if self.clock >= self.deadline:
            return True
        if not self.sampling.stop_ids or self.clock % self.engine.check_every:
            return False
        return bool(self.stopped.all() if self.engine.lockstep else self.stopped.any())

    def _ended(self) -> list[tuple[int, int, bool]]:
        """(slot, tokens of the turn, stopped) of the turns that are over."""
        flags, ended = self.stopped.tolist(), []
        for slot, row in enumerate(self.playing):
            if flags[slot]:
                sampled = self.slots.tokens[slot, : self.clock - row.began]
                ended.append((slot, int(self.engine.stops[sampled].int().argmax()) + 1, True))
            elif self.clock - row.began >= row.budget:
                ended.append((slot, row.budget, False))
        return ended

    def _forward(self, arrangement: Arrangement) -> None:
        self.slots.reserve(arrangement.longest + 1)
        self.decoder.reach(arrangement.furthest + 1)
        self.slots.logits[: arrangement.count] = self.decoder.decode(self.drawn, arrangement.step())
        arrangement.advance()

    def _finish(self, ended: list[tuple[int, int, bool]], forwarded: bool) -> None:
        """Hands the turns over, fills the slots of conversations that are over, prefills what was answered."""
        free, talking = [], []
        for slot, count, stopped in ended:
            row = self.rows[slot]
            ids, log_probs = self._turn(slot, count)
            answer = row.conversation.hear(ids, log_probs, stopped)
            if answer is not None and self._goes_on(row, ids, answer, forwarded):
                talking.append((slot, row))
            else:
                free.append(slot)
        self._prefill_answers(talking)
        self._replace(sorted(free))

    def _turn(self, slot: int, count: int) -> tuple[list[int], list[float]]:
        """Tokens and log-probabilities of a turn."""
        self.counts["sampled_tokens"] += count
        return self.slots.tokens[slot, :count].tolist(), self.slots.log_probs[slot, :count].tolist()

    def _goes_on(self, row: Row, ids: list[int], answer: list[int], forwarded: bool) -> bool:
        """Notes what is to be prefilled after the turn `ids`; False when there is no room for another turn."""
        # Keys and values of the last token are known when it went through the forward, and of its answer never.
        fed = forwarded and len(answer) > 0
        length = row.length + len(ids) + len(answer)
        row.own += len(ids) if fed else len(ids) - 1
        row.pending = list(answer) if fed else [ids[-1], *answer]
        row.budget = self.engine.budget(row.conversation, length)
        if not row.budget:
            row.conversation.cut()
        return row.budget > 0

    def _prefill_answers(self, talking: list[tuple[int, Row]]) -> None:
        if not talking:
            return
        self._prefill(self.slots.segments(talking), [slot for slot, _ in talking])
        for _, row in talking:
            row.own += len(row.pending)
            row.pending, row.began = [], self.clock
        self.slots.begin_turns(talking)

    def _replace(self, free: list[int]) -> None:
        """New conversations into free slots, in order; what stays free is closed by rows from the end."""
        if self.engine.lockstep:
            if len(free) == len(self.rows):
                self.rows.clear()
                self._admit(list(range(self.slots.count)))
                return
            left = free
        else:
            left = self._admit(free)
        self._close(left)

    def _close(self, left: list[int]) -> None:
        """Closes slots whose rows are gone by rows from the end."""
        for slot in reversed(left):
            last = len(self.rows) - 1
            if slot != last:
                row = self.rows[last]
                self.slots.move(last, slot, row.own_at(self.clock))
                self.rows[slot] = row
            self.rows.pop()

    def _admit(self, free: list[int]) -> list[int]:
        """Waiting conversations into free slots; returns the slots that nobody came for."""
        admitted = [(slot, self.waiting.popleft()) for slot in free[: len(self.waiting)]]
        prompts = {slot: self._prompt(conversation) for slot, conversation in admitted}
        self._compute_prefixes(list(dict.fromkeys(prompts.values())))
        for prompt in dict.fromkeys(prompts.values()):
            members = [slot for slot in prompts if prompts[slot] == prompt]
            self.slots.open(members, self.openings[prompt])
            self.users[prompt] -= len(members)
        turns = []
        for slot, conversation in admitted:
            shared, opening = prompts[slot]
            row = Row(conversation, self.engine.shared[shared] if shared else None, len(opening), self.clock)
            row.budget = self.engine.budget(conversation, row.length)
            self.rows[slot : slot + 1] = [row]
            turns.append((slot, row))
        self.slots.begin_turns(turns)
        self.openings = {prompt: opening for prompt, opening in self.openings.items() if self.users[prompt]}
        return free[len(admitted) :]

    def _compute_prefixes(self, prompts: list[tuple]) -> None:
        """The shared prefixes and openings among `prompts` that are not there yet."""
        for shared in dict.fromkeys(shared for shared, _ in prompts if shared and shared not in self.engine.shared):
            self.engine.shared[shared] = self._new_prefixes([(None, shared)])[0]
        missing = [prompt for prompt in prompts if prompt not in self.openings]
        parents = [self.engine.shared[shared] if shared else None for shared, _ in missing]
        made = self._new_prefixes([(parent, opening) for parent, (_, opening) in zip(parents, missing)])
        self.openings |= dict(zip(missing, made))

    def _new_prefixes(self, wanted: list[tuple[Prefix | None, tuple[int, ...]]]) -> list[Prefix]:
        """Prefixes of the given ids, each after its parent; one of no ids is its parent's end."""
        found, segments = [], []
        for parent, ids in wanted:
            stores = new_stores(self.decoder, 1, len(ids))
            logits = self.slots.logits.new_empty(1, self.decoder.vocabulary)
            found.append(Prefix(stores, len(ids), logits if ids else parent.logits))
            if ids:
                above = (parent.keys_values, parent.length) if parent else (None, 0)
                segments.append(Segment(torch.tensor([ids], device=self.decoder.device), stores, 0, *above))
        if segments:
            hidden = self._last_hidden(segments)
            logits = self.decoder.logits(hidden)
            for number, prefix in enumerate(prefix for prefix in found if prefix.length):
                prefix.logits.copy_(logits[number : number + 1])
        return found

    def _prefill(self, segments: list[Segment], slots: list[int]) -> None:
        """Prefills segments and puts the logits after them into `slots`, in the order of the segments' rows."""
        places = torch.tensor(slots, device=self.decoder.device)
        self.slots.logits[places] = self.decoder.logits(self._last_hidden(segments))

    def _last_hidden(self, segments: list[Segment]) -> Tensor:
        """Hidden states of the last tokens (rows of all segments, hidden), `chunk` tokens at a time."""
        self.counts["prefilled_tokens"] += sum(segment.ids.numel() for segment in segments)
        found = []
        for batch in _chunks(segments, self.engine.chunk):
            hidden = iter(self.decoder.prefill([piece for piece, _ in batch]).split([len(s.ids) for s, _ in batch]))
            found += [part for (_, complete), part in zip(batch, hidden) if complete]
        return torch.cat(found)

    def _arrange(self) -> Arrangement:
        playing = self.playing
        self.stopped = torch.zeros(len(playing), dtype=torch.bool, device=self.decoder.device)
        ends = [row.began + row.budget for row in playing]
        self.deadline = max(ends) if self.engine.lockstep else min(ends)
        return self.slots.arrange(playing, self.clock)


def _chunks(segments: list[Segment], chunk: int) -> Iterator[list[tuple[Segment, bool]]]:
    """Batches of segments of at most `chunk` tokens; of a longer one first rows, then tokens are parted.

    The flag says that a piece holds the last tokens of its rows. Pieces of the same rows are in different batches.
    """
    batch, room = [], chunk
    for segment in segments:
        for piece, complete in _pieces(segment, chunk):
            if batch and (piece.ids.numel() > room or not complete or not batch[-1][1]):
                yield batch
                batch, room = [], chunk
            batch.append((piece, complete))
            room -= piece.ids.numel()
    if batch:
        yield batch


def _pieces(segment: Segment, chunk: int) -> Iterator[tuple[Segment, bool]]:
    rows, tokens = segment.ids.shape
    per_piece = max(1, chunk // tokens)
    for first in range(0, rows, per_piece):
        some = slice(first, first + per_piece)
        stores = [store[some] for store in segment.keys_values]
        for start in range(0, tokens, chunk):
            ids = segment.ids[some, start : start + chunk]
            yield (
                Segment(ids, stores, segment.start + start, segment.prefix, segment.prefix_length),
                start + chunk >= tokens,
            )
