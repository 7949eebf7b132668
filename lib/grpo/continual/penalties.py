"""Penalties for leaving the weights of earlier stages: L2, and elastic weight consolidation.

P = strength / 2 * sum_i F_i (theta_i - theta*_i)^2, whose gradient strength * F_i (theta_i - theta*_i) is added before
clipping and the optimiser step. theta* are the weights after the last stage. F is 1 (L2), or the diagonal of the Fisher
matrix, kept over stages as F <- gamma F + F_new (online EWC, Schwarz et al. 2018; EWC: Kirkpatrick et al. 2017).
"""

from collections.abc import Sequence

import torch

from lib.grpo.continual.methods import Method, Tensors, check_names, prefixed, unprefixed

FISHER = "fisher/"


class L2(Method):
    """Equal weight on all parameters. Nothing is penalised in the first stage."""

    keeps_snapshot = True

    def __init__(self, strength: float = 0.4):
        super().__init__()
        self.strength = strength

    @torch.no_grad()
    def add_gradients(self, parameters: Tensors, scale: float = 1.0) -> float:
        """The same on every rank: call it once the gradients are averaged, or with equal `scale` before. Parameters
        without a gradient get one."""
        if self.snapshot is None or not self.learnt:
            return 0.0
        check_names(parameters, self.snapshot)
        penalty = 0.0
        for name, parameter in parameters.items():
            distance = parameter.detach() - self.snapshot[name]
            pull = distance * self._importance(name)
            penalty += float((pull * distance).sum(dtype=torch.float64))
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(pull, alpha=scale * self.strength)
        return scale * self.strength / 2 * penalty

    def _importance(self, name: str) -> torch.Tensor | float:
        return 1.0


class Ewc(L2):
    """Weight by the squared gradients of the policy's log-probabilities at the end of each stage.

    Squared gradients of a network are small: where the default `strength`, the original's, does nothing, orders of
    magnitude more may be right.
    """

    def __init__(self, strength: float = 0.4, gamma: float = 0.9, samples: int = 200):
        super().__init__(strength)
        self.gamma, self.fisher_samples = gamma, samples
        self.fisher: Tensors = {}

    def on_stage_end(self, domains: Sequence[str], parameters: Tensors, fisher: Tensors | None = None) -> None:
        super().on_stage_end(domains, parameters, fisher)
        check_names(parameters, fisher)
        former = self.fisher or {name: torch.zeros_like(new) for name, new in fisher.items()}
        self.fisher = {name: self.gamma * former[name] + new.detach() for name, new in fisher.items()}

    def _importance(self, name: str) -> torch.Tensor:
        return self.fisher[name]

    def state(self) -> tuple[Tensors, dict]:
        tensors, data = super().state()
        return {**tensors, **prefixed(FISHER, self.fisher)}, data

    def load_state(self, tensors: Tensors, data: dict) -> None:
        super().load_state(tensors, data)
        self.fisher = unprefixed(FISHER, tensors)


class SquaredGradients:
    """Sums of squared gradients of single samples, for the diagonal Fisher matrix.

    For each of a rank's samples: zero the gradients, backward of the log-probability that the policy gives its own
    sampled tokens (no reward), `add`. Then sum `sums` and `count` over the ranks, and take `mean`.
    """

    def __init__(self, parameters: Tensors):
        self.sums = {name: torch.zeros_like(parameter, requires_grad=False) for name, parameter in parameters.items()}
        self.count = 0

    @torch.no_grad()
    def add(self, parameters: Tensors) -> None:
        """Take `.grad` of one sample; parameters without one did not matter to it."""
        for name, parameter in parameters.items():
            if parameter.grad is not None:
                self.sums[name].addcmul_(parameter.grad, parameter.grad)
        self.count += 1

    def mean(self) -> Tensors:
        return {name: total / max(self.count, 1) for name, total in self.sums.items()}
