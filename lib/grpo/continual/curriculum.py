"""Stages one after the other, the tasks of each step, and who plays what.

Stage 0 is the warm start, or nothing: row 0 of the success matrix is measured after it. Stage i learns domain i, or the
only stage learns all of them (joint). Nothing here has a state but `Cursor`, two numbers and a count.
"""

import heapq
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from lib.errors import UserError
from lib.grpo.continual.tasks import Deck, TaskRow
from lib.seeds import derive

WARM_START, GRPO = "warm_start", "grpo"


@dataclass(frozen=True)
class Stage:
    """A stretch of a run. `number` is its row in the success matrix; `steps` are those of one pass."""

    number: int
    name: str
    kind: str
    domains: tuple[str, ...]
    steps: int


@dataclass(frozen=True)
class Gate:
    """A stage is repeated until the mean success on its domains reaches `min_pass`, at most `max_repeats` times."""

    min_pass: float = 0.0
    max_repeats: int = 0

    def repeats(self, done: int, success: float) -> bool:
        """Whether a stage that was repeated `done` times and now reaches `success` goes on."""
        return success < self.min_pass and done < self.max_repeats


@dataclass(frozen=True)
class Curriculum:
    """The stages of a run, what each step takes, and when a stage is repeated."""

    stages: tuple[Stage, ...]
    prompts_per_step: int
    group_size: int
    gate: Gate = Gate()

    @property
    def domains(self) -> tuple[str, ...]:
        """In the order in which they are learnt: the columns of the success matrix."""
        return tuple(dict.fromkeys(name for stage in self.stages if stage.kind == GRPO for name in stage.domains))

    @property
    def learnt(self) -> tuple[int, ...]:
        """For each domain the stage that learns it, which is a row of the success matrix."""
        return tuple(
            max(stage.number for stage in self.stages if stage.kind == GRPO and domain in stage.domains)
            for domain in self.domains
        )

    def earlier(self, stage: Stage) -> tuple[str, ...]:
        """The domains of the stages before, without those of this one."""
        before = (name for other in self.stages if other.kind == GRPO and other.number < stage.number
                  for name in other.domains)  # fmt: skip
        return tuple(name for name in dict.fromkeys(before) if name not in stage.domains)

    def to_json(self) -> dict:
        """What curriculum.json holds."""
        return {**asdict(self), "domains": self.domains, "learnt": self.learnt}


def make_curriculum(
    domains: Sequence[str],
    *,
    steps_per_domain: int,
    prompts_per_step: int,
    group_size: int,
    warm_start_steps: int = 0,
    joint: bool = False,
    gate: Gate = Gate(),
) -> Curriculum:
    """The stages over `domains` in order; a joint stage has the steps of all of them.

    Raises UserError for a domain named twice, none at all, or a group of one, in which nothing can be compared.
    """
    if not domains or len(set(domains)) != len(domains):
        raise UserError(f"--domains {','.join(domains)}: expected one or more domains, each once")
    if group_size < 2:
        raise UserError(f"--group-size {group_size}: expected at least 2, a reward is compared with those of its group")
    stages = [Stage(0, "stage_0_warm_start", WARM_START, tuple(domains), warm_start_steps)] if warm_start_steps else []
    if joint:
        stages.append(Stage(1, "stage_1_joint", GRPO, tuple(domains), steps_per_domain * len(domains)))
    else:
        stages += [
            Stage(number, f"stage_{number}_{domain}", GRPO, (domain,), steps_per_domain)
            for number, domain in enumerate(domains, start=1)
        ]
    return Curriculum(tuple(stages), prompts_per_step, group_size, gate)


@dataclass
class Cursor:
    """How far a run is: the place of its stage in `Curriculum.stages`, the steps done in it, repeats included."""

    stage: int = 0
    step: int = 0
    repeats: int = 0

    def steps_left(self, stage: Stage) -> int:
        return stage.steps * (1 + self.repeats) - self.step

    def leave(self, curriculum: Curriculum, success: float | None) -> bool:
        """At the end of a stage: repeat it (True), or move to the next; `success` is that of the stage's domains."""
        stage = curriculum.stages[self.stage]
        if stage.kind == GRPO and success is not None and curriculum.gate.repeats(self.repeats, success):
            self.repeats += 1
            return True
        self.stage, self.step, self.repeats = self.stage + 1, 0, 0
        return False


@dataclass(frozen=True)
class Pick:
    """One task of a step. `group` numbers the picks of the step; `old`: it is there so as not to be forgotten."""

    row: TaskRow
    group: int
    old: bool = False


