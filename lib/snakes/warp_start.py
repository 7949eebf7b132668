"""Starts Warp without its greeting, and without its word that there is no CUDA driver where nobody asked for one."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

import torch
import warp as wp

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
