"""The updates since the last look: whether their numbers are finite is asked rarely, as it waits for the device."""

from collections.abc import Callable

import torch

from lib.errors import UserError

NAMED = 5  # records that an error lists


class RecentUpdates:
    """Collects `add`ed updates until `look` or `judge` clears them; `ranks` (lib.ranks.Ranks) are all processes.

    remedy: what to do about numbers that are not finite, as "lower --lr".
    """

    def __init__(self, ranks, remedy: str):
        self.ranks, self.remedy, self.window = ranks, remedy, []
        self.bad: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.window)

    def add(self, step: int, numbers: torch.Tensor, finite: torch.Tensor, norm: torch.Tensor) -> None:
        """Update `step`: numbers (batch,) of its records, whether each was finite (batch,), and the gradient's norm."""
        self.window.append((step, numbers, finite, norm))

    def met(self, finite: torch.Tensor) -> torch.Tensor:
        """Whether a record of this process, these included, ever was not finite: for the other processes to know."""
        self.bad = ~finite.all() if self.bad is None else self.bad | ~finite.all()
        return self.bad

    def look(self, requested: bool, name_of: Callable[[int], str], saved_step: int) -> bool:
        """Whether `requested` is true on any process. Collective.

        Raises UserError that names the records (by `name_of` their number) of the first update that was not finite.
        """
        if not self.window:
            return self.ranks.any(requested)
        finite = torch.stack([mask.all() & torch.isfinite(norm) for _, _, mask, norm in self.window]).cpu()
        seen = self.ranks.sums({"bad": float((~finite).sum()), "stop": float(requested)})
        self.judge(seen["bad"] > 0, name_of, saved_step)
        return bool(seen["stop"])

    def judge(self, bad: bool, name_of: Callable[[int], str], saved_step: int) -> None:
        """`look` where the processes know already whether any of them has had numbers that are not finite.

        The norms count all the same: they are of the gradient of all. Collective where something is not finite.
        """
        norms = [norm for *_, norm in self.window]
        if bad or (norms and not bool(torch.isfinite(torch.stack(norms)).all())):
            rows = [(step, name_of(n)) for step, numbers, mask, _ in self.window for n in numbers[~mask].tolist()]
            rows = self.ranks.gather(rows)
            first = min((step for step, _ in rows), default=self.window[0][0])
            names = sorted({name for step, name in rows if step == first})
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            raise UserError(
                f"the loss or its gradient is not finite at step {first}, records {', '.join(names[:NAMED]) or 'none'}"
                f"{more}: nothing after step {max(saved_step, 0)} was saved; {self.remedy}"
            )
        self.window.clear()
