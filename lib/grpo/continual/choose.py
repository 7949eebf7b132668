"""The continual-learning methods by the names of --cl."""

from lib.errors import UserError
from lib.grpo.continual.merging import Merge
from lib.grpo.continual.methods import Distill, KlAnchor, Method
from lib.grpo.continual.penalties import L2, Ewc
from lib.grpo.continual.replaying import Replay

METHODS: dict[str, type[Method]] = {
    "none": Method,
    "replay": Replay,
    "kl-anchor": KlAnchor,
    "ewc": Ewc,
    "l2": L2,
    "merge": Merge,
    "distill": Distill,
}


def make_method(name: str, **options) -> Method:
    """The method `name` with the options of its class. Raises UserError for another name."""
    if name not in METHODS:
        raise UserError(f"--cl {name}: expected {', '.join(METHODS)}")
    return METHODS[name](**options)


def kept_copies(name: str, stages: int, **options) -> int:
    """Copies of the trained weights that a method holds at most in a run of `stages` GRPO stages."""
    method = make_method(name, **options)
    if isinstance(method, Merge):
        # The start, each stage's end and its Fisher matrix, and the merge itself.
        return 2 + stages * (2 if method.fisher_samples else 1)
    return int(method.keeps_snapshot) + int(isinstance(method, Ewc))
