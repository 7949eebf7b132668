"""The sequence law: its inputs against slow definitions, and belief propagation against enumeration."""

import itertools

import numpy as np
import pytest

from lib.protein.synthetic_bounds import (
    LawRecord,
    bayes_any_order,
    bayes_bounds,
    bayes_given_parent,
    bayes_masked,
    bayes_one_shot,
    law_record,
)
from lib.protein.synthetic_geometry import backbone
from lib.protein.synthetic_law import (
    BURIAL_EDGES,
    BURIAL_REACH,
    LETTERS,
    NO_PARENT,
    PARENT_REACH,
    PARENT_SEPARATION,
    STATES,
    cells,
    draw_sequence,
    has_gap,
    law_inputs,
)
from lib.protein.synthetic_table import LAW

WHOLE = 15


def chain(phi, psi):
    """Atoms (residues, 4, 3) of one chain from torsions in degrees."""
    phi, psi = np.deg2rad([phi]), np.deg2rad([psi])
    return backbone(phi, psi, np.full(phi.shape, np.pi))[0]


def compact(seed, residues):
    """A chain with random torsions, folded enough to have neighbours of all kinds."""
    rng = np.random.default_rng(seed)
    return chain(rng.choice([-63, -120, -67, 57], residues), rng.choice([-43, 130, 40], residues))


def inputs(atoms, chains=None, present=None):
    chains = np.zeros(len(atoms), int) if chains is None else chains
    present = np.full(len(atoms), WHOLE, np.uint8) if present is None else present
    return law_inputs(atoms, present, chains)


def test_states_of_known_torsions():
    phi = [-60, -63, -120, -67, 57, -85, -130, -63]
    psi = [-40, -43, 130, 147, 40, 0, -170, -43]
    state, _, _ = inputs(chain(phi, psi))
    names = [STATES[index] for index in state]
    assert names == ["end", "helix", "strand", "polyproline", "left", "helix", "strand", "end"]


def test_a_reflection_changes_states_and_a_rigid_motion_changes_nothing():
    atoms = np.round(compact(1, 80), 2)
    state, burial, parent = inputs(atoms)
    mirrored, _, _ = inputs(atoms * np.array([-1.0, 1.0, 1.0]))
    assert (mirrored[1:-1] != state[1:-1]).mean() > 0.5
    assert (mirrored[state == STATES.index("helix")] == STATES.index("left")).all()
    turned = atoms[..., [1, 2, 0]] * np.array([1.0, -1.0, -1.0]) + np.array([31.4567, -8.1234, 2.5])
    for before, after in zip((state, burial, parent), inputs(turned.astype(np.float32))):
        np.testing.assert_array_equal(before, after)


def test_inputs_do_not_depend_on_float_noise_or_a_common_shift():
    atoms = np.round(compact(2, 120), 2)
    rng = np.random.default_rng(0)
    noisy = atoms + rng.uniform(-0.0004, 0.0004, atoms.shape) + 0.005
    for clean, other in zip(inputs(atoms), inputs(noisy.astype(np.float32))):
        np.testing.assert_array_equal(clean, other)


def test_burial_and_parent_by_their_definition():
    one, two = np.round(compact(3, 50), 2), np.round(compact(4, 40), 2)
    atoms = np.concatenate([one, two + np.round(one.mean((0, 1)) - two.mean((0, 1)) + [6.0, 0.0, 0.0], 2)])
    chains = np.repeat([0, 1], [50, 40])
    state, burial, parent = inputs(atoms, chains)
    b, c = atoms[:, 1] - atoms[:, 0], atoms[:, 2] - atoms[:, 1]
    beta = -0.58273431 * np.cross(b, c) + 0.56802827 * b - 0.54067466 * c + atoms[:, 1]
    for i in range(90):
        count = sum(np.linalg.norm(beta[i] - beta[j]) < BURIAL_REACH for j in range(90) if j != i)
        assert burial[i] == sum(count >= edge for edge in BURIAL_EDGES)
        best, nearest = PARENT_REACH, -1
        for j in range(i):
            near = np.linalg.norm(atoms[i, 1] - atoms[j, 1])
            if (chains[i] != chains[j] or i - j >= PARENT_SEPARATION) and near < best - 1e-9:
                best, nearest = near, j
        assert parent[i] == nearest
    assert state[49] == state[50] == STATES.index("end")
    assert set(chains[parent[50:][parent[50:] >= 0]]) == {0, 1}, "parents in the same and in the other chain"


