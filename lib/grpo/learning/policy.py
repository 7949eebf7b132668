"""The model as the trainer sees it: micro-batches in, loss sums out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from lib.errors import UserError
from lib.grpo.learning.attention import NAME, packed_arguments, prepare_model
from lib.grpo.learning.log_probs import token_log_probs
from lib.grpo.learning.losses import Objective, loss_sum, no_statistics
from lib.grpo.learning.packing import PackedBatch, Sample, pack
from lib.grpo.trajectory import Trajectory

# Settings by which some models change logits after the output layer, and the value that does nothing.
LOGIT_SETTINGS = {"final_logit_softcapping": None, "logits_scaling": 1, "logit_scale": 1, "lm_head_multiplier": 1}


class Policy(nn.Module):
    """A causal language model of transformers, plain or with a peft adapter, and the loss inside its forward.

    packed: let its attention run packed rows (`prepare_model`); plain rows work with any causal model. UserError for a
    model whose output layer is not a plain linear one.
    """

    def __init__(self, model: nn.Module, packed: bool = True):
        super().__init__()
        self.model = model
        causal = causal_model(model)
        output_layer(causal)
        if packed:
            prepare_model(causal)

    def forward(
        self, batch: PackedBatch, objective: Objective, only_log_probs: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(sum of the weighted token losses, statistics) of a micro-batch, see `losses.loss_sum`; with
        `only_log_probs` the log-probabilities and entropies of its sampled tokens, (targets,) each.

        An empty batch goes through the model all the same and gives a loss of exactly 0 whose gradient is 0 for all
        parameters, so that every rank takes part in every collective.
        """
        log_probs, entropy = batch_log_probs(self.model, batch, objective.temperature)
        if only_log_probs:
            return log_probs, entropy
        if not batch.members:
            return log_probs.sum() * 0.0, no_statistics(log_probs.device)
        return loss_sum(
            objective,
            log_probs,
            entropy,
            batch.old_log_probs,
            batch.advantages,
            batch.sequence,
            len(batch.members),
            batch.rollout_log_probs,
            batch.reference_log_probs,
        )


def causal_model(model: nn.Module) -> nn.Module:
    """The transformers model inside a peft wrapper, or `model` itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def layer_classes(model: nn.Module) -> list[str]:
    """Names of the classes of the model's layers, which sharding keeps in one piece. Raises UserError without any."""
    causal = causal_model(model)
    there = {type(module).__name__ for module in causal.modules()}
    found = sorted(there.intersection(getattr(causal, "_no_split_modules", None) or ()))
    if not found:
        raise UserError(f"{causal.config.model_type} does not say what its layers are, which FSDP needs: use DDP")
    return found


def output_layer(causal: nn.Module) -> nn.Linear:
    """The layer that makes logits of hidden states; UserError where logits are more than that."""
    head = causal.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise UserError(
            f"the output layer is {type(head).__name__}, expected nn.Linear: leave it out of --lora targets"
        )
    if head.weight.dim() != 2:
        raise UserError("the output layer's weight is partitioned, expected it whole: use FSDP2")
    config = causal.config.get_text_config()
    for name, harmless in LOGIT_SETTINGS.items():
        if getattr(config, name, harmless) not in (None, harmless):
            raise UserError(
                f"{config.model_type} has {name}={getattr(config, name)}, which is not supported: use another model"
            )
    return head


def batch_log_probs(model: nn.Module, batch: PackedBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of the batch's sampled tokens, (targets,) each."""
    causal = causal_model(model)
    head = output_layer(causal)
    extra = {}
    if batch.layout is not None:
        used = causal.config.get_text_config()._attn_implementation
        assert used == NAME, (
            f"packed rows need a model with {NAME} attention, found {used}: prepare it, or pack plain rows"
        )
        extra = packed_arguments(batch.layout, batch.ids.device)
    backbone = getattr(causal, causal.base_model_prefix)
    hidden = backbone(input_ids=batch.ids, position_ids=batch.positions, use_cache=False, **extra).last_hidden_state
    predicting = hidden.flatten(0, 1).index_select(0, batch.predictors)
    return token_log_probs(predicting, head.weight, batch.targets, temperature, head.bias)


@torch.no_grad()
def verify_model(model: nn.Module, packed: bool = True, seed: int = 0) -> float:
    """Largest difference between our log-probabilities and those of the model's own logits, on two short episodes that
    share a prompt; UserError when it is more than rounding. To be called once, before the model is wrapped.

    It finds models whose layers mix tokens outside of attention, or that change their logits after the output layer.
    """
    causal = causal_model(model)
    words, device = causal.config.get_text_config().vocab_size, next(model.parameters()).device
    draw = torch.Generator().manual_seed(seed)
    prompt, *own = (torch.randint(words, (count,), generator=draw).tolist() for count in (24, 9, 14))
    trajectories = [Trajectory("", "", 0, at, prompt + ids, 8, 24, [(24, 24 + len(ids))]) for at, ids in enumerate(own)]
    batches = [each.to(device) for each in pack([Sample(each) for each in trajectories], 1000, packed)]
    training = model.training
    model.eval()
    apart = 0.0
    for trajectory, found in zip(trajectories, log_probs(model, batches, 2)):
        ids = torch.tensor([trajectory.ids], device=device)
        table = causal(input_ids=ids, use_cache=False).logits[0, 23:-1].float().log_softmax(-1)
        expected = table.gather(-1, ids[0, 24:, None])[:, 0]
        apart = max(apart, float((torch.tensor(found, device=device) - expected).abs().max()))
    model.train(training)
    bar = 1e-3 if next(model.parameters()).dtype in (torch.float32, torch.float64) else 0.25
    if not apart <= bar:
        way = "packed rows" if packed else "plain rows"
        raise UserError(
            f"{causal.config.model_type}: log-probabilities over {way} differ by {apart:.2g} from the model's own, "
            f"expected less than {bar}: " + ("train on plain rows" if packed else "use another model")
        )
    return apart


@torch.no_grad()
def log_probs(
    model: nn.Module, batches: Sequence[PackedBatch], samples: int, temperature: float = 1.0
) -> list[list[float]]:
    """Log-probabilities of the sampled tokens of each of `samples` samples that were packed into `batches`.

    For old log-probabilities, and for those of a frozen reference: another prepared model, or the same one inside
    peft's `disable_adapter()`. `model` is a causal model or a `Policy`; only the latter works while FSDP holds the
    weights, with equally many batches on all ranks (`empty_batch`). Dropout is off. Samples in no batch get an empty
    list.
    """
    found: list[list[float]] = [[] for _ in range(samples)]
    objective, training = Objective(temperature=temperature), model.training
    model.eval()
    for batch in batches:
        if isinstance(model, Policy):
            values, _ = model(batch, objective, only_log_probs=True)
        else:
            values, _ = batch_log_probs(model, batch, temperature)
        if not batch.members:
            continue
        counts = torch.bincount(batch.sequence, minlength=len(batch.members)).tolist()
        for member, part in zip(batch.members, values.float().cpu().split(counts)):
            found[member] = part.tolist()
    model.train(training)
    return found
