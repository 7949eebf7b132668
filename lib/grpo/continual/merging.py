"""Merging weights of several domains: every domain is learnt from the same start, then all are put together.

The functions are pure and work on weights or LoRA factors by name. The product of averaged factors is not the average
of the products: factors (`...lora_A...`, `...lora_B...`) are combined as the matrices B A they stand for, and cut back
to their rank by a singular value decomposition, the best approximation there is.
"""

from collections.abc import Sequence

import torch

from lib.errors import UserError
from lib.grpo.continual.methods import Method, Tensors, check_names, copy_of, prefixed, unprefixed

KINDS = ("average", "weighted", "task_arithmetic", "fisher")
FIRST, SECOND = "lora_A", "lora_B"


def average(states: Sequence[Tensors]) -> Tensors:
    """The mean of the weights (model soup, Wortsman et al. 2022)."""
    return combine(states, [1 / len(states)] * len(states))


def weighted(states: Sequence[Tensors], weights: Sequence[float]) -> Tensors:
    """The mean with weights, which need not add up to 1. Raises ValueError for negative ones or a sum of 0."""
    if min(weights) < 0 or sum(weights) == 0:
        raise ValueError(f"weights {list(weights)}: expected numbers from 0 on, one of them above")
    return combine(states, [weight / sum(weights) for weight in weights])


def task_arithmetic(base: Tensors, states: Sequence[Tensors], scale: float = 1.0) -> Tensors:
    """base + scale * sum of (state - base) (Ilharco et al. 2023)."""
    return combine([base, *states], [1 - scale * len(states), *[scale] * len(states)])


def fisher_weighted(states: Sequence[Tensors], fishers: Sequence[Tensors]) -> Tensors:
    """Elementwise sum of F_i theta_i / sum of F_i (Matena and Raffel 2022); where all F are 0, the plain mean.

    LoRA factors are taken element by element, as weights of their own.
    """
    merged = {}
    for name in states[0]:
        total = sum(fisher[name].double() for fisher in fishers)
        values = [state[name].double() for state in states]
        share = sum(fisher[name].double() * value for fisher, value in zip(fishers, values, strict=True))
        plain = sum(values) / len(values)
        tensor = torch.where(total > 0, share / total.clamp_min(torch.finfo(torch.float64).tiny), plain)
        merged[name] = tensor.to(states[0][name].dtype)
    return merged


def combine(states: Sequence[Tensors], coefficients: Sequence[float]) -> Tensors:
    """The linear combination of weights; of LoRA factors, that of their products, at the rank they have."""
    assert len(states) == len(coefficients), f"{len(states)} states and {len(coefficients)} coefficients"
    for state in states[1:]:
        check_names(states[0], state)
    merged = {}
    for name, tensor in states[0].items():
        if FIRST in name:
            second = name.replace(FIRST, SECOND)
            factors = [(state[second], state[name]) for state in states]
            merged[second], merged[name] = combine_factors(factors, coefficients)
        elif SECOND not in name:
            mixed = sum(c * state[name].double() for c, state in zip(coefficients, states, strict=True))
            merged[name] = mixed.to(tensor.dtype)
    return {name: merged[name] for name in states[0]}


def combine_factors(
    factors: Sequence[tuple[torch.Tensor, torch.Tensor]], coefficients: Sequence[float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, A) of the best rank-r approximation of sum of c_i B_i A_i, for B (out, r) and A (r, in).

    The sum has rank r times the number of factors, so a decomposition of a small square matrix is enough.
    """
    b, a = factors[0]
    wide = torch.cat([c * one.double() for c, (one, _) in zip(coefficients, factors, strict=True)], dim=1)
    tall = torch.cat([other.double() for _, other in factors], dim=0)
    # (out, n r) = left x inner_left, (n r, in) = inner_right^T x right^T
    left, inner_left = torch.linalg.qr(wide)
    right, inner_right = torch.linalg.qr(tall.T)
    u, s, v = torch.linalg.svd(inner_left @ inner_right.T)
    rank = a.shape[0]
    root = s[:rank].sqrt()
    new_b, new_a = left @ u[:, : len(root)] * root, (root[:, None] * v[: len(root)]) @ right.T
    # A matrix smaller than the rank leaves factors unused.
    new_b = torch.nn.functional.pad(new_b, (0, rank - len(root)))
    new_a = torch.nn.functional.pad(new_a, (0, 0, 0, rank - len(root)))
    return new_b.to(b.dtype), new_a.to(a.dtype)


class Merge(Method):
    """Every stage starts from the same weights; what is evaluated and exported is the merge of all stages so far."""

    def __init__(
        self, kind: str = "average", weights: dict[str, float] | None = None, scale: float = 0.5, samples: int = 200
    ):
        super().__init__()
        if kind not in KINDS:
            raise UserError(f"--merge {kind}: expected {', '.join(KINDS)}")
        self.kind, self.weights, self.scale = kind, weights or {}, scale
        self.fisher_samples = samples if kind == "fisher" else 0
        self.base: Tensors = {}
        # Stage names in order, each the domains that it learnt, with their weights.
        self.states: dict[str, Tensors] = {}
        self.fishers: dict[str, Tensors] = {}

    def begin(self, parameters: Tensors) -> None:
        self.base = copy_of(parameters)

    def on_stage_end(self, domains: Sequence[str], parameters: Tensors, fisher: Tensors | None = None) -> None:
        super().on_stage_end(domains, parameters, fisher)
        assert self.base, "begin() was not called"
        name = "+".join(domains)
        self.states[name] = copy_of(parameters)
        if fisher is not None:
            self.fishers[name] = copy_of(fisher)

    def weights_to_evaluate(self) -> Tensors | None:
        states = list(self.states.values())
        if self.kind == "task_arithmetic":
            return task_arithmetic(self.base, states, self.scale)
        if self.kind == "fisher":
            return fisher_weighted(states, list(self.fishers.values()))
        if self.kind == "weighted":
            return weighted(states, [self.weights.get(name, 1.0) for name in self.states])
        return average(states)

    def weights_to_start(self) -> Tensors | None:
        return self.base

    def state(self) -> tuple[Tensors, dict]:
        tensors, data = super().state()
        tensors |= prefixed("base/", self.base)
        for name in self.states:
            tensors |= prefixed(f"weights/{name}/", self.states[name])
            tensors |= prefixed(f"fisher/{name}/", self.fishers.get(name))
        return tensors, {**data, "merged": list(self.states)}

    def load_state(self, tensors: Tensors, data: dict) -> None:
        super().load_state(tensors, data)
        self.base = unprefixed("base/", tensors)
        self.states = {name: unprefixed(f"weights/{name}/", tensors) for name in data["merged"]}
        fishers = {name: unprefixed(f"fisher/{name}/", tensors) for name in data["merged"]}
        self.fishers = {name: fisher for name, fisher in fishers.items() if fisher}