def test_incomplete_residues_take_no_part():
    atoms = np.round(compact(5, 60), 2)
    present = np.full(60, WHOLE, np.uint8)
    present[20] = 0b1101  # no CA
    state, burial, parent = inputs(atoms, present=present)
    assert parent[20] == -1 and 20 not in parent and burial[20] == 0
    assert (state[19:22] == STATES.index("end")).all()
    as_flags = np.stack([present >> bit & 1 for bit in range(4)], 1).astype(bool)
    for one, other in zip((state, burial, parent), inputs(atoms, present=as_flags)):
        np.testing.assert_array_equal(one, other)


def test_gaps_are_seen():
    atoms, chains, present = compact(6, 60), np.zeros(60, int), np.full(60, WHOLE, np.uint8)
    assert not has_gap(atoms, present, chains)
    keep = np.delete(np.arange(60), [30, 31])
    assert has_gap(atoms[keep], present[keep], chains[keep])
    present[3] = 0b1011
    assert has_gap(atoms, present, chains)


def record(parent, seed=0):
    rng = np.random.default_rng(seed)
    count = len(parent)
    state, burial = rng.integers(0, len(STATES), count), rng.integers(0, len(BURIAL_EDGES) + 1, count)
    return LawRecord("tiny", state, burial, np.array(parent), rng.integers(0, 20, count), True)


def joint(tiny):
    """Probability of every sequence, by the definition of the law.  # (20, 20, ...)"""
    out = np.ones((20,) * len(tiny))
    for i, (cell, above) in enumerate(zip(cells(tiny.state, tiny.burial), tiny.parent)):
        factor = LAW.table[cell, NO_PARENT] if above < 0 else LAW.table[cell, :NO_PARENT]
        shape = [20 if axis in (i, above) else 1 for axis in range(len(tiny))]
        out = out * factor.reshape(shape)  # a parent has the lower index, so its axis comes first in both
    return out


FORESTS = [(-1, 0, 1), (-1, 0, 0), (-1, -1, 0), (-1, -1, -1), (-1, 0, 0, 1), (-1, 0, 1, 2)]


@pytest.mark.parametrize("parent", FORESTS)
def test_belief_propagation_equals_enumeration(parent):
    tiny = record(parent, seed=sum(parent) + 9)
    law = joint(tiny)
    assert law.sum() == pytest.approx(1.0)
    nodes = range(len(tiny))
    exact = [np.log(law.sum(tuple(k for k in nodes if k != i))) for i in nodes]
    np.testing.assert_allclose(bayes_one_shot(LAW, [tiny])[0], exact, atol=1e-12)
    for visible in itertools.product([False, True], repeat=len(tiny)):
        found = bayes_masked(LAW, [tiny], [np.array(visible)])[0]
        for i in nodes:
            seen = tuple(tiny.aa[k] if visible[k] and k != i else slice(None) for k in nodes)
            rest = law[seen]
            axes = [k for k in nodes if not (visible[k] and k != i)]
            rest = rest.sum(tuple(axes.index(k) for k in axes if k != i))
            np.testing.assert_allclose(found[i], np.log(rest / rest.sum()), atol=1e-12)


