"""Bad input of the GRPO trainer: what is given, and what has to be said about it."""

import json
import shutil
from pathlib import Path

import torch
from trainer_case import BadInput
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from lib.grpo.chat.tiny import build_tokenizer

DOMAINS = ("airline", "retail")
RUNS = ("runs/*",)


def small_model(folder: Path) -> None:
    """A Qwen3 of 32 units in one layer and the vocabulary of the generated worlds."""
    tokenizer = build_tokenizer(DOMAINS)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(small_config(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def small_config(tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=64,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.05,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )


def copied_model(folder: Path, data: Path) -> Path:
    shutil.copytree(data / "model", folder / "model")
    return folder / "model"


def without_tokenizer(folder: Path, data: Path) -> None:
    model = copied_model(folder, data)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (model / name).unlink()


def without_template(folder: Path, data: Path) -> None:
    (copied_model(folder, data) / "chat_template.jinja").unlink()


def forgetful_template(folder: Path, data: Path) -> None:
    """What was said is rendered in another way once more follows: thinking that is left out of the history, say."""
    (copied_model(folder, data) / "chat_template.jinja").write_text(
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] if loop.last else "
        "message['content'][:3] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
        "{% endif %}"
    )


def without_weights(folder: Path, data: Path) -> None:
    (copied_model(folder, data) / "model.safetensors").unlink()


def empty_folder(folder: Path, data: Path) -> None:
    (folder / "model").mkdir()


def foreign_tasks(folder: Path, data: Path) -> None:
    row = {"set": "train", "domain": "retail", "id": "x", "template": "cancel_order", "seed": 1, "level": 0}
    (folder / "tasks.jsonl").write_text(json.dumps(row) + "\n")


def torn_tasks(folder: Path, data: Path) -> None:
    (folder / "tasks.jsonl").write_text('{"set": "train", "domain"\n')


def configuration(folder: Path, data: Path) -> None:
    (folder / "run.yaml").write_text("group_sizes: 8\n")


def place_run(folder: Path, data: Path) -> None:
    """A folder in which something was trained."""
    (folder / "old").mkdir()
    (folder / "old" / "metrics.jsonl").write_text('{"step": 1, "loss": 3.0}\n')


HERE = "--model model"

BAD_INPUTS = (
    BadInput("a world that was not launched", "--num-gpus 5", ("--num-gpus 5", "accelerate launch --num_processes 5")),
    # The model.
    BadInput("no such model", "--model nowhere/at/all", ("--model nowhere/at/all", "a directory or a hub id")),
    BadInput("an empty folder", HERE, ("--model model", "no config.json"), empty_folder),
    BadInput("no tokenizer", HERE, ("--model model", "no tokenizer"), without_tokenizer),
    BadInput("no chat template", f"{HERE} --chat_template model", ("chat template", "--chat-template"),
             without_template),
    BadInput("a template that rewrites history", f"{HERE} --chat_template model", ("chat template", "rewrites"),
             forgetful_template),
    BadInput("no weights", HERE, ("--model model", "cannot be loaded"), without_weights),
    BadInput("a width that is none", "--model tiny:100", ("--model tiny:100", "multiple of 64")),
    BadInput("a context that is too long", "--max_length 5000", ("--max-length 5000", "at most 1024"), good_data=True),
    BadInput("adapters of nothing", "--lora rank=8", ("--lora", "'rank=8'", "r=16"), good_data=True),
    BadInput("adapters of a tiny model", "--model tiny --lora r=8", ("--lora with --model tiny", "drop --lora")),
    # Tasks.
    BadInput("unknown domain", "--domains airline,banking", ("--domains", "'banking'", "airline, retail, telecom")),
    BadInput("a domain twice", "--domains retail,retail", ("--domains retail,retail", "each once"), good_data=True),
    BadInput("unknown template", "--templates airline=fly", ("airline has no template 'fly'", "cancel_sick"),
             good_data=True),
    BadInput("template of another domain", "--templates telecom=refuel", ("telecom", "not among --domains"),
             good_data=True),
    BadInput("unknown level", "--level 9", ("level 9", "0, 1, 2, 3, 4"), good_data=True),
    BadInput("no level", "--level hard", ("--level hard", "2 or 1,2")),
    BadInput("no task file", "--airline_tasks nowhere.jsonl", ("nowhere.jsonl", "cannot be read"), good_data=True),
    BadInput("tasks of another domain", "--airline_tasks tasks.jsonl", ("task x is of the domain retail",),
             foreign_tasks, good_data=True),
    BadInput("a torn task file", "--airline_tasks tasks.jsonl", ("tasks.jsonl", "line 1 is no task"), torn_tasks,
             good_data=True),
    BadInput("no data directory", "--tau2_data nowhere", ("nowhere",), good_data=True),
    BadInput("unknown shaping", "--reward_shaping politeness:0.1", ("--reward-shaping", "'politeness:0.1'", "read")),
    BadInput("too much shaping", "--reward_shaping read:0.4,format:0.4", ("adds up to 0.8",)),
    BadInput("nobody to ask", "--user openai", ("--openai-api-base", "--openai-model"), good_data=True),
    # Objective and curriculum.
    BadInput("a group of one", "--group_size 1", ("--group-size 1", "at least 2"), good_data=True),
    BadInput("two references", "--cl distill", ("--cl distill", "--beta 0")),
    BadInput("replay of everything", "--cl replay --replay_ratio 1", ("--replay-ratio 1", "between 0 and 1"),
             good_data=True),
    BadInput("ignored flag", "--replay_ratio 0.5", ("--replay_ratio", "no effect", "--cl replay")),
    BadInput("nothing to forget", "--joint --cl replay", ("--joint", "--cl replay", "drop one")),
    BadInput("nothing to judge", "--judge openai", ("--judge openai", "no effect", "drop it")),
    BadInput("a gate that is none", "--stage_gate often", ("--stage-gate often", "MIN_PASS,MAX_REPEATS")),
    BadInput("a warm start that is none", "--warmstart 300", ("--warmstart 300", "sft:STEPS")),
    BadInput("unknown loss", "--loss ppo", ("--loss", "'ppo'", "dapo")),
    # Flags and runs.
    BadInput("unknown flag", "--group-sizes 4", ("--group_sizes", "--group_size")),
    BadInput("wrong type", "--group_size many", ("--group_size", "'many'", "whole number")),
    BadInput("key of a YAML file", "--config run.yaml", ("run.yaml", "group_sizes", "group_size"), configuration),
    BadInput("unknown tracker", "--report_to pigeon", ("--report_to", "pigeon", "tensorboard"), good_data=True),
    BadInput("a run is there", "--output_dir old", ("old holds a run", "--resume auto"), place_run, good_data=True),
    BadInput("no such checkpoint", "--resume runs/x/step-00000001", ("--resume", "no such checkpoint"),
             good_data=True),
    # What is told and survived: fewer tasks than a step wants, a context that ends within the first turn.
    BadInput("one task, a short context", "--tasks_per_domain 1 --max_length 60 --max_steps 5",
             ("step 5 ", "Training completed!"), code=0, good_data=True, writes=RUNS),
)  # fmt: skip
