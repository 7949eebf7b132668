"""The flags of GRPO training. Names and meanings of the originals are kept; contradictions are refused."""

from dataclasses import dataclass
from typing import ClassVar

from lib.args import RunArgs, option
from lib.errors import UserError
from lib.grpo.chat.tiny import TinySize
from lib.grpo.continual.choose import METHODS
from lib.grpo.continual.replaying import CHOICES
from lib.grpo.engine import ENGINES
from lib.grpo.judge import KINDS as JUDGES
from lib.grpo.learning.losses import CORRECTIONS, KINDS
from lib.grpo.learning.warm_start import parse_warm_start
from lib.grpo.shaping import Shaping
from lib.grpo.users.choose import KINDS as USERS

ALIASES = {"temp": "temperature", "grpo": "use_grpo"}
DOMAINS = ("airline", "retail", "telecom")
PRECISIONS = ("auto", "fp32", "bf16")


@dataclass
class TaskOptions(RunArgs):
    """What is learnt and measured, with whom the agent talks."""

    domains: str = option(",".join(DOMAINS), "in the order in which they are learnt", "tasks")
    tasks_per_domain: int = option(100, "training tasks of a domain, at most", "tasks", minimum=1)
    level: str = option("2", "of generated tasks, 0 to 4, or several: 1,2", "tasks")
    templates: str = option("", "only these, as airline=cancel_sick,upgrade;retail=... ; default: all", "tasks")
    airline_tasks: str | None = option(None, "task file, tasks.json of a data directory or of a run", "tasks")
    retail_tasks: str | None = option(None, "the same for retail", "tasks")
    telecom_tasks: str | None = option(None, "the same for telecom", "tasks")
    tau2_data: str | None = option(None, "directory of tau2-bench data; default: generated worlds", "tasks")
    user: str = option("scripted", "who the agent talks to; none: a ticket, alone", "tasks", choices=USERS)
    judge: str = option("none", "of NL_ASSERTION in data; none: left out of the reward", "tasks", choices=JUDGES)
    max_turns: int = option(20, "assistant messages after which an episode has failed", "tasks", minimum=1)
    max_errors: int = option(5, "refused tool calls after which it has", "tasks", minimum=1)
    reward_shaping: str = option("", "added to success while training, as db_fraction:0.2,read:0.1", "tasks")
    openai_api_base: str | None = option(None, "endpoint of --user and --judge openai", "tasks")
    openai_api_key: str | None = option(None, "its key; better in OPENAI_API_KEY; never written to a file", "tasks",
                                        secret=True)  # fmt: skip
    openai_model: str | None = option(None, "its model", "tasks")
    openai_threads: int = option(32, "its requests at once, of a process", "tasks", minimum=1)


@dataclass
class RolloutOptions(TaskOptions):
    """The model, and how it is sampled."""

    model: str = option("Qwen/Qwen3-4B", "hub id, directory, or tiny[:WIDTH,DEPTH]: built on the spot", "model")
    lora: str = option("none", "train adapters: r=16,alpha=32,targets=all-linear,dropout=0", "model")
    dtype: str = option("auto", "bf16 where the device has it", "model", choices=PRECISIONS)
    gradient_checkpointing: bool = option(False, "recompute activations: slower, smaller", "model")
    chat_template: str = option("auto", "the model's own, or the training template", "model",
                                choices=("auto", "model", "training"))  # fmt: skip

    engine: str = option("static", "hf: transformers' own cache; vllm: pip install vllm", "rollout", choices=ENGINES)
    prompts_per_step: int = option(16, "tasks of a step, over all processes", "rollout", minimum=1)
    group_size: int = option(4, "episodes of each task", "rollout")
    max_new_tokens: int = option(256, "of one turn", "rollout", minimum=1)
    max_length: int = option(8192, "tokens of an episode", "rollout", minimum=2)
    temperature: float = option(1.0, "of sampling while training", "rollout", above=0)
    top_p: float = option(1.0, "share of probability that is sampled from", "rollout", above=0, maximum=1)
    top_k: int = option(0, "most probable tokens that are sampled from, 0 = all", "rollout", minimum=0)
    slots: int = option(64, "episodes that a process plays at once", "rollout", minimum=1)


