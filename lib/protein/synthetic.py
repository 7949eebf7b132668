"""The embedded synthetic set: generated backbones, sequences from a known law, files like real ones.

`write_synthetic` fills a folder with structure files and `synthetic.json`; the ordinary reading route reads them. What
a perfect model could reach is in lib.protein.synthetic_bounds.
"""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lib.errors import UserError
from lib.files import to_json
from lib.protein.synthetic_blueprint import TOPOLOGIES
from lib.protein.synthetic_bounds import LawRecord, bayes_bounds, law_record
from lib.protein.synthetic_docking import centred, dock, dock_twofold, on_grid
from lib.protein.synthetic_files import FEATURES, METHIONINE, SUFFIXES, Entry, add_feature, file_bytes, plain_chain
from lib.protein.synthetic_law import GRID, Law, draw_sequence, law_inputs
from lib.protein.synthetic_packing import pack
from lib.protein.synthetic_table import LAW
from lib.seeds import numpy_generator

MARKER = "synthetic.json"
UNFINISHED = "unfinished.synthetic.tmp"  # a folder inside the folder, there only while files are being made
FORMAT = 1
PAIR_EVERY = 5  # every fifth entry has two chains, by turns two different ones and a symmetric pair
FEATURE_EVERY = 10
FILE_PATTERN = "syn_[0-9][0-9][0-9][0-9]*.*"


def is_synthetic(folder: Path | str) -> bool:
    """Whether `folder` holds a complete synthetic set."""
    return (Path(folder) / MARKER).is_file()


def is_unfinished(folder: Path | str) -> bool:
    """Whether `folder` holds a synthetic set whose generation was killed; write_synthetic starts it again."""
    return (Path(folder) / UNFINISHED).is_dir() and not is_synthetic(folder)


