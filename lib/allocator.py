"""Let the C allocator of a CPU process keep the memory it has freed.

glibc gives every large block back to the kernel on free and takes fresh, zeroed pages for the next one.
A training step frees and allocates the same large tensors over and over; on CPU the page faults of that cost more than
the elementwise arithmetic itself (benchmarks/protein_throughput.py prints the step with and without).
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
TOP_PAD_BYTES = 64 << 20


def keep_freed_memory() -> bool:
    """Tell glibc to serve large blocks from its heap and to keep them; True where it was understood.

    Call it before the first large tensor. Without effect, and False, where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, TOP_PAD_BYTES))
    return all(mallopt(name, value) == 1 for name, value in wanted)
