"""The static engine with environments that take their time: turns are answered in threads while others are sampled."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TYPE_CHECKING

from lib.grpo.engine.conversation import Conversation
from lib.grpo.engine.slot_round import Round
from lib.grpo.engine.slots import Row

if TYPE_CHECKING:
    from lib.grpo.engine.static import StaticEngine


class WaitingRound(Round):
    """The rows that are sampled lie in slots 0 to `active` - 1; behind them those that wait for their answers.

    A row that waits keeps its keys and values. What is sampled depends on no slot: the order in which answers come
    decides who is sampled together and so the rounding, no more.
    """

    def __init__(self, engine: StaticEngine, conversations: list[Conversation], threads: Executor) -> None:
        assert not engine.lockstep, "rows that wait for the slowest do not need threads"
        super().__init__(engine, conversations)
        self.threads, self.active = threads, 0
        self.ready: list[int] = []  # slots of rows whose answers were there at the last look
        # (the turn's ids, whether the last of them went through the model, the answer or None when it is over)
        self.asked: dict[Row, tuple[list[int], bool, Future | None]] = {}

    @property
    def playing(self) -> list[Row]:
        return self.rows[: self.active]

    def play(self) -> dict:
        """See `Engine.play`."""
        began = time.perf_counter()
        self._admit(list(range(self.slots.count)))
        self.active = len(self.rows)
        arrangement = self._arrange() if self.rows else None
        while self.rows:
            ended, forwarded = [], False
            if self.active:
                ended, forwarded = self._advance(arrangement)
            else:
                self.ready = self._ready()
                if not self.ready:
                    wait([future for _, _, future in self.asked.values()], return_when=FIRST_COMPLETED)
                    self.ready = self._ready()
            for turn in reversed(ended):
                self._ask(*turn, forwarded)
            if ended or self.ready:
                self._take_answers()
                arrangement = self._arrange() if self.active else None
        return self._summary(time.perf_counter() - began)

    def _look(self) -> bool:
        """Answers are taken only where ended turns are looked for: what else stopped would be forgotten."""
        self.ready = self._ready()
        return bool(self.ready) or super()._look()

    def _ask(self, slot: int, count: int, stopped: bool, forwarded: bool) -> None:
        """Has a turn answered, and moves its row behind those that are sampled. From the last slot to the first."""
        row = self.rows[slot]
        ids, log_probs = self._turn(slot, count)
        work = row.conversation.take(ids, log_probs, stopped)
        self.asked[row] = ids, forwarded, None if work is None else self.threads.submit(work)
        self.active -= 1
        self._swap(slot, self.active)
        row.waits = row.own + count

    def _take_answers(self) -> None:
        """Goes on with the rows of `ready`."""
        free, talking = [], []
        for slot in self.ready:
            row = self.rows[slot]
            ids, forwarded, future = self.asked.pop(row)
            answer = None if future is None else row.conversation.told(future.result())
            if answer is not None and self._goes_on(row, ids, answer, forwarded):
                talking.append(row)
            else:
                free.append(slot)
        left = self._admit(free)
        begun = [self.rows[slot] for slot in free if slot not in left]
        self._close(left)
        for row in [*talking, *begun]:
            self._swap(self.rows.index(row), self.active)
            row.waits = 0
            self.active += 1
        places = {id(row): slot for slot, row in enumerate(self.playing)}
        self._prefill_answers(sorted(((places[id(row)], row) for row in talking), key=lambda each: each[0]))
        self.ready = []

    def _ready(self) -> list[int]:
        """Slots of the rows that need not wait any more."""
        found = []
        for slot, row in enumerate(self.rows[self.active :], self.active):
            future = self.asked[row][2]
            if future is None or future.done():
                found.append(slot)
        return found

    def _swap(self, one: int, other: int) -> None:
        if one != other:
            first, second = self.rows[one], self.rows[other]
            self.slots.swap(one, other, first.own_at(self.clock), second.own_at(self.clock))
            self.rows[one], self.rows[other] = second, first
