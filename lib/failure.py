"""One rank's error ends all ranks, with one message: what is printed, by whom, and with which exit code.

The first rank that fails writes its message to the store that the launch shares; the others see it there, say nothing
and leave with the same exit code. A rank that waits inside a collective is ended by a watching thread.
"""

import atexit
import contextlib
import errno
import json
import os
import re
import sys
import threading
import time
import traceback
from dataclasses import dataclass

import torch
import torch.distributed as dist

from lib.distributed import connect_store
from lib.errors import UserError

USER_ERROR, BUG, INTERRUPTED = 2, 1, 130
_FIRST, _COUNT, _READ = "failure/first", "failure/count", "failure/read"
_HEAD_START_S = 2.0
_WATCH_EVERY_S = 1.0
_GRACE_S = 4.0
# How far apart ranks may meet the same error and still say it once: on a busy machine they start seconds apart.
_APART_S = 20.0

_PEER_LOST = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|remote process exited|Socket closed"
    r"|NCCL communicator was aborted|recvValue failed|sendBytes failed|failed to recv|Failed to recv",
)
_TIMED_OUT = re.compile(
    r"[Tt]imed out (waiting|after)|Watchdog caught collective|[Ww]ait timeout|ran for \d+ milliseconds"
)
_NO_MEMORY = re.compile(
    r"DefaultCPUAllocator|out of memory|can't allocate memory|Cannot allocate memory", re.IGNORECASE
)
_PORT_TAKEN = re.compile(r"EADDRINUSE|[Aa]ddress already in use")

MEMORY_REMEDIES = ("batch_size", "max_tokens", "gradient_accumulation_steps", "precision", "recompute", "hidden_dim")
_REMEDY_WORDS = {
    "batch_size": "smaller --batch_size",
    "max_tokens": "smaller --max_tokens",
    "gradient_accumulation_steps": "more --gradient_accumulation_steps with smaller batches",
    "precision": "--precision bf16",
    "recompute": "--recompute",
}


@dataclass(frozen=True)
class Failure:
    """`text` is what the user reads, `code` the exit code; `echo` is true for what follows from another rank's end."""

    text: str
    code: int
    echo: bool = False


def describe(error: BaseException, config=None) -> Failure:
    """The words and the exit code for an exception that reached the top of a script."""
    if isinstance(error, UserError):
        return Failure(f"error: {one_line(error)}", USER_ERROR)
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", INTERRUPTED)
    message = str(error)
    if _is_communication(error) and _TIMED_OUT.search(message):
        waited = getattr(config, "dist_timeout", None)
        limit = "the collective timeout" if waited is None else f"--dist_timeout {waited:g} s"
        advice = (
            f"error: waited longer than {limit} for another rank: it hangs or is far slower. The stack above shows "
            "where this rank waited; raise --dist_timeout if the other one was only slow"
        )
        return Failure(_stack(error) + advice, BUG)
    if _is_communication(error) and _PEER_LOST.search(message):
        text = "error: another rank has gone without a message: killed from outside, or by the system for its memory"
        return Failure(text, BUG, echo=True)
    if _is_out_of_memory(error, message):
        return Failure(_stack(error) + _memory_advice(config), BUG)
    if _PORT_TAKEN.search(message) or getattr(error, "errno", None) == errno.EADDRINUSE:
        return Failure(f"error: {one_line(error)}. {PORT_ADVICE}", BUG)
    return Failure(_stack(error) + f"error: {type(error).__name__}: {one_line(error)}", BUG)


PORT_ADVICE = (
    "The port is taken: give `accelerate launch --main_process_port 0` (any free port) or another number, "
    "`torchrun --master_port 12356` with torchrun"
)


def one_line(error: BaseException) -> str:
    """The message of an exception with its line breaks folded into spaces."""
    return " ".join(str(error).split())


def _stack(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _is_communication(error: BaseException) -> bool:
    return isinstance(error, (dist.DistError, dist.DistBackendError)) or (
        isinstance(error, RuntimeError)
        and bool(re.search(r"gloo|NCCL|c10d|ProcessGroup|[Ss]tore|Connection", str(error)))
    )


def _is_out_of_memory(error: BaseException, message: str) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(message))


def _memory_advice(config) -> str:
    """The remedies in the order in which they cost least, limited to the flags that this trainer has."""
    names = getattr(config, "memory_remedies", MEMORY_REMEDIES)
    known = [name for name in names if config is not None and hasattr(config, name)] or ["batch_size"]
    words = [_REMEDY_WORDS.get(name, f"smaller --{name}") for name in known]
    peak = ""
    if torch.cuda.is_available():
        peak = f" (peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB on this device)"
    return f"error: out of memory{peak}. In this order: {', '.join(words)}"