@dataclass
class GrpoOptions(RolloutOptions):
    """Objective, curriculum, run; see docs/train_grpo.md."""

    use_grpo: bool = option(True, "--no-use-grpo (or --no-grpo): only evaluate along the curriculum", "objective")
    loss: str = option("dapo", "the policy loss", "objective", choices=tuple(kind for kind in KINDS if kind != "sft"))
    learning_rate: float = option(1e-6, "AdamW", "objective", above=0)
    beta: float = option(0.1, "weight of the KL to the weights that GRPO began with; 0 keeps no copy", "objective",
                         minimum=0)  # fmt: skip
    clip_low: float = option(0.2, "ratios below 1 - this are clipped", "objective", above=0)
    clip_high: float = option(0.28, "ratios above 1 + this are clipped", "objective", above=0)
    cispo_cap: float = option(5.0, "largest weight of --loss cispo", "objective", above=0)
    scale_rewards: str = option("group", "what advantages are divided by", "objective",
                                choices=("group", "batch", "none"))  # fmt: skip
    entropy_weight: float = option(0.0, "of an entropy bonus", "objective", minimum=0)
    updates_per_batch: int = option(1, "passes over the episodes of a step", "objective", minimum=1)
    minibatches: int = option(1, "updates of each pass", "objective", minimum=1)
    is_correction: str = option("auto", "where engine and trainer differ; auto: tis with vllm, else off", "objective",
                                choices=("auto", *CORRECTIONS))  # fmt: skip
    is_cap: float = option(2.0, "largest importance weight", "objective", above=0)
    dynamic_sampling: int = option(0, "times that groups without contrast are replaced by new ones", "objective",
                                   minimum=0)  # fmt: skip
    weight_decay: float = option(0.01, "AdamW", "objective", minimum=0)
    micro_batch_tokens: int = option(8192, "tokens of a forward pass of a process", "objective", minimum=1)

    steps_per_domain: int = option(100, "GRPO steps of a stage", "curriculum", minimum=1)
    joint: bool = option(False, "one stage over all domains instead of one for each", "curriculum")
    warmstart: str = option("none", "sft:STEPS: demonstrations of a fallible expert first", "curriculum")
    warmstart_noise: float = option(0.25, "share of its decisions that are another's", "curriculum", minimum=0,
                                    maximum=1)  # fmt: skip
    warmstart_lr: float | None = option(
        None, "default: 3e-3 for tiny, else 10 x --learning_rate", "curriculum", above=0
    )
    warmstart_dialogues: int = option(16, "dialogues of a step, over all processes", "curriculum", minimum=1)
    warmstart_tasks: int = option(20000, "generated tasks of a domain to demonstrate", "curriculum", minimum=1)
    copying_steps: int | None = option(None, "steps of copying exercises before; default: 80 for tiny, else 0",
                                       "curriculum", minimum=0)  # fmt: skip
    cl: str = option("none", "against forgetting", "curriculum", choices=tuple(METHODS))
    replay_ratio: float = option(0.2, "share of a step's tasks from earlier domains", "curriculum", above=0, maximum=1)
    replay_adaptive: bool = option(False, "0.1 more, up to 0.5, whenever forgetting exceeds 0.1", "curriculum")
    replay_choice: str = option("random", "which of them", "curriculum", choices=CHOICES)
    replay_sampling: int | None = option(
        None, "--dynamic_sampling for their groups, if another: what is known well has seldom a contrast", "curriculum",
        minimum=0,
    )  # fmt: skip
    cl_strength: float | None = option(None, "of ewc and l2 (0.4), kl-anchor and distill (0.1)", "curriculum", above=0)
    stage_gate: str = option("0,0", "MIN_PASS,MAX_REPEATS: a stage is repeated until it passes", "curriculum")
    eval_tasks: int = option(50, "evaluation tasks of a domain", "curriculum", minimum=1)
    eval_trials: int = option(4, "trials of each", "curriculum", minimum=1)
    eval_temperature: float = option(1.0, "of evaluation; 0: the most probable tokens", "curriculum", minimum=0)
    held_out_templates: int = option(0, "also evaluate so many tasks of templates kept out of training", "curriculum",
                                     minimum=0)  # fmt: skip
    eval_only: bool = option(False, "evaluate the model and stop", "curriculum")

    num_gpus: int | None = option(None, "accepted where it agrees with the launcher; a dry run plans for it", "run",
                                  minimum=1)  # fmt: skip
    log_completions: int = option(8, "episodes of a step kept as text", "run", minimum=0)
    visualize: bool = option(True, "report.html, samples.html and plots at the end", "run")
    quiet: bool = option(False, "no line for each stage's tasks", "run")
    report_json: str | None = option(None, "also write results.json here", "run")
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    memory_remedies: ClassVar[tuple[str, ...]] = ("micro_batch_tokens", "slots", "prompts_per_step", "max_length")


