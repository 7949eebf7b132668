"""Reads structure files (PDB and mmCIF, plain or gzip) into backbone chains; bad content becomes named rejections.

A file is opened once. Nothing a file holds raises: `read_file` returns what could be used and why the rest could not.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from lib.errors import UserError
from lib.protein.assembly import build_assembly, cif_assemblies, pdb_assemblies
from lib.protein.atom_table import Unusable
from lib.protein.reading_backbone import backbone_chains
from lib.protein.reading_cif import read_cif
from lib.protein.reading_pdb import read_pdb
from lib.protein.structure import REASONS, Chain, FileResult, ReadOptions, Rejection

__all__ = [
    "REASONS", "Chain", "FileResult", "ReadOptions", "Rejection",
    "decompress", "file_stem", "find_structure_files", "read_bytes", "read_file",
]  # fmt: skip

FORMATS = {".pdb": "pdb", ".ent": "pdb", ".cif": "cif", ".mmcif": "cif"}
GZIP_MAGIC = b"\x1f\x8b"


def structure_format(path: Path) -> str | None:
    """ "pdb" or "cif" by the file name (with or without .gz), None for other files."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return FORMATS.get(suffixes[-1]) if suffixes else None


def file_stem(relative: str) -> str:
    """Relative file name without .gz and without the extension of the format."""
    name = relative[:-3] if relative.lower().endswith(".gz") else relative
    head, dot, tail = name.rpartition(".")
    return head if dot and f".{tail.lower()}" in FORMATS else name


def find_structure_files(path: Path | str) -> list[Path]:
    """Structure files at `path`: the file itself, or all below a folder (recursive), sorted by path.

    Raises UserError when the path does not exist, is of no known type, or is a cache folder of the original project.
    """
    path = Path(path)
    if path.is_file():
        if structure_format(path) is None:
            raise UserError(
                f"{path}: not a structure file by its name; expected .pdb, .ent, .cif or .mmcif, each also with .gz"
            )
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder; expected structure files, give an existing path")
    files, saved_tensors = [], 0
    for candidate in path.rglob("*"):
        if structure_format(candidate) is not None and candidate.is_file():
            files.append(candidate)
        elif candidate.suffix == ".pt":
            saved_tensors += 1
    if not files and saved_tensors:
        raise UserError(
            f"{path}: {saved_tensors} .pt files, a cache of the original project, which is never unpickled; rebuild it "
            f"with: python scripts/train_protein.py --pdb_path STRUCTURE_FOLDER --cache_dir NEW_FOLDER"
        )
    return sorted(files, key=lambda file: file.relative_to(path).as_posix())


def decompress(data: bytes) -> bytes:
    """Text of a possibly gzip-compressed file. Raises EOFError on a cut stream, zlib.error on a damaged one."""
    if not data.startswith(GZIP_MAGIC):
        return data
    parts = []
    while data.startswith(GZIP_MAGIC):  # a gzip file may hold several members
        stream = zlib.decompressobj(wbits=31)
        parts.append(stream.decompress(data))
        if not stream.eof:
            raise EOFError(f"stream ends after {sum(map(len, parts))} bytes of text")
        data = stream.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_file(path: Path | str, root: Path | str, options: ReadOptions | None = None) -> FileResult:
    """Chains, rejections and counts of one file; `root` is the folder that names are relative to.

    Content never raises. Files that cannot be opened (permissions, vanished) are `unreadable` too.
    """
    path, root = Path(path), Path(root)
    file = path.relative_to(root).as_posix() if path != root else path.name
    try:
        data = path.read_bytes()
    except OSError as error:
        result = FileResult(file)
        result.reject("unreadable", f"cannot be opened: {error.strerror}")
        return result
    return read_bytes(data, file, options)


def read_bytes(data: bytes, file: str, options: ReadOptions | None = None) -> FileResult:
    """As `read_file`, for the bytes of a file named `file` (compressed or not)."""
    options = options or ReadOptions()
    result = FileResult(file)
    result.counts["files"] = 1
    try:
        text = decompress(data)
    except EOFError as error:
        result.reject("truncated_stream", f"gzip {error}")
        return result
    except zlib.error as error:
        result.reject("unreadable", f"damaged gzip stream: {error}")
        return result
    try:
        is_cif = _is_cif(text, file)
        table = read_cif(text) if is_cif else read_pdb(text)
        keys = backbone_chains(table, file_stem(file), result, options)
        if options.assembly is not None and result.chains:
            assemblies = cif_assemblies(text) if is_cif else pdb_assemblies(text)
            build_assembly(result, keys, assemblies, options.assembly)
    except Unusable as refusal:
        result.chains.clear()
        result.reject(refusal.reason, refusal.detail)
    return result


def _is_cif(text: bytes, file: str) -> bool:
    """By the file's name, unless the content says otherwise (downloads under a wrong name)."""
    start = text[:4096].lstrip()
    if structure_format(Path(file)) == "cif":
        return not start.startswith((b"HEADER ", b"ATOM  ", b"REMARK ", b"CRYST1 ", b"MODEL "))
    return start.startswith((b"data_", b"loop_"))
