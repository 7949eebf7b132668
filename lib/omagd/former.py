"""Flags of the system whose idea this is, understood where they mean something here; a line says what replaces each."""

from dataclasses import dataclass

from lib.args import option
from lib.errors import UserError
from lib.omagd.recon.stages import PREDICTOR, TOKENIZER
from lib.omagd.senses import RECONSTRUCTED

GROUP = "names of the original"
AGENTS, ALL = "qmix", "all"
STAGE_OF = {"stage1": TOKENIZER, "stage2": PREDICTOR, "stage3": AGENTS}


@dataclass
class FormerNames:
    """Each does what its line says, or nothing that the launcher does not decide."""

    recontructer_stage: str | None = option(
        None, "stage1, stage2: --stage tokenizer, predictor; stage3: --stage qmix --observe reconstructed", GROUP,
        choices=tuple(STAGE_OF),
    )  # fmt: skip
    pretrain_only: bool = option(False, "--stage all without the agents", GROUP)
    evaluation_only: bool = option(False, "refused: scripts/evaluate_omagd.py measures", GROUP)
    learner: str | None = option(None, "one learner on any number of processes: see --mixer", GROUP)
    run: str | None = option(None, "default or ddp: the launcher decides", GROUP, choices=("default", "ddp"))
    use_ddp: bool | None = option(None, "the launcher decides", GROUP)
    world_size: int | None = option(None, "accepted where it agrees with the launcher", GROUP, minimum=1)
    ddp_port: int | None = option(None, "--main_process_port of accelerate launch", GROUP, minimum=0)


def settle_former(config) -> list[str]:
    """Put the stage where it belongs; a line for each name that was given. UserError where one contradicts.

    A --world_size that is not the launcher's is refused in `lib.launch`.
    """
    if config.evaluation_only:
        raise UserError("--evaluation_only: scripts/evaluate_omagd.py --checkpoint RUN/export plays what was trained")
    notes = []
    if config.recontructer_stage is not None:
        stage = STAGE_OF[config.recontructer_stage]
        if "stage" in config.explicit and config.stage != stage:
            raise UserError(f"--recontructer_stage {config.recontructer_stage} is --stage {stage}, not {config.stage}")
        config.stage, words = stage, f"--stage {stage}"
        if stage == AGENTS:
            if "observe" in config.explicit and config.observe != RECONSTRUCTED:
                raise UserError(f"--recontructer_stage stage3 is --observe {RECONSTRUCTED}, not {config.observe}")
            config.observe, words = RECONSTRUCTED, f"{words} --observe {RECONSTRUCTED}"
        notes.append(f"--recontructer_stage {config.recontructer_stage}: {words} replaces it")
    if config.pretrain_only:
        if config.stage == AGENTS and (config.recontructer_stage is not None or "stage" in config.explicit):
            raise UserError("--pretrain_only: the stages before the agents are --stage tokenizer, predictor or all")
        # A stage by itself ends after itself, with or without these words.
        config.stage = ALL if config.stage == AGENTS else config.stage
        notes.append(f"--pretrain_only: --stage {config.stage} ends before the agents")
    if config.learner is not None:
        notes.append(f"--learner {config.learner}: one learner serves any number of processes; --mixer is its choice")
    for name in ("run", "use_ddp", "world_size"):
        if getattr(config, name) is not None:
            notes.append(f"--{name} {getattr(config, name)}: --num_processes of accelerate launch replaces it")
    if config.ddp_port is not None:
        notes.append(f"--ddp_port {config.ddp_port}: --main_process_port of accelerate launch replaces it")
    return notes
