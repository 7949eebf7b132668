"""How far a run is: by updates, by games, by minutes; and what it has reached."""

import math
from dataclasses import asdict, dataclass, field

from lib.snakes.options import SnakesOptions

MILESTONES = (50, 80)  # percent of games won against the greedy bot


@dataclass
class Progress:
    """The position of a run, saved with every checkpoint. Counts are over all processes, times the main process's."""

    step: int = 0  # optimiser updates
    env_steps: int = 0  # steps of games
    games: int = 0  # games that are over, as far as was looked
    credit: float = 0.0  # updates that the steps played so far still owe
    train_cpu_s: float = 0.0  # playing and learning, without evaluation and saving
    train_wall_s: float = 0.0
    share: float = 0.0  # of the time limit that is used up, as agreed by all processes
    best: float = -math.inf  # mean win rate against the judges
    best_step: int = -1
    validated_step: int = -1
    seconds_to: dict = field(default_factory=dict)  # milestone -> train_wall_s when an evaluation first reached it
    saved_games: int = 0  # per process, at the last save by games
    block: dict = field(default_factory=dict)  # sums since the last block of the log

    def to_dict(self) -> dict:
        return asdict(self)

    def reach(self, win_rate: float) -> None:
        """Note the training seconds at which a win rate against the greedy bot was first measured."""
        for percent in MILESTONES:
            if 100 * win_rate >= percent:
                self.seconds_to.setdefault(str(percent), round(self.train_wall_s, 3))

    def judged(self, win_rates: dict[str, float]) -> bool:
        """Note an evaluation, win rates by judge, after the step just done. True where none was better before."""
        self.validated_step = self.step
        if "greedy" in win_rates:
            self.reach(win_rates["greedy"])
        mean = sum(win_rates.values()) / len(win_rates)
        if mean <= self.best:
            return False
        self.best, self.best_step = mean, self.step
        return True

    def results(self) -> dict:
        """Keys of results.json; a milestone that was not reached is null."""
        return {
            "steps": self.step,
            "updates": self.step,
            "updates_per_s": self.step / max(self.train_wall_s, 1e-9),
            "env_steps": self.env_steps,
            "env_steps_per_s": self.env_steps / max(self.train_wall_s, 1e-9),
            "games": self.games,
            **{f"seconds_to_{percent}": self.seconds_to.get(str(percent)) for percent in MILESTONES},
            "best_step": self.best_step,
            "train_s": round(self.train_wall_s, 3),
            "cpu_s": round(self.train_cpu_s, 3),
        }


class Budget:
    """When to stop, and where on the learning-rate curve an update lies."""

    def __init__(self, config: SnakesOptions):
        self.lock_steps = math.ceil(config.max_episodes / config.num_envs) * config.episode_length
        self.planned_updates = int(self.lock_steps * config.updates_per_step)
        self.max_steps = config.max_steps
        if self.max_steps is not None:
            self.planned_updates = min(self.planned_updates, self.max_steps)
        self.max_wall_s = math.inf if config.max_minutes is None else 60 * config.max_minutes

    def done(self, progress: Progress, lock_steps: int) -> float:
        """0 to 1: by updates, by games or by the clock, whichever is further."""
        shares = (progress.step / max(self.planned_updates, 1), lock_steps / self.lock_steps, progress.share)
        return min(max(shares), 1.0)

    def spent(self, progress: Progress, lock_steps: int) -> bool:
        """Whether a limit ends the run."""
        by_steps = self.max_steps is not None and progress.step >= self.max_steps
        return by_steps or lock_steps >= self.lock_steps or progress.share >= 1.0
