"""The combined optimiser and the learning-rate curve."""

import copy

import pytest
import torch
from chains import random_unit

from lib.protein.collate import flat_batch
from lib.protein.model import ModelConfig, ProteinModel
from lib.protein.optimiser import MuonAdamW, learning_rate_factor, make_optimiser, orthogonalise, set_learning_rate


def make(name="muon"):
    torch.manual_seed(0)
    model = ProteinModel(ModelConfig(hidden_dim=16, k_neighbors=8, dropout=0.0))
    return model, make_optimiser(model, name, 5e-3, 1e-3)


def train(model, optimiser, steps):
    batch = flat_batch(["x"], [random_unit(60, 1)])
    losses = []
    for _ in range(steps):
        loss, _ = model(batch, torch.zeros(60), batch.scorable())
        (loss / 60).backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()) / 60)
    return losses


@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_it_learns_and_covers_every_parameter_once(name):
    model, optimiser = make(name)
    held = [id(p) for group in optimiser.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())
    losses = train(model, optimiser, 60)
    assert losses[-1] < 0.7 * losses[0]


def test_muon_takes_the_inner_matrices_only():
    model, optimiser = make()
    names = {id(p): name for name, p in model.named_parameters()}
    inner = {names[id(p)] for group in optimiser.param_groups if group["half"] == 0 for p in group["params"]}
    assert "encoder.0.edge" in inner and "decoder.2.feed_forward.up.weight" in inner
    assert not any(name.startswith(("logits_out", "residue_in", "offset_in", "edge_in", "node_in")) for name in inner)
    assert all(model.get_parameter(name).dim() == 2 for name in inner)


def test_state_continues_exactly_after_saving_and_loading():
    model, optimiser = make()
    train(model, optimiser, 5)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimiser.state_dict())
    expected = train(model, optimiser, 5)
    other, fresh = make()
    other.load_state_dict(weights)
    fresh.load_state_dict(state)
    assert train(other, fresh, 5) == expected
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_the_rate_of_both_halves_is_set():
    model, optimiser = make()
    before = [p.detach().clone() for p in model.parameters()]
    set_learning_rate(optimiser, 0.0)
    train(model, optimiser, 2)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_learning_rate_curve():
    assert learning_rate_factor(0.05, 0.1, "linear") == pytest.approx(0.5)
    assert learning_rate_factor(0.1, 0.1, "linear") == pytest.approx(1.0)
    assert learning_rate_factor(0.55, 0.1, "linear") == pytest.approx(0.5)
    assert learning_rate_factor(0.55, 0.1, "cosine") == pytest.approx(0.5)
    assert learning_rate_factor(0.9, 0.0, "constant") == 1.0
    for schedule in ("linear", "cosine"):
        curve = [learning_rate_factor(x / 100, 0.1, schedule) for x in range(101)]
        assert curve[-1] == 0.01 and curve[10:] == sorted(curve[10:], reverse=True)


def test_orthogonalised_matrices_have_singular_values_near_one():
    for shape in ((2, 64, 16), (2, 16, 64), (3, 40, 16)):
        found = orthogonalise(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
        values = torch.linalg.svdvals(found)
        assert found.shape == shape and float(values.min()) > 0.4 and float(values.max()) < 1.4


def test_the_matrices_move_as_with_the_optimiser_of_torch():
    torch.manual_seed(0)
    first = torch.randn(32, 48, generator=torch.Generator().manual_seed(1))
    mine, theirs = torch.nn.Parameter(first.clone()), torch.nn.Parameter(first.clone())
    bias = torch.nn.Parameter(torch.zeros(4))
    ours = MuonAdamW([mine], [bias], 1e-2, 1e-2)
    reference = torch.optim.Muon([theirs], lr=1e-2, weight_decay=1e-2, adjust_lr_fn="match_rms_adamw")
    start = mine.detach().clone()
    for step in range(5):
        gradient = torch.randn(32, 48, generator=torch.Generator().manual_seed(step))
        mine.grad, theirs.grad, bias.grad = gradient.clone(), gradient.clone(), torch.ones(4)
        ours.step()
        reference.step()
    moved, apart = (mine - start).norm(), (mine - theirs).norm()
    assert float((apart / moved).detach()) < 0.03  # torch's works in bfloat16