class StepTasks:
    """The tasks of a stage's steps: `count` each, of which the last `old_count` come from the pools of `old`.

    `new` and `old` are domain -> rows; the domains of each take turns. The same arguments give the same tasks at every
    step, whoever asks and in whatever order. A task comes twice in a step only when there are too few.
    """

    def __init__(
        self, stage: Stage, seed: int, count: int, new: dict[str, Sequence[TaskRow]],
        old: dict[str, Sequence[TaskRow]] | None = None, old_count: int = 0,
    ):  # fmt: skip
        old = old or {}
        self.seed, self.pools = seed, {False: new, True: old}
        assert 0 <= old_count < count and (old or not old_count), f"{old_count} of {count} tasks from {list(old)}"
        self._new = _Turns(new, count - old_count, seed, "new tasks", stage.name)
        self._old = _Turns(old, old_count, seed, "old tasks", stage.name) if old_count else None

    def of_step(self, step: int) -> list[Pick]:
        """The tasks of step 0, 1, ... of the stage."""
        new = [(row, False) for row in self._new.of_step(step)]
        old = [(row, True) for row in self._old.of_step(step)] if self._old else []
        return [Pick(row, group, is_old) for group, (row, is_old) in enumerate(new + old)]

    def another(self, pick: Pick, group: int, key: tuple) -> Pick:
        """A task of the same domain, old where the other is old, under another group number; `key` draws it."""
        pool = self.pools[pick.old][pick.row.domain]
        return Pick(pool[derive(self.seed, "replacement", *key, pick.group) % len(pool)], group, pick.old)


class _Turns:
    """`count` rows a step, the domains in turn, each from a deck of its own."""

    def __init__(self, pools: dict[str, Sequence[TaskRow]], count: int, seed: int, *names: str):
        self.count, self.pools = count, list(pools.values())
        window = -(-count // len(pools))
        self.decks = [Deck(len(rows), window, seed, *names, domain) for domain, rows in pools.items()]

    def of_step(self, step: int) -> list[TaskRow]:
        rows = []
        for place in range(step * self.count, (step + 1) * self.count):
            turn, domain = divmod(place, len(self.decks))
            rows.append(self.pools[domain][self.decks[domain].take(turn, 1)[0]])
        return rows


def deal(
    groups: int, group_size: int, ranks: int, lengths: Sequence[float] | None = None
) -> list[list[tuple[int, int]]]:
    """Every (group, sample) once, as a list for each rank; all ranks compute the same.

    The lists differ by at most one in size. `lengths` are expected costs of the groups: the longest is dealt first, to
    the rank with the least to do, and played first. Groups stay whole as long as a rank has room for them; the rest is
    cut into as few pieces as it takes. Without lengths, 10 groups of one on 3 ranks are 0,3,6,9 / 1,4,7 / 2,5,8.
    `lib.balance.split_balanced` balances costs alone: there the sizes may differ.
    """
    costs = [1.0] * groups if lengths is None else list(lengths)
    assert len(costs) == groups, f"{groups} groups and {len(costs)} lengths"
    pairs = groups * group_size
    room = [pairs // ranks + (rank < pairs % ranks) for rank in range(ranks)]
    dealt: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    loads = [(0.0, rank) for rank in range(ranks) if room[rank] >= group_size]
    heapq.heapify(loads)
    cut = []
    for group in sorted(range(groups), key=lambda group: (-costs[group], group)):
        if not loads:
            cut.append(group)
            continue
        load, rank = heapq.heappop(loads)
        dealt[rank] += [(group, sample) for sample in range(group_size)]
        room[rank] -= group_size
        if room[rank] >= group_size:
            heapq.heappush(loads, (load + costs[group], rank))
    for group in cut:
        sample = 0
        while sample < group_size:
            rank = max(range(ranks), key=lambda rank: (room[rank], -rank))
            piece = min(room[rank], group_size - sample)
            dealt[rank] += [(group, sample + place) for place in range(piece)]
            room[rank] -= piece
            sample += piece
    assert not any(room), room
    return dealt


def plan_lines(curriculum: Curriculum, tasks: dict[str, int], old_share: float = 0.0) -> list[str]:
    """The curriculum in words, a line for each stage; `tasks` are the training tasks of each domain."""
    lines = []
    for stage in curriculum.stages:
        what = f"{stage.name}: {stage.steps} steps"
        if stage.kind == GRPO:
            count = curriculum.prompts_per_step
            earlier = curriculum.earlier(stage)
            old = old_tasks(count, old_share) if earlier else 0
            sources = " and ".join(f"{tasks[domain]} of {domain}" for domain in stage.domains)
            passes = stage.steps * (count - old) / sum(tasks[domain] for domain in stage.domains)
            what += f" x {count} tasks x {curriculum.group_size} samples, from {sources} ({passes:.1f} times each)"
            if old:
                what += f"; {old} of {count} from {', '.join(earlier)}"
        lines.append(what)
    if curriculum.gate.max_repeats:
        gate = curriculum.gate
        lines.append(f"a stage is repeated below {gate.min_pass:g} success, at most {gate.max_repeats} times")
    return lines


def old_tasks(count: int, share: float) -> int:
    """How many of a step's `count` tasks are old: the share, rounded, at least one, and never all."""
    return min(max(round(count * share), 1), count - 1) if share > 0 and count > 1 else 0
