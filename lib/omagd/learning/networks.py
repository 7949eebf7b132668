"""The agents' network: one for all, recurrent, told what its agent did last and which agent it is.

Episodes of unequal length lie one behind the other in time: first the first steps of all, the longest first, then the
second steps of those that have one, and so on (the layout of torch's PackedSequence). Nothing is padded.
"""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from lib.omagd.learning import recurrence


@dataclass(frozen=True)
class AgentConfig:
    """Sizes of an agent's network."""

    obs_size: int
    n_actions: int
    n_agents: int
    hidden: int = 64

    def to_dict(self) -> dict:
        return asdict(self)


class Agent(nn.Module):
    """Observation, last action and number -> Linear, ReLU -> GRU -> Linear: a value for each action.

    The network of PyMARL's `rnn_agent`; the one-hot numbers of action and agent are columns of the first layer.
    """

    def __init__(self, config: AgentConfig):
        super().__init__()
        self.config = config
        self.observe = nn.Linear(config.obs_size, config.hidden)
        # The last action of an agent that has not acted is n_actions.
        self.last_action = nn.Embedding(config.n_actions + 1, config.hidden)
        self.number = nn.Embedding(config.n_agents, config.hidden)
        self.memory = nn.GRU(config.hidden, config.hidden)
        self.values = nn.Linear(config.hidden, config.n_actions)
        for table in (self.last_action, self.number):
            nn.init.uniform_(table.weight, -(config.obs_size**-0.5), config.obs_size**-0.5)

    def encode(self, obs: Tensor, last_actions: Tensor) -> Tensor:
        """(..., agents, obs), (..., agents) -> (..., agents, hidden)."""
        return torch.relu(self.observe(obs) + self.last_action(last_actions) + self.number.weight)

    def forward(self, obs: Tensor, last_actions: Tensor, batch_sizes: tuple[int, ...]) -> Tensor:
        """Whole episodes from their first step: (steps, agents, obs), (steps, agents) -> (steps, agents, actions).

        batch_sizes: how many episodes have a first, a second ... step.
        """
        agents, hidden = self.config.n_agents, self.config.hidden
        seen = self.encode(obs, last_actions).view(-1, hidden)  # (steps x agents, hidden)
        remembered = recurrence.run(self.memory, seen, [size * agents for size in batch_sizes])
        return self.values(remembered).view(-1, agents, self.config.n_actions)

    def step(self, obs: Tensor, last_actions: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """One step of many episodes: (values (episodes, agents, actions), hidden (episodes x agents, hidden))."""
        gru = self.memory
        seen = self.encode(obs, last_actions).view(-1, self.config.hidden)
        hidden = torch.gru_cell(seen, hidden, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
        return self.values(hidden).view(*obs.shape[:2], -1), hidden

    def no_memory(self, episodes: int, device: torch.device) -> Tensor:
        """The hidden state of episodes that begin."""
        return torch.zeros(episodes * self.config.n_agents, self.config.hidden, device=device)
