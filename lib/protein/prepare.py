"""Everything before the first step: which structures, their cache, units, split and baselines."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.errors import UserError
from lib.protein import download
from lib.protein.batching import load_unit
from lib.protein.cache import ChainStore, build_cache, open_cache
from lib.protein.collate import scorable, unpack_present
from lib.protein.options import DataOptions
from lib.protein.split import Unit, make_units, match_units, read_names, split_units
from lib.protein.synthetic import MARKER, is_synthetic, is_unfinished, write_synthetic
from lib.protein.tables import Tables, fit_tables, local_geometry
from lib.seeds import derive

SYNTHETIC_FOLDER = "data/synthetic"
CACHE_FOLDER = ".quartet_cache"
TABLE_RESIDUES = 2_000_000  # tables are fitted on at most so many residues, a fixed sample of the units
Log = Callable[[str], None]


@dataclass
class ProteinData:
    """What a trainer works on. `folder` is where the structures lie; `rule` says how the split was made."""

    store: ChainStore
    sides: dict[str, list[Unit]]
    folder: Path
    synthetic: bool
    rule: dict

    def sizes(self) -> dict[str, dict[str, int]]:
        return {
            side: {
                "units": len(units),
                "chains": sum(len(unit.rows) for unit in units),
                "residues": sum(unit.length for unit in units),
            }
            for side, units in self.sides.items()
        }

    def results(self) -> dict:
        """Keys of results.json that say what was trained on and what was not."""
        sizes = self.sizes()
        keys = {f"{side}_{what}": sizes[side][what] for side in ("train", "val") for what in ("units", "chains")}
        return keys | {"train_residues": sizes["train"]["residues"], "synthetic": self.synthetic}


def locate(config: DataOptions) -> tuple[Path, Path, bool]:
    """(folder of structures, cache folder, whether the synthetic set has to be written there).

    The synthetic set stands in when --pdb_path is not given, and when it names an absent or empty folder that is also
    --cache_dir, as the original's example commands do on a fresh clone. Any other missing path is a UserError.
    """
    if config.pdb_path is None:
        folder = Path(config.cache_dir or f"{SYNTHETIC_FOLDER}_{config.synthetic_chains}")
        return folder, folder, not _has_content(folder)
    folder = Path(config.pdb_path)
    cache = (
        Path(config.cache_dir) if config.cache_dir else (folder if folder.is_dir() else folder.parent) / CACHE_FOLDER
    )
    if _has_content(folder):
        return folder, cache, False
    if config.rcsb_ids or config.rcsb_query:
        return folder, cache, False
    if config.cache_dir and folder.resolve() == cache.resolve():
        return folder, cache, True
    if folder.is_dir() and _has_content(cache):
        return folder, cache, False
    found = "an empty folder" if folder.exists() else "nothing"
    raise UserError(
        f"--pdb_path {folder}: found {found}, expected structures (.pdb .ent .cif, .gz) or a cache; give a folder with "
        "structures, or leave --pdb_path out to train on the synthetic set"
    )


def _has_content(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def build_store(config: DataOptions, log: Log) -> ChainStore:
    """Main process only: download if asked, write the synthetic set if it stands in, bring the cache up to date."""
    folder, cache, write = locate(config)
    if config.rcsb_ids or config.rcsb_query:
        download.fetch_into(folder, ids_file=config.rcsb_ids, query=config.rcsb_query, log=log)
    if write or is_unfinished(folder):
        write_synthetic(folder, chains=config.synthetic_chains, seed=0, log=log)
    if is_synthetic(folder):
        _check_size(config, folder)
        log(f"data: SYNTHETIC set in {folder}: generated backbones with a known sequence law, not real proteins")
    return build_cache(folder, cache, config.read_options(), log=log)


def _check_size(config: DataOptions, folder: Path) -> None:
    there = json.loads((folder / MARKER).read_text(encoding="utf-8")).get("chains")
    if "synthetic_chains" in config.explicit and there != config.synthetic_chains:
        raise UserError(
            f"--synthetic_chains {config.synthetic_chains}: {folder} holds a synthetic set of {there} chains; "
            "drop the flag, or name another folder"
        )


def open_store(config: DataOptions) -> ChainStore:
    """The finished cache, on the processes that did not build it."""
    return open_cache(locate(config)[1], verify="quick")


def prepare(config: DataOptions, store: ChainStore, log: Log) -> ProteinData:
    """Units and their split; the same on every process."""
    folder, cache, _ = locate(config)
    units, counts = make_units(store, max_length=config.max_length, unit=config.unit, log=log)
    if not units:
        raise UserError(f"--pdb_path {folder}: no unit of at least 20 residues found, expected some; add structures")
    names = _split_names(config, cache, log)
    sides = split_units(
        units,
        mode=config.split,
        val_fraction=config.val_split,
        seed=config.seed,
        **names,
        known_files=store.all_files,
        log=log,
    )
    if not sides["val"]:
        raise UserError(
            f"no validation unit: {len(units)} units found and --val_split {config.val_split}; raise it or name a set "
            "with --val_files"
        )
    if names["val_names"] is None:
        rule = {"split": config.split, "val_split": config.val_split, "seed": config.seed}
    else:
        rule = {"split": "named", **{name: len(listed) for name, listed in names.items() if listed is not None}}
    rule |= {"unit": config.unit, "max_length": config.max_length, "counts": counts}
    return ProteinData(store, sides, folder, is_synthetic(folder), rule)


def _split_names(config: DataOptions, cache: Path, log: Log) -> dict[str, Sequence[str] | None]:
    names = {
        "val_names": read_names(config.val_files) if config.val_files else None,
        "test_names": read_names(config.test_files) if config.test_files else None,
        "train_names": None,
    }
    there = (cache / "train.txt").is_file() and (cache / "val.txt").is_file()
    if config.use_predefined_split and not there:
        raise UserError(
            f"--use_predefined_split: {cache} has no train.txt and val.txt; write one name per line into both"
        )
    if there and not config.val_files:
        for name in sorted({"val_split", "split"} & config.explicit):
            raise UserError(f"--{name} has no effect: {cache} holds train.txt and val.txt; drop it, or move them away")
        log(f"split: train.txt and val.txt of {cache} are used")
        names["train_names"], names["val_names"] = read_names(cache / "train.txt"), read_names(cache / "val.txt")
        if names["test_names"] is None and (cache / "test.txt").is_file():
            names["test_names"] = read_names(cache / "test.txt")
    return names


def training_tables(store: ChainStore, units: Sequence[Unit]) -> Tables:
    """Table baselines of the training side, from a fixed sample of at most TABLE_RESIDUES residues."""
    cells, counts, types, residues = [], [], [], 0
    for unit in sorted(units, key=lambda item: (derive(0, "tables", item.name), item.name)):
        if residues > TABLE_RESIDUES:
            break
        arrays = load_unit(store, unit)
        present = unpack_present(arrays["present"])
        ok = scorable(arrays)
        cell, count = local_geometry(arrays["coordinates"], present, arrays["chain"])
        cells.append(cell[ok])
        counts.append(count[ok])
        types.append(arrays["aa"][ok].astype(np.int64))
        residues += len(ok)
    if not sum(map(len, types)):
        raise UserError("no training residue has a known type and a complete backbone: add structures")
    return fit_tables(np.concatenate(cells), np.concatenate(counts), np.concatenate(types))


def select_units(config: DataOptions, store: ChainStore, log: Log) -> list[Unit]:
    """Units to measure: all, or those named by `config.only` or, with `config.use_test_split`, by test.txt."""
    units, _ = make_units(store, max_length=config.max_length, unit=config.unit, log=log)
    if not units:
        raise UserError(f"--pdb_path {config.pdb_path}: no usable chain found, expected at least one")
    listed = config.only
    if config.use_test_split:
        listed = locate(config)[1] / "test.txt"
        if not listed.is_file():
            raise UserError(f"--use_test_split: {listed} is not there; write one name per line into it")
    if listed is None:
        return units
    chosen = match_units(units, read_names(listed), store.all_files, "test", log)
    return [unit for unit in units if unit in chosen]
