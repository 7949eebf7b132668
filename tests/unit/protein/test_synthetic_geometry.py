"""Generated backbones: bonds, torsions, handedness, packing, docking."""

import numpy as np
import pytest

from lib.protein.synthetic_blueprint import HELIX, LONGEST_CHAIN, SHORTEST_CHAIN, STRAND, TOPOLOGIES, draw_blueprint
from lib.protein.synthetic_docking import CONTACT, dock, dock_twofold, on_grid, random_rotation
from lib.protein.synthetic_elements import Library, superpose
from lib.protein.synthetic_geometry import backbone, beads, chain_frames, close_loops, draw_loops, loop_frames
from lib.protein.synthetic_packing import overlap_cost, pack, radius_of_gyration

CHAINS = 36


def angle(a, b, c):
    u, v = a - b, c - b
    cosine = (u * v).sum(-1) / np.linalg.norm(u, axis=-1) / np.linalg.norm(v, axis=-1)
    return np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0)))


def torsion(a, b, c, d):
    """Independent of the library's: the angle of two planes, sign from the triple product."""
    n1, n2 = np.cross(b - a, c - b), np.cross(c - b, d - c)
    size = angle(n1, np.zeros(3), n2)
    return np.where(((b - a) * n2).sum(-1) < 0, -size, size)


@pytest.fixture(scope="module")
def chains():
    return pack(np.random.default_rng(1), [TOPOLOGIES[index % 3] for index in range(CHAINS)])


def each(chains):
    for atoms in chains:
        yield tuple(atoms[:, index] for index in range(4))


def test_backbone_has_the_torsions_it_was_given():
    rng = np.random.default_rng(0)
    phi, psi, omega = (rng.uniform(-180, 180, (3, 25)) for _ in range(3))
    atoms = backbone(*np.deg2rad([phi, psi, omega]))
    n, alpha, c = atoms[:, :, 0], atoms[:, :, 1], atoms[:, :, 2]
    found = torsion(c[:, :-1], n[:, 1:], alpha[:, 1:], c[:, 1:])
    np.testing.assert_allclose(found, phi[:, 1:], atol=1e-4)
    np.testing.assert_allclose(torsion(n[:, :-1], alpha[:, :-1], c[:, :-1], n[:, 1:]), psi[:, :-1], atol=1e-4)
    np.testing.assert_allclose(torsion(alpha[:, :-1], c[:, :-1], n[:, 1:], alpha[:, 1:]), omega[:, 1:], atol=1e-4)


def test_beads_are_the_atoms_of_the_backbone():
    rng = np.random.default_rng(0)
    torsions = rng.uniform(-np.pi, np.pi, (3, 2, 9))
    alpha, _, oxygen = beads(*chain_frames(*torsions), torsions[1])
    atoms = backbone(*torsions)
    np.testing.assert_allclose(alpha, atoms[:, :, 1], atol=1e-4)
    np.testing.assert_allclose(oxygen, atoms[:, :, 3], atol=1e-4)


def test_bonds_and_angles(chains):
    for n, alpha, c, o in each(chains):
        for first, second, length in ((n, alpha, 1.458), (alpha, c, 1.525), (c[:-1], n[1:], 1.329), (c, o, 1.231)):
            np.testing.assert_allclose(np.linalg.norm(first - second, axis=-1), length, atol=1e-6)
        np.testing.assert_allclose(angle(n, alpha, c), 111, atol=1e-4)
        np.testing.assert_allclose(angle(alpha[:-1], c[:-1], n[1:]), 117, atol=1e-4)
        np.testing.assert_allclose(angle(c[:-1], n[1:], alpha[1:]), 122, atol=1e-4)
        np.testing.assert_allclose(angle(alpha, c, o), 120.5, atol=1e-4)
        flat = np.abs(torsion(o[:-1], c[:-1], n[1:], alpha[1:]))
        assert (np.minimum(flat, 180 - flat) < 25).all(), "O lies near the peptide plane"


