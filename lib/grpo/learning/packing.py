"""From episodes to micro-batches: one row in which shared ids stand once, or plain rows of the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import torch

from lib.grpo.learning.prefix_tree import TreeLayout, build_tree, shared_length
from lib.grpo.trajectory import Trajectory


@dataclass
class Sample:
    """What is to be learnt from an episode. All lists have one number for each sampled token, span after span.

    `advantage` is one number for the whole episode or such a list; for `kind="sft"` it is the weight. `old_log_probs`
    are those of the policy that the ratio compares with, by default those of the rollout. Samples without
    `reference_log_probs` have no KL term, whatever the objective's beta.
    """

    trajectory: Trajectory
    advantage: float | Sequence[float] = 0.0
    old_log_probs: Sequence[float] | None = None
    reference_log_probs: Sequence[float] | None = None


@dataclass(frozen=True)
class PackedBatch:
    """A micro-batch. With a `layout`, `ids` is one row (1, tokens) laid out as a prefix tree; without, padded plain
    rows (rows, tokens). `positions` has its shape.

    Of the `targets` sampled tokens, all of shape (targets,): `predictors` index the flattened hidden states that
    predict them, `sequence` says which of the `members` (indices into the samples that were packed) sampled them, and
    the rest is as in `Sample`, with nan for reference log-probabilities that were not given. Tokens of a member are in
    order and follow each other. A batch without members is a placeholder whose loss is zero.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    layout: TreeLayout | None
    predictors: torch.Tensor
    targets: torch.Tensor
    sequence: torch.Tensor
    advantages: torch.Tensor
    rollout_log_probs: torch.Tensor
    old_log_probs: torch.Tensor
    reference_log_probs: torch.Tensor | None
    members: tuple[int, ...]

    def to(self, device: torch.device | str) -> PackedBatch:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: value.to(device) for name, value in values.items() if hasattr(value, "to")})

    @property
    def tokens(self) -> int:
        """Tokens that go through the model, padding included."""
        return self.ids.numel()


def empty_batch(shared: bool = True) -> PackedBatch:
    """A batch of nobody: one token to feed, so that a rank without work takes part in every collective."""
    zero, one = torch.zeros(1, dtype=torch.long), torch.zeros(1)
    layout = build_tree([np.zeros(1, np.int64)], [0]).layout if shared else None
    return PackedBatch(zero[None], zero[None], layout, zero, zero, zero, one, one, one, None, ())


def pack(samples: Sequence[Sample], token_budget: int, shared: bool = True) -> list[PackedBatch]:
    """Micro-batches of at most `token_budget` tokens that hold every sample with a sampled token once.

    shared: shared ids stand once in each micro-batch (a group that does not fit is split and its prefix repeated);
    else plain rows, padded on the right. A single episode longer than the budget is a micro-batch of its own. What
    follows the last but one sampled token predicts nothing and is left out.
    """
    chosen = [at for at, sample in enumerate(samples) if sample.trajectory.sampled_tokens]
    fed = {at: _fed(samples[at].trajectory) for at in chosen}
    if shared:
        return [_tree_batch(samples, *each) for each in _tree_batches(samples, chosen, fed, token_budget)]
    batches: list[list[int]] = []
    for at in sorted(chosen, key=lambda at: -len(fed[at])):
        if not batches or (len(batches[-1]) + 1) * len(fed[batches[-1][0]]) > token_budget:
            batches.append([])
        batches[-1].append(at)
    return [_plain_batch(samples, members, [fed[at] for at in members]) for members in batches]


def sampled_positions(trajectory: Trajectory) -> np.ndarray:
    """Indices of the sampled tokens in `ids`, span after span."""
    return np.concatenate([np.arange(start, end) for start, end in trajectory.spans])


def _fed(trajectory: Trajectory) -> np.ndarray:
    """The ids up to the one that predicts the last sampled token."""
    assert trajectory.spans[0][0] >= 1, "the first token of an episode has nothing to be predicted from"
    return np.asarray(trajectory.ids[: trajectory.spans[-1][1] - 1], dtype=np.int64)


