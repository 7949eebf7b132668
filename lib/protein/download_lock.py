"""The record of a download folder: which structures were fetched, in which revision, and which the server does not
have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import gemmi

from lib.errors import UserError
from lib.files import atomic_write_json, read_json, sha256_file
from lib.protein.transfer import gunzip

LOCK_FORMAT = 1
_HISTORY = b"_pdbx_audit_revision_history."
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class LockFile:
    """JSON {"format", "files": {id: record}, "missing": {id: {"status", "asked", "source"}}}; records by `new_record`.

    A file that is no such record is reported and replaced: all it says can be found out again.
    """

    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self.path = path
        self.files: dict[str, dict] = {}
        self.missing: dict[str, dict] = {}
        if not path.exists():
            return
        try:
            content = read_json(path)
            files, missing = content["files"], content["missing"]
            records = [*files.values(), *missing.values()]
            sound = content["format"] == LOCK_FORMAT and all(isinstance(record, dict) for record in records)
        except (UserError, KeyError, TypeError, AttributeError):
            sound = False
        if sound:
            self.files, self.missing = files, missing
        else:
            log(
                f"download: {path} is no lock file of format {LOCK_FORMAT}; every file is checked, a new one is written"
            )

    def set_file(self, name: str, record: dict) -> None:
        self.files[name] = record
        self.missing.pop(name, None)

    def set_missing(self, name: str, status: int, source: str) -> None:
        """`source` is part of the fact: a mirror may lack what the archive has."""
        self.missing[name] = {"status": status, "asked": _today(), "source": source}

    def verify(self, name: str, path: Path) -> str | None:
        """None when the file is whole and the one on record; otherwise what is wrong with it.

        A whole structure that is not on record (the run was killed before it was written down) is put on record.
        """
        record = self.files.get(name)
        if record is not None:
            return None if sha256_file(path) == record.get("sha256") else "is not the file on record (sha256)"
        body = path.read_bytes()
        try:
            text = checked_text(gunzip(body))
        except ValueError as error:
            return f"is damaged ({error})"
        self.set_file(name, new_record(path.name, body, text, "found in the folder"))
        return None

    def write(self) -> None:
        """Atomically, sorted by id. Raises UserError on a disk error."""
        files, missing = dict(sorted(self.files.items())), dict(sorted(self.missing.items()))
        atomic_write_json(self.path, {"format": LOCK_FORMAT, "files": files, "missing": missing})


def new_record(file: str, body: bytes, text: bytes, source: str) -> dict:
    """What the lock file keeps of a structure: `body` as stored, `text` decompressed."""
    return {
        "file": file,
        "revision": revision_date(text),
        "sha256": hashlib.sha256(body).hexdigest(),
        "bytes": len(body),
        "source": source,
        "fetched": _today(),
    }


def checked_text(text: bytes) -> bytes:
    """The text itself when it is mmCIF with atoms; otherwise ValueError (an error page, an empty file)."""
    start = re.match(rb"(?:\s+|#[^\n]*\n)*data_", text)
    if start is None:
        raise ValueError(f"not mmCIF: {text[:24]!r} at the start")
    if b"_atom_site." not in text:
        raise ValueError("mmCIF without atoms")
    return text


def revision_date(text: bytes) -> str:
    """Date of the last revision, as 2024-02-14, from the mmCIF category pdbx_audit_revision_history; "" without one."""
    start = text.find(_HISTORY)
    if start < 0:
        return ""
    end = text.find(b"\n#", start)
    table = text[start:end] if end > 0 else text[start : start + (1 << 16)]
    in_loop = text[:start].rstrip().endswith(b"loop_")
    head = b"data_x\nloop_\n" if in_loop else b"data_x\n"
    try:
        column = gemmi.cif.read_string((head + table).decode("utf-8", "replace")).sole_block()
        dates = [gemmi.cif.as_string(value) for value in column.find_values(_HISTORY.decode() + "revision_date")]
    except (ValueError, RuntimeError):
        return ""
    return max((date for date in dates if _DATE.fullmatch(date)), default="")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
