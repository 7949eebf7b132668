"""Model and optimiser state as named tensors plus JSON, for every way of sharding; nothing here can run code when read.

The optimiser is keyed by parameter names, so that a checkpoint does not depend on parameter order or on sharding.
"""

import json
import math
import re
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn

from lib.errors import UserError

Tensors = dict[str, torch.Tensor]
WRAPPERS = re.compile(r"(^|(?<=\.))(_checkpoint_wrapped_module|_orig_mod)\.")
TENSOR, TUPLE, ITEMS, FLOAT = "$tensor", "$tuple", "$items", "$float"
# What a schedule moves, in an optimiser's groups; every other option is this run's own.
SCHEDULED = ("lr", "initial_lr")
# Options that decide which tensors an optimiser keeps: with another value its next step would miss some.
SHAPING = ("amsgrad", "centered")
# State of torch's optimisers that is as large as its parameter.
FULL_SIZE = frozenset(
    ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg", "grad_avg")
    + ("acc_delta", "sum", "prev", "ax")
)


def encode(value, tensors: Tensors, name: str):
    """A nested Python value as strict JSON; its tensors go to `tensors` under `name` and their path.

    Tuples, integer keys and non-finite floats come back as they were from `decode`. Raises TypeError for what is
    neither JSON nor a tensor, so that nothing is lost silently.
    """
    if isinstance(value, torch.Tensor):
        tensors[name] = value
        return {TENSOR: name}
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float) and type(value).__module__ == "builtins":
        return value if math.isfinite(value) else {FLOAT: str(value)}
    if type(value) is tuple:
        return {TUPLE: [encode(item, tensors, f"{name}.{index}") for index, item in enumerate(value)]}
    if type(value) is list:
        return [encode(item, tensors, f"{name}.{index}") for index, item in enumerate(value)]
    if isinstance(value, dict):
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: encode(item, tensors, f"{name}.{key}") for key, item in value.items()}
        return {ITEMS: [[encode(key, {}, ""), encode(item, tensors, f"{name}.{key}")] for key, item in value.items()]}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return encode(value.item(), tensors, name)
    raise TypeError(
        f"{name} is a {type(value).__name__}: a checkpoint holds tensors, numbers, text, lists, tuples, dicts"
    )


def decode(value, tensors: Tensors):
    """What `encode` was given."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {TENSOR}:
        return tensors[value[TENSOR]]
    if set(value) == {TUPLE}:
        return tuple(decode(item, tensors) for item in value[TUPLE])
    if set(value) == {FLOAT}:
        return float(value[FLOAT])
    if set(value) == {ITEMS}:
        return {decode(key, tensors): decode(item, tensors) for key, item in value[ITEMS]}
    return {key: decode(item, tensors) for key, item in value.items()}


def without_tensors(groups: list[dict]) -> list[dict]:
    """The saved parameter groups as they were, without the options that are tensors (a tensor learning rate)."""
    return [
        {key: decode(value, {}) for key, value in group.items() if not (isinstance(value, dict) and TENSOR in value)}
        for group in groups
    ]


def savable(tensors: Tensors) -> Tensors:
    """On the CPU, contiguous, no two sharing memory (safetensors refuses that: tied weights are written twice)."""
    seen, ready = set(), {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().to("cpu").contiguous()
        address = tensor.untyped_storage().data_ptr()
        whole = tensor.untyped_storage().nbytes() == tensor.nbytes
        if address in seen or not whole:
            tensor = tensor.clone()
        seen.add(address)
        ready[name] = tensor
    return ready


def size_bytes(tensors: Tensors) -> int:
    """Bytes of the values, without file headers."""
    return sum(tensor.nbytes for tensor in tensors.values())


def inner_optimizer(optimizer):
    """The torch optimiser inside Accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def bare_model(acc: Accelerator, model: nn.Module) -> nn.Module:
    """The user's module, without DDP and torch.compile around it."""
    return acc.unwrap_model(model, keep_torch_compile=False)


def is_sharded(acc: Accelerator, model: nn.Module) -> bool:
    """True under FSDP, where every process holds a part."""
    # Only one who shards has imported it, which takes 0.7 s.
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", ())
    sharded = any(isinstance(parameter, kind) for parameter in model.parameters())
    return sharded or acc.distributed_type == DistributedType.FSDP


