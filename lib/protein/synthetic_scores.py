"""A model's result on the synthetic set beside the optimum that is known there.

Compared residue by residue: on the same residues, with the same visible context, the exact probability under the law
that drew the sequences against the model's. Only whole entries without missing residues count; the others have no
exact law.
"""

import numpy as np

from lib.protein.masking import validation_draws
from lib.protein.split import Unit
from lib.protein.synthetic import load_law
from lib.protein.synthetic_bounds import bayes_masked, bayes_one_shot, law_record

NAMES = ("residues", "unigram", "bayes", "expected", "model", "difference", "difference_squared")


class BayesScores:
    """Collects sums in nats over the residues this process scores; `results` reduces them over all processes."""

    def __init__(self, law, chains_of_file: dict[str, int], unigram: np.ndarray, seed: int):
        """unigram: (20,) log-probabilities of the training set."""
        self.law, self.chains_of_file, self.unigram, self.seed = law, chains_of_file, unigram, seed
        self.sums = {f"{metric}/{name}": 0.0 for metric in ("one_shot", "masked") for name in NAMES}

    @classmethod
    def load(cls, data, unigram: np.ndarray, seed: int) -> "BayesScores":
        """For a ProteinData whose folder holds the synthetic set."""
        counts: dict[str, int] = {}
        for file in data.store.files:
            counts[file] = counts.get(file, 0) + 1
        return cls(load_law(data.folder), counts, unigram, seed)

    def add(self, unit: Unit, arrays: dict, ok: np.ndarray, log_p: dict[str, np.ndarray]) -> None:
        """Callback of `evaluation.score_units`."""
        if len(unit.rows) != self.chains_of_file[unit.file] or not ok.all():
            return
        record = law_record(unit.name, arrays["coordinates"], arrays["present"], arrays["chain"], arrays["aa"])
        if not record.complete:
            return
        aa = arrays["aa"].astype(np.int64)
        self._add("one_shot", bayes_one_shot(self.law, [record])[0], log_p["one_shot"], aa)
        exact = np.empty((len(aa), 20))
        for _, target in validation_draws("masked", ok, arrays["twin"], self.seed, unit.name):
            exact[target] = bayes_masked(self.law, [record], [~target])[0][target]
        self._add("masked", exact, log_p["masked"], aa)

    def _add(self, metric: str, exact: np.ndarray, model: np.ndarray, aa: np.ndarray) -> None:
        """exact, model: log-probabilities (residues, 20)."""
        rows = np.arange(len(aa))
        bayes, found = -exact[rows, aa], -model[rows, aa]
        values = {
            "residues": len(aa),
            "unigram": -self.unigram[aa].sum(),
            "bayes": bayes.sum(),
            "expected": -(np.exp(exact) * exact).sum(),
            "model": found.sum(),
            "difference": (found - bayes).sum(),
            "difference_squared": np.square(found - bayes).sum(),
        }
        for name, value in values.items():
            self.sums[f"{metric}/{name}"] += float(value)

    def results(self, reduce) -> dict[str, float]:
        """Flat keys; `reduce` sums a dict of floats over the processes.

        bayes_ppl_<metric>: exact perplexity of the drawn residues; `_expected`: of the law; bayes_gap_closed_<metric>:
        share of the log-perplexity gap from the unigram to it; bayes_excess_se_<metric>: model minus optimum in
        standard errors of the paired difference: far below zero means that the model is told what it should predict.
        """
        sums = reduce(self.sums)
        results: dict[str, float] = {}
        for metric in ("one_shot", "masked"):
            value = {name: sums[f"{metric}/{name}"] for name in NAMES}
            count = value["residues"]
            if not count:
                continue
            mean = value["difference"] / count
            spread = max(value["difference_squared"] / count - mean**2, 1e-12)
            results[f"bayes_ppl_{metric}"] = float(np.exp(value["bayes"] / count))
            results[f"bayes_ppl_{metric}_expected"] = float(np.exp(value["expected"] / count))
            results[f"bayes_model_ppl_{metric}"] = float(np.exp(value["model"] / count))
            results[f"bayes_gap_closed_{metric}"] = (value["unigram"] - value["model"]) / (
                value["unigram"] - value["bayes"]
            )
            results[f"bayes_excess_se_{metric}"] = mean / float(np.sqrt(spread / count))
            results["bayes_residues"] = int(count)
        if "bayes_gap_closed_one_shot" in results:
            results["bayes_gap_closed"] = results["bayes_gap_closed_one_shot"]
        return results
