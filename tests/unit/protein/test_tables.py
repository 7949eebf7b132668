"""Table baselines: geometry bins, fitted probabilities, smoothing."""

import numpy as np
import pytest
from chains import random_unit

from lib.protein.tables import ANGLE_BINS, NAMES, UNKNOWN_CELL, Tables, fit_tables, local_geometry


def sample(count=5000, seed=0):
    generator = np.random.default_rng(seed)
    cell = generator.integers(0, 4, count)
    neighbours = generator.integers(0, 24, count)
    aa = np.where(neighbours < 12, cell, cell + 10)  # exactly decided by both together
    return cell, neighbours, aa


def test_every_row_is_a_distribution():
    tables = fit_tables(*sample())
    for name in NAMES:
        log_p = tables.log_probabilities(name, *sample(50)[:2])
        np.testing.assert_allclose(np.exp(log_p).sum(-1), 1.0, rtol=1e-9)


def test_more_knowledge_is_better():
    tables = fit_tables(*sample())
    cell, neighbours, aa = sample(2000, seed=1)
    loss = {name: -tables.log_probabilities(name, cell, neighbours)[np.arange(2000), aa].mean() for name in NAMES}
    assert loss["phi_psi_burial"] < min(loss["phi_psi"], loss["burial"]) < loss["unigram"]
    assert loss["unigram"] == pytest.approx(np.log(8), abs=0.05)
    assert loss["phi_psi_burial"] < 0.5


def test_unseen_cells_fall_back_to_what_is_known():
    tables = fit_tables(*sample())
    unseen = np.array([77])
    both = tables.log_probabilities("phi_psi_burial", unseen, np.array([3]))
    np.testing.assert_allclose(both, tables.log_probabilities("burial", unseen, np.array([3])), atol=1e-6)


def test_cells_of_a_chain_with_a_gap_and_its_ends():
    unit = random_unit(30, 1, chains=2)
    cell, count = local_geometry(unit["coordinates"], np.ones((30, 4), bool), unit["chain"])
    assert [i for i in range(30) if cell[i] == UNKNOWN_CELL] == [0, 14, 15, 29]
    assert (cell >= 0).all() and cell.max() <= ANGLE_BINS**2
    absent = np.ones((30, 4), bool)
    absent[7, 2] = False
    gapped, fewer = local_geometry(unit["coordinates"], absent, unit["chain"])
    assert [i for i in range(30) if gapped[i] == UNKNOWN_CELL] == [0, 7, 8, 14, 15, 29]
    assert fewer[7] == 0 and (fewer <= count).all()


def test_tables_survive_their_tensors():
    tables = fit_tables(*sample())
    again = Tables.from_tensors(tables.tensors())
    for name in NAMES:
        np.testing.assert_array_equal(
            again.log_probabilities(name, *sample(9)[:2]), tables.log_probabilities(name, *sample(9)[:2])
        )
