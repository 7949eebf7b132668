"""What a causal language model weighs, from its configuration alone: counted on a model without storage, not guessed.

Parameters are those of the model that transformers makes of the configuration. Bytes kept for the backward pass are
those that autograd saves in a forward pass over fake tensors, at two depths and two lengths, since they grow linearly
with both. Attention is taken as a fused kernel, which saves its inputs, output and log-sum-exp.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, PretrainedConfig

from lib.errors import UserError

ATTENTION = "quartet_sizes"
ALL_LINEAR = "all-linear"
TOKENS = (64, 128)


@dataclass(frozen=True)
class Sizes:
    """Counts of numbers, except where a name says bytes.

    `trained` of the `parameters` are trained (with LoRA, the adapters alone, which `parameters` does not count).
    Bytes saved for the backward pass: `token_bytes` a token and layer, `layer_bytes` a layer whatever its tokens
    (copies of weights in another precision), `outside_bytes` a token outside of the layers. `kv_numbers`: keys and
    values of a token, over all layers.
    """

    parameters: int
    trained: int
    tensors: int  # that hold weights, adapters included
    layers: int
    hidden: int
    vocabulary: int
    kv_numbers: int
    largest_layer: int
    embedding: int
    token_bytes: float
    layer_bytes: float
    outside_bytes: float


def measure(
    config: dict | PretrainedConfig,
    *,
    lora_rank: int | None = None,
    lora_targets: str | tuple[str, ...] = ALL_LINEAR,
    trained_dtype: torch.dtype = torch.float32,
    frozen_dtype: torch.dtype = torch.bfloat16,
    autocast: torch.dtype | None = torch.bfloat16,
) -> Sizes:
    """The sizes of the model of a `config.json`. Without `lora_rank` everything is trained.

    `autocast` is the precision that a forward pass computes in while the trained weights keep theirs. Raises UserError
    for a configuration that transformers cannot make a causal language model of, and for LoRA targets without a layer.
    """
    config = _config(config)
    dtype = trained_dtype if lora_rank is None else frozen_dtype
    with torch.device("meta"):
        model = _model(config, dtype)
    body = _body(model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    trained = parameters if lora_rank is None else _add_lora(model, lora_rank, lora_targets, trained_dtype)
    layers = config.num_hidden_layers
    saved = {
        (depth, tokens): _saved_bytes(config, depth, tokens, dtype, lora_rank, lora_targets, trained_dtype, autocast)
        for depth in (1, 2)
        for tokens in TOKENS
    }
    few, many = TOKENS
    layer = {tokens: saved[2, tokens] - saved[1, tokens] for tokens in TOKENS}
    token_bytes = (layer[many] - layer[few]) / (many - few)
    outside = (saved[1, many] - saved[1, few]) / (many - few) - token_bytes
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Sizes(
        parameters=parameters,
        trained=trained,
        tensors=sum(1 for _ in model.parameters()),
        layers=layers,
        hidden=config.hidden_size,
        vocabulary=config.vocab_size,
        kv_numbers=2 * layers * heads * head_dim,
        largest_layer=max(sum(p.numel() for p in one.parameters()) for one in body.layers),
        embedding=model.get_input_embeddings().weight.numel(),
        token_bytes=token_bytes,
        layer_bytes=layer[few] - few * token_bytes,
        outside_bytes=max(outside, 0.0),
    )


def _config(config: dict | PretrainedConfig) -> PretrainedConfig:
    if isinstance(config, PretrainedConfig):
        return config.get_text_config()
    try:
        values = dict(config)
        return AutoConfig.for_model(values.pop("model_type"), **values).get_text_config()
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"no model configuration ({' '.join(str(error).split())}): expected a config.json") from None


def _model(config: PretrainedConfig, dtype: torch.dtype) -> nn.Module:
    try:
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    except ValueError as error:
        raise UserError(f"{config.model_type} is no causal language model: {str(error).splitlines()[0]}") from None
    if not hasattr(_body(model), "layers"):
        raise UserError(f"--dry_run cannot measure {config.model_type}: its model has no list `layers`")
    return model


def _body(model: nn.Module) -> nn.Module:
    return model.get_decoder()


class _Lora(nn.Module):
    """A linear layer with an adapter that is kept and fed in its own precision, as peft does it."""

    def __init__(self, base: nn.Linear, rank: int, dtype: torch.dtype):
        super().__init__()
        self.base = base
        device = base.weight.device
        self.down = nn.Linear(base.in_features, rank, bias=False, dtype=dtype, device=device)
        self.up = nn.Linear(rank, base.out_features, bias=False, dtype=dtype, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x.to(self.down.weight.dtype))).to(x.dtype)


def _add_lora(model: nn.Module, rank: int, targets: str | tuple[str, ...], dtype: torch.dtype) -> int:
    """Freeze the model and put adapters on linear layers, all but the output layer or those named; their numbers."""
    model.requires_grad_(False)
    head = model.get_output_embeddings()
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and module is not head
        and (targets == ALL_LINEAR or name.rpartition(".")[2] in targets)
    ]
    if not found:
        names = sorted({name.rpartition(".")[2] for name, one in model.named_modules() if isinstance(one, nn.Linear)})
        raise UserError(f"LoRA targets {targets}: the model has none of them, only {', '.join(names)} or {ALL_LINEAR}")
    for name, module in found:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, _Lora(module, rank, dtype))
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _saved_bytes(
    config: PretrainedConfig, depth: int, tokens: int, dtype: torch.dtype, lora_rank: int | None,
    lora_targets: str | tuple[str, ...], trained_dtype: torch.dtype, autocast: torch.dtype | None,
) -> int:  # fmt: skip
    """Bytes that a forward pass of `depth` layers over one row of `tokens` tokens keeps besides the parameters."""
    shallow = copy.deepcopy(config)
    shallow.num_hidden_layers = depth
    if getattr(shallow, "layer_types", None):
        # A model of one layer is measured at two as well.
        shallow.layer_types = (shallow.layer_types * depth)[:depth]
    cast = torch.autocast("cpu", autocast) if autocast is not None else nullcontext()
    with _fused_attention(shallow), FakeTensorMode(), cast:
        model = _model(shallow, dtype)
        if lora_rank is not None:
            _add_lora(model, lora_rank, lora_targets, trained_dtype)
        own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
        kept: dict[int, torch.UntypedStorage] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in own:
                kept[storage._cdata] = storage
            return tensor

        # Gradients have to flow through frozen layers too.
        inputs = torch.zeros(1, tokens, shallow.hidden_size, dtype=dtype, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = _body(model)(
                inputs_embeds=inputs * 1.0,
                position_ids=torch.arange(tokens)[None],
                # transformers hands a mask of four dimensions on as it is.
                attention_mask=torch.empty(1, 1, 1, 1),
                use_cache=False,
            )
        assert output.last_hidden_state.requires_grad
        return sum(storage.nbytes() for storage in kept.values())


@contextmanager
def _fused_attention(config: PretrainedConfig) -> Iterator[None]:
    AttentionInterface.register(ATTENTION, _attention)
    config._attn_implementation = ATTENTION
    yield


def _attention(module, query, key, value, attention_mask, **kwargs) -> tuple[torch.Tensor, None]:
    """query (batch, heads, tokens, head_dim), key and value with kv_heads; returns (batch, tokens, heads, head_dim)."""
    return _Attention.apply(query, key, value).transpose(1, 2), None


class _Attention(torch.autograd.Function):
    """Keeps what a fused kernel keeps, and computes nothing: no value is looked at."""

    @staticmethod
    def forward(ctx, query, key, value):
        output = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, output, query.new_empty(query.shape[:3], dtype=torch.float32))
        return output

    @staticmethod
    def backward(ctx, gradient):
        raise AssertionError("sizes are measured forward only")
