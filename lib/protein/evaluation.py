"""How good the model is on a set of structures: masked, any-order and one-shot, with the table baselines beside.

Everything is kept as sums, so that the results of any number of processes add up to those of one. Perplexity is the
exponential of the mean negative log-likelihood in nats; recovery is the share of residues whose most likely type is the
true one; the expected calibration error follows Guo et al. 2017 (15 equal bins of confidence).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn import functional

from lib.protein.batching import load_unit
from lib.protein.collate import flat_batch, grouped, scorable, unpack_present
from lib.protein.masking import METRICS, validation_draws
from lib.protein.residues import ALPHABET
from lib.protein.split import Unit
from lib.protein.tables import NAMES as TABLE_NAMES
from lib.protein.tables import Tables, local_geometry

CLASSES = 20
TEMPERATURES = np.exp(np.linspace(np.log(0.5), np.log(2.5), 41))
CONFIDENCE_BINS = 15
COUNT, NLL, CORRECT = range(3)  # the three columns of every sum


@dataclass
class Scores:
    """Sums over residues and one row per chain.

    sums: name -> array whose last axis is (count, negative log-likelihood, correct), or, for `<metric>/confidence`,
    (temperatures, bins, (count, confidence, correct)); `<metric>/temperature` is (temperatures,) of summed nll.
    """

    sums: dict[str, np.ndarray] = field(default_factory=dict)
    rows: list[dict] = field(default_factory=list)

    def add(self, name: str, values: np.ndarray) -> None:
        self.sums[name] = self.sums[name] + values if name in self.sums else values

    def merge(self, other: "Scores") -> "Scores":
        for name, values in other.sums.items():
            self.add(name, values)
        self.rows.extend(other.rows)
        return self


def _triples(groups: np.ndarray, count: int, nll: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """(count, 3) sums of ones, nll and correct by group."""
    return np.stack([np.bincount(groups, w, minlength=count) for w in (np.ones(len(groups)), nll, correct)], axis=1)


def _calibration(scores: Scores, metric: str, logits: torch.Tensor, aa: torch.Tensor) -> None:
    """logits (targets, 20), aa (targets,): nll at every temperature and the reliability histogram at each."""
    totals, histograms = [], []
    for temperature in TEMPERATURES:
        log_p = functional.log_softmax(logits / temperature, dim=-1)
        confidence, guess = log_p.max(-1)
        confidence = confidence.exp().double().numpy()
        bins = np.minimum((confidence * CONFIDENCE_BINS).astype(int), CONFIDENCE_BINS - 1)
        totals.append(-log_p.gather(1, aa[:, None]).double().sum().item())
        histograms.append(_triples(bins, CONFIDENCE_BINS, confidence, (guess == aa).numpy()))
    scores.add(f"{metric}/temperature", np.array(totals))
    scores.add(f"{metric}/confidence", np.stack(histograms))


def _add_metric(scores: Scores, metric: str, logits, aa, buried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of one metric over its targets: logits (targets, 20), aa (targets,), buried (targets,) bool."""
    nll = functional.cross_entropy(logits, aa, reduction="none").double().numpy()
    correct = (logits.argmax(-1) == aa).double().numpy()
    types = aa.numpy()
    scores.add(metric, np.array([len(nll), nll.sum(), correct.sum()]))
    scores.add(f"{metric}/aa", _triples(types, CLASSES, nll, correct))
    scores.add(f"{metric}/buried", _triples(buried.astype(int), 2, nll, correct))
    _calibration(scores, metric, logits, aa)
    return nll, correct


def _add_tables(scores: Scores, tables: Tables, cell, count, aa: np.ndarray) -> None:
    for name in TABLE_NAMES:
        log_p = tables.log_probabilities(name, cell, count)
        nll = -log_p[np.arange(len(aa)), aa]
        scores.add(f"table/{name}", np.array([len(aa), nll.sum(), (log_p.argmax(1) == aa).sum()], dtype=float))


def _chain_rows(unit: Unit, chain_ids: Sequence[str], chain: np.ndarray, found: dict) -> list[dict]:
    """One row per chain with count, nll and recovered residues of every metric.

    chain: (targets,) chain of each target. found: metric -> (nll, correct), each (targets,).
    """
    rows = [{"id": chain_id, "unit": unit.name} for chain_id in chain_ids]
    for metric, (nll, correct) in found.items():
        sums = _triples(chain, len(rows), nll, correct)
        for row, (count, total, right) in zip(rows, sums.tolist()):
            row |= {f"{metric}_residues": int(count), f"{metric}_nll": total, f"{metric}_recovered": int(right)}
    return rows


@torch.no_grad()
def score_units(
    model,
    store,
    units: Sequence[Unit],
    tables: Tables,
    *,
    seed: int,
    max_tokens: int,
    device: torch.device,
    autocast: Callable,
    metrics: Sequence[str] = METRICS,
    should_stop: Callable[[], bool] = lambda: False,
    on_unit: Callable[[Unit, dict, np.ndarray, dict], None] | None = None,
) -> Scores:
    """Score every unit once; the encoder runs once per batch, the decoder once per draw.

    Args:
        autocast: makes the context manager of the compute type. should_stop: polled between batches.
        on_unit: called with the unit, its arrays, its scorable residues bool (residues,), and {metric:
            log-probabilities float64 (residues, 20)}.
    """
    was_training = model.training
    model.eval()
    scores = Scores()
    for group in grouped(units, max_tokens):
        if should_stop():
            break
        arrays = [load_unit(store, unit) for unit in group]
        may = [scorable(unit) for unit in arrays]
        batch = flat_batch([unit.name for unit in group], arrays).to(device)
        with autocast():
            encoded = model.encode(model.graph(batch))
            logits = {}
            for metric in metrics:
                draws = [
                    validation_draws(metric, ok, unit["twin"], seed, name)
                    for ok, unit, name in zip(may, arrays, batch.names, strict=True)
                ]
                logits[metric] = _metric_logits(model, encoded, batch, draws)
        start = 0
        for unit, values, ok in zip(group, arrays, may, strict=True):
            own = {metric: values_of[start : start + len(ok)] for metric, values_of in logits.items()}
            start += len(ok)
            _add_unit(scores, store, unit, values, ok, own, tables)
            if on_unit is not None:
                on_unit(unit, values, ok, {m: value.double().log_softmax(-1).numpy() for m, value in own.items()})
    model.train(was_training)
    return scores


