"""--dry-run: curriculum, memory and tokens of a run from the model's configuration, without its weights."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from policy_samples import write_export
from transformers import AutoConfig, AutoModelForCausalLM

from lib.args import parse
from lib.errors import UserError
from lib.grpo import models
from lib.grpo.continual.curriculum import make_curriculum
from lib.grpo.dry_run import alternatives, dry_run_text, plan_of
from lib.grpo.memory_plan import memory_plan
from lib.grpo.models import load_config, load_model, parse_lora
from lib.grpo.options import ALIASES, GrpoOptions, check_options

ROOT = Path(__file__).resolve().parents[3]
# The published config.json of Qwen/Qwen3-4B.
QWEN3_4B = {
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2560, "initializer_range": 0.02,
    "intermediate_size": 9728, "max_position_embeddings": 40960, "max_window_layers": 36, "model_type": "qwen3",
    "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "use_cache": True, "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
PARAMETERS, LORA_16 = 4_022_468_096, 33_030_144
THREE = make_curriculum(("airline", "retail", "telecom"), steps_per_domain=2, prompts_per_step=4, group_size=2)


@pytest.fixture
def qwen(tmp_path, monkeypatch):
    """A directory that holds only a config.json; weights must not be asked for."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    monkeypatch.setattr(models.AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights"))
    return str(tmp_path)


def options(*flags, processes: int = 1) -> GrpoOptions:
    config = parse(GrpoOptions, [*map(str, flags), "--dry-run"], ALIASES)
    check_options(config, processes)
    return config


def gigabytes(text: str, name: str) -> float:
    """The number behind a line's name in the plan."""
    line = next(line for line in text.splitlines() if line.strip().startswith(name))
    return float(line.split(name)[1].split(" GB")[0])


@pytest.mark.parametrize("processes", [1, 8])
def test_qwen3_4b_with_adapters(qwen, processes):
    flags = ["--model", qwen, "--lora", "r=16", "--group-size", 8, "--gradient_checkpointing", "--slots", 16]
    text = dry_run_text(options(*flags), processes)
    assert f"memory of each of {processes} devices: {PARAMETERS:,} parameters, {LORA_16:,} trained (LoRA 16)" in text
    assert gigabytes(text, "frozen weights") == pytest.approx(2 * PARAMETERS / 1e9, abs=0.01)
    assert gigabytes(text, "optimiser moments") == pytest.approx(8 * LORA_16 / 1e9, abs=0.01)
    # 147,456 bytes a token; without a tokenizer nothing counts as shared.
    assert gigabytes(text, "keys and values") == pytest.approx(16 * 8192 * 147_456 / 1e9, abs=0.01)
    assert "no tokenizer" in text and "\nfits: " in text and "of 80.00 GB a device" in text
    assert "128 episodes" in text and ("collectives of a step: none" in text) == (processes == 1)
    stages = [line for line in text.splitlines() if line.startswith("stage_")]
    assert [line.split(":")[0] for line in stages] == ["stage_1_airline", "stage_2_retail", "stage_3_telecom"]
    assert text.endswith("dry run: nothing was trained")


@pytest.mark.parametrize("processes", [1, 8])
def test_qwen3_4b_with_all_weights(qwen, processes):
    text = dry_run_text(options("--model", qwen, "--beta", 0, "--slots", 16), processes)
    assert f"{PARAMETERS:,} trained (all weights)" in text and "does not fit: " in text
    assert gigabytes(text, "trained weights") == pytest.approx(4 * PARAMETERS / 1e9, abs=0.01)
    assert "the engine keeps whole weights on every process" in text.splitlines()[-2]
    table = text.split("what fits 80 GB")[1].splitlines()[2:-2]
    rows = [(" ".join(line.split()[:2]), int(line.split()[2]), line.split()[3]) for line in table]
    assert rows == [("LoRA 16", 1, "none"), ("LoRA 16", 8, "none"), ("all weights", 1, "none"),
                    ("all weights", 8, "none"), ("all weights", 8, "fsdp2")]  # fmt: skip
    assert table[0].endswith("fits with --gradient_checkpointing")
    assert table[2].endswith("does not fit"), "weights, gradients and moments of 4 billion in fp32 are 64 GB already"
    assert "--config_file accelerate_configs/fsdp2.yaml" in table[3]
    assert "reduce" not in text if processes == 1 else "all-reduce of gradient buckets" in text