def test_every_order_gives_the_probability_of_the_sequence():
    tiny = record((-1, 0, 0, 1, 1, -1, 5, 2), seed=3)
    above = [NO_PARENT if parent < 0 else tiny.aa[parent] for parent in tiny.parent]
    total = np.log(LAW.table[cells(tiny.state, tiny.burial), above, tiny.aa]).sum()
    rows = np.arange(8)
    assert bayes_given_parent(LAW, [tiny])[0][rows, tiny.aa].sum() == pytest.approx(total)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(8)
        assert bayes_any_order(LAW, tiny, order)[rows, tiny.aa].sum() == pytest.approx(total)
    np.testing.assert_allclose(bayes_any_order(LAW, tiny, np.zeros(8)), bayes_one_shot(LAW, [tiny])[0])


def test_several_records_do_not_touch():
    records = [record((-1, 0, 0, 1), 1), record((-1, -1, 1), 2)]
    together = bayes_masked(LAW, records, [np.array([1, 0, 1, 0], bool), np.array([0, 1, 0], bool)])
    np.testing.assert_allclose(together[1], bayes_masked(LAW, records[1:], [np.array([0, 1, 0], bool)])[0])
    for scores in together:
        np.testing.assert_allclose(np.exp(scores).sum(1), 1.0)


def test_the_table_holds_distributions_and_the_intended_preferences():
    table = LAW.table
    assert table.shape == (len(STATES) * (len(BURIAL_EDGES) + 1), 21, 20)
    np.testing.assert_allclose(table.sum(-1), 1.0)
    assert table.min() > 1e-7
    bins = len(BURIAL_EDGES) + 1
    left = table[STATES.index("left") * bins : (STATES.index("left") + 1) * bins, NO_PARENT]
    assert (left.argmax(1) == LETTERS.index("G")).all()
    lysine, aspartate = LETTERS.index("K"), LETTERS.index("D")
    assert (table[:, aspartate, lysine] > 3 * table[:, lysine, lysine]).all(), "opposite charges meet"


def test_drawn_sequences_agree_with_the_entropies():
    """Realised log-losses lie within a few standard errors of the expected ones, and the bounds are ordered."""
    rng = np.random.default_rng(9)
    records = []
    for seed in range(60):
        state, burial, parent = inputs(np.round(compact(100 + seed, 150), 2))
        aa = draw_sequence(LAW, state, burial, parent, rng.random(150))
        records.append(LawRecord(str(seed), state, burial, parent, aa, True))
    visible = [rng.random(150) >= 0.15 for _ in records]
    bounds = bayes_bounds(LAW, records, visible)
    assert bounds.residues == 9000 and not bounds.left_out
    assert bounds.masked_expected < bounds.any_order_expected < bounds.one_shot_expected < bounds.unigram_expected
    for expected, realised, count in (
        (bounds.one_shot_expected, bounds.one_shot_realised, bounds.residues),
        (bounds.any_order_expected, bounds.any_order_realised, bounds.residues),
        (bounds.masked_expected, bounds.masked_realised, bounds.masked_residues),
    ):
        assert abs(expected - realised) < 4 * 1.0 / np.sqrt(count), "one nat is about the spread of -log p"
    ordered = bayes_any_order(LAW, records[0], rng.permutation(150))
    rows = np.arange(150)
    given = bayes_given_parent(LAW, records[:1])[0]
    assert ordered[rows, records[0].aa].sum() == pytest.approx(given[rows, records[0].aa].sum())


def test_incomplete_records_are_left_out_and_named():
    atoms = np.round(compact(7, 60), 2)
    aa, chains = np.zeros(60, np.uint8), np.zeros(60, int)
    keep = np.delete(np.arange(60), 30)
    whole = law_record("whole", atoms, np.full(60, WHOLE, np.uint8), chains, aa)
    cut = law_record("cut", atoms[keep], np.full(59, WHOLE, np.uint8), chains[keep], aa[keep])
    bounds = bayes_bounds(LAW, [cut, whole])
    assert bounds.left_out == ["cut"] and bounds.residues == 60
    assert "bayes_ppl_masked" not in bounds.perplexities()
