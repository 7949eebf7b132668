"""The originals' weight files: written beside the checkpoints, and read by --load_model."""

import re
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn

from lib.errors import UserError
from lib.files import atomic_write_bytes
from lib.snakes.learner import Learner
from lib.snakes.options import SnakesOptions
from lib.tensor_files import read_tensors

RUNS = Path("runs/snakes")
FOLDER = "trained_model"


def write(run: Path, config: SnakesOptions, episode: int, learner: nn.Module) -> None:
    """RUN/trained_model/{actor,critic}_<episode>.safetensors. Raises UserError on a full disk."""
    for name, module in (("actor", learner.actor), ("critic", learner.critics)):
        tensors = {key: value.cpu().contiguous() for key, value in module.state_dict().items()}
        atomic_write_bytes(run / FOLDER / f"{name}_{config.model_episode + episode}.safetensors", save(tensors))


def episode_name(config: SnakesOptions, games: int) -> int:
    """The episode in file names when `games` games of a process are over: whole save intervals, or all of them."""
    if games >= config.max_episodes:
        return config.max_episodes
    return games // config.save_interval * config.save_interval if config.save_interval else games


def weights(config: SnakesOptions) -> dict[str, torch.Tensor] | None:
    """The learner's weights that --load_model asks for, None without it. UserError names what there is instead."""
    if not config.load_model:
        return None
    number, episode = config.load_model_run, config.load_model_run_episode
    found = sorted(path for path in RUNS.glob(f"run{number}*") if re.fullmatch(rf"run{number}(_.*)?", path.name))
    wanted = [path / FOLDER / f"actor_{episode}.safetensors" for path in found]
    file = next((path for path in wanted if path.is_file()), None)
    if file is None:
        place = found[-1] / FOLDER if found else RUNS / f"run{number}"
        raise UserError(
            f"Model not founded at {place}: looked for run {number}, episode {episode}; there is {existing(number)}"
        )
    critic = file.with_name(file.name.replace("actor_", "critic_"))
    if not critic.is_file():
        raise UserError(f"Model not founded at {critic}: the actor of this episode is there, this is not")
    tensors = {f"actor.{name}": value for name, value in read_tensors(file).items()}
    tensors |= {f"critics.{name}": value for name, value in read_tensors(critic).items()}
    wanted = {name: tuple(value.shape) for name, value in Learner(config.learner_config()).state_dict().items()}
    given = {name: tuple(value.shape) for name, value in tensors.items()}
    for name in sorted({*wanted, *given}):
        if wanted.get(name) != given.get(name):
            raise UserError(
                f"{file} is of another architecture: {name} is {given.get(name, 'missing')} there and"
                f" {wanted.get(name, 'missing')} here; give the --features, --hidden, --critics, --critic and"
                f" --comm of that run; a run of another version may see another number of features"
            )
    return tensors


def existing(number: int) -> str:
    """What --load_model could have been given, in words."""
    runs = {}
    for file in RUNS.glob(f"run*/{FOLDER}/actor_*.safetensors"):
        name = re.match(r"run(\d+)", file.parent.parent.name)
        if name:
            runs.setdefault(int(name[1]), []).append(int(file.stem.removeprefix("actor_")))
    if number in runs:
        return f"run {number} with the episodes {', '.join(map(str, sorted(runs[number])))}"
    listed = [f"run {run} (episodes {min(episodes)} to {max(episodes)})" for run, episodes in sorted(runs.items())]
    return ", ".join(listed) or f"no saved model in {RUNS}"
