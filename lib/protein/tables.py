"""Baselines without a network: how well residue types follow from frequencies alone.

Four tables, fitted on the training units and printed beside every result: the unigram, burial bins, cells of the
phi/psi map, and phi/psi cells by burial bin, smoothed towards what the two would say if they were independent.
"""

from dataclasses import dataclass

import numpy as np
import torch

from lib.protein.features import CA, CHAIN_BREAK, C, N, dihedral, virtual_cb

CLASSES = 20
ANGLE_BINS = 12
UNKNOWN_CELL = ANGLE_BINS * ANGLE_BINS  # a residue without phi or without psi
BURIAL_BINS = 8
BURIAL_RADIUS = 10.0  # angstrom between CB atoms
# Pseudo-counts. 10 to 320 were compared on the development structures: within 2 % in perplexity, 320 the best. Chosen
# on the very set it is measured on, in favour of the baseline.
SMOOTHING = 320.0
NAMES = ("unigram", "burial", "phi_psi", "phi_psi_burial")


def local_geometry(
    coordinates: np.ndarray, present: np.ndarray, chain: np.ndarray, block: int = 1024
) -> tuple[np.ndarray, np.ndarray]:
    """phi/psi cell int64 (residues,) and number of CB within 10 angstrom int64 (residues,) of one unit.

    Args:
        coordinates: (residues, 4, 3) float32 angstrom. present: (residues, 4) bool. chain: (residues,) int.
    """
    atoms = torch.from_numpy(np.ascontiguousarray(coordinates))
    here = torch.from_numpy(np.ascontiguousarray(present))
    same = torch.from_numpy(chain[1:] == chain[:-1])
    link = torch.zeros(len(atoms) + 1, dtype=torch.bool)
    link[1:-1] = same & ((atoms[1:, N] - atoms[:-1, C]).norm(dim=-1) < CHAIN_BREAK) & here[1:, N] & here[:-1, C]
    frame = here[:, N] & here[:, CA] & here[:, C]
    phi = dihedral(atoms.roll(1, 0)[:, C], atoms[:, N], atoms[:, CA], atoms[:, C])
    psi = dihedral(atoms[:, N], atoms[:, CA], atoms[:, C], atoms.roll(-1, 0)[:, N])
    cells = [((a / (2 * torch.pi) + 0.5) * ANGLE_BINS).long().clamp(0, ANGLE_BINS - 1) for a in (phi, psi)]
    known = link[:-1] & link[1:] & frame
    cell = torch.where(known, cells[0] * ANGLE_BINS + cells[1], UNKNOWN_CELL)
    cb = torch.where(frame[:, None], virtual_cb(atoms), torch.full((1, 3), 1e6))
    count = torch.cat([(torch.cdist(rows, cb) < BURIAL_RADIUS).sum(1) for rows in cb.split(block)]) - 1
    return cell.numpy(), torch.where(frame, count, 0).numpy()


@dataclass
class Tables:
    """Log-probabilities of the 20 types; `edges` are the inner limits of the burial bins in neighbours."""

    edges: np.ndarray  # (BURIAL_BINS - 1,)
    unigram: np.ndarray  # (20,)
    burial: np.ndarray  # (BURIAL_BINS, 20)
    phi_psi: np.ndarray  # (145, 20)
    phi_psi_burial: np.ndarray  # (145, BURIAL_BINS, 20)

    def log_probabilities(self, name: str, cell: np.ndarray, count: np.ndarray) -> np.ndarray:
        """(residues, 20) of one table."""
        bins = self.bins(count)
        if name == "unigram":
            return np.broadcast_to(self.unigram, (len(cell), CLASSES))
        if name == "burial":
            return self.burial[bins]
        return self.phi_psi[cell] if name == "phi_psi" else self.phi_psi_burial[cell, bins]

    def bins(self, count: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.edges, count, side="right")

    def buried(self, count: np.ndarray) -> np.ndarray:
        """The more crowded half of the training residues; bool (residues,)."""
        return self.bins(count) >= BURIAL_BINS // 2

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in vars(self).items()}

    @staticmethod
    def from_tensors(tensors: dict[str, torch.Tensor]) -> "Tables":
        return Tables(**{name: tensors[name].numpy() for name in Tables.__dataclass_fields__})


def fit_tables(cell: np.ndarray, count: np.ndarray, aa: np.ndarray) -> Tables:
    """Tables of the scorable training residues; all three arrays (residues,), aa in 0..19."""
    edges = np.quantile(count, np.arange(1, BURIAL_BINS) / BURIAL_BINS)
    bins = np.searchsorted(edges, count, side="right")
    joint = np.zeros((UNKNOWN_CELL + 1, BURIAL_BINS, CLASSES))
    np.add.at(joint, (cell, bins, aa), 1.0)
    unigram = _smooth(joint.sum((0, 1)), np.full(CLASSES, 1.0 / CLASSES), 20.0)
    burial = _smooth(joint.sum(0), unigram, 20.0)
    phi_psi = _smooth(joint.sum(1), unigram, 20.0)
    independent = phi_psi[:, None] * burial[None] / unigram
    both = _smooth(joint, independent / independent.sum(-1, keepdims=True), SMOOTHING)
    return Tables(edges, np.log(unigram), np.log(burial), np.log(phi_psi), np.log(both))


def _smooth(counts: np.ndarray, prior: np.ndarray, weight: float) -> np.ndarray:
    return (counts + weight * prior) / (counts.sum(-1, keepdims=True) + weight)