def refuse_unsaveable(acc: Accelerator) -> None:
    """Raise UserError under FSDP 1, whose parameters are flat: what is saved would not be that of the model."""
    assert acc.distributed_type != DistributedType.DEEPSPEED, "lib.zero has it done by FSDP2"
    if acc.distributed_type == DistributedType.FSDP and not acc.is_fsdp2:
        raise UserError(
            "FSDP version 1 was chosen, expected version 2: set `fsdp_version: 2`, as in accelerate_configs/fsdp2.yaml"
        )


def gather_weights(acc: Accelerator, model: nn.Module) -> Tensors:
    """Full weights by name on the main process, an empty dict on the others. Collective under FSDP."""
    if is_sharded(acc, model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    else:
        state = bare_model(acc, model).state_dict()
    wrong = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    assert not wrong, f"state_dict entries that are not tensors cannot be saved: {wrong}"
    return savable(state) if acc.is_main_process else {}


def gather_optimizer(acc: Accelerator, model: nn.Module, optimizer) -> tuple[dict, Tensors]:
    """(JSON, tensors) of the optimiser, keyed by parameter name. Collective under FSDP."""
    inner, tensors = inner_optimizer(optimizer), {}
    if is_sharded(acc, model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = get_optimizer_state_dict(model, inner, options=options)
    else:
        state = _rename(inner.state_dict(), parameter_names(acc, model, inner))
    described = {"class": type(inner).__name__, "optimizer": encode(state, tensors, "optimizer")}
    if acc.scaler is not None:
        described["scaler"] = encode(acc.scaler.state_dict(), tensors, "scaler")
    return (described, savable(tensors)) if acc.is_main_process else ({}, {})


def parameter_names(acc: Accelerator, model: nn.Module, inner: torch.optim.Optimizer) -> list[str]:
    """Names in the order of the optimiser's own numbering; one that is not of the model is named by its place."""
    named = bare_model(acc, model).named_parameters()
    # Activation checkpointing and torch.compile put a module of their own into the path; state dicts leave it out.
    names = {id(parameter): WRAPPERS.sub("", name) for name, parameter in named}
    parameters = [parameter for group in inner.param_groups for parameter in group["params"]]
    return [names.get(id(parameter), f"#{index}") for index, parameter in enumerate(parameters)]


def _rename(state: dict, names: list[str]) -> dict:
    """Optimiser state_dict with names (or, the other way round, numbers) in place of its numbers."""
    # torch numbers parameters in the order of their groups; a key that is no number (LBFGS has none) stays.
    look_up = dict(enumerate(names))
    return {
        "state": {look_up.get(key, key): value for key, value in state["state"].items()},
        "param_groups": [
            {**group, "params": [look_up[number] for number in group["params"]]} for group in state["param_groups"]
        ],
    }


def check_weights(expected: nn.Module, found: Tensors, path) -> None:
    """Names, shapes and types against the model, before anything is copied. Raises UserError, naming a difference."""
    wanted = expected.state_dict()
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or extra:
        parts = [f"lacks {missing[0]} (and {len(missing) - 1} more)" if missing else ""]
        parts.append(f"has {extra[0]} (and {len(extra) - 1} more), which this model has not" if extra else "")
        raise UserError(_other_architecture(path, " and ".join(part for part in parts if part)))
    for name, tensor in wanted.items():
        here, there = (tuple(tensor.shape), tensor.dtype), (tuple(found[name].shape), found[name].dtype)
        if here != there:
            raise UserError(
                _other_architecture(path, f"has {name} as {_describe(there)}, the model as {_describe(here)}")
            )


def _describe(kind: tuple) -> str:
    return f"{'x'.join(str(size) for size in kind[0]) or 'scalar'} {str(kind[1]).removeprefix('torch.')}"


def _other_architecture(path, difference: str) -> str:
    return (
        f"{path} is of another architecture: it {difference}; resume with the options in the run's config.json,"
        " or start a new run"
    )


def check_optimizer(inner: torch.optim.Optimizer, names: list[str], described: dict, path) -> None:
    """Class, groups and parameter names against this run's optimiser. Raises UserError."""
    if described["class"] != type(inner).__name__:
        raise UserError(
            f"{path} was written with the optimiser {described['class']}, this run builds {type(inner).__name__}:"
            " resume with the same optimiser, or start a new run"
        )
    here, start = [], 0
    for group in inner.param_groups:
        here.append(names[start : start + len(group["params"])])
        start += len(group["params"])
    there = [group["params"] for group in described["optimizer"]["param_groups"]]
    if [sorted(group) for group in here] != [sorted(group) for group in there]:
        raise UserError(
            f"{path} has parameter groups of {[len(group) for group in there]} parameters, this run of"
            f" {[len(group) for group in here]} or other ones: resume with the same options, or start a new run"
        )
    for group, saved in zip(inner.param_groups, described["optimizer"]["param_groups"], strict=True):
        for option in SHAPING:
            if group.get(option) != saved.get(option):
                raise UserError(
                    f"{path} was written with the optimiser's {option} {saved.get(option)}, this run has"
                    f" {group.get(option)}: resume with the same value, or start a new run"
                )


def decode_optimizer(
    inner: torch.optim.Optimizer, names: list[str], described: dict, tensors: Tensors, path
) -> tuple[dict, dict | None]:
    """(state of the optimiser by parameter name, state of the gradient scaler or None), from what was saved.

    Raises UserError when a tensor is missing, belongs to no parameter, or has not its parameter's shape.
    """
    try:
        state = decode(described["optimizer"], tensors)
        scaler = decode(described["scaler"], tensors) if "scaler" in described else None
    except KeyError as error:
        raise UserError(f"{path}: optimizer.safetensors lacks {error}, which optimizer.json names") from error
    parameters = [parameter for group in inner.param_groups for parameter in group["params"]]
    shapes = {name: tuple(parameter.shape) for name, parameter in zip(names, parameters, strict=True)}
    for name, entries in state["state"].items():
        if not isinstance(entries, dict):
            continue
        if name not in shapes:
            raise UserError(f"{path} has optimiser state of {name}, which this run does not train: start a new run")
        for key, value in entries.items():
            if key in FULL_SIZE and isinstance(value, torch.Tensor) and tuple(value.shape) != shapes[name]:
                here, there = _describe((shapes[name], value.dtype)), _describe((tuple(value.shape), value.dtype))
                raise UserError(_other_architecture(path, f"has {key} of {name} as {there}, the model as {here}"))
    return state, scaler


def apply_weights(acc: Accelerator, model: nn.Module, weights: Tensors) -> None:
    """Copy checked weights into the model. Collective under FSDP, where only the main process needs to bring them."""
    if is_sharded(acc, model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, weights, options=options)
    else:
        bare_model(acc, model).load_state_dict(weights, strict=True)


def apply_optimizer(acc: Accelerator, model: nn.Module, optimizer, state: dict, scaler: dict | None) -> None:
    """Restore the optimiser (and the gradient scaler of fp16) from what `decode_optimizer` returned.

    The options of the groups (weight decay, betas, ...) stay those that this run built it with, but for what a schedule
    moves. Collective under FSDP, where only the main process needs to bring tensors; all bring the groups.
    """
    inner = inner_optimizer(optimizer)
    groups = [
        {**saved, **{key: value for key, value in group.items() if key not in SCHEDULED}}
        for group, saved in zip(inner.param_groups, state["param_groups"], strict=True)
    ]
    if is_sharded(acc, model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict

        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_optimizer_state_dict(model, inner, state if acc.is_main_process else {}, options=options)
        # torch's sharded loading restores options and turns tuples (betas) into lists.
        for group, wanted in zip(inner.param_groups, groups, strict=True):
            plain = {key: value for key, value in wanted.items() if not isinstance(value, torch.Tensor)}
            group.update({key: value for key, value in plain.items() if key != "params"})
    else:
        _load_by_name(inner, parameter_names(acc, model, inner), state["state"], groups)
    if acc.scaler is not None and scaler is not None:
        acc.scaler.load_state_dict(scaler)


def _load_by_name(inner: torch.optim.Optimizer, names: list[str], state: dict, groups: list[dict]) -> None:
    numbers = {name: number for number, name in enumerate(names)}
    # load_state_dict pairs parameters by position: the groups get this run's order.
    order = [group["params"] for group in inner.state_dict()["param_groups"]]
    groups = [{**group, "params": params} for group, params in zip(groups, order, strict=True)]
    by_number = {numbers.get(key, key): value for key, value in state.items()}
    inner.load_state_dict({"state": by_number, "param_groups": groups})
    # torch casts state to the parameter's type; a float32 moment of a bfloat16 weight has to stay float32.
    for parameter, number in zip((p for g in inner.param_groups for p in g["params"]), range(len(names)), strict=True):
        for key, value in by_number.get(number, {}).items():
            if isinstance(value, torch.Tensor) and inner.state[parameter][key].dtype != value.dtype:
                inner.state[parameter][key] = value.to(parameter.device, copy=True)


def strict_json(value) -> str:
    """JSON text without the non-standard NaN and Infinity (encode has already replaced them)."""
    return json.dumps(value, allow_nan=False, indent=1)
