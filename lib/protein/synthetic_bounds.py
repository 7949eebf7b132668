"""Exact probabilities under the synthetic law, by belief propagation on its forest, and the Bayes bounds they give.

No model that sees the same things can have a lower expected perplexity than these. Log is natural throughout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lib.protein.synthetic_law import NO_PARENT, Law, cells, has_gap, law_inputs

NODES_AT_ONCE = 4096  # each holds a 20 x 20 table for a moment


@dataclass(slots=True)
class LawRecord:
    """One entry (all chains of a file, in file order) as the law sees it."""

    name: str
    state: np.ndarray  # (residues,)
    burial: np.ndarray  # (residues,)
    parent: np.ndarray  # (residues,) -1 = none
    aa: np.ndarray  # (residues,) 0..19
    complete: bool  # no atom and no residue is missing, as far as coordinates tell

    def __len__(self) -> int:
        return len(self.aa)


@dataclass(slots=True)
class Bounds:
    """Mean negative log-probabilities in nats per residue; `expected` over the law, `realised` on the given sequences.

    The unigram is the best predictor that sees nothing; any-order is the same for every order of the residues.
    """

    residues: int
    masked_residues: int
    unigram_expected: float
    unigram_realised: float
    one_shot_expected: float
    one_shot_realised: float
    any_order_expected: float
    any_order_realised: float
    masked_expected: float | None  # over masks as given; None without masks
    masked_realised: float | None
    left_out: list[str]

    def perplexities(self) -> dict[str, float]:
        """bayes_ppl_one_shot, bayes_ppl_masked, bayes_ppl_any_order, unigram_ppl; the same with _realised."""
        out = {}
        for key, name in (
            ("bayes_ppl_one_shot", "one_shot"),
            ("bayes_ppl_any_order", "any_order"),
            ("bayes_ppl_masked", "masked"),
            ("unigram_ppl", "unigram"),
        ):
            for suffix, kind in (("", "expected"), ("_realised", "realised")):
                value = getattr(self, f"{name}_{kind}")
                if value is not None:
                    out[key + suffix] = float(np.exp(value))
        return out


def law_record(name: str, coordinates, present, chain, aa) -> LawRecord:
    """A record from arrays as lib.protein.synthetic_law.law_inputs takes them; aa integers (residues,)."""
    state, burial, parent = law_inputs(coordinates, present, chain)
    return LawRecord(name, state, burial, parent, np.asarray(aa), not has_gap(coordinates, present, chain))


class Forest:
    """The residues of some records as one forest, sorted into levels so that each level is one array operation."""

    def __init__(self, law: Law, records: Sequence[LawRecord]):
        self.table = law.table
        self.sizes = [len(record) for record in records]
        starts = np.cumsum([0, *self.sizes[:-1]])
        self.cell = np.concatenate([cells(record.state, record.burial) for record in records])
        self.parent = np.concatenate([np.where(r.parent < 0, -1, r.parent + s) for r, s in zip(records, starts)])
        depth = np.zeros(len(self.parent), np.int64)
        for node in np.flatnonzero(self.parent >= 0):  # a parent always comes before its children
            depth[node] = depth[self.parent[node]] + 1
        order = np.argsort(depth, kind="stable")
        self.levels = np.split(order, np.cumsum(np.bincount(depth))[:-1])

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Per record, from all residues."""
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def conditionals(self, evidence: np.ndarray) -> np.ndarray:
        """log p(a_i | evidence on all other residues).  evidence: (residues, 20) likelihoods, ones = not seen."""
        inside = np.ones_like(evidence)  # product of the messages of the children
        upward = np.ones_like(evidence)  # message to the parent, by the parent's type
        for level in reversed(self.levels[1:]):
            for nodes in _pieces(level):
                message = np.einsum(
                    "nij,nj->ni", self.table[self.cell[nodes], :NO_PARENT], evidence[nodes] * inside[nodes]
                )
                upward[nodes] = message / message.max(1, keepdims=True)
            np.multiply.at(inside, self.parent[level], upward[level])
        outward = np.empty_like(evidence)  # p(a_i | evidence outside the subtree of i)
        outward[self.levels[0]] = self.table[self.cell[self.levels[0]], NO_PARENT]
        for level in self.levels[1:]:
            for nodes in _pieces(level):
                above = self.parent[nodes]
                belief = outward[above] * evidence[above] * inside[above] / upward[nodes]
                belief /= belief.sum(1, keepdims=True)
                outward[nodes] = np.einsum("nij,ni->nj", self.table[self.cell[nodes], :NO_PARENT], belief)
        posterior = outward * inside
        return np.log(posterior / posterior.sum(1, keepdims=True))


def _pieces(nodes: np.ndarray):
    return (nodes[low : low + NODES_AT_ONCE] for low in range(0, len(nodes), NODES_AT_ONCE))


