"""What a run needs on each device before it is started: memory, tokens and collectives of a step, and what to change.

A plan is arithmetic over `model_size.Sizes`; nothing is run. Keys and values, activations and log-probabilities are
upper limits of what the flags allow, the fixed parts are exact. GB are 10^9 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from transformers import PretrainedConfig

from lib.errors import UserError
from lib.grpo.learning.log_probs import GPU_LOGITS
from lib.grpo.model_size import ALL_LINEAR, Sizes, measure

BYTES = {"fp32": 4, "bf16": 2}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PRECISIONS = ("mixed", "bf16", "fp32")
# zero2: FSDP2 whose layers stay whole from forward to backward.
SHARDINGS = ("none", "fsdp2", "zero2")
# CUDA context, libraries' workspaces and what the allocator cannot use.
OVERHEAD = 3_000_000_000
# DistributedDataParallel's buckets.
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20
ALWAYS, ROLLOUT, TRAINING = "always", "rollout", "training"


@dataclass(frozen=True)
class Plan:
    """The flags that cost memory.

    `precision`: `mixed` keeps what is trained, its gradients and AdamW's moments in fp32 and computes in bf16; `bf16`
    keeps all of it in bf16, where small updates are lost; `fp32` keeps and computes all in fp32. Frozen weights are
    kept in the precision of the computation. `reference`: a KL to the start, which LoRA gets for nothing by switching
    its adapter off. `snapshots`: copies of the trained weights that a continual-learning method holds.
    `shared_tokens` (policy and tools) and `opening_tokens` (of a task) are tokens of `max_length` that a slot, or a
    group, does not need again; `micro_batch_tokens` go through the model at once.
    """

    lora_rank: int | None = None
    lora_targets: str | tuple[str, ...] = ALL_LINEAR
    processes: int = 1
    sharding: str = "none"
    precision: str = "mixed"
    gradient_checkpointing: bool = False
    reference: bool = False
    snapshots: int = 0
    slots: int = 64
    max_length: int = 8192
    shared_tokens: int = 0
    domains: int = 3
    micro_batch_tokens: int = 16384
    logits_at_once: int = GPU_LOGITS
    prompts_per_step: int = 16
    group_size: int = 8
    sampled_tokens: int = 2048
    updates_per_batch: int = 1
    device_bytes: int = 80_000_000_000

    @property
    def compute(self) -> str:
        return "fp32" if self.precision == "fp32" else "bf16"

    @property
    def trained(self) -> str:
        return "bf16" if self.precision == "bf16" else "fp32"

    @property
    def shards(self) -> int:
        return self.processes if self.sharding != "none" else 1


@dataclass(frozen=True)
class Part:
    """Bytes on one device, and when they are there."""

    name: str
    bytes: int
    when: str


@dataclass(frozen=True)
class MemoryPlan:
    """The parts of a plan on one device, and what a step does."""

    plan: Plan
    sizes: Sizes
    parts: tuple[Part, ...]

    def total(self, when: str) -> int:
        """Bytes during `rollout` or `training`, what is always there included."""
        return OVERHEAD + sum(part.bytes for part in self.parts if part.when in (ALWAYS, when))

    @cached_property
    def peak(self) -> int:
        return max(self.total(ROLLOUT), self.total(TRAINING))

    @property
    def fits(self) -> bool:
        return self.peak <= self.plan.device_bytes

    @property
    def step_tokens(self) -> dict[str, int]:
        """Tokens of a step over all processes, at most."""
        plan = self.plan
        episodes = plan.prompts_per_step * plan.group_size
        own = plan.max_length - plan.shared_tokens
        return {
            "episodes": episodes,
            "sampled": episodes * plan.sampled_tokens,
            "read": plan.domains * plan.shared_tokens + episodes * own,
        }

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a process in a pass over its share of the step, at most."""
        mine = -(-self.step_tokens["episodes"] // self.plan.processes) * (
            self.plan.max_length - self.plan.shared_tokens
        )
        return max(-(-mine // self.plan.micro_batch_tokens), 1)

    @property
    def collectives(self) -> dict[str, int]:
        """Collectives of a step by what they are for, those of the trainer's own bookkeeping left out."""
        plan, sizes = self.plan, self.sizes
        if plan.processes == 1:
            return {}
        gradient_bytes = sizes.trained * BYTES[plan.trained]
        if plan.sharding == "none":
            buckets = 1 + -(-max(gradient_bytes - FIRST_BUCKET, 0) // BUCKET)
            return {"all-reduce of gradient buckets": buckets * plan.updates_per_batch}
        units, batches = sizes.layers + 1, self.micro_batches * plan.updates_per_batch
        return {
            # One tensor after the other into the engine's whole copy (`lib.divided.copy_whole`).
            "all-gather of weights for the rollout": sizes.tensors,
            "all-gather of weights, forward and backward": (1 if plan.sharding == "zero2" else 2) * units * batches,
            "reduce-scatter of gradients": units * batches,
            "all-reduce of the gradient norm": plan.updates_per_batch,
        }


def memory_plan(config: dict | PretrainedConfig, plan: Plan) -> MemoryPlan:
    """The plan for the model of a configuration (a config.json as a dict). Raises UserError for what cannot be."""
    for name, value, known in (
        ("precision", plan.precision, PRECISIONS),
        ("sharding", plan.sharding, SHARDINGS),
    ):
        if value not in known:
            raise UserError(f"{name} {value!r}: expected {', '.join(known)}")
    if plan.shared_tokens >= plan.max_length:
        raise UserError(
            f"--max-length {plan.max_length}: policy and tools take {plan.shared_tokens} tokens already; give more"
        )
    sizes = measure(
        config,
        lora_rank=plan.lora_rank,
        lora_targets=plan.lora_targets,
        trained_dtype=DTYPES[plan.trained],
        frozen_dtype=DTYPES[plan.compute],
        autocast=torch.bfloat16 if plan.precision == "mixed" else None,
    )
    return plan_of_sizes(sizes, plan)


def plan_of_sizes(sizes: Sizes, plan: Plan) -> MemoryPlan:
    """`memory_plan` for a model that has been measured with this plan's LoRA and precision."""
    parts = [*_kept(sizes, plan), *_rollout(sizes, plan), *_training(sizes, plan)]
    return MemoryPlan(plan, sizes, tuple(part for part in parts if part.bytes))


def _kept(sizes: Sizes, plan: Plan) -> list[Part]:
    """What is there from the first step to the last; gradients are freed before the rollout."""
    compute, trained = BYTES[plan.compute], BYTES[plan.trained]
    states = sizes.trained * trained // plan.shards
    frozen = sizes.parameters * compute // plan.shards if plan.lora_rank is not None else 0
    reference = sizes.parameters * compute // plan.shards if plan.reference and plan.lora_rank is None else 0
    return [
        Part("frozen weights", frozen, ALWAYS),
        Part("trained weights", states, ALWAYS),
        Part("optimiser moments", 2 * states, ALWAYS),
        Part("reference", reference, ALWAYS),
        Part("snapshots", plan.snapshots * states, ALWAYS),
        Part("keys and values", _kv_bytes(sizes, plan), ALWAYS),
    ]


def _kv_bytes(sizes: Sizes, plan: Plan) -> int:
    """Slots for all tokens but the shared ones, which are there once for each domain. They are kept between steps."""
    tokens = plan.slots * (plan.max_length - plan.shared_tokens) + plan.domains * plan.shared_tokens
    return sizes.kv_numbers * BYTES[plan.compute] * tokens


def _rollout(sizes: Sizes, plan: Plan) -> list[Part]:
    compute = BYTES[plan.compute]
    # The engine reads the trained weights in place unless they lie elsewhere or in another precision.
    whole = plan.sharding != "none" or (plan.lora_rank is None and plan.trained != plan.compute)
    # Logits, their probabilities in fp32 and cumulative sums in fp64.
    sampling = plan.slots * sizes.vocabulary * (compute + 4 + 4 + 8)
    return [
        Part("weights for the rollout", sizes.parameters * compute if whole else 0, ALWAYS),
        Part("sampling", sampling, ROLLOUT),
    ]


def _training(sizes: Sizes, plan: Plan) -> list[Part]:
    compute, trained = BYTES[plan.compute], BYTES[plan.trained]
    tokens = plan.micro_batch_tokens
    token_bytes = sizes.layers * sizes.token_bytes
    if plan.gradient_checkpointing:
        # The input of every layer, and all of the one that is being computed again.
        token_bytes = sizes.layers * sizes.hidden * BYTES[plan.trained if plan.lora_rank is None else plan.compute]
        token_bytes += sizes.token_bytes
    # Autocast keeps copies of what it casts until the pass is over; sharded weights are cast as they are gathered.
    casts = sizes.layer_bytes * (1 if plan.gradient_checkpointing else sizes.layers) if plan.sharding == "none" else 0
    # A layer in use and the next one on its way, or all of them, with full gradients of one.
    unit = max(sizes.largest_layer, sizes.embedding)
    there = {"none": 0, "fsdp2": 2 * unit, "zero2": sizes.parameters}[plan.sharding]
    gathered = compute * (there + (unit if there and plan.lora_rank is None else 0))
    # Logits, their shifted copy and their gradient; the gradient of the output layer is summed in fp32.
    log_probs = 3 * 4 * min(plan.logits_at_once, tokens * sizes.vocabulary)
    log_probs += 4 * sizes.embedding if plan.lora_rank is None else 0
    return [
        Part("gradients", sizes.trained * trained // plan.shards, TRAINING),
        Part("weights cast to bf16", int(casts), TRAINING),
        Part("gathered layers", gathered, TRAINING),
        Part("activations", int(tokens * (token_bytes + sizes.outside_bytes)), TRAINING),
        Part("log-probabilities", log_probs, TRAINING),
    ]


def advice(found: MemoryPlan) -> list[tuple[str, MemoryPlan]]:
    """Changes that make a plan fit, each on top of those before, none of which could be spared.

    Empty when the plan fits. When nothing makes it fit, all that lower the peak; the last one shows how far they go.
    """
    chosen: list[tuple[str, dict]] = []
    now = found
    for text, change in _knobs(found.plan):
        # A later value of the same flag takes the place of the earlier one.
        others = [other for other in chosen if other[1].keys() != change.keys()]
        trial = _changed(found, [*others, (text, change)])
        if not now.fits and trial.peak < now.peak:
            chosen, now = [*others, (text, change)], trial
    for knob in list(chosen):
        others = [other for other in chosen if other is not knob]
        if now.fits and _changed(found, others).fits:
            chosen = others
    return [(text, _changed(found, chosen[: place + 1])) for place, (text, _) in enumerate(chosen)]


def _changed(found: MemoryPlan, knobs: Sequence[tuple[str, dict]]) -> MemoryPlan:
    """The plan with knobs turned. None of them changes what was measured: the LoRA and the precision."""
    plan = found.plan
    for _, change in knobs:
        plan = replace(plan, **change)
    return plan_of_sizes(found.sizes, plan)


def _knobs(plan: Plan) -> list[tuple[str, dict]]:
    """What can be turned, in the order in which it is tried."""
    knobs: list[tuple[str, dict]] = [("--gradient_checkpointing", {"gradient_checkpointing": True})]
    if plan.processes > 1 and plan.sharding != "fsdp2":
        knobs.append(("--config_file accelerate_configs/fsdp2.yaml", {"sharding": "fsdp2"}))
    if plan.micro_batch_tokens > plan.max_length:
        knobs.append((f"--micro_batch_tokens {plan.max_length}", {"micro_batch_tokens": plan.max_length}))
    knobs += [(f"--slots {slots}", {"slots": slots}) for slots in (32, 16, 8) if slots < plan.slots]
    return knobs


def plan_table(found: MemoryPlan) -> str:
    """The plan for the terminal: parts, totals, whether it fits, what to change, tokens and collectives of a step."""
    plan, sizes = found.plan, found.sizes
    what = f"LoRA {plan.lora_rank}" if plan.lora_rank is not None else "all weights"
    checkpointing = ", gradient checkpointing" if plan.gradient_checkpointing else ""
    lines = [
        f"memory of each of {plan.processes} devices: {sizes.parameters:,} parameters, {sizes.trained:,} trained"
        f" ({what}), {plan.precision}, sharding {plan.sharding}{checkpointing}"
    ]
    for part in (*found.parts, Part("context and fragments", OVERHEAD, ALWAYS)):
        lines.append(f"  {part.name:<26}{_gb(part.bytes):>10}  {part.when}")
    lines += [f"  {'in the ' + when:<26}{_gb(found.total(when)):>10}" for when in (ROLLOUT, TRAINING)]
    lines.append(_verdict(found))
    for text, changed in advice(found):
        lines.append(f"  {text}: {_gb(changed.peak)}{', fits' if changed.fits else ''}")
    tokens = found.step_tokens
    lines.append(
        f"a step, at most: {tokens['episodes']:,} episodes, {tokens['sampled']:,} tokens sampled,"
        f" {tokens['read']:,} read, {found.micro_batches} micro-batches a process"
    )
    gathered = [f"{count:,} {name}" for name, count in found.collectives.items()]
    lines.append("collectives of a step: " + (", ".join(gathered) or "none"))
    return "\n".join(lines)


def _verdict(found: MemoryPlan) -> str:
    room = f"{_gb(found.plan.device_bytes)} a device"
    if found.fits:
        return f"fits: {_gb(found.peak)} of {room}"
    changes = advice(found)
    if changes and changes[-1][1].fits:
        return f"does not fit: {_gb(found.peak)} of {room}; it does with"
    others = "more devices with --config_file accelerate_configs/fsdp2.yaml"
    others = others if found.plan.lora_rank is not None else f"--lora r=16,alpha=32, or {others}"
    return f"does not fit: {_gb(found.peak)} of {room}, nor with what follows: use {others}"


def _gb(count: float) -> str:
    return f"{count / 1e9:,.2f} GB"


def compare(config: dict | PretrainedConfig, plans: Sequence[Plan]) -> str:
    """A line for each plan: what is trained on how many devices, and whether it fits or what it needs to."""
    lines = [f"{'trained':<14}{'devices':>7}  {'sharding':<9}{'rollout':>11}{'training':>11}"]
    measured: dict[tuple, Sizes] = {}
    for plan in plans:
        key = (plan.lora_rank, plan.lora_targets, plan.precision)
        found = plan_of_sizes(measured[key], plan) if key in measured else memory_plan(config, plan)
        measured[key] = found.sizes
        what = f"LoRA {plan.lora_rank}" if plan.lora_rank is not None else "all weights"
        changes = advice(found)
        answer = "fits"
        if not found.fits:
            enough = changes and changes[-1][1].fits
            answer = "fits with " + " ".join(text for text, _ in changes) if enough else "does not fit"
        lines.append(
            f"{what:<14}{plan.processes:>7}  {plan.sharding:<9}{_gb(found.total(ROLLOUT)):>11}"
            f"{_gb(found.total(TRAINING)):>11}  {answer}"
        )
    return "\n".join(lines)
