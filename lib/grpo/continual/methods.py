"""Ways not to forget, behind one small interface; the base class is the method "none".

    method = make_method("ewc", strength=0.4)
    method.begin(parameters)                                  # before the first GRPO stage
    for every stage:
        rows = method.old_rows(pools)                         # earlier domains' tasks, `method.old_share` of each step
        terms = method.terms(domain, stage.domains)           # what a trajectory of the domain adds to the loss
        method.add_gradients(parameters)                      # after backward, before clipping and the optimiser
        method.record(outcomes, step)                         # what all processes gathered
        method.on_stage_end(stage.domains, parameters, fisher)      # after its last repeat
        load_weights(parameters, method.weights_to_evaluate())      # unless None; then evaluate
        method.on_evaluated(forgetting)
        load_weights(parameters, method.weights_to_start())         # unless None
    tensors, data = method.state()                            # for a checkpoint; load_state(tensors, data)

`parameters` are the trainable ones of the unwrapped model by name (`trainable`). Every rank calls everything with the
same arguments and so holds the same state: no method communicates.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib.grpo.continual.tasks import TaskRow

Tensors = dict[str, Tensor]
SNAPSHOT = "snapshot/"


@dataclass(frozen=True)
class Terms:
    """Weights in the loss of a trajectory: of the policy gradient, and of the KL (k3) to `Method.snapshot`.

    With `anchor` 0 no log-probabilities of the snapshot are needed.
    """

    policy: float = 1.0
    anchor: float = 0.0


class Method:
    """No method, and what the others share: the domains learnt so far, and a snapshot where one is wanted."""

    # Share of every step's tasks that come from earlier domains.
    old_share = 0.0
    # Samples whose squared gradients `on_stage_end` wants, averaged, as `fisher`.
    fisher_samples = 0
    keeps_snapshot = False

    def __init__(self):
        self.learnt: list[str] = []
        self.snapshot: Tensors | None = None

    def begin(self, parameters: Tensors) -> None:
        """Before the first GRPO stage, after a warm start; not again after a resume."""
        if self.keeps_snapshot:
            self.snapshot = copy_of(parameters)

    def on_stage_end(self, domains: Sequence[str], parameters: Tensors, fisher: Tensors | None = None) -> None:
        """Once for a stage, with the weights it ended with; `fisher`: mean squared gradients of `fisher_samples`."""
        assert (fisher is not None) == bool(self.fisher_samples), "fisher is given if and only if it is asked for"
        self.learnt += [domain for domain in domains if domain not in self.learnt]
        if self.keeps_snapshot:
            self.snapshot = copy_of(parameters)

    def on_evaluated(self, forgetting: float | None) -> None:
        """`forgetting` is the mean over earlier domains (`scores.mean_forgetting`), None where there is none."""

    def terms(self, domain: str, stage_domains: Sequence[str]) -> Terms:
        """How a trajectory of `domain` counts while `stage_domains` are learnt."""
        return Terms()

    def old_rows(self, pools: dict[str, Sequence[TaskRow]]) -> dict[str, Sequence[TaskRow]]:
        """The tasks of the earlier domains `pools` that may come again; fixed during a stage."""
        return pools

    def record(self, outcomes: Iterable[dict], step: int) -> None:
        """The trajectories of a step (`evaluations.outcome`), the same on all ranks, in any order."""

    def add_gradients(self, parameters: Tensors, scale: float = 1.0) -> float:
        """Add `scale` times the gradient of the method's penalty to `.grad`; returns the penalty."""
        return 0.0

    def weights_to_evaluate(self) -> Tensors | None:
        """Weights to load after `on_stage_end`, for the evaluation and the export; None: those that were trained."""
        return None

    def weights_to_start(self) -> Tensors | None:
        """Weights to load after that evaluation, from which the next stage starts; None: go on."""
        return None

    def state(self) -> tuple[Tensors, dict]:
        """Tensors by name and JSON, for a checkpoint."""
        return prefixed(SNAPSHOT, self.snapshot), {"learnt": list(self.learnt)}

    def load_state(self, tensors: Tensors, data: dict) -> None:
        self.learnt = list(data["learnt"])
        self.snapshot = unprefixed(SNAPSHOT, tensors) or None


class KlAnchor(Method):
    """On prompts of earlier domains stay near the weights after the last stage: KL instead of a policy gradient."""

    keeps_snapshot = True

    def __init__(self, old_share: float = 0.2, weight: float = 0.1):
        super().__init__()
        self.old_share, self.weight = old_share, weight

    def terms(self, domain: str, stage_domains: Sequence[str]) -> Terms:
        return Terms() if domain in stage_domains else Terms(policy=0.0, anchor=self.weight)


class Distill(Method):
    """Learning without forgetting, on the policy's own samples: on the prompts of the current domain stay near the
    weights that the stage began with. Needs no task of an earlier domain. (Li and Hoiem 2016.)"""

    keeps_snapshot = True

    def __init__(self, weight: float = 0.1):
        super().__init__()
        self.weight = weight

    def terms(self, domain: str, stage_domains: Sequence[str]) -> Terms:
        return Terms(anchor=self.weight)


def trainable(model: nn.Module) -> Tensors:
    """The parameters that are trained, by name; shared ones once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def copy_of(parameters: Tensors) -> Tensors:
    """Detached copies, on the same devices."""
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}


def check_names(parameters: Tensors, tensors: Tensors) -> None:
    """Nothing is half loaded: the same names and shapes, or a mistake of ours."""
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    expected = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    assert found == expected, f"other weights: {sorted(set(found.items()) ^ set(expected.items()))[:3]}"


@torch.no_grad()
def load_weights(parameters: Tensors, tensors: Tensors) -> None:
    """Copy `tensors` into the parameters, in place."""
    check_names(parameters, tensors)
    for name, parameter in parameters.items():
        parameter.copy_(tensors[name])


@contextlib.contextmanager
def borrowed(parameters: Tensors, tensors: Tensors) -> Iterator[None]:
    """While this lasts the model computes with `tensors`, say for the log-probabilities of the snapshot.

    The storages are exchanged, nothing is copied, but for divided parameters (FSDP2), which are tied to theirs. Not for
    use inside a forward pass whose backward is still to come.
    """
    check_names(parameters, tensors)
    divided = {name: value for name, value in parameters.items() if hasattr(value, "full_tensor")}
    own = {name: parameter.data for name, parameter in parameters.items()} | copy_of(divided)
    try:
        put(parameters, tensors)
        yield
    finally:
        put(parameters, own)


@torch.no_grad()
def put(parameters: Tensors, tensors: Tensors) -> None:
    """Have the parameters hold `tensors`: these themselves, or for divided parameters what is in them."""
    for name, parameter in parameters.items():
        if hasattr(parameter, "full_tensor"):
            parameter.copy_(tensors[name])
        else:
            parameter.data = tensors[name].to(parameter.device, parameter.dtype)


def prefixed(prefix: str, tensors: Tensors | None) -> Tensors:
    return {prefix + name: tensor for name, tensor in (tensors or {}).items()}


def unprefixed(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
