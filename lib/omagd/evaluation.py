"""How good a team is: greedy battles that no training has seen, beside random and scripted play of the same battles."""

from collections.abc import Callable
from dataclasses import astuple, dataclass

from lib.intervals import wilson
from lib.omagd.battle.arrays import DEAD_ALLIES, DEAD_ENEMIES, LIMIT, WON
from lib.omagd.battles import Battles, make_battles
from lib.omagd.foreign.choose import EMBEDDED

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

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def interval(self) -> tuple[float, float]:
        """95 % of the share of battles won."""
        return wilson(self.won, self.battles)


class Trials:
    """This process's share of `count` test battles; the same battles at every test, and on any number of processes.

    The embedded battles are played all at once, those of a game of others (`env`) `at_once` at a time. StarCraft II
    begins them alike as far as a seed can make it, and goes on by its own random numbers. strict: see `ForeignVec`.
    """

    def __init__(
        self, map_name: str, count: int, *, seed: int, rank: int, processes: int, device, strict: bool = False,
        env: str = EMBEDDED, at_once: int | None = None, **options,
    ):  # fmt: skip
        first, end = rank * count // processes, (rank + 1) * count // processes
        self.seed, self.env = seed, env
        self.battles, self.rounds = None, []
        if end > first:
            several = end - first if env == EMBEDDED else min(at_once or end - first, end - first)
            self.rounds = [(start, min(several, end - start)) for start in range(first, end, several)]
            self.battles = make_battles(
                env, map_name, several, device=device, seed=seed, first_battle=first, autoreset=False, begin=False,
                strict=strict, **options,
            )  # fmt: skip

    def begin(self, first: int, playing: int) -> None:
        """The battles of a round, from their start."""
        if self.env == EMBEDDED:
            self.battles.reset(self.seed)
        else:
            self.battles.reset(self.seed, first, playing)

    def close(self) -> None:
        """End the games; no more tests."""
        if self.battles is not None:
            self.battles.close()


Start = Callable[[Battles], Callable[[], None]]


def play_share(test: Trials, start: Start, should_stop: Callable[[], bool] = bool) -> Tally:
    """This process's battles to their ends; cut off to stop.

    start: begins to play battles and gives what writes their actions for the next step (`players.Player.start`).
    """
    found = Tally()
    for first, playing in test.rounds:
        if not should_stop():
            test.begin(first, playing)
            found += play_round(test, playing, start, should_stop)
    return found


def play_round(test: Trials, playing: int, start: Start, should_stop: Callable[[], bool]) -> Tally:
    """The first `playing` battles, which have begun, to their ends."""
    battles = test.battles
    act = start(battles)
    while not (should_stop() or bool(battles.done.all())):
        act()
        battles.step(check=False)
    over = battles.done != 0
    over[playing:] = False
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