def _tree_batches(samples, chosen: list[int], fed: dict[int, np.ndarray], budget: int):
    """Yields (members, their fed ids, ids shared with the member before) of each micro-batch.

    Sorted by content, sequences that share most stand beside each other, and a tree's tokens are those of its
    sequences less what each shares with the one before.
    """
    order = sorted(chosen, key=lambda at: (samples[at].trajectory.domain, fed[at].astype(">u4").tobytes(), at))
    shared = [0]
    for before, at in pairwise(order):
        trajectory = samples[at].trajectory
        shared.append(shared_length(fed[before], fed[at], (trajectory.shared_tokens, trajectory.prompt_tokens)))
    groups = [(samples[at].trajectory.domain, samples[at].trajectory.group) for at in order]
    start, tokens, at = 0, 0, 0
    while at < len(order):
        last = at + 1
        while last < len(order) and groups[last] == groups[at]:
            last += 1
        extra = sum(len(fed[order[each]]) - shared[each] for each in range(at, last))
        if at > start and tokens + extra > budget and extra + shared[at] <= budget:
            yield _members(order, fed, shared, start, at)
            start, tokens = at, 0
        for each in range(at, last):
            length = len(fed[order[each]])
            if each > start and tokens + length - shared[each] > budget:
                yield _members(order, fed, shared, start, each)
                start, tokens = each, 0
            tokens += length - (shared[each] if each > start else 0)
        at = last
    if order:
        yield _members(order, fed, shared, start, len(order))


def _members(order, fed, shared, start: int, end: int) -> tuple[list[int], list[np.ndarray], list[int]]:
    members = order[start:end]
    return members, [fed[at] for at in members], [0, *shared[start + 1 : end]]


def _tree_batch(samples, members: list[int], sequences: list[np.ndarray], shared: list[int]) -> PackedBatch:
    tree = build_tree(sequences, shared)
    return _batch(samples, members, tree.ids[None], tree.positions[None], tree.places, tree.layout)


def _plain_batch(samples, members: list[int], sequences: list[np.ndarray]) -> PackedBatch:
    width = max(len(sequence) for sequence in sequences)
    ids = np.zeros((len(sequences), width), np.int64)
    for row, sequence in zip(ids, sequences):
        row[: len(sequence)] = sequence
    positions = np.broadcast_to(np.arange(width), ids.shape).copy()
    places = [row * width + np.arange(len(sequence)) for row, sequence in enumerate(sequences)]
    return _batch(samples, members, ids, positions, places, None)


def _batch(samples, members, ids, positions, places: list[np.ndarray], layout: TreeLayout | None) -> PackedBatch:
    chosen = [samples[at] for at in members]
    sampled = [sampled_positions(sample.trajectory) for sample in chosen]
    counts = [len(each) for each in sampled]
    advantages = [
        np.full(count, sample.advantage) if np.isscalar(sample.advantage) else np.asarray(sample.advantage)
        for sample, count in zip(chosen, counts)
    ]
    rollout = [sample.trajectory.log_probs or [0.0] * count for sample, count in zip(chosen, counts)]
    old = [own if sample.old_log_probs is None else sample.old_log_probs for sample, own in zip(chosen, rollout)]
    reference = [
        [float("nan")] * count if sample.reference_log_probs is None else sample.reference_log_probs
        for sample, count in zip(chosen, counts)
    ]
    unknown = all(sample.reference_log_probs is None for sample in chosen)
    return PackedBatch(
        ids=torch.from_numpy(ids),
        positions=torch.from_numpy(positions),
        layout=layout,
        predictors=torch.from_numpy(np.concatenate([place[at - 1] for place, at in zip(places, sampled)])),
        targets=torch.tensor(
            np.concatenate([np.asarray(sample.trajectory.ids)[at] for sample, at in zip(chosen, sampled)])
        ),
        sequence=torch.repeat_interleave(torch.tensor(counts)),
        advantages=_floats(advantages, counts),
        rollout_log_probs=_floats(rollout, counts),
        old_log_probs=_floats(old, counts),
        reference_log_probs=None if unknown else _floats(reference, counts),
        members=tuple(members),
    )


def _floats(values: list[Sequence[float]], counts: list[int]) -> torch.Tensor:
    assert [len(each) for each in values] == counts, "one number for each sampled token"
    return torch.tensor(np.concatenate(values), dtype=torch.float32)
