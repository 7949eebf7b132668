"""Who can command the allies of battles: a scripted player, or a trained network from the export of a run."""

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from lib.errors import UserError
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS
from lib.omagd.battle.players import PLAYERS
from lib.omagd.battles import Battles
from lib.omagd.foreign.choose import EMBEDDED, GAMES
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.recon.stages import ReadExport, predictor_of
from lib.omagd.senses import EXPECTED, GUESSES, OBSERVE, RECONSTRUCTED, Eyes, Senses, told_size

SIZES = ("obs_size", "n_actions", "n_agents")
# What an export says of its battles, besides map and observe: keywords of BattleVec, which checks the values.
OPTIONS = {
    "sight": (int, float),
    "leaky_mask": bool,
    "tick_rate": (int, float),
    "reward": str,
    "spawn_jitter": (int, float),
    "smac_type_bits": str,
}

Act = Callable[[], None]


class ScriptedPlayer:
    """A player of `battle.players.PLAYERS`. It has no battles of its own: `battle` is None."""

    battle: dict | None = None

    def __init__(self, name: str):
        if name not in PLAYERS:
            raise UserError(_unknown(name))
        self.name = name

    def start(self, battles: Battles) -> Act:
        """What writes `battles.actions` for the next step."""
        return lambda: battles.script(self.name)


class NetworkPlayer:
    """The greedy play of an agents' network.

    battle: what it was trained on, {"map", "observe", keywords of BattleVec}, of a game of others {"env", "map",
    "observe", "env_args"}. Other options, another map and another game are played as well where the sizes of
    observations, actions and agents are the same.
    """

    def __init__(self, agent: Agent, battle: dict, name: str = "network", eyes: Eyes | None = None):
        self.agent, self.battle, self.name = agent.eval(), battle, name
        self.eyes = eyes or Eyes(battle["observe"])

    def start(self, battles: Battles, epsilon: float = 0.0) -> Act:
        """What writes `battles.actions` for the next step: with probability `epsilon` a random action, the same for
        the same battles. UserError when the sizes of the battles are others.

        The network is moved to the device of the battles, and remembers from here on; a battle that begins anew is
        begun without memory.
        """
        found = _sizes(battles.layout, self.battle["observe"])
        wanted = {name: getattr(self.agent.config, name) for name in SIZES}
        if found != wanted:
            raise UserError(
                f"{self.name} cannot play {battles.map.name}: the map has {_words(found)}, the network was made for"
                f" {_words(wanted)} ({self.battle['map']} of {self.battle.get('env', EMBEDDED)}); play that, or give"
                " another player"
            )
        return greedy(self.agent.to(battles.device), battles, self.eyes.of(battles), epsilon)


Player = ScriptedPlayer | NetworkPlayer


def greedy(agent: Agent, battles: Battles, senses: Senses, epsilon: float = 0.0) -> Act:
    """What writes the available actions of the network's highest values, from the battles as they stand.

    With probability `epsilon` an action is random.

    senses: of these battles, what the network is told. The memory of a battle ends with it.
    """
    n = battles.num_battles
    memory = {"hidden": agent.no_memory(n, battles.device)}
    none = battles.layout.n_actions
    last = torch.full_like(battles.actions, none, dtype=torch.int64)

    @torch.no_grad()
    def act() -> None:
        new = battles.step_count == 0
        last.masked_fill_(new[:, None], none)
        memory["hidden"].view(n, -1).masked_fill_(new[:, None], 0.0)
        senses.forget(new)
        values, memory["hidden"] = agent.step(senses.tell(last), last, memory["hidden"])
        battles.choose(values, epsilon)
        last.copy_(battles.actions)

    return act


def load_player(text: str, read_export: ReadExport) -> Player:
    """The player that `text` names: a scripted one, or the folder of an export or of a run.

    read_export: lib.checkpoint.load_export, which scripts hand in. UserError names what is known, or what is wrong
    with the export.
    """
    text = str(text)
    if text in PLAYERS:
        return ScriptedPlayer(text)
    if not Path(text).exists():
        raise UserError(_unknown(text))
    tensors, config = read_export(text)
    battle = _battle_of(config, text)
    start, predictor = f"{GUESSES}.", None
    if battle["observe"] == RECONSTRUCTED:
        guesses = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
        predictor = predictor_of(config.get(GUESSES), guesses, text)
        tensors = {name: value for name, value in tensors.items() if not name.startswith(start)}
    eyes = Eyes(battle["observe"], predictor, config.get("recon", EXPECTED))
    return NetworkPlayer(_agent_of(tensors, config, battle, text), battle, text, eyes)


