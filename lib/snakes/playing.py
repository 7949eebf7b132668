"""The training games of a run: steps in lockstep, the updates they owe, and the turns at which opponents change."""

import torch

from lib.snakes.collector import Collector
from lib.snakes.league import LEARNER, League
from lib.snakes.network import Actor
from lib.snakes.options import SnakesOptions
from lib.snakes.progress import Budget, Progress


class Games:
    """The games of this process, their opponents, and how far the run is.

    `ranks` (lib.ranks.Ranks) are the processes of the run, `signals` (lib.stopping.StopSignals) says whether one came
    to this process, and `log` (lib.runlog.RunLog) is given when it is open.
    """

    def __init__(self, config: SnakesOptions, collector: Collector, league: League | None, ranks, signals):
        self.config, self.collector, self.league = config, collector, league
        self.ranks, self.signals, self.log = ranks, signals, None
        self.budget, self.progress = Budget(config), Progress()

    @property
    def can_draw(self) -> bool:
        """Whether the replay holds a batch: at the same step on every process."""
        return self.collector.buffer.drawable * len(self.collector.seats) >= self.config.batch_size

    @property
    def spent(self) -> bool:
        """Whether a limit ends the run."""
        return self.budget.spent(self.progress, self.collector.steps)

    @property
    def due(self) -> bool:
        """Whether games are to be played before the next update."""
        return self.progress.credit < 1 and self.collector.steps < self.budget.lock_steps

    @property
    def steps_per_play(self) -> int:
        """Steps of games of all processes in one `play`."""
        return self.config.num_envs * self.ranks.count

    def play(self, actor: Actor) -> bool:
        """One step of all games, and what it owes in updates; at the end of a game's length the opponents change.

        True when a signal was noticed then: while the replay fills up there are no updates after which it could be.
        Collective at the end of a game's length.
        """
        config, progress, collector = self.config, self.progress, self.collector
        collector.step(actor)
        progress.env_steps += self.steps_per_play
        if collector.steps % config.update_interval == 0:
            progress.credit += config.updates_per_step * config.update_interval
        if not self.can_draw:
            progress.credit = 0.0
        return collector.turns and self._turn(actor)

    def draw(self) -> tuple:
        """The batch of the next update, and the seat of each of its transitions."""
        seed, step, ranks = self.config.seed, self.progress.step, self.ranks
        return self.collector.buffer.sample(self.config.batch_size, seed, step, ranks.index, ranks.count)

    def rate_factor(self) -> float:
        """What the learning rates of the next update are multiplied with."""
        if self.config.lr_schedule == "constant":
            return 1.0
        return 1.0 - 0.9 * self.budget.done(self.progress, self.collector.steps)

    def agree_on_time(self) -> None:
        """The main process's clock says for all how much of --max_minutes is used up. Collective."""
        seconds = self.log.wall_s() if self.ranks.index == 0 else 0.0
        self.progress.share = self.ranks.sums({"seconds": seconds})["seconds"] / self.budget.max_wall_s

    def _turn(self, actor: Actor) -> bool:
        """Results of the games that ended, summed over all processes: the league draws its conclusions."""
        self.agree_on_time()
        played = self.collector.turn()
        values = {"games": float(played[:, 0].sum()), "stop": float(self.signals.requested)}
        values |= self.league.results(played) if self.league is not None else {}
        totals = self.ranks.sums(values)
        self.progress.games += int(totals.pop("games"))
        stop = bool(totals.pop("stop"))
        if self.league is not None:
            name = self.league.next_generation(totals, actor)
            if name is not None:
                rating = self.league.ratings[LEARNER]
                self.log.note(f"{name} joins the league at Elo {rating:.0f}", snapshot=name)
        self.collector.seat_opponents()
        return stop

    def save_due(self) -> bool:
        """Every --save_every updates where it is given, else every --save_interval games of a process."""
        config, progress = self.config, self.progress
        if config.save_every is not None:
            return config.save_every > 0 and progress.step % config.save_every == 0
        finished, every = progress.games // self.ranks.count, config.save_interval
        if every == 0 or finished // every == progress.saved_games // every:
            return False
        progress.saved_games = finished
        return True

    def get_state(self) -> tuple[dict, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """(JSON, the league's snapshots, which all processes share, tensors of this one)."""
        counters, own = self.collector.get_state()
        league, snapshots = self.league.get_state() if self.league is not None else ({}, {})
        state = {"progress": self.progress.to_dict(), "counters": counters, "league": league}
        return state, snapshots, own

    def set_state(self, state: dict, snapshots: dict[str, torch.Tensor], own: dict[str, torch.Tensor] | None) -> None:
        """Restore `get_state`; without `own` (another number of processes) games and replay begin anew."""
        self.progress = Progress(**state["progress"])
        if self.league is not None:
            self.league.set_state(state["league"], snapshots)
        self.collector.set_state(state["counters"], own)
