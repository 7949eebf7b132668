"""Observations as nodes, one for each unit, and back: the same numbers in other places.

Nodes of an agent, in this order: itself, the other allies by number, the enemies by number. Rows have the width
`Layout.node_width` and zeros behind what is told:

    self    1, 0, 0, 0, move 4, own block
    ally    its block of the observation
    enemy   its block of the observation

`visible` of the battles has the order of the nodes; `alive` has that of the units (allies, enemies), `alive_of_nodes`
puts it into that of the nodes of each agent.
"""

import torch
from torch import Tensor

from lib.omagd.battle.layout import HEALTH_AT, MOVES, Layout

SELF, ALLY, ENEMY = range(3)
TYPES = ("self", "ally", "enemy")
OWN_AT = HEALTH_AT + MOVES  # of the own block in the row of the agent itself


class Nodes:
    """The places of the numbers of a layout: A agents, N = A + E nodes of each, rows of F numbers."""

    def __init__(self, layout: Layout, device: str | torch.device = "cpu"):
        self.layout = layout
        self.count, self.width = layout.n_nodes, layout.node_width
        others = layout.n_agents - 1
        zero, one = layout.obs_size, layout.obs_size + 1  # two more numbers behind the observation
        source = torch.full((self.count, self.width), zero)
        source[0, 0] = one
        source[0, HEALTH_AT:OWN_AT] = torch.arange(MOVES)
        own = layout.obs_size - layout.own_width
        source[0, OWN_AT : OWN_AT + layout.own_width] = torch.arange(own, layout.obs_size)
        enemies_at, allies_at = MOVES, MOVES + layout.n_enemies * layout.enemy_width
        for at, first, many, width in (
            (allies_at, 1, others, layout.ally_width),
            (enemies_at, 1 + others, layout.n_enemies, layout.enemy_width),
        ):
            source[first : first + many, :width] = at + torch.arange(many * width).view(many, width)
        types = torch.tensor([SELF] + [ALLY] * others + [ENEMY] * layout.n_enemies)
        flat = torch.empty(layout.obs_size, dtype=torch.int64)
        told = source < zero
        flat[source[told]] = told.flatten().nonzero().squeeze(1)
        # Who each agent's other allies are, as numbers of units.
        numbers = torch.arange(layout.n_agents)
        allies = torch.stack([numbers[numbers != agent] for agent in range(layout.n_agents)])
        units = torch.cat(
            [numbers[:, None], allies, torch.arange(layout.n_agents, self.count).expand(layout.n_agents, -1)], 1
        )
        self.source, self.flat = source.to(device), flat.to(device)
        self.types, self.told, self.units = types.to(device), told.to(device), units.to(device)

    def build(self, obs: Tensor) -> Tensor:
        """(..., obs) -> (..., N, F)."""
        ends = obs.new_tensor([0.0, 1.0]).expand(*obs.shape[:-1], 2)
        return torch.cat([obs, ends], -1)[..., self.source]

    def flatten(self, rows: Tensor) -> Tensor:
        """(..., N, F) -> (..., obs): the exact inverse of `build`."""
        return rows.flatten(-2)[..., self.flat]

    def alive_of_nodes(self, alive: Tensor) -> Tensor:
        """(..., U) of units -> (..., A, N) of the nodes of each agent."""
        return alive[..., self.units]

    def hidden(self, visible: Tensor, alive: Tensor) -> Tensor:
        """Whether the unit of a node lives and is not seen by an agent that lives: (..., A, N), (..., U) -> bool."""
        of_nodes = self.alive_of_nodes(alive) != 0
        return of_nodes & (visible == 0) & of_nodes[..., :1]


def feature_names(layout: Layout, node_type: int) -> list[str]:
    """Of the numbers that a row of the type tells, by their columns; "" for those it does not."""
    bits = [f"type {bit}" for bit in range(layout.type_bits)]
    if node_type == SELF:
        shield = ["shield"] * layout.ally_shield
        more = [f"own {k}" for k in range(layout.own_more)]
        names = ["", "", "", "", "north", "south", "east", "west", "health", *shield, *more, *bits]
    else:
        shield = ["shield"] * (layout.ally_shield if node_type == ALLY else layout.enemy_shield)
        first = "visible" if node_type == ALLY else "attackable"
        names = [first, "distance", "dx", "dy", "health", *shield, *bits]
    return names + [""] * (layout.node_width - len(names))
