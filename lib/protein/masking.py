"""What a residue may see during training and in validation: visibility orders and targets.

Neighbour j shows its amino acid to i only where order_j < order_i. Every draw is a function of the seed, the epoch and
the name of the unit, never of the batch or the process that happens to hold it.
"""

from dataclasses import dataclass

import numpy as np

from lib.errors import UserError
from lib.protein.twins import first_copies
from lib.seeds import numpy_generator

OBJECTIVES = ("masked", "any_order", "one_shot", "both")
SCHEDULES = ("fixed", "uniform", "cosine", "span")
STRATEGIES = ("random", "block")
METRICS = ("masked", "any_order", "one_shot")
MASK_FOLDS = 7  # validation hides one residue in seven at a time, about the original's 15 %
SPAN_RESIDUES = 10  # mean length of a stretch under the span schedule


@dataclass(frozen=True)
class Objective:
    """How training draws are made.

    objective: `masked`, `any_order`, `one_shot`, or `both` (each unit is masked or any-order with equal chance).
    one_shot_share: chance that a unit of any objective is drawn with nothing visible and everything a target.
    """

    objective: str = "both"
    mask_schedule: str = "fixed"
    masking_strategy: str = "random"
    mask_ratio: float = 0.15
    one_shot_share: float = 0.0

    def __post_init__(self):
        if not 0.0 < self.mask_ratio <= 1.0:
            raise UserError(f"--mask_ratio {self.mask_ratio} is not a share: expected above 0 and at most 1")
        if not 0.0 <= self.one_shot_share <= 1.0:
            raise UserError(f"--one_shot_share {self.one_shot_share} is not a share: expected 0 to 1")

    def draw(
        self, scorable: np.ndarray, ca: np.ndarray, twin: np.ndarray, *seed_names
    ) -> tuple[np.ndarray, np.ndarray]:
        """Visibility order float32 (residues,) and targets bool (residues,) of one unit.

        Args:
            scorable: (residues,) bool, residues that may be targets. ca: (residues, 3) angstrom, for spatial blocks.
            twin: (residues,) equal for copies of a residue in identical chains, which share their place in the order.
            seed_names: seed first, then what makes the draw unique (epoch, unit name).
        """
        generator = numpy_generator(seed_names[0], "visibility", *seed_names[1:])
        first = first_copies(twin)
        kind = self.objective
        if generator.random() < self.one_shot_share:
            kind = "one_shot"
        elif kind == "both":
            kind = "masked" if generator.random() < 0.5 else "any_order"
        if kind == "one_shot":
            return np.zeros(len(scorable), np.float32), scorable
        if kind == "any_order":
            return any_order(len(scorable), generator)[first], scorable
        masked = self._mask(scorable, ca, first, generator)
        return masked.astype(np.float32), masked & scorable

    def _mask(self, scorable, ca, first, generator: np.random.Generator) -> np.ndarray:
        """Masked residues bool (residues,), at least one of them scorable where any is."""
        ratio = self.mask_ratio
        if self.mask_schedule == "uniform":
            ratio = generator.random()
        elif self.mask_schedule == "cosine":
            ratio = float(np.sin(0.5 * np.pi * generator.random()))
        count = len(scorable)
        wanted = int(np.clip(round(ratio * count), 1, count))
        if self.mask_schedule == "span":
            masked = span_mask(count, wanted, generator)
        elif self.masking_strategy == "block":
            centre = ca[generator.integers(count)]
            nearest = np.argsort(np.square(ca - centre).sum(1), kind="stable")
            masked = np.zeros(count, bool)
            masked[nearest[:wanted]] = True
        else:
            masked = np.zeros(count, bool)
            masked[generator.permutation(count)[:wanted]] = True
        if scorable.any() and not (masked[first] & scorable).any():
            masked[first[generator.choice(np.flatnonzero(scorable))]] = True
        return masked[first]


def any_order(count: int, generator: np.random.Generator) -> np.ndarray:
    """A random decoding order without ties; float32 (count,) in 0..1."""
    return (generator.permutation(count) / max(count, 1)).astype(np.float32)


def span_mask(count: int, wanted: int, generator: np.random.Generator) -> np.ndarray:
    """`wanted` masked residues in contiguous stretches of geometric length, mean SPAN_RESIDUES; bool (count,)."""
    masked = np.zeros(count, bool)
    while (missing := wanted - int(masked.sum())) > 0:
        length = min(int(generator.geometric(1.0 / SPAN_RESIDUES)), missing)
        start = int(generator.integers(0, count - length + 1))
        masked[start : start + length] = True
    return masked


def validation_draws(
    metric: str, scorable: np.ndarray, twin: np.ndarray, seed: int, name: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Fixed (visibility order, targets) of a unit for one metric; the same in every epoch and on every rank.

    `masked`: MASK_FOLDS draws that together hide every residue once, so that the figure covers all residues and not a
    lucky seventh of them. `any_order`: every residue given those before it in one random order. `one_shot`: every
    residue given the backbone alone. Each scorable residue is a target of exactly one draw. Copies of a residue (equal
    `twin`) are hidden together.
    """
    assert metric in METRICS
    count = len(scorable)
    if metric == "one_shot":
        return [(np.zeros(count, np.float32), scorable)]
    generator = numpy_generator(seed, "validation", metric, name)
    first = first_copies(twin)
    if metric == "any_order":
        return [(any_order(count, generator)[first], scorable)]
    fold = (generator.permutation(count) % MASK_FOLDS)[first]
    masks = [fold == number for number in range(MASK_FOLDS)]
    return [(masked.astype(np.float32), masked & scorable) for masked in masks]