def _evidence(aa: np.ndarray, visible: np.ndarray) -> np.ndarray:
    evidence = np.ones((len(aa), 20))
    evidence[visible] = np.eye(20)[aa[visible]]
    return evidence


def bayes_one_shot(law: Law, records: Sequence[LawRecord]) -> list[np.ndarray]:
    """log p(a_i | backbone) of each record, without any residue known.  # (residues, 20) each"""
    forest = Forest(law, records)
    return forest.split(forest.conditionals(np.ones((len(forest.cell), 20))))


def bayes_masked(law: Law, records: Sequence[LawRecord], visible: Sequence[np.ndarray]) -> list[np.ndarray]:
    """log p(a_i | backbone, the visible residues other than i).  # (residues, 20) each

    visible: bool (residues,) for each record.
    """
    forest = Forest(law, records)
    aa, seen = np.concatenate([record.aa for record in records]), np.concatenate(list(visible))
    return forest.split(forest.conditionals(_evidence(aa, seen)))


def bayes_any_order(law: Law, record: LawRecord, order: np.ndarray) -> np.ndarray:
    """log p(a_i | backbone, the residues j with order_j < order_i).  # (residues, 20)"""
    result = np.empty((len(record), 20))
    together = max(1, 20_000 // len(record))
    for low in range(0, len(record), together):
        targets = np.arange(low, min(low + together, len(record)))
        visible = [order < order[target] for target in targets]
        scores = bayes_masked(law, [record] * len(targets), visible)
        result[targets] = [score[target] for score, target in zip(scores, targets)]
    return result


def bayes_given_parent(law: Law, records: Sequence[LawRecord]) -> list[np.ndarray]:
    """log p(a_i | backbone, a_parent), which over all residues adds up to log p(sequence).  # (residues, 20) each"""
    results = []
    for record in records:
        above = np.where(record.parent < 0, NO_PARENT, record.aa[record.parent])
        results.append(np.log(law.table[cells(record.state, record.burial), above]))
    return results


def complete_records(records: Sequence[LawRecord]) -> tuple[list[LawRecord], list[str]]:
    """The records that count towards the bounds, and the names of those left out because residues are missing."""
    return [record for record in records if record.complete], [record.name for record in records if not record.complete]


def bayes_bounds(law: Law, records: Sequence[LawRecord], visible: Sequence[np.ndarray] | None = None) -> Bounds:
    """All bounds over the complete ones of `records`.

    Args:
        visible: one bool array (residues,) for each of `records`, True where the residue is shown; the masked bound is
            over the others.
    """
    kept, left_out = complete_records(records)
    assert kept, "no complete record"
    aa = np.concatenate([record.aa for record in kept])
    marginal = np.concatenate(bayes_one_shot(law, kept))
    given_parent = np.concatenate(bayes_given_parent(law, kept))
    masked = (None, None, 0)
    if visible is not None:
        shown = [seen for seen, record in zip(visible, records) if record.complete]
        hidden = ~np.concatenate(shown)
        scores = np.concatenate(bayes_masked(law, kept, shown))[hidden]
        masked = (_entropy(scores).mean(), _taken(scores, aa[hidden]).mean(), int(hidden.sum()))
    unigram = np.exp(marginal).mean(0)
    return Bounds(
        residues=len(aa),
        masked_residues=masked[2],
        unigram_expected=float(-(unigram * np.log(unigram)).sum()),
        unigram_realised=float(-np.log(unigram)[aa].mean()),
        one_shot_expected=float(_entropy(marginal).mean()),
        one_shot_realised=float(_taken(marginal, aa).mean()),
        any_order_expected=float(_parent_entropy(law, kept, np.exp(marginal)).mean()),
        any_order_realised=float(_taken(given_parent, aa).mean()),
        masked_expected=masked[0],
        masked_realised=masked[1],
        left_out=left_out,
    )


def _entropy(log_probabilities: np.ndarray) -> np.ndarray:
    return -(np.exp(log_probabilities) * log_probabilities).sum(-1)


def _taken(log_probabilities: np.ndarray, aa: np.ndarray) -> np.ndarray:
    return -log_probabilities[np.arange(len(aa)), aa]


def _parent_entropy(law: Law, records: Sequence[LawRecord], marginal: np.ndarray) -> np.ndarray:
    """Entropy of each residue given its parent, averaged over the parent's exact marginal.  # (residues,)"""
    entropy = -(law.table * np.log(law.table)).sum(-1)  # (cells, 21)
    forest = Forest(law, records)
    rows = entropy[forest.cell]
    return np.where(forest.parent < 0, rows[:, NO_PARENT], (rows[:, :NO_PARENT] * marginal[forest.parent]).sum(1))
