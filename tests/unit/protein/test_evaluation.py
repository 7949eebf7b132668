"""Metrics as sums: known values, shares that add up, calibration."""

import contextlib

import numpy as np
import pytest
import torch
from chains import FakeStore

from lib.protein.batching import eval_shares
from lib.protein.evaluation import Scores, calibration_error, per_amino_acid, score_units, summarise
from lib.protein.model import ModelConfig, ProteinModel
from lib.protein.tables import fit_tables, local_geometry


@pytest.fixture(scope="module")
def store():
    return FakeStore([50, 33, 41, 27, 64], chains=2)


@pytest.fixture(scope="module")
def tables(store):
    parts = [local_geometry(u["coordinates"], np.ones((len(u["aa"]), 4), bool), u["chain"]) for u in store.arrays]
    cell, count = (np.concatenate(values) for values in zip(*parts, strict=True))
    return fit_tables(cell, count, np.concatenate([u["aa"] for u in store.arrays]).astype(int))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    model = ProteinModel(ModelConfig(hidden_dim=16, k_neighbors=8, dropout=0.5)).eval()
    with torch.no_grad():
        model.logits_out.weight.mul_(20)
    return model


def score(model, store, units, tables, **options):
    return score_units(
        model, store, units, tables, seed=0, device=torch.device("cpu"), autocast=contextlib.nullcontext,
        **{"max_tokens": 100, **options},
    )  # fmt: skip


def test_a_model_that_knows_nothing_has_perplexity_twenty(store, tables):
    model = ProteinModel(ModelConfig(hidden_dim=16, k_neighbors=8)).eval()
    with torch.no_grad():
        model.logits_out.weight.zero_()
    results = summarise(score(model, store, store.units(), tables))
    assert results["val_ppl_one_shot"] == pytest.approx(20, rel=1e-5)
    assert results["val_ppl_masked"] == pytest.approx(20, rel=1e-5)
    assert results["val_residues"] == 215 and results["val_chains"] == 10
    # All logits are equal: the guess is always alanine at confidence 1/20.
    share = np.mean(np.concatenate([u["aa"] for u in store.arrays]) == 0)
    assert results["val_recovery_one_shot"] == pytest.approx(share)
    assert results["val_ece_one_shot"] == pytest.approx(abs(share - 0.05), abs=1e-6)


def test_shares_add_up_to_the_whole_whatever_their_number_and_batch(model, store, tables):
    whole = summarise(score(model, store, store.units(), tables))
    for processes, max_tokens in ((2, 60), (3, 1000), (7, 64)):
        merged = Scores()
        for share in eval_shares(store.units(), processes):
            merged.merge(score(model, store, share, tables, max_tokens=max_tokens))
        parts = summarise(merged)
        assert parts.keys() == whole.keys()
        for key, value in whole.items():
            assert parts[key] == pytest.approx(value, rel=1e-5), key
        assert sorted(row["id"] for row in merged.rows) == sorted(store.ids)


def test_sums_over_types_sides_and_chains_equal_the_total(model, store, tables):
    scores = score(model, store, store.units(), tables)
    for metric in ("masked", "any_order", "one_shot"):
        total = scores.sums[metric]
        np.testing.assert_allclose(scores.sums[f"{metric}/aa"].sum(0), total)
        np.testing.assert_allclose(scores.sums[f"{metric}/buried"].sum(0), total)
        assert sum(row[f"{metric}_residues"] for row in scores.rows) == total[0]
        assert sum(row[f"{metric}_nll"] for row in scores.rows) == pytest.approx(total[1])
    assert sum(v["residues"] for v in per_amino_acid(scores, "masked").values()) == 215


def test_one_shot_nll_is_that_of_the_logits(model, store, tables):
    from lib.protein.batching import load_unit
    from lib.protein.collate import flat_batch

    unit = store.units()[1]
    batch = flat_batch([unit.name], [load_unit(store, unit)])
    log_p = model.logits(batch, torch.zeros(33)).log_softmax(-1)
    expected = -log_p[torch.arange(33), batch.aa].sum().item()
    seen = []
    scores = score(model, store, [unit], tables, on_unit=lambda *arguments: seen.append(arguments))
    assert scores.sums["one_shot"][1] == pytest.approx(expected, rel=1e-5)
    _, arrays, ok, found = seen[0]
    assert ok.all()
    assert -found["one_shot"][np.arange(33), arrays["aa"]].sum() == pytest.approx(expected, rel=1e-5)


def test_calibration_error_of_a_known_histogram():
    histogram = np.zeros((15, 3))
    histogram[3] = (10, 2.5, 1)  # confidence 0.25, right 0.1
    histogram[14] = (30, 29.0, 29)
    assert calibration_error(histogram) == pytest.approx(1.5 / 40)


def test_temperature_finds_an_overconfident_model(model, store, tables):
    hot = ProteinModel(ModelConfig(hidden_dim=16, k_neighbors=8)).eval()
    hot.load_state_dict(model.state_dict())
    with torch.no_grad():
        hot.logits_out.weight.mul_(3)
        hot.logits_out.bias.mul_(3)
    results = summarise(score(hot, store, store.units(), tables))
    assert results["temperature"] > 2.0
    assert results["calibration_ece_fitted"] < results["calibration_ece"]


def test_a_stop_ends_between_batches(model, store, tables):
    calls = []
    scores = score(
        model, store, store.units(), tables, should_stop=lambda: calls.append(1) or len(calls) > 2, max_tokens=64
    )
    assert 0 < len(scores.rows) < 10


def test_the_mode_of_the_model_is_left_as_it_was(model, store, tables):
    model.train()
    score(model, store, store.units()[:1], tables, metrics=["one_shot"])
    assert model.training
    model.eval()
