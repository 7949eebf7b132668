"""What a domain may ask of the processes of a run, without knowing the Accelerator: scripts hand it in."""

import contextlib

from accelerate import Accelerator
from torch import Tensor, nn

from lib.distributed import any_rank, gather_rows, global_sums
from lib.divided import whole
from lib.sharding import is_divided


class Ranks:
    """The processes of a run as this one, number `index` of `count`, sees them. What is marked so is collective."""

    def __init__(self, acc: Accelerator):
        self.index, self.count, self.device = acc.process_index, acc.num_processes, acc.device
        self.divided = is_divided(acc)  # whether each holds a part of the model only
        self._acc = acc

    def gather(self, rows: list) -> list:
        """The rows of all, this list on every process. Collective."""
        return gather_rows(self._acc, rows)

    def sums(self, values: dict[str, float]) -> dict[str, float]:
        """Each value summed over the processes. Collective."""
        return global_sums(self._acc, values)

    def sum_tensor(self, tensor: Tensor) -> Tensor:
        """Collective."""
        return self._acc.reduce(tensor, reduction="sum")

    def any(self, flag: bool) -> bool:
        """Collective."""
        return any_rank(self._acc, flag)

    def unwrapped(self, module: nn.Module) -> nn.Module:
        """The module inside the wrapper of data parallel training."""
        return self._acc.unwrap_model(module)

    def backward(self, loss: Tensor) -> None:
        """To be called inside `updating`. Collective."""
        self._acc.backward(loss)

    def updating(self, module: nn.Module, last: bool) -> contextlib.AbstractContextManager:
        """Around forward of the wrapped module and backward: with the `last` pass of an update gradients are averaged.

        Divided gradients add up where they belong at each: keeping them whole until the last would take their memory.
        """
        return contextlib.nullcontext() if last or self.divided else self._acc.no_sync(module)

    def clip(self, parameters, largest: float) -> Tensor:
        """Scale the gradients to a norm over all processes of at most `largest`; the norm before. Collective."""
        return whole(self._acc.clip_grad_norm_(parameters, largest))
