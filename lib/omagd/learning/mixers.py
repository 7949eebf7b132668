"""From the values of the agents to the value of the team."""

from torch import Tensor, nn
from torch.nn import functional

EMBED, HYPER = 32, 64
MIXERS = ("qmix", "vdn", "iql")


class QMixer(nn.Module):
    """A mixing network whose weights are functions of the state, and positive: no agent's gain is the team's loss.

    Rashid et al. 2018, arXiv 1803.11485, with hypernetworks of one hidden layer of 64.
    """

    def __init__(self, state_size: int, n_agents: int, embed: int = EMBED, hyper: int = HYPER):
        super().__init__()
        self.n_agents, self.embed = n_agents, embed
        self.first = nn.Sequential(nn.Linear(state_size, hyper), nn.ReLU(), nn.Linear(hyper, n_agents * embed))
        self.first_bias = nn.Linear(state_size, embed)
        self.second = nn.Sequential(nn.Linear(state_size, hyper), nn.ReLU(), nn.Linear(hyper, embed))
        self.value = nn.Sequential(nn.Linear(state_size, embed), nn.ReLU(), nn.Linear(embed, 1))

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """(steps, agents), (steps, state) -> (steps, 1)."""
        first = self.first(state).abs().view(-1, self.n_agents, self.embed)
        hidden = (values.unsqueeze(-1) * first).sum(1) + self.first_bias(state)
        hidden = functional.elu(hidden)
        return (hidden * self.second(state).abs()).sum(-1, keepdim=True) + self.value(state)


class Sum(nn.Module):
    """Value decomposition networks: the sum (Sunehag et al. 2017, arXiv 1706.05296)."""

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        return values.sum(-1, keepdim=True)


class Each(nn.Module):
    """Independent learners: every agent's value is held against the team's return (Tan 1993)."""

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        return values


def make_mixer(name: str, state_size: int, n_agents: int) -> nn.Module:
    """One of MIXERS."""
    assert name in MIXERS, name
    return {"qmix": lambda: QMixer(state_size, n_agents), "vdn": Sum, "iql": Each}[name]()
