"""Guesses and units of a kind, matched: as the solver does it, within groups, and what the loss makes of it."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from lib.omagd.recon import matching


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
def test_the_least_sum(size):
    costs = torch.rand(40, size, size, generator=torch.Generator().manual_seed(size))
    found = matching.assign(costs)
    assert found.shape == (40, size) and found.dtype == torch.int64
    for cost, targets in zip(costs, found, strict=True):
        assert sorted(targets.tolist()) == list(range(size))
        rows, columns = linear_sum_assignment(cost.numpy())
        assert cost[torch.arange(size), targets].sum() == pytest.approx(float(cost[rows, columns].sum()), abs=1e-6)


def test_rows_are_matched_within_their_group():
    """Groups of one to six, their rows scattered; every guess is sure of the tokens of another row of its group."""
    generator = torch.Generator().manual_seed(0)
    groups = torch.repeat_interleave(torch.tensor([3, 9, 5, 1, 70, 8, 6]), torch.tensor([1, 2, 3, 4, 5, 6, 2]))
    groups = groups[torch.randperm(len(groups), generator=generator)]
    places, conditions = torch.arange(len(groups)), torch.arange(len(groups)) % 4
    truth = torch.empty_like(places)
    for group in groups.unique():
        rows = (groups == group).nonzero().squeeze(1)
        truth[rows] = rows[torch.randperm(len(rows), generator=generator)]
    sure = [10.0 * torch.nn.functional.one_hot(tokens[truth], 40) for tokens in (places, conditions)]
    logs = [each.log_softmax(-1) for each in sure]
    found = matching.matched(logs, torch.stack([places, conditions], -1), groups)
    assert torch.equal(found, truth)
    assert matching.matched([each[:0] for each in logs], torch.zeros(0, 2).long(), groups[:0]).tolist() == []


@pytest.mark.parametrize("size", [3, 6])
def test_costs_that_are_not_finite_are_assigned_all_the_same(size):
    """The run ends by its loss, with step and batch named, and not in the solver."""
    costs = torch.rand(2, size, size, generator=torch.Generator().manual_seed(0))
    costs[0], costs[1, 0] = float("nan"), float("inf")
    assert [sorted(one) for one in matching.assign(costs).tolist()] == [list(range(size))] * 2
