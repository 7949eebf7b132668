"""What the network may depend on: geometry up to rotation and translation, chirality, and exactly the visible types."""

import numpy as np
import pytest
import torch
from chains import random_rotation, random_unit, replace

from lib.errors import UserError
from lib.protein.collate import flat_batch
from lib.protein.model import ModelConfig, ProteinModel


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = ProteinModel(ModelConfig(hidden_dim=32, k_neighbors=12, dropout=0.0))
    with torch.no_grad():
        model.logits_out.weight.mul_(10.0)  # the small initial scale would hide differences
    return model.eval()


@pytest.fixture(scope="module")
def batch():
    return flat_batch(["a", "b"], [random_unit(60, 1, chains=2), random_unit(45, 2)])


def one_shot(batch):
    return torch.zeros(batch.residues)


@torch.no_grad()
def test_rotation_and_translation_leave_logits(model, batch):
    rotation, shift = random_rotation(3), torch.tensor([11.0, -7.0, 3.0])
    moved = replace(batch, coordinates=batch.coordinates @ rotation.T + shift)
    change = (model.logits(batch, one_shot(batch)) - model.logits(moved, one_shot(batch))).abs().max()
    assert float(change) < 1e-4


@torch.no_grad()
def test_reflection_changes_logits(model, batch):
    mirrored = replace(batch, coordinates=batch.coordinates * torch.tensor([-1.0, 1.0, 1.0]))
    change = (model.logits(batch, one_shot(batch)) - model.logits(mirrored, one_shot(batch))).abs().max()
    assert float(change) > 1e-2


@torch.no_grad()
def test_flat_batch_equals_units_alone(model):
    units = [random_unit(60, 1, chains=2), random_unit(9, 5), random_unit(45, 2)]  # the second is shorter than k
    together = model.logits(flat_batch(list("abc"), units), torch.zeros(114))
    start = 0
    for unit in units:
        count = len(unit["aa"])
        alone = model.logits(flat_batch(["x"], [unit]), torch.zeros(count))
        torch.testing.assert_close(together[start : start + count], alone, rtol=1e-4, atol=1e-5)
        start += count


@torch.no_grad()
def test_one_shot_sees_no_residue_type(model, batch):
    other = replace(batch, aa=(batch.aa + 7) % 20)
    assert torch.equal(model.logits(batch, one_shot(batch)), model.logits(other, one_shot(batch)))


@torch.no_grad()
def test_type_is_seen_only_at_higher_order(model, batch):
    order = torch.rand(batch.residues, generator=torch.Generator().manual_seed(4))
    before = model.logits(batch, order)
    for changed in (0, 17, 59, 70, 104):
        aa = batch.aa.clone()
        aa[changed] = (aa[changed] + 3) % 20
        moved = (model.logits(replace(batch, aa=aa), order) - before).abs().amax(1) > 0
        assert not moved[order <= order[changed]].any(), "a residue saw a type of equal or higher order"
    # The first residue in the order is seen by at least one neighbour, else the check above proves nothing.
    first = int(order.argmin())
    aa = batch.aa.clone()
    aa[first] = (aa[first] + 3) % 20
    assert ((model.logits(replace(batch, aa=aa), order) - before).abs().amax(1) > 0).any()


@torch.no_grad()
def test_units_do_not_see_each_other(model, batch):
    coordinates = batch.coordinates.clone()
    coordinates[60:] += torch.randn(45, 4, 3, generator=torch.Generator().manual_seed(0))
    order = torch.rand(batch.residues, generator=torch.Generator().manual_seed(4))
    moved = model.logits(replace(batch, coordinates=coordinates, aa=batch.aa), order)
    torch.testing.assert_close(moved[:60], model.logits(batch, order)[:60], rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_absent_atoms_have_no_influence(model, batch):
    present = batch.present.clone()
    present[5] = False
    present[20, 3] = False
    far = batch.coordinates.clone()
    far[5], far[20, 3] = 400.0, -300.0
    near = batch.coordinates.clone()
    near[5], near[20, 3] = 0.0, 0.0
    order = one_shot(batch)
    first = model.logits(replace(batch, coordinates=far, present=present), order)
    second = model.logits(replace(batch, coordinates=near, present=present), order)
    assert torch.isfinite(first).all()
    torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)
    scorable = replace(batch, present=present).scorable()
    assert not scorable[5] and scorable[20]


def test_coincident_atoms_give_finite_gradients(model):
    unit = random_unit(30, 8)
    unit["coordinates"][10] = unit["coordinates"][11]
    unit["coordinates"][12, 0] = unit["coordinates"][12, 1]
    loss, _ = model(flat_batch(["x"], [unit]), torch.zeros(30), torch.ones(30, dtype=torch.bool))
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.zero_grad()


def test_loss_counts_targets_only(model, batch):
    target = torch.zeros(batch.residues, dtype=torch.bool)
    assert float(model(batch, one_shot(batch), target)[0]) == 0.0
    target[[3, 70]] = True
    loss, recovered = model(batch, one_shot(batch), target)
    log_p = model.logits(batch, one_shot(batch)).log_softmax(-1)
    expected = -log_p[[3, 70], batch.aa[[3, 70]]].sum()
    torch.testing.assert_close(loss, expected)
    assert int(recovered) == int((log_p.argmax(-1) == batch.aa)[[3, 70]].sum())


def test_every_parameter_learns(model, batch):
    order = torch.rand(batch.residues, generator=torch.Generator().manual_seed(4))
    model(batch, order, batch.scorable())[0].backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or float(p.grad.abs().sum()) == 0.0]
    model.zero_grad()
    assert silent == []


def test_recompute_changes_nothing_but_memory(model, batch):
    grads = []
    for recompute in (False, True):
        model.recompute = recompute
        model(batch, one_shot(batch), batch.scorable())[0].backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        model.zero_grad()
    model.recompute = False
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_output_starts_at_the_background():
    background = torch.linspace(-4, -2, 20).log_softmax(-1)
    model = ProteinModel(ModelConfig(hidden_dim=16, k_neighbors=8), background).eval()
    unit = flat_batch(["x"], [random_unit(40, 3)])
    mean = model.logits(unit, torch.zeros(40)).log_softmax(-1).detach().mean(0)
    assert float((mean - background).abs().max()) < 0.5


def test_export_of_another_feature_version_is_refused():
    values = ModelConfig().to_dict()
    assert ModelConfig.from_dict(values | {"format": "x"}) == ModelConfig()
    with pytest.raises(UserError, match="feature version"):
        ModelConfig.from_dict(values | {"feature_version": 99})


def test_neighbours_are_the_nearest(batch):
    from lib.protein.features import nearest_neighbours

    ca, usable = batch.coordinates[:60, 1], torch.ones(60, dtype=torch.bool)
    usable[4] = False
    index, valid = nearest_neighbours(ca, usable, [60], 10)
    distance = np.linalg.norm(ca.numpy()[:, None] - ca.numpy()[None], axis=-1)
    distance[:, 4] = np.inf
    for row in (0, 13, 59):
        assert set(index[row].tolist()) == set(np.argsort(distance[row])[:10].tolist())
        assert index[row, 0] == row
    assert not valid[4].any() and valid[[0, 13, 59]].all()
