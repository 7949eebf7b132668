"""The best assignment of targets to guesses, in groups of a few: what the Hungarian algorithm finds.

Groups of up to four are gone through by all their permutations at once, larger ones by SciPy's solver one by one.
"""

from itertools import permutations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

HUGE = 1e30
ENUMERATED = 4  # 24 permutations; 120 of five would cost more than the solver does


def assign(costs: Tensor) -> Tensor:
    """(G, n, n) costs of target j at guess i -> int64 (G, n): the target of each guess, of the least sum."""
    groups, size, _ = costs.shape
    # The solver refuses them; whoever learns from them ends by the loss, with its step and batch named.
    costs = torch.nan_to_num(costs, nan=HUGE, posinf=HUGE, neginf=-HUGE)
    if size == 1:
        return torch.zeros(groups, 1, dtype=torch.int64, device=costs.device)
    if size <= ENUMERATED:
        orders = torch.tensor(list(permutations(range(size))), device=costs.device)  # (n!, n)
        sums = costs[:, torch.arange(size, device=costs.device), orders].sum(-1)
        return orders[sums.argmin(-1)]
    found = [linear_sum_assignment(one)[1] for one in costs.double().cpu().numpy()]
    return torch.from_numpy(np.stack(found)).to(costs.device)


def matched(log_probabilities: list[Tensor], tokens: Tensor, groups: Tensor) -> Tensor:
    """int64 (M,): the row whose tokens each row is to be compared with, one of its own group, each once.

    log_probabilities: of each of P parts (M, codes); tokens (M, P); groups (M,), any numbers. The cost of a target at a
    guess is the entropy of its tokens in all parts.
    """
    _, inverse, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    order, sizes = inverse.argsort(stable=True), counts[inverse]
    found = torch.arange(len(groups), device=groups.device)
    for size in counts.unique().tolist():
        if size == 1:
            continue
        rows = order[sizes[order] == size].view(-1, size)  # (G, n)
        costs = -sum(
            each[rows.unsqueeze(-1), tokens[rows, part].unsqueeze(1)] for part, each in enumerate(log_probabilities)
        )
        found[rows] = rows.gather(1, assign(costs))
    return found
