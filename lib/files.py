"""Files that are whole or absent: atomic writes, digests, strict JSON, and disk errors in one line.

Every write goes to a hidden sibling (`.quartet-tmp-...`), is fsynced and renamed; the folder is fsynced too, so that a
power cut or a `kill -9` leaves the old content or the new.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from lib.errors import UserError

# Names that nobody else gives: what carries them is deleted when a run is opened.
SCRATCH = ".quartet-tmp-"
REPLACED = ".quartet-old-"
# For rooms that write into folders of the user, under a longer name of their own; never cleaned here.
TEMPORARY = ".tmp-"
# The disk or the network failed: this says nothing about the file, which must not be taken for damaged.
TRANSIENT = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENOTCONN, errno.EHOSTDOWN}
# What to do where a run cannot be saved, besides freeing some space.
OF_A_RUN = "give another --output_dir, then continue with --resume auto"
DISK_ERRORS = {
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write",
    errno.EPERM: "no permission to write",
    errno.ENOTDIR: "a part of the path is a file",
}


def to_json(value, indent: int | None = None) -> str:
    """Strict JSON (RFC 8259). Non-finite floats become the strings "NaN", "Infinity", "-Infinity", as in proto3 JSON.

    Accepts numpy and torch scalars (anything with `.item()`), arrays (`.tolist()`), tuples, sets and paths.
    """
    return json.dumps(_json_value(value), indent=indent, allow_nan=False, ensure_ascii=False)


def _json_value(value):
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return [_json_value(item) for item in sorted(value)]
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return _json_value(value.tolist())
    raise TypeError(f"{type(value).__name__} has no JSON form: {value!r}")


def read_json(path: Path):
    """Parsed JSON. Raises UserError naming the file when it is absent or not JSON, OSError when the disk fails."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in TRANSIENT:
            raise
        raise UserError(f"{path}: not readable as JSON ({' '.join(str(error).split())})") from error


