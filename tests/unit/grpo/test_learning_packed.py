"""The packed row against plain rows: what stands in it, who attends to whom, log-probabilities and gradients."""

import itertools

import numpy as np
import pytest
import torch
from learning_samples import VOCABULARY, episodes, gradients, relative, samples_of, tiny_model

from lib.errors import UserError
from lib.grpo.learning import attention, block_attention
from lib.grpo.learning.attention import packed_arguments, packed_attention
from lib.grpo.learning.losses import Objective
from lib.grpo.learning.packing import Sample, empty_batch, pack, sampled_positions
from lib.grpo.learning.policy import Policy, log_probs, verify_model
from lib.grpo.learning.prefix_tree import GRAIN, build_tree
from lib.grpo.trajectory import Trajectory

OBJECTIVE = Objective(kind="grpo", beta=0.1)
# transformers computes RMSNorm and the rotary angles in float32 even for a float64 model.
EXACT = 1e-6


def loss_and_gradients(model, batches, objective=OBJECTIVE):
    policy = Policy(model)
    model.zero_grad()
    total = 0.0
    for batch in batches:
        loss, _ = policy(batch, objective)
        loss.backward()
        total += loss.item()
    return total, gradients(model)


@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama"])
@pytest.mark.parametrize("dtype,bar", [(torch.float64, EXACT), (torch.float32, 1e-5)])
def test_packed_gradients_are_those_of_plain_rows(family, dtype, bar):
    model = tiny_model(family, dtype)
    samples = samples_of(episodes())
    packed = pack(samples, 10_000)
    assert len(packed) == 1 and packed[0].layout is not None
    plain_loss, plain = loss_and_gradients(model, pack(samples, 10_000, shared=False))
    loss, found = loss_and_gradients(model, packed)
    assert abs(loss - plain_loss) <= bar * abs(plain_loss)
    assert relative(found, plain) < bar


