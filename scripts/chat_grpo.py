"""Talk to a trained agent as the customer, in a generated world: its calls, what they change, and its reward.

A trained agent:   python scripts/chat_grpo.py --model RUN/export --domain retail --level 1
The same task:     python scripts/chat_grpo.py --model RUN/export --domain airline --template cancel_sick --seed 1000007
"""

import sys
from dataclasses import dataclass

import torch

from lib import launch
from lib.args import option
from lib.errors import UserError
from lib.grpo.customer import ShownEnvironment, closing_text, opening_text
from lib.grpo.domains import DOMAINS
from lib.grpo.engine import ENGINES, Sampling, make_engine
from lib.grpo.environment import Limits
from lib.grpo.episodes import Episode, Job
from lib.grpo.generation.generate import TRAINING_SEEDS, make_task, task_of_seed
from lib.grpo.models import DTYPES, load_model
from lib.grpo.options import PRECISIONS
from lib.grpo.page import write_dialogue
from lib.grpo.task import Task


@dataclass
class Config:
    """Which agent, in which world."""

    model: str = option(help="RUN/export, another directory of a model, a hub id, or tiny", group="model")
    dtype: str = option("auto", "bf16 on a GPU, else fp32", "model", choices=PRECISIONS)
    chat_template: str = option("auto", "the model's own, or the training template", "model",
                                choices=("auto", "model", "training"))  # fmt: skip
    device: str | None = option(None, "cpu, or a device of torch; default: the GPU where there is one", "model")

    domain: str = option("retail", "the world", "task", choices=tuple(DOMAINS))
    level: int = option(1, "difficulty of the task, 0 to 4", "task", minimum=0, maximum=4)
    seed: int = option(TRAINING_SEEDS, "the task is a function of domain, template, seed and level", "task", minimum=0)
    template: str | None = option(None, "template of the task; default: drawn from the seed", "task")

    temperature: float = option(1.0, "of sampling; 0: the most probable tokens", "agent", minimum=0)
    max_new_tokens: int = option(256, "of one turn", "agent", minimum=1)
    max_length: int = option(8192, "tokens of the conversation", "agent", minimum=2)
    max_turns: int = option(40, "messages of the agent after which it is over", "agent", minimum=1)
    engine: str = option("static", "hf: transformers' own cache", "agent", choices=ENGINES)
    html: str | None = option(None, "write the dialogue as a page", "output")


def main(config: Config) -> None:
    task = choose_task(config)
    device = choose_device(config.device)
    dtype = ("bf16" if device.type == "cuda" else "fp32") if config.dtype == "auto" else config.dtype
    # The vocabulary of `tiny` is made of the domains it knows; a directory has its own.
    model, chat = load_model(
        config.model, domains=(config.domain,), user="scripted", seed=0, dtype=DTYPES[dtype],
        chat_template=config.chat_template,
    )  # fmt: skip
    longest = min(config.max_length, getattr(model.config, "max_position_embeddings", None) or config.max_length)
    sampling = Sampling(config.temperature, 0, 1.0, config.max_new_tokens, longest, chat.stop_ids)
    engine = make_engine(config.engine, model.to(device).eval(), sampling, slots=1)
    engine.refresh()
    show(opening_text(task))
    environment = ShownEnvironment(read_line, show, Limits(max_turns=config.max_turns))
    episode = Episode(Job(0, 0, task), environment, chat, config.seed, ("chat",))
    # The first line may already have been the last.
    if environment.end is None and episode.error is None:
        engine.play([episode])
    if episode.error is not None:
        raise RuntimeError(episode.error)
    show("\n" + closing_text(environment))
    if config.html:
        show(f"wrote {write_dialogue(environment, config.html)}")


def choose_task(config: Config) -> Task:
    if config.template:
        return make_task(config.domain, config.template, config.seed, config.level)
    return task_of_seed(config.domain, config.seed, config.level)


def choose_device(name: str | None) -> torch.device:
    """Raises UserError for a device that is not there."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = (str(error).splitlines() or ["not there"])[0]
        raise UserError(f"--device {name}: {first}; expected cpu or a device of this machine, cuda:0 say") from None
    return device


def read_line() -> str | None:
    try:
        line = input("you: ")
    except EOFError:
        return None
    if not sys.stdin.isatty():
        show(line)
    return line


def show(text: str) -> None:
    """Print what may hold characters that the terminal cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


if __name__ == "__main__":
    sys.exit(launch.run(main, Config))
