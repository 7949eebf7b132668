"""Prints one JSON line per rank: what lib.launch.start made of this launch."""

import json
import os
import sys
from dataclasses import dataclass

from lib.args import RunArgs, option
from lib.distributed import global_sums
from lib.launch import announce, environment_facts, run, scaled_learning_rate, start


@dataclass
class Config(RunArgs):
    learning_rate: float = option(1e-4, "base rate")
    precision: str | None = option(None, "auto, fp32, bf16")
    device: str | None = option(None, "cpu or none")
    ddp: bool = option(False, "the original's flag")
    local_rank: int = option(-1, "the original's flag")
    gpu_ids: str | None = option(None, "the original's flag")
    master_port: int = option(12355, "the original's flag")
    word: str | None = option(None, "any text, to see that arguments arrive")


def main(config: Config) -> None:
    accelerator = start(config, precision=config.precision)
    rate = scaled_learning_rate(config.learning_rate, config.lr_scale, accelerator.num_processes, 1)
    announce(
        accelerator, config, trainer="probe", effective_batch="4 items", learning_rate=rate, notes={"extra": "note"}
    )
    facts = environment_facts(accelerator)
    fields = {
        "rank": accelerator.process_index,
        "world": accelerator.num_processes,
        "counted": global_sums(accelerator, {"ranks": 1.0})["ranks"],
        "device": accelerator.device.type,
        "kind": accelerator.distributed_type.value,
        "backend": facts["backend"],
        "precision": accelerator.mixed_precision,
        "threads": facts["ranks"][accelerator.process_index]["threads"],
        "notes": accelerator.launch_notes,
        "word": config.word,
        "argv": sys.argv[1:],
        "facts": facts,
        "cwd": os.getcwd(),
        "parent": os.getppid(),
        "pid": os.getpid(),
    }
    # One write: lines of different ranks must not mix.
    sys.stdout.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    run(main, Config)
