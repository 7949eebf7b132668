"""Replay: a share of every step are tasks of earlier domains, played anew by the present policy.

No old trajectory is kept: only which tasks were seen, how often they succeeded, and when. What may come again is chosen
at the end of each stage and stays fixed during the next, so that a resumed run takes the same tasks.
"""

from collections.abc import Iterable, Sequence

from lib.errors import UserError
from lib.grpo.continual.methods import Method, Tensors
from lib.grpo.continual.tasks import TaskRow
from lib.seeds import derive

CHOICES = ("random", "reservoir", "recent", "high_reward", "balanced")
# The adaptive share (the original's numbers): its bounds, its step, and the forgetting that asks for more.
LEAST, MOST, STEP, TOLERATED = 0.1, 0.5, 0.1, 0.1


class Replay(Method):
    """`old_share` of a step's tasks are old; `adaptive`: 0.1 more, up to 0.5, whenever forgetting exceeds 0.1.

    `choice` among the tasks of each earlier domain: `random` takes all of them, the others `size` of those that were
    seen: a uniform sample (`reservoir`), the last ones (`recent`), those that succeeded most (`high_reward`), or as
    many that mostly succeed as that mostly fail (`balanced`).
    """

    def __init__(
        self, old_share: float = 0.2, adaptive: bool = False, choice: str = "random", size: int = 50, seed: int = 0
    ):
        super().__init__()
        if choice not in CHOICES:
            raise UserError(f"--replay-choice {choice}: expected {', '.join(CHOICES)}")
        if not 0 < old_share < 1:
            raise UserError(f"--replay-ratio {old_share:g}: expected a share between 0 and 1")
        self.old_share = min(max(old_share, LEAST), MOST) if adaptive else old_share
        self.adaptive, self.choice, self.size, self.seed = adaptive, choice, size, seed
        # domain -> task id -> [episodes, successes, last step]
        self.seen: dict[str, dict[str, list]] = {}
        # domain -> ids that may come again
        self.chosen: dict[str, list[str]] = {}

    def record(self, outcomes: Iterable[dict], step: int) -> None:
        for row in outcomes:
            entry = self.seen.setdefault(row["domain"], {}).setdefault(row["task_id"], [0, 0.0, 0])
            entry[0] += 1
            entry[1] += row["success"]
            entry[2] = step

    def on_stage_end(self, domains: Sequence[str], parameters: Tensors, fisher: Tensors | None = None) -> None:
        super().on_stage_end(domains, parameters, fisher)
        if self.choice != "random":
            self.chosen = {domain: self._choose(domain) for domain in self.learnt}

    def on_evaluated(self, forgetting: float | None) -> None:
        if self.adaptive and forgetting is not None and forgetting > TOLERATED:
            self.old_share = min(self.old_share + STEP, MOST)

    def old_rows(self, pools: dict[str, Sequence[TaskRow]]) -> dict[str, Sequence[TaskRow]]:
        if self.choice == "random":
            return pools
        ids = {domain: set(self.chosen.get(domain, ())) for domain in pools}
        found = {domain: [row for row in rows if row.id in ids[domain]] for domain, rows in pools.items()}
        # A domain of which nothing was seen yet has nothing to choose from.
        return {domain: rows or pools[domain] for domain, rows in found.items()}

    def _choose(self, domain: str) -> list[str]:
        seen = self.seen.get(domain, {})
        share = {task: successes / episodes for task, (episodes, successes, _) in seen.items()}
        # Ties, and the sample, by a number of the task's own: no order of arrival matters.
        lot = {task: derive(self.seed, "replay", domain, task) for task in seen}
        if self.choice == "reservoir":
            order = sorted(seen, key=lambda task: lot[task])
        elif self.choice == "recent":
            order = sorted(seen, key=lambda task: (-seen[task][2], lot[task]))
        elif self.choice == "high_reward":
            order = sorted(seen, key=lambda task: (-share[task], lot[task]))
        else:
            good = sorted((task for task in seen if share[task] >= 0.5), key=lambda task: lot[task])
            bad = sorted((task for task in seen if share[task] < 0.5), key=lambda task: lot[task])
            half = min(len(good), len(bad), self.size // 2)
            # Of one kind alone there is no balance to keep.
            order = good[:half] + bad[:half] if half else good + bad
        return sorted(order[: self.size])

    def state(self) -> tuple[Tensors, dict]:
        tensors, data = super().state()
        return tensors, {**data, "old_share": self.old_share, "seen": self.seen, "chosen": self.chosen}

    def load_state(self, tensors: Tensors, data: dict) -> None:
        super().load_state(tensors, data)
        self.old_share, self.seen, self.chosen = data["old_share"], data["seen"], data["chosen"]
