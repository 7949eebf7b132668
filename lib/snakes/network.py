"""The actor of one snake and the critics that train it: small networks shared by the three snakes of a team.

The actor is a multilayer perceptron on a snake's own features. With comm "lstm" a bidirectional LSTM runs over the
three mates between the two halves, as in BiCNet (Peng et al. 2017, "Multiagent bidirectionally-coordinated nets").
"""

import itertools
import math
from dataclasses import asdict, dataclass

import torch
from torch import nn

from lib.errors import UserError
from lib.snakes.rules import ACTIONS, FEATURES, TEAM

MOVES = len(ACTIONS)
KIND = "snakes-actor"
# Where the layout "team" says that the cell of a move is blocked (1: a body, 0.5: a tail that may leave).
BLOCKED = [8 + 5 * move for move in range(MOVES)]
BLOCKED_FROM = 0.9
MASKED = 4096.0  # taken from the logit of a blocked move; those of free moves differ by hundreds
TANH_SCALE = 5.0


@dataclass(frozen=True)
class ActorConfig:
    """What rebuilds an actor: the layout of its features, widths, communication, mask and output."""

    features: str = "team"
    hidden: tuple[int, ...] = (128, 128)
    comm: str = "none"
    mask: bool = True
    output: str = "softmax"

    @property
    def masks(self) -> bool:
        """Whether blocked moves are masked: only the layout "team" says which are."""
        return self.mask and self.features == "team"

    def to_dict(self) -> dict:
        """For config.json of an export."""
        return {"kind": KIND, **asdict(self), "hidden": list(self.hidden), "inputs": FEATURES[self.features]}

    @staticmethod
    def from_dict(config: dict, source: str = "config.json") -> "ActorConfig":
        """Raises UserError when `config` is not of an actor, or of one that this version does not know."""
        if config.get("kind") != KIND:
            raise UserError(f"{source} is of {config.get('kind', 'another kind')}, expected an export of train_snakes")
        known = {"features": tuple(FEATURES), "comm": ("none", "lstm"), "output": ("softmax", "tanh")}
        for name, values in known.items():
            if config.get(name) not in values:
                raise UserError(f"{source}: {name} is {config.get(name)!r}, expected one of {', '.join(values)}")
        inputs = FEATURES[config["features"]]
        if config.get("inputs", inputs) != inputs:
            raise UserError(
                f"{source}: its actor takes {config['inputs']} numbers of the layout {config['features']}, this version"
                f" gives {inputs}: use the version it was trained with, or train anew"
            )
        hidden = tuple(int(width) for width in config["hidden"])
        return ActorConfig(config["features"], hidden, config["comm"], bool(config["mask"]), config["output"])


class Trunk(nn.Module):
    """Linear-ReLU layers over `inputs` numbers a snake, to `outputs`; with comm "lstm" one layer on each side of a
    bidirectional LSTM over the snakes."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, comm: str):
        super().__init__()
        self.lstm = None
        if comm == "lstm":
            self.lstm = nn.LSTM(hidden[0], hidden[0], batch_first=True, bidirectional=True)
            self.layers = nn.ModuleList([nn.Linear(inputs, hidden[0]), nn.Linear(2 * hidden[0], outputs)])
        else:
            widths = (inputs, *hidden, outputs)
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        for layer in self.layers:
            nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
            nn.init.zeros_(layer.bias)
        # Small last weights: the first policy is nearly uniform and the first values are nearly 0.
        nn.init.orthogonal_(self.layers[-1].weight, 0.01)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., snakes, inputs) to (..., snakes, outputs)."""
        hidden = torch.relu(self.layers[0](inputs))
        if self.lstm is not None:
            flat = hidden.reshape(-1, *hidden.shape[-2:])
            hidden = self.lstm(flat)[0].reshape(*hidden.shape[:-1], -1)
            return self.layers[1](hidden)
        for layer in self.layers[1:-1]:
            hidden = torch.relu(layer(hidden))
        return self.layers[-1](hidden)


class Actor(Trunk):
    """Features of the three snakes of a team to the logits of their four moves."""

    def __init__(self, config: ActorConfig):
        super().__init__(FEATURES[config.features], config.hidden, MOVES, config.comm)
        self.config = config

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Logits (..., 3, 4) of features (..., 3, F); blocked moves are MASKED lower when the actor masks."""
        logits = super().forward(features)
        if self.config.output == "tanh":
            logits = TANH_SCALE * torch.tanh(logits)
        if self.config.masks:
            logits = logits - MASKED * (features[..., BLOCKED[0] : BLOCKED[-1] + 1 : 5] >= BLOCKED_FROM)
        return logits

    @staticmethod
    def from_export(tensors: dict[str, torch.Tensor], config: dict, source: str = "the export") -> "Actor":
        """The actor of an export (lib.checkpoint.load_export); raises UserError when weights and config disagree."""
        actor = Actor(ActorConfig.from_dict(config, source))
        wanted = {name: tuple(value.shape) for name, value in actor.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in tensors.items()}
        if wanted != found:
            names = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
            raise UserError(
                f"{source}: {names[0]} is {found.get(names[0], 'missing')}, its config.json says"
                f" {wanted.get(names[0], 'that there is none')}: copy the export folder as a whole"
            )
        actor.load_state_dict(tensors)
        return actor.eval()


class Critic(Trunk):
    """Q-values of a snake's moves.

    relaxation "linear": Q(s, .) of the four moves, so that Q(s, p) = <p, Q(s, .)> for a policy vector p. relaxation
    "gumbel_st": Q(s, a) of one action vector. central: the features and action vectors of the two mates are seen too
    (Lowe et al. 2017, MADDPG), else only the snake's own.
    """

    def __init__(self, config: ActorConfig, relaxation: str, central: bool):
        self.linear, self.central = relaxation == "linear", central
        inputs = FEATURES[config.features] + (0 if self.linear else MOVES)
        if central:
            inputs += (TEAM - 1) * (FEATURES[config.features] + MOVES)
        super().__init__(inputs, config.hidden, MOVES if self.linear else 1, config.comm)

    def forward(self, features: torch.Tensor, own: torch.Tensor | None, mates: torch.Tensor | None) -> torch.Tensor:
        """(batch, 3, F), own and mates' action vectors (batch, 3, 4) to (batch, 3, 4), or (batch, 3, 1) unless linear.

        `own` is not looked at by a linear critic, `mates` only by a central one.
        """
        parts = [features] if self.linear else [features, own]
        if self.central:
            others = torch.cat((features, mates), -1)
            parts += [torch.roll(others, -shift, dims=-2) for shift in range(1, TEAM)]
        return super().forward(torch.cat(parts, -1) if len(parts) > 1 else features)
