"""Structures from the RCSB file server and AlphaFold DB: whole files under final names, or nothing.

Every file is checked (length, gzip CRC, mmCIF start) in memory before it is written to a hidden sibling, fsynced and
renamed. `structures.lock.json` in the folder records what was fetched (revision date, sha256) and which ids the server
does not have; a later run skips what is complete and verified, and never asks again for what is missing. Delete an
entry of the lock file to ask again. Servers can be replaced by mirrors through the environment variables named in
SERVERS.
"""

from __future__ import annotations

import gzip
import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from lib.errors import UserError
from lib.files import TEMPORARY, disk_reason
from lib.protein.download_ids import Wanted, read_ids, wanted_structure
from lib.protein.download_lock import LockFile, checked_text, new_record
from lib.protein.rcsb_search import search
from lib.protein.transfer import GZIP_MAGIC, Answer, Client, Failed, Missing, Patience, checked_host, gunzip

LOCK_NAME = "structures.lock.json"
TELL_EVERY_S = 15.0
CONNECTIONS = 8
FAILURES_IN_A_ROW = 12  # so many different ids given up one after the other end the download
STALE_S = 3600.0  # age at which a temporary file is taken for one of a killed run


@dataclass(frozen=True)
class Server:
    """Where a kind of file comes from: the environment variable that replaces the address, the address, the path of an
    id.
    """

    variable: str
    address: str
    path: str = ""


SERVERS = {
    "pdb": Server("QUARTET_RCSB_HOST", "https://files.rcsb.org", "/download/{id}.cif.gz"),
    "afdb": Server("QUARTET_AFDB_HOST", "https://alphafold.ebi.ac.uk", "/files/{id}.cif"),
    "search": Server("QUARTET_RCSB_SEARCH_HOST", "https://search.rcsb.org"),
}
Log = Callable[[str], None]


@dataclass
class Downloaded:
    """What a download left: ids by what became of them. `failed` holds the reasons."""

    folder: Path
    host: str | None = None
    fetched: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    size_bytes: int = 0

    @property
    def files(self) -> list[Path]:
        """The complete files, sorted."""
        return [self.folder / f"{name}.cif.gz" for name in sorted(self.fetched + self.kept)]


def server(kind: str, host: str | None = None) -> str:
    """Address of a server: the given one, else the environment variable's, else the public one."""
    if host:
        return checked_host(host, "host")
    variable = SERVERS[kind].variable
    return checked_host(os.environ.get(variable) or SERVERS[kind].address, variable)


def fetch_into(
    folder: Path | str,
    *,
    ids_file: Path | str | None = None,
    query: str | None = None,
    connections: int = CONNECTIONS,
    patience: Patience | None = None,
    log: Log = print,
) -> Downloaded:
    """What `--rcsb_ids` and `--rcsb_query` ask for, complete in the folder. One process calls this.

    Raises UserError when an id could not be had for another reason than that the server lacks it: a training set is
    never smaller than asked for without a word.
    """
    assert ids_file or query, "nothing asked for"
    ids = read_ids(ids_file) if ids_file else []
    if query:
        hits = search(query, server("search"), Client(patience))
        log(f"download: --rcsb_query {query} found {len(hits):,} entries")
        ids += hits
    result = download(ids, folder, connections=connections, patience=patience, log=log)
    if result.failed:
        name, reason = next(iter(result.failed.items()))
        raise UserError(
            f"{len(result.failed):,} of {len(set(ids)):,} structures could not be downloaded ({name}: {reason}); "
            f"what is complete stays in {folder}: run the same command again to fetch the rest"
        )
    if not result.files:
        raise UserError(
            f"none of the {len(set(ids)):,} ids exists on the server ({result.missing[0]} ..); check the ids"
        )
    return result


def download(
    ids: Sequence[str],
    folder: Path | str,
    *,
    host: str | None = None,
    connections: int = CONNECTIONS,
    patience: Patience | None = None,
    log: Log = print,
) -> Downloaded:
    """Fetch structures as gzip mmCIF (<folder>/<id>.cif.gz), skipping those that are there and verify.

    ids: see `parse_id`. host: address for all of them, else by SERVERS. connections: requests at a time. Ids the server
    lacks and ids that were given up are in the result, not raised. Raises UserError: an id that is none, a folder that
    cannot be written, no connection at all (once, not per id), or FAILURES_IN_A_ROW failures.
    """
    if connections < 1:
        raise UserError(f"download with {connections} connections; expected 1 or more")
    folder = Path(folder)
    wanted = {item.id: item for item in map(wanted_structure, ids)}
    _make_folder(folder)
    lock = LockFile(folder / LOCK_NAME, log)
    result = Downloaded(folder, host)
    hosts = {kind: server(kind, host) for kind in sorted({item.kind for item in wanted.values()})}
    todo = {item: hosts[item.kind] + SERVERS[item.kind].path.format(id=item.id) for item in wanted.values()}
    todo = {item: url for item, url in todo.items() if not _already_decided(item, url, lock, result, log)}
    try:
        if todo:
            log(
                f"download: {len(todo):,} structures from {', '.join(hosts.values())}, {connections} at a time; "
                f"{len(result.kept):,} are there and verified"
            )
            _fetch_all(todo, lock, result, Client(patience), connections, log)
    finally:
        lock.write()
    log(
        f"download: {len(result.fetched):,} fetched ({result.size_bytes:,} bytes), {len(result.kept):,} kept, "
        f"{len(result.missing):,} not on the server{_names(result.missing)}, "
        f"{len(result.failed):,} failed{_names(result.failed)}"
    )
    return result


