"""Losses of a step as sums over tokens, to be divided by one count of the whole step.

Every loss here is sum_t w_t l_t / D, where w_t depends on the token's own sequence alone and D, `Objective.divisor`,
is counted over all sequences of the optimiser step on all ranks. So the gradient does not depend on how the step was
split over ranks and micro-batches, as long as a sequence stays whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

KINDS = ("grpo", "bnpo", "dapo", "dr_grpo", "gspo", "cispo", "reinforce", "sft")
CORRECTIONS = ("off", "tis", "mis")
PER_SEQUENCE = ("grpo", "gspo")

# What a forward reports: sums over its tokens (ratios and divergences), counts, then largest values.
SUMS = (
    "tokens",
    "sequences",
    "policy_loss",
    "kl",
    "entropy",
    "ratio",
    "clipped_low",
    "clipped_high",
    "is_weight",
    "is_cut",
    "log_prob_difference",
)
MAXIMA = ("ratio_max", "log_prob_difference_max")


@dataclass(frozen=True)
class Objective:
    """What is minimised. With rho = exp(log p - old log p) and A the advantage, the token losses are

    grpo, bnpo, dapo, dr_grpo   -min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)
    gspo                        the same with rho = exp(mean over the sequence of log p - old log p)
    cispo                       -min(rho, cispo_cap) A log p, the weight without gradient
    reinforce, sft              -A log p

    plus beta (exp(d) - d - 1), d = reference log p - log p (k3), for tokens that have a reference, minus entropy_weight
    times the entropy; aggregated as grpo, gspo: mean over sequences of the token mean; dr_grpo: sum / (sequences x
    max_completion_tokens); the others: sum / tokens. bnpo's "mean of the local batch" depends on the split: here
    the batch is that of the whole step, which makes it dapo (in TRL they differ: its mean is that of a micro-batch).

    is_correction multiplies the policy term by exp(old log p - rollout log p), cut off at is_cap (`tis`) or dropped
    where above it (`mis`). temperature divides the logits, as it did in the rollout.

    Sources: arXiv 2402.03300 (grpo), 2503.14476 (dapo), 2503.20783 (dr_grpo), 2507.18071 (gspo), 2506.13585 (cispo).
    """

    kind: str = "dapo"
    clip_low: float = 0.2
    clip_high: float = 0.28
    beta: float = 0.0
    temperature: float = 1.0
    is_correction: str = "off"
    is_cap: float = 2.0
    # The cap on rho itself: TRL's `epsilon_high` when its loss is cispo.
    cispo_cap: float = 5.0
    max_completion_tokens: int | None = None
    entropy_weight: float = 0.0

    def __post_init__(self):
        assert self.kind in KINDS, f"kind is one of {KINDS}, not {self.kind!r}"
        assert self.is_correction in CORRECTIONS, f"is_correction is one of {CORRECTIONS}, not {self.is_correction!r}"
        assert self.kind != "dr_grpo" or self.max_completion_tokens, "dr_grpo divides by max_completion_tokens"

    def divisor(self, tokens_of_sequences: Iterable[int]) -> float:
        """This rank's part of D, to be summed over ranks: from the sampled tokens of every sequence of the step."""
        counts = list(tokens_of_sequences)
        if self.kind in PER_SEQUENCE:
            return float(len(counts))
        if self.kind == "dr_grpo":
            return float(len(counts) * self.max_completion_tokens)
        return float(sum(counts))


