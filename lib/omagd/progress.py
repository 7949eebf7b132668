"""How far a run is, and what it has reached."""

import math
from dataclasses import asdict, dataclass

from lib.omagd.battle.maps import BattleMap
from lib.omagd.foreign.choose import EMBEDDED
from lib.omagd.foreign.game import GameMap
from lib.omagd.options import OmagdOptions


@dataclass
class Progress:
    """The position of a run, saved with every checkpoint. Counts are over all processes, times the main process's."""

    step: int = 0  # optimiser updates
    played: int = 0  # steps of a process's battles together
    env_steps: int = 0
    episodes: int = 0  # as far as was looked
    former_episodes: int = 0  # of them, those before the battles began anew
    copied: int = 0  # episodes at the last copy of the targets
    train_wall_s: float = 0.0
    train_cpu_s: float = 0.0
    share: float = 0.0  # of the time limit that is used up, as agreed by all processes
    best: float = -math.inf  # test win rate
    best_step: int = -1
    validated_step: int = -1
    tested_env_steps: int = 0  # env_steps at the last test

    def to_dict(self) -> dict:
        return asdict(self)

    def judged(self, win_rate: float) -> bool:
        """Note a test after the step just done. True where none was better before."""
        self.validated_step, self.tested_env_steps = self.step, self.env_steps
        if win_rate <= self.best:
            return False
        self.best, self.best_step = win_rate, self.step
        return True

    def results(self) -> dict:
        """Keys of results.json."""
        seconds = max(self.train_wall_s, 1e-9)
        return {
            "steps": self.step,
            "updates": self.step,
            "updates_per_s": self.step / seconds,
            "env_steps": self.env_steps,
            "env_steps_per_s": self.env_steps / seconds,
            "episodes": self.episodes,
            "best_step": self.best_step,
            "train_s": round(self.train_wall_s, 3),
            "cpu_s": round(self.train_cpu_s, 3),
        }


class Plan:
    """What a run will do, from numbers that all processes share."""

    def __init__(self, config: OmagdOptions, battle_map: BattleMap | GameMap, processes: int):
        self.config, self.per_step = config, config.batch_size_run * processes
        # By then so many battles have ended in every process, however long they last. A game of others may fail in one
        # of them, but not before the next has ended: see lib/omagd/foreign/slot.py.
        battles = math.ceil(config.per_device_batch_size / config.batch_size_run) + (config.env != EMBEDDED)
        self.first_update = battles * battle_map.limit
        learning = max(math.ceil(config.t_max / self.per_step) - self.first_update, 0) * config.batch_size_run
        self.updates = learning // config.steps_per_update
        if config.max_steps is not None:
            self.updates = min(self.updates, config.max_steps)
        self.max_wall_s = math.inf if config.max_minutes is None else 60 * config.max_minutes

    def begin_anew(self, progress: Progress) -> None:
        """The replay is empty: so much has to be played again before the next update."""
        progress.former_episodes = progress.episodes
        done = progress.step * self.config.steps_per_update
        progress.played = done // self.config.batch_size_run

    def due(self, progress: Progress) -> bool:
        """Whether an update is to follow what has been played."""
        wanted = (progress.played - self.first_update) * self.config.batch_size_run // self.config.steps_per_update
        return progress.step < wanted

    def test_due(self, progress: Progress) -> bool:
        """Whether a test follows the update just done: every --test_interval steps, or every --eval_every updates."""
        if progress.step == 0 or progress.validated_step == progress.step:
            return False
        if self.config.test_interval is not None:
            return progress.env_steps - progress.tested_env_steps >= self.config.test_interval
        every = 200 if self.config.eval_every is None else self.config.eval_every
        return every > 0 and progress.step % every == 0

    def spent(self, progress: Progress) -> bool:
        """Whether a limit ends the run."""
        by_steps = self.config.max_steps is not None and progress.step >= self.config.max_steps
        return by_steps or progress.share >= 1.0 or self.played_out(progress)

    def played_out(self, progress: Progress) -> bool:
        """Whether t_max steps are played, and the update that they owe is done.

        What was played beyond them, between an update's backward pass and its step, owes none.
        """
        beyond = progress.env_steps - self.config.t_max
        return beyond >= self.per_step or (beyond >= 0 and not self.due(progress))

    def rate_factor(self, progress: Progress) -> float:
        """What the learning rate of an update is multiplied with."""
        if self.config.lr_schedule == "constant":
            return 1.0
        return 1.0 - 0.9 * min(1.0, max(progress.env_steps / self.config.t_max, progress.share))

    def epsilon(self, progress: Progress) -> float:
        """The share of random actions in the next step."""
        start, finish = self.config.epsilon_start, self.config.epsilon_finish
        return max(finish, start - (start - finish) * progress.env_steps / self.config.epsilon_anneal_time)