def test_omega_is_trans_with_few_cis(chains):
    omega = np.concatenate([torsion(a[:-1], c[:-1], n[1:], a[1:]) for n, a, c, _ in each(chains)])
    cis = np.abs(omega) < 90
    assert cis.mean() < 0.012
    assert (np.abs(omega[~cis]) > 160).all() and np.abs(omega[cis]).max(initial=0) < 20


def test_torsions_keep_clear_of_the_borders_of_the_states(chains):
    """phi/psi leave gaps at the borders of the law, so that rounding cannot move a residue across."""
    phi = np.concatenate([torsion(c[:-2], n[1:-1], a[1:-1], c[1:-1]) for n, a, c, _ in each(chains)])
    psi = np.concatenate([torsion(n[1:-1], a[1:-1], c[1:-1], n[2:]) for n, a, c, _ in each(chains)])
    extended = (phi < 0) & ((psi > 50) | (psi < -130))
    assert np.abs(phi[extended] + 93.5).min() > 5
    assert np.abs(psi - 50)[phi < 0].min() > 5 and np.abs(psi + 130)[phi < 0].min() > 5
    assert np.abs(phi).min() > 20
    helical = (np.abs(phi + 63) < 12) & (np.abs(psi + 43) < 12)
    strand = (np.abs(phi + 120) < 15) & (np.abs(psi - 130) < 18)
    assert helical.mean() > 0.25 and strand.mean() > 0.15


def test_helices_are_right_handed_and_strands_pair(chains):
    turns, paired = [], []
    for n, alpha, c, _ in each(chains):
        phi, psi = torsion(c[:-1], n[1:], alpha[1:], c[1:]), torsion(n[:-1], alpha[:-1], c[:-1], n[1:])
        helical = np.zeros(len(alpha), bool)
        helical[1:-1] = (np.abs(phi[:-1] + 63) < 15) & (np.abs(psi[1:] + 43) < 15)
        run = np.flatnonzero(helical[:-3] & helical[1:-2] & helical[2:-1] & helical[3:])
        turns.append(torsion(alpha[run], alpha[run + 1], alpha[run + 2], alpha[run + 3]))
        strand = np.zeros(len(alpha), bool)
        strand[1:-1] = (np.abs(phi[:-1] + 120) < 15) & (np.abs(psi[1:] - 130) < 18)
        distance = np.linalg.norm(alpha[:, None] - alpha, axis=-1)
        distance[np.abs(np.subtract.outer(range(len(alpha)), range(len(alpha)))) < 3] = np.inf
        paired.append((distance[strand] < 5.8).any(1))
    assert 45 < np.median(np.concatenate(turns)) < 55, "the CA torsion of an alpha helix is 50 degrees"
    assert np.concatenate(turns).min() > 20
    assert np.concatenate(paired).mean() > 0.6


def test_chains_are_compact_and_free_of_clashes(chains):
    ratios = []
    for atoms in chains:
        alpha = atoms[:, 1]
        assert SHORTEST_CHAIN <= len(alpha) <= LONGEST_CHAIN
        distance = np.linalg.norm(alpha[:, None] - alpha, axis=-1)
        assert distance[np.triu_indices(len(alpha), 3)].min() > 3.8
        ratios.append(radius_of_gyration(alpha) / (2.2 * len(alpha) ** 0.38))
    assert 0.95 < np.median(ratios) < 1.2 and max(ratios) < 1.6


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_blueprints_keep_to_the_segment_lengths(topology):
    rng = np.random.default_rng(3)
    for _ in range(60):
        blueprint = draw_blueprint(rng, topology)
        assert SHORTEST_CHAIN <= blueprint.residues <= LONGEST_CHAIN
        helix, strand = blueprint.kinds == HELIX, blueprint.kinds == STRAND
        assert ((blueprint.lengths >= 6) & (blueprint.lengths <= 22))[helix].all()
        assert ((blueprint.lengths >= 4) & (blueprint.lengths <= 9))[strand].all()
        assert ((blueprint.loops[1:-1] >= 2) & (blueprint.loops[1:-1] <= 8)).all()
        assert blueprint.targets.shape == (len(blueprint.kinds), 4, 3)
        assert {
            "bundle": helix.all(),
            "meander": strand.all(),
            "alternating": strand[0::2].all() and helix[1::2].all(),
        }[topology]


