"""Random backbones for tests: not physical, but with every bond of a chain below the break distance."""

import numpy as np
import torch

from lib.protein.cache_format import Block, encode_block
from lib.protein.model import Batch
from lib.protein.split import Unit
from lib.protein.structure import Chain


def random_unit(residues: int, seed: int, chains: int = 1) -> dict[str, np.ndarray]:
    """Arrays as `load_unit` gives them."""
    generator = np.random.default_rng(seed)
    steps = generator.standard_normal((residues, 3))
    ca = np.cumsum(3.8 * steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)
    n, c, o = (ca + 1.4 * _unit(generator.standard_normal((residues, 3))) for _ in range(3))
    c[:-1] = ca[:-1] + 0.4 * (ca[1:] - ca[:-1]) + 0.1 * generator.standard_normal((residues - 1, 3))
    n[1:] = ca[1:] - 0.4 * (ca[1:] - ca[:-1]) + 0.1 * generator.standard_normal((residues - 1, 3))
    chain = np.sort(np.arange(residues) % chains).astype(np.int16)
    position = np.concatenate([np.arange((chain == index).sum()) for index in range(chains)])
    return {
        "coordinates": np.stack((n, ca, c, o), axis=1).astype(np.float32),
        "present": np.full(residues, 15, np.uint8),
        "aa": generator.integers(0, 20, residues).astype(np.uint8),
        "chain": chain,
        "position": position.astype(np.int32),
        "confidence": np.zeros(residues, np.uint8),
        "trusted": np.ones(residues, bool),
    }


def _unit(values: np.ndarray) -> np.ndarray:
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def replace(batch: Batch, **changes) -> Batch:
    names = ("coordinates", "present", "chain", "position", "aa", "unit_lengths", "names")
    return Batch(**{name: changes.get(name, getattr(batch, name)) for name in names})


def random_rotation(seed: int) -> torch.Tensor:
    """A proper rotation (3, 3) in float32."""
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    q = q * torch.sign(torch.diagonal(r))
    return (q * torch.linalg.det(q)).float() if torch.linalg.det(q) < 0 else q.float()


class FakeStore:
    """The part of a ChainStore that batches and evaluation use, over random units of one file each."""

    def __init__(self, lengths: list[int], chains: int = 1, seed: int = 0, plddt: np.ndarray | None = None):
        self.plddt = plddt
        self.arrays = [random_unit(length, seed + index, chains) for index, length in enumerate(lengths)]
        self.place = [(unit, chain) for unit in range(len(lengths)) for chain in range(chains)]
        self.ids = [f"file{unit}:{'ABC'[chain]}" for unit, chain in self.place]
        self.files = [f"file{unit}.pdb" for unit, _ in self.place]
        self.block = Block(encode_block([self._chain(row) for row in range(len(self.ids))], [0] * len(self.ids)))

    def _chain(self, row: int) -> Chain:
        unit, number = self.place[row]
        own = {name: values[self.arrays[unit]["chain"] == number] for name, values in self.arrays[unit].items()}
        kept = {name: own[name] for name in ("coordinates", "present", "aa", "confidence")}
        if self.plddt is not None:
            kept["confidence"] = self.plddt.astype(np.uint8)
        return Chain(
            id=self.ids[row], file=self.files[row], entry=f"file{unit}", name="ABC"[number], copy_of="",
            is_plddt=self.plddt is not None, numbers=own["position"] + 1, insertions={}, **kept,
        )  # fmt: skip

    def locate(self, row):
        return self.block, row

    def units(self) -> list[Unit]:
        result = []
        for number, arrays in enumerate(self.arrays):
            rows = tuple(row for row, (unit, _) in enumerate(self.place) if unit == number)
            name = f"file{number}"
            result.append(Unit(name, rows, len(arrays["aa"]), 1000 + number, number, f"{name}.pdb", name))
        return result
