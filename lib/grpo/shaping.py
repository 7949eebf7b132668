"""Optional additions to the training reward; all are off unless asked for, and none touches the success.

`--reward-shaping db_fraction:0.2,read:0.1,format:0.05,step_cost:0.0` gives a weight to each: the share of the gold's
changed fields that were reached, less wrong ones; whether some look-up succeeded; whether no call was refused; and the
share of the allowed turns that was used, as a cost. Together at most 0.5.
"""

from dataclasses import dataclass, fields, replace

from lib.errors import UserError
from lib.grpo.reward import Reward
from lib.grpo.worlds.tools import READ
from lib.grpo.worlds.world import ASSISTANT, Call

MOST_SHAPING = 0.5


@dataclass(frozen=True)
class Shaping:
    """Weights, all from 0 to 0.5 and together at most 0.5."""

    db_fraction: float = 0.0
    read: float = 0.0
    format: float = 0.0
    step_cost: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Shaping":
        """From `name:weight,...`. Raises UserError for an unknown name or a weight out of range."""
        names = [item.name for item in fields(cls)]
        weights = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, number = part.partition(":")
            try:
                weight = float(number)
            except ValueError:
                weight = -1.0
            if name not in names or not 0 <= weight <= MOST_SHAPING:
                raise UserError(
                    f"--reward-shaping has {part!r}: expected name:weight with a name of {', '.join(names)} "
                    f"and a weight from 0 to {MOST_SHAPING}"
                )
            weights[name] = weight
        if sum(weights.values()) > MOST_SHAPING:
            raise UserError(f"--reward-shaping adds up to {sum(weights.values()):g}: at most {MOST_SHAPING} together")
        return cls(**weights)

    def add(self, reward: Reward, environment) -> Reward:
        """The reward with the additions in `total`; `success` stays. After a fault there are none."""
        if reward.faults:
            return reward
        bonus = 0.0
        if self.db_fraction:
            bonus += self.db_fraction * database_fraction(environment.task.gold_state, environment.world)
        if self.read:
            bonus += self.read * any(map(_is_look_up, environment.world.calls))
        if self.format:
            bonus += self.format * (environment.errors == 0)
        if self.step_cost:
            bonus -= self.step_cost * environment.turns / environment.limits.max_turns
        return replace(reward, total=reward.success + bonus) if bonus else reward


def _is_look_up(call: Call) -> bool:
    return call.requestor == ASSISTANT and call.kind == READ and not call.error


def database_fraction(gold: tuple, world) -> float:
    """Share of the rows that the gold changed and that are as in the gold, less the rows changed wrongly; 0 to 1.

    With nothing to change it is 0, so that doing nothing earns nothing.
    """
    wanted, reached = _rows(gold), _rows(world.state())
    if not wanted:
        return 0.0
    right = sum(reached.get(place) == text for place, text in wanted.items())
    wrong = sum(place not in wanted for place in reached)
    return max(0.0, (right - wrong) / len(wanted))


def _rows(state: tuple) -> dict:
    return {(side, place): text for side, half in enumerate(state) if half for place, text in half[0]}
