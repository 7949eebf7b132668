"""How good a team is: greedy battles that no training has seen, beside random and scripted play of the same battles."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from lib.intervals import wilson
from lib.omagd.battle.arrays import DEAD_ALLIES, DEAD_ENEMIES, LIMIT, WON
from lib.omagd.battle.battle import BattleVec
from lib.omagd.learning.networks import Agent

SCRIPTED = "nearest"


@dataclass
class Tally:
    """Sums over battles that are over."""

    battles: float = 0.0
    won: float = 0.0
    returns: float = 0.0
    steps: float = 0.0
    late: float = 0.0  # ended by the limit
    dead_allies: float = 0.0
    dead_enemies: float = 0.0

    def mean(self, name: str) -> float:
        return getattr(self, name) / max(self.battles, 1.0)

    def interval(self) -> tuple[float, float]:
        """95 % of the share of battles won."""
        return wilson(self.won, self.battles)


class Trials:
    """This process's share of `count` test battles; the same battles at every test, and on any number of processes."""

    def __init__(
        self, map_name: str, count: int, *, seed: int, rank: int, processes: int, device, full: bool, **options
    ):
        first, end = rank * count // processes, (rank + 1) * count // processes
        self.seed, self.full = seed, full
        self.battles = None
        if end > first:
            self.battles = BattleVec(
                map_name, end - first, device=device, seed=seed, first_battle=first, autoreset=False, **options
            )

    def greedy(self, agent: Agent) -> Callable[[], None]:
        """What writes the actions of the network's highest values, from the start of the battles on."""
        battles = self.battles
        memory = {"hidden": agent.no_memory(battles.num_battles, battles.device)}
        last = torch.full_like(battles.actions, battles.layout.n_actions, dtype=torch.int64)

        @torch.no_grad()
        def act() -> None:
            seen = battles.full_obs if self.full else battles.obs
            values, memory["hidden"] = agent.step(seen, last, memory["hidden"])
            battles.choose(values)
            last.copy_(battles.actions)

        return act


def play_share(test: Trials, player: Agent | str, should_stop: Callable[[], bool] = bool) -> Tally:
    """This process's battles to their ends, greedily by a network's values or by a script; cut off to stop."""
    battles = test.battles
    if battles is None:
        return Tally()
    battles.reset(test.seed)
    act = (lambda: battles.script(player)) if isinstance(player, str) else test.greedy(player)
    for _ in range(battles.limit):
        if should_stop() or bool(battles.done.all()):
            break
        act()
        battles.step(check=False)
    over = battles.done != 0
    info = battles.info[over].sum(0).tolist()
    return Tally(
        battles=float(over.sum()),
        won=float(info[WON]),
        returns=float(battles.final_returns[over].sum()),
        steps=float(battles.step_count[over].sum()),
        late=float(info[LIMIT]),
        dead_allies=float(info[DEAD_ALLIES]),
        dead_enemies=float(info[DEAD_ENEMIES]),
    )
