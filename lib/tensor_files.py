"""Tensors of a safetensors file, read so that they compute as the ones that were written, and faults in one line."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from lib.errors import UserError


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    """Tensors by name, on the CPU, in memory of their own. Raises UserError."""
    try:
        # Copies: a reduction over file-mapped memory, which is aligned otherwise, rounds otherwise than over our own.
        return {name: tensor.clone() for name, tensor in load_file(file).items()}
    except FileNotFoundError:
        raise UserError(f"{file} is missing on this machine: checkpoints need a folder that all machines see") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is not readable as safetensors: {' '.join(str(error).split())}") from error
