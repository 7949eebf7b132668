"""The update of QMIX as PyMARL2 has tuned it: TD(lambda), double Q, whole episodes, nothing padded."""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lib.omagd.learning.mixers import make_mixer
from lib.omagd.learning.networks import Agent, AgentConfig

FORBIDDEN = -1e7  # the value of an action that is not available
STATISTICS = ("loss", "error", "value", "target", "steps")


class Episodes(NamedTuple):
    """A batch of whole episodes in the layout of `networks.py`; S steps in all, A agents, C actions."""

    obs: Tensor  # (S, A, obs)
    state: Tensor  # (S, state)
    avail: Tensor  # (S, A, C) uint8
    actions: Tensor  # (S, A) int64
    last_actions: Tensor  # (S, A) int64, C before the first
    rewards: Tensor  # (S,)
    ends: Tensor  # (S,) float32: 1 where nothing comes after
    batch_sizes: tuple[int, ...]  # no tensor: data parallel training would move it to the device


@dataclass(frozen=True)
class QmixConfig:
    """The parts of the update that are chosen by flags."""

    agent: AgentConfig
    state_size: int
    mixer: str = "qmix"
    gamma: float = 0.99
    td_lambda: float = 0.6


class Learner(nn.Module):
    """Agent and mixer; `forward` is the loss of one update, as a sum over steps."""

    def __init__(self, config: QmixConfig):
        super().__init__()
        self.config = config
        self.agent = Agent(config.agent)
        self.mixer = make_mixer(config.mixer, config.state_size, config.agent.n_agents)

    def forward(self, batch: Episodes, targets: "Targets") -> tuple[Tensor, Tensor]:
        """(sum over steps of half the squared TD error, sums in the order of STATISTICS)."""
        values = self.agent(batch.obs, batch.last_actions, batch.batch_sizes)  # (S, A, C)
        chosen = values.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)  # (S, A)
        team = self.mixer(chosen, batch.state)  # (S, 1), (S, A) of independent learners
        with torch.no_grad():
            best = values.masked_fill(batch.avail == 0, FORBIDDEN).argmax(-1)
            goal = targets(batch, best)
        error = team - goal
        loss = 0.5 * error.square().sum() / team.shape[-1]
        with torch.no_grad():
            parts = (loss, error.abs().mean(-1).sum(), team.mean(-1).sum(), goal.mean(-1).sum())
            sums = torch.stack([*parts, torch.as_tensor(float(len(team)), device=team.device)])
        return loss, sums


class Targets(nn.Module):
    """Copies of agent and mixer that follow in jumps; the same on every rank, never trained by gradients."""

    def __init__(self, learner: Learner):
        super().__init__()
        self.config = learner.config
        self.agent = copy.deepcopy(learner.agent).requires_grad_(False)
        self.mixer = copy.deepcopy(learner.mixer).requires_grad_(False)

    @torch.no_grad()
    def forward(self, batch: Episodes, best: Tensor) -> Tensor:
        """TD(lambda) returns (S, 1), or (S, A) of independent learners, from the values of the online net's choices."""
        values = self.agent(batch.obs, batch.last_actions, batch.batch_sizes)
        chosen = values.gather(-1, best.unsqueeze(-1)).squeeze(-1)
        return td_lambda(
            batch.rewards, batch.ends, self.mixer(chosen, batch.state), batch.batch_sizes, self.config.gamma,
            self.config.td_lambda,
        )  # fmt: skip

    @torch.no_grad()
    def follow(self, learner: Learner) -> None:
        """Copy the weights."""
        for mine, live in ((self.agent, learner.agent), (self.mixer, learner.mixer)):
            for target, source in zip(mine.parameters(), live.parameters(), strict=True):
                target.copy_(source)


def td_lambda(
    rewards: Tensor, ends: Tensor, values: Tensor, batch_sizes: tuple[int, ...], gamma: float, share: float
) -> Tensor:
    """Returns G_t = r_t + gamma (1 - end_t) ((1 - lambda) V_{t+1} + lambda G_{t+1}), (S, k), of values (S, k).

    The last step of an episode has no step after it: there G = r, whatever its end says.
    """
    sizes, starts = batch_sizes, [0]
    for size in sizes[:-1]:
        starts.append(starts[-1] + size)
    returns = rewards.unsqueeze(-1).repeat(1, values.shape[-1])
    keep = gamma * (1.0 - ends).unsqueeze(-1)
    for at in range(len(sizes) - 2, -1, -1):
        # Episodes that have a next step are the first ones of this step: the longest lie first.
        size, here, there = sizes[at + 1], starts[at], starts[at + 1]
        after = slice(there, there + size)
        mixed = (1.0 - share) * values[after] + share * returns[after]
        returns[here : here + size] += keep[here : here + size] * mixed
    return returns
