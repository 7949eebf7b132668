"""Looks into the ranks of a run from outside the trainer."""

import dataclasses
import json
import os
from hashlib import sha256
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from lib.local_average import Averaging


def record_forwards(folder: str) -> None:
    """Before every forward pass with gradient, write one JSON line: digests of the weights and of the data."""
    file = Path(folder, f"{os.environ['RANK']}.jsonl").open("w", encoding="utf-8")
    original, begin = DistributedDataParallel.forward, Averaging.__init__

    def record(module, args, options) -> None:
        if torch.is_grad_enabled():
            row = {"weights": digest(dict(module.named_parameters())), "data": digest([args, options])}
            file.write(json.dumps(row) + "\n")
            file.flush()

    def forward(self, *args, **options):
        record(self.module, args, options)
        return original(self, *args, **options)

    def begin_averaging(self, *args, **options):
        begin(self, *args, **options)
        if self.shared:  # the module is called without its wrapper
            self.model.register_forward_pre_hook(record, with_kwargs=True)

    DistributedDataParallel.forward, Averaging.__init__ = forward, begin_averaging


def digest(value) -> str:
    """sha256 over the tensors in nested lists, dicts and dataclasses, in order."""
    total = sha256()
    for tensor in tensors(value):
        total.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        total.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value.reshape(-1)
    elif dataclasses.is_dataclass(value):
        for entry in dataclasses.fields(value):
            yield from tensors(getattr(value, entry.name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
