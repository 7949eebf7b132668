"""The manifest of a checkpoint: what it is, what it is made of, and whether that is still so."""

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from lib.errors import UserError
from lib.files import discard, read_json, sha256_file, to_json

FORMAT = "quartet-checkpoint-1"
MANIFEST = "manifest.json"
_digests: dict[tuple, str] = {}
FILES = ("model.safetensors", "optimizer.safetensors", "optimizer.json", "state.json")


@dataclass(frozen=True)
class Manifest:
    """The verified description of one checkpoint. `sequence` counts the saves of a run: the highest is the newest, also
    after a run went back to an earlier step."""

    path: Path
    trainer: str
    step: int
    sequence: int
    world_size: int
    best: bool
    files: dict[str, dict]


def write_manifest(folder: Path, header: dict) -> None:
    """Describe every file of `folder`; the last thing written into a checkpoint."""
    files = {file.name: {"size": file.stat().st_size, "sha256": sha256_file(file)} for file in sorted(folder.iterdir())}
    manifest = {"format": FORMAT, **header, "files": files}
    manifest["manifest_sha256"] = _digest(manifest)
    (folder / MANIFEST).write_text(to_json(manifest, indent=1), encoding="utf-8")


def _digest(manifest: dict) -> str:
    """Digest of a manifest without its own digest, in canonical JSON."""
    content = {key: value for key, value in manifest.items() if key != "manifest_sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint folder. Raises UserError saying what is wrong with it."""
    file = Path(path) / MANIFEST
    if _size(file) is None:
        raise UserError(f"{path} is no checkpoint: it has no {MANIFEST}")
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        kind = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise UserError(f"{path} is of another format ({kind}), expected {FORMAT}")
    if content.get("manifest_sha256") != _digest(content):
        raise UserError(f"{file} is damaged: it does not match its own digest")
    names = ("trainer", "step", "sequence", "world_size", "best", "files")
    return Manifest(Path(path), **{name: content[name] for name in names})


def _size(file: Path) -> int | None:
    """Bytes of a file, None without one. OSError when the disk fails: what cannot be seen is not missing."""
    try:
        status = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def step_folders(folder: Path) -> list[Path]:
    """Everything that is called a checkpoint, usable or not, by step."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [Path(folder) / name for name in sorted(names) if name.startswith("step-")]


def _digest_of(file: Path) -> str:
    """sha256 of a file; a file that has not changed since this process hashed it is not read again."""
    status = file.stat()
    key = (str(file), status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in _digests:
        _digests[key] = sha256_file(file)
    return _digests[key]


def verify_checkpoint(path: Path, trainer: str | None) -> Manifest:
    """Every file against its size and sha256. Raises UserError with the first fault; `trainer` None accepts any."""
    manifest = read_manifest(path)
    if trainer is not None and manifest.trainer != trainer:
        raise UserError(f"{path} was written by {manifest.trainer}, this is {trainer}: give a checkpoint of {trainer}")
    missing = sorted(set(FILES) - set(manifest.files))
    if missing:
        raise UserError(f"{path} is incomplete: its manifest does not list {missing[0]}")
    for name, expected in manifest.files.items():
        file = Path(path) / name
        size = _size(file)
        if size is None:
            raise UserError(f"{file} is missing")
        if size != expected["size"]:
            raise UserError(f"{file} has {size:,} bytes, its manifest says {expected['size']:,}: truncated or changed")
        if _digest_of(file) != expected["sha256"]:
            raise UserError(f"{file} is corrupted: its sha256 is not the one in the manifest")
    return manifest


def readable_manifests(folder: Path) -> list[Manifest]:
    """The readable manifests of a folder; files are not verified."""
    found = []
    for path in step_folders(folder):
        try:
            found.append(read_manifest(path))
        except (UserError, OSError):
            # An unreadable one is reported where it matters, in newest_checkpoint; it is never counted or deleted here.
            continue
    return found


def forget_old(folder: Path, keep: int) -> list[str]:
    """Delete all but the newest `keep` and the newest best. Those without a readable manifest are left alone.

    Returns one line for each that could not be deleted, which is no reason to end a run.
    """
    ordered = sorted(readable_manifests(folder), key=lambda manifest: manifest.sequence, reverse=True)
    best = next((manifest.path for manifest in ordered if manifest.best), None)
    return [line for manifest in ordered[keep:] if manifest.path != best for line in discard(manifest.path)]


def newest_checkpoint(folder: Path, trainer: str) -> tuple[Manifest | None, list[str]]:
    """(newest that verifies or None, one line for each newer one that does not). OSError when the disk fails."""
    readable, reasons = {}, []
    for path in reversed(step_folders(folder)):
        try:
            manifest = read_manifest(path)
            readable[manifest.sequence] = manifest
        except UserError as error:
            reasons.append(f"skipped checkpoint {path.name}: {error}")
    for _, manifest in sorted(readable.items(), reverse=True):
        try:
            return verify_checkpoint(manifest.path, trainer), reasons
        except UserError as error:
            reasons.append(f"skipped checkpoint {manifest.path.name}: {error}")
    return None, reasons
