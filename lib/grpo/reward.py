"""The reward of an episode: strict, by the rules of tau2-bench, as a product over the task's `reward_basis`.

Each part is 0 or 1. A part that is not in the basis is worked out and shown but does not count. NL_ASSERTION needs a
judge: without one it is left out of the product, and `Reward.dropped` says so.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lib.grpo.task import BASIS, JUDGED, Action, Task
from lib.grpo.users.parser import normalise, understand
from lib.grpo.users.vocabulary import NUMBER, NUMERIC
from lib.grpo.worlds.tools import ToolError, written
from lib.grpo.worlds.world import ASSISTANT, Call, World

# How an episode may end and still count.
GOOD_ENDS = ("user_stop", "agent_stop")
# In generated tasks a message with more numbers than this communicates none: nobody can find the answer in it. Dates,
# times and ids are no numbers. Small whole numbers are counts, of which a list of all is soon said.
MOST_NUMBERS = 12
SMALL, MOST_SMALL = 20, 4


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: the part it belongs to, what it is, and whether it holds."""

    part: str
    what: str
    met: bool


@dataclass(frozen=True)
class Reward:
    """`total` is the success (0 or 1) plus shaping, which is 0 unless asked for; `breakdown` is part -> 0 or 1.

    `faults` are exceptions inside tools that were no refusals, our own mistakes: such an episode counts as failed.
    """

    total: float
    success: float
    breakdown: dict[str, float]
    checks: tuple[Check, ...]
    dropped: tuple[str, ...] = ()
    note: str = ""
    faults: tuple[str, ...] = ()


def score(
    task: Task, world: World, said: list[str], end: str | None, judge: Callable[[list[str]], list[bool]] | None = None
) -> Reward:
    """The reward of an episode that left `world` with its calls, told the user `said` and ended with `end`.

    `end` is None while the episode goes on. judge: says of each of some statements whether it holds in the dialogue;
    it is asked when nothing else in the basis has failed. A task without criteria, or with neither actions nor
    assertions, gives 1 for DB and ENV_ASSERTION.
    """
    if world.faults:
        return Reward(0.0, 0.0, {}, (), note=f"a tool failed: {world.faults[0]}", faults=tuple(world.faults))
    if end not in GOOD_ENDS:
        return Reward(0.0, 0.0, {}, (), note=f"ended early: {end or 'not at an end'}")
    criteria = task.criteria
    if criteria is None:
        return Reward(1.0, 1.0, {}, (), note="no criteria")
    checks = [
        *_check_database(task, world, criteria),
        *_check_assertions(world, criteria.get("env_assertions") or []),
        *_check_communicated(criteria.get("communicate_info") or [], said, strict=task.template is not None),
        *(
            Check("ACTION", _show(action), any(matches(action, call) for call in world.calls))
            for action in task.actions
        ),
        *(
            Check("FORBIDDEN", name, all(call.name != name for call in world.calls))
            for name in criteria.get("forbidden") or []
        ),
        *_check_refused(criteria, said),
    ]
    parts = {part: 1.0 for part in BASIS if part != JUDGED}
    for check in checks:
        parts[check.part] *= check.met
    if judge is not None and JUDGED in task.basis and all(parts[part] for part in task.basis if part != JUDGED):
        checks += _check_judged(criteria.get("nl_assertions") or [], judge)
        parts[JUDGED] = float(all(check.met for check in checks if check.part == JUDGED))
    dropped = (JUDGED,) if judge is None and JUDGED in task.basis else ()
    total = 1.0
    for part in task.basis:
        total *= parts.get(part, 1.0)
    return Reward(total, total, {part: parts[part] for part in task.basis if part in parts}, tuple(checks), dropped)


def matches(action: Action, call: Call) -> bool:
    """Whether a call is the gold action, by whomever: alone, the agent makes the user's calls too.

    Without `compare_args` the arguments that the call gives are compared, so one that is left out passes; an empty list
    compares the name alone.
    """
    if action.name != call.name:
        return False
    names = set(call.arguments if action.compare_args is None else action.compare_args)
    return {name: value for name, value in call.arguments.items() if name in names} == {
        name: value for name, value in action.arguments.items() if name in names
    }


def _check_judged(statements: list[str], judge: Callable[[list[str]], list[bool]]) -> list[Check]:
    verdicts = judge(statements) if statements else []
    return [Check(JUDGED, text, met) for text, met in zip(statements, verdicts, strict=True)]


def _check_refused(criteria: dict, said: list[str]) -> list[Check]:
    """Doing nothing and calling it done leaves the same database as a refusal."""
    if not criteria.get("refuse"):
        return []
    return [Check("REFUSAL", "the user was refused", any(understand(text).denial for text in said))]


def _check_database(task: Task, world: World, criteria: dict) -> list[Check]:
    if criteria.get("actions") is None and criteria.get("env_assertions") is None:
        return []
    gold, reached = task.gold_state, world.state()
    checks = [Check("DB", "agent database", gold[0] == reached[0])]
    if gold[1] is not None:
        checks.append(Check("DB", "user database", gold[1] == reached[1]))
    return checks


def _check_assertions(world: World, assertions: list[dict]) -> list[Check]:
    """Named predicates on the final state; one that cannot be worked out does not hold, and says why."""
    checks = []
    for row in assertions:
        arguments = row.get("arguments") or {}
        what = written(row["func_name"], arguments)
        try:
            met = world.run(row["env_type"], row["func_name"], arguments) == row.get("assert_value", True)
        except ToolError as error:
            met, what = False, f"{what}: {error}"
        checks.append(Check("ENV_ASSERTION", what, met))
    return checks


def _check_communicated(wanted: list[str], said: list[str], strict: bool) -> list[Check]:
    """As in the benchmark, a substring of some message without its commas.

    `strict` (generated tasks) compares numbers by their value, and skips messages that hold too many of them.
    """
    if not strict:
        heard = [text.lower().replace(",", "") for text in said]
        return [Check("COMMUNICATE", what, any(what.lower() in text for text in heard)) for what in wanted]
    texts = [normalise(text) for text in said]
    numbers = [{float(number) for number in NUMBER.findall(text)} for text in texts]
    return [Check("COMMUNICATE", what, any(_says(what, *pair) for pair in zip(texts, numbers))) for what in wanted]


def _says(what: str, text: str, numbers: set[float]) -> bool:
    if not NUMERIC.fullmatch(what):
        return what.lower() in text
    small = sum(number <= SMALL and number == int(number) for number in numbers)
    few = len(numbers) <= MOST_NUMBERS and (float(what) > SMALL or small <= MOST_SMALL)
    return few and float(what) in numbers


def _show(action: Action) -> str:
    return ("" if action.requestor == ASSISTANT else "user: ") + written(action.name, action.arguments)
