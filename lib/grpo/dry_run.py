"""--dry-run: the curriculum of a run, its memory and its tokens, from the model's configuration alone."""

from dataclasses import replace

from transformers import PretrainedConfig

from lib.grpo.chat.format import ChatFormat
from lib.grpo.continual import curriculum as plans
from lib.grpo.continual.choose import kept_copies
from lib.grpo.continual.tasks import TaskSets
from lib.grpo.environment import Environment
from lib.grpo.memory_plan import Plan, compare, memory_plan, plan_table
from lib.grpo.models import LORA, is_tiny, load_config, parse_lora
from lib.grpo.options import GrpoOptions, names_of
from lib.grpo.run_setup import method_of, plan
from lib.grpo.users.choose import user_factory

# What is compared with one device where no other number is given.
OTHER_PROCESSES = 8


def dry_run_text(config: GrpoOptions, processes: int, sharding: str = "none") -> str:
    """What a run of `processes` on devices of 80 GB would do and need. No weights are read; nothing is trained.

    Raises UserError for flags, tasks and models that a run would refuse too.
    """
    curriculum, sets = plan(config)
    model, chat = load_config(
        config.model, domains=names_of(config.domains), user=config.user, chat_template=config.chat_template
    )
    lengths = prompt_lengths(config, sets, chat) if chat else {}
    shared = min((shared for shared, _ in lengths.values()), default=0)
    shape = replace(plan_of(config, model, curriculum, processes, shared), sharding=sharding)
    counts = {domain: len(rows) for domain, rows in sets.training.items()}
    lines = plans.plan_lines(curriculum, counts, method_of(config, curriculum).old_share)
    for stage in curriculum.stages:
        if stage.kind == plans.WARM_START:
            lines.append(f"{stage.name}: {config.copying_steps} of its steps are copying exercises")
    lines += [*sets.notes, *(chat.notes if chat else ()), *_prompt_lines(lengths), _precision_line(config, shape)]
    lines += [plan_table(memory_plan(model, shape)), "what fits 80 GB, with the other flags as they are:"]
    lines += [f"  {line}" for line in compare(model, alternatives(config, shape)).splitlines()]
    lines.append("fsdp2: --config_file accelerate_configs/fsdp2.yaml; the engine keeps whole weights on every process")
    return "\n".join([*lines, "dry run: nothing was trained"])


def plan_of(
    config: GrpoOptions, model: PretrainedConfig, curriculum: plans.Curriculum, processes: int, shared_tokens: int
) -> Plan:
    """The flags as a plan. `shared_tokens`: policy and tools of the domain that has the fewest."""
    rank, targets = None, Plan.lora_targets
    if config.lora != "none":
        rank, _, targets = parse_lora(config.lora)
    longest = getattr(model, "max_position_embeddings", None) or config.max_length
    max_length = min(config.max_length, longest)
    stages = sum(stage.kind == plans.GRPO for stage in curriculum.stages)
    # The KL of --beta is to a copy of what is trained: with LoRA, of the adapters.
    copies = kept_copies(config.cl, stages) + bool(config.beta and config.use_grpo)
    return Plan(
        lora_rank=rank,
        lora_targets=targets,
        processes=processes,
        precision="fp32" if config.dtype == "fp32" or (config.dtype == "auto" and is_tiny(config.model)) else "mixed",
        gradient_checkpointing=config.gradient_checkpointing,
        snapshots=copies,
        slots=config.slots,
        max_length=max_length,
        shared_tokens=shared_tokens,
        domains=len(curriculum.domains),
        micro_batch_tokens=config.micro_batch_tokens,
        prompts_per_step=config.prompts_per_step,
        group_size=config.group_size,
        sampled_tokens=min(config.max_turns * config.max_new_tokens, max_length),
        updates_per_batch=config.updates_per_batch * config.minibatches,
    )


def alternatives(config: GrpoOptions, shape: Plan) -> list[Plan]:
    """The plan with adapters and with all weights, on one device and on several."""
    rank, targets = shape.lora_rank, shape.lora_targets
    if rank is None and not is_tiny(config.model):
        rank, _, targets = parse_lora(LORA)
    ranks = [(rank, targets), (None, Plan.lora_targets)] if rank else [(None, Plan.lora_targets)]
    several = shape.processes if shape.processes > 1 else OTHER_PROCESSES
    found = []
    for rank, targets in ranks:
        changed = replace(shape, lora_rank=rank, lora_targets=targets, sharding="none")
        found += [replace(changed, processes=1), replace(changed, processes=several)]
        if rank is None:
            found.append(replace(changed, processes=several, sharding="fsdp2"))
    return found


def prompt_lengths(config: GrpoOptions, sets: TaskSets, chat: ChatFormat) -> dict[str, tuple[int, int]]:
    """domain -> tokens of (policy and tools, the rest of the prompt), of its first training task."""
    # A language model as the user would have to be asked for its opening.
    environment = Environment(user_factory("none" if config.user == "none" else "scripted"))
    found = {}
    for domain, rows in sets.training.items():
        shared, opening = chat.prompt(*environment.reset(sets.make(rows[0])))
        found[domain] = (len(shared), len(opening))
    return found


def _prompt_lines(lengths: dict[str, tuple[int, int]]) -> list[str]:
    if not lengths:
        return ["no tokenizer: the tokens of policy and tools are counted as if no two episodes shared them"]
    return [
        f"prompt of {domain}: {shared:,} tokens of policy and tools, {opening:,} of its first task"
        for domain, (shared, opening) in lengths.items()
    ]


def _precision_line(config: GrpoOptions, shape: Plan) -> str:
    copies = f"copies of the trained weights for --beta and --cl {config.cl}: {shape.snapshots}"
    if shape.precision == "fp32":
        return f"precision fp32; {copies}"
    return f"precision as on a GPU that computes in bf16 (--dtype fp32 for another); {copies}"
