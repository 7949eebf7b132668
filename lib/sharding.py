"""A model that FSDP2 divides over the ranks: by which layers, and whole where something needs it whole.

Tensors of a divided model are DTensors; everything here takes and gives ordinary ones where a model is not divided.
"""

from collections.abc import Iterable, Mapping

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn

from lib.errors import UserError


def is_divided(acc: Accelerator) -> bool:
    """Whether `acc.prepare` divides models over the ranks. Raises UserError under FSDP 1, whose parameters are flat."""
    divided = acc.distributed_type == DistributedType.FSDP
    if divided and not acc.is_fsdp2:
        raise UserError(
            "FSDP version 1 was chosen, expected version 2: set `fsdp_version: 2`, as in accelerate_configs/fsdp2.yaml"
        )
    return divided


def divide_by_layers(acc: Accelerator, layers: Iterable[str]) -> None:
    """Before `acc.prepare`: FSDP2 gathers one layer of these classes at a time, whatever the launch says of wrapping.

    What lies outside of them belongs to the model as a whole, and may be used without calling its own module.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    plugin = acc.state.fsdp_plugin
    plugin.auto_wrap_policy = transformer_auto_wrap_policy
    plugin.transformer_cls_names_to_wrap = list(layers)
    plugin.reshard_after_forward = True
    if acc.mixed_precision == "bf16":
        # Accelerate's own policy would round what goes in and comes out, and the sums of gradients, to bf16 too.
        plugin.mixed_precision_policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
        )


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


def whole_on_main(acc: Accelerator, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of all ranks, on the main process's CPU; the other ranks keep their parts. Collective."""
    found = {}
    for name, tensor in tensors.items():
        gathered = whole(tensor)
        found[name] = gathered.cpu() if acc.is_main_process else tensor
    return found


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
