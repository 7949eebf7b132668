"""Which tasks are learnt from and which measured on, as rows that a file can hold, and in which order they come.

A generated task is (domain, template, seed, level); a task of tau2-bench is (domain, id). Ids repeat between domains,
so everything is keyed by (domain, id). No order has a state: what a step takes is a function of (seed, names, step).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from lib.errors import UserError
from lib.files import atomic_write_text, to_json
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.generate import LEVELS, TRAINING_SEEDS, make_task, templates
from lib.grpo.task import JUDGED, Task
from lib.grpo.tau2_io import load_tau2
from lib.seeds import derive, numpy_generator

# Of tasks that no split file divides, the first are learnt from (the original's share), the rest measured on.
LEARNING_SHARE = 0.6
TRAIN, EVALUATION, HELD_OUT = "train", "evaluation", "held_out"


@dataclass(frozen=True)
class TaskRow:
    """A task as a line of tasks_<domain>.jsonl; without a template it is found by its id in a data directory."""

    domain: str
    id: str
    template: str | None = None
    seed: int | None = None
    level: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.domain, self.id


@dataclass(frozen=True)
class TaskSets:
    """What a run learns from and is measured on. `held_out` are tasks of templates that training never sees.

    Each is domain -> rows. `notes` say how tasks were divided, where somebody has to know.
    """

    training: dict[str, tuple[TaskRow, ...]]
    evaluation: dict[str, tuple[TaskRow, ...]]
    held_out: dict[str, tuple[TaskRow, ...]]
    benchmark: dict[tuple[str, str], Task] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def dropped(self, pools: dict[str, Sequence[TaskRow]]) -> dict[str, int]:
        """Parts of rewards that are left out without a judge -> in how many tasks of `pools`."""
        tasks = [self.benchmark[row.key] for rows in pools.values() for row in rows if row.template is None]
        count = sum(JUDGED in task.basis for task in tasks)
        return {JUDGED: count} if count else {}

    def make(self, row: TaskRow) -> Task:
        """The task of a row, with its world."""
        return self.benchmark[row.key] if row.template is None else _generated(row)


@lru_cache(maxsize=1024)
def _generated(row: TaskRow) -> Task:
    return make_task(row.domain, row.template, row.seed, row.level)


def dropped_note(item: tuple[str, int]) -> str:
    """In words, an item of `TaskSets.dropped`."""
    part, count = item
    return f"{part} needs a judge: left out of the reward of {count} evaluation tasks (--judge openai)"


def gather_tasks(
    domains: Sequence[str],
    *,
    seed: int,
    levels: Sequence[int],
    tasks_per_domain: int,
    eval_tasks: int,
    held_out_tasks: int = 0,
    template_names: dict[str, Sequence[str]] | None = None,
    tau2_data: str | Path | None = None,
    task_files: dict[str, str] | None = None,
) -> TaskSets:
    """The task sets of a run: task files (domain -> path) where given, else the data directory, else generated tasks.

    Training seeds start at a place of `seed`'s; evaluation seeds are the same in every run. `tasks_per_domain` and
    `eval_tasks` are caps. `template_names` (domain -> names) limits what is learnt and measured. Raises UserError.
    """
    training, evaluation, held_out, benchmark, notes = {}, {}, {}, {}, []
    for domain in domains:
        names = tuple((template_names or {}).get(domain) or templates(domain, held_out=False))
        file = (task_files or {}).get(domain)
        if file is not None and Path(file).suffix == ".jsonl":
            rows = read_rows(file)
            _check_rows(rows, domain, file)
            learnt, measured = rows[TRAIN], rows[EVALUATION]
            held_out[domain] = rows[HELD_OUT][:held_out_tasks]
        elif file is not None or tau2_data is not None:
            tasks = _file_tasks(domain, file) if file is not None else load_tau2(tau2_data, (domain,)).tasks
            learnt, measured, note = divide(domain, tasks)
            benchmark.update({task.key: task for task in tasks})
            notes.append(note)
        else:
            start = derive(seed, "training seeds", domain) % max(TRAINING_SEEDS - tasks_per_domain, 1)
            learnt = generated_rows(domain, start, tasks_per_domain, levels, names)
            measured = generated_rows(domain, TRAINING_SEEDS, eval_tasks, levels, names)
            kept = templates(domain, held_out=True)
            held_out[domain] = generated_rows(domain, TRAINING_SEEDS, held_out_tasks, levels, kept)
            _check_seeds(learnt, measured)
        training[domain], evaluation[domain] = learnt[:tasks_per_domain], measured[:eval_tasks]
        for what, rows in (("learn from", training[domain]), ("be measured on", evaluation[domain])):
            if not rows:
                raise UserError(f"{domain}: there is no task to {what}: give more tasks or another file")
    held_out = {domain: rows for domain, rows in held_out.items() if rows}
    return TaskSets(training, evaluation, held_out, benchmark, tuple(notes))


def generated_rows(
    domain: str, first_seed: int, count: int, levels: Sequence[int], names: Sequence[str]
) -> tuple[TaskRow, ...]:
    """`count` generated tasks of consecutive seeds, the levels in blocks of equal size, templates drawn by the seed.

    Consecutive seeds matter: what the rules say (act, deny, transfer) is spread evenly over any run of seeds.
    Raises UserError for a level or template that does not exist.
    """
    unknown = [name for name in names if name not in templates(domain)]
    if unknown:
        raise UserError(f"{domain} has no template {unknown[0]!r}: there are {', '.join(templates(domain))}")
    wrong = [level for level in levels if level not in LEVELS]
    if wrong or not levels:
        raise UserError(f"level {wrong[0] if wrong else 'none'}: expected one or more of {', '.join(map(str, LEVELS))}")
    rows = []
    for place in range(count):
        seed, level = first_seed + place, levels[place * len(levels) // count]
        # The name that `task_of_seed` draws by: with all templates of a domain it makes the same task.
        template = Draw(domain, seed, "template").pick(tuple(names))
        rows.append(TaskRow(domain, f"{template}-L{level}-{seed}", template, seed, level))
    return tuple(rows)


def divide(domain: str, tasks: Sequence[Task]) -> tuple[tuple[TaskRow, ...], tuple[TaskRow, ...], str]:
    """(learnt, measured, note). By the split file: `train`, or all but `test` where nothing is called `train`; `test`.

    Without a task of the split `test` the learnable ones are divided in file order, the first 60 % to be learnt.
    """
    rows = {task.key: TaskRow(task.domain, task.id) for task in tasks}
    named = [task for task in tasks if task.split == "train"]
    learnable = [rows[task.key] for task in named or tasks if task.split != "test"]
    test = [rows[task.key] for task in tasks if task.split == "test"]
    if test:
        return tuple(learnable), tuple(test), f"{domain}: {len(learnable)} tasks to learn, {len(test)} of split test"
    cut = max(1, int(LEARNING_SHARE * len(learnable)))
    note = f"{domain}: no task of split test, so the first {cut} of {len(learnable)} are learnt, the rest measured"
    return tuple(learnable[:cut]), tuple(learnable[cut:]), note


def _file_tasks(domain: str, file: str | Path) -> list[Task]:
    """The tasks of one file of a data directory, DIR/<domain>/tasks*.json, in its order."""
    path = Path(file)
    if not path.is_file():
        raise UserError(f"--{domain}-tasks {path}: no such file")
    if path.absolute().parent.name != domain or not (path.name == "tasks.json" or path.match("tasks_*.json")):
        raise UserError(
            f"--{domain}-tasks {path}: expected {domain}/tasks.json or {domain}/tasks_NAME.json in a tau2-bench data"
            " directory, beside its database and policy, or a tasks_*.jsonl of a run"
        )
    found = {task.id: task for task in load_tau2(path.absolute().parent.parent, (domain,)).tasks}
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [found[str(row["id"])] for row in (rows["tasks"] if isinstance(rows, dict) else rows)]


def write_rows(path: str | Path, sets: dict[str, Iterable[TaskRow]]) -> None:
    """Write rows as JSON lines, each with the name of its set (`train`, `evaluation`, `held_out`)."""
    lines = [
        to_json({"set": name, **{key: value for key, value in asdict(row).items() if value is not None}})
        for name, rows in sets.items()
        for row in rows
    ]
    atomic_write_text(path, "\n".join(lines) + "\n")


def read_rows(path: str | Path) -> dict[str, tuple[TaskRow, ...]]:
    """Set name -> rows, as `write_rows` wrote them. Raises UserError naming the line that is not one."""
    found: dict[str, list[TaskRow]] = {TRAIN: [], EVALUATION: [], HELD_OUT: []}
    try:
        lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            found[values.pop("set", TRAIN)].append(TaskRow(**values))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise UserError(
                f'{path}: line {number} is no task ({error}): expected {{"set": "train", "domain": ..., "id": ...,'
                ' "template": ..., "seed": ..., "level": ...}'
            ) from None
    return {name: tuple(rows) for name, rows in found.items()}


def write_task_files(run: str | Path, sets: TaskSets) -> None:
    """Write tasks_<domain>.jsonl into a run; where a resumed run has them, compare.

    Raises UserError when the tasks are no longer those that the run began with.
    """
    for domain in sets.training:
        path = Path(run) / f"tasks_{domain}.jsonl"
        parts = {
            TRAIN: sets.training[domain],
            EVALUATION: sets.evaluation[domain],
            HELD_OUT: sets.held_out.get(domain, ()),
        }
        if not path.exists():
            write_rows(path, parts)
        elif read_rows(path) != parts:
            raise UserError(f"{path} holds other tasks than these flags and files give: start a new run")


def _check_rows(rows: dict[str, tuple[TaskRow, ...]], domain: str, file: str) -> None:
    """A list of generated tasks, of one domain, with training and evaluation apart."""
    for row in (row for part in rows.values() for row in part):
        if row.domain != domain:
            raise UserError(f"--{domain}-tasks {file}: task {row.id} is of the domain {row.domain}")
        if row.template is None:
            raise UserError(f"--{domain}-tasks {file}: task {row.id} has no template: give its tasks.json instead")
        _generated(row)
    _check_seeds(rows[TRAIN], rows[EVALUATION] + rows[HELD_OUT])


def _check_seeds(learnt: Iterable[TaskRow], measured: Iterable[TaskRow]) -> None:
    for row in learnt:
        if row.seed >= TRAINING_SEEDS:
            raise UserError(f"task {row.domain}/{row.id}: seeds from {TRAINING_SEEDS:,} on are for evaluation only")
    for row in measured:
        if row.seed < TRAINING_SEEDS:
            raise UserError(f"task {row.domain}/{row.id}: evaluation needs a seed from {TRAINING_SEEDS:,} on")


class Deck:
    """An endless order over `count` items: epoch after epoch, each a seeded permutation of all of them.

    Where an epoch ends inside a step, the next one begins with items that the step does not hold yet: none comes twice
    within `window` consecutive places (at most `count`). What stands at a place is a function of the arguments alone.
    """

    def __init__(self, count: int, window: int, seed: int, *names: str | int):
        assert count > 0, f"a deck of {count} items"
        self.count = count
        self.window = min(max(window, 1), count)
        self._names = (seed, *names)
        self._epoch, self._order = 0, self._shuffled(0)

    def take(self, start: int, number: int) -> list[int]:
        """The items at the places start, start + 1, ..., start + number - 1."""
        return [self._order_of(place // self.count)[place % self.count] for place in range(start, start + number)]

    def _order_of(self, epoch: int) -> list[int]:
        if epoch < self._epoch:
            self._epoch, self._order = 0, self._shuffled(0)
        while self._epoch < epoch:
            self._epoch += 1
            self._order = self._after(self._order, self._shuffled(self._epoch))
        return self._order

    def _shuffled(self, epoch: int) -> list[int]:
        seed, *names = self._names
        return numpy_generator(seed, *names, epoch).permutation(self.count).tolist()

    def _after(self, before: list[int], order: list[int]) -> list[int]:
        """`order`, changed as little as needed for its head to hold nothing of the tail of `before`."""
        left, head = list(order), []
        for place in range(self.window - 1):
            barred = set(before[self.count - (self.window - 1 - place) :])
            head.append(left.pop(next(index for index, item in enumerate(left) if item not in barred)))
        return head + left
