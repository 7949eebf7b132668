"""Playing the training battles: all of them in lockstep, every episode that ends goes to the replay."""

import torch

from lib.omagd.battle.arrays import DEAD_ALLIES, DEAD_ENEMIES, LIMIT, WON
from lib.omagd.battles import Battles
from lib.omagd.learning.networks import Agent
from lib.omagd.learning.replay import EpisodeReplay, step_arrays
from lib.omagd.senses import Senses

STATISTICS = ("episodes", "won", "returns", "lengths", "limits", "dead_allies", "dead_enemies")


class Collector:
    """The battles of one process, what their agents are told, and their replay."""

    def __init__(self, battles: Battles, replay: EpisodeReplay, senses: Senses | None = None):
        self.battles, self.replay, self.senses = battles, replay, senses or Senses(battles)
        self.running = step_arrays(
            battles.layout, battles.num_battles, battles.limit, device=battles.device, told=replay.told
        )
        self.hidden: torch.Tensor | None = None
        self.last_actions = torch.full_like(battles.actions, battles.layout.n_actions, dtype=torch.int64)
        self.lengths = torch.zeros(battles.num_battles, dtype=torch.int64, device=battles.device)
        self.slots = torch.arange(battles.num_battles, device=battles.device)
        self.sums = dict.fromkeys(STATISTICS, 0.0)  # since the last look

    @torch.no_grad()
    def step(self, agent: Agent, epsilon: float) -> int:
        """One step of all battles; the number of episodes that ended."""
        battles, running, places = self.battles, self.running, (self.slots, self.lengths)
        if self.hidden is None:
            self.hidden = agent.no_memory(battles.num_battles, battles.device)
        told = self.senses.tell(self.last_actions)
        values, self.hidden = agent.step(told, self.last_actions, self.hidden)
        battles.choose(values, epsilon)
        running["obs"][places] = told
        running["state"][places] = battles.state
        running["avail"][places] = battles.avail
        running["actions"][places] = battles.actions.to(torch.uint8)
        self.last_actions.copy_(battles.actions)
        battles.step(check=False)
        running["rewards"][places] = battles.rewards
        running["ends"][places] = battles.done.float()
        self.lengths += 1
        for slot in battles.dropped:
            self._begin(slot)
        ended = battles.done.nonzero().squeeze(1).tolist()
        for slot in ended:
            self._finish(slot)
        return len(ended)

    def _finish(self, slot: int) -> None:
        length, info = int(self.lengths[slot]), self.battles.info[slot].tolist()
        self.replay.add(self.running, slot, length)
        self._begin(slot)
        found = (1.0, info[WON], float(self.battles.final_returns[slot]), length, info[LIMIT], info[DEAD_ALLIES],
                 info[DEAD_ENEMIES])  # fmt: skip
        for name, value in zip(STATISTICS, found, strict=True):
            self.sums[name] += float(value)

    def _begin(self, slot: int) -> None:
        """An episode begins: what was played before and has not ended is forgotten."""
        agents = self.battles.layout.n_agents
        self.hidden.view(-1, agents, self.hidden.shape[-1])[slot] = 0.0
        self.last_actions[slot] = self.battles.layout.n_actions
        self.lengths[slot] = 0
        self.senses.forget(slot)

    def get_state(self) -> dict[str, torch.Tensor]:
        """Battles, replay and running episodes of this process."""
        agents = self.battles.layout.n_agents
        hidden = self.hidden if self.hidden is not None else torch.zeros(len(self.slots) * agents, 0)
        own = {"hidden": hidden.cpu(), "last_actions": self.last_actions.cpu(), "lengths": self.lengths.cpu()}
        own["sums"] = torch.tensor([self.sums[name] for name in STATISTICS], dtype=torch.float64)
        parts = {"battles": self.battles.get_state(), "replay": self.replay.get_state(), "own": own}
        parts["senses"] = self.senses.get_state()
        parts["running"] = {name: array.cpu() for name, array in self.running.items()}
        return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}

    def set_state(self, tensors: dict[str, torch.Tensor]) -> None:
        """Restore `get_state`; battles that cannot be saved begin anew."""
        parts: dict[str, dict[str, torch.Tensor]] = {
            "battles": {},
            "replay": {},
            "own": {},
            "running": {},
            "senses": {},
        }
        for key, tensor in tensors.items():
            part, _, name = key.partition(".")
            parts[part][name] = tensor
        self.replay.set_state(parts["replay"])
        self.battles.set_state(parts["battles"])
        self.senses.set_state(parts["senses"])
        for name, tensor in parts["running"].items():
            self.running[name].copy_(tensor)
        hidden = parts["own"]["hidden"].to(self.battles.device)
        self.hidden = hidden if hidden.shape[-1] else None
        self.last_actions.copy_(parts["own"]["last_actions"])
        self.lengths.copy_(parts["own"]["lengths"])
        self.sums = dict(zip(STATISTICS, parts["own"]["sums"].tolist(), strict=True))
        if not self.battles.resumable and self.hidden is not None:
            for slot in range(self.battles.num_battles):
                self._begin(slot)

    def look(self) -> dict[str, float]:
        """Sums over the episodes that ended since the last look, by STATISTICS."""
        found, self.sums = self.sums, dict.fromkeys(STATISTICS, 0.0)
        return found
