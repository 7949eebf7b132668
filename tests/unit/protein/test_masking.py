"""Training draws and the fixed validation draws."""

import numpy as np
import pytest

from lib.errors import UserError
from lib.protein.masking import MASK_FOLDS, Objective, validation_draws

COUNT = 200
SCORABLE = np.arange(COUNT) % 10 != 3
TWIN = np.arange(COUNT)  # no copies
CA = np.random.default_rng(0).standard_normal((COUNT, 3)).astype(np.float32) * 20


def draws(number=400, **options):
    objective = Objective(**options)
    return [objective.draw(SCORABLE, CA, TWIN, 0, epoch, "1abc:A") for epoch in range(number)]


def test_masked_hides_the_asked_share_and_scores_only_it():
    for order, target in draws(50, objective="masked", mask_ratio=0.15):
        assert set(np.unique(order)) == {0.0, 1.0}
        assert int(order.sum()) == 30
        assert np.array_equal(target, (order == 1) & SCORABLE)


def test_schedules_cover_their_range():
    uniform = [order.mean() for order, _ in draws(objective="masked", mask_schedule="uniform")]
    assert abs(np.mean(uniform) - 0.5) < 0.05 and min(uniform) < 0.03 and max(uniform) > 0.97
    cosine = [order.mean() for order, _ in draws(objective="masked", mask_schedule="cosine")]
    assert abs(np.mean(cosine) - 2 / np.pi) < 0.05 and max(cosine) > 0.99


def test_span_and_block_masks_hang_together():
    order, _ = Objective("masked", "span", mask_ratio=0.2).draw(SCORABLE, CA, TWIN, 0, 0, "x")
    assert int(order.sum()) == 40
    assert np.abs(np.diff(order)).sum() < 20  # random masks would change about 64 times
    order, _ = Objective("masked", "fixed", "block", 0.1).draw(SCORABLE, CA, TWIN, 0, 0, "x")
    hidden = CA[order == 1]
    assert len(hidden) == 20
    radius = np.linalg.norm(hidden - hidden.mean(0), axis=1).max()
    assert radius < 0.6 * np.linalg.norm(CA - CA.mean(0), axis=1).max()


def test_any_order_has_no_ties_and_scores_everything():
    order, target = Objective("any_order").draw(SCORABLE, CA, TWIN, 0, 0, "x")
    assert len(np.unique(order)) == COUNT and np.array_equal(target, SCORABLE)


def test_both_and_one_shot_share_mix():
    kinds = [len(np.unique(order)) for order, _ in draws(objective="both", one_shot_share=0.25)]
    assert abs(np.mean([kind == 1 for kind in kinds]) - 0.25) < 0.07
    assert abs(np.mean([kind == 2 for kind in kinds]) - 0.375) < 0.08


def test_a_draw_depends_on_seed_epoch_and_name_only():
    objective = Objective("any_order")
    first = objective.draw(SCORABLE, CA, TWIN, 5, 2, "1abc:A")[0]
    assert np.array_equal(first, objective.draw(SCORABLE, CA, TWIN, 5, 2, "1abc:A")[0])
    for other in ((6, 2, "1abc:A"), (5, 3, "1abc:A"), (5, 2, "1abc:B")):
        assert not np.array_equal(first, objective.draw(SCORABLE, CA, TWIN, *other)[0])


def test_there_is_a_target_wherever_one_is_possible():
    scorable = np.zeros(30, bool)
    scorable[7] = True
    for epoch in range(50):
        _, target = Objective("masked", mask_ratio=0.03).draw(scorable, CA[:30], TWIN[:30], 0, epoch, "x")
        assert target.tolist() == scorable.tolist()
    _, target = Objective("masked").draw(np.zeros(30, bool), CA[:30], TWIN[:30], 0, 0, "x")
    assert not target.any()


@pytest.mark.parametrize("metric", ["masked", "any_order", "one_shot"])
def test_validation_scores_every_residue_once_and_never_changes(metric):
    drawn = validation_draws(metric, SCORABLE, TWIN, 0, "1abc:A")
    assert np.array_equal(np.sum([target for _, target in drawn], axis=0), SCORABLE.astype(int))
    again = validation_draws(metric, SCORABLE, TWIN, 0, "1abc:A")
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(drawn, again, strict=True))
    if metric == "masked":
        assert len(drawn) == MASK_FOLDS
        assert all(abs(order.mean() - 1 / MASK_FOLDS) < 0.01 for order, _ in drawn)
        for order, target in drawn:
            assert (order[target] == 1).all()


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.5])
def test_an_impossible_ratio_is_refused(ratio):
    with pytest.raises(UserError, match="mask_ratio"):
        Objective(mask_ratio=ratio)


@pytest.mark.parametrize("options", [{"objective": "any_order"}, {"objective": "masked", "mask_schedule": "span"}])
def test_copies_in_identical_chains_are_hidden_together(options):
    twin = np.concatenate([np.arange(100), np.arange(100)])
    for epoch in range(20):
        order, target = Objective(**options).draw(SCORABLE, CA, twin, 0, epoch, "x")
        assert np.array_equal(order[:100], order[100:])
        assert target.any()


@pytest.mark.parametrize("metric", ["masked", "any_order"])
def test_validation_hides_copies_together(metric):
    twin = np.concatenate([np.arange(100), np.arange(100)])
    drawn = validation_draws(metric, SCORABLE, twin, 0, "x")
    assert np.array_equal(np.sum([target for _, target in drawn], axis=0), SCORABLE.astype(int))
    assert all(np.array_equal(order[:100], order[100:]) for order, _ in drawn)
