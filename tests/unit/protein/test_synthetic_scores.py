"""The comparison with the known optimum: exact for the optimum itself, alarmed by a model that is told the answer."""

import contextlib

import numpy as np
import pytest
import torch

from lib.protein.evaluation import score_units
from lib.protein.masking import validation_draws
from lib.protein.model import ModelConfig, ProteinModel
from lib.protein.options import ProteinOptions
from lib.protein.prepare import build_store, prepare, training_tables
from lib.protein.synthetic_bounds import bayes_masked, bayes_one_shot, law_record
from lib.protein.synthetic_scores import BayesScores


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("synthetic") / "set")
    config = ProteinOptions(pdb_path=place, cache_dir=place, synthetic_chains=40, val_split=0.3)
    return prepare(config, build_store(config, lambda text: None), lambda text: None)


@pytest.fixture(scope="module")
def tables(data):
    return training_tables(data.store, data.sides["train"])


def optimum(law, arrays, ok, unit):
    record = law_record(unit.name, arrays["coordinates"], arrays["present"], arrays["chain"], arrays["aa"])
    masked = np.zeros((len(ok), 20))
    for _, target in validation_draws("masked", ok, arrays["twin"], 0, unit.name):
        masked[target] = bayes_masked(law, [record], [~target])[0][target]
    return {"one_shot": bayes_one_shot(law, [record])[0], "masked": masked}


def compare(data, tables, change):
    """Results when the model's log-probabilities are `change` of the optimum's."""
    scores = BayesScores.load(data, tables.unigram, 0)

    def receive(unit, arrays, ok, log_p):
        if (arrays["aa"] < 20).all() and ok.all():
            best = optimum(scores.law, arrays, ok, unit)
            log_p = {metric: change(value, arrays["aa"]) for metric, value in best.items()}
        scores.add(unit, arrays, ok, log_p)

    model = ProteinModel(ModelConfig(hidden_dim=8, k_neighbors=4)).eval()
    score_units(
        model, data.store, data.sides["val"], tables, seed=0, max_tokens=2000, device=torch.device("cpu"),
        autocast=contextlib.nullcontext, metrics=("masked", "one_shot"), on_unit=receive,
    )  # fmt: skip
    return scores.results(lambda sums: sums)


def test_the_set_says_that_it_is_synthetic(data):
    assert data.synthetic and data.results()["synthetic"]


def test_the_optimum_closes_the_whole_gap(data, tables):
    results = compare(data, tables, lambda best, aa: best)
    assert results["bayes_residues"] > 300
    assert results["bayes_gap_closed_one_shot"] == pytest.approx(1.0)
    assert results["bayes_gap_closed_masked"] == pytest.approx(1.0)
    assert results["bayes_excess_se_one_shot"] == pytest.approx(0.0, abs=1e-6)
    assert results["bayes_model_ppl_masked"] == pytest.approx(results["bayes_ppl_masked"])
    assert 1 < results["bayes_ppl_masked"] < results["bayes_ppl_one_shot"] < 18


def test_a_flatter_model_lies_above_the_bound(data, tables):
    def flatter(best, aa):
        half = best / 2
        return half - np.log(np.exp(half).sum(-1, keepdims=True))

    results = compare(data, tables, flatter)
    assert results["bayes_excess_se_one_shot"] > 5
    assert 0 < results["bayes_gap_closed_one_shot"] < 1


def test_a_model_that_is_told_the_answer_lies_far_below_the_bound(data, tables):
    def told(best, aa):
        hint = best + 0.5 * np.eye(20)[aa]
        return hint - np.log(np.exp(hint).sum(-1, keepdims=True))

    results = compare(data, tables, told)
    assert results["bayes_excess_se_one_shot"] < -5 and results["bayes_excess_se_masked"] < -5
