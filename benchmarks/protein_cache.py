"""Chain cache: rate of random whole-chain reads against other formats, and memory of a long streamed pass.

    python benchmarks/protein_cache.py [--pdb_path FOLDER] [--stream_residues 10000000]

A read is: find the chain, take its coordinates and its amino acids, and copy both into the next place of a batch, so
every stored byte is touched. "stored" copies int16 and uint8 as they are, "widened" makes float32 angstrom of the
coordinates. All formats hold the same chains, are read in the same random order, by one thread, with warm file caches;
the formats take turns and medians over the rounds are quoted. Bytes count the whole folder, index and reports included.
The peers are one `.pt` file per chain (float32 coordinates and uint8 amino acids, `torch.load` with weights_only) and
the same Arrow shard through `datasets` with its default python lists.

The streamed pass runs in a process of its own; resident memory includes mapped pages and is sampled at every batch.
Without --pdb_path the chains are generated, with lengths spread as in the PDB (mean about 210 residues).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from record import interleaved, write_result

from lib.protein.cache import ChainStore, build_cache, open_cache
from lib.protein.cache_format import encode_block
from lib.protein.cache_index import SHARDS, Index, write_index
from lib.protein.cache_shards import ShardWriter
from lib.protein.reading import Chain
from lib.protein.streaming import ShardStream

LONGEST = 1000
MIB = 1 << 20


def generated_chain(generator: np.random.Generator, file: str) -> Chain:
    """A random walk of 20..1000 residues with the bond-like offsets of a backbone."""
    length = int(np.clip(generator.lognormal(5.1, 0.7), 20, LONGEST))
    steps = generator.normal(size=(length, 3))
    walk = np.cumsum(3.8 * steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)
    coordinates = walk[:, None] + np.array([[-1.2, 0.4, 0.0], [0.0, 0.0, 0.0], [1.2, 0.8, 0.3], [1.4, 1.9, 0.6]])
    return Chain(
        id=f"{file}:A",
        file=file,
        entry=file,
        name="A",
        coordinates=coordinates.astype(np.float32),
        present=np.full(length, 15, np.uint8),
        aa=generator.integers(0, 20, length).astype(np.uint8),
        confidence=generator.integers(0, 100, length).astype(np.uint8),
        is_plddt=False,
        numbers=np.arange(1, length + 1, dtype=np.int32),
        insertions={},
    )


def generated_cache(folder: Path, residues: int) -> None:
    """A cache of generated chains, one in each file, written as the caching run writes it."""
    (folder / SHARDS).mkdir(parents=True)
    generator = np.random.default_rng(0)
    writer = ShardWriter(folder / SHARDS, flush_s=float("inf"))
    blocks, records, made = [], [], 0
    while made < residues:
        chains = [generated_chain(generator, f"g{len(records) + at:07d}") for at in range(600)]
        own = [
            {"file": chain.file, "size": 0, "mtime_ns": 0, "entries": [chain.entry], "chains": 1, "counts": {}}
            | {"rejections": []}
            for chain in chains
        ]
        writer.add(encode_block(chains, list(range(len(chains)))), [record | {"fingerprint": {}} for record in own])
        blocks.append(len(own))
        records += own
        made += sum(len(chain.aa) for chain in chains)
    writer.close()
    names = [shard.name for shard in writer.shards for rows, _ in shard.blocks for _ in range(rows)]
    firsts = [row for shard in writer.shards for row in range(sum(rows for rows, _ in shard.blocks))]
    sources = [record | {"shard": name, "first": row} for record, name, row in zip(records, names, firsts)]
    write_index(folder, Index({}, writer.shards, sources))


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Batch:
    """A place for chains that were read: like the flat batch of the trainer, filled from the front."""

    def __init__(self, residues: int):
        self.stored = np.empty((residues, 4, 3), np.int16)
        self.wide = np.empty((residues, 4, 3), np.float32)
        self.aa = np.empty(residues, np.uint8)


def read_stored(store: ChainStore, rows: list[int], batch: Batch) -> None:
    for row in rows:
        coordinates, aa = store.coordinates(row), store.aa(row)
        length = len(aa)
        batch.stored[:length] = coordinates
        batch.aa[:length] = aa


def read_widened(store: ChainStore, rows: list[int], batch: Batch) -> None:
    unit = np.float32(0.01)
    for row in rows:
        coordinates, aa = store.coordinates(row), store.aa(row)
        length = len(aa)
        np.multiply(coordinates, unit, out=batch.wide[:length])
        batch.aa[:length] = aa


def read_tensors(folder: Path, rows: list[int], batch: Batch) -> None:
    for row in rows:
        loaded = torch.load(folder / f"{row}.pt", weights_only=True)
        length = len(loaded["aa"])
        batch.wide[:length] = loaded["coordinates"].numpy()
        batch.aa[:length] = loaded["aa"].numpy()


def read_lists(dataset, rows: list[int], batch: Batch) -> None:
    for row in rows:
        record = dataset[row]
        length = len(record["aa"])
        batch.stored[:length] = np.array(record["coordinates"], np.int16).reshape(-1, 4, 3)
        batch.aa[:length] = record["aa"]


def write_tensors(store: ChainStore, folder: Path) -> None:
    folder.mkdir()
    for row in range(len(store)):
        coordinates = torch.from_numpy(store.chain_batch([row]))
        torch.save({"coordinates": coordinates, "aa": torch.from_numpy(store.aa(row).copy())}, folder / f"{row}.pt")


def measure_reads(store: ChainStore, work: Path, rounds: int, reads: int) -> dict:
    from datasets import Dataset

    write_tensors(store, work / "tensors")
    shards = [pa.ipc.open_file(pa.memory_map(str(store.cache_dir / SHARDS / item.name))) for item in store.index.shards]
    table = pa.concat_tables(shard.read_all().select(["coordinates", "aa"]) for shard in shards)
    lists = Dataset(table)
    batch = Batch(int(store.lengths.max()))
    generator = np.random.default_rng(1)
    narrow = np.array([row for row in range(len(store)) if store.coordinates(row).dtype == np.int16])
    rows = generator.choice(narrow, reads).tolist()
    few = rows[: max(1, reads // 20)]
    readers = {
        "stored": (lambda: read_stored(store, rows, batch), rows),
        "widened": (lambda: read_widened(store, rows, batch), rows),
        "tensor_files": (lambda: read_tensors(work / "tensors", few, batch), few),
        "arrow_python_lists": (lambda: read_lists(lists, few, batch), few),
    }
    for function, _ in readers.values():
        function()
    seconds = interleaved({name: function for name, (function, _) in readers.items()}, rounds)
    total = int(store.lengths.sum())
    size = {"stored": folder_bytes(store.cache_dir), "tensor_files": folder_bytes(work / "tensors")}
    figures = {"chains": len(store), "residues": total, "mean_chain_residues": round(total / len(store), 1)}
    for name, (_, own) in readers.items():
        rate = [int(store.lengths[own].sum()) / one / 1e6 for one in seconds[name]]
        figures[name] = {
            "million_residues_per_s": round(statistics.median(rate), 2),
            "range": [round(min(rate), 2), round(max(rate), 2)],
            "records_per_s": round(len(own) / statistics.median(seconds[name])),
        }
        if name in size:
            figures[name]["bytes_per_residue"] = round(size[name] / total, 2)
    for peer in ("tensor_files", "arrow_python_lists"):
        ratios = [(a / len(rows)) / (b / len(few)) for a, b in zip(seconds["stored"], seconds[peer])]
        figures[f"stored_over_{peer}"] = round(1 / statistics.median(ratios), 1)
    return figures


def resident_bytes() -> int:
    """Resident memory of this process, file-backed pages included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def stream_pass(folder: Path, kind: str) -> dict:
    """One whole pass; run in a process of its own. kind "stream", or "mapped": all chains through the store's views."""
    before = resident_bytes()
    peak, residues, batches, started = before, 0, 0, time.perf_counter()
    if kind == "stream":
        for batch in ShardStream(folder, max_tokens=10_000, repeat=False):
            residues, batches = residues + batch.residues, batches + 1
            peak = max(peak, resident_bytes())
    else:
        store = open_cache(folder, verify="quick")
        for row in np.random.default_rng(0).permutation(len(store)).tolist():
            residues += store.chain_batch([row]).shape[0]
            batches += 1
            if batches % 50 == 0:
                peak = max(peak, resident_bytes())
    seconds = time.perf_counter() - started
    return {
        "residues": residues,
        "batches": batches,
        "memory_before_mib": round(before / MIB, 1),
        "memory_growth_mib": round((peak - before) / MIB, 1),
        "million_residues_per_s": round(residues / seconds / 1e6, 2),
    }


