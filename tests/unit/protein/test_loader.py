"""Steps: the same global batches for any number of processes, exact continuation, ghosts, prefetching."""

import numpy as np
import torch
from chains import FakeStore

from lib.protein.batching import load_unit
from lib.protein.collate import scorable
from lib.protein.loader import StepLoader
from lib.protein.options import ProteinOptions
from lib.protein.progress import Budget, Progress

STORE = FakeStore([40, 55, 38, 47, 62, 51, 44])


def loader(processes=1, rank=0, workers=0, **options):
    config = ProteinOptions(**{"epochs": 2, "batch_size": 2, "seed": 3, **options})
    return StepLoader(STORE, STORE.units(), config, processes=processes, rank=rank, workers=workers)


def fingerprint(step):
    return [
        (part.batch.names, part.batch.coordinates.sum().item(), part.order.tolist(), part.target.tolist())
        for part in step.micro
    ]


def by_unit(steps):
    """unit name -> (order, targets) for one global step given as the steps of all ranks."""
    found = {}
    for step in steps:
        for part in step.micro:
            start = 0
            for name, length in zip(part.batch.names, part.batch.unit_lengths, strict=True):
                if part.target.any():
                    found[name] = (part.order[start : start + length], part.target[start : start + length])
                start += length
    return found


def test_two_processes_share_the_batches_of_one():
    alone = list(loader(batch_size=4).steps(0, 0))
    ranks = [list(loader(2, rank).steps(0, 0)) for rank in range(2)]
    assert len(alone) == len(ranks[0]) == len(ranks[1])
    for one, *two in zip(alone, *ranks, strict=True):
        whole, parts = by_unit([one]), by_unit(two)
        assert whole.keys() == parts.keys()
        for name in whole:
            assert torch.equal(whole[name][0], parts[name][0]) and torch.equal(whole[name][1], parts[name][1])
        assert one.targets() == sum(step.targets() for step in two)
        assert one.residues == two[0].residues == two[1].residues


def test_every_unit_once_an_epoch():
    seen = {0: [], 1: []}
    for step in loader().steps(0, 0):
        seen[step.epoch] += step.names
    assert sorted(seen[0]) == sorted(seen[1]) == sorted(unit.name for unit in STORE.units())
    assert seen[0] != seen[1]


def test_steps_continue_from_a_position():
    whole = list(loader().steps(0, 0))
    progress = Progress()
    for done, step in enumerate(whole[:-1], start=1):
        progress.advance(step)
        rest = list(loader().steps(progress.epoch, progress.taken))
        assert [fingerprint(step) for step in rest] == [fingerprint(step) for step in whole[done:]]


def test_another_global_batch_continues_with_the_units_that_are_left():
    progress = Progress()
    steps = list(loader(epochs=1).steps(0, 0))
    progress.advance(steps[0])
    left = [name for step in steps[1:] for name in step.names]
    rest = [name for step in loader(epochs=1, batch_size=3).steps(0, progress.taken) for name in step.names]
    assert sorted(rest) == sorted(left)


def test_workers_change_nothing():
    plain = [fingerprint(step) for step in loader().steps(0, 0)]
    assert [fingerprint(step) for step in loader(workers=3).steps(0, 0)] == plain


def test_an_empty_share_takes_part_without_targets():
    step = next(iter(loader(processes=8, rank=7, batch_size=1, epochs=1).steps(0, 0)))
    assert step.names == [] and step.targets() == 0 and len(step.micro) == 1
    assert step.micro[0].batch.residues == 32 and not step.micro[0].target.any()


def test_accumulation_makes_exactly_that_many_micro_batches():
    steps = list(loader(gradient_accumulation_steps=3, batch_size=1, epochs=1).steps(0, 0))
    assert all(len(step.micro) == 3 for step in steps)
    assert sum(step.targets() for step in steps) == sum(step.targets() for step in loader(epochs=1).steps(0, 0))


def test_noise_is_a_function_of_epoch_and_unit():
    quiet = by_coordinates(loader(epochs=1))
    noisy, again = (
        by_coordinates(loader(epochs=1, backbone_noise=0.1)),
        by_coordinates(loader(epochs=1, backbone_noise=0.1, batch_size=3)),
    )
    for name, values in noisy.items():
        assert np.allclose(values, again[name])
        assert abs(float((values - quiet[name]).std()) - 0.1) < 0.01


def by_coordinates(steps):
    found = {}
    for step in steps.steps(0, 0):
        for part in step.micro:
            pieces = part.batch.coordinates.split(part.batch.unit_lengths)
            found |= {name: piece.numpy() for name, piece in zip(part.batch.names, pieces, strict=True)}
    return found


def test_budget_shares():
    budget = Budget(ProteinOptions(epochs=4, max_minutes=2.0, warmup_epochs=20), steps_per_epoch=10)
    assert budget.planned_steps == 40 and budget.warmup == 0.1 and budget.timed
    assert budget.clock_share(Progress(step=10), wall_s=60) == 0.5
    assert budget.done(Progress(step=10)) == 0.25 and budget.done(Progress(step=10, share=0.5)) == 0.5
    # The number of planned steps is an estimate: the last epoch ends the run, not the count.
    assert budget.done(Progress(step=43)) == 1.0 and not budget.spent(Progress(step=43))
    assert budget.spent(Progress(step=3, share=1.0))
    exact = Budget(ProteinOptions(max_steps=7, warmup_epochs=0.05), steps_per_epoch=10)
    assert exact.planned_steps == 7 and not exact.timed and abs(exact.warmup - 0.5 / 7) < 1e-9
    assert exact.spent(Progress(step=7)) and not exact.spent(Progress(step=6))


def test_residues_of_very_low_confidence_are_no_targets():
    store = FakeStore([50])
    unit = load_unit(store, store.units()[0])
    assert unit["trusted"].all() and scorable(unit).all()
    predicted = FakeStore([50], plddt=np.where(np.arange(50) < 20, 30, 90))
    unit = load_unit(predicted, predicted.units()[0])
    assert scorable(unit).tolist() == [False] * 20 + [True] * 30
