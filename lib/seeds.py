"""Every random draw is a function of (seed, names): no hidden global state, so resume is exact.

A name says what the draw is for: `numpy_generator(seed, "mask", epoch, step, sample)`. Draws with different names are
independent, and none depends on how many processes there are unless the rank is one of the names.
"""

import operator
from hashlib import blake2b

import numpy as np
import torch

_SEED_MASK = (1 << 63) - 1


def _digest(seed: int, names: tuple, size: int) -> bytes:
    """`size` bytes of blake2b over the seed and the names, each with type and length: no two lists collide."""
    digest = blake2b(digest_size=size, person=b"quartet-seeds")
    for name in (seed, *names):
        if isinstance(name, str):
            tag, data = b"s", name.encode("utf-8")
        elif isinstance(name, bool):
            raise TypeError(f"a seed name is a str or an int, not the bool {name}")
        else:
            tag, data = b"i", str(operator.index(name)).encode("ascii")
        digest.update(tag + len(data).to_bytes(8, "little") + data)
    return digest.digest()


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed from a seed and names; the same on every machine and in every Python (never `hash()`).

    Names are `str` or integers (numpy integers too); anything else is a TypeError. `1` and `"1"` are different names.
    """
    return int.from_bytes(_digest(seed, names, 8), "little") & _SEED_MASK


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy generator (Philox, 128-bit key) for the draw called `names`."""
    key = np.frombuffer(_digest(seed, names, 16), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key))


def torch_generator(seed: int, *names: str | int, device: str | torch.device = "cpu") -> torch.Generator:
    """A torch generator on `device` for the draw called `names`."""
    return torch.Generator(device=device).manual_seed(derive(seed, *names))


def seed_global(seed: int, *names: str | int) -> None:
    """Seeds torch's global generators (CPU and every GPU) for what takes no generator: initial weights and dropout.

    Called with (seed, "weights") before the model is built, so that all ranks start equal, and with
    (seed, "dropout", step, rank) before each forward, so that a resumed run repeats the undisturbed one.
    """
    torch.manual_seed(derive(seed, *names))
