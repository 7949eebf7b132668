"""SIGTERM and SIGINT as a flag: the step in progress is finished, the state saved, the process leaves with exit 0."""

import signal
import time

from accelerate import Accelerator

from lib.distributed import any_rank

# torchelastic forwards Ctrl-C to ranks that the terminal has already told: an echo is not a second wish.
ECHO_S = 1.0


class StopSignals:
    """Context manager. `requested` is this process's flag, `agreed(acc)` that of any process.

    A second Ctrl-C, a second or more after the first, raises KeyboardInterrupt at once. The former handlers come back
    on leaving.
    """

    def __init__(self):
        self.requested = False
        self.name = ""
        self._first_interrupt = 0.0
        self._former = {}

    def __enter__(self) -> "StopSignals":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._former[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def _receive(self, number: int, _frame) -> None:
        now = time.monotonic()
        if number == signal.SIGINT:
            if self._first_interrupt and now - self._first_interrupt > ECHO_S:
                raise KeyboardInterrupt
            self._first_interrupt = self._first_interrupt or now
        self.requested = True
        self.name = self.name or signal.Signals(number).name

    def agreed(self, acc: Accelerator) -> bool:
        """True on every process as soon as one was told to stop. Collective: all processes must call it alike."""
        return any_rank(acc, self.requested)
