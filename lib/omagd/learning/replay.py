"""The replay: whole episodes, step behind step in a ring, without padding."""

from collections import Counter, deque

import torch
from torch import Tensor

from lib.errors import UserError
from lib.omagd.battle.layout import Layout
from lib.omagd.learning.qmix import Episodes
from lib.room import check_room
from lib.seeds import numpy_generator


def step_arrays(layout: Layout, *shape: int, device="cpu", told: int | None = None) -> dict[str, Tensor]:
    """What is kept of a step, zeros of `shape` steps; told: numbers that an agent is told, unless the observation's."""
    agents = layout.n_agents
    return {
        "obs": torch.zeros(*shape, agents, told or layout.obs_size, device=device),
        "state": torch.zeros(*shape, layout.state_size, device=device),
        "avail": torch.zeros(*shape, agents, layout.n_actions, dtype=torch.uint8, device=device),
        "actions": torch.zeros(*shape, agents, dtype=torch.uint8, device=device),
        "rewards": torch.zeros(*shape, device=device),
        "ends": torch.zeros(*shape, device=device),
    }


def step_bytes(layout: Layout, told: int | None = None) -> int:
    """Memory of one step."""
    return sum(array.nbytes for array in step_arrays(layout, 1, told=told).values())


class EpisodeReplay:
    """The newest `episodes` episodes, as far as `steps` steps have room for them; the oldest go first.

    slots: how many battles a process plays at once; first_slot: the number of its first among those of all processes.
    UserError when it does not fit into its share of the memory, which `neighbours` processes have in common.
    """

    def __init__(
        self, layout: Layout, episodes: int, steps: int, slots: int, first_slot: int = 0, device="cpu",
        neighbours: int = 1, told: int | None = None,
    ):  # fmt: skip
        self.bytes = steps * step_bytes(layout, told)
        check_room("--buffer_steps", steps, self.bytes, device, neighbours)
        self.told = told
        self.layout, self.episodes, self.capacity, self.device = layout, episodes, steps, torch.device(device)
        self.arrays = step_arrays(layout, steps, device=device, told=told)
        self.kept: deque[tuple[int, int, int]] = deque()  # (first place, length, slot) of each, the oldest first
        self.of_slot: list[deque[tuple[int, int]]] = [deque() for _ in range(slots)]
        self.first_slot = first_slot
        self.next = 0  # where the next episode begins
        self.used = 0  # places that were ever written
        self.added = 0  # episodes ever

    def __len__(self) -> int:
        return len(self.kept)

    def add(self, source: dict[str, Tensor], slot: int, length: int) -> None:
        """Keep the first `length` steps of source[...][slot]; episodes in their way are forgotten."""
        assert 0 < length <= self.capacity
        if self.next + length > self.capacity:  # an episode lies in one piece
            self._make_room(self.next, self.capacity)
            self.next = 0
        first, end = self.next, self.next + length
        self._make_room(first, end)
        for name, array in self.arrays.items():
            array[first:end] = source[name][slot, :length]
        self._keep(first, length, slot)
        self.next, self.used, self.added = end, max(self.used, end), self.added + 1
        while len(self.kept) > self.episodes:
            self._forget_oldest()

    def _keep(self, first: int, length: int, slot: int) -> None:
        self.kept.append((first, length, slot))
        self.of_slot[slot].append((first, length))

    def _forget_oldest(self) -> None:
        *_, slot = self.kept.popleft()
        self.of_slot[slot].popleft()

    def _make_room(self, first: int, end: int) -> None:
        """Drop the oldest episodes while they overlap places first .. end - 1."""
        while self.kept and self.kept[0][0] < end and self.kept[0][0] + self.kept[0][1] > first:
            self._forget_oldest()

    def sample(self, count: int, seed: int, update: int) -> Episodes:
        """`count` episodes, drawn by (seed, update), in the layout of `networks.py`.

        The slots take turns, and which of its episodes a slot gives is drawn by its number among those of all
        processes. So many processes draw what one with all their slots would, where `count` is a multiple of the slots
        and nothing has been forgotten yet.
        """
        slots = [slot for slot, episodes in enumerate(self.of_slot) if episodes]
        turns = [slots[(update * count + turn) % len(slots)] for turn in range(count)]
        spans = []
        times, last_slot = Counter(turns), self.first_slot + len(self.of_slot)
        # For each time a number for every slot up to the last of this process.
        draws = [numpy_generator(seed, "replay", update, time).random(last_slot) for time in range(max(times.values()))]
        for slot, count_of_slot in times.items():
            own, episodes = [row[self.first_slot + slot] for row in draws[:count_of_slot]], self.of_slot[slot]
            spans += [episodes[number] for number in pick(own, len(episodes))]
        spans = torch.tensor(sorted(spans, key=lambda span: -span[1]))
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
            tuple(inside.sum(1).tolist()),
        )  # fmt: skip

    def get_state(self) -> dict[str, Tensor]:
        """Everything, as tensors on the CPU; of the arrays what has been written."""
        spans = torch.tensor(list(self.kept), dtype=torch.int64).view(-1, 3)
        state = {name: array[: self.used].cpu() for name, array in self.arrays.items()}
        return state | {"spans": spans, "counts": torch.tensor([self.next, self.used, self.added])}

    def set_state(self, state: dict[str, Tensor]) -> None:
        """Restore `get_state`. UserError where there is no room for it."""
        used = int(state["counts"][1])
        if used > self.capacity or (len(state["spans"]) and int(state["spans"][:, 2].max()) >= len(self.of_slot)):
            raise UserError(
                f"the saved replay has {used} steps of {int(state['spans'][:, 2].max()) + 1} battles or more, and this"
                f" one holds {self.capacity} of {len(self.of_slot)}: resume with the saved --buffer_steps and"
                " --batch_size_run"
            )
        for name, array in self.arrays.items():
            array[:used] = state[name].to(array.device)
        self.kept.clear()
        for episodes in self.of_slot:
            episodes.clear()
        for span in state["spans"].tolist():
            self._keep(*span)
        self.next, self.used, self.added = (int(value) for value in state["counts"].tolist())


def pick(draws: list[float], count: int) -> list[int]:
    """For each number in [0, 1) one of 0 .. count - 1, no two the same as long as there are others."""
    order: dict[int, int] = {}  # of a shuffled list what is not in its place
    found = []
    for at, draw in enumerate(draws):
        at %= count
        other = at + int(draw * (count - at))
        order[at], order[other] = order.get(other, other), order.get(at, at)
        found.append(order[at])
    return found
