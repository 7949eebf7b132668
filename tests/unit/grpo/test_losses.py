"""Losses against formulas written out sequence by sequence, against TRL's numbers, and under any split of a step."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from learning_samples import episodes, gradients, relative, samples_of, tiny_model

from lib.grpo.learning.losses import KINDS, MAXIMA, SUMS, Objective, describe_statistics, loss_sum, merge_statistics
from lib.grpo.learning.packing import pack
from lib.grpo.learning.policy import Policy

LENGTHS = (5, 1, 8, 3)
LIMIT = 9
TRL = json.loads((Path(__file__).parent / "trl_losses.json").read_text())


def rows(seed: int = 0, spread: float = 0.6) -> dict[str, torch.Tensor]:
    """Log-probabilities of four sequences in float64 and what belongs to them, ratios well beyond the clip range."""
    torch.manual_seed(seed)
    tokens = sum(LENGTHS)
    log_probs = -3 * torch.rand(tokens, dtype=torch.float64)
    old, rollout, reference = (log_probs + spread * torch.randn(tokens, dtype=torch.float64) for _ in range(3))
    sequence = torch.repeat_interleave(torch.tensor(LENGTHS))
    advantages = torch.tensor([0.8, -1.1, -0.4, 1.3], dtype=torch.float64)[sequence]
    return {
        "log_probs": log_probs,
        "entropy": torch.rand(tokens, dtype=torch.float64),
        "old_log_probs": old,
        "advantages": advantages,
        "sequence": sequence,
        "rollout_log_probs": rollout,
        "reference_log_probs": reference,
    }


def expected_loss(objective: Objective, data: dict[str, torch.Tensor]) -> float:
    """The loss of the step with loops over numbers."""
    names = ("log_probs", "old_log_probs", "advantages", "rollout_log_probs", "reference_log_probs", "entropy")
    per_sequence, at = [], 0
    for length in LENGTHS:
        columns = [data[name][at : at + length].tolist() for name in names]
        mean_ratio = math.exp(sum(new - old for new, old in zip(columns[0], columns[1])) / length)
        losses = []
        for new, old, advantage, rollout, reference, entropy in zip(*columns):
            ratio = mean_ratio if objective.kind == "gspo" else math.exp(new - old)
            if objective.kind in ("reinforce", "sft"):
                loss = -advantage * new
            elif objective.kind == "cispo":
                loss = -min(ratio, objective.cispo_cap) * advantage * new
            else:
                clipped = min(max(ratio, 1 - objective.clip_low), 1 + objective.clip_high)
                loss = -min(ratio * advantage, clipped * advantage)
            weight = math.exp(old - rollout)
            if objective.is_correction == "tis":
                loss *= min(weight, objective.is_cap)
            elif objective.is_correction == "mis":
                loss *= weight if weight <= objective.is_cap else 0.0
            difference = reference - new
            loss += objective.beta * (math.exp(difference) - difference - 1)
            losses.append(loss - objective.entropy_weight * entropy)
        per_sequence.append(losses)
        at += length
    if objective.kind in ("grpo", "gspo"):
        return sum(sum(losses) / len(losses) for losses in per_sequence) / len(LENGTHS)
    total = sum(map(sum, per_sequence))
    return total / (len(LENGTHS) * LIMIT) if objective.kind == "dr_grpo" else total / sum(LENGTHS)


@pytest.mark.parametrize("correction", ["off", "tis", "mis"])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_their_formulas(kind, correction):
    objective = Objective(
        kind,
        beta=0.07,
        is_correction=correction,
        is_cap=1.2,
        cispo_cap=1.1,
        max_completion_tokens=LIMIT,
        entropy_weight=0.02,
    )
    data = rows()
    total, _ = loss_sum(objective, sequences=len(LENGTHS), **data)
    assert total.item() / objective.divisor(LENGTHS) == pytest.approx(expected_loss(objective, data), rel=1e-12)


@pytest.mark.parametrize("case", TRL["cases"], ids=lambda case: case["name"])
def test_losses_are_those_of_trl(case):
    """Values and gradients recorded from TRL's own `_compute_loss` (benchmarks/grpo_losses.py --fixture)."""
    inputs = TRL["inputs"]
    mask = torch.tensor(inputs["mask"], dtype=torch.bool)
    columns = {
        name: torch.tensor(inputs[name], dtype=torch.float64)[mask]
        for name in ("log_probs", "old_log_probs", "rollout_log_probs", "reference_log_probs")
    }
    columns["log_probs"].requires_grad_()
    sequence = torch.repeat_interleave(mask.sum(1))
    advantages = torch.tensor(inputs["advantages"], dtype=torch.float64)[sequence]
    objective = Objective(**case["objective"])
    total, _ = loss_sum(
        objective,
        entropy=torch.zeros_like(advantages),
        advantages=advantages,
        sequence=sequence,
        sequences=len(mask),
        **columns,
    )
    loss = total / objective.divisor(mask.sum(1).tolist())
    loss.backward()
    assert abs(loss.item() - case["loss"]) < 1e-6
    expected = torch.tensor(case["gradient"], dtype=torch.float64)
    assert (columns["log_probs"].grad - expected[mask]).abs().max() < 1e-6
    assert not expected[~mask].any() and expected[mask].any()