def test_log_probs_are_those_of_each_episode_alone():
    model = tiny_model()
    trajectories = episodes()
    samples = samples_of(trajectories)
    policy = Policy(model)
    batches = [*pack(samples, 150), empty_batch()]
    found = log_probs(model, batches, len(samples), temperature=0.7)
    assert log_probs(policy, batches, len(samples), temperature=0.7) == found and policy.training
    for trajectory, own in zip(trajectories, found):
        logits = model(torch.tensor([trajectory.ids])).logits[0] / 0.7
        at = sampled_positions(trajectory)
        expected = logits.log_softmax(-1)[at - 1, np.asarray(trajectory.ids)[at]]
        torch.testing.assert_close(torch.tensor(own, dtype=torch.float64), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shared", [True, False])
def test_any_budget_keeps_every_token_once_and_the_gradient(shared):
    model = tiny_model()
    samples = samples_of(episodes())
    whole_loss, whole = loss_and_gradients(model, pack(samples, 10_000, shared))
    for budget in (60, 100, 230):
        batches = pack(samples, budget, shared)
        assert len(batches) > 1
        members = [member for batch in batches for member in batch.members]
        assert sorted(members) == list(range(len(samples)))
        assert all(batch.tokens <= budget or len(batch.members) == 1 for batch in batches)
        loss, found = loss_and_gradients(model, batches)
        assert loss == pytest.approx(whole_loss, rel=EXACT)
        assert relative(found, whole) < EXACT


def test_shared_ids_stand_once():
    """Random ids: nothing is shared by chance for 16 tokens, so the row is policies + openings + suffixes."""
    trajectories = episodes()
    batch = pack(samples_of(trajectories), 10_000)[0]
    policies = {each.domain: each.shared_tokens for each in trajectories}
    openings = {each.group: each.prompt_tokens - each.shared_tokens for each in trajectories}
    suffixes = [each.spans[-1][1] - 1 - each.prompt_tokens for each in trajectories]
    assert batch.tokens == sum(policies.values()) + sum(openings.values()) + sum(suffixes)


def test_a_group_that_fits_is_not_split():
    trajectories = episodes(domains=1)
    samples = samples_of(trajectories)
    sizes = [pack(samples[at : at + 4], 10_000)[0].tokens for at in (0, 4, 8)]
    batches = pack(samples, max(sizes))
    assert all(len({trajectories[member].group for member in batch.members}) == 1 for batch in batches)
    assert len(batches) == 3


def test_what_siblings_sampled_alike_stands_once():
    """Two episodes that differ only in their last token share their sampled tokens as well, in whole grains."""
    prompt, turn = list(range(10)), list(range(20, 20 + 2 * GRAIN + 3))
    pair = [
        Trajectory("d", "t", 0, at, prompt + turn + [50 + at, 3], 4, 10, [(10, 10 + len(turn) + 2)], [-1.0] * 37)
        for at in (0, 1)
    ]
    batch = pack([Sample(each, 1.0) for each in pair], 10_000)[0]
    assert batch.tokens == 10 + 2 * GRAIN + 2 * (3 + 1)


def test_attention_follows_the_tree():
    """The mask that a layout stands for allows exactly the tokens before it in its own sequence."""
    fed = [np.asarray(each.ids) for each in episodes()]
    order = sorted(range(len(fed)), key=lambda at: fed[at].tolist())
    fed = [fed[at] for at in order]
    pairs = itertools.pairwise(fed)
    common = [0, *(int(np.argmin([*(a[: len(b)] == b[: len(a)]), False])) for a, b in pairs)]
    tree = build_tree(fed, common)
    allowed = tree.layout.allowed()
    assert len(tree.ids) == sum(map(len, fed)) - sum(common)
    for sequence, places in zip(fed, tree.places):
        assert (tree.ids[places] == sequence).all() and (tree.positions[places] == np.arange(len(sequence))).all()
        for at, place in enumerate(places):
            assert set(allowed[place].nonzero()[:, 0].tolist()) == set(places[: at + 1].tolist())


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_tree_attention_is_masked_attention(kv_heads):
    """Outputs and gradients in float64 against sdpa with the mask of the whole row."""
    layout = pack(samples_of(episodes()), 10_000)[0].layout
    assert any(each.start is None for each in layout.bins) and len(layout.ancestors) >= 8
    torch.manual_seed(0)
    inputs = [torch.randn(1, heads, layout.tokens, 8, dtype=torch.float64) for heads in (4, kv_heads, kv_heads)]
    inputs = [each.requires_grad_() for each in inputs]
    grad = torch.randn(1, layout.tokens, 4, 8, dtype=torch.float64)
    found, _ = packed_attention(torch.nn.Module(), *inputs, None, scaling=0.4, quartet_layout=layout)
    found_grads = torch.autograd.grad(found, inputs, grad)
    repeated = [inputs[0], *(each.repeat_interleave(4 // kv_heads, 1) for each in inputs[1:])]
    expected = torch.nn.functional.scaled_dot_product_attention(*repeated, layout.allowed(), scale=0.4).transpose(1, 2)
    expected_grads = torch.autograd.grad(expected, inputs, grad)
    for ours, theirs in zip((found, *found_grads), (expected, *expected_grads)):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_gradient_checkpointing_gives_the_same_gradient(monkeypatch):
    """And it does compute attention again in the backward pass: twice as many calls."""
    calls = []
    monkeypatch.setattr(attention, "attend", lambda *each: calls.append(each) or block_attention.attend(*each))
    model = tiny_model().train()
    batches = pack(samples_of(episodes()), 10_000)
    _, expected = loss_and_gradients(model, batches)
    once = len(calls)
    model.gradient_checkpointing_enable()
    _, found = loss_and_gradients(model, batches)
    assert relative(found, expected) < 1e-13
    assert len(calls) == 3 * once


def test_an_adapter_is_trained_and_can_be_switched_off():
    peft = pytest.importorskip("peft")
    model = tiny_model(dtype=torch.float32)
    plain = tiny_model(dtype=torch.float32)
    settings = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    adapted = peft.get_peft_model(model, settings)
    policy = Policy(adapted)
    assert verify_model(adapted) < 1e-3
    samples = samples_of(episodes())
    batches = pack(samples, 10_000)
    policy(batches[0], OBJECTIVE)[0].backward()
    trained = [name for name, parameter in adapted.named_parameters() if parameter.grad is not None]
    assert trained and all("lora_" in name for name in trained)
    with adapted.disable_adapter():
        found = log_probs(adapted, batches, len(samples))
    Policy(plain)
    assert found == log_probs(plain, batches, len(samples)) != log_probs(adapted, batches, len(samples))


def test_other_forwards_stay_as_they_were():
    """Padded rows with a mask give the same logits before and after the model was prepared."""
    model = tiny_model()
    ids = torch.arange(24).view(2, 12)
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    before = model(ids, attention_mask=mask).logits
    Policy(model)
    assert torch.equal(model(ids, attention_mask=mask).logits, before)


@pytest.mark.parametrize("shared", [True, False])
def test_an_empty_batch_costs_nothing_and_touches_everything(shared):
    model = tiny_model()
    loss, statistics = Policy(model)(empty_batch(shared), OBJECTIVE)
    loss.backward()
    assert loss.item() == 0.0 and not statistics.any()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


def test_nothing_sampled_makes_no_batch():
    silent = Trajectory("d", "t", 0, 0, list(range(9)), 3, 9)
    assert pack([Sample(silent, 1.0)], 100) == []
    spoken = samples_of(episodes(1, 1, 2))
    (batch,) = pack([Sample(silent, 1.0), *spoken], 1000)
    assert sorted(batch.members) == [1, 2]


def test_models_that_cannot_be_packed_are_named():
    with pytest.raises(UserError, match=r"sliding_attention.*plain rows"):
        Policy(tiny_model("qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=1))
    with pytest.raises(UserError, match=r"attention_dropout is 0\.1.*plain rows"):
        Policy(tiny_model("llama", attention_dropout=0.1))
    Policy(tiny_model("llama", attention_dropout=0.1), packed=False)


@pytest.mark.parametrize("packed", [True, False])
def test_a_model_is_verified_against_its_own_logits(packed):
    model = tiny_model(dtype=torch.float32)
    Policy(model, packed)
    assert verify_model(model, packed) < 1e-4
    model.lm_head.register_forward_hook(lambda module, inputs, output: 30 * torch.tanh(output / 30))
    with pytest.raises(UserError, match=r"qwen3: log-probabilities over (packed|plain) rows differ by"):
        verify_model(model, packed)


def test_layers_that_mix_tokens_outside_of_attention_are_found():
    """What a convolution over time would do: it runs over from one episode to the next in a packed row."""
    model = tiny_model(dtype=torch.float32)
    Policy(model)
    model.model.layers[0].mlp.register_forward_hook(lambda module, inputs, output: output + inputs[0].cumsum(1) * 0.1)
    with pytest.raises(UserError, match="train on plain rows"):
        verify_model(model)
    verify_model(model, packed=False)


def test_packed_rows_need_a_prepared_model():
    with pytest.raises(AssertionError, match="found sdpa: prepare it"):
        Policy(tiny_model(), packed=False)(pack(samples_of(episodes()), 1000)[0], OBJECTIVE)


def test_a_layout_that_gets_lost_is_noticed():
    model = tiny_model()
    Policy(model)
    (batch,) = pack(samples_of(episodes(1, 1, 2)), 1000)
    mask = packed_arguments(batch.layout, batch.ids.device)["attention_mask"]
    with pytest.raises(AssertionError, match="keyword arguments"):
        model(batch.ids, position_ids=batch.positions, attention_mask=mask)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kv_heads", [2, 4])
def test_attention_without_a_fused_kernel_is_the_same(monkeypatch, causal, kv_heads):
    """The path of other devices, in slices, against the fused one: outputs, log-sum-exps and gradients."""
    torch.manual_seed(0)
    query, grad = (torch.randn(2, 4, 9, 8, dtype=torch.float64) for _ in range(2))
    key, value = (torch.randn(2, kv_heads, 9, 8, dtype=torch.float64) for _ in range(2))
    fused = block_attention.attend(query, key, value, causal, 0.3)
    fused_grads = block_attention.attend_backward(query, key, value, fused[0], grad, fused[1], causal, 0.3)
    monkeypatch.setattr(block_attention, "SCORES", 2 * 4 * 9 * 4)
    monkeypatch.setattr(block_attention, "has_fused_kernel", lambda tensor: False)
    plain = block_attention.attend(query, key, value, causal, 0.3)
    plain_grads = block_attention.attend_backward(query, key, value, plain[0], grad, plain[1], causal, 0.3)
    for found, expected in zip((*plain, *plain_grads), (*fused, *fused_grads)):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_bfloat16_rows_stay_near_the_exact_ones():
    model = tiny_model(dtype=torch.float32)
    samples = samples_of(episodes())
    policy = Policy(model)
    (batch,) = pack(samples, 10_000)
    exact, _ = policy(batch, Objective(kind="reinforce"))
    with torch.autocast("cpu", torch.bfloat16):
        rough, _ = policy(batch, Objective(kind="reinforce"))
        rough.backward()
    assert rough.item() == pytest.approx(exact.item(), rel=0.1)
    assert torch.isfinite(gradients(model)).all()


def test_positions_restart_and_the_layout_travels():
    batch = pack(samples_of(episodes(1, 1, 3)), 10_000)[0].to("cpu")
    assert batch.positions.max() < batch.tokens and (batch.targets < VOCABULARY).all()
    arguments = packed_arguments(batch.layout, torch.device("cpu"))
    assert arguments["quartet_layout"] is batch.layout and arguments["attention_mask"].dim() == 4
