"""What agents are told of their battles: what they see, what there is, or what they see and guesses of the rest.

Agents, replay and learner know only the size of it.
"""

from dataclasses import dataclass

from torch import Tensor

from lib.omagd.battle.layout import Layout
from lib.omagd.battles import Battles
from lib.omagd.recon.predictor import Predictor
from lib.omagd.recon.reconstruction import Reconstruction

OBS, RECONSTRUCTED, FULL = OBSERVE = ("obs", "reconstructed", "full_obs")
EXPECTED, ARGMAX = GUESSED = ("expected", "argmax")
GUESSES = "predictor"  # what agents' exports call the weights and the sizes of their predictor


class Senses:
    """Of many battles: their own observations; with `full` those of unlimited sight."""

    def __init__(self, battles: Battles, full: bool = False):
        self.battles, self.full = battles, full

    @staticmethod
    def size(layout: Layout) -> int:
        """Numbers that an agent is told."""
        return layout.obs_size

    def tell(self, last_actions: Tensor) -> Tensor:
        """(battles, agents, size) of the battles as they stand, once a step; last_actions (battles, agents)."""
        return self.battles.full_obs if self.full else self.battles.obs

    def forget(self, which) -> None:
        """A battle, or those of a mask, begin: what was seen before has nothing to do with them."""

    def get_state(self) -> dict[str, Tensor]:
        """What is remembered, on the CPU."""
        return {}

    def set_state(self, state: dict[str, Tensor]) -> None:
        """Restore `get_state`."""


class Completed(Senses):
    """What agents see, completed by a predictor's guesses of what they do not; see `Reconstruction`."""

    def __init__(self, battles: Battles, predictor: Predictor, likeliest: bool = False):
        super().__init__(battles)
        self.guesses = Reconstruction(predictor.to(battles.device), battles.layout, battles.num_battles, likeliest)

    @staticmethod
    def size(layout: Layout) -> int:
        return Reconstruction.size(layout)

    def tell(self, last_actions: Tensor) -> Tensor:
        return self.guesses.step(self.battles.obs, self.battles.visible, last_actions)

    def forget(self, which) -> None:
        self.guesses.forget(which)

    def get_state(self) -> dict[str, Tensor]:
        return self.guesses.get_state()

    def set_state(self, state: dict[str, Tensor]) -> None:
        self.guesses.set_state(state)


@dataclass(frozen=True)
class Eyes:
    """A value of --observe; where it is `reconstructed`, who guesses and what is taken for a guess (--recon)."""

    observe: str = OBS
    predictor: Predictor | None = None
    recon: str = EXPECTED

    def of(self, battles: Battles) -> Senses:
        """The senses of some battles."""
        if self.observe == RECONSTRUCTED:
            return Completed(battles, self.predictor, self.recon == ARGMAX)
        return Senses(battles, full=self.observe == FULL)


def told_size(layout: Layout, observe: str) -> int:
    """Numbers that an agent is told."""
    return (Completed if observe == RECONSTRUCTED else Senses).size(layout)
