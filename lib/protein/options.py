"""The flags of protein training, and which of them contradict each other.

Names and meanings of the original program are kept; values that cannot be honoured are refused by name, never ignored.
"""

from dataclasses import dataclass
from typing import ClassVar

from lib.args import RunArgs, option
from lib.errors import UserError
from lib.protein.masking import OBJECTIVES, SCHEDULES, STRATEGIES, Objective
from lib.protein.structure import ReadOptions

ALIASES = {"save_dir": "output_dir", "use_discrete_diffusion": "discrete_diffusion"}


@dataclass
class DataOptions(RunArgs):
    """Where structures come from and how they are divided."""

    pdb_path: str | None = option(
        None, "structure file, folder (.pdb .ent .cif, .gz) or cache; absent: the synthetic set", "data"
    )
    cache_dir: str | None = option(
        None, "cache folder; may equal --pdb_path; default: <pdb_path>/.quartet_cache", "data"
    )
    val_split: float = option(0.1, "share of residues for validation", "data", minimum=0, maximum=0.9)
    split: str = option("cluster", "how validation is chosen", "data", choices=("cluster", "random", "file"))
    use_predefined_split: bool = option(
        False, "take train.txt and val.txt of the cache folder; on when both are there", "data"
    )
    val_files: str | None = option(None, "text file of validation names, one per line", "data")
    test_files: str | None = option(None, "text file of test names, one per line; never trained on", "data")
    unit: str = option("entry", "what is one example: all chains of a file, or one", "data", choices=("entry", "chain"))
    max_length: int = option(
        1000, "residues of a unit; longer ones are divided by chain or cropped", "data", minimum=20
    )
    assembly: int | None = option(None, "build this biological assembly; default: as written", "data", minimum=1)
    strict: bool = option(False, "stop at the first rejected file", "data")
    rcsb_ids: str | None = option(None, "text file of PDB ids to download into --pdb_path first", "data")
    rcsb_query: str | None = option(None, "preset of the RCSB search whose hits are downloaded first", "data")
    synthetic_chains: int = option(512, "size of the synthetic set", "data", minimum=16)

    def read_options(self) -> ReadOptions:
        return ReadOptions(assembly=self.assembly, strict=self.strict)


@dataclass
class ProteinOptions(DataOptions):
    """Model, objective, optimisation; the fields of the original program first in each group."""

    hidden_dim: int = option(256, "hidden width", "model", minimum=8)
    num_encoder_layers: int = option(3, "message layers that also update edges", "model", minimum=0)
    num_decoder_layers: int = option(3, "message layers that may see residue types", "model", minimum=1)
    num_heads: int = option(8, "without meaning in a message-passing decoder: 8 is accepted, else refused", "model")
    dropout: float = option(0.1, "dropout on node updates", "model", minimum=0, maximum=0.9)
    k_neighbors: int = option(48, "neighbours per residue; 32 is faster", "model", minimum=2)

    objective: str = option("both", "what training draws: both = masked and any-order", "objective", choices=OBJECTIVES)
    mask_ratio: float = option(0.15, "masked share under --mask_schedule fixed and span", "objective")
    mask_schedule: str = option("fixed", "how the masked share is drawn", "objective", choices=SCHEDULES)
    masking_strategy: str = option("random", "which residues are masked", "objective", choices=STRATEGIES)
    discrete_diffusion: bool = option(False, "the original's absorbing diffusion = --mask_schedule cosine", "objective")
    num_diffusion_steps: int = option(1000, "without meaning for a continuous schedule: only 1000", "objective")
    one_shot_share: float = option(0.25, "share of units drawn with no residue type visible", "objective")
    backbone_noise: float = option(0.0, "standard deviation in angstrom, training only", "objective", minimum=0)

    epochs: int = option(50, "passes over the distinct training sequences", "optimisation", minimum=1)
    batch_size: int = option(4, "structures per process and micro-step", "optimisation", minimum=1)
    max_tokens: int | None = option(
        None, "residues per process and micro-step; wins over --batch_size", "optimisation", minimum=20
    )
    learning_rate: float = option(1e-4, "base rate, before --lr_scale", "optimisation", above=0)
    weight_decay: float = option(1e-3, "decoupled weight decay", "optimisation", minimum=0)
    optimizer: str = option(
        "muon", "muon: orthogonalised momentum for inner matrices, AdamW for the rest", "optimisation",
        choices=("muon", "adamw"),
    )  # fmt: skip
    warmup_epochs: float = option(
        20.0, "linear warm-up, at most a tenth of the planned steps", "optimisation", minimum=0
    )
    lr_schedule: str = option("linear", "decay after warm-up", "optimisation", choices=("linear", "cosine", "constant"))
    max_cpu_minutes: float | None = option(
        None, "stop after this much CPU time of one process; evaluation and saving not counted", "optimisation", above=0
    )
    early_stopping_patience: int = option(50, "epochs without improvement", "optimisation", minimum=1)
    early_stopping_min_delta: float = option(0.0, "improvement that counts, in nats", "optimisation", minimum=0)

    precision: str = option("auto", "auto: bf16 where the hardware has it", "run", choices=("auto", "fp32", "bf16"))
    recompute: bool = option(False, "recompute messages in backward: less memory, about a third slower", "run")
    num_workers: int = option(4, "threads that prepare batches ahead for an accelerator", "run", minimum=0)
    pin_memory: bool = option(True, "pin host memory, with an accelerator only", "run")
    visualize: bool = option(True, "report.html and plots at the end", "run")
    plot_every: int = option(5, "epochs between updates of plots/loss.png while training", "run", minimum=1)
    report_json: str | None = option(None, "also write results.json here", "run")
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    ddp: bool = option(False, "accepted for old commands; the launcher decides", "run")
    local_rank: int | None = option(None, "refused: see docs/launching.md", "run")
    world_size: int | None = option(None, "refused: see docs/launching.md", "run")
    master_addr: str | None = option(None, "refused: see docs/launching.md", "run")
    master_port: int | None = option(None, "refused: see docs/launching.md", "run")
    gpu_ids: str | None = option(None, "refused: see docs/launching.md", "run")
    memory_remedies: ClassVar[tuple[str, ...]] = (
        *("batch_size", "max_tokens", "gradient_accumulation_steps", "precision", "recompute", "k_neighbors"),
        "hidden_dim",
    )

    def make_objective(self) -> Objective:
        return Objective(
            self.objective, self.mask_schedule, self.masking_strategy, self.mask_ratio, self.one_shot_share
        )


