"""What only one rank has (its games, its replay) in a checkpoint: each rank writes its own file, side by side.

The files are staged in a hidden sibling of the checkpoint and moved into it by the main process, so that they are
covered by its manifest and appear with it or not at all.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from safetensors.torch import save_file

from lib.errors import UserError
from lib.files import SCRATCH, disk_errors
from lib.runs import on_main
from lib.tensor_files import read_tensors
from lib.training_state import Tensors, savable, size_bytes

COMMON = "common.safetensors"
OVERHEAD_BYTES = 1 << 16


def rank_file(rank: int) -> str:
    """Name of the file of one rank."""
    return f"rank-{rank:05d}.safetensors"


@contextlib.contextmanager
def staged(acc: Accelerator, final: Path, tensors: Tensors | None) -> Iterator[Callable[[Path], None]]:
    """Writes this rank's `tensors` beside `final`; yields a function with which the main process moves all ranks' files
    into a folder. Nothing is left behind, also when it fails. Collective; None on every rank stages nothing.

    Raises UserError on every rank when the disk of one is full.
    """
    if tensors is None:
        yield lambda folder: None
        return
    folder = final.with_name(f"{SCRATCH}ranks-{final.name}")
    try:
        yield _write_all(acc, folder, final, savable(tensors))
    finally:
        if acc.is_main_process:
            shutil.rmtree(folder, ignore_errors=True)


def _write_all(acc: Accelerator, folder: Path, final: Path, tensors: Tensors) -> Callable[[Path], None]:
    needed = size_bytes(tensors) + OVERHEAD_BYTES

    def make_room():
        with disk_errors(final.parent, needed, f"save {final.name}"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    on_main(acc, make_room)
    failure = ""
    try:
        with disk_errors(final.parent, needed, f"save {final.name}"):
            save_file(tensors, folder / rank_file(acc.process_index))
    except UserError as error:
        failure = str(error)
    raise_anywhere(acc, failure)

    def move(target: Path) -> None:
        for rank in range(acc.num_processes):
            os.rename(folder / rank_file(rank), target / rank_file(rank))

    return move


def load_common(acc: Accelerator, path: Path) -> Tensors:
    """What `save_checkpoint` was given as `common`, on the CPU; every process reads it. Collective."""
    return _load(acc, Path(path) / COMMON)


def load_rank(acc: Accelerator, path: Path) -> Tensors:
    """What this rank gave as `rank_tensors`, on the CPU. Only for a run of as many processes. Collective."""
    return _load(acc, Path(path) / rank_file(acc.process_index))


def _load(acc: Accelerator, file: Path) -> Tensors:
    failure, tensors = "", {}
    try:
        tensors = read_tensors(file)
    except UserError as error:
        failure = str(error)
    raise_anywhere(acc, failure)
    return tensors


def raise_anywhere(acc: Accelerator, failure: str) -> None:
    """The first process's message on all of them, so that none goes on alone."""
    if acc.num_processes > 1:
        failure = next((text for text in gather_object([failure]) if text), "")
    if failure:
        raise UserError(failure)


def with_prefix(prefix: str, tensors: Tensors) -> Tensors:
    """The tensors under `prefix.name`, to put several dicts into one."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def under_prefix(prefix: str, tensors: Tensors) -> dict[str, torch.Tensor]:
    """The part that `with_prefix` put there."""
    return {
        name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")
    }
