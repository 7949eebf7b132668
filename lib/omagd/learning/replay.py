"""The replay: whole episodes, step behind step in a ring, without padding."""

from collections import deque

import torch
from torch import Tensor

from lib.omagd.battle.layout import Layout
from lib.omagd.learning.qmix import Episodes
from lib.seeds import derive

FIELDS = ("obs", "state", "avail", "actions", "rewards", "ends")


def step_arrays(layout: Layout, *shape: int, device="cpu") -> dict[str, Tensor]:
    """What is kept of a step, zeros of `shape` steps."""
    agents = layout.n_agents
    return {
        "obs": torch.zeros(*shape, agents, layout.obs_size, device=device),
        "state": torch.zeros(*shape, layout.state_size, device=device),
        "avail": torch.zeros(*shape, agents, layout.n_actions, dtype=torch.uint8, device=device),
        "actions": torch.zeros(*shape, agents, dtype=torch.uint8, device=device),
        "rewards": torch.zeros(*shape, device=device),
        "ends": torch.zeros(*shape, device=device),
    }


class EpisodeReplay:
    """The newest `episodes` episodes, as far as `steps` steps have room for them; the oldest go first."""

    def __init__(self, layout: Layout, episodes: int, steps: int, device="cpu"):
        self.layout, self.episodes, self.capacity, self.device = layout, episodes, steps, torch.device(device)
        self.arrays = step_arrays(layout, steps, device=device)
        self.kept: deque[tuple[int, int]] = deque()  # (first place, length) of each, the oldest first
        self.next = 0  # where the next episode begins
        self.added = 0  # episodes ever

    def __len__(self) -> int:
        return len(self.kept)

    def add(self, source: dict[str, Tensor], slot: int, length: int) -> None:
        """Keep the first `length` steps of source[...][slot]; episodes in their way are forgotten."""
        assert 0 < length <= self.capacity
        if self.next + length > self.capacity:  # an episode lies in one piece
            self._forget(self.next, self.capacity)
            self.next = 0
        first, end = self.next, self.next + length
        self._forget(first, end)
        for name, array in self.arrays.items():
            array[first:end] = source[name][slot, :length]
        self.kept.append((first, length))
        self.next, self.added = end, self.added + 1
        while len(self.kept) > self.episodes:
            self.kept.popleft()

    def _forget(self, first: int, end: int) -> None:
        """Drop the oldest episodes while they overlap places first .. end - 1."""
        while self.kept and self.kept[0][0] < end and self.kept[0][0] + self.kept[0][1] > first:
            self.kept.popleft()

    def sample(self, count: int, seed: int, update: int, rank: int = 0) -> Episodes:
        """`count` different episodes, drawn by (seed, update, rank), in the layout of `networks.py`."""
        generator = torch.Generator().manual_seed(derive(seed, "replay", update, rank))
        drawn = torch.randperm(len(self.kept), generator=generator)[:count].tolist()
        spans = torch.tensor([self.kept[number] for number in drawn])
        spans = spans[torch.argsort(spans[:, 1], descending=True, stable=True)]
        starts, lengths = spans[:, 0], spans[:, 1]
        time = torch.arange(int(lengths[0]))
        inside = time.unsqueeze(1) < lengths  # (longest, episodes): the longest lie first
        rows = (starts + time.unsqueeze(1))[inside].to(self.device)
        before = torch.where(time.unsqueeze(1) > 0, starts + time.unsqueeze(1) - 1, -1)[inside].to(self.device)
        found = {name: array[rows] for name, array in self.arrays.items()}
        actions = found["actions"].long()
        last = self.arrays["actions"][before.clamp_min(0)].long()
        last[before < 0] = self.layout.n_actions
        return Episodes(
            found["obs"], found["state"], found["avail"], actions, last, found["rewards"], found["ends"],
            inside.sum(1),
        )  # fmt: skip

    def get_state(self) -> dict[str, Tensor]:
        """Everything, as tensors on the CPU."""
        spans = torch.tensor(list(self.kept), dtype=torch.int64).view(-1, 2)
        state = {name: array.cpu() for name, array in self.arrays.items()}
        return state | {"spans": spans, "counts": torch.tensor([self.next, self.added])}

    def set_state(self, state: dict[str, Tensor]) -> None:
        """Restore `get_state`."""
        for name, array in self.arrays.items():
            array.copy_(state[name])
        self.kept = deque((int(first), int(length)) for first, length in state["spans"].tolist())
        self.next, self.added = (int(value) for value in state["counts"].tolist())