def measure_stream(work: Path, residues: int) -> dict:
    folder = work / "stream"
    generated_cache(folder, residues)
    figures = {"shard_mib": round(folder_bytes(folder / SHARDS) / MIB, 1)}
    for kind in ("stream", "mapped"):
        command = [sys.executable, __file__, "--pass_over", str(folder), "--pass_kind", kind]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures[kind] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pdb_path", type=Path, help="folder of structures; generated chains where it is absent")
    parser.add_argument("--stream_residues", type=int, default=10_000_000, help="residues of the streamed pass")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the read comparison")
    parser.add_argument("--reads", type=int, default=20_000, help="chains read in a round by the fast formats")
    parser.add_argument("--pass_over", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--pass_kind", default="stream", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pass_over:
        print(json.dumps(stream_pass(options.pass_over, options.pass_kind)))
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if options.pdb_path:
            started = time.perf_counter()
            store = build_cache(options.pdb_path, work / "cache", workers=1, cluster=no_clusters)
            built = {"caching_s": round(time.perf_counter() - started, 2)}
            started = time.perf_counter()
            store = build_cache(options.pdb_path, work / "cache", workers=1, cluster=no_clusters)
            built["unchanged_again_s"] = round(time.perf_counter() - started, 3)
        else:
            generated_cache(work / "cache", 280_000)
            store, built = open_cache(work / "cache"), {}
        reads = measure_reads(store, work, options.rounds, options.reads)
        stream = measure_stream(work, options.stream_residues)
    figures = built | {"random_reads": reads, "streamed_pass": stream}
    print(json.dumps(figures, indent=2))
    settings = {
        "chains": "from --pdb_path" if options.pdb_path else "generated",
        "rounds": options.rounds,
        "reads": options.reads,
        "stream_residues": options.stream_residues,
    }
    print(write_result("protein_cache", figures, settings=settings))


def no_clusters(sequences, *, threshold, log) -> np.ndarray:
    """Clustering has its own benchmark; here every sequence stands alone."""
    return np.arange(len(sequences), dtype=np.int32)


if __name__ == "__main__":
    main()
