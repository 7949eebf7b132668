"""Generated tasks: `make_task(domain, template, seed, level)` is a pure function, on every process and Python."""

from functools import cache
from types import ModuleType

from lib.errors import UserError
from lib.grpo.generation import airline, retail, telecom
from lib.grpo.generation.compose import compose
from lib.grpo.generation.draw import Draw
from lib.grpo.generation.request import ACT, DENY, TRANSFER
from lib.grpo.task import Task

WORLDS: dict[str, ModuleType] = {"airline": airline, "retail": retail, "telecom": telecom}
LEVELS = (0, 1, 2, 3, 4)
PERSONAS = ("terse", "chatty", "impatient", "confused")
# Training draws seeds below, evaluation at and above.
TRAINING_SEEDS = 1_000_000
MOST_SEED = 2**62
GOLDEN = 0x9E3779B97F4A7C15
HELD_OUT_MARK = "  (held out of training)"
# What the rules say at level 2: so divided, no agent that always does the same gets far.
OUTCOMES = {ACT: 0.36, DENY: 0.36, TRANSFER: 0.28}
# Of the last request at levels 3 and 4.
LATER_OUTCOMES = {ACT: 0.6, DENY: 0.25, TRANSFER: 0.15}


def templates(domain: str, held_out: bool | None = None) -> tuple[str, ...]:
    """Names of a domain's templates; `held_out` chooses those kept out of training, or the others."""
    world = _world(domain)
    return tuple(name for name in world.TEMPLATES if held_out is None or (name in world.HELD_OUT) == held_out)


def make_task(domain: str, template: str, seed: int, level: int) -> Task:
    """The task with its world. Raises UserError for an unknown domain, template or level, or a negative seed."""
    world = _world(domain)
    if template not in world.TEMPLATES:
        raise UserError(f"{domain} has no template {template!r}: there are {', '.join(world.TEMPLATES)}")
    if level not in LEVELS:
        raise UserError(f"level {level!r}: expected 0 to 4")
    if not 0 <= seed < MOST_SEED:
        raise UserError(f"seed {seed!r}: expected 0 to {MOST_SEED - 1}")
    draw = Draw(domain, template, seed, level)
    persona = draw.pick(PERSONAS)
    case = world.make_case(draw, level)
    requests = [world.TEMPLATES[name](case, outcome) for name, outcome in _plan(draw, domain, template, seed, level)]
    return compose(domain, template, seed, level, case.world.setting(), persona, world.identity(case), requests)


def task_of_seed(domain: str, seed: int, level: int, held_out: bool | None = False) -> Task:
    """The task of a seed when the template does not matter: it is drawn, from the training templates by default."""
    return make_task(domain, Draw(domain, seed, "template").pick(templates(domain, held_out)), seed, level)


def _spread(seed: int, weights: dict[str, float]) -> str:
    """A key with its weight's share of any run of seeds: their golden-ratio multiples fill the unit evenly."""
    place = (seed * GOLDEN % 2**64) / 2**64 * sum(weights.values())
    *others, last = weights
    for key in others:
        place -= weights[key]
        if place < 0:
            return key
    return last


def _plan(draw: Draw, domain: str, template: str, seed: int, level: int) -> list[tuple[str, str]]:
    """(template, outcome) of each request."""
    if level < 2:
        return [(template, ACT)]
    if level == 2:
        return [(template, _spread(seed, OUTCOMES))]
    world = _world(domain)
    names = [name for name in templates(domain, template in world.HELD_OUT) if name != template]
    second = draw.pick(names)
    first = (template, DENY if draw.chance(0.2) else ACT)
    later = (second, draw.weighted(LATER_OUTCOMES))
    # Not all requests of a domain can be made in one call.
    fits = getattr(world, "fits", None)
    while fits and not fits(first, later):
        later = (draw.pick(names), draw.weighted(LATER_OUTCOMES))
    return [first, later]


@cache
def _world(domain: str) -> ModuleType:
    if domain not in WORLDS:
        raise UserError(f"no domain {domain!r}: there are {', '.join(WORLDS)}")
    return WORLDS[domain]