def load_law(folder: Path | str) -> Law:
    """The law that a synthetic set was drawn from. UserError if its description cannot be used."""
    path = Path(folder) / MARKER
    try:
        described = json.loads(path.read_text(encoding="utf-8"))["law"]
        law = Law(
            tuple(tuple(row) for row in described["state_logits"]),
            tuple(described["burial_logits"]),
            tuple(tuple(row) for row in described["pair_logits"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: no usable law ({error}); delete the folder and let the set be written again"
        ) from error
    if law.to_dict() != described:
        raise UserError(f"{path}: a law of another version; delete the folder and let the set be written again")
    return law


def write_synthetic(
    folder: Path | str, *, chains: int = 512, seed: int = 0, log: Callable[[str], None] = print
) -> None:
    """Write the synthetic set into `folder`, which must be absent, empty of structures, or hold an unfinished set.

    Equal (chains, seed) give equal files. The marker file comes last: a killed generation is recognised by its
    `unfinished.synthetic.tmp` folder and starts again. A complete set of the same size and seed is left as it is.
    """
    folder, started = Path(folder), time.perf_counter()
    if chains < 2:
        raise UserError(f"synthetic set of {chains} chains: expected at least 2")
    if _already_there(folder, chains, seed):
        return
    scratch = folder / UNFINISHED
    _clear(folder, scratch)
    scratch.mkdir(parents=True)
    entries = generate_entries(chains, seed)
    for index, entry in enumerate(entries):
        suffix = SUFFIXES[(index + index // 10 + index // 40) % 4]
        (scratch / f"{entry.name}{suffix}").write_bytes(file_bytes(entry, suffix))
    description = describe(entries, chains, seed)
    (scratch / MARKER).write_text(to_json(description, indent=1) + "\n", encoding="utf-8")
    for path in sorted(scratch.glob(FILE_PATTERN)):
        path.replace(folder / path.name)
    (scratch / MARKER).replace(folder / MARKER)
    scratch.rmdir()
    seconds, bounds = (
        time.perf_counter() - started,
        (description["bayes_ppl_one_shot"], description["bayes_ppl_any_order"]),
    )
    log(
        f"synthetic set written to {folder}: {len(entries)} entries, {chains} chains, "
        f"{description['residues']} residues in {seconds:.1f} s; "
        f"Bayes perplexity {bounds[0]:.2f} one-shot, {bounds[1]:.2f} any-order"
    )


def _already_there(folder: Path, chains: int, seed: int) -> bool:
    if not is_synthetic(folder):
        return False
    found = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    if (found.get("format"), found.get("chains"), found.get("seed")) == (FORMAT, chains, seed):
        return True
    raise UserError(
        f"{folder} holds a synthetic set of {found.get('chains')} chains, seed {found.get('seed')}, format "
        f"{found.get('format')}; expected {chains}, {seed}, {FORMAT}: give another folder or delete this one"
    )


def _clear(folder: Path, scratch: Path) -> None:
    """Remove what a killed generation left; refuse a folder with other structure files."""
    if scratch.is_dir():
        for path in folder.glob(FILE_PATTERN):
            path.unlink()
        shutil.rmtree(scratch)
    strangers = [path.name for path in sorted(folder.glob("*")) if path.name.endswith((*SUFFIXES, ".ent", ".ent.gz"))]
    if strangers:
        raise UserError(
            f"{folder} holds {len(strangers)} structure files ({strangers[0]}), expected none; give the synthetic set "
            "a folder of its own"
        )


def generate_entries(chains: int, seed: int) -> list[Entry]:
    """All entries, `chains` chains in total, with coordinates, types and features."""
    plan = _plan(chains)
    topologies, counter = [], 0
    for kind in plan:
        for _ in range(2 if kind == "hetero" else 1):
            topologies.append(TOPOLOGIES[counter % 3])
            counter += 1
    backbones = iter(pack(numpy_generator(seed, "synthetic", "backbones"), topologies))
    entries = []
    for index, kind in enumerate(plan):
        rng = numpy_generator(seed, "synthetic", "entry", index)
        first = next(backbones)
        if kind == "single":
            atoms = [centred(first)]
        else:
            atoms = dock(rng, first, next(backbones)) if kind == "hetero" else dock_twofold(rng, first)
        entries.append(_entry(rng, index, kind, list(atoms)))
    return entries


def _plan(chains: int) -> list[str]:
    """Kind of each entry: single, hetero (two different chains) or twofold (a symmetric pair)."""
    plan, left = [], chains
    while left:
        pair = len(plan) % PAIR_EVERY == PAIR_EVERY - 1 and left > 1
        plan.append(("hetero", "twofold")[len(plan) // PAIR_EVERY % 2] if pair else "single")
        left -= 2 if pair else 1
    return plan


def _entry(rng: np.random.Generator, index: int, kind: str, atoms: list[np.ndarray]) -> Entry:
    feature = FEATURES[index // FEATURE_EVERY % len(FEATURES)] if index % FEATURE_EVERY == FEATURE_EVERY - 3 else ""
    chains = [plain_chain("AB"[order], len(single)) for order, single in enumerate(atoms)]
    add_feature(rng, chains[0], feature)
    if kind == "twofold":
        chains[1].written = chains[0].written
        chains[0].units = on_grid(atoms[0], chains[0].written)
        chains[1].units = chains[0].units * np.array([-1, -1, 1])
    else:
        for chain, single in zip(chains, atoms):
            chain.units = on_grid(single, chain.written)
    units = np.concatenate([chain.units for chain in chains])
    inputs = law_inputs(units * GRID, *_presence(chains))
    aa = draw_sequence(LAW, *inputs, rng.random(len(units)))
    for chain, part in zip(chains, np.split(aa, np.cumsum([len(chain.units) for chain in chains])[:-1])):
        chain.aa = part
    if feature == "selenomethionine" and METHIONINE not in aa:
        feature = ""
    return Entry(f"syn_{index:04d}", feature, chains)


def _presence(chains) -> tuple[np.ndarray, np.ndarray]:
    """All atoms present, and the chain index, of all residues of an entry."""
    sizes = [len(chain.units) for chain in chains]
    return np.full(sum(sizes), 15, np.uint8), np.repeat(np.arange(len(sizes)), sizes)


def entry_record(entry: Entry) -> LawRecord:
    """The law's view of an entry as generated; the one of the files is made from what the reader returns."""
    units, aa = np.concatenate([c.units for c in entry.chains]), np.concatenate([c.aa for c in entry.chains])
    record = law_record(entry.name, units * GRID, *_presence(entry.chains), aa)
    record.complete = entry.feature != "missing_residues"
    return record


def describe(entries: list[Entry], chains: int, seed: int) -> dict:
    """Content of synthetic.json: what was made, from which law, and the bounds over the whole set."""
    bounds = bayes_bounds(LAW, [entry_record(entry) for entry in entries])
    return {
        "format": FORMAT,
        "chains": chains,
        "seed": seed,
        "entries": len(entries),
        "residues": int(sum(chain.written.sum() for entry in entries for chain in entry.chains)),
        "features": {name: [entry.name for entry in entries if entry.feature == name] for name in FEATURES},
        "left_out_of_bounds": bounds.left_out,
        **bounds.perplexities(),
        "law": LAW.to_dict(),
    }