def atomic_write_bytes(path: str | Path, content: bytes) -> None:
    """Write whole or not at all.

    Raises UserError on a full or read-only disk, when `path` is a folder or device, and when its folder is a file or
    cannot be made; a former file then stays.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        # A rename would put a file in the place of a device.
        raise UserError(f"cannot write {path}: it is there and is no file")
    temporary = beside(path, SCRATCH)
    with disk_errors(path.parent, len(content), f"write {path.name}"):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError, NotADirectoryError):
            raise UserError(f"cannot write {path}: {path.parent} is no folder and cannot be made one") from None
        try:
            with open(temporary, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        fsync_directory(path.parent)


def atomic_write_text(path: str | Path, text: str) -> None:
    """`atomic_write_bytes` in UTF-8."""
    atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: str | Path, value) -> None:
    """Indented strict JSON (see `to_json`), written atomically."""
    atomic_write_text(path, to_json(value, indent=2) + "\n")


def beside(path: Path, prefix: str) -> Path:
    """A hidden sibling of `path` that does not exist yet."""
    return path.with_name(f"{prefix}{path.name}-{uuid.uuid4().hex[:8]}")


@contextlib.contextmanager
def atomic_directory(
    final: Path, needed_bytes: int, notes: list[str] | None = None, replaces: bool = True, remedy: str = OF_A_RUN
) -> Iterator[Path]:
    """Yields an empty temporary folder beside `final`; on leaving it is fsynced and takes the place of `final`.

    Without `replaces` the place has to be free or an empty folder: else UserError, and what is there stays.

    An exception removes it and leaves `final` untouched. Disk errors become UserError with the folder, the bytes needed
    and the bytes free, and what to do besides freeing some space: `remedy`. The free space is looked at first, so that
    a hopeless write does not fill the disk. A replaced folder that cannot be deleted costs a line in `notes`, not the
    write.
    """
    final = Path(final)
    temporary = beside(final, SCRATCH)
    with disk_errors(final.parent, needed_bytes, f"save {final.name}", remedy):
        final.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(final.parent).free < needed_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            temporary.mkdir()
            yield temporary
            for file in temporary.iterdir():
                fsync_file(file)
            fsync_directory(temporary)
            left = _take_place(temporary, final) if replaces else _take_free_place(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        if notes is not None:
            notes.extend(left)


def _take_place(temporary: Path, final: Path) -> list[str]:
    """Rename over `final`. A folder cannot be renamed over a full one: the old one steps aside for an instant, and
    `clean_leftovers` puts it back if the process dies in that instant."""
    if not final.exists():
        os.rename(temporary, final)
        fsync_directory(final.parent)
        return []
    aside = beside(final, REPLACED)
    os.rename(final, aside)
    try:
        os.rename(temporary, final)
    except BaseException:
        os.rename(aside, final)
        raise
    fsync_directory(final.parent)
    return discard(aside)


def _take_free_place(temporary: Path, final: Path) -> list[str]:
    """Rename onto nothing or an empty folder, which the system itself makes sure of."""
    try:
        os.rename(temporary, final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise UserError(
            f"{final} is no longer free: something was put there meanwhile, which is left as it is; give another"
            " folder, or start again to take what is there"
        ) from None
    fsync_directory(final.parent)
    return []


def discard(path: Path) -> list[str]:
    """Delete a folder or file; a line when that fails. Under a scratch name first: half deleted it looks damaged."""
    leaving = path if path.name.startswith(SCRATCH) else beside(path, SCRATCH)
    try:
        if leaving != path:
            os.rename(path, leaving)
        shutil.rmtree(leaving) if leaving.is_dir() else leaving.unlink()
    except OSError as error:
        left = leaving if leaving.exists() else path
        return [f"could not delete {left} ({error.strerror or error}), it is no longer needed: delete it yourself"]
    return []


def clean_leftovers(folder: Path) -> list[str]:
    """Remove what killed writes left in `folder`, put a replaced folder back where its successor is missing.

    Returns one line for each thing done or not possible. Only the process that owns the folder may call it.
    """
    lines = []
    if not folder.is_dir():
        return lines
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(SCRATCH):
            lines.extend(discard(entry) or [f"removed {entry}, left by a write that was killed"])
        elif entry.name.startswith(REPLACED):
            final = entry.with_name(entry.name.removeprefix(REPLACED).rpartition("-")[0])
            if final.exists():
                lines.extend(discard(entry))
                continue
            try:
                os.rename(entry, final)
                lines.append(f"put {final} back, whose replacement was killed")
            except OSError as error:
                lines.append(f"could not put {final} back from {entry.name}: {error.strerror or error}")
    return lines


@contextlib.contextmanager
def disk_errors(folder: Path, needed_bytes: int, action: str, remedy: str = OF_A_RUN) -> Iterator[None]:
    """Turn OSError of a full, read-only or forbidden disk into a one-line UserError; other errors pass."""
    try:
        yield
    except Exception as error:
        reason = disk_reason(error)
        if reason is None:
            raise
        raise UserError(disk_message(folder, needed_bytes, action, reason, remedy)) from error


def disk_reason(error: Exception) -> str | None:
    """The words for a disk error, None for any other. safetensors wraps the number in its own exception's text."""
    if isinstance(error, OSError):
        return DISK_ERRORS.get(error.errno)
    if type(error).__name__ == "SafetensorError":
        for number, words in DISK_ERRORS.items():
            if f"os error {number})" in str(error) or f"code: {number}," in str(error):
                return words
    return None


def disk_message(folder: Path, needed_bytes: int, action: str, reason: str, remedy: str = OF_A_RUN) -> str:
    """What was found, what was expected, what to do."""
    existing = Path(folder).absolute()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    return (
        f"cannot {action} in {folder}: {reason}; {needed_bytes:,} bytes are needed and {free:,} are free there; what"
        f" was saved before is untouched: free some space or {remedy}"
    )


def fsync_file(path: Path) -> None:
    """Force a file's bytes to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# A folder is opened and synced as a file is.
fsync_directory = fsync_file


def sha256_file(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
