"""The weights of a Hugging Face decoder as the engine reads them: fused projections, LoRA parts beside them.

Fused tensors are no second copy: the parameters of q, k, v (gate, up) are re-pointed into slices of one tensor, so that
optimiser steps change it in place. A copy, renewed by `refresh`, is made only where that is impossible: another
dtype is asked for, or somebody has re-pointed a parameter since (`model.to`, sharding).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib.errors import UserError

_LAYER_PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_ATTENTION_PARTS = {"q_proj", "k_proj", "v_proj", "o_proj"}
_MLP_PARTS = {"gate_proj", "up_proj", "down_proj", "act_fn"}
_PACKED_ROWS = 32  # for which the packing is best; it serves any number
_GROWING_ROPE = ("dynamic", "longrope")


def unsupported(model: nn.Module, why: str) -> UserError:
    name = type(model).__name__
    return UserError(
        f"the static engine cannot run {name} exactly ({why}); expected a Llama-like decoder; use --engine hf"
    )


class Projection:
    """One or several linear layers of equal input as one matrix product, LoRA parts added: y = x W^T + b + x A^T B^T s.

    modules: `nn.Linear` or peft's LoRA layer around one. On CPU in float32 the product is oneDNN's with weights packed
    by `refresh` (a second copy): faster than `linear` for the few rows of a decode step.
    """

    def __init__(self, modules: Sequence[nn.Module], dtype: torch.dtype) -> None:
        self.modules = list(modules)
        self.dtype = dtype
        self.base = [getattr(module, "base_layer", module) for module in self.modules]
        self.weight = self._fuse("weight")  # (outputs, inputs)
        self.bias = self._fuse("bias") if any(layer.bias is not None for layer in self.base) else None  # (outputs,)
        self.lora: tuple[Tensor, Tensor] | None = None
        on_cpu = self.weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        self.packs = on_cpu and dtype == torch.float32
        self.packed: Tensor | None = None

    def _fuse(self, name: str) -> Tensor:
        parts = [_parameter(layer, name) for layer in self.base]
        if len(parts) == 1 and parts[0].dtype == self.dtype:
            return parts[0].data
        fused = torch.cat([part.data.to(self.dtype) for part in parts])
        for part, piece in zip(parts, self._pieces(fused)):
            if isinstance(part, nn.Parameter) and part.dtype == self.dtype:
                part.data = piece
        return fused

    def _pieces(self, fused: Tensor) -> Sequence[Tensor]:
        return fused.split([layer.weight.shape[0] for layer in self.base])

    def refresh(self) -> None:
        """Takes over what the parameters hold now."""
        for name in ("weight", "bias"):
            fused = getattr(self, name)
            if fused is None:
                continue
            if len(self.base) == 1 and _parameter(self.base[0], name).dtype == self.dtype:
                setattr(self, name, _parameter(self.base[0], name).data)
                continue
            for layer, piece in zip(self.base, self._pieces(fused)):
                part = _parameter(layer, name)
                if part.data_ptr() != piece.data_ptr() or part.dtype != self.dtype:
                    piece.copy_(part.data)
        self.lora = self._lora_parts()
        if self.packs:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, _PACKED_ROWS)

    def _lora_parts(self) -> tuple[Tensor, Tensor] | None:
        """A (inputs, ranks) of all parts side by side and B (ranks, outputs) block by block, the scale in B."""
        downs, ups, start = [], [], 0
        outputs = self.weight.shape[0]
        for module, layer in zip(self.modules, self.base):
            width = layer.weight.shape[0]
            # A merged adapter lies in the base weight already.
            active = [] if module is layer or module.disable_adapters or module.merged else module.active_adapters
            for name in active:
                if name not in module.lora_A:
                    continue
                down = module.lora_A[name].weight.data.to(self.dtype)  # (rank, inputs)
                up = down.new_zeros(down.shape[0], outputs)
                up[:, start : start + width] = module.lora_B[name].weight.data.t() * module.scaling[name]
                downs.append(down)
                ups.append(up)
            start += width
        return (torch.cat(downs).t().contiguous(), torch.cat(ups)) if downs else None

    def __call__(self, x: Tensor) -> Tensor:
        """(tokens, inputs) -> (tokens, outputs)."""
        if self.packs:
            y = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        else:
            y = nn.functional.linear(x, self.weight, self.bias)
        return y if self.lora is None else y.addmm_(x @ self.lora[0], self.lora[1])

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + self(x), residual (tokens, outputs) changed in place."""
        return residual.add_(self(x))


def _parameter(layer: nn.Module, name: str) -> Tensor:
    """A parameter; zeros where one of several fused layers has no bias."""
    found = getattr(layer, name)
    return layer.weight.new_zeros(layer.weight.shape[0]) if found is None else found


@dataclass
class Norm:
    """Weight (width,) and epsilon of an RMSNorm."""

    module: nn.Module
    epsilon: float
    epsilon_tensor: Tensor
    weight: Tensor

    @classmethod
    def of(cls, module: nn.Module, dtype: torch.dtype) -> "Norm":
        epsilon = float(getattr(module, "variance_epsilon", getattr(module, "eps", None)))
        weight = module.weight.data.to(dtype)
        return cls(module, epsilon, weight.new_tensor(epsilon), weight)

    def refresh(self) -> None:
        self.weight = self.module.weight.data.to(self.weight.dtype)