def test_loop_closure_finds_a_reachable_target_inside_the_basins():
    rng = np.random.default_rng(4)
    wanted, loops = draw_loops(rng, 200, 6, HELIX, STRAND), draw_loops(rng, 200, 6, HELIX, STRAND)
    loops.low, loops.high, loops.omega = wanted.low.copy(), wanted.high.copy(), wanted.omega.copy()
    loops.torsions = np.clip(wanted.torsions + rng.normal(0, 0.15, wanted.torsions.shape), loops.low, loops.high)
    points = rng.normal(0, 6, (200, 4, 3))
    rotations, origins, _, _ = loop_frames(wanted)
    targets = np.einsum("nij,naj->nai", rotations[:, -1], points) + origins[:, -1, None]
    miss = close_loops(loops, points, targets)
    assert np.median(miss) < 0.2
    assert (loops.torsions >= loops.low).all() and (loops.torsions <= loops.high).all()
    rotations, origins, _, _ = loop_frames(loops)
    reached = np.einsum("nij,naj->nai", rotations[:, -1], points) + origins[:, -1, None]
    np.testing.assert_allclose(miss, np.sqrt(((reached - targets) ** 2).sum(-1).mean(-1)), atol=1e-2)


def test_library_returns_the_nearest_loops():
    rng, library = np.random.default_rng(5), Library(np.random.default_rng(6))
    key = (4, HELIX, HELIX)
    _, rotations, origins = library.get(key)
    points = rng.normal(0, 5, (1, 4, 3))
    target = points @ rotations.reshape(-1, 3, 3)[7].T + origins[7]
    assert 7 in library.best(key, points, target, 3)[0]


def test_overlap_cost_by_its_definition():
    rng = np.random.default_rng(7)
    new, old = rng.normal(0, 4, (2, 3, 5, 3)).astype(np.float32), rng.normal(0, 4, (2, 1, 6, 3)).astype(np.float32)
    aside = rng.random((2, 1, 5, 6)) < 0.3
    distance = np.linalg.norm(new[:, :, :, None] - old[:, :, None], axis=-1)
    for contact, hard in ((4.2, True), (3.0, False)):
        cost = np.maximum(contact - distance, 0) ** 2 + 30.0 * (hard & (distance < 3.83))
        expected = (cost * ~aside).sum((2, 3))
        np.testing.assert_allclose(overlap_cost(new, old, contact, aside), expected, rtol=1e-3, atol=1e-3)


def test_superposition_recovers_a_rigid_motion():
    rng = np.random.default_rng(8)
    turn, points = random_rotation(rng), rng.normal(0, 5, (1, 4, 3))
    assert np.linalg.det(turn) == pytest.approx(1.0)
    found, shift = superpose(points, points @ turn.T + [1.0, 2.0, 3.0])
    np.testing.assert_allclose(found[0], turn, atol=1e-8)
    np.testing.assert_allclose(shift[0], [1.0, 2.0, 3.0], atol=1e-8)


def test_docked_chains_touch_and_do_not_overlap(chains):
    rng = np.random.default_rng(9)
    for first, second in (dock(rng, chains[0], chains[1]), dock_twofold(rng, chains[2])):
        distance = np.linalg.norm(first[:, None, 1] - second[None, :, 1], axis=-1)
        assert distance.min() == pytest.approx(CONTACT, abs=1e-6)
    np.testing.assert_allclose(second, first * [-1.0, -1.0, 1.0])
    inner = np.linalg.norm(chains[2][:, None, 1] - chains[2][:, 1], axis=-1)
    np.testing.assert_allclose(np.linalg.norm(first[:, None, 1] - first[:, 1], axis=-1), inner, atol=1e-8)


def test_grid_puts_the_middle_of_the_bounding_box_on_the_grid(chains):
    for atoms in chains[:9]:
        written = np.ones(len(atoms), bool)
        written[5:9] = False
        units = on_grid(atoms, written)
        assert units.dtype == np.int64
        assert np.abs(units * 0.01 - atoms).max() < 0.0151
        box = units[written].reshape(-1, 3)
        assert ((box.min(0) + box.max(0)) % 2 == 0).all()
