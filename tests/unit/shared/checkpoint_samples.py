"""A small model with everything that makes saving hard, and helpers of the checkpoint and run tests."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from lib import training_state as states
from lib.args import RunArgs
from lib.errors import UserError


@dataclass
class Config(RunArgs):
    width: int = 6
    betas: tuple[float, ...] = (0.8, 0.9)


class Net(nn.Module):
    """Tied weights, a buffer, a bfloat16 part and a scalar."""

    def __init__(self, width: int = 6):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 3, bias=False)
        self.tied = nn.Linear(3, width, bias=False)
        self.tied.weight = self.first.weight
        self.low = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("count", torch.tensor(0, dtype=torch.int64))

    def forward(self, x):  # (rows, 3)
        self.count += 1
        hidden = torch.tanh(self.first(x)) + self.tied(x)
        return self.second(hidden) * self.scale + self.low.float().sum()


def build(kind=torch.optim.AdamW, width: int = 6, **options):
    torch.manual_seed(1)
    model = Net(width)
    decayed = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    rest = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [{"params": decayed, "lr": 0.01}, {"params": rest, "lr": 0.02, "named": "rest"}]
    return model, kind(groups, **options)


def train(model, optimizer, steps: range) -> None:
    for step in steps:
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))

        def closure(x=x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def bytes_of(model, optimizer) -> bytes:
    tensors = {}
    text = json.dumps(states.encode(optimizer.state_dict(), tensors, "o"), sort_keys=True)
    parts = [text.encode()]
    for name, tensor in sorted({**model.state_dict(), **tensors}.items()):
        parts.append(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        parts.append(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return b"".join(parts)


def steps_of(run) -> list[int]:
    return sorted(int(path.name[5:]) for path in run.checkpoints.iterdir())


def refused(action) -> str:
    with pytest.raises(UserError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def damage(folder: Path, name: str, how: str) -> None:
    file = folder / name
    content = bytearray(file.read_bytes())
    if how == "truncate":
        file.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "flip":
        place = max(index for index, byte in enumerate(content) if chr(byte).isalnum() or byte > 127)
        content[place] ^= 1
        file.write_bytes(content)
    else:
        file.unlink()


def in_child(action) -> int:
    """Runs `action` in a forked process; returns the signal that ended it (0: none)."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