class LayerWeights:
    """One decoder layer: `qkv`, `out`, `gate_up`, `down`, the norms and the facts of its attention."""

    def __init__(self, layer: nn.Module, dtype: torch.dtype) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.qkv = Projection([attention.q_proj, attention.k_proj, attention.v_proj], dtype)
        self.out = Projection([attention.o_proj], dtype)
        self.gate_up = Projection([mlp.gate_proj, mlp.up_proj], dtype)
        self.down = Projection([mlp.down_proj], dtype)
        self.before_attention = Norm.of(layer.input_layernorm, dtype)
        self.before_mlp = Norm.of(layer.post_attention_layernorm, dtype)
        self.query_norm = Norm.of(attention.q_norm, dtype) if hasattr(attention, "q_norm") else None
        self.key_norm = Norm.of(attention.k_norm, dtype) if hasattr(attention, "k_norm") else None
        self.rotates = bool(getattr(attention, "use_rope", True))
        self.head_dim = attention.head_dim
        self.kv_heads = self.qkv.base[1].weight.shape[0] // self.head_dim
        self.heads = self.qkv.base[0].weight.shape[0] // self.head_dim
        self.scale = float(attention.scaling)
        self.query_key_weight: Tensor | None = None  # (heads + kv_heads, head_dim)

    def refresh(self) -> None:
        parts = (self.qkv, self.out, self.gate_up, self.down, self.before_attention, self.before_mlp)
        for part in (*parts, self.query_norm, self.key_norm):
            if part is not None:
                part.refresh()
        if self.query_norm is not None:
            query, key = self.query_norm.weight, self.key_norm.weight
            self.query_key_weight = torch.cat([query.expand(self.heads, -1), key.expand(self.kv_heads, -1)])


def causal_lm(model: nn.Module) -> nn.Module:
    """The Hugging Face model itself, out of peft's wrapper if it is in one."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def check_structure(model: nn.Module) -> None:
    """UserError unless the modules of `model` (unwrapped) are those of a Llama-like decoder, by their structure."""
    decoder = getattr(model, "model", None)
    for name in ("embed_tokens", "layers", "norm", "rotary_emb"):
        if not hasattr(decoder, name):
            raise unsupported(model, f"it has no model.{name}")
    if not hasattr(model, "lm_head"):
        raise unsupported(model, "it has no lm_head")
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or [])
    windowed = getattr(config, "sliding_window", None) if not kinds else kinds - {"full_attention"}
    if windowed:
        raise unsupported(model, f"its attention is windowed: {windowed}")
    if getattr(decoder.rotary_emb, "rope_type", "default") in _GROWING_ROPE:
        raise unsupported(model, f"its rotary embedding is {decoder.rotary_emb.rope_type}")
    if not isinstance(decoder.embed_tokens, nn.Embedding):
        raise unsupported(model, f"its embedding is {type(decoder.embed_tokens).__name__}")
    for layer in decoder.layers:
        _check_layer(model, layer)
    _check_linear(model, model.lm_head)


def _check_layer(model: nn.Module, layer: nn.Module) -> None:
    if not _LAYER_PARTS <= _parts(layer):
        raise unsupported(model, f"{type(layer).__name__} lacks {', '.join(sorted(_LAYER_PARTS - _parts(layer)))}")
    attention, mlp = layer.self_attn, layer.mlp
    norms_of_heads = _parts(attention) & {"q_norm", "k_norm"}
    for module, expected in (
        (layer, _LAYER_PARTS),
        (attention, _ATTENTION_PARTS | ({"q_norm", "k_norm"} if norms_of_heads else set())),
        (mlp, _MLP_PARTS),
    ):
        if others := _parts(module) ^ expected:
            raise unsupported(model, f"{type(module).__name__} differs in {', '.join(sorted(others))}")
    for name in sorted(name for name in _ATTENTION_PARTS | _MLP_PARTS if name.endswith("_proj")):
        _check_linear(model, getattr(attention if name in _ATTENTION_PARTS else mlp, name))
    points = torch.linspace(-3, 3, 7)
    if not torch.equal(mlp.act_fn(points), nn.functional.silu(points)):
        raise unsupported(model, f"its activation is {type(mlp.act_fn).__name__}, not SiLU")
    head_norms = [getattr(attention, name) for name in sorted(norms_of_heads)]
    for norm in (layer.input_layernorm, layer.post_attention_layernorm, *head_norms):
        has_epsilon = hasattr(norm, "variance_epsilon") or hasattr(norm, "eps")
        if [name for name, _ in norm.named_parameters()] != ["weight"] or not has_epsilon:
            raise unsupported(model, f"{type(norm).__name__} is no RMSNorm")
    if any(norm.weight.shape != (attention.head_dim,) for norm in head_norms):
        raise unsupported(model, "its query and key norms are not per head")


def _parts(module: nn.Module) -> set[str]:
    return {name for name, _ in module.named_children()}


def _check_linear(model: nn.Module, module: nn.Module) -> None:
    base = getattr(module, "base_layer", module)
    if not isinstance(base, nn.Linear) or not base.weight.is_floating_point():
        raise unsupported(model, f"{type(base).__name__} is no plain linear layer")
    if module is base:
        return
    plain = hasattr(module, "lora_A") and not getattr(module, "lora_variant", None)
    if not plain or any(getattr(module, "lora_bias", {}).values()):
        raise unsupported(model, f"{type(module).__name__} with more than plain LoRA")
