"""lib.sharding and lib.divided without processes; ranks that divide a model are in test_promise_grpo.py."""

from types import SimpleNamespace

import pytest
import torch
from accelerate.utils import DistributedType
from torch import nn

from lib.divided import copy_whole, divided_like, release, whole
from lib.errors import UserError
from lib.sharding import divide_by_layers, is_divided, whole_on_main


def accelerator(kind: DistributedType, second: bool = True, precision: str = "no") -> SimpleNamespace:
    return SimpleNamespace(
        distributed_type=kind,
        is_fsdp2=second,
        mixed_precision=precision,
        is_main_process=True,
        state=SimpleNamespace(
            fsdp_plugin=SimpleNamespace(mixed_precision_policy=None, reshard_after_forward="as it was")
        ),
    )


def test_who_divides():
    assert is_divided(accelerator(DistributedType.FSDP))
    assert not is_divided(accelerator(DistributedType.MULTI_GPU))
    with pytest.raises(UserError, match="fsdp_version: 2"):
        is_divided(accelerator(DistributedType.FSDP, second=False))


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_division_by_layers_keeps_the_precision_of_what_goes_in_and_out(precision):
    acc = accelerator(DistributedType.FSDP, precision=precision)
    divide_by_layers(acc, {"Layer"})
    plugin = acc.state.fsdp_plugin
    assert plugin.transformer_cls_names_to_wrap == ["Layer"] and plugin.reshard_after_forward == "as it was"
    policy = plugin.mixed_precision_policy
    if precision == "no":
        assert policy is None
    else:
        assert (policy.param_dtype, policy.reduce_dtype) == (torch.bfloat16, torch.float32)
        assert policy.output_dtype is None and not policy.cast_forward_inputs


def test_a_copy_has_the_values_in_its_own_precision_and_the_same_names():
    model, other = nn.Linear(3, 2), nn.Linear(3, 2).to(torch.float64)
    copy_whole(model, other)
    assert torch.equal(other.weight.float(), model.weight) and other.weight.dtype == torch.float64
    with pytest.raises(AssertionError, match="weight"):
        copy_whole(nn.Sequential(model), nn.Linear(3, 2))


def test_undivided_tensors_stay_as_they_are():
    model = nn.Linear(3, 2)
    release(model)
    value = torch.ones(2, 3)
    assert whole(value) is value
    assert divided_like({"snapshot/weight": value}, dict(model.named_parameters()))["snapshot/weight"] is value
    assert whole_on_main(accelerator(DistributedType.MULTI_GPU), {"weight": value})["weight"] is value