def teams_of(names: Iterable[str], read_export: ReadExport) -> dict[str, NetworkPlayer]:
    """By name, those that are no scripts. UserError as of `load_player`."""
    return {name: load_player(name, read_export) for name in names if name not in PLAYERS}


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, PLAYERS, n=1, cutoff=0.0)[0]
    return (
        f"no player {name!r}: neither the folder of an export or run nor a scripted player; the nearest is {nearest},"
        f" all are {', '.join(PLAYERS)}"
    )


def _sizes(layout: Layout, observe: str) -> dict[str, int]:
    return {name: getattr(layout, name) for name in SIZES} | {"obs_size": told_size(layout, observe)}


def _words(sizes: dict[str, int]) -> str:
    return f"{sizes['n_agents']} agents, {sizes['n_actions']} actions and {sizes['obs_size']} numbers an observation"


def _battle_of(config: dict, source: str) -> dict:
    """What an export says of its battles; UserError when it is not of this trainer, or names what is not known."""
    battle = config.get("battle")
    if not isinstance(battle, dict):
        raise UserError(f"{source}: its config.json has no battle: expected the export of a run of train_omagd.py")
    battle = dict(battle)
    env = battle.pop("env", EMBEDDED)
    if env != EMBEDDED:
        return _foreign_battle(env, battle, source)
    _check_names(battle, {"map", "observe", *OPTIONS}, source)
    for name, allowed in (("map", tuple(MAPS)), ("observe", OBSERVE)):
        _check_value(name, battle[name], allowed, source)
    for name, kind in OPTIONS.items():
        value = battle[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UserError(f"{source}: battle.{name} of its config.json is {value!r}: no value of that option")
    return battle


def _foreign_battle(env: str, battle: dict, source: str) -> dict:
    """`_battle_of` of an export that was trained on a game of others, which decides itself what maps there are."""
    _check_names(battle, {"map", "observe", "env_args"}, source)
    for name, value, allowed in (("env", env, tuple(GAMES)), ("observe", battle["observe"], OBSERVE)):
        _check_value(name, value, allowed, source)
    for name, kind in (("map", str), ("env_args", dict)):
        if not isinstance(battle[name], kind):
            raise UserError(f"{source}: battle.{name} of its config.json is {battle[name]!r}: no value of that option")
    known = GAMES[env].arguments
    for name, value in battle["env_args"].items():
        if name not in known or not isinstance(value, known[name]):
            raise UserError(
                f"{source}: battle.env_args of its config.json has {name} = {value!r}: {env} takes none such"
            )
    return {"env": env} | battle


def _check_names(battle: dict, names: set[str], source: str) -> None:
    for name in sorted(names ^ set(battle)):
        wrong = "is missing" if name in names else f"is not known: there are {', '.join(sorted(names))}"
        raise UserError(f"{source}: battle.{name} of its config.json {wrong}")


def _check_value(name: str, value, allowed: tuple[str, ...], source: str) -> None:
    if value not in allowed:
        raise UserError(
            f"{source}: battle.{name} of its config.json is {value!r}: expected one of {', '.join(allowed)}"
        )


def _agent_of(tensors: dict[str, torch.Tensor], config: dict, battle: dict, source: str) -> Agent:
    """The network of an export; UserError when sizes, map and weights disagree."""
    for name in (*SIZES, "hidden"):
        if type(config.get(name)) is not int or config[name] < 1:
            raise UserError(f"{source}: {name} of its config.json is {config.get(name)!r}: expected a number above 0")
    # Of a game of others the layout is known where it is played: `NetworkPlayer.start` compares it.
    sizes = {name: config[name] for name in SIZES}
    if "env" not in battle:
        sizes = _sizes(Layout.of(MAPS[battle["map"]]), battle["observe"])
    if sizes != {name: config[name] for name in SIZES}:
        raise UserError(
            f"{source}: its config.json says {_words(config)}, the map {battle['map']} has {_words(sizes)}: copy the"
            " export folder as a whole"
        )
    agent = Agent(AgentConfig(**sizes, hidden=config["hidden"]))
    wanted = {name: tuple(value.shape) for name, value in agent.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise UserError(
                f"{source}: {name} is {found.get(name, 'missing')}, its config.json says"
                f" {wanted.get(name, 'that there is none')}: copy the export folder as a whole"
            )
    agent.load_state_dict(tensors)
    return agent