def _metric_logits(model, encoded, batch, draws: list[list]) -> torch.Tensor:
    """Logits (residues, 20) float32 on the CPU, each scorable residue from the draw in which it is a target.

    draws: of each unit, as `validation_draws` gives them.
    """
    logits = torch.zeros(batch.residues, CLASSES)
    for drawn in zip(*draws, strict=True):
        order = torch.from_numpy(np.concatenate([order for order, _ in drawn])).to(batch.aa.device)
        target = torch.from_numpy(np.concatenate([target for _, target in drawn]))
        if bool(target.any()):
            found = model.decode(*encoded, batch.aa, order).float().cpu()
            logits[target] = found[target]
    return logits


def _add_unit(scores: Scores, store, unit: Unit, values: dict, ok: np.ndarray, logits: dict, tables: Tables) -> None:
    """Add one unit; ok: scorable residues bool (residues,); logits: metric -> (residues, 20)."""
    cell, count = local_geometry(values["coordinates"], unpack_present(values["present"]), values["chain"])
    aa = torch.from_numpy(values["aa"][ok].astype(np.int64))
    picked = torch.from_numpy(ok)
    buried = tables.buried(count[ok])
    found = {metric: _add_metric(scores, metric, value[picked], aa, buried) for metric, value in logits.items()}
    _add_tables(scores, tables, cell[ok], count[ok], aa.numpy())
    scores.rows.extend(_chain_rows(unit, [store.ids[row] for row in unit.rows], values["chain"][ok], found))


def _perplexity(triple) -> float:
    return float(np.exp(triple[NLL] / triple[COUNT])) if triple[COUNT] else float("nan")


def _recovery(triple) -> float:
    return float(triple[CORRECT] / triple[COUNT]) if triple[COUNT] else float("nan")


def calibration_error(histogram: np.ndarray) -> float:
    """Expected calibration error of one histogram (bins, (count, confidence, correct)), as a share."""
    total = histogram[:, 0].sum()
    return float(np.abs(histogram[:, 1] - histogram[:, 2]).sum() / total) if total else float("nan")


def summarise(scores: Scores, prefix: str = "val_") -> dict[str, float]:
    """Flat result keys. Recoveries are shares 0..1; `_median` is over chains, `temperature` fits one-shot."""
    result: dict[str, float] = {}
    for metric in METRICS:
        if metric not in scores.sums:
            continue
        total = scores.sums[metric]
        result[f"{prefix}ppl_{metric}"] = _perplexity(total)
        result[f"{prefix}recovery_{metric}"] = _recovery(total)
        chains = [
            row[f"{metric}_recovered"] / row[f"{metric}_residues"]
            for row in scores.rows
            if row.get(f"{metric}_residues")
        ]
        result[f"{prefix}recovery_{metric}_median"] = float(np.median(chains)) if chains else float("nan")
        for side, triple in zip(("exposed", "buried"), scores.sums[f"{metric}/buried"]):
            result[f"{prefix}ppl_{metric}_{side}"] = _perplexity(triple)
            result[f"{prefix}recovery_{metric}_{side}"] = _recovery(triple)
        result |= _calibration_results(scores, metric, prefix)
    if "one_shot" in scores.sums:
        result["calibration_ece"] = result[f"{prefix}ece_one_shot"]
        result["calibration_ece_fitted"] = result[f"{prefix}ece_one_shot_fitted"]
        result["temperature"] = result[f"{prefix}temperature_one_shot"]
    for name in TABLE_NAMES:
        key = {"unigram": "baseline_unigram", "phi_psi_burial": "baseline_table"}.get(name, f"baseline_{name}")
        result[f"{key}_ppl"] = _perplexity(scores.sums[f"table/{name}"])
        result[f"{key}_recovery"] = _recovery(scores.sums[f"table/{name}"])
    result[f"{prefix}residues"] = int(scores.sums["table/unigram"][COUNT])
    result[f"{prefix}chains"] = len(scores.rows)
    return result


def _calibration_results(scores: Scores, metric: str, prefix: str) -> dict[str, float]:
    best = int(np.argmin(scores.sums[f"{metric}/temperature"]))
    neutral = int(np.argmin(np.abs(TEMPERATURES - 1.0)))
    histograms = scores.sums[f"{metric}/confidence"]
    return {
        f"{prefix}ece_{metric}": calibration_error(histograms[neutral]),
        f"{prefix}ece_{metric}_fitted": calibration_error(histograms[best]),
        f"{prefix}temperature_{metric}": float(TEMPERATURES[best]),
    }


def per_amino_acid(scores: Scores, metric: str) -> dict[str, dict[str, float]]:
    """Residues, perplexity and recovery of each of the 20 types."""
    return {
        ALPHABET[index]: {"residues": int(triple[COUNT]), "ppl": _perplexity(triple), "recovery": _recovery(triple)}
        for index, triple in enumerate(scores.sums[f"{metric}/aa"])
    }
