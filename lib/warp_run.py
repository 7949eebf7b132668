"""What games in Warp kernels share: a quiet start, launches on torch's stream, recorded launches, checks of states."""

import contextlib
import ctypes
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

import torch
import warp as wp

from lib.errors import UserError

DIRECT_LAUNCH = "1.19."
"""The releases of Warp whose recorded CPU launches are called directly."""
NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"
_started = False


def start_warp() -> None:
    """Initialise Warp once; warnings and errors of its own are still shown."""
    global _started
    if _started:
        return
    _started = True
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    with without_line(NO_DRIVER) if not torch.cuda.is_available() else contextlib.nullcontext():
        wp.init()


@contextlib.contextmanager
def without_line(words: bytes) -> Iterator[None]:
    """Lines on file descriptor 2 that hold `words` are left out, all others are passed on at the end. Warp's library
    writes there directly, past Python."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        saved = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            for line in held:
                if words not in line:
                    os.write(2, line)


def torch_stream(device: torch.device):
    """Warp's work inside goes to torch's current stream, so that neither reads what the other has yet to write."""
    warp_device(device)
    start_warp()
    if device.type != "cuda":
        return contextlib.nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device)), sync_enter=False)


def launcher(command: wp.Launch, device: torch.device) -> Callable[[], object]:
    """A function that launches a recorded command, on CUDA on torch's current stream.

    On CPU it calls the compiled kernel itself: `Launch.launch` packs the one argument anew each time, which costs as
    much as the steps of 15 games. An argument structure with one member is that member; other releases of Warp than
    the one this was written for may pass arguments in another way and take the ordinary launch.
    """
    if device.type == "cuda":
        return lambda: command.launch(wp.stream_from_torch(torch.cuda.current_stream(device)))
    if not wp.__version__.startswith(DIRECT_LAUNCH) or command.block_dim > 1:
        return command.launch
    bounds, arrays = command.params
    return functools.partial(command.hooks.forward, ctypes.byref(bounds), ctypes.byref(arrays))


def warp_device(device: torch.device) -> str:
    """Warp's name of a torch device."""
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda" or not torch.cuda.is_available():
        raise UserError(f"device {device} cannot run the game: expected cpu, or cuda where torch sees a CUDA device")
    return f"cuda:{torch.cuda.current_device() if device.index is None else device.index}"


def check_count(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UserError(f"{name} is {value!r}: expected a whole number from {least} to {most}")


def signed(word: int) -> int:
    """The int32 with the bits of an unsigned 32-bit word."""
    return word - (1 << 32) if word >> 31 else word


def check_tensors(found: dict, expected: dict[str, torch.Tensor]) -> None:
    """UserError unless both hold the same names, shapes and types."""
    if not isinstance(found, dict) or set(found) != set(expected):
        names = sorted(found) if isinstance(found, dict) else type(found).__name__
        raise UserError(f"game state holds {names}: expected {sorted(expected)}; take it from get_state()")
    for name, tensor in expected.items():
        other = found[name]
        if not isinstance(other, torch.Tensor) or other.shape != tensor.shape or other.dtype != tensor.dtype:
            shape = tuple(getattr(other, "shape", ())) if isinstance(other, torch.Tensor) else type(other).__name__
            raise UserError(
                f"game state {name!r} is {shape} {getattr(other, 'dtype', '')}: expected {tuple(tensor.shape)} "
                f"{tensor.dtype}; build with the same number of games"
            )
