"""What `lib.fitting` learns, as a domain states it."""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn


class Task(ABC):
    """What is learnt, and from what. Everything but `batch` and `measure` is the same on every process.

    `ranks` is a `lib.ranks.Ranks`, in `begin` and `learnt` to be asked the same on every process.
    """

    # Sums that the module's forward gives, the loss first; the last counts what the loss is a sum over.
    statistics: ClassVar[tuple[str, ...]]
    # Figures of a validation that go to the log; all of them where it is empty.
    logged: ClassVar[tuple[str, ...]] = ()
    module: nn.Module  # forward(*batch) -> (loss summed over the batch, sums (k,), whatever `learnt` takes)
    epoch_updates: int

    @abstractmethod
    def batch(self, update: int, rank: int, ranks: int) -> tuple:
        """This process's part of the batch of update 0, 1, ...; all parts together are a function of the update."""

    @abstractmethod
    def begin(self, update: int, ranks) -> None:
        """Before an update. Collective."""

    @abstractmethod
    def learnt(self, update: int, found: tuple, ranks) -> dict[str, float | Tensor]:
        """After the optimiser's step, with the rest of what forward gave: numbers for the log. Collective."""

    @abstractmethod
    def measure(self, part: str, rank: int, ranks: int) -> Tensor:
        """This process's sums (k,) float64 over its share of the `validation` or `test` part; all are added up."""

    @abstractmethod
    def judge(self, sums: Tensor) -> dict[str, float]:
        """Figures from the sums of all processes; `loss` is what is to be small."""

    @abstractmethod
    def described(self) -> dict:
        """What a checkpoint is of: another description is refused on resume, by name."""