def loss_sum(
    objective: Objective,
    log_probs: torch.Tensor,
    entropy: torch.Tensor,
    old_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    sequence: torch.Tensor,
    sequences: int,
    rollout_log_probs: torch.Tensor | None = None,
    reference_log_probs: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(sum_t w_t l_t, statistics) of some whole sequences; divide the first by the step's divisor.

    All tensors (tokens,); `sequence` holds the number, 0..sequences - 1, of each token's sequence. The statistics are
    float64 (len(SUMS) + len(MAXIMA),): `merge_statistics` adds those of micro-batches and ranks.
    """
    old, advantages = old_log_probs.to(log_probs.dtype), advantages.to(log_probs.dtype)
    counts = torch.zeros(sequences, dtype=log_probs.dtype, device=log_probs.device)
    counts.index_add_(0, sequence, torch.ones_like(old))
    log_ratio = log_probs - old
    if objective.kind == "gspo":
        means = torch.zeros_like(counts).index_add(0, sequence, log_ratio) / counts.clamp(min=1)
        log_ratio = means[sequence]
    ratio = log_ratio.exp()
    losses, clipped_low, clipped_high = _policy_losses(objective, log_probs, ratio, advantages)
    is_weight, is_cut = _importance(objective, old, rollout_log_probs)
    losses = losses * is_weight
    policy_losses, divergence = losses.detach(), torch.zeros_like(old)
    if objective.beta and reference_log_probs is not None:
        # Where nothing is given the policy is its own reference: divergence and gradient are exactly 0.
        reference = torch.where(reference_log_probs.isnan(), log_probs.detach(), reference_log_probs)
        difference = reference.to(log_probs.dtype) - log_probs
        divergence = difference.exp() - difference - 1
        losses = losses + objective.beta * divergence
    if objective.entropy_weight:
        losses = losses - objective.entropy_weight * entropy
    weights = 1 / counts[sequence] if objective.kind in PER_SEQUENCE else torch.ones_like(old)
    known = torch.zeros_like(old) if rollout_log_probs is None else log_probs.detach() - rollout_log_probs
    ones = torch.ones_like(old)
    by_token = (ones, weights * policy_losses, divergence, entropy, ratio, clipped_low, clipped_high, is_weight, is_cut)
    sums = torch.stack([each.detach().sum(dtype=torch.float64) for each in (*by_token, known.abs())])
    maxima = torch.stack([each.detach().amax().double() for each in (ratio, known.abs())])
    return (weights * losses).sum(), torch.cat([sums[:1], sums.new_tensor([sequences]), sums[1:], maxima])


def _policy_losses(objective: Objective, log_probs, ratio, advantages) -> tuple[torch.Tensor, ...]:
    """(loss, clipped below, clipped above) of each token."""
    none = torch.zeros_like(advantages)
    if objective.kind in ("reinforce", "sft"):
        return -advantages * log_probs, none, none
    if objective.kind == "cispo":
        capped = ratio.detach().clamp(max=objective.cispo_cap)
        high = (ratio > objective.cispo_cap) & (advantages > 0)
        return -capped * advantages * log_probs, none, high.to(none.dtype)
    low, high = 1 - objective.clip_low, 1 + objective.clip_high
    losses = -torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
    clipped_low = (ratio < low) & (advantages < 0)
    clipped_high = (ratio > high) & (advantages > 0)
    return losses, clipped_low.to(none.dtype), clipped_high.to(none.dtype)


def _importance(objective: Objective, old: torch.Tensor, rollout: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """(weight, 1 where it was cut or dropped) of each token, for samples that another engine drew."""
    if objective.is_correction == "off":
        return torch.ones_like(old), torch.zeros_like(old)
    assert rollout is not None, "importance correction needs the log-probabilities of the rollout"
    weight = (old - rollout.to(old.dtype)).exp()
    above = weight > objective.is_cap
    cut = weight.clamp(max=objective.is_cap) if objective.is_correction == "tis" else weight.masked_fill(above, 0.0)
    return cut, above.to(old.dtype)


def no_statistics(device: torch.device | str = "cpu") -> torch.Tensor:
    """The statistics of no tokens."""
    return torch.zeros(len(SUMS) + len(MAXIMA), dtype=torch.float64, device=device)


def merge_statistics(rows: torch.Tensor) -> torch.Tensor:
    """(micro-batches or ranks, statistics) -> (statistics,): sums added, maxima compared."""
    return torch.cat([rows[:, : len(SUMS)].sum(0), rows[:, len(SUMS) :].amax(0)])


def describe_statistics(statistics: torch.Tensor, divisor: float) -> dict[str, float]:
    """Figures for the log: means over the tokens, counts and maxima, and the policy loss over the step's divisor."""
    figures = dict(zip((*SUMS, *MAXIMA), statistics.tolist()))
    tokens, loss = figures["tokens"], figures["policy_loss"]
    for name in SUMS[SUMS.index("policy_loss") + 1 :]:
        figures[name] = figures[name] / tokens if tokens else 0.0
    return figures | {"policy_loss": loss / divisor if divisor else 0.0}
