"""Networks, exports and battles that several tests of players and pages use."""

import hashlib
import json
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import save_file

from lib.checkpoint import EXPORT_FORMAT
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.options import OmagdOptions
from lib.omagd.players import ScriptedPlayer
from lib.omagd.replay import BattleReplay, record_battle


def network(map_name: str = "3m", seed: int = 0) -> Agent:
    """An untrained network with large weights: what it does depends on what it sees and remembers."""
    torch.manual_seed(seed)
    layout = Layout.of(MAPS[map_name])
    agent = Agent(AgentConfig(layout.obs_size, layout.n_actions, layout.n_agents, hidden=16))
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.normal_(0.0, 0.7)
    return agent


def described(map_name: str = "3m", **changes) -> dict:
    """What an export says of its battles."""
    return {"map": map_name, "observe": "obs", **OmagdOptions().battle_options(), **changes}


def write_squad(folder: Path, agent: Agent, battle: dict, **changes) -> Path:
    """An export folder as a run writes it; `changes` are of its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(agent.state_dict(), folder / "model.safetensors")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    config = {"format": EXPORT_FORMAT, "sha256": {"model.safetensors": digest}, **agent.config.to_dict()}
    (folder / "config.json").write_text(json.dumps(config | {"battle": battle} | changes))
    return folder


@cache
def scripted_battle(name: str = "focus", map_name: str = "2s3z", seed: int = 3) -> BattleReplay:
    """A whole battle of a scripted player."""
    return record_battle(ScriptedPlayer(name), seed=seed, map_name=map_name)
