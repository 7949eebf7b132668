"""Flat token-budget batches: one plan of global batches per epoch, and the arrays of one unit.

The plan is a pure function of (units, seed, epoch, budget): every rank computes the same one and takes its own share,
so all ranks take the same number of steps and the order of the data does not depend on the number of processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lib.balance import split_balanced
from lib.errors import UserError
from lib.protein.cache_format import Block
from lib.protein.cache_store import assemble
from lib.protein.split import Unit
from lib.protein.twins import twin_ids
from lib.seeds import derive, numpy_generator

MIN_PLDDT = 50  # below it AlphaFold DB calls its own model very low confidence


@dataclass(frozen=True, slots=True)
class Crop:
    """Keep `length` residues: those whose CA lies nearest to a residue drawn from `seed`, in file order."""

    length: int
    seed: int


@dataclass(frozen=True, slots=True)
class Draw:
    """A unit as it enters one epoch: whole, or cropped. cost: residues after cropping."""

    unit: Unit
    crop: Crop | None = None

    @property
    def cost(self) -> int:
        return self.unit.length if self.crop is None else self.crop.length


def epoch_draws(units: Sequence[Unit], *, seed: int, epoch: int, limit: int) -> list[Draw]:
    """One draw per distinct key, in the order of this epoch; units longer than `limit` residues are cropped."""
    members: dict[int, list[Unit]] = defaultdict(list)
    for item in units:
        members[item.key].append(item)
    keys = sorted(members)
    draws = []
    for position in numpy_generator(seed, "order", epoch).permutation(len(keys)):
        key = keys[position]
        candidates = sorted(members[key], key=lambda item: item.name)
        item = candidates[derive(seed, "member", epoch, key) % len(candidates)]
        crop = Crop(limit, derive(seed, "crop", epoch, item.name)) if item.length > limit else None
        draws.append(Draw(item, crop))
    return draws


def crop_limit(max_length: int, max_tokens: int | None) -> int:
    """Longest unit that enters a batch whole: --max_length, or the token budget of one process if that is smaller."""
    limit = max_length if max_tokens is None else min(max_length, max_tokens)
    if limit < 1:
        raise UserError(
            f"a batch limit of {limit} residues found, expected at least 1: raise --max_length or --max_tokens"
        )
    return limit


def epoch_plan(
    units: Sequence[Unit],
    *,
    seed: int,
    epoch: int,
    processes: int,
    max_tokens: int | None = None,
    batch_size: int | None = None,
    max_length: int = 1000,
    accumulation: int = 1,
    skip: int = 0,
) -> list[list[list[Draw]]]:
    """Plan of one epoch: [step][rank] -> draws of that rank.

    The global batch of a step is a function of the global budget alone (budget x processes x accumulation), so 1
    process with 2n takes the same global batches as 2 with n, as long as no unit exceeds the budget n of one process
    (it would be cropped to it). max_tokens is residues per process and micro-step, batch_size is units per process and
    micro-step; exactly one is given. The budget bounds the global batch; the share of one rank may pass its part of it
    by less than one unit. Nothing is dropped: the last batch of an epoch may be small, and a share may be
    empty. Every distinct key is drawn once. `skip` leaves out that many draws at the start of the epoch: where a run
    was left, also when it goes on with another global batch.
    """
    if (max_tokens is None) == (batch_size is None):
        raise UserError("expected exactly one of max_tokens and batch_size: give --max_tokens or --batch_size")
    per_process = max_tokens if batch_size is None else batch_size
    if per_process < 1:
        raise UserError(f"a batch of {per_process} found, expected at least 1: raise --max_tokens or --batch_size")
    budget = per_process * processes * accumulation
    steps: list[list[Draw]] = []
    filled = budget
    for draw in epoch_draws(units, seed=seed, epoch=epoch, limit=crop_limit(max_length, max_tokens))[skip:]:
        cost = draw.cost if batch_size is None else 1
        if filled + cost > budget:
            steps.append([])
            filled = 0
        steps[-1].append(draw)
        filled += cost
    return [_shares(step, processes) for step in steps]


def _shares(draws: list[Draw], parts: int) -> list[list[Draw]]:
    return [[draws[index] for index in share] for share in split_balanced([draw.cost for draw in draws], parts)]


def micro_batches(draws: list[Draw], accumulation: int) -> list[list[Draw]]:
    """Divide the share of one rank into exactly `accumulation` near-equal micro-batches; some may be empty."""
    return _shares(draws, accumulation)


def plan_counts(plan: list[list[list[Draw]]]) -> dict[str, int]:
    """Steps, units, residues and cropped units of a plan, and the largest share in residues."""
    draws = [draw for step in plan for share in step for draw in share]
    return {
        "steps": len(plan),
        "units": len(draws),
        "residues": sum(draw.cost for draw in draws),
        "cropped": sum(draw.crop is not None for draw in draws),
        "largest_share": max((sum(draw.cost for draw in share) for step in plan for share in step), default=0),
    }


def eval_shares(units: Sequence[Unit], processes: int) -> list[list[Unit]]:
    """Every unit exactly once over all ranks, near-equal residues; a share may be empty."""
    return [[units[index] for index in share] for share in split_balanced([item.length for item in units], processes)]


def load_unit(store, unit: Unit, crop: Crop | None = None) -> dict[str, np.ndarray]:
    """Arrays of one unit of a ChainStore: see `unit_arrays`."""
    return unit_arrays([store.locate(row) for row in unit.rows], crop)


def unit_arrays(chains: Sequence[tuple[Block, int]], crop: Crop | None = None) -> dict[str, np.ndarray]:
    """Arrays of chains of one file given as (block, row), in the frame of the file shifted by a common centre.

    coordinates float32 (residues, 4, 3) in angstrom, absent atoms 0; present uint8 (residues,) bits 0..3 = N, CA, C, O;
    aa uint8 (residues,); chain int16 (residues,) index in the unit; position int32 (residues,) index along the chain
    from 0 (a crop leaves jumps); confidence uint8 (residues,); trusted bool (residues,), False where a predicted
    structure gives a pLDDT below MIN_PLDDT; twin int32 (residues,) equal for copies of a residue in identical chains.
    """
    lengths = [int(block.lengths[row]) for block, row in chains]
    arrays = {
        "coordinates": assemble(chains),
        "present": np.concatenate([block.present(row) for block, row in chains]),
        "aa": np.concatenate([block.aa(row) for block, row in chains]),
        "chain": np.repeat(np.arange(len(chains), dtype=np.int16), lengths),
        "position": np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
        "confidence": np.concatenate([block.confidence(row) for block, row in chains]),
        "trusted": np.concatenate([_trusted(block, row) for block, row in chains]),
        "twin": twin_ids([(block.numbers(row), block.aa(row)) for block, row in chains]),
    }
    if crop is None or crop.length >= sum(lengths):
        return arrays
    keep = nearest_residues(arrays["coordinates"], arrays["present"], crop)
    return {name: array[keep] for name, array in arrays.items()}


def _trusted(block: Block, row: int) -> np.ndarray:
    confidence = block.confidence(row)
    return confidence >= MIN_PLDDT if block.is_plddt(row) else np.ones(len(confidence), bool)


def nearest_residues(coordinates: np.ndarray, present: np.ndarray, crop: Crop) -> np.ndarray:
    """Sorted indices of the `crop.length` residues whose CA lies nearest to a random residue with a CA.

    coordinates (residues, 4, 3) in angstrom; residues without CA are taken last, by distance along the sequence.
    """
    with_ca = np.flatnonzero(present & 2)
    generator = numpy_generator(crop.seed, "centre")
    if not len(with_ca):
        start = int(generator.integers(0, len(present) - crop.length + 1))
        return np.arange(start, start + crop.length)
    middle = int(with_ca[generator.integers(0, len(with_ca))])
    distance = np.linalg.norm(coordinates[:, 1] - coordinates[middle, 1], axis=1)  # (residues,)
    absent = (present & 2) == 0
    distance[absent] = 1e6 + np.abs(np.flatnonzero(absent) - middle)
    return np.sort(np.argsort(distance, kind="stable")[: crop.length])
