"""The trained actor as JSON for the page: its tensors as little-endian float32 in base64, and its configuration."""

import base64

import numpy as np
import torch

from lib.snakes.network import Actor


def pack_network(actor: Actor, name: str) -> dict:
    """{name, config, tensors: {name: {shape, data}}} as assets/policy.js reads it."""
    tensors = {
        key: {"shape": list(value.shape), "data": _base64(value)} for key, value in sorted(actor.state_dict().items())
    }
    config = actor.config.to_dict() | {"mask": actor.config.masks}
    return {"name": name, "config": config, "tensors": tensors}


def _base64(tensor: torch.Tensor) -> str:
    values = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
    return base64.b64encode(values.astype(np.dtype("<f4")).tobytes()).decode("ascii")
