"""From the flags of a run to its parts: tasks, stages, model, environments."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from lib.errors import UserError
from lib.files import read_json
from lib.grpo.chat.format import ChatFormat
from lib.grpo.continual import curriculum as plans
from lib.grpo.continual.choose import make_method
from lib.grpo.continual.methods import Method
from lib.grpo.continual.tasks import TaskRow, TaskSets, gather_tasks, generated_rows, write_task_files
from lib.grpo.engine import Sampling
from lib.grpo.environment import Environment, Limits
from lib.grpo.episodes import Threads
from lib.grpo.generation.generate import TRAINING_SEEDS, templates
from lib.grpo.judge import Judge, make_judge
from lib.grpo.learning.losses import Objective
from lib.grpo.learning.warm_start import parse_warm_start
from lib.grpo.models import DTYPES, add_lora, load_model
from lib.grpo.options import GrpoOptions, gate_of, levels_of, names_of, task_files, templates_of
from lib.grpo.shaping import Shaping
from lib.grpo.trajectory_files import drop_after
from lib.grpo.users.choose import user_factory
from lib.grpo.users.endpoint import Endpoint
from lib.grpo.users.language import Complete
from lib.grpo.users.local_model import LocalModel
from lib.seeds import derive


@dataclass
class Setup:
    """The model with its chat format, and what an episode needs."""

    config: GrpoOptions
    model: nn.Module
    chat: ChatFormat
    make_user: Callable
    judge: Judge | None = None

    def environment(self, judged: bool = True) -> Environment:
        """A new environment, as training and evaluation have it; a demonstration needs no judge."""
        limits = Limits(self.config.max_turns, self.config.max_errors)
        shaping = Shaping.parse(self.config.reward_shaping)
        return Environment(self.make_user, limits, shaping, self.judge if judged else None)

    @contextmanager
    def threads(self) -> Iterator[Threads]:
        """Where an endpoint is asked. The other users answer at once, or compute in this process themselves."""
        asks = [kind == "openai" for kind in (self.config.user, self.config.judge)]
        if not any(asks):
            yield Threads()
            return
        pool = ThreadPoolExecutor(self.config.openai_threads)
        try:
            yield Threads(*(pool if asked else None for asked in asks))
        finally:
            # After an error nobody waits for what is still queued.
            pool.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def sampling(self) -> Sampling:
        """While training."""
        config = self.config
        return Sampling(config.temperature, config.top_k, config.top_p, config.max_new_tokens, config.max_length,
                        self.chat.stop_ids)  # fmt: skip

    @cached_property
    def evaluation_sampling(self) -> Sampling:
        return replace(self.sampling, temperature=self.config.eval_temperature, top_k=0, top_p=1.0)


def prepare(config: GrpoOptions, device: torch.device) -> Setup:
    """The model on its device, with adapters where asked for, and the users. Raises UserError."""
    on_device = "bf16" if device.type == "cuda" and config.lora != "none" else "fp32"
    dtype = DTYPES[on_device if config.dtype == "auto" or config.lora == "none" else config.dtype]
    model, chat = load_model(
        config.model, domains=names_of(config.domains), user=config.user, seed=config.seed, dtype=dtype,
        chat_template=config.chat_template,
    )  # fmt: skip
    if config.lora != "none":
        model = add_lora(model, config.lora)
    return with_model(config, model, chat, device)


def with_model(config: GrpoOptions, model: nn.Module, chat: ChatFormat, device: torch.device) -> Setup:
    """The set-up of a model that is there; the context is not to outgrow what it reads. Raises UserError."""
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest is not None and "max_length" not in config.explicit:
        config.max_length = min(config.max_length, longest)
    if longest is not None and config.max_length > longest:
        raise UserError(f"--max-length {config.max_length}: the model reads at most {longest} tokens")
    speaks = LocalModel(model, chat.tokenizer).complete if config.user == "hf" else _endpoint(config, "user")
    judge = make_judge(config.judge, _endpoint(config, "judge"))
    return Setup(config, model.to(device), chat, user_factory(config.user, speaks), judge)


def _endpoint(config: GrpoOptions, flag: str) -> Complete | None:
    """What asks the endpoint, where --user or --judge want it."""
    if getattr(config, flag) != "openai":
        return None
    if not config.openai_api_base or not config.openai_model:
        raise UserError(f"--{flag} openai needs --openai-api-base and --openai-model")
    return Endpoint(config.openai_api_base, config.openai_model, config.openai_api_key).complete


def plan(config: GrpoOptions) -> tuple[plans.Curriculum, TaskSets]:
    """Stages and tasks. Raises UserError."""
    domains = names_of(config.domains)
    steps = parse_warm_start(config.warmstart)
    curriculum = plans.make_curriculum(
        domains, steps_per_domain=config.steps_per_domain, prompts_per_step=config.prompts_per_step,
        group_size=config.group_size, warm_start_steps=steps + config.copying_steps if steps else 0,
        joint=config.joint, gate=plans.Gate(*gate_of(config.stage_gate)),
    )  # fmt: skip
    method_of(config, curriculum)  # refuses its options before anything is written
    names = templates_of(config.templates)
    for domain in names:
        if domain not in domains:
            raise UserError(f"--templates names {domain}, which is not among --domains {config.domains}")
    sets = gather_tasks(
        domains, seed=config.seed, levels=levels_of(config.level), tasks_per_domain=config.tasks_per_domain,
        eval_tasks=config.eval_tasks, held_out_tasks=config.held_out_templates, template_names=names,
        tau2_data=config.tau2_data, task_files=task_files(config),
    )  # fmt: skip
    return curriculum, sets


def fix_tasks(run: Path, curriculum: plans.Curriculum, sets: TaskSets, continued: bool) -> None:
    """Write tasks_<domain>.jsonl; compare them, and the names of the stages, where a run is `continued`. UserError."""
    former = run / "curriculum.json"
    if not continued:
        # What a start left that was killed before its first checkpoint, perhaps with other flags.
        for path in run.glob("tasks_*.jsonl"):
            path.unlink()
        drop_after(run, 0)
    elif former.is_file():
        before = [stage["name"] for stage in read_json(former)["stages"]]
        now = [stage.name for stage in curriculum.stages]
        if before != now:
            raise UserError(
                f"{former} has the stages {', '.join(before)}, these flags give {', '.join(now)}: start a new run"
            )
    write_task_files(run, sets)


def demonstrated(config: GrpoOptions, sets: TaskSets) -> dict[str, tuple[TaskRow, ...]]:
    """The tasks that are demonstrated: training tasks of files, or more generated ones than GRPO learns from."""
    found, names = {}, templates_of(config.templates)
    for domain, rows in sets.training.items():
        if rows[0].template is None or task_files(config)[domain]:
            found[domain] = rows
            continue
        count = config.warmstart_tasks
        start = derive(config.seed, "demonstrated seeds", domain) % (TRAINING_SEEDS - count)
        chosen = names.get(domain) or templates(domain, held_out=False)
        found[domain] = generated_rows(domain, start, count, levels_of(config.level), chosen)
    return found


def check_divided(config: GrpoOptions) -> None:
    """UserError for what cannot be done with a model that is divided over the processes."""
    if config.cl in ("ewc", "l2", "merge"):
        raise UserError(
            f"--cl {config.cl} needs the whole model on every process, and FSDP divides it: use replay or kl-anchor"
        )
    if config.user == "hf":
        raise UserError("--user hf needs the whole model on every process, which FSDP divides: use scripted or openai")


def method_of(config: GrpoOptions, curriculum: plans.Curriculum) -> Method:
    """The continual-learning method with its options."""
    options = {}
    if config.cl == "replay":
        options = {"old_share": config.replay_ratio, "adaptive": config.replay_adaptive,
                   "choice": config.replay_choice, "seed": config.seed}  # fmt: skip
    elif config.cl == "kl-anchor":
        options = {"old_share": config.replay_ratio}
    if config.cl_strength is not None:
        options["strength" if config.cl in ("ewc", "l2") else "weight"] = config.cl_strength
    return make_method(config.cl, **options)


def objective_of(config: GrpoOptions, beta: float | None = None) -> Objective:
    return Objective(
        config.loss, config.clip_low, config.clip_high, config.beta if beta is None else beta, config.temperature,
        config.is_correction, config.is_cap, config.cispo_cap, config.max_turns * config.max_new_tokens,
        config.entropy_weight,
    )  # fmt: skip


def planned_steps(config: GrpoOptions, curriculum: plans.Curriculum) -> int:
    """Optimiser steps of the run, repeats of stages not counted."""
    total = sum(stage.steps for stage in curriculum.stages if stage.kind == plans.WARM_START or config.use_grpo)
    return total if config.max_steps is None else min(total, config.max_steps)


def announcement(config, model, curriculum, sets, processes: int) -> tuple[str, dict[str, str]]:
    """(effective batch, further lines) for what is printed before the first step."""
    parameters = sum(value.numel() for value in model.parameters())
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    episodes = config.prompts_per_step * config.group_size
    facts = {"model": f"{config.model}, {parameters:,} parameters, {trained:,} of them trained"}
    if not config.quiet:
        counts = {domain: len(rows) for domain, rows in sets.training.items()}
        facts |= {
            f"stage {number}": line
            for number, line in enumerate(plans.plan_lines(curriculum, counts, method_of(config, curriculum).old_share))
        }
    batch = f"{config.prompts_per_step} tasks x {config.group_size} episodes = {episodes} a step"
    return f"{batch}, about {episodes / processes:g} a process", facts