def _refuse(found: str, expected: str) -> None:
    raise UserError(f"{found}: {expected}")


def check_options(config: ProteinOptions) -> list[str]:
    """Raise UserError for a flag that could have no effect; return the log lines of what was decided."""
    asked, notes = config.explicit, []
    if config.num_heads != 8:
        _refuse(f"--num_heads {config.num_heads}", "the message-passing decoder has no heads; leave it out or give 8")
    if config.num_diffusion_steps != 1000:
        _refuse(
            f"--num_diffusion_steps {config.num_diffusion_steps}",
            "the mask rate is drawn from a continuous schedule; leave it out or give 1000",
        )
    notes += _check_masking(config)
    if "val_split" in asked and (config.split == "file" or config.val_files):
        _refuse(
            "--val_split has no effect with a named validation set", "drop it, or drop --split file and --val_files"
        )
    if "split" in asked and config.split != "file" and (config.val_files or config.use_predefined_split):
        _refuse(f"--split {config.split} has no effect with a named validation set", "drop one of the two")
    if config.use_predefined_split and config.val_files:
        _refuse("--use_predefined_split with --val_files", "choose one of the two")
    if config.eval_every == 0 and "early_stopping_patience" in asked:
        _refuse("--early_stopping_patience has no effect with --eval_every 0", "drop one of the two")
    if config.split == "file" and not config.val_files and not config.use_predefined_split:
        _refuse("--split file without names", "give --val_files FILE, or --use_predefined_split")
    if (config.rcsb_ids or config.rcsb_query) and not config.pdb_path:
        _refuse("--rcsb_ids and --rcsb_query need a folder to download into", "give --pdb_path FOLDER")
    if config.max_tokens is not None and "batch_size" in asked:
        notes.append(
            f"--max_tokens {config.max_tokens} decides the batch, --batch_size {config.batch_size} is not used"
        )
    return notes


def _check_masking(config: ProteinOptions) -> list[str]:
    asked, notes = config.explicit, []
    if "discrete_diffusion" in asked:
        if config.discrete_diffusion and "mask_schedule" in asked and config.mask_schedule != "cosine":
            _refuse(
                f"--use_discrete_diffusion with --mask_schedule {config.mask_schedule}",
                "it means --mask_schedule cosine; give one of the two",
            )
        if config.discrete_diffusion:
            config.mask_schedule = "cosine"
            notes.append("--use_discrete_diffusion: mask schedule cosine")
    if config.objective == "one_shot" and "one_shot_share" in asked:
        _refuse("--one_shot_share has no effect with --objective one_shot", "drop it")
    if config.objective in ("any_order", "one_shot"):
        for flag in ("mask_ratio", "mask_schedule", "masking_strategy", "discrete_diffusion"):
            if flag in asked and getattr(config, flag):
                _refuse(f"--{flag} has no effect with --objective {config.objective}", "drop it, or use masked or both")
    if config.mask_schedule in ("uniform", "cosine") and "mask_ratio" in asked:
        _refuse(
            f"--mask_ratio {config.mask_ratio} has no effect with --mask_schedule {config.mask_schedule}",
            "drop one of the two, or use --mask_schedule fixed",
        )
    if config.mask_schedule == "span" and config.masking_strategy == "block":
        _refuse("--masking_strategy block with --mask_schedule span", "choose one of the two")
    config.make_objective()
    return notes
