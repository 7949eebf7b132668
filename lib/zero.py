"""A launch that asks for DeepSpeed's ZeRO: the same parts are divided over the ranks, by FSDP2.

ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054) is a rule of what each rank keeps: a part of the optimiser's state
(stage 1), of the gradients (2), of the weights (3). FSDP2 keeps to the same rules, weights of the stages 1 and 2 being
whole from a forward pass to the end of its backward pass. DeepSpeed's own engine is not used: it saves its state as
pickles, takes gradients out of the trainer's hands, and cannot hold what the trainers promise of resuming.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from lib.errors import UserError

DEFAULT_STAGE = 2  # where a launch names none, as Accelerate has it
AUTO = "auto"  # in a DeepSpeed file: Accelerate's word for what the launch says elsewhere
IGNORED = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping")


def fsdp2_variables(environ: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """(variables to set in place of those of DeepSpeed, a line for the log); nothing where DeepSpeed is not asked for.

    Reads what `accelerate launch` has exported, and a `deepspeed_config_file`. Raises UserError for what FSDP2 does
    not do here: offloading, fp16, an optimiser or a schedule that is not the trainer's.
    """
    if not is_true(environ.get("ACCELERATE_USE_DEEPSPEED")):
        return {}, ""
    file = environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
    stated = {} if file == "none" else _read(Path(file))
    _refuse_what_is_the_trainers(stated, file)
    stage = _stage(environ, stated, file)
    variables = {"ACCELERATE_USE_DEEPSPEED": "false"}
    if _section(stated, "bf16", file).get("enabled") in (True, "true"):
        variables["ACCELERATE_MIXED_PRECISION"] = "bf16"
    ignored = [name for name in IGNORED if stated.get(name, AUTO) != AUTO]
    more = f"; {', '.join(ignored)} of {file} have no effect" if ignored else ""
    if stage == 0:
        return variables, f"DeepSpeed's ZeRO stage 0 divides nothing: plain data parallel{more}"
    variables |= {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_RESHARD_AFTER_FORWARD": "true" if stage == 3 else "false",
        "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
        "FSDP_OFFLOAD_PARAMS": "false",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
    }
    between = "gathered layer by layer" if stage == 3 else "whole between forward and backward"
    return variables, (
        f"DeepSpeed's ZeRO stage {stage} is done by FSDP2: everything divided over the ranks, weights {between}; the"
        f" trainer's own flags decide on clipping and accumulation{more}"
    )


def is_true(text: str | None) -> bool:
    """Whether a variable is switched on, in any of the words that Accelerate takes for it."""
    return str(text).lower() in ("1", "true", "yes", "on", "y", "t")


def _stage(environ: Mapping[str, str], stated: dict, file: str) -> int:
    """Of ZeRO; UserError for one that is not known, and for what is to be kept elsewhere."""
    if stated and "zero_optimization" not in stated:
        raise UserError(f"{file} has no section zero_optimization: add it with a stage, or use plain data parallel")
    zero = _section(stated, "zero_optimization", file)
    for part in ("optimizer", "param"):
        device = _section(zero, f"offload_{part}", file).get("device", AUTO)
        if device == AUTO:
            device = environ.get(f"ACCELERATE_DEEPSPEED_OFFLOAD_{part.upper()}_DEVICE", "none")
        if device not in (None, "none"):
            raise UserError(
                f"the launch asks to keep a part of the state on {device!r} (offload_{part}_device), which is not done"
                " here: set it to none; --lora and more ranks need less memory, see --dry-run"
            )
    stage = zero.get("stage", AUTO)
    if stage == AUTO:
        stage = environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", DEFAULT_STAGE)
    if str(stage) not in ("0", "1", "2", "3"):
        raise UserError(f"the launch asks for ZeRO stage {stage!r}, expected 0, 1, 2 or 3")
    return int(stage)


def _refuse_what_is_the_trainers(stated: dict, file: str) -> None:
    for name in ("optimizer", "scheduler"):
        if name in stated:
            raise UserError(f"{file} has a section {name!r}, which is the trainer's own affair: take it out")
    if stated.get("gradient_accumulation_steps") not in (None, AUTO, 1):
        raise UserError(
            f"{file} asks for {stated['gradient_accumulation_steps']} accumulation steps; set it to 1 and give"
            " --gradient_accumulation_steps to the script"
        )
    if _section(stated, "fp16", file).get("enabled") in (True, "true"):
        raise UserError(f"{file} asks for fp16; these trainers run bf16 or no (fp32)")


def _read(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"the launch names the DeepSpeed file {path}, which cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise UserError(f"the launch names the DeepSpeed file {path}, which is no JSON object")
    return found


def _section(stated: dict, name: str, file: str) -> dict:
    section = stated.get(name) or {}
    if not isinstance(section, dict):
        raise UserError(f"{file}: {name!r} is {section!r}, expected an object")
    return section
