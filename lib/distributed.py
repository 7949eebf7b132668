"""What the ranks say to each other. Every function works the same with one process and no process group.

All functions that take the Accelerator are collective: every rank calls them, in the same order, also with an empty
share.
"""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from hashlib import blake2b, sha256

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from lib.errors import UserError

_HEARTBEAT_S = 2.0
_KEY_WORDS = 2
_SLOTS = 32


def gather_rows(acc: Accelerator, rows: list) -> list:
    """The rows of all ranks as one list on every rank, rank 0 first. Empty shares are fine.

    Raises TypeError on anything but a list: Accelerate's `gather_object` would turn a dict into its keys and a string
    into its characters.
    """
    if type(rows) is not list:
        raise TypeError(f"gather_rows takes a list of rows, got {type(rows).__name__}; put the value in a list")
    return list(rows) if acc.num_processes == 1 else gather_object(rows)


def global_sums(acc: Accelerator, values: dict[str, float]) -> dict[str, float]:
    """Sums of every value over the ranks by one float64 all-reduce; the keys must be the same on all ranks.

    The order of the keys does not matter. Raises RuntimeError when the keys differ between ranks.
    """
    names = sorted(values)
    numbers = [float(values[name]) for name in names]
    if acc.num_processes == 1:
        return dict(zip(values, (float(value) for value in values.values())))
    digest = blake2b(json.dumps(names).encode(), digest_size=8).digest()
    words = [float(int.from_bytes(digest[i : i + 4], "little")) for i in (0, 4)]
    payload = words + numbers
    # Ranks with different keys would reduce buffers of different lengths, which gloo answers with an abort: a round
    # length lets the digest tell first.
    payload += [0.0] * (-len(payload) % _SLOTS)
    summed = torch.tensor(payload, dtype=torch.float64, device=acc.device)
    dist.all_reduce(summed)
    result = summed.tolist()
    if any(result[i] != words[i] * acc.num_processes for i in range(_KEY_WORDS)):
        raise RuntimeError(f"global_sums: the keys differ between ranks; rank {acc.process_index} has {names}")
    total = dict(zip(names, result[_KEY_WORDS:]))
    return {name: total[name] for name in values}


def any_rank(acc: Accelerator, flag: bool) -> bool:
    """True on every rank when the flag is true on any."""
    if acc.num_processes == 1:
        return bool(flag)
    raised = torch.tensor([int(bool(flag))], dtype=torch.int32, device=acc.device)
    dist.all_reduce(raised, op=dist.ReduceOp.MAX)
    return bool(raised.item())


def broadcast_value(acc: Accelerator, value):
    """The main process's value on every rank; what the others pass is ignored. The value is JSON-like."""
    if acc.num_processes == 1:
        return value
    box = [json.dumps(value) if acc.is_main_process else None]
    broadcast_object_list(box, from_process=0)
    return value if acc.is_main_process else json.loads(box[0])


def state_hash(module_or_state_dict) -> str:
    """sha256 (hex) over the sorted names, dtypes, shapes and bytes of all tensors of a module or a state dict.

    Equal for equal values whatever the device or memory layout. Sharded tensors are gathered, which is collective.
    """
    state = module_or_state_dict
    if isinstance(state, torch.nn.Module):
        state = state.state_dict()
    digest = sha256()
    for name in sorted(state):
        value = state[name]
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"state_hash: {name} is a {type(value).__name__}, not a tensor")
        value = value.detach()
        if hasattr(value, "full_tensor"):
            value = value.full_tensor()
        head = json.dumps([name, str(value.dtype), list(value.shape)])
        digest.update(head.encode() + b"\n")
        digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def assert_equal_across_ranks(acc: Accelerator, text: str, what: str) -> None:
    """Raises RuntimeError on every rank unless `text` is the same on all; the message names the ranks per variant."""
    variants: dict[str, list[int]] = {}
    for rank, value in enumerate(gather_rows(acc, [text])):
        variants.setdefault(value, []).append(rank)
    if len(variants) > 1:
        listed = "; ".join(f"ranks {ranks}: {value[:80]!r}" for value, ranks in variants.items())
        raise RuntimeError(f"{what} differs between ranks, expected the same on all {acc.num_processes}: {listed}")


@contextlib.contextmanager
def main_only_first(acc: Accelerator) -> Iterator[None]:
    """The main process runs the body first, then all the others do.

    However long the body takes, the others wait: it is not a collective with a timeout, they listen to the main
    process's heartbeat. When the body raises on the main process, every rank raises: the same UserError, or a
    RuntimeError with the message. A main process without heartbeat for `acc.dist_timeout_s` (set by lib.launch.start,
    else 600 s; at least three heartbeats) is given up.
    """
    if acc.num_processes == 1:
        yield
        return
    store = connect_store()
    turn = f"main_first/{_next_turn()}"
    if not acc.is_main_process:
        _await_main(store, turn, getattr(acc, "dist_timeout_s", 600.0))
        yield
        return
    finished = threading.Event()
    pulse = threading.Thread(target=_beat, args=(store, turn, finished), daemon=True)
    pulse.start()
    outcome = {"error": "RuntimeError", "message": "the main process left the section early"}
    try:
        yield
        outcome = {"error": ""}
    except BaseException as error:
        outcome = {"error": type(error).__name__, "message": str(error)}
        if isinstance(error, UserError):
            outcome["error"] = "UserError"
        raise
    finally:
        finished.set()
        pulse.join()
        store.set(f"{turn}/outcome", json.dumps(outcome))


_turns = 0


def _next_turn() -> int:
    global _turns
    _turns += 1
    return _turns


def _beat(store: dist.Store, turn: str, finished: threading.Event) -> None:
    while not finished.is_set():
        store.add(f"{turn}/beats", 1)
        finished.wait(_HEARTBEAT_S)


def _await_main(store: dist.Store, turn: str, patience_s: float) -> None:
    beats, last_change, pause_s = -1, time.monotonic(), 0.02
    # A limit below the heartbeat would give up a main process that is alive.
    patience_s = max(patience_s, 3 * _HEARTBEAT_S)
    while not store.check([f"{turn}/outcome"]):
        now = store.add(f"{turn}/beats", 0)
        if now != beats:
            beats, last_change = now, time.monotonic()
        elif time.monotonic() - last_change > patience_s:
            raise RuntimeError(f"no sign of life from the main process for {patience_s:g} s (--dist_timeout)")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)
    outcome = json.loads(store.get(f"{turn}/outcome"))
    if outcome["error"] == "UserError":
        raise UserError(outcome["message"])
    if outcome["error"]:
        raise RuntimeError(f"the main process failed: {outcome['error']}: {outcome['message']}")


def connect_store(timeout_s: float = 30.0) -> dist.Store:
    """A new connection to the key-value store that all ranks of this launch reach at MASTER_ADDR:MASTER_PORT.

    It is there before the process group and independent of it; one connection belongs to one thread.
    """
    environ = os.environ
    store = dist.TCPStore(
        environ["MASTER_ADDR"],
        int(environ["MASTER_PORT"]),
        is_master=False,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout_s),
    )
    launch = f"{environ.get('TORCHELASTIC_RUN_ID', '')}/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    return dist.PrefixStore(f"quartet/{launch}", store)
