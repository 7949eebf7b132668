"""Makes the disk of a run slow, so that what it does there can be seen, and hit, from outside."""

import os
import time


def slow_fsync(seconds: str) -> None:
    """Every os.fsync takes this much longer."""
    original = os.fsync

    def fsync(descriptor):
        time.sleep(float(seconds))
        original(descriptor)

    os.fsync = fsync