@pytest.mark.parametrize("kind", KINDS)
def test_any_split_of_a_step_gives_the_same_loss_gradient_and_statistics(kind):
    model = tiny_model()
    policy = Policy(model)
    samples = samples_of(episodes())
    objective = Objective(kind, beta=0.1, is_correction="tis", max_completion_tokens=30)
    divisor = objective.divisor(sample.trajectory.sampled_tokens for sample in samples)
    results = []
    for parts in ([samples], [samples[::3], samples[1::3], samples[2::3]], [[each] for each in samples]):
        model.zero_grad()
        total, rows_of_statistics = 0.0, []
        for part in parts:
            for batch in pack(part, 100):
                loss, statistics = policy(batch, objective)
                (loss / divisor).backward()
                total += loss.item() / divisor
                rows_of_statistics.append(statistics)
        results.append((total, gradients(model), merge_statistics(torch.stack(rows_of_statistics))))
    for total, gradient, statistics in results[1:]:
        assert total == pytest.approx(results[0][0], rel=1e-6)
        assert relative(gradient, results[0][1]) < 1e-6
        torch.testing.assert_close(statistics, results[0][2], rtol=1e-6, atol=1e-6)


def test_statistics_say_what_was_clipped_and_how_far_apart_engines_are():
    data = rows()
    objective = Objective("dapo", beta=0.1, is_correction="tis", is_cap=1.2)
    total, statistics = loss_sum(objective, sequences=len(LENGTHS), **data)
    assert statistics.shape == (len(SUMS) + len(MAXIMA),) and statistics.dtype == torch.float64
    figures = describe_statistics(statistics, objective.divisor(LENGTHS))
    ratio = (data["log_probs"] - data["old_log_probs"]).exp()
    difference = (data["log_probs"] - data["rollout_log_probs"]).abs()
    weight = (data["old_log_probs"] - data["rollout_log_probs"]).exp()
    apart = data["reference_log_probs"] - data["log_probs"]
    expected = {
        "tokens": sum(LENGTHS),
        "sequences": len(LENGTHS),
        "kl": (apart.exp() - apart - 1).mean(),
        "entropy": data["entropy"].mean(),
        "ratio": ratio.mean(),
        "ratio_max": ratio.max(),
        "clipped_low": ((ratio < 0.8) & (data["advantages"] < 0)).double().mean(),
        "clipped_high": ((ratio > 1.28) & (data["advantages"] > 0)).double().mean(),
        "is_weight": weight.clamp(max=1.2).mean(),
        "is_cut": (weight > 1.2).double().mean(),
        "log_prob_difference": difference.mean(),
        "log_prob_difference_max": difference.max(),
    }
    assert figures["clipped_low"] > 0 and figures["clipped_high"] > 0 and figures["is_cut"] > 0
    for name, value in expected.items():
        assert figures[name] == pytest.approx(float(value), rel=1e-6), name
    assert figures["policy_loss"] + 0.1 * figures["kl"] == pytest.approx(total.item() / sum(LENGTHS), rel=1e-6)


def test_mistakes_of_the_caller_stop():
    with pytest.raises(AssertionError, match="kind is one of"):
        Objective("ppo")
    with pytest.raises(AssertionError, match="max_completion_tokens"):
        Objective("dr_grpo")
    with pytest.raises(AssertionError, match="rollout"):
        loss_sum(Objective(is_correction="mis"), sequences=len(LENGTHS), **(rows() | {"rollout_log_probs": None}))


def test_samples_without_a_reference_have_no_divergence():
    """Of two episodes the second has no reference: the gradient is that of KL for the first, none for the second."""
    model = tiny_model()
    policy = Policy(model)
    pair = samples_of(episodes(1, 1, 2))
    pair[1] = replace(pair[1], reference_log_probs=None)
    totals = []
    for beta in (0.5, 0.0):
        model.zero_grad()
        parts = [policy(batch, Objective(kind="dapo", beta=beta))[0] for batch in pack(pair, 1000)]
        parts += [-policy(batch, Objective(kind="dapo", beta=0.5))[0] for batch in pack(pair[:1], 1000) if beta]
        parts += [-policy(batch, Objective(kind="dapo"))[0] for batch in pack(pair[:1], 1000) if not beta]
        sum(parts).backward()
        totals.append(gradients(model))
    assert relative(*totals) < 1e-6
    assert pack(pair[1:], 1000)[0].reference_log_probs is None
