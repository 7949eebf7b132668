"""Tensors that FSDP2 has divided over the ranks (DTensors), and ordinary ones alike; see lib/sharding.py.

Everything here takes and gives ordinary tensors where a model is not divided.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def release(model: nn.Module) -> None:
    """Let go of the whole weights that a forward without backward has left gathered: they may be others by the next."""
    for module in model.modules():
        if hasattr(module, "set_reshard_after_forward"):  # of FSDP2 alone
            module.reshard()


def whole(tensor: Tensor) -> Tensor:
    """The tensor of all ranks. Collective where it is divided."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


@torch.no_grad()
def copy_whole(model: nn.Module, into: nn.Module) -> None:
    """Copy the parameters of `model` into the undivided `into`, which has the same. Collective where it is divided."""
    release(model)
    pairs = zip(model.named_parameters(), into.named_parameters(), strict=True)
    for (name, source), (other, target) in pairs:
        assert name == other, (name, other)
        target.copy_(whole(source.detach()))


def divided_like(tensors: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`tensors`, each as its parameter is: on its device, and divided where that is.

    A tensor is called as its parameter, or so after the last slash; others stay as they are.
    """
    found = {}
    for name, tensor in tensors.items():
        parameter = parameters.get(name, parameters.get(name.rpartition("/")[2]))
        if parameter is not None and hasattr(parameter, "full_tensor"):
            from torch.distributed.tensor import distribute_tensor

            tensor = distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)
        found[name] = tensor
    return found
