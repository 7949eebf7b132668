"""A model that Accelerate divides over the ranks by FSDP2: whether it does, and by which layers.

What is done with the tensors of such a model is in lib/divided.py, which knows no Accelerator.
"""

from collections.abc import Iterable, Mapping

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor

from lib.divided import whole
from lib.errors import UserError


def is_divided(acc: Accelerator) -> bool:
    """Whether `acc.prepare` divides models over the ranks. Raises UserError under FSDP 1, whose parameters are flat."""
    divided = acc.distributed_type == DistributedType.FSDP
    if divided and not acc.is_fsdp2:
        raise UserError(
            "FSDP version 1 was chosen, expected version 2: set `fsdp_version: 2`, as in accelerate_configs/fsdp2.yaml"
        )
    return divided


def keeps_layers(acc: Accelerator) -> bool:
    """Whether a divided model's layers stay whole from forward to backward (ZeRO's stages 1 and 2)."""
    return is_divided(acc) and not acc.state.fsdp_plugin.reshard_after_forward


def divide_by_layers(acc: Accelerator, layers: Iterable[str]) -> None:
    """Before `acc.prepare`: FSDP2 gathers by layers of these classes, whatever the launch says of wrapping.

    Whether a layer stays whole from its forward to its backward pass is the launch's choice, `keeps_layers` tells it.
    What lies outside of them belongs to the model as a whole, and may be used without calling its own module.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    plugin = acc.state.fsdp_plugin
    plugin.auto_wrap_policy = transformer_auto_wrap_policy
    plugin.transformer_cls_names_to_wrap = list(layers)
    if acc.mixed_precision == "bf16":
        # Accelerate's own policy would round what goes in and comes out, and the sums of gradients, to bf16 too.
        plugin.mixed_precision_policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
        )


def whole_on_main(acc: Accelerator, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of all ranks, on the main process's CPU; the other ranks keep their parts. Collective."""
    found = {}
    for name, tensor in tensors.items():
        gathered = whole(tensor)
        found[name] = gathered.cpu() if acc.is_main_process else tensor
    return found
