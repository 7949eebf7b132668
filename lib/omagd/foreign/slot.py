"""One place of a `ForeignVec`: a game, the episode it is in, and what happens when it crashes."""

from collections.abc import Callable
from dataclasses import dataclass

from lib.errors import UserError
from lib.omagd.foreign.game import Game, GameCrashed, Outcome, asked
from lib.seeds import derive

SEED_BITS = 31  # StarCraft II takes no more


@dataclass
class Slot:
    """`make(seed)` starts a game. `battle` is the number of the battle in the whole run, which its draws depend on."""

    make: Callable[[int], Game]
    seed: int
    battle: int
    game: Game | None = None
    episode: int = 0
    step: int = 0
    restarts: int = 0
    failed: bool = False  # since the last episode that came to its end

    def seed_of(self, name: str, number: int) -> int:
        return derive(self.seed, name, self.battle, number) % 2**SEED_BITS

    def begin(self) -> None:
        """Begin the battle of `episode`; where there is no game yet, start it."""
        if self.game is None:
            self.game = asked(self.make, self.seed_of("game", self.restarts))
        self.step = 0
        self.game.reset(self.seed_of("battle", self.episode))

    def play(self, actions: list[int], autoreset: bool) -> tuple[Outcome | None, GameCrashed | None]:
        """A step, and with `autoreset` the next battle behind the last; what happened, what went wrong.

        Both where the battle ended and the next could not begin.
        """
        outcome = None
        try:
            outcome = self.game.step(actions)
            self.step += 1
            if outcome.done:
                self.failed = False
                if autoreset:
                    self.episode += 1
                    self.begin()
        except GameCrashed as error:
            return outcome, error
        return outcome, None

    def restart(self, error: GameCrashed, lost: bool) -> str:
        """Start the game anew and begin its next battle; the line to log. UserError where it has failed before.

        lost: whether an episode had begun.
        """
        name = self.game.name if self.game is not None else "the game"
        if self.failed:
            raise UserError(
                f"environment {self.battle} of {name} failed twice in a row, last by {error}: see what the game itself"
                " has printed; fewer environments at once (--batch_size_run) need less memory"
            ) from error
        self.failed = True
        self.restarts += 1
        self.episode += 1
        ended = ""
        try:
            asked(self.close)
        except GameCrashed as other:  # what has crashed may not end in order, either
            ended = f" (its end, too: {other})"
            self.game = None
        try:
            self.begin()
        except GameCrashed as second:
            return self.restart(second, lost)
        dropped = ", its episode is dropped" if lost else ""
        return f"environment {self.battle} of {name} failed ({error}){ended}: it was started anew{dropped}"

    def close(self) -> None:
        if self.game is not None:
            self.game.close()
        self.game = None
