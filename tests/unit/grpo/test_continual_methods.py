"""Continual-learning methods: their arithmetic by hand, their state through a checkpoint, and that they remember."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lib.errors import UserError
from lib.grpo.continual.choose import METHODS, kept_copies, make_method
from lib.grpo.continual.merging import (
    Merge,
    average,
    combine_factors,
    fisher_weighted,
    task_arithmetic,
    weighted,
)
from lib.grpo.continual.methods import Terms, borrowed, copy_of, load_weights, trainable
from lib.grpo.continual.penalties import L2, Ewc, SquaredGradients
from lib.grpo.continual.replaying import Replay
from lib.grpo.continual.tasks import TaskRow


def layer(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(3, 2).double()


def parameters_of(model: nn.Module, shift: float = 0.0) -> dict:
    found = trainable(model)
    with torch.no_grad():
        for parameter in found.values():
            parameter += shift
    return found


def ones(parameters: dict, value: float = 1.0) -> dict:
    return {name: torch.full_like(parameter, value).detach() for name, parameter in parameters.items()}


def test_only_trained_parameters_are_looked_at():
    model = layer()
    model.bias.requires_grad_(False)
    assert list(trainable(model)) == ["weight"]


def test_l2_adds_the_gradient_of_its_penalty_before_the_step():
    model = layer()
    method, parameters = L2(strength=0.8), trainable(model)
    method.begin(parameters)
    assert method.add_gradients(parameters) == 0.0 and model.weight.grad is None, "nothing is learnt yet"
    method.on_stage_end(("airline",), parameters)
    start = copy_of(parameters)
    parameters_of(model, shift=0.5)
    model(torch.ones(4, 3).double()).sum().backward()
    own = {name: parameter.grad.clone() for name, parameter in parameters.items()}
    penalty = method.add_gradients(parameters, scale=2.0)
    leaf = {name: parameter.detach().clone().requires_grad_() for name, parameter in parameters.items()}
    expected = sum(2.0 * 0.8 / 2 * (leaf[name] - start[name]).square().sum() for name in leaf)
    expected.backward()
    assert penalty == pytest.approx(expected.item()) and penalty == pytest.approx(0.8 * 8 * 0.25)
    for name, parameter in parameters.items():
        assert torch.allclose(parameter.grad, own[name] + leaf[name].grad, atol=1e-12)


def test_a_parameter_without_gradient_is_pulled_back_too():
    model = layer()
    method, parameters = L2(), trainable(model)
    method.on_stage_end(("airline",), parameters)
    parameters_of(model, shift=1.0)
    method.add_gradients(parameters)
    assert torch.allclose(model.bias.grad, torch.full((2,), 0.4, dtype=torch.float64))


def test_online_ewc_keeps_old_importance_and_moves_its_anchor():
    model = layer()
    method, parameters = Ewc(strength=1.0, gamma=0.9), trainable(model)
    method.on_stage_end(("airline",), parameters, fisher=ones(parameters, 2.0))
    parameters_of(model, shift=1.0)
    method.on_stage_end(("retail",), parameters, fisher=ones(parameters, 3.0))
    assert all(torch.allclose(fisher, torch.tensor(0.9 * 2 + 3).double()) for fisher in method.fisher.values())
    assert method.add_gradients(parameters) == 0.0, "at the anchor nothing pulls"
    parameters_of(model, shift=0.5)
    model.zero_grad()
    assert method.add_gradients(parameters) == pytest.approx(4.8 / 2 * 8 * 0.25)
    assert torch.allclose(model.bias.grad, torch.tensor(4.8 * 0.5).double())
    assert method.fisher_samples == 200
    with pytest.raises(AssertionError, match="if and only if"):
        method.on_stage_end(("telecom",), parameters)


def test_squared_gradients_are_of_single_samples():
    model, data = layer(), torch.tensor([[1.0, 2.0, 0.0], [-1.0, 1.0, 3.0]]).double()
    squared = SquaredGradients(trainable(model))
    for row in data:
        model.zero_grad()
        model(row).sum().backward()
        squared.add(trainable(model))
    # Each row is the gradient of the sum with respect to the weights of one output.
    expected = data.square().mean(0)
    assert squared.count == 2 and torch.allclose(squared.mean()["weight"], expected.expand(2, 3))
    assert torch.allclose(squared.mean()["bias"], torch.ones(2).double())
    # The mean gradient of the batch, squared, is another thing: opposite signs would cancel.
    assert not torch.allclose(squared.mean()["weight"][0], data.mean(0).square())


def test_ewc_remembers_what_plain_descent_forgets():
    """Two regressions on separate inputs that share one weight matrix and pull it to different values."""
    torch.manual_seed(1)
    first, second = torch.randn(64, 3).double() * torch.tensor([3.0, 1.0, 0.1]), torch.randn(64, 3).double()
    first_goal, second_goal = first @ torch.ones(3, 2).double(), second @ -torch.ones(3, 2).double()

    def learn(model, inputs, goals, method):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.02)
        for _ in range(200):
            optimiser.zero_grad()
            (model(inputs) - goals).square().mean().backward()
            method.add_gradients(trainable(model))
            optimiser.step()

    errors = {}
    for name, method in (("none", make_method("none")), ("ewc", Ewc(strength=1.0))):
        model = layer()
        method.begin(trainable(model))
        learn(model, first, first_goal, method)
        fisher = None
        if method.fisher_samples:
            # The Fisher matrix of a linear Gaussian model: squared inputs.
            fisher = {"weight": first.square().mean(0).expand(2, 3).clone(), "bias": torch.ones(2).double()}
        method.on_stage_end(("first",), trainable(model), fisher=fisher)
        learn(model, second, second_goal, method)
        with torch.no_grad():
            errors[name] = float((model(first) - first_goal).square().mean())
    assert errors["ewc"] < errors["none"] / 5, errors


def test_terms_of_old_and_new_domains():
    assert make_method("none").terms("airline", ("retail",)) == Terms(1.0, 0.0)
    assert make_method("replay").terms("airline", ("retail",)) == Terms(1.0, 0.0)
    anchor = make_method("kl-anchor", weight=0.3)
    assert anchor.terms("airline", ("retail",)) == Terms(0.0, 0.3) and anchor.terms("retail", ("retail",)) == Terms()
    assert anchor.old_share > 0, "without old prompts there is nothing to anchor"
    distill = make_method("distill", weight=0.3)
    assert distill.terms("retail", ("retail",)) == Terms(1.0, 0.3) and distill.old_share == 0
    with pytest.raises(UserError, match="expected none, replay, kl-anchor, ewc, l2, merge, distill"):
        make_method("magic")


@pytest.mark.parametrize("name", ["kl-anchor", "distill"])
def test_snapshot_is_of_the_end_of_the_last_stage(name):
    model = layer()
    method, parameters = make_method(name), trainable(model)
    method.begin(parameters)
    before = copy_of(parameters)
    parameters_of(model, shift=1.0)
    assert torch.equal(method.snapshot["weight"], before["weight"])
    method.on_stage_end(("airline",), parameters)
    assert torch.equal(method.snapshot["weight"], model.weight) and method.snapshot["weight"] is not model.weight


def test_borrowed_weights_are_given_back_even_after_an_error():
    model, other = layer(0), layer(1)
    own, inputs = copy_of(trainable(model)), torch.ones(1, 3).double()
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    with borrowed(trainable(model), copy_of(trainable(other))), torch.no_grad():
        assert torch.equal(model(inputs), other(inputs))
    with pytest.raises(RuntimeError, match="boom"), borrowed(trainable(model), copy_of(trainable(other))):
        raise RuntimeError("boom")
    assert all(torch.equal(own[name], parameter) for name, parameter in trainable(model).items())
    assert [parameter.data_ptr() for parameter in model.parameters()] == pointers, "views of them would be lost"
    with pytest.raises(AssertionError, match="other weights"), borrowed(trainable(model), {"weight": own["weight"]}):
        pass
    load_weights(trainable(model), copy_of(trainable(other)))
    assert torch.equal(model.weight, other.weight)
    assert [parameter.data_ptr() for parameter in model.parameters()] == pointers


def state(*values: float) -> dict:
    return {"w": torch.tensor(values)}


def test_merges_by_hand():
    states = [state(1.0, 2.0), state(3.0, -2.0)]
    assert torch.equal(average(states)["w"], torch.tensor([2.0, 0.0]))
    assert torch.equal(weighted(states, [3.0, 1.0])["w"], torch.tensor([1.5, 1.0]))
    # Base 1, 1: the differences are 0, 1 and 2, -3.
    assert torch.equal(task_arithmetic(state(1.0, 1.0), states, 0.5)["w"], torch.tensor([2.0, 0.0]))
    assert torch.equal(task_arithmetic(state(1.0, 1.0), states, 1.0)["w"], torch.tensor([3.0, -1.0]))
    fishers = [state(3.0, 0.0), state(1.0, 0.0)]
    assert torch.equal(fisher_weighted(states, fishers)["w"], torch.tensor([1.5, 0.0])), (
        "and where none knows, the mean"
    )
    with pytest.raises(ValueError, match="weights"):
        weighted(states, [0.0, 0.0])
    with pytest.raises(AssertionError, match="other weights"):
        average([state(1.0, 2.0), state(1.0)])


def test_lora_factors_are_merged_as_the_matrices_they_stand_for():
    torch.manual_seed(0)
    name_a, name_b = "q.lora_A.default.weight", "q.lora_B.default.weight"
    states = [{name_a: torch.randn(4, 12), name_b: torch.randn(10, 4), "bias": torch.randn(3)} for _ in range(2)]
    merged = average(states)
    assert list(merged) == list(states[0]) and merged[name_a].shape == (4, 12)
    exact = sum(one[name_b] @ one[name_a] for one in states) / 2
    found = merged[name_b] @ merged[name_a]
    # The best approximation of rank 4 (Eckart and Young 1936): the error is what the other singular values hold.
    left = torch.linalg.svdvals(exact)[4:]
    assert torch.linalg.norm(exact - found) == pytest.approx(float(torch.linalg.norm(left)), rel=1e-4)
    factors = sum(one[name_b] for one in states) / 2 @ (sum(one[name_a] for one in states) / 2)
    assert torch.linalg.norm(exact - found) < 0.8 * torch.linalg.norm(exact - factors)
    # What fits the rank is exact: the same factors twice, or one of them 0.
    same = average([states[0], states[0]])
    assert torch.allclose(same[name_b] @ same[name_a], states[0][name_b] @ states[0][name_a], atol=1e-5)
    fresh = {**states[1], name_b: torch.zeros(10, 4)}
    half = task_arithmetic(fresh, [states[0]], 0.5)
    assert torch.allclose(half[name_b] @ half[name_a], states[0][name_b] @ states[0][name_a] / 2, atol=1e-5)


def test_factors_larger_than_their_matrix():
    torch.manual_seed(0)
    pairs = [(torch.randn(3, 4), torch.randn(4, 2)) for _ in range(2)]
    b, a = combine_factors(pairs, [0.5, 0.5])
    assert b.shape == (3, 4) and a.shape == (4, 2)
    assert torch.allclose(b @ a, sum(one @ other for one, other in pairs) / 2, atol=1e-5)


@pytest.mark.parametrize("kind", ["average", "weighted", "task_arithmetic", "fisher"])
def test_merge_starts_every_stage_anew_and_evaluates_the_merge(kind):
    model = layer()
    parameters = trainable(model)
    method = Merge(kind, weights={"airline": 3.0, "retail": 1.0}, scale=0.5)
    method.begin(parameters)
    base = copy_of(parameters)
    for shift, domain in ((1.0, "airline"), (2.0, "retail")):
        load_weights(parameters, method.weights_to_start())
        parameters_of(model, shift)
        fisher = ones(parameters, 4 - shift) if method.fisher_samples else None
        method.on_stage_end((domain,), parameters, fisher=fisher)
    expected = {"average": 1.5, "weighted": 1.25, "task_arithmetic": 1.5, "fisher": (3 * 1 + 2 * 2) / 5}[kind]
    assert torch.allclose(method.weights_to_evaluate()["weight"], base["weight"] + expected)
    assert torch.equal(method.weights_to_start()["weight"], base["weight"])
    with pytest.raises(UserError, match="expected average"):
        Merge("median")


POOL = {"airline": tuple(TaskRow("airline", str(number)) for number in range(20))}


def replay_after(choice: str, seed: int = 0, **more) -> Replay:
    """Ten of twenty tasks were seen: task n at step n, twice, with success for n from 6 on."""
    method = Replay(choice=choice, seed=seed, **{"size": 4, **more})
    for number in range(10):
        rows = [{"domain": "airline", "task_id": str(number), "success": float(number >= 6)}] * 2
        method.record(rows, number)
    method.on_stage_end(("airline",), {})
    return method


def test_replay_chooses_among_the_tasks_it_has_seen():
    def chosen(choice, **more):
        return {int(row.id) for row in replay_after(choice, **more).old_rows(POOL)["airline"]}

    assert chosen("random") == set(range(20))
    assert chosen("recent") == {6, 7, 8, 9} and chosen("recent", size=2) == {8, 9}
    assert chosen("high_reward") == {6, 7, 8, 9} and chosen("high_reward", size=3) < {6, 7, 8, 9}
    assert sum(number >= 6 for number in chosen("balanced")) == 2 == sum(number < 6 for number in chosen("balanced"))
    samples = [frozenset(chosen("reservoir", seed=seed)) for seed in range(200)]
    assert all(len(sample) == 4 and sample < set(range(10)) for sample in samples)
    # Uniform: each of the ten seen ones in 40 % of the samples, 80 of 200, standard deviation 7.
    assert all(50 < sum(number in sample for sample in samples) < 110 for number in range(10))


def test_replay_does_not_depend_on_the_order_of_arrival():
    for choice in ("reservoir", "recent", "high_reward", "balanced"):
        forward, backward = Replay(choice=choice, size=4), Replay(choice=choice, size=4)
        rows = [{"domain": "airline", "task_id": str(n), "success": n % 2} for n in range(12)]
        for step in range(3):
            forward.record(rows[4 * step : 4 * step + 4], step)
            backward.record(rows[4 * step : 4 * step + 4][::-1], step)
        for method in (forward, backward):
            method.on_stage_end(("airline",), {})
        assert forward.chosen == backward.chosen


def test_replay_is_fixed_during_a_stage_and_never_empty():
    method = replay_after("recent")
    before = method.old_rows(POOL)
    method.record([{"domain": "airline", "task_id": "0", "success": 1.0}], 99)
    assert method.old_rows(POOL) == before
    assert Replay(choice="recent").old_rows(POOL) == POOL


def test_replay_share_grows_with_forgetting():
    method = Replay(old_share=0.3, adaptive=True)
    shares = []
    for forgetting in (None, 0.05, 0.2, 0.1, 0.4, 0.4):
        method.on_evaluated(forgetting)
        shares.append(round(method.old_share, 3))
    assert shares == [0.3, 0.3, 0.4, 0.4, 0.5, 0.5]
    fixed = Replay(old_share=0.05)
    fixed.on_evaluated(0.9)
    assert fixed.old_share == 0.05 and Replay(old_share=0.05, adaptive=True).old_share == 0.1
    for wrong in ({"old_share": 0.0}, {"old_share": 1.0}, {"choice": "best"}):
        with pytest.raises(UserError, match="expected"):
            Replay(**wrong)


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in METHODS), ("merge", {"kind": "fisher"})])
def test_state_survives_a_checkpoint(name, options, tmp_path):
    model = layer()
    parameters = trainable(model)
    method = make_method(name, **options)
    method.begin(parameters)
    for shift, domain in ((1.0, "airline"), (2.0, "retail")):
        parameters_of(model, shift)
        method.record([{"domain": domain, "task_id": "1", "success": 1.0}], 3)
        fisher = ones(parameters, shift) if method.fisher_samples else None
        method.on_stage_end((domain,), parameters, fisher)
        method.on_evaluated(0.3)
    tensors, data = method.state()
    if tensors:
        save_file(tensors, tmp_path / "method.safetensors")
        tensors = load_file(tmp_path / "method.safetensors")
    again = make_method(name, **options)
    again.load_state(tensors, json.loads(json.dumps(data)))
    found, expected = again.state(), method.state()
    assert found[1] == expected[1] and found[0].keys() == expected[0].keys()
    assert all(torch.equal(found[0][key], expected[0][key]) for key in expected[0])
    parameters_of(model, 0.25)
    model.zero_grad()
    assert again.add_gradients(parameters) == method.add_gradients(parameters)
    first, second = again.weights_to_evaluate(), method.weights_to_evaluate()
    assert (first is None) == (second is None) and (first is None or torch.equal(first["weight"], second["weight"]))


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in METHODS), ("merge", {"kind": "fisher"})])
def test_copies_for_the_memory_plan_are_those_that_are_held(name, options):
    method, parameters = make_method(name, **options), trainable(layer())
    method.begin(parameters)
    for domain in ("airline", "retail", "telecom"):
        method.on_stage_end((domain,), parameters, ones(parameters) if method.fisher_samples else None)
    held = len(method.state()[0]) / len(parameters) + (method.weights_to_evaluate() is not None)
    assert kept_copies(name, 3, **options) == held


def test_no_state_before_the_first_stage():
    for name in METHODS:
        fresh = make_method(name)
        tensors, data = fresh.state()
        fresh.load_state(tensors, data)
        assert not tensors and fresh.learnt == []
        assert fresh.add_gradients(trainable(layer())) == 0.0
