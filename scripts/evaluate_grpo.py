"""Measure an agent: success and pass^k of any model directory on any domain, split, level and user.

A trained agent:   accelerate launch scripts/evaluate_grpo.py --model RUN/export --report_json FILE
Two processes:     accelerate launch --config_file accelerate_configs/cpu_2.yaml scripts/evaluate_grpo.py ...
Templates that no run learns:   python scripts/evaluate_grpo.py --model RUN/export --split held_out --domains retail
Real data:         python scripts/evaluate_grpo.py --model DIR --tau2-data DIR --split test --eval_trials 4
"""

import sys
import time
from dataclasses import dataclass, fields

import torch

from lib import launch
from lib.args import option
from lib.checkpoint import StopSignals, atomic_write_json
from lib.distributed import gather_rows, global_sums
from lib.grpo import run_setup
from lib.grpo.continual import evaluations as measured
from lib.grpo.continual.tasks import HELD_OUT, dropped_note
from lib.grpo.engine import ENGINES, make_engine
from lib.grpo.evaluating import choose_pools, results_of, table_text, write_page
from lib.grpo.judge import KINDS as JUDGES
from lib.grpo.models import DTYPES, load_model
from lib.grpo.options import DOMAINS, PRECISIONS, GrpoOptions, check_judge, names_of
from lib.grpo.progress import Progress
from lib.grpo.rollouts import Roller
from lib.grpo.trajectory_files import row_of
from lib.grpo.users.choose import KINDS as USERS
from lib.ranks import Ranks

ALIASES = {"temp": "temperature", "eval_temperature": "temperature"}


@dataclass
class Config:
    """What is measured, on what."""

    model: str = option(help="RUN/export, another directory of a model, a hub id, or tiny", group="model")
    dtype: str = option("auto", "bf16 on a GPU, else fp32", "model", choices=PRECISIONS)
    chat_template: str = option("auto", "the model's own, or the training template", "model",
                                choices=("auto", "model", "training"))  # fmt: skip

    domains: str = option(",".join(DOMAINS), "which domains", "tasks")
    split: str = option("evaluation", "evaluation, train or held_out; of data also all or a name of its split file",
                        "tasks")  # fmt: skip
    level: str = option("2", "of generated tasks, 0 to 4, or several: 1,2", "tasks")
    templates: str = option("", "only these, as airline=cancel_sick,upgrade;retail=... ; default: all", "tasks")
    airline_tasks: str | None = option(None, "task file, tasks.json of a data directory or of a run", "tasks")
    retail_tasks: str | None = option(None, "the same for retail", "tasks")
    telecom_tasks: str | None = option(None, "the same for telecom", "tasks")
    tau2_data: str | None = option(None, "directory of tau2-bench data; default: generated worlds", "tasks")
    eval_tasks: int = option(50, "tasks of a domain, at most", "tasks", minimum=1)
    eval_trials: int = option(4, "trials of each", "tasks", minimum=1)

    user: str = option("scripted", "who the agent talks to; none: a ticket, alone", "episodes", choices=USERS)
    judge: str = option("none", "of NL_ASSERTION in data; none: left out of the reward", "episodes", choices=JUDGES)
    openai_api_base: str | None = option(None, "endpoint of --user and --judge openai", "episodes")
    openai_api_key: str | None = option(None, "its key; better in OPENAI_API_KEY; never written to a file", "episodes",
                                        secret=True)  # fmt: skip
    openai_model: str | None = option(None, "its model", "episodes")
    openai_threads: int = option(32, "its requests at once, of a process", "episodes", minimum=1)
    temperature: float = option(1.0, "of sampling; 0: the most probable tokens", "episodes", minimum=0)
    max_turns: int = option(20, "assistant messages after which an episode has failed", "episodes", minimum=1)
    max_errors: int = option(5, "refused tool calls after which it has", "episodes", minimum=1)
    max_new_tokens: int = option(256, "of one turn", "episodes", minimum=1)
    max_length: int = option(8192, "tokens of an episode", "episodes", minimum=2)
    engine: str = option("static", "hf: transformers' own cache; vllm: pip install vllm", "episodes", choices=ENGINES)
    slots: int = option(64, "episodes that a process plays at once; changes no result", "episodes", minimum=1)

    seed: int = option(0, "tasks and sampling are a function of it", "run", minimum=0)
    report_json: str | None = option(None, "write the result here", "run")
    page: str | None = option(None, "write tables and sample dialogues as a page here", "run")
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    dist_timeout: float = option(600.0, "seconds after which a waiting collective gives up", "run", above=0)