def test_flags_become_a_plan():
    config = options(
        "--model", "x", "--lora", "r=8,targets=q_proj+v_proj", "--slots", 12, "--max-length", 6000, "--group-size", 3,
        "--prompts_per_step", 5, "--max-turns", 4, "--max_new_tokens", 100, "--updates_per_batch", 2,
        "--minibatches", 3, "--micro_batch_tokens", 7000, "--gradient_checkpointing", "--cl", "ewc",
    )  # fmt: skip
    model = AutoConfig.for_model("qwen3", max_position_embeddings=5000)
    shape = plan_of(config, model, THREE, 4, 900)
    assert (shape.lora_rank, shape.lora_targets, shape.processes) == (8, ("q_proj", "v_proj"), 4)
    assert (shape.slots, shape.max_length, shape.shared_tokens, shape.domains) == (12, 5000, 900, 3)
    assert (shape.prompts_per_step, shape.group_size, shape.sampled_tokens) == (5, 3, 400)
    assert (shape.micro_batch_tokens, shape.updates_per_batch, shape.gradient_checkpointing) == (7000, 6, True)
    # One copy for the KL of --beta, and those of ewc.
    assert (
        shape.snapshots
        == 1 + plan_of(options("--model", "x", "--cl", "ewc", "--beta", 0), model, THREE, 1, 0).snapshots
    )
    assert plan_of(options("--model", "x", "--beta", 0), model, THREE, 1, 0).snapshots == 0
    precisions = {
        flags: plan_of(options(*flags), model, THREE, 1, 0).precision
        for flags in (("--model", "x"), ("--model", "x", "--dtype", "fp32"), ("--model", "tiny"))
    }
    assert list(precisions.values()) == ["mixed", "fp32", "fp32"]
    assert {plan.processes for plan in alternatives(config, shape)} == {1, 4}


def test_copies_are_memory(qwen):
    """A KL to the start and a method's snapshots are copies of what is trained, in its own precision."""
    config = load_config(qwen, domains=("airline",), user="scripted")[0]
    bare, kept = (
        memory_plan(config, plan_of(options("--model", qwen, *flags), config, THREE, 1, 0))
        for flags in (("--beta", 0), ("--cl", "ewc"))
    )
    assert kept.total("always") - bare.total("always") == kept.plan.snapshots * 4 * PARAMETERS


def test_a_tokenizer_counts_the_prompts(tmp_path):
    export = write_export(tmp_path / "export")
    text = dry_run_text(options("--model", export, "--domains", "airline", "--warmstart", "sft:7"), 1)
    assert "prompt of airline: 1 tokens of policy and tools, " in text and "no tokenizer" not in text
    assert "stage_0_warm_start: 7 steps" in text and "stage_0_warm_start: 0 of its steps are copying" in text


def test_the_tiny_model_is_planned_without_weights():
    config, chat = load_config("tiny:64,2", domains=("airline",), user="scripted")
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (64, 2, len(chat.tokenizer))
    model, _ = load_model("tiny:64,2", domains=("airline",), user="scripted", seed=0, dtype=torch.float32)
    found = memory_plan(config, plan_of(options("--model", "tiny:64,2"), config, THREE, 1, 1))
    assert found.sizes.parameters == sum(value.numel() for value in model.parameters())
    assert isinstance(model, AutoModelForCausalLM._model_mapping[type(config)])


def test_the_original_can_be_told_not_to_train():
    for flag, expected in (("--no-grpo", False), ("--no-use-grpo", False), ("--use-grpo", True), ("--grpo", True)):
        assert parse(GrpoOptions, [flag], ALIASES).use_grpo is expected
    assert parse(GrpoOptions, [], ALIASES).use_grpo is True


def test_num_gpus_is_planned_for_in_a_dry_run_alone():
    check_options(options("--model", "x", "--num-gpus", 8), 1)
    config = parse(GrpoOptions, ["--model", "x", "--num-gpus", "8"], ALIASES)
    with pytest.raises(UserError, match="--num-gpus 8, but 1 process started: accelerate launch --num_processes 8"):
        check_options(config, 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("empty", "holds no config.json"), ("run", "is a run: its model is .*export"), ("broken", "cannot be loaded")],
)
def test_directories_that_are_no_model(tmp_path, name, expected):
    folder = tmp_path / name
    folder.mkdir()
    if name == "run":
        (folder / "export").mkdir()
        (folder / "export" / "config.json").write_text("{}")
    if name == "broken":
        (folder / "config.json").write_text('{"model_type": "no_such_model"}')
    with pytest.raises(UserError, match=expected):
        load_config(str(folder), domains=("airline",), user="scripted")


@pytest.mark.parametrize("text", ["r=0", "rank=3", "r=x", "r=4,dropout=0.1"])
def test_adapters_that_make_no_sense(text):
    with pytest.raises(UserError, match=f"--lora {text}"):
        parse_lora(text)


def test_the_script_plans_for_eight_from_one_process(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    command = [sys.executable, "scripts/train_grpo.py", "--model", str(tmp_path), "--lora", "r=16", "--num-gpus", "8"]
    done = subprocess.run(
        [*command, "--dry-run", "--output_dir", str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "memory of each of 8 devices" in done.stdout and not (tmp_path / "run").exists()
    assert done.stdout.count("dry run: nothing was trained") == 1
