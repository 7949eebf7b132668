"""The plan for Qwen3-4B, by its published configuration, and that what it counts is what torch keeps."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lib.errors import UserError
from lib.grpo.memory_plan import (
    ALWAYS,
    OVERHEAD,
    ROLLOUT,
    TRAINING,
    Plan,
    advice,
    compare,
    memory_plan,
    plan_of_sizes,
    plan_table,
)
from lib.grpo.model_size import measure

# Qwen/Qwen3-4B: what of its config.json matters for sizes.
QWEN3_4B = {
    "model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728, "vocab_size": 151936,
    "tie_word_embeddings": True, "max_position_embeddings": 40960, "attention_bias": False, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "rope_theta": 1000000,
}  # fmt: skip
TINY = {**QWEN3_4B, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 32, "intermediate_size": 256, "vocab_size": 500}  # fmt: skip
# By hand: an embedding (also the output), 36 layers of q, k, v, o, gate, up, down, two norms of the width and two of
# the head, and the last norm.
LAYER = 2560 * 128 * (32 + 8 + 8) + 32 * 128 * 2560 + 3 * 2560 * 9728 + 2 * 2560 + 2 * 128
PARAMETERS = 151936 * 2560 + 36 * LAYER + 2560
# r x (in + out) of each of the seven linear layers.
LORA_16 = 36 * 16 * ((2560 + 4096) + 2 * (2560 + 1024) + (4096 + 2560) + 2 * (2560 + 9728) + (9728 + 2560))
KV_BYTES_A_TOKEN = 2 * 36 * 8 * 128 * 2


def parts(found) -> dict[str, int]:
    return {part.name: part.bytes for part in found.parts}


def changed(found, **change):
    """The plan with other flags, for the model as it was measured."""
    return plan_of_sizes(found.sizes, replace(found.plan, **change))


@pytest.fixture(scope="module")
def lora():
    return memory_plan(QWEN3_4B, Plan(lora_rank=16, shared_tokens=2000))


@pytest.fixture(scope="module")
def full():
    return memory_plan(QWEN3_4B, Plan(shared_tokens=2000))


def test_parameters_of_qwen3_4b(lora, full):
    assert PARAMETERS == 4_022_468_096 and LORA_16 == 33_030_144
    assert full.sizes.parameters == full.sizes.trained == lora.sizes.parameters == PARAMETERS
    assert lora.sizes.trained == LORA_16
    assert full.sizes.kv_numbers * 2 == KV_BYTES_A_TOKEN == 147_456
    assert full.sizes.largest_layer == LAYER and full.sizes.embedding == 151936 * 2560


def test_full_training_keeps_16_bytes_a_parameter(full):
    found = parts(full)
    assert found["trained weights"] == found["gradients"] == 4 * PARAMETERS
    assert found["optimiser moments"] == 8 * PARAMETERS
    assert found["weights for the rollout"] == 2 * PARAMETERS, "the engine computes in bf16"
    # Autocast's copies of the seven matrices of every layer, and not of the norms.
    assert found["weights cast to bf16"] == 2 * 36 * (LAYER - 2 * 2560 - 2 * 128)
    assert "frozen weights" not in found and "reference" not in found


def test_lora_keeps_16_bytes_an_adapter_weight_and_2_a_frozen_one(lora):
    found = parts(lora)
    assert found["frozen weights"] == 2 * PARAMETERS
    assert found["trained weights"] == found["gradients"] == 4 * LORA_16
    assert found["optimiser moments"] == 8 * LORA_16
    assert "weights for the rollout" not in found, "the engine reads the weights where they lie"


def test_slots_hold_what_is_not_shared(lora):
    assert parts(lora)["keys and values"] == KV_BYTES_A_TOKEN * (64 * (8192 - 2000) + 3 * 2000)


@pytest.mark.parametrize(("rank", "processes", "sharding"), [(16, 1, "none"), (16, 8, "none"), (None, 1, "none"),
                                                             (None, 8, "none"), (None, 8, "fsdp2")])  # fmt: skip
def test_row_13_says_what_fits_80_gb(lora, full, rank, processes, sharding):
    found = changed(lora if rank else full, processes=processes, sharding=sharding)
    assert not found.fits, "64 slots of 8,192 tokens and plain activations never do"
    text, changes = plan_table(found), advice(found)
    if (rank, processes) == (None, 1):
        assert not changes[-1][1].fits and "--lora r=16,alpha=32, or more devices" in text
        return
    assert changes[-1][1].fits and changes[-1][1].peak <= 80_000_000_000
    assert [place for place, (_, plan) in enumerate(changes) if plan.fits] == [len(changes) - 1], "none could be spared"
    assert "--gradient_checkpointing" in text
    assert ("fsdp2.yaml" in text) == ((rank, processes, sharding) == (None, 8, "none"))


def test_checkpointing_keeps_one_layer_and_the_inputs_of_all(lora):
    plain, less = parts(lora)["activations"], changed(lora, gradient_checkpointing=True)
    sizes, tokens = lora.sizes, lora.plan.micro_batch_tokens
    assert plain == pytest.approx(tokens * (36 * sizes.token_bytes + sizes.outside_bytes), abs=1)
    expected = tokens * (36 * 2560 * 2 + sizes.token_bytes + sizes.outside_bytes)
    assert parts(less)["activations"] == pytest.approx(expected, abs=1)


def test_shards_are_split_and_gathered(full):
    sharded = changed(full, processes=8, sharding="fsdp2")
    for name in ("trained weights", "gradients", "optimiser moments"):
        assert parts(sharded)[name] == parts(full)[name] // 8
    assert parts(sharded)["weights for the rollout"] == 2 * PARAMETERS
    assert parts(sharded)["gathered layers"] == 3 * 2 * 151936 * 2560, "the embedding is larger than a layer"
    assert parts(sharded)["keys and values"] == parts(full)["keys and values"], "every process plays its own"
    assert changed(full, processes=8).peak == full.peak, "without sharding nothing is"


def test_reference_and_snapshots(lora, full):
    both = {"reference": True, "snapshots": 2}
    assert parts(changed(full, **both))["reference"] == 2 * PARAMETERS
    assert parts(changed(full, **both))["snapshots"] == 2 * 4 * PARAMETERS
    assert "reference" not in parts(changed(lora, **both)), "the adapter is switched off"
    assert parts(changed(lora, **both))["snapshots"] == 2 * 4 * LORA_16


def test_precisions():
    small = parts(memory_plan(QWEN3_4B, Plan(precision="bf16")))
    assert small["trained weights"] == 2 * PARAMETERS and small["optimiser moments"] == 4 * PARAMETERS
    assert "weights cast to bf16" not in small and "weights for the rollout" not in small
    large = memory_plan(QWEN3_4B, Plan(precision="fp32"))
    assert parts(large)["keys and values"] == 2 * KV_BYTES_A_TOKEN * 64 * 8192
    assert large.sizes.token_bytes > 1.7 * memory_plan(QWEN3_4B, Plan(precision="bf16")).sizes.token_bytes


def test_phases_do_not_add_up(full):
    by_phase = {when: sum(p.bytes for p in full.parts if p.when == when) for when in (ALWAYS, ROLLOUT, TRAINING)}
    assert full.total(ROLLOUT) == OVERHEAD + by_phase[ALWAYS] + by_phase[ROLLOUT]
    assert full.peak == full.total(TRAINING) == OVERHEAD + by_phase[ALWAYS] + by_phase[TRAINING]


def test_tokens_and_collectives_of_a_step(lora, full):
    found = changed(lora, processes=8, sampled_tokens=1000, max_length=4000)
    assert found.step_tokens == {"episodes": 128, "sampled": 128_000, "read": 3 * 2000 + 128 * 2000}
    assert found.micro_batches == 2, "16 episodes of 2,000 tokens in batches of 16,384"
    # 132 MB of gradients: a first bucket of 1 MiB, then of 25 MiB.
    assert found.collectives == {"all-reduce of gradient buckets": 6}
    assert lora.collectives == {} and "collectives of a step: none" in plan_table(lora)
    sharded = changed(full, processes=8, max_length=4000, sharding="fsdp2").collectives
    assert sharded["all-gather of weights, forward and backward"] == 2 * 37 * 2
    assert sharded["reduce-scatter of gradients"] == 37 * 2
    kept = changed(full, processes=8, max_length=4000, sharding="zero2")
    assert kept.collectives["all-gather of weights, forward and backward"] == 37 * 2
    gathered = changed(full, processes=8, sharding="fsdp2")
    assert parts(kept)["gathered layers"] > parts(kept)["weights for the rollout"] > parts(gathered)["gathered layers"]
    # Of a layer: 4 projections, 2 norms of heads, 2 norms, 3 of the MLP; the embedding (tied) and the last norm.
    assert sharded["all-gather of weights for the rollout"] == 36 * 11 + 2
    adapters = changed(lora, processes=8, sharding="fsdp2").collectives
    assert adapters["all-gather of weights for the rollout"] == 36 * (11 + 2 * 7) + 2


def test_what_fits_is_left_alone():
    found = memory_plan(TINY, Plan(max_length=2048, micro_batch_tokens=4096))
    assert found.fits and advice(found) == [] and "\nfits: " in plan_table(found)


def test_comparison_has_a_line_for_each_plan():
    lines = compare(QWEN3_4B, [Plan(16), Plan(16, processes=8), Plan(), Plan(processes=8)]).splitlines()
    assert len(lines) == 5
    assert "fits with --gradient_checkpointing" in lines[1] and lines[3].endswith("does not fit")
    assert "fsdp2.yaml" in lines[4]


def test_lora_targets():
    attention = measure(TINY, lora_rank=4, lora_targets=("q_proj", "v_proj"))
    assert attention.trained == 4 * 4 * ((128 + 128) + (128 + 64))
    with pytest.raises(UserError, match="has none of them, only down_proj"):
        measure(TINY, lora_rank=4, lora_targets=("query",))


def test_adapters_are_those_that_peft_makes():
    peft = pytest.importorskip("peft")
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**TINY))
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules="all-linear"))
    trained = {name: parameter for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert measure(TINY, lora_rank=4).trained == sum(parameter.numel() for parameter in trained.values())
    # What `merging` takes for factors.
    assert all(name.replace("lora_A", "lora_B") in trained for name in trained if "lora_A" in name)
    assert all("lora_A" in name or "lora_B" in name for name in trained)


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Plan(precision="int4"), "precision 'int4'"),
        (Plan(sharding="fsdp"), "none, fsdp2"),
        (Plan(shared_tokens=9000), "give more"),
    ],
)
def test_wrong_plans(plan, text):
    with pytest.raises(UserError, match=text):
        memory_plan(TINY, plan)


@pytest.mark.parametrize("config", [{}, {"model_type": "no-such"}, {"model_type": "vit"}])
def test_what_is_no_language_model(config):
    with pytest.raises(UserError):
        measure(config)


def test_other_architectures_are_measured_too():
    llama = measure(
        {**TINY, "model_type": "llama", "tie_word_embeddings": False}, trained_dtype=torch.float32, autocast=None
    )
    real = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**{**TINY, "model_type": "llama", "tie_word_embeddings": False})
    )
    assert llama.parameters == sum(parameter.numel() for parameter in real.parameters()) and llama.token_bytes > 0


def test_saved_bytes_are_those_of_a_real_forward_pass():
    """A real model in fp32 with torch's fused attention on the CPU, all its layers: what autograd really keeps."""
    sizes = measure(TINY, trained_dtype=torch.float32, autocast=None)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**TINY), dtype=torch.float32, attn_implementation="sdpa"
    )
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def saved(tokens: int) -> int:
        kept = {}

        def keep(tensor):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = model.model(inputs_embeds=torch.randn(1, tokens, 128, requires_grad=True), use_cache=False)
        assert output.last_hidden_state.requires_grad
        return sum(storage.nbytes() for place, storage in kept.items() if place not in own)

    real = (saved(384) - saved(128)) / 256
    assert 4 * sizes.token_bytes + sizes.outside_bytes == pytest.approx(real, rel=0.03)