def main(config: Config) -> None:
    acc = launch.start(config, precision=None, sharding=False)
    started = time.monotonic()
    check_judge(config)
    pools, sets = choose_pools(config)
    setup = prepare(config, acc.device)
    dropped = sets.dropped(pools) if config.judge == "none" else {}
    for note in (*setup.chat.notes, *sets.notes, *map(dropped_note, dropped.items())):
        acc.print(note)
    engine = make_engine(config.engine, setup.model, setup.evaluation_sampling, config.slots)
    engine.refresh()
    rolling = time.monotonic()
    with StopSignals() as signals:
        roller = Roller(
            Ranks(acc), engine, setup.model, setup.model, setup, sets, Progress(), lambda: signals.requested
        )  # fmt: skip
        # The same key as the trainer's: the last row of its matrix can be measured again.
        key = ("evaluation", "held out" if config.split == HELD_OUT else "tasks")
        played = roller.play(list(enumerate(row for pool in pools.values() for row in pool)), config.eval_trials, key)
    if played is None:
        acc.print(f"stopped by {signals.name or 'a signal'}: nothing was written")
        return
    seconds = time.monotonic() - rolling
    texts = gather_rows(acc, [row_of(each, 0) for each in played.own] if config.page else [])
    tokens = global_sums(acc, {"sampled_tokens": float(played.counts["sampled_tokens"])})["sampled_tokens"]
    if acc.is_main_process:
        evaluations = measured.evaluations_of(played.outcomes, pools)
        nothing = {domain: measured.do_nothing_success(pool, sets.make) for domain, pool in pools.items()}
        speed = {"sampled_tokens": tokens, "seconds": seconds, "wall_s": time.monotonic() - started}
        results = results_of(config, evaluations, nothing, speed | {"processes": acc.num_processes})
        results["dropped"] = dropped
        unread = sum(each["truncated"] and not each["turns"] and each["error"] is None for each in played.outcomes)
        if unread:
            longest = setup.evaluation_sampling.max_length
            print(f"{unread} episodes were lost: their prompts are longer than the {longest} tokens of context")
        report(config, results, evaluations, texts)


def prepare(config: Config, device: torch.device) -> run_setup.Setup:
    """The model on its device, as it is evaluated in training. Raises UserError."""
    names = {field.name for field in fields(GrpoOptions)} - {"temperature"}
    given = {field.name: getattr(config, field.name) for field in fields(config) if field.name in names}
    options = GrpoOptions(**given, eval_temperature=config.temperature)
    object.__setattr__(options, "explicit", getattr(config, "explicit", frozenset()))
    dtype = ("bf16" if device.type == "cuda" else "fp32") if config.dtype == "auto" else config.dtype
    model, chat = load_model(
        config.model, domains=names_of(config.domains), user=config.user, seed=config.seed, dtype=DTYPES[dtype],
        chat_template=config.chat_template,
    )  # fmt: skip
    return run_setup.with_model(options, model.eval(), chat, device)


def report(config: Config, results: dict, evaluations: dict, rows: list[dict]) -> None:
    """Print the table; write the files."""
    print(table_text(results, evaluations), flush=True)
    if config.report_json:
        atomic_write_json(config.report_json, results)
        print(f"wrote {config.report_json}")
    if config.page:
        rows.sort(key=lambda row: (row["group"], row["sample"]))
        print(f"wrote {write_page(config.page, config, results, evaluations, rows)}")


if __name__ == "__main__":
    sys.exit(launch.run(main, Config, aliases=ALIASES))
