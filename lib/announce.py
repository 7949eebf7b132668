"""What is printed before the first step and written into environment.json: who computes, where, with what."""

import contextlib
import importlib.metadata
import math
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from accelerate import Accelerator

from lib.errors import UserError

PACKAGES = ("torch", "accelerate", "transformers", "datasets", "safetensors", "numpy", "pyarrow")


def device_name(accelerator: Accelerator) -> str:
    """The name of this rank's device, as "NVIDIA H100" or "cpu (AMD EPYC)"."""
    if accelerator.device.type == "cuda":
        return torch.cuda.get_device_name(accelerator.device)
    if accelerator.device.type == "cpu":
        return f"cpu ({_cpu_name()})"
    return str(accelerator.device)


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def scaled_learning_rate(base: float, rule: str, processes: int, accumulation: int) -> float:
    """`base` times 1 (none), sqrt(n) (sqrt) or n (linear) for n = processes x accumulation."""
    factors = {"none": 1.0, "sqrt": math.sqrt(processes * accumulation), "linear": float(processes * accumulation)}
    if rule not in factors:
        raise UserError(f"--lr_scale {rule!r} is not one of {', '.join(factors)}")
    return base * factors[rule]


def announce(
    accelerator: Accelerator,
    config,
    *,
    trainer: str,
    effective_batch: str,
    learning_rate: float,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Prints, on the main process, what runs where, before the first step.

    `learning_rate` is the scaled one (`scaled_learning_rate`); the base is `config.learning_rate` where there is one.
    """
    if not accelerator.is_main_process:
        return
    facts = accelerator.world_facts
    hosts = len({fact["host"] for fact in facts})
    names = sorted({fact["device"] for fact in facts})
    threads = "/".join(str(count) for count in sorted({fact["threads"] for fact in facts}))
    lines = {
        "trainer": trainer,
        "processes": f"{len(facts)} on {hosts} machine{'s' if hosts > 1 else ''}, {_how(accelerator)}",
        "devices": f"{', '.join(names)}, {threads} CPU thread{'s' if threads != '1' else ''} per process",
        "batch": effective_batch,
        "learning rate": _rate_words(config, accelerator, learning_rate),
        **(notes or {}),
    }
    width = max(len(name) for name in lines)
    for name, text in lines.items():
        print(f"{name:<{width}}  {text}")
    for note in accelerator.launch_notes:
        print(f"note: {note}")
    sys.stdout.flush()


def _how(accelerator: Accelerator) -> str:
    if accelerator.num_processes == 1:
        return "no process group"
    return f"{accelerator.distributed_type.value.lower()} over {accelerator.state.backend}"


def _rate_words(config, accelerator: Accelerator, scaled: float) -> str:
    base = getattr(config, "learning_rate", None)
    rule = getattr(config, "lr_scale", "none")
    if base is None:
        return f"{scaled:.4g}"
    factor = accelerator.num_processes * getattr(config, "gradient_accumulation_steps", 1)
    return f"{scaled:.4g} = base {base:.4g} x {scaled / base if base else 1.0:.4g} (--lr_scale {rule}, n = {factor})"


def environment_facts(accelerator: Accelerator) -> dict:
    """Versions, commit, devices, process count and command, for environment.json. Not collective."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "command": shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]),
        "commit": _commit(),
        "versions": versions,
        "platform": platform.platform(),
        "cuda": torch.version.cuda,
        "processes": accelerator.num_processes,
        "distributed_type": accelerator.distributed_type.value,
        "backend": accelerator.state.backend,
        "precision": accelerator.mixed_precision,
        "ranks": [{key: fact[key] for key in ("host", "device", "threads")} for fact in accelerator.world_facts],
        "notes": list(accelerator.launch_notes),
    }


def _commit() -> str:
    """The commit of this checkout, with "+changes" when files differ from it; "" outside a checkout."""
    root = Path(__file__).resolve().parents[1]
    git = ["git", "-C", str(root)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit.stdout.strip() + ("+changes" if changes.stdout.strip() else "")