def check_options(config: GrpoOptions, processes: int | None = None) -> list[str]:
    """Raise UserError for what cannot be meant; fill in defaults that depend on others; return the log lines.

    `processes` that were started, where that is known. A dry run plans for --num-gpus whatever was started.
    """
    notes = []
    if processes is not None and config.num_gpus not in (None, processes) and not config.dry_run:
        raise UserError(
            f"--num-gpus {config.num_gpus}, but {processes} process{'es' if processes > 1 else ''} started: accelerate"
            f" launch --num_processes {config.num_gpus} scripts/train_grpo.py ..."
        )
    domains = names_of(config.domains)
    wrong = [name for name in domains if name not in DOMAINS]
    if wrong:
        raise UserError(f"--domains {config.domains}: {wrong[0]!r} is none of {', '.join(DOMAINS)}")
    tiny = config.model.partition(":")[0] == "tiny"
    if tiny:
        TinySize.parse(config.model)
        if config.tau2_data or any(task_files(config).values()):
            notes.append("the vocabulary of --model tiny is made for generated worlds: other texts become many tokens")
    if config.lora != "none" and tiny:
        raise UserError("--lora with --model tiny: adapters need a model that has learnt something; drop --lora")
    if config.warmstart_lr is None:
        config.warmstart_lr = 3e-3 if tiny else 10 * config.learning_rate
    if config.copying_steps is None:
        config.copying_steps = 80 if tiny and parse_warm_start(config.warmstart) else 0
    if config.copying_steps and not parse_warm_start(config.warmstart):
        raise UserError("--copying_steps without --warmstart sft:STEPS: it is a part of the warm start")
    if config.warmstart != "none" and config.tau2_data and config.user != "none":
        notes.append("--warmstart on tau2-bench data: its experts only make the gold calls")
    if config.beta and config.cl in ("kl-anchor", "distill"):
        raise UserError(f"--cl {config.cl} with --beta {config.beta:g}: two references; give --beta 0")
    if config.loss == "sft":
        raise UserError("--loss sft is the warm start: give --warmstart sft:STEPS")
    anchored = ("replay_ratio", "replay_sampling")
    for flag in (*anchored, "replay_adaptive", "replay_choice"):
        if flag in config.explicit and config.cl not in ("replay", *(("kl-anchor",) if flag in anchored else ())):
            raise UserError(f"--{flag} has no effect with --cl {config.cl}: give --cl replay")
    if "cl_strength" in config.explicit and config.cl not in ("ewc", "l2", "kl-anchor", "distill"):
        raise UserError(f"--cl_strength has no effect with --cl {config.cl}: drop it")
    if config.joint and config.cl != "none":
        raise UserError(f"--joint with --cl {config.cl}: there is one stage, nothing to forget; drop one of them")
    if config.gradient_accumulation_steps != 1:
        raise UserError(
            f"--gradient_accumulation_steps {config.gradient_accumulation_steps}: a step is divided by"
            " --micro_batch_tokens; lower that instead"
        )
    if config.is_correction == "auto":
        config.is_correction = "tis" if config.engine == "vllm" else "off"
    check_judge(config)
    levels_of(config.level)
    gate_of(config.stage_gate)
    Shaping.parse(config.reward_shaping)
    return notes


def check_judge(config) -> None:
    """UserError for --judge where there is nothing to judge."""
    if config.judge != "none" and not (config.tau2_data or any(task_files(config).values())):
        raise UserError(f"--judge {config.judge} has no effect on generated tasks: give --tau2-data, or drop it")


def names_of(text: str) -> tuple[str, ...]:
    """`a,b` as ("a", "b")."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def levels_of(text: str) -> tuple[int, ...]:
    """`1,2` as numbers. UserError for what is none."""
    parts = names_of(text)
    if not parts or not all(part.isdigit() for part in parts):
        raise UserError(f"--level {text}: expected numbers from 0 to 4, as 2 or 1,2")
    return tuple(map(int, parts))


def templates_of(text: str) -> dict[str, tuple[str, ...]]:
    """`airline=a,b;retail=c` as {"airline": ("a", "b"), "retail": ("c",)}. UserError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        domain, equals, names = part.partition("=")
        if not equals or domain.strip() not in DOMAINS:
            raise UserError(f"--templates {text}: {part!r} is not DOMAIN=NAME,NAME with one of {', '.join(DOMAINS)}")
        found[domain.strip()] = names_of(names)
    return found


def gate_of(text: str) -> tuple[float, int]:
    """`0.5,2` as (0.5, 2). UserError."""
    parts = names_of(text)
    try:
        least, most = float(parts[0]), int(parts[1])
        if len(parts) == 2 and 0 <= least <= 1 and most >= 0:
            return least, most
    except (ValueError, IndexError):
        pass
    raise UserError(f"--stage-gate {text}: expected MIN_PASS,MAX_REPEATS, as 0.5,2")


def task_files(config: GrpoOptions) -> dict[str, str | None]:
    """Domain -> --<domain>-tasks."""
    return {domain: getattr(config, f"{domain}_tasks") for domain in DOMAINS}
