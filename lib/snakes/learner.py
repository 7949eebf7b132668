"""Discrete multi-agent DDPG: one update of actor and critics as one module, and the targets beside it.

The actor gives a policy vector p on the simplex over four moves. With relaxation "linear" the critic gives Q(s, .), and
Q(s, p) = <p, Q(s, .)> is linear in p: the deterministic policy gradient dQ/dp dp/dtheta (Silver et al. 2014; Lillicrap
et al. 2016, DDPG) is exact, without noise, and the critic learns on the action that was executed. With "gumbel_st" the
critic takes an action vector, and the actor's gradient goes through a straight-through Gumbel-softmax sample (Jang et
al. 2017), as in MADDPG (Lowe et al. 2017). Twin critics with the minimum as target are from TD3 (Fujimoto et al. 2018).
"""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from lib.snakes.network import MOVES, Actor, ActorConfig, Critic

STATISTICS = ("critic_loss", "actor_loss", "entropy", "value", "rows")


@dataclass(frozen=True)
class LearnerConfig:
    """The parts of the update that are chosen by flags."""

    actor: ActorConfig
    relaxation: str = "linear"
    central: bool = False
    critics: int = 2
    entropy_bonus: float = 0.01
    huber: float = 10.0  # errors up to here count squared, larger ones by their size
    temperature: float = 1.0  # of the Gumbel-softmax


class Batch(NamedTuple):
    """Transitions of teams; `weight` 0 takes one out (its future was cut off)."""

    features: torch.Tensor  # (batch, 3, F) float32
    actions: torch.Tensor  # (batch, 3) int64, executed
    returns: torch.Tensor  # (batch, 3) sum of discounted rewards up to n steps
    discount: torch.Tensor  # (batch, 1) of the value at next_features: gamma^n, 0 after the end of the game
    next_features: torch.Tensor  # (batch, 3, F)
    weight: torch.Tensor  # (batch, 1)


class Learner(nn.Module):
    """Actor and critics; `forward` is the loss of one update."""

    def __init__(self, config: LearnerConfig):
        super().__init__()
        self.config = config
        self.actor = Actor(config.actor)
        self.critics = nn.ModuleList(
            Critic(config.actor, config.relaxation, config.central) for _ in range(config.critics)
        )

    def forward(
        self, features: torch.Tensor, actions: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor, seed: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Sum over rows (one row: one snake) of Huber critic losses and the actor loss -Q(s, pi(s)) - bonus x entropy.

        features (batch, 3, F), actions (batch, 3), targets (batch, 3), weight (batch, 1). `seed` decides the draws of
        gumbel_st. Returns (loss, sums in the order of STATISTICS, (batch,) whether all of a transition is finite).
        """
        executed = functional.one_hot(actions, MOVES).to(features.dtype)
        logits = self.actor(features)
        log_policy = torch.log_softmax(logits, -1)
        policy = log_policy.exp()
        entropy = -(policy * log_policy).sum(-1)
        if self.config.relaxation == "linear":
            values, acted = self._linear(features, executed, policy)
        else:
            values, acted = self._gumbel(features, executed, logits, seed)
        bound = self.config.huber
        critic_rows = sum(functional.huber_loss(value, targets, reduction="none", delta=bound) for value in values)
        actor_rows = -acted - self.config.entropy_bonus * entropy
        loss = ((critic_rows + actor_rows) * weight).sum()
        with torch.no_grad():
            parts = (critic_rows, -acted, entropy, values[0], torch.ones_like(critic_rows))
            sums = torch.stack([(part * weight).sum() for part in parts])
            finite = torch.isfinite(critic_rows + actor_rows).all(-1)
        return loss, sums, finite

    def _linear(self, features, executed, policy) -> tuple[list[torch.Tensor], torch.Tensor]:
        """(Q of the executed actions for each critic, <policy, Q> with gradient for the actor alone)."""
        qs = [critic(features, None, executed) for critic in self.critics]
        values = [(q * executed).sum(-1) for q in qs]
        lowest = torch.stack(qs).amin(0) if len(qs) > 1 else qs[0]
        return values, (policy * lowest.detach()).sum(-1)

    def _gumbel(self, features, executed, logits, seed) -> tuple[list[torch.Tensor], torch.Tensor]:
        values = [critic(features, executed, executed).squeeze(-1) for critic in self.critics]
        sampled = gumbel_straight_through(logits, self.config.temperature, seed)
        # The critic's weights are constants here: its loss alone trains them.
        frozen = {name: value.detach() for name, value in self.critics[0].named_parameters()}
        acted = torch.func.functional_call(self.critics[0], frozen, (features, sampled, executed))
        return values, acted.squeeze(-1)


def gumbel_straight_through(logits: torch.Tensor, temperature: float, seed: int) -> torch.Tensor:
    """A one-hot sample of softmax(logits) whose gradient is that of the softmax of logits plus noise."""
    generator = torch.Generator(device=logits.device).manual_seed(seed)
    uniform = torch.rand(logits.shape, generator=generator, device=logits.device).clamp_(1e-9, 1 - 1e-7)
    soft = torch.softmax((logits - (-uniform.log()).log()) / temperature, -1)
    hard = functional.one_hot(soft.argmax(-1), MOVES).to(soft.dtype)
    return hard + soft - soft.detach()


class Targets:
    """Slowly moving copies of actor and critics, the same on every rank; never trained by gradients."""

    def __init__(self, learner: Learner, gamma: float):
        self.actor = copy.deepcopy(learner.actor).requires_grad_(False)
        self.critics = copy.deepcopy(learner.critics).requires_grad_(False)
        self.config, self.gamma = learner.config, gamma
        # Named pairs once: the soft update runs after every optimiser step. The live ones are the parameters
        # themselves: moving a module to a device, even the one it is on, may give them other memory.
        parts = {**prefixed("actor", self.actor), **prefixed("critics", self.critics)}
        live = {**prefixed("actor", learner.actor), **prefixed("critics", learner.critics)}
        self.tensors = {name: value.detach() for name, value in parts.items()}
        self.live = [live[name] for name in parts]

    @torch.no_grad()
    def __call__(self, batch: Batch, seed: int) -> torch.Tensor:
        """n-step targets (batch, 3): returns + discount x min over critics of Q'(s', pi'(s'))."""
        logits = self.actor(batch.next_features)
        policy = torch.softmax(logits, -1)
        if self.config.relaxation == "linear":
            mates = policy if self.config.central else None
            values = [(critic(batch.next_features, None, mates) * policy).sum(-1) for critic in self.critics]
        else:
            sampled = gumbel_straight_through(logits, self.config.temperature, seed)
            values = [critic(batch.next_features, sampled, sampled).squeeze(-1) for critic in self.critics]
        lowest = torch.stack(values).amin(0) if len(values) > 1 else values[0]
        return batch.returns + batch.discount * lowest

    @torch.no_grad()
    def follow(self, tau: float) -> None:
        """target <- (1 - tau) target + tau live."""
        torch._foreach_lerp_(list(self.tensors.values()), self.live, tau)

    @torch.no_grad()
    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Copy what `tensors` of another Targets held; names and shapes must agree."""
        assert {name: value.shape for name, value in tensors.items()} == {
            name: value.shape for name, value in self.tensors.items()
        }
        for name, value in self.tensors.items():
            value.copy_(tensors[name])


def prefixed(name: str, module: nn.Module) -> dict[str, torch.Tensor]:
    """The module's parameters by name."""
    return {f"{name}.{key}": value for key, value in module.named_parameters()}
