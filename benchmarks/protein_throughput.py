"""Training steps per second against ProteinMPNN's own training code, on the same batches, one thread.

    OMP_NUM_THREADS=1 python benchmarks/protein_throughput.py --peer_dir CHECKOUT [--pdb_path FOLDER]

CHECKOUT is a checkout of github.com/dauparas/ProteinMPNN; its `training/model_utils.py` is used unmodified (featurize,
model, smoothed loss, Noam optimiser). Both sides do the whole step: batch from units in memory, forward, backward,
optimiser. Batches hold units of similar length, as the peer's loader makes them. Every measurement
is a process of its own, the variants take turns, medians and ratios are written. Both are 3 + 3 layers of hidden 128 on
48 neighbours with dropout 0.1 and backbone noise 0.2; they are not the same function: see `multiply_adds_per_edge` in
the result and docs/train_protein.md. Also measured: what keeping freed memory in the
allocator is worth to each side, and the peak memory of a step of 2,000 residues.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from record import write_result

from lib.allocator import keep_freed_memory

HIDDEN, SLOTS, LAYERS, NOISE, DROPOUT = 128, 48, 3, 0.2, 0.1
VARIANTS = {
    # name: (side, bf16 autocast, allocator keeps freed memory)
    "peer fp32": ("peer", False, False),
    "peer bf16": ("peer", True, False),
    "quartet fp32": ("quartet", False, True),
    "quartet bf16": ("quartet", True, True),
    "peer fp32, kept memory": ("peer", False, True),
    "quartet fp32, plain allocator": ("quartet", False, False),
}


def make_batches(args) -> list[list[dict]]:
    """Batches of whole units, about `args.residues` residues each, as arrays."""
    from lib.protein.batching import load_unit
    from lib.protein.cache import build_cache
    from lib.protein.collate import unpack_present
    from lib.protein.split import make_units
    from lib.protein.synthetic import write_synthetic

    with tempfile.TemporaryDirectory() as folder:
        source = Path(args.pdb_path) if args.pdb_path else Path(folder) / "synthetic"
        if not args.pdb_path:
            write_synthetic(source, chains=64, seed=0, log=lambda text: None)
        store = build_cache(source, Path(folder) / "cache", log=lambda text: None)
        units, _ = make_units(store, max_length=1000, min_length=60, log=lambda text: None)
        complete = []
        for unit in units:
            arrays = {name: np.array(value) for name, value in load_unit(store, unit).items()}
            if unpack_present(arrays["present"]).all() and (arrays["aa"] < 20).all():
                complete.append(arrays)
    return length_sorted_batches(complete, args.residues, args.batches)


def length_sorted_batches(units: list[dict], residues: int, count: int) -> list[list[dict]]:
    """Units of neighbouring lengths together, as the peer's own loader does, so that it pads as little as it can.

    `count` batches, spread evenly over the lengths.
    """
    batches: list[list[dict]] = [[]]
    for unit in sorted(units, key=lambda unit: len(unit["aa"])):
        if batches[-1] and len(unit["aa"]) * (len(batches[-1]) + 1) > residues:
            batches.append([])
        batches[-1].append(unit)
    full = [batch for batch in batches if sum(len(unit["aa"]) for unit in batch) > 0.7 * residues]
    assert len(full) >= count, "not enough complete units for the batches asked for"
    return [full[(2 * number + 1) * len(full) // (2 * count)] for number in range(count)]


def padding(batches: list[list[dict]]) -> float:
    """Rows that the peer computes for each residue, 1 = none padded."""
    rows = sum(len(batch) * max(len(unit["aa"]) for unit in batch) for batch in batches)
    return rows / sum(len(unit["aa"]) for batch in batches for unit in batch)


def peer_step(peer_dir: str, bf16: bool):
    """One training step of ProteinMPNN over units in its own dictionary form."""
    sys.path.insert(0, str(Path(peer_dir) / "training"))
    from model_utils import ProteinMPNN, featurize, get_std_opt, loss_smoothed

    model = ProteinMPNN(
        node_features=HIDDEN, edge_features=HIDDEN, hidden_dim=HIDDEN, num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS, k_neighbors=SLOTS, dropout=DROPOUT, augment_eps=NOISE,
    ).train()  # fmt: skip
    optimiser = get_std_opt(model.parameters(), HIDDEN, 0)
    alphabet = np.array(list("ACDEFGHIKLMNPQRSTVWYX"))

    def as_dictionary(unit: dict) -> dict:
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        entry = {"masked_list": [], "visible_list": [], "num_of_chains": 0, "seq": "".join(alphabet[unit["aa"]])}
        for number in np.unique(unit["chain"]):
            rows, letter = unit["chain"] == number, letters[number]
            entry[f"seq_chain_{letter}"] = "".join(alphabet[unit["aa"][rows]])
            entry[f"coords_chain_{letter}"] = {
                f"{atom}_chain_{letter}": unit["coordinates"][rows, index].astype(np.float64)
                for index, atom in enumerate(("N", "CA", "C", "O"))
            }
            entry["masked_list"].append(letter)
            entry["num_of_chains"] += 1
        return entry

    def step(units: list[dict]) -> None:
        inputs = featurize(units, "cpu")
        coordinates, types, mask, _, chain_mask, index, _, chains = inputs
        optimiser.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            log_probabilities = model(coordinates, types, mask, chain_mask, index, chains)
            _, loss = loss_smoothed(types, log_probabilities, mask * chain_mask)
        loss.backward()
        optimiser.step()

    return step, as_dictionary


def quartet_step(bf16: bool):
    """One training step of this project: any-order draws, Muon, clipping."""
    from lib.protein.collate import flat_batch
    from lib.protein.model import ModelConfig, ProteinModel
    from lib.protein.optimiser import make_optimiser

    model = ProteinModel(ModelConfig(HIDDEN, LAYERS, LAYERS, SLOTS, DROPOUT)).train()
    optimiser = make_optimiser(model, "muon", 1e-3, 1e-3, torch.bfloat16 if bf16 else torch.float32)
    generator = np.random.default_rng(0)

    def step(units: list[dict]) -> None:
        noisy = []
        for unit in units:
            noise = generator.standard_normal(unit["coordinates"].shape, dtype=np.float32)
            noisy.append({**unit, "coordinates": unit["coordinates"] + NOISE * noise})
        batch = flat_batch(["x"] * len(noisy), noisy)
        order = torch.from_numpy(generator.random(batch.residues, dtype=np.float32))
        target = batch.scorable()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss, _ = model(batch, order, target)
        (loss / target.sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return step, dict


def child(args) -> None:
    """Measure one variant and print one JSON line."""
    side, bf16, kept = VARIANTS[args.variant]
    if kept:
        assert keep_freed_memory(), "this C library does not take mallopt"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    stored = np.load(args.stored, allow_pickle=False)
    batches: dict[int, list[dict]] = {}
    for key in stored.files:
        batch, unit, name = key.split("/")
        units = batches.setdefault(int(batch), [])
        while len(units) <= int(unit):
            units.append({})
        units[int(unit)][name] = stored[key]
    step, own_form = peer_step(args.peer_dir, bf16) if side == "peer" else quartet_step(bf16)
    ready = [[own_form(unit) for unit in units] for units in batches.values()]
    for batch in ready:  # every size once: kernels are compiled and memory is taken at first use
        step(batch)
    before = (time.process_time(), time.perf_counter())
    for batch in ready:
        step(batch)
    residues = sum(len(unit["aa"]) for units in batches.values() for unit in units)
    print(
        json.dumps(
            {
                "per_cpu_s": residues / (time.process_time() - before[0]),
                "per_wall_s": residues / (time.perf_counter() - before[1]),
                "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def measure(args, variant: str, stored: Path) -> dict:
    command = [sys.executable, __file__, "--variant", variant, "--stored", str(stored)]
    command += ["--peer_dir", args.peer_dir] if args.peer_dir else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{variant} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def store(batches: list[list[dict]], path: Path) -> Path:
    flat = {
        f"{number}/{index}/{name}": value
        for number, units in enumerate(batches)
        for index, unit in enumerate(units)
        for name, value in unit.items()
    }
    np.savez(path, **flat)
    return path


def peak_memory(args, folder: Path) -> dict[str, float]:
    """Peak resident memory in MiB of a process that takes steps of 2,000 residues, everything included."""
    full = make_batches(argparse.Namespace(**{**vars(args), "residues": 2000, "batches": 1}))
    short = 2000 - sum(len(unit["aa"]) for unit in full[0])
    source = max(full[0], key=lambda unit: len(unit["aa"]))
    filler = [{name: value[:short] for name, value in source.items()}] if short > 0 else []
    stored = store([[*full[0], *filler]], folder / "memory.npz")
    names = ("quartet fp32", "quartet bf16") + (("peer fp32",) if args.peer_dir else ())
    return {name: measure(args, name, stored)["peak_memory_mib"] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer_dir", help="checkout of ProteinMPNN; without it only this project is measured")
    parser.add_argument("--pdb_path", help="structures; default: the synthetic set")
    parser.add_argument("--residues", type=int, default=2000)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--stored", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.variant:
        return child(args)
    variants = [name for name, (side, *_) in VARIANTS.items() if side == "quartet" or args.peer_dir]
    with tempfile.TemporaryDirectory() as folder:
        batches = make_batches(args)
        stored = store(batches, Path(folder) / "batches.npz")
        rates = {name: [] for name in variants}
        for _ in range(args.repeats):
            for name in variants:
                rates[name].append(measure(args, name, stored)["per_cpu_s"])
                print(f"{name:<32} {rates[name][-1]:8.1f} residues/CPU-s", flush=True)
        memory = peak_memory(args, Path(folder))
    figures = {
        "residues_per_cpu_s": {name: statistics.median(values) for name, values in rates.items()},
        "all_runs": rates,
        "peak_memory_mib_2000_residues": memory,
        "multiply_adds_per_edge": {
            "peer, forward, features left out": LAYERS * (5 + 5 + 6) * HIDDEN**2,
            "quartet, forward, features left out": LAYERS * (3 + 2) * HIDDEN**2,
        },
    }
    if args.peer_dir:
        base = rates["peer fp32"]
        figures["ratio_to_peer_fp32"] = {
            name: statistics.median(a / b for a, b in zip(values, base)) for name, values in rates.items()
        }
    settings = {
        "hidden": HIDDEN, "slots": SLOTS, "layers": f"{LAYERS}+{LAYERS}", "dropout": DROPOUT, "noise": NOISE,
        "structures": "synthetic" if not args.pdb_path else Path(args.pdb_path).name,
        "residues_per_batch": [sum(len(unit["aa"]) for unit in units) for units in batches],
        "rows_of_the_peer_per_residue": round(padding(batches), 3),
        "repeats": args.repeats,
    }  # fmt: skip
    path = write_result("protein_throughput", figures, settings=settings)
    print(json.dumps({k: v for k, v in figures.items() if k != "all_runs"}, indent=1))
    print(f"written to {path.name}")
    return None


if __name__ == "__main__":
    main()
