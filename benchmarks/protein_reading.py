"""Residues per second of reading structure files to backbone chains, on one core, beside gemmi's own parse.

    python benchmarks/protein_reading.py [--structures FOLDER] [--repeats 5]

Texts are decompressed into memory first; decompression alone, and reading the .gz files and plain files from disk (page
cache warm), are measured in the same rounds. biotite and biopython take part where they are installed (fewer files).
The rate of every row is: protein residues that Quartet finds in those files / median CPU seconds of all rounds.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import io
import os
import resource
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import gemmi
from record import interleaved, write_result

from lib.protein.reading import decompress, find_structure_files, read_bytes, read_file, structure_format

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "structures" / "files"
PEER_FILES = 40  # biotite and biopython are slow: every n-th file, this many of each format


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--structures", type=Path, default=Path(os.environ.get("QUARTET_STRUCTURES", DEFAULT)))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    files = [path for path in find_structure_files(arguments.structures) if not path.name.startswith("bad_")]
    figures = {}
    for kind in ("pdb", "cif"):
        chosen = [path for path in files if structure_format(path) == kind]
        if chosen:
            figures[kind] = measure(kind, chosen, arguments.structures, arguments.repeats)
    figures["peak_memory_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    settings = {
        "repeats": arguments.repeats,
        "cores_used": 1,
        "clock": "CPU seconds of the one thread",
        "files": "all but the broken bad_* ones",
    }
    print(f"written: {write_result('protein_reading', figures, settings=settings).name}")


def measure(kind: str, files: list[Path], root: Path, repeats: int) -> dict:
    """Figures of one format: sizes, and seconds and residues/s of every way of reading."""
    compressed = [path.read_bytes() for path in files]
    texts = [decompress(data) for data in compressed]
    names = [path.name for path in files]
    with tempfile.TemporaryDirectory() as folder:
        plain = []
        for index, (name, text) in enumerate(zip(names, texts, strict=True)):
            plain.append(Path(folder) / f"{index}_{name.removesuffix('.gz')}")
            plain[-1].write_bytes(text)
        functions = {
            "quartet, text in memory": lambda: [
                read_bytes(text, name) for name, text in zip(names, texts, strict=True)
            ],
            "gemmi structure, text in memory": lambda: [gemmi_read(kind, text) for text in gemmi_texts(kind, texts)],
            "quartet, plain files on disk": lambda: [read_file(path, Path(folder)) for path in plain],
            "quartet, .gz files on disk": lambda: [read_file(path, root) for path in files],
            "decompression alone": lambda: [decompress(data) for data in compressed],
        }
        results = functions["quartet, text in memory"]()
        residues = sum(result.counts["residues_in"] for result in results)
        seconds = interleaved(functions, repeats, time.process_time)
    print(f"{kind}: {len(files)} files, {residues:,} protein residues, {sum(map(len, texts)) / 1e6:.0f} MB of text")
    rows = {name: row(name, times, residues) for name, times in seconds.items()}
    ratio = (
        rows["quartet, text in memory"]["residues_per_s"] / rows["gemmi structure, text in memory"]["residues_per_s"]
    )
    print(f"  quartet / gemmi {ratio:.2f}")
    step = max(1, len(texts) // PEER_FILES)
    subset = {"residues": sum(result.counts["residues_in"] for result in results[::step]), "texts": texts[::step]}
    rows |= peers(kind, subset, repeats)
    return {
        "files": len(files),
        "residues": residues,
        "chains": sum(len(result.chains) for result in results),
        "text_megabytes": round(sum(map(len, texts)) / 1e6, 1),
        "rows": rows,
        "quartet_over_gemmi": round(ratio, 3),
    }


def row(name: str, times: list[float], residues: int) -> dict:
    median = statistics.median(times)
    print(f"  {name:34s} {residues / median:>12,.0f} residues/s   ({min(times):.3f} .. {max(times):.3f} s)")
    return {
        "residues_per_s": round(residues / median),
        "cpu_seconds": [round(value, 4) for value in times],
        "residues": residues,
    }


def gemmi_texts(kind: str, texts: list[bytes]):
    """gemmi stops at legacy columns 73-80: such texts are cut to 66 columns beforehand, outside of its timing."""
    if kind not in gemmi_texts.ready:
        gemmi_texts.ready[kind] = [text if kind == "cif" else cut_if_needed(text) for text in texts]
    return gemmi_texts.ready[kind]


gemmi_texts.ready = {}


def cut_if_needed(text: bytes) -> bytes:
    try:
        gemmi.read_pdb_string(text)
    except RuntimeError:
        records = (b"ATOM  ", b"HETATM", b"ANISOU")
        return b"\n".join(line[:66] if line.startswith(records) else line for line in text.split(b"\n"))
    return text


def gemmi_read(kind: str, text: bytes) -> gemmi.Structure:
    if kind == "pdb":
        return gemmi.read_pdb_string(text)
    return gemmi.make_structure_from_block(gemmi.cif.read_string(text)[0])


def peers(kind: str, subset: dict, repeats: int) -> dict:
    """Rows of the parsers that are installed, on a part of the files; what they refuse counts as read, and is counted:
    the comparison is then in their favour."""
    functions, refused = {}, {}
    texts = [text.decode("latin-1") for text in subset["texts"]]

    def read_all(name: str, read) -> None:
        refused[name] = sum(refuses(read, kind, text) for text in texts)

    for name, module, read in (("biotite", "biotite", biotite_read), ("biopython", "Bio", biopython_read)):
        if importlib.util.find_spec(module):
            functions[name] = functools.partial(read_all, name, read)
    if not functions:
        print("  biotite, biopython: not installed, not measured")
        return {}
    functions["quartet, same part"] = lambda: [read_bytes(text, f"x.{kind}") for text in subset["texts"]]
    return {
        name: row(name, times, subset["residues"]) | {"refused_files": refused.get(name, 0)}
        for name, times in interleaved(functions, repeats, time.process_time).items()
    }


def refuses(read, kind: str, text: str) -> bool:
    """Whether a peer raises on a file: they raise many types, which are named."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(kind, text)
        except Exception as error:
            print(f"  {read.__name__}: {type(error).__name__}: {' '.join(str(error).split())[:100]}")
            return True
    return False


def biotite_read(kind: str, text: str) -> None:
    from biotite.structure.io import pdb, pdbx

    if kind == "pdb":
        pdb.PDBFile.read(io.StringIO(text)).get_structure(model=1)
    else:
        pdbx.get_structure(pdbx.CIFFile.read(io.StringIO(text)), model=1)


def biopython_read(kind: str, text: str) -> None:
    from Bio.PDB import MMCIFParser, PDBParser

    parser = PDBParser(QUIET=True) if kind == "pdb" else MMCIFParser(QUIET=True)
    parser.get_structure("x", io.StringIO(text))


if __name__ == "__main__":
    main()
