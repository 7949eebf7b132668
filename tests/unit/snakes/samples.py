"""Actors, exports and files that several tests of players use."""

import hashlib
import json
import textwrap
from pathlib import Path

import torch
from safetensors.torch import save_file

from lib.checkpoint import EXPORT_FORMAT
from lib.snakes import SnakesVec
from lib.snakes.network import Actor, ActorConfig, Trunk


def wild_actor(seed: int = 0, **options) -> Actor:
    """An untrained actor with large weights: its moves differ from state to state and its snakes die often."""
    vec = SnakesVec(32, seed=seed, features=options.get("features", "team"), left="random", right="random")
    for _ in range(40):
        vec.step()
    generator = torch.Generator().manual_seed(seed)
    actor = Actor(ActorConfig(**{"hidden": (24, 24), **options}))
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
        # No move is the favourite of all states.
        actor.layers[-1].bias -= Trunk.forward(actor, vec.features[:, 0]).mean((0, 1))
    return actor.eval()


def write_export(folder: Path, actor: Actor) -> Path:
    """An export folder as a run writes it."""
    folder.mkdir(parents=True)
    save_file(actor.state_dict(), folder / "model.safetensors")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    config = {"format": EXPORT_FORMAT, "sha256": {"model.safetensors": digest}, **actor.config.to_dict()}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_submission(folder: Path, code: str, name: str = "submission.py") -> Path:
    """A submission file with this code."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return path


ALWAYS_RIGHT = """
def my_controller(observation, action_space, is_act_continuous=False):
    return [[0, 0, 0, 1]]
"""
