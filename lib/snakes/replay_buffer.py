"""Replay as a ring of preallocated tensors, and n-step batches drawn from it.

A seat is one team of one game that the learner plays. All seats move in lockstep, so time is one number for all: slot
t % steps holds what every seat saw and did at time t.
"""

import torch

from lib.errors import UserError
from lib.room import check_room
from lib.seeds import torch_generator
from lib.snakes.learner import Batch
from lib.snakes.rules import TEAM

RUNNING, ENDED, CUT = 0, 1, 2  # what a step did to the game: went on, ended by the rules, cut off by us


class ReplayBuffer:
    """`transitions` of three snakes each, for `seats` seats; features are kept in float16 (half the memory, exact to
    5e-4), everything else as it is.

    Raises UserError when it does not fit into its share of the memory that is available (`neighbours` processes share
    it), holds fewer steps than n-step needs, or never enough for a batch.
    """

    def __init__(
        self,
        transitions: int,
        seats: int,
        inputs: int,
        n_step: int,
        gamma: float,
        device="cpu",
        *,
        batch_size: int = 1,
        neighbours: int = 1,
    ):
        self.steps, self.seats, self.n_step = transitions // seats, seats, n_step
        if self.steps < n_step + 2:
            raise UserError(
                f"--buffer_size {transitions} holds {self.steps} steps of {seats} games, expected {n_step + 2} or more:"
                f" give --buffer_size {seats * (n_step + 2)} or fewer --num_envs"
            )
        if (self.steps - n_step) * seats < batch_size:
            raise UserError(
                f"--batch_size {batch_size}: a replay of --buffer_size {transitions} never has more than"
                f" {(self.steps - n_step) * seats} transitions to draw; give a larger --buffer_size or a smaller batch"
            )
        needed = self.steps * seats * TEAM * (2 * inputs + 8 + 4) + self.steps * seats
        check_room("--buffer_size", transitions, needed, device, neighbours)
        shape = (self.steps, seats, TEAM)
        self.features = torch.zeros((*shape, inputs), dtype=torch.float16, device=device)
        self.actions = torch.zeros(shape, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(shape, device=device)
        self.ends = torch.zeros(shape[:2], dtype=torch.uint8, device=device)
        self.powers = gamma ** torch.arange(n_step + 1, device=device)
        self.time = 0  # steps completed since the start of the run

    def see(self, features: torch.Tensor) -> None:
        """What the seats see now, (seats, 3, F); before `complete` of the same step."""
        self.features[self.time % self.steps].copy_(features)

    def complete(self, actions: torch.Tensor, rewards: torch.Tensor, ends: torch.Tensor) -> None:
        """What they did (seats, 3), got (seats, 3), and whether the game went on (seats,)."""
        slot = self.time % self.steps
        self.actions[slot].copy_(actions)
        self.rewards[slot].copy_(rewards)
        self.ends[slot].copy_(ends)
        self.time += 1

    @property
    def drawable(self) -> int:
        """How many steps can be drawn; `see` of the current step must have been called."""
        return max(min(self.time, self.steps - 1) - self.n_step + 1, 0)

    def sample(self, batch_size: int, seed: int, update: int, rank: int, processes: int) -> tuple[Batch, torch.Tensor]:
        """(batch, seat of each transition): `batch_size` transitions, spread evenly over the seats.

        The draws are those of one process with all seats and the whole batch: rank r takes its part of them. So the
        global batch is the same set of transitions for any number of processes.
        """
        device = self.actions.device
        draws = torch.rand(1 + batch_size * processes, generator=torch_generator(seed, "replay", update))
        mine = draws[1 + rank * batch_size : 1 + (rank + 1) * batch_size].to(device)
        rows = torch.arange(batch_size, device=device, dtype=torch.float64)
        seats = ((rows + draws[0].double()) * (self.seats / batch_size)).long().clamp_(max=self.seats - 1)
        oldest = self.time - self.n_step + 1 - self.drawable
        times = oldest + (mine * self.drawable).long().clamp_(max=self.drawable - 1)
        return self.gather(times, seats), seats

    def gather(self, times: torch.Tensor, seats: torch.Tensor) -> Batch:
        """The n-step transitions that begin at `times` (batch,) of `seats` (batch,)."""
        offsets = torch.arange(self.n_step, device=times.device)
        slots = (times + offsets[:, None]) % self.steps  # (n, batch)
        ends = self.ends[slots, seats]  # (n, batch)
        running = (ends == RUNNING).float().cumprod(0)
        before = torch.cat((torch.ones_like(running[:1]), running[:-1]))  # the game runs when step k begins
        scale = (before * self.powers[: self.n_step, None]).unsqueeze(-1)
        returns = (self.rewards[slots, seats] * scale).sum(0)
        cut = ((ends == CUT) * before).amax(0)
        last = (times + self.n_step) % self.steps
        return Batch(
            self.features[slots[0], seats].float(),
            self.actions[slots[0], seats],
            returns,
            (running[-1] * self.powers[self.n_step]).unsqueeze(-1),
            self.features[last, seats].float(),
            (1.0 - cut).unsqueeze(-1),
        )

    def get_state(self) -> dict[str, torch.Tensor]:
        """The part that is filled, for a checkpoint."""
        used = min(self.time + 1, self.steps)
        parts = {name: getattr(self, name)[:used] for name in ("features", "actions", "rewards", "ends")}
        return {**parts, "time": torch.tensor(self.time)}

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore `get_state`. Raises UserError for one of another size."""
        time = int(state["time"])
        used = min(time + 1, self.steps)
        for name in ("features", "actions", "rewards", "ends"):
            own, saved = getattr(self, name), state[name]
            if saved.shape != (used, *own.shape[1:]):
                raise UserError(
                    f"the saved replay has {name} of shape {tuple(saved.shape)}, this run's is"
                    f" {(used, *own.shape[1:])}: resume with the saved --num_envs and --buffer_size"
                )
            own[:used].copy_(saved)
        self.time = time
