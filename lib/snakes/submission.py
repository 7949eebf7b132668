"""Writes a trained team as a competition submission: one Python file that needs numpy and nothing of this project."""

import base64
import io
import textwrap
import zlib
from pathlib import Path

import numpy as np
import torch

from lib.errors import UserError
from lib.files import atomic_write_bytes, atomic_write_text
from lib.snakes.network import Actor

TEMPLATE = Path(__file__).with_name("submission_template.py")
SUBMISSION_FILE = "submission.py"
WEIGHTS_FILE = "weights.npy"
CONFIG_LINE = "CONFIG = {}\n"
WEIGHTS_LINE = 'WEIGHTS = ""\n'
LINE_CHARACTERS = 100


def export_submission(
    tensors: dict[str, torch.Tensor], config: dict, directory: str | Path, *, embed: bool = True
) -> Path:
    """Write DIRECTORY/submission.py with `my_controller`; returns its path.

    tensors and config are those of an export (lib.checkpoint.load_export). embed: weights inside the file as base64,
    else beside it in weights.npy. The file plays the arg-max of the actor, masks included. Files of these names are
    replaced. UserError when tensors and config are not of one actor, weights are not finite, or the disk refuses.
    """
    actor = Actor.from_export(tensors, config).config
    wrong = [name for name, value in tensors.items() if not bool(torch.isfinite(value).all())]
    if wrong:
        raise UserError(f"{wrong[0]} holds values that are not finite: this run diverged; export another checkpoint")
    numbers = np.concatenate([value.detach().cpu().float().reshape(-1).numpy() for value in tensors.values()])
    described = {
        "features": actor.features,
        "comm": actor.comm,
        "mask": actor.mask,
        "output": actor.output,
        "weights_file": None if embed else WEIGHTS_FILE,
        "tensors": [[name, list(value.shape)] for name, value in tensors.items()],
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    text = _replace_line(text, CONFIG_LINE, f"CONFIG = {_literal(described)}\n")
    if embed:
        encoded = base64.b64encode(zlib.compress(numbers.astype("<f4").tobytes(), 9)).decode("ascii")
        lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(encoded, LINE_CHARACTERS))
        text = _replace_line(text, WEIGHTS_LINE, f"WEIGHTS = (\n{lines}\n)\n")
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file, expected a folder to write {SUBMISSION_FILE} into: give another one")
    if not embed:
        # Before the file that reads it, so that what is in the folder can always be played.
        atomic_write_bytes(directory / WEIGHTS_FILE, _npy(numbers))
    atomic_write_text(directory / SUBMISSION_FILE, text)
    return directory / SUBMISSION_FILE


def _replace_line(text: str, line: str, replacement: str) -> str:
    assert text.count(line) == 1, f"the template holds {line!r} {text.count(line)} times"
    return text.replace(line, replacement)


def _literal(described: dict) -> str:
    """A Python literal with one key a line."""
    return "{\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in described.items()) + "}"


def _npy(numbers: np.ndarray) -> bytes:
    """The bytes of an .npy file, little-endian float32."""
    stream = io.BytesIO()
    np.save(stream, numbers.astype("<f4"), allow_pickle=False)
    return stream.getvalue()