def report(failure: Failure) -> int:
    """Prints the failure unless another rank has spoken for it; returns the exit code all ranks agree on.

    Ranks other than the main one give it a head start, because most errors are met by all.
    """
    rank = _number("RANK", 0)
    store = _store_or_none()
    first = None
    if store is not None:
        # Where the store has gone with the launcher: better said twice than not at all.
        with contextlib.suppress(RuntimeError, dist.DistError):
            first = _said_before(store, failure, rank)
    if first is not None:
        if not failure.echo and _last_line(first["text"]) != _last_line(failure.text):
            print(f"rank {rank} failed too: {_last_line(failure.text)}", file=sys.stderr, flush=True)
        _tell_launcher(f"ended after rank {first['rank']} failed", int(time.time()) + 1)
        return first["code"]
    _print(failure, rank)
    if store is not None:
        with contextlib.suppress(RuntimeError, dist.DistError):
            store.set(_FIRST, json.dumps({"text": failure.text, "code": failure.code, "rank": rank}))
            _let_others_read(store, rank)
    return failure.code


def _said_before(store: dist.Store, failure: Failure, rank: int) -> dict | None:
    """What another rank has said of its failure; None when this rank is the one to speak."""
    if rank != 0 or failure.echo:
        _wait_for_first(store, _HEAD_START_S)
    if store.add(_COUNT, 1) == 1 or not _wait_for_first(store, 5 * _HEAD_START_S):
        return None
    first = json.loads(store.get(_FIRST))
    store.add(_READ, 1)
    return first


def _print(failure: Failure, rank: int) -> None:
    text = (
        failure.text if rank == 0 else re.sub(r"^error: ", f"error (rank {rank}): ", failure.text, flags=re.MULTILINE)
    )
    sys.stdout.flush()
    # One write: the lines of several ranks must not mix.
    sys.stderr.write(text.rstrip() + "\n")
    sys.stderr.flush()
    _tell_launcher(text, int(time.time()))


def _last_line(text: str) -> str:
    return text.rstrip().splitlines()[-1]


def _tell_launcher(text: str, timestamp: int) -> None:
    """torchelastic's summary shows the content of this file and takes the earliest for the root cause."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    last = _last_line(text)
    details = {"py_callstack": last, "timestamp": str(timestamp)}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"message": {"message": last, "extraInfo": details}}, file)
    except OSError as error:
        print(f"the launcher's error file could not be written: {error}", file=sys.stderr)


def _let_others_read(store: dist.Store, rank: int) -> None:
    """Without torchelastic the store lives in rank 0 and dies with it."""
    if rank != 0 or _agent_store():
        return
    end = time.monotonic() + _APART_S
    while store.add(_READ, 0) < _world() - 1 and time.monotonic() < end:
        time.sleep(0.05)


def _agent_store() -> bool:
    """Whether the store lives in torchelastic's agent and outlives the ranks."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)


def _wait_for_first(store: dist.Store, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if store.check([_FIRST]):
            return True
        time.sleep(0.05)
    return False


def _number(variable: str, default: int) -> int:
    """An environment variable as a number; a text that is none has been refused elsewhere and is being reported now."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else default


def _world() -> int:
    return _number("WORLD_SIZE", 1)


def _store_or_none(timeout_s: float = 5.0) -> dist.Store | None:
    if _world() < 2 or not os.environ.get("MASTER_ADDR") or not os.environ.get("MASTER_PORT"):
        return None
    if _number("RANK", 0) == 0 and not _agent_store() and not dist.is_initialized():
        return None  # it would live in this very process, and does not
    try:
        return connect_store(timeout_s)
    except (RuntimeError, dist.DistError):
        return None


class Watch:
    """A thread that ends this process when another rank has failed and the main thread does not get away by itself."""

    def __init__(self):
        self._store = connect_store()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quartet-watch", daemon=True)

    def start(self) -> "Watch":
        self._thread.start()
        # A daemon thread inside the store's client at interpreter exit aborts the process.
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        atexit.unregister(self.stop)

    def _run(self) -> None:
        while not self._stop.wait(_WATCH_EVERY_S):
            try:
                if not self._store.check([_FIRST]):
                    continue
                code = json.loads(self._store.get(_FIRST))["code"]
            except (RuntimeError, dist.DistError):
                return
            if not self._stop.wait(_GRACE_S):
                with contextlib.suppress(RuntimeError, dist.DistError):
                    self._store.add(_READ, 1)
                os._exit(code)
