"""Bad input of the protein trainer: what is given, and what has to be said about it."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
from cache_samples import OFFSETS, pdb_text, random_sequence
from trainer_case import BadInput

CACHE = ("structures/.quartet_cache/*",)
RUNS = ("runs/*",)


def place_run(folder: Path, data: Path) -> None:
    """A folder in which something was trained."""
    (folder / "old").mkdir()
    (folder / "old" / "metrics.jsonl").write_text('{"step": 1, "loss": 3.0}\n')
    (folder / "old" / "results.json").write_text("{}")


def empty_folder(folder: Path, data: Path) -> None:
    (folder / "structures").mkdir()


def only_notes(folder: Path, data: Path) -> None:
    empty_folder(folder, data)
    (folder / "structures" / "notes.txt").write_text("the structures are on the other disk\n")


def original_cache(folder: Path, data: Path) -> None:
    empty_folder(folder, data)
    (folder / "structures" / "1abc.pt").write_bytes(b"PK\x03\x04 not looked into")


def only_bad_files(folder: Path, data: Path) -> None:
    empty_folder(folder, data)
    bad_files(folder / "structures")


def bad_files(structures: Path) -> None:
    """A text, a cut gzip stream, coordinates that are no numbers, a chain without backbone."""
    (structures / "text.pdb").write_text("this is not a structure\n")
    generator = np.random.default_rng(0)
    good = pdb_text({"A": (random_sequence(generator, 60), lattice_backbone(60))}, "GOOD")
    (structures / "cut.pdb.gz").write_bytes(gzip.compress(good.encode())[:-600])
    broken = [
        line[:30] + "     nan     nan     nan" + line[54:] if line[:4] == "ATOM" else line for line in good.splitlines()
    ]
    (structures / "nan.pdb").write_text("\n".join(broken) + "\n")
    bare = [line for line in good.splitlines() if line[:4] != "ATOM" or line[12:16].strip() != "N"]
    (structures / "bare.pdb").write_text("\n".join(bare) + "\n")


def lattice_backbone(length: int) -> np.ndarray:
    """A chain that winds through a cube, so that a long one stays small; (length, 4, 3) in angstrom."""
    side = int(np.ceil(length ** (1 / 3)))
    index = np.arange(length)
    x, y, z = index % side, index // side % side, index // side**2
    y = np.where(z % 2 == 0, y, side - 1 - y)
    x = np.where(index // side % 2 == 0, x, side - 1 - x)
    return 3.8 * np.stack([x, y, z], axis=1)[:, None] + OFFSETS


def good_structures(folder: Path, data: Path) -> None:
    """A folder of its own with the good structures."""
    shutil.copytree(data / "structures", folder / "structures")


def good_and_bad(folder: Path, data: Path) -> None:
    good_structures(folder, data)
    bad_files(folder / "structures")


def one_structure(folder: Path, data: Path) -> None:
    empty_folder(folder, data)
    chain = (random_sequence(np.random.default_rng(1), 80), lattice_backbone(80))
    (folder / "structures" / "only.pdb").write_text(pdb_text({"A": chain}, "ONLY"))


def giant(folder: Path, data: Path) -> None:
    good_structures(folder, data)
    chain = (random_sequence(np.random.default_rng(2), 9_999), lattice_backbone(9_999))
    (folder / "structures" / "giant.pdb").write_text(pdb_text({"A": chain}, "HUGE"))


def good_cache(folder: Path, data: Path) -> Path:
    """A finished cache with its structures."""
    shutil.copytree(data, folder, dirs_exist_ok=True)
    # Copies carry the modification times that the cache has recorded.
    return folder / "cache"


def damaged_index(folder: Path, data: Path) -> None:
    index = good_cache(folder, data) / "cache_index.json"
    index.write_text(index.read_text().replace('"bytes": ', '"bytes": 1', 1))


def damaged_shard(folder: Path, data: Path) -> None:
    shard = next((good_cache(folder, data) / "cache_shards").glob("shard-*.arrow"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)


def other_version(folder: Path, data: Path) -> None:
    index = good_cache(folder, data) / "cache_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"version": 0}))


def stray_names(folder: Path, data: Path) -> None:
    (folder / "names.txt").write_text("7xyz\n8xyz\n")


def configuration(folder: Path, data: Path) -> None:
    (folder / "run.yaml").write_text("learning_rates: 1e-3\n")


def old_weights(folder: Path, data: Path) -> None:
    (folder / "best.pt").write_bytes(b"PK\x03\x04 not looked into")


HERE = "--pdb_path structures"
COPIED = "--pdb_path structures --cache_dir cache"

BAD_INPUTS = (
    # What cannot be used at all.
    BadInput("missing folder", "--pdb_path nowhere", ("--pdb_path nowhere", "nothing", "expected structures")),
    BadInput("empty folder", HERE, ("--pdb_path structures", "an empty folder", "expected structures"), empty_folder),
    BadInput("no structure", HERE, ("structures", "no structure file found", ".cif"), only_notes, writes=RUNS),
    BadInput(
        "only bad files",
        HERE,
        ("none of 4 files", "unreadable 1", "truncated_stream 1", "nan_coordinates 1", "no_backbone 1"),
        only_bad_files,
        writes=RUNS + CACHE,
    ),
    BadInput(
        "not a structure by name",
        "--pdb_path structures/notes.txt",
        ("notes.txt", "not a structure file", "expected .pdb"),
        only_notes,
        writes=RUNS,
    ),
    BadInput("cache of the original", HERE, ("1 .pt files", "original", "--cache_dir"), original_cache, writes=RUNS),
    BadInput("a single structure", HERE, ("all 1 units", "at least two"), one_structure, writes=RUNS + CACHE),
    BadInput("strict", f"{HERE} --strict", ("--strict", "first rejected file"), good_and_bad, writes=RUNS + CACHE),
    # Flags.
    BadInput("unknown flag", "--hiden_dim 32", ("--hiden_dim", "--hidden_dim")),
    BadInput("wrong choice", "--mask_schedule sometimes", ("--mask_schedule", "'sometimes'", "one of fixed")),
    BadInput("wrong type", "--k_neighbors many", ("--k_neighbors", "'many'", "whole number")),
    BadInput("out of range", "--max_tokens 5", ("--max_tokens", "5", ">= 20")),
    BadInput("no value", "--pdb_path", ("--pdb_path", "no value")),
    BadInput("two names of one flag", "--save_dir a --output_dir b", ("save_dir", "output_dir", "give one")),
    BadInput(
        "ignored flag", "--mask_schedule cosine --mask_ratio 0.2", ("--mask_ratio 0.2 has no effect", "drop one"),
        good_data=True,
    ),
    BadInput(
        "diffusion against schedule", "--use_discrete_diffusion --mask_schedule uniform",
        ("--use_discrete_diffusion", "--mask_schedule uniform", "give one"), good_data=True,
    ),
    BadInput("heads", "--num_heads 4", ("--num_heads 4", "no heads"), good_data=True),
    BadInput("ddp without launcher", "--ddp", ("--ddp", "accelerate launch"), good_data=True),
    BadInput("devices", "--gpu_ids 0,1", ("--gpu_ids", "accelerate launch --gpu_ids 0,1"), good_data=True),
    BadInput("port", "--master_port 12356", ("--master_port", "--main_process_port 12356"), good_data=True),
    BadInput("download without folder", "--rcsb_ids ids.txt", ("--rcsb_ids", "--pdb_path FOLDER")),
    BadInput("key of a YAML file", "--config run.yaml", ("run.yaml", "learning_rates", "learning_rate"), configuration),
    BadInput("no YAML file", "--config nowhere.yaml", ("nowhere.yaml", "no such file")),
    BadInput("unknown tracker", "--report_to pigeon", ("--report_to", "pigeon", "tensorboard"), good_data=True),
    BadInput("split without names", "--split file", ("--split file", "--val_files"), good_data=True),
    BadInput("no list of names", "--val_files nowhere.txt", ("nowhere.txt",), good_data=True, writes=RUNS),
    BadInput(
        "names of nothing", "--val_files names.txt", ("2 of 2 val names match no file", "7xyz"), stray_names,
        good_data=True, writes=RUNS,
    ),
    BadInput(
        "split files that are not there", "--use_predefined_split", ("train.txt and val.txt",), good_data=True,
        writes=RUNS,
    ),
    # Folders of runs.
    BadInput("a run is there", "--output_dir old", ("old holds a run", "--resume auto"), place_run, good_data=True),
    BadInput("a file is there", "--output_dir best.pt", ("best.pt", "is a file"), old_weights, good_data=True),
    BadInput("no such checkpoint", "--resume runs/x/step-00000001", ("--resume", "no such checkpoint"), good_data=True),
    BadInput(
        "pickled checkpoint", "--resume best.pt", ("best.pt", "pickled files can run code"), old_weights,
        good_data=True, writes=RUNS,
    ),
    # What is told and survived.
    BadInput(
        "bad files beside good ones", f"{HERE} --dry_run",
        ("rejected: unreadable", "rejected: truncated_stream", "cut.pdb.gz", "rejected: nan_coordinates", "nan.pdb",
         "rejected: no_backbone", "bare.pdb"),
        good_and_bad, code=0, writes=RUNS + CACHE,
    ),
    BadInput(
        "a chain above the token budget", f"{HERE} --max_tokens 500 --max_steps 3 --split random --seed 1",
        ("1 cropped",), giant, code=0, writes=RUNS + CACHE,
    ),
    BadInput(
        "damaged index", f"{COPIED} --dry_run", ("cache_index.json", "damaged", "made again"), damaged_index, code=0,
        writes=(*RUNS, "cache/*"),
    ),
    BadInput(
        "damaged shard", f"{COPIED} --dry_run", ("cache: shard", "cannot be used", "read again"), damaged_shard,
        code=0, writes=(*RUNS, "cache/*"),
    ),
    BadInput(
        "cache of another version", f"{COPIED} --dry_run", ("version 0", "made again"), other_version, code=0,
        writes=(*RUNS, "cache/*"),
    ),
)  # fmt: skip