def _names(names: Iterable[str]) -> str:
    names = sorted(names)
    return f" ({', '.join(names[:5])}{', ..' if len(names) > 5 else ''})" if names else ""


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{TEMPORARY}download-*"):
            if time.time() - leftover.stat().st_mtime > STALE_S:
                leftover.unlink(missing_ok=True)
    except OSError as error:
        raise _disk_error(folder, error) from None


def _disk_error(folder: Path, error: OSError) -> UserError:
    reason = disk_reason(error) or error.strerror
    return UserError(
        f"cannot write structures in {folder}: {reason}; what is complete there stays: free space or give another "
        "--pdb_path, and run the same command again"
    )


def _already_decided(item: Wanted, url: str, lock: LockFile, result: Downloaded, log: Log) -> bool:
    """Whether nothing has to be fetched for an id: its file verifies, or this address is known not to exist."""
    path = result.folder / item.file
    if path.is_file():
        if problem := lock.verify(item.id, path):
            log(f"download: {path} {problem}; it is fetched again")
            return False
        result.kept.append(item.id)
        return True
    if lock.missing.get(item.id, {}).get("source") == url:
        result.missing.append(item.id)
        return True
    return False


def _fetch_all(
    todo: dict[Wanted, str], lock: LockFile, result: Downloaded, client: Client, connections: int, log: Log
) -> None:
    """Run the requests in threads; only this thread touches `lock` and `result`."""
    items, running, in_a_row, told = iter(todo.items()), {}, 0, time.monotonic()
    with ThreadPoolExecutor(connections, thread_name_prefix="download") as pool:
        try:
            while True:
                while len(running) < 2 * connections and (pair := next(items, None)) is not None:
                    item, url = pair
                    running[pool.submit(_fetch, item, url, result.folder, client)] = item
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    item = running.pop(future)
                    in_a_row = in_a_row + 1 if _settle(item, todo[item], future, lock, result, log) else 0
                    if in_a_row >= FAILURES_IN_A_ROW:
                        raise _given_up(result)
                if time.monotonic() - told > TELL_EVERY_S:
                    told = time.monotonic()
                    lock.write()
                    done = len(result.fetched) + len(result.missing) + len(result.failed)
                    log(f"download: {done:,} of {len(todo):,} done, {result.size_bytes:,} bytes")
        finally:
            client.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _fetch(item: Wanted, url: str, folder: Path, client: Client) -> dict:
    """In a thread: fetch, check, store. Returns the record for the lock file."""
    accept = "identity" if url.endswith(".gz") else "gzip"
    body, text = client.request(url, check=_structure, accept=accept)
    _store(folder / item.file, body)
    return new_record(item.file, body, text, url)


def _structure(answer: Answer) -> tuple[bytes, bytes]:
    """(gzip bytes to store, text) of an answer. Raises ValueError: damaged, cut, or no structure."""
    if answer.coding not in ("", "gzip", "x-gzip"):
        raise ValueError(f"content coding {answer.coding} was not asked for")
    body = answer.body
    if not body.startswith(GZIP_MAGIC):
        text = checked_text(body)
        if not answer.exact:
            raise ValueError("an uncompressed answer without length, which may be cut")
        return gzip.compress(body, compresslevel=6, mtime=0), text
    text = gunzip(body)
    if text.startswith(GZIP_MAGIC):  # a .gz file that the server compressed once more on the way
        body, text = text, gunzip(text)
    return body, checked_text(text)


def _store(path: Path, body: bytes) -> None:
    temporary = path.with_name(f"{TEMPORARY}download-{uuid.uuid4().hex}")
    try:
        with open(temporary, "wb") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise _disk_error(path.parent, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def _settle(item: Wanted, url: str, future: Future, lock: LockFile, result: Downloaded, log: Log) -> bool:
    """Book one finished request. Returns whether it failed. UserError: no connection at all, or a disk error."""
    try:
        record = future.result()
    except Missing as error:
        lock.set_missing(item.id, error.status, url)
        result.missing.append(item.id)
        return False
    except Failed as error:
        result.failed[item.id] = str(error)
        if not error.reached:
            raise _offline(item, result, error) from None
        return True
    former = lock.files.get(item.id)
    if former and former.get("revision") != record["revision"]:
        before, now = former.get("revision") or "no date", record["revision"] or "no date"
        log(f"download: {item.id} was revised: {before} -> {now}")
    lock.set_file(item.id, record)
    result.fetched.append(item.id)
    result.size_bytes += record["bytes"]
    return False


def _offline(item: Wanted, result: Downloaded, error: Failed) -> UserError:
    kind = SERVERS[item.kind]
    return UserError(
        f"cannot reach {server(item.kind, result.host)}: {error}; connect to the network, name a mirror in "
        f"{kind.variable}, or leave --rcsb_ids and --rcsb_query out to train on the structures that are there "
        f"({len(result.kept):,} of those asked for)"
    )


def _given_up(result: Downloaded) -> UserError:
    name, reason = list(result.failed.items())[-1]
    return UserError(
        f"download stopped: the last {FAILURES_IN_A_ROW} structures all failed ({name}: {reason}); "
        f"{len(result.fetched):,} fetched before stay in {result.folder}: run the same command again later"
    )
