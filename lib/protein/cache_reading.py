"""Structure files to encoded blocks, in this process or in worker processes.

A worker is `python -m lib.protein.cache_reading`: it does not import the trainer again as a multiprocessing child
would, it answers in Arrow, and when a file brings it down only that file is lost.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import gemmi
import pyarrow as pa

from lib.protein.cache_format import VERSION, encode_block, merge_blocks, pack_sources, unpack_sources
from lib.protein.cache_shards import BLOCK_BYTES
from lib.protein.data_report import summarise
from lib.protein.reading import FileResult, ReadOptions, read_file

# Raise it when read_file gives something else for the same file: caches are then made again.
READER_VERSION = 1
FILES_PER_TASK = 32
# A worker takes about a second to start; a smaller job is done sooner without.
BYTES_FOR_WORKERS = 64 << 20

Encoded = tuple[pa.RecordBatch, list[dict]]


def content_fingerprint(options: ReadOptions) -> dict:
    """Everything besides the file itself that decides what is cached for it."""
    return {
        "cache": VERSION,
        "reader": READER_VERSION,
        "gemmi": gemmi.__version__,
        "options": options.content_key(),
    }


def source_record(path: Path, root: Path) -> dict:
    """Identity of a source file: while it is unchanged, its cached chains are used again."""
    status = path.stat()
    return {"file": path.relative_to(root).as_posix(), "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def read_in_blocks(
    records: list[dict], root: Path, options: ReadOptions, workers: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[Encoded]:
    """Encoded blocks of about `block_bytes`, in the order of `records`, with the completed record of each file.

    The blocks are the same for any number of workers.
    """
    tasks = [records[start : start + FILES_PER_TASK] for start in range(0, len(records), FILES_PER_TASK)]
    if workers <= 1 or sum(record["size"] for record in records) < BYTES_FOR_WORKERS:
        return merged((_encode_task(task, root, options) for task in tasks), block_bytes)
    return merged(_from_workers(tasks, root, options, min(workers, len(tasks))), block_bytes)


def merged(parts: Iterable[Encoded], block_bytes: int) -> Iterator[Encoded]:
    """Join small blocks until they reach `block_bytes`."""
    waiting: list[Encoded] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += part[0].nbytes
        if size >= block_bytes:
            yield merge_blocks(waiting)
            waiting, size = [], 0
    if waiting:
        yield merge_blocks(waiting)


def _encode_task(records: list[dict], root: Path, options: ReadOptions) -> Encoded:
    chains, numbers, sources = [], [], []
    for record in records:
        result = read_file(root / record["file"], root, options)
        chains += result.chains
        numbers += [len(sources)] * len(result.chains)
        sources.append(_completed(record, result))
    return encode_block(chains, numbers), sources


def _completed(record: dict, result: FileResult) -> dict:
    """The source record with what was found; the sequences are in the cache itself."""
    found = summarise(result)
    return record | {key: found[key] for key in ("entries", "chains", "counts", "rejections")}


class _Worker:
    """A reading process and the tasks that were sent to it."""

    def __init__(self, root: Path, options: ReadOptions):
        self.root, self.options = root, options
        self.waiting: deque[list[dict]] = deque()
        self._start()

    def _start(self) -> None:
        # The repository may be on the path only because of where the trainer was started.
        here = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lib.protein.cache_reading"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._write({"root": str(self.root), "options": asdict(self.options)})

    def _write(self, message) -> None:
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer that does not come says the same

    def send(self, task: list[dict]) -> None:
        self.waiting.append(task)
        self._write(task)

    def receive(self) -> Encoded:
        """The answer to the oldest task. A file on which the process dies becomes a rejection."""
        task = self.waiting.popleft()
        answer = self._answer()
        if answer is not None:
            return answer
        self._restart()
        answer = merge_blocks([self._alone(record) for record in task])
        for later in self.waiting:
            self._write(later)
        return answer

    def _alone(self, record: dict) -> Encoded:
        """One file of a task on which the process died."""
        self._write([record])
        answer = self._answer()
        if answer is not None:
            return answer
        result = FileResult(record["file"])
        result.reject("unreadable", f"the reading process ended on this file (exit code {self.process.wait()})")
        self._restart()
        return encode_block([], []), [_completed(record, result)]

    def _answer(self) -> Encoded | None:
        header = self.process.stdout.read(8)
        if len(header) < 8:
            return None
        (size,) = struct.unpack("<q", header)
        data = self.process.stdout.read(size)
        if len(data) < size:
            return None
        batch, metadata = pa.ipc.open_stream(data).read_next_batch_with_custom_metadata()
        return batch, unpack_sources(metadata)

    def _restart(self) -> None:
        self.stop()
        self._start()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def _from_workers(tasks: list[list[dict]], root: Path, options: ReadOptions, count: int) -> Iterator[Encoded]:
    workers = [_Worker(root, options) for _ in range(count)]
    try:
        ahead = 2 * count  # two tasks for each worker: one is read while the other waits in the pipe
        for index in range(len(tasks) + ahead):
            worker = workers[index % count]
            if index >= ahead:
                yield worker.receive()
            if index < len(tasks):
                worker.send(tasks[index])
    finally:
        for worker in workers:
            worker.stop()


def serve() -> None:
    """The worker's side: the first line holds root and options, each further line a task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers itself
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not enter the answers
    first = json.loads(sys.stdin.readline())
    root, options = Path(first["root"]), ReadOptions(**first["options"])
    for line in sys.stdin:
        batch, sources = _encode_task(json.loads(line), root, options)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch, custom_metadata=pack_sources(sources))
        data = sink.getvalue()
        answers.write(struct.pack("<q", data.size))
        answers.write(data)
        answers.flush()


if __name__ == "__main__":
    serve()
