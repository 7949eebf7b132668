"""Small structure files and caches for the tests of the cache, the split, the batches and the stream."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from lib.protein.residues import ALPHABET, THREE_LETTER

OFFSETS = np.array([[-1.2, 0.4, 0.0], [0.0, 0.0, 0.0], [1.2, 0.8, 0.3], [1.4, 1.9, 0.6]])  # N, CA, C, O around CA


def random_sequence(generator: np.random.Generator, length: int) -> str:
    return "".join(ALPHABET[index] for index in generator.integers(0, 20, length))


def backbone(generator: np.random.Generator, length: int) -> np.ndarray:
    """float64 (length, 4, 3) in angstrom, rounded to 0.001 as a PDB file holds them."""
    steps = generator.normal(size=(length, 3))
    steps *= 3.8 / np.linalg.norm(steps, axis=1, keepdims=True)
    alpha = generator.uniform(-40, 40, 3) + np.cumsum(steps, axis=0)
    return np.round(alpha[:, None] + OFFSETS, 3)


def pdb_text(chains: dict[str, tuple[str, np.ndarray]], entry: str, first_number: int = 1) -> str:
    """PDB file of chains given as name -> (sequence, coordinates)."""
    lines = [f"HEADER    TEST STRUCTURE                          01-JAN-20   {entry:4}"]
    serial = 1
    for name, (sequence, coordinates) in chains.items():
        for index, letter in enumerate(sequence):
            residue, number = THREE_LETTER[ALPHABET.index(letter)], first_number + index
            for atom, place in zip(("N", "CA", "C", "O"), coordinates[index]):
                x, y, z = place
                lines.append(
                    f"ATOM  {serial:5d}  {atom:<3} {residue} {name}{number:4d}    {x:8.3f}{y:8.3f}{z:8.3f}"
                    f"  1.00{20 + index % 50:6.2f}          {atom[0]:>2}"
                )
                serial += 1
        lines.append(f"TER   {serial:5d}      {residue} {name}{number:4d}")
        serial += 1
    return "\n".join([*lines, "END", ""])


def write_structure(folder: Path, name: str, lengths: dict[str, int], seed: int, entry: str | None = None) -> dict:
    """Write one PDB file of random chains; returns chain name -> (sequence, coordinates)."""
    generator = np.random.default_rng(seed)
    chains = {
        chain: (random_sequence(generator, length), backbone(generator, length)) for chain, length in lengths.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(pdb_text(chains, (entry or Path(name).stem[:4]).upper()))
    return chains


def write_many(folder: Path, count: int, *, low: int = 30, high: int = 90) -> None:
    """`count` files x000.pdb ... of one or two chains."""
    generator = np.random.default_rng(count)
    for index in range(count):
        lengths = {"A": int(generator.integers(low, high))}
        if index % 3 == 0:
            lengths["B"] = int(generator.integers(low, high))
        write_structure(folder, f"x{index:03d}.pdb", lengths, seed=index)


def own_clusters(sequences, *, threshold, log) -> np.ndarray:
    """A clustering that is quick: every sequence alone."""
    return np.arange(len(sequences), dtype=np.int32)


def touch_later(path: Path) -> None:
    """Move the modification time on, as an edit does, whatever the clock's resolution."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
