"""Stage 3's eyes: what agents see, step by step, completed by a frozen predictor's guesses of what they do not.

The rows of units in sight stay as they are. Of a unit out of sight its row is the guess, times how likely it lives (a
dead unit's row is zeros), with the flag of visible or attackable left 0, as it truly is. Behind the observation stand,
for each other unit in the order of the nodes:

    lives     how likely it lives; 1 in sight
    spread    deviation of a coordinate of its position, in sights; 0 in sight
    lately    exp(-steps since it was seen last / 8); 1 in sight, 0 if never
    guessed   1 out of sight

Agents that are dead are told zeros, as ever. The same as `Predictor.believe` over whole episodes, a step at a time and
without the tokens: products of matrices by torch, the rest by `reconstruction_kernel.py`.
"""

import math

import torch
import warp as wp
from torch import Tensor

from lib.omagd.battle.layout import MOVES, Layout
from lib.omagd.recon.nodes import Nodes
from lib.omagd.recon.predictor import FADING, FLAGS, Predictor
from lib.omagd.recon.reconstruction_kernel import SIGNS, TELLS, Arrays, complete, look
from lib.warp_run import launcher, torch_stream, warp_device

KEPT = ("slots", "times", "hidden")


class Reconstruction:
    """Of `count` battles. `likeliest`: the decoded likeliest tokens instead of the mean of all."""

    def __init__(self, predictor: Predictor, layout: Layout, count: int, likeliest: bool = False):
        self.predictor, self.likeliest = predictor.eval().requires_grad_(False), likeliest
        self.layout, self.count, config = layout, count, predictor.config
        self.device = device = predictor.normal.device
        agents, nodes, width, hidden = layout.n_agents, config.nodes, config.node_width, config.hidden
        rows = count * agents
        self.hidden = torch.zeros(rows, hidden, device=device)
        self._rows, self._agents = torch.arange(rows, device=device), torch.arange(agents, device=device)
        self._places = self._rows.int()
        self.times = torch.zeros(count, dtype=torch.int32, device=device)
        with torch_stream(device):
            self.arrays = Arrays()
            self._share("visible", (rows, nodes), torch.uint8)
            self._share("slots", (rows, nodes, width + FLAGS))
            self._share("tells", ((nodes - 1) * (TELLS + width) * rows,))
            self._share("living", (1,), torch.int32)
            self._share("place", (rows,), torch.int32)
            self._share("rows", (nodes - 1, rows, width) if likeliest else (1, 1, 1))
            self._share("told", (rows, self.size(layout)))
            self._constants()
            command = {"device": warp_device(device), "inputs": [self.arrays], "record_cmd": True}
            self._look = launcher(wp.launch(look, dim=rows, **command), device)
            self._complete = launcher(wp.launch(complete, dim=rows, **command), device)

    def _share(self, name: str, shape: tuple[int, ...], dtype=torch.float32, value: Tensor | None = None) -> None:
        """A tensor of ours that the kernels see, zeros or `value`."""
        tensor = torch.zeros(shape, dtype=dtype, device=self.device)
        if value is not None:
            tensor.copy_(value)
        setattr(self, name, tensor)
        setattr(self.arrays, name, wp.from_torch(tensor))

    def _constants(self) -> None:
        """Sizes, places in the observation, and what the weights say of time, actions and numbers of agents."""
        predictor, config, layout, arrays = self.predictor, self.predictor.config, self.layout, self.arrays
        nodes, places = config.nodes, Nodes(layout)
        arrays.nodes, arrays.width, arrays.observed = nodes, config.node_width, layout.obs_size
        arrays.forgets, arrays.decoded = int(config.memory == "none"), int(self.likeliest)
        arrays.fading = math.exp(-1.0 / FADING)
        source = torch.where(places.source < layout.obs_size, places.source, layout.obs_size - 1 - places.source)
        self._share("source", tuple(source.shape), torch.int32, source)
        first = MOVES + layout.n_enemies * layout.enemy_width
        others = [first + k * layout.ally_width for k in range(layout.n_agents - 1)]
        enemies = [MOVES + k * layout.enemy_width for k in range(layout.n_enemies)]
        widths = [0] + [layout.ally_width] * len(others) + [layout.enemy_width] * len(enemies)
        self._share("starts", (nodes,), torch.int32, torch.tensor([0, *others, *enemies]))
        self._share("widths", (nodes,), torch.int32, torch.tensor(widths))
        for name in ("normal", "deviation", "columns"):
            self._share(name, (nodes, config.node_width), value=getattr(predictor, name))
        slots = nodes * (config.node_width + FLAGS)
        self._sees = predictor.sees.weight[:, :slots].T.contiguous()
        times = (
            predictor.waves_of(torch.arange(config.limit + 1, device=self.device)) @ predictor.sees.weight[:, slots:].T
        )
        # What every agent begins with at every step.
        self._starts = ((times + predictor.sees.bias).unsqueeze(1) + predictor.number.weight).flatten(0, 1)
        # For each node but the first: weights as they are, results with rows side by side. So products read what is
        # known where it lies, and copy nothing.
        nodes, slot, tells = nodes - 1, config.slot, predictor.tells
        self._expects = predictor.expects.weight[slot:], predictor.expects.bias[slot:].unsqueeze(1)
        self._recalls = torch.stack([predictor.recalls_of(int(kind)) for kind in predictor.types[1:]])
        self._tells = tells.weight.expand(nodes, -1, -1), tells.bias.view(1, -1, 1)

    @staticmethod
    def size(layout: Layout) -> int:
        """Numbers that an agent is told."""
        return layout.obs_size + SIGNS * (layout.n_nodes - 1)

    @torch.no_grad()
    def step(self, obs: Tensor, visible: Tensor, last_actions: Tensor) -> Tensor:
        """(count, agents, size) of the next step of every battle, to be read before the one after.

        obs (count, agents, obs), visible uint8 (count, agents, N), last_actions int64 (count, agents).
        """
        predictor, config = self.predictor, self.predictor.config
        self.told[:, : self.layout.obs_size].view_as(obs).copy_(obs)
        self.visible.view_as(visible).copy_(visible)
        self._look()
        # Dead agents are told zeros and do not come back: their rows are left out, but for GPUs, which would wait.
        rows = self.visible[:, 0].nonzero().squeeze(1) if self.device.type == "cpu" else self._rows
        self.living.fill_(len(rows))
        self.place.index_copy_(0, rows, self._places[: len(rows)])
        starts = (self.times.clamp_max(config.limit) * self.layout.n_agents).unsqueeze(1) + self._agents
        self.times += 1
        inner = self._starts.index_select(0, starts.flatten().index_select(0, rows))
        inner += predictor.last_action.weight.index_select(0, last_actions.flatten().index_select(0, rows))
        slots = self.slots.index_select(0, rows)
        inner = torch.addmm(inner, slots.flatten(1), self._sees).relu_()
        hidden = predictor.remember(inner, self.hidden.index_select(0, rows))
        self.hidden.index_copy_(0, rows, hidden)
        weights, bias = self._expects
        found = torch.addmm(bias, weights, hidden.T).view(len(self._recalls), config.slot, -1)
        found.baddbmm_(self._recalls, slots[:, 1:].permute(1, 2, 0)).relu_()  # (N - 1, slot, rows)
        weights, bias = self._tells
        shape = (len(found), weights.shape[1], len(rows))
        tells = torch.baddbmm(bias, weights, found, out=self.tells[: math.prod(shape)].view(shape))
        # Many at once are much faster here than one by one in the kernel.
        tells[:, :2].sigmoid_()
        tells[:, 2].mul_(0.5).exp_()
        if self.likeliest:
            for node, kind in enumerate(predictor.types[1:]):  # all at once have logits of every code
                self.rows[node, : len(rows)] = predictor.decoded(found[node].T, kind)
        self._complete()
        return self.told.view(self.count, -1, self.told.shape[-1])

    def forget(self, which) -> None:
        """A battle, or those of a mask, begin anew."""
        self.times[which] = 0
        for memory in (self.slots, self.hidden):
            memory.view(self.count, -1)[which] = 0

    def get_state(self) -> dict[str, Tensor]:
        """What is remembered, on the CPU."""
        return {name: getattr(self, name).cpu() for name in KEPT}

    def set_state(self, state: dict[str, Tensor]) -> None:
        """Restore `get_state`."""
        for name in KEPT:
            getattr(self, name).copy_(state[name])
