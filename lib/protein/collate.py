"""From cache rows to flat batches: what a training step and a validation step are given."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from lib.protein.batching import Draw, load_unit
from lib.protein.masking import Objective
from lib.protein.model import Batch
from lib.protein.split import Unit
from lib.seeds import numpy_generator

CLASSES = 20


def unpack_present(bits: np.ndarray) -> np.ndarray:
    """Presence bitmask uint8 (residues,) -> bool (residues, 4) for N, CA, C, O."""
    return (bits[:, None] >> np.arange(4, dtype=np.uint8)) & 1 > 0


def scorable(unit: dict[str, np.ndarray]) -> np.ndarray:
    """Residues of a loaded unit that may be targets, bool (residues,): a known type, N, CA and C there, and trusted."""
    return (unit["aa"] < CLASSES) & unpack_present(unit["present"])[:, :3].all(1) & unit["trusted"]


def flat_batch(names: Sequence[str], units: Sequence[dict[str, np.ndarray]]) -> Batch:
    """Concatenate the arrays of `load_unit`; chain numbers are made different between units."""
    chains, first = [], 0
    for unit in units:
        chains.append(unit["chain"].astype(np.int64) + first)
        first += int(unit["chain"][-1]) + 1
    joined = {name: np.concatenate([unit[name] for unit in units]) for name in ("coordinates", "position", "aa")}
    present = np.concatenate([unpack_present(unit["present"]) for unit in units])
    return Batch(
        coordinates=torch.from_numpy(joined["coordinates"].astype(np.float32, copy=False)),
        present=torch.from_numpy(present),
        chain=torch.from_numpy(np.concatenate(chains)),
        position=torch.from_numpy(joined["position"].astype(np.int64)),
        aa=torch.from_numpy(joined["aa"].astype(np.int64)),
        unit_lengths=[len(unit["aa"]) for unit in units],
        names=list(names),
    )


def training_batch(
    store, draws: Sequence[Draw], objective: Objective, *, seed: int, epoch: int, backbone_noise: float = 0.0
) -> tuple[Batch, Tensor, Tensor]:
    """Batch, visibility order (residues,) and targets (residues,) of one rank's share of a step.

    backbone_noise: standard deviation in angstrom of the Gaussian added to every atom.
    """
    units, orders, targets = [], [], []
    for draw in draws:
        unit = load_unit(store, draw.unit, draw.crop)
        may = scorable(unit)
        order, target = objective.draw(may, unit["coordinates"][:, 1], unit["twin"], seed, epoch, draw.unit.name)
        if backbone_noise > 0:
            generator = numpy_generator(seed, "noise", epoch, draw.unit.name)
            noise = generator.standard_normal(unit["coordinates"].shape, dtype=np.float32)
            unit["coordinates"] = unit["coordinates"] + np.float32(backbone_noise) * noise
        units.append(unit)
        orders.append(order)
        targets.append(target)
    batch = flat_batch([draw.unit.name for draw in draws], units)
    return batch, torch.from_numpy(np.concatenate(orders)), torch.from_numpy(np.concatenate(targets))


def grouped(units: Iterable[Unit], max_tokens: int) -> Iterator[list[Unit]]:
    """Consecutive units in groups of at most `max_tokens` residues; a longer unit is a group of its own."""
    group: list[Unit] = []
    total = 0
    for unit in units:
        if group and total + unit.length > max_tokens:
            yield group
            group, total = [], 0
        group.append(unit)
        total += unit.length
    if group:
        yield group
