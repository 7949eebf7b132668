"""The manifest of a checkpoint: what it is, what it is made of, and whether that is still so."""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from lib.errors import UserError
from lib.files import TEMPORARY, read_json, sha256_file, to_json

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
    if not file.is_file():
        raise UserError(f"{path} is no checkpoint: it has no {MANIFEST}")
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        kind = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise UserError(f"{path} is of another format ({kind}), expected {FORMAT}")
    if content.get("manifest_sha256") != _digest(content):
        raise UserError(f"{file} is damaged: it does not match its own digest")
    names = ("trainer", "step", "sequence", "world_size", "best", "files")
    return Manifest(Path(path), **{name: content[name] for name in names})


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
        if not file.is_file():
            raise UserError(f"{file} is missing")
        size = file.stat().st_size
        if size != expected["size"]:
            raise UserError(f"{file} has {size:,} bytes, its manifest says {expected['size']:,}: truncated or changed")
        if _digest_of(file) != expected["sha256"]:
            raise UserError(f"{file} is corrupted: its sha256 is not the one in the manifest")
    return manifest


def readable_manifests(folder: Path) -> list[Manifest]:
    """The readable manifests of a folder; files are not verified."""
    found = []
    for path in sorted(folder.glob("step-*")):
        try:
            found.append(read_manifest(path))
        except UserError:
            # An unreadable one is reported where it matters, in newest_checkpoint; it is never counted or deleted here.
            continue
    return found


def forget_old(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` and the newest best. Those without a readable manifest are left alone."""
    ordered = sorted(readable_manifests(folder), key=lambda manifest: manifest.sequence, reverse=True)
    best = next((manifest.path for manifest in ordered if manifest.best), None)
    for manifest in ordered[keep:]:
        if manifest.path != best:
            # A deletion that is killed half-way must not look like a damaged checkpoint.
            leaving = manifest.path.with_name(f"{TEMPORARY}{manifest.path.name}")
            os.rename(manifest.path, leaving)
            shutil.rmtree(leaving)


def newest_checkpoint(folder: Path, trainer: str) -> tuple[Manifest | None, list[str]]:
    """(newest that verifies or None, one line for each newer one that does not)."""
    readable, reasons = {}, []
    for path in sorted(folder.glob("step-*"), reverse=True):
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
