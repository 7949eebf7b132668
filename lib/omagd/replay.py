"""The record of one battle: every state, action, target and reward, and whom each agent saw; its JSON form."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from lib.errors import UserError
from lib.files import atomic_write_json, read_json
from lib.omagd.battle.arrays import COOLDOWN, DEAD_ALLIES, DEAD_ENEMIES, HEALTH, LIMIT, SHIELD, TARGET, WON, X, Y
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS, BattleMap
from lib.omagd.battle.targets import NOBODY
from lib.omagd.players import Act, Player

FORMAT = "quartet-battle-replay"
VERSION = 1
DECIMALS = 3
DEFAULT_MAP = "3m"
RESULTS = {"victory": "victory", "defeat": "defeat", "draw": "a draw", "limit": "ended by the time limit"}
NUMBERS = {"x": X, "y": Y, "health": HEALTH, "shield": SHIELD, "cooldown": COOLDOWN}
OF_STATES = (*NUMBERS, "alive", "targets", "visible")
OF_STEPS = ("actions", "rewards", "returns")
GREATEST = 1e6  # of any number of a replay


@dataclass
class BattleReplay:
    """One battle of S steps, A agents and U units (allies, then enemies). State 0 is the start, state k + 1 follows
    from actions[k]. Numbers are rounded to DECIMALS.

    options: keywords of BattleVec, `sight` among them. seed, battle: the battle is number `battle` of the seed.
    result: one of RESULTS.

    x, y (map units), health, shield, cooldown (seconds; a healer's energy): [S + 1][U]. alive: [S + 1], a text with
    "1" for each living unit. targets: [S + 1][U], the unit that each aimed at in the last tick that it lived through of
    the step before, -1 for nobody and for those who were dead before that step. visible: [S + 1][A], a text with "1"
    for each unit that the agent sees. actions: [S][A], see `battle/layout.py`. rewards, returns (the sum so far): [S].
    """

    map: str
    player: str
    seed: int
    battle: int
    limit: int
    options: dict
    result: str = ""
    x: list[list[float]] = field(default_factory=list)
    y: list[list[float]] = field(default_factory=list)
    health: list[list[float]] = field(default_factory=list)
    shield: list[list[float]] = field(default_factory=list)
    cooldown: list[list[float]] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    targets: list[list[int]] = field(default_factory=list)
    visible: list[list[str]] = field(default_factory=list)
    actions: list[list[int]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self.actions)

    def deaths(self) -> list[tuple[int, int]]:
        """(step, unit) of every death, in the order of steps; the first step is 1."""
        return [
            (step, unit)
            for step in range(1, self.steps + 1)
            for unit, lives in enumerate(self.alive[step])
            if lives == "0" and self.alive[step - 1][unit] == "1"
        ]

    def title(self) -> str:
        """Who fought where."""
        return f"{self.player} on {self.map}, battle {self.battle} of seed {self.seed}"

    def outcome(self) -> str:
        """The end of the battle in a few words."""
        return f"{RESULTS[self.result]} after {self.steps} steps"

    def result_line(self) -> str:
        """The end of the battle: outcome, return, who is left."""
        agents, last = MAPS[self.map].n_agents, self.alive[-1]
        left = f"{last[:agents].count('1')} of {agents} allies and {last[agents:].count('1')} of {len(last) - agents}"
        return f"{self.outcome()}, return {self.returns[-1]:.2f}: {left} enemies are left"

    def summary(self) -> str:
        """The battle in a few lines: who fought, who died when, the end."""
        battle_map = MAPS[self.map]
        lines = [f"{self.title()}: {armies(battle_map)}, sight {self.options['sight']:g}"]
        lines += [f"step {step:>3}  {unit_name(battle_map, unit)} dies" for step, unit in self.deaths()]
        return "\n".join([*lines, self.result_line()])

    def to_json(self) -> dict:
        """Plain lists, one entry a state or a step. See `from_json`."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @staticmethod
    def from_json(stored: object, source: str = "the replay") -> BattleReplay:
        """The replay of `to_json`; UserError naming `source` for anything that is not one, whole and sound."""
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise UserError(f"{source} is not the replay of a battle: expected a file that watch_omagd.py --json wrote")
        if stored.get("version") != VERSION:
            raise UserError(f"{source} has version {stored.get('version')!r}: this program reads version {VERSION}")
        _check_facts(stored, source)
        _check_lengths(stored, source)
        _check_rows(stored, source)
        return BattleReplay(**{name: stored[name] for name in BattleReplay.__dataclass_fields__})


def armies(battle_map: BattleMap) -> str:
    """Both armies in words, as "2 stalker 3 zealot against 5 zealot"."""
    sides = battle_map.units[: battle_map.n_agents], battle_map.units[battle_map.n_agents :]
    counts = [Counter(type_name(unit.name) for unit in side) for side in sides]
    return " against ".join(" ".join(f"{n} {name}" for name, n in count.items()) for count in counts)


def type_name(name: str) -> str:
    """The name of a type of unit as people write it."""
    return name.replace("_", " ")


def unit_name(battle_map: BattleMap, unit: int) -> str:
    """Side, type and number of a unit; the units of a side are numbered from 1."""
    side, first = ("ally", 0) if unit < battle_map.n_agents else ("enemy", battle_map.n_agents)
    return f"{side} {type_name(battle_map.units[unit].name)} {unit - first + 1}"


def record_battle(
    player: Player, *, seed: int, number: int = 0, map_name: str | None = None, device="cpu", **options
) -> BattleReplay:
    """Battle `number` of `seed`, played by `player` to its end.

    map_name and options (keywords of BattleVec): those of the player's own battles unless given, for a scripted player
    DEFAULT_MAP and the defaults. UserError when the player cannot play the map, an option is not one, or the player was
    trained on a game of others.
    """
    if "env" in (player.battle or {}):
        raise UserError(
            f"{player.name}: was trained on battles of {player.battle['env']}: only embedded ones are shown"
        )
    own = {name: value for name, value in (player.battle or {}).items() if name != "observe"}
    own_map = own.pop("map", DEFAULT_MAP)
    options = own | options
    battles = BattleVec(
        own_map if map_name is None else map_name, 1, device=device, seed=seed, first_battle=number, autoreset=False,
        **options,
    )  # fmt: skip
    return record(battles, player.start(battles), name=player.name, options=options)


def record(battles: BattleVec, act: Act, *, name: str, options: dict) -> BattleReplay:
    """Play the one battle of `battles`, which has just begun, to its end. `act` writes the actions of a step.

    `battles` must have been made with autoreset=False, so that the last state is still there to be recorded.
    """
    assert battles.num_battles == 1 and int(battles.step_count[0]) == 0, "record needs one battle that has just begun"
    options = {**options, "sight": battles.sight}
    replay = BattleReplay(battles.map.name, name, battles.seed, battles.first_battle, battles.limit, options)
    _add_state(replay, battles)
    while not battles.done[0]:
        act()
        battles.step()
        assert int(battles.step_count[0]) > 0, "record needs BattleVec(..., autoreset=False): the end is gone"
        replay.actions.append(battles.actions[0].tolist())
        replay.rewards.append(round(float(battles.rewards[0]), DECIMALS))
        replay.returns.append(round(float(battles.returns[0]), DECIMALS))
        _add_state(replay, battles)
    replay.result = _result(battles.info[0].tolist(), battles.map)
    return replay


def _add_state(replay: BattleReplay, battles: BattleVec) -> None:
    for name, row in NUMBERS.items():
        getattr(replay, name).append([round(value, DECIMALS) for value in battles.units[0, row].tolist()])
    alive = _letters(battles.alive[0])
    before = replay.alive[-1] if replay.alive else "0" * len(alive)
    aims = battles.aims[0, TARGET].tolist()
    # The target of the dead stays in the arrays as it last was.
    replay.targets.append([aim if lived == "1" else NOBODY for aim, lived in zip(aims, before, strict=True)])
    replay.alive.append(alive)
    # An agent is the first of its own nodes; as units they are in the order of their numbers.
    nodes = enumerate(map(_letters, battles.visible[0]))
    replay.visible.append([seen[1 : agent + 1] + seen[0] + seen[agent + 1 :] for agent, seen in nodes])


def _letters(flags: torch.Tensor) -> str:
    return "".join("1" if flag else "0" for flag in flags.tolist())


def _result(info: list[int], battle_map: BattleMap) -> str:
    if info[WON]:
        return "victory"
    if info[LIMIT]:
        return "limit"
    nobody = info[DEAD_ALLIES] == battle_map.n_agents and info[DEAD_ENEMIES] == battle_map.n_enemies
    return "draw" if nobody else "defeat"


def load_replay(path: str | Path) -> BattleReplay:
    """Read a file of `save_replay`; UserError when it is missing or not a sound replay."""
    return BattleReplay.from_json(read_json(Path(path)), str(path))


def save_replay(replay: BattleReplay, path: str | Path) -> None:
    """Write the JSON form. UserError when it cannot be written; a former file then stays."""
    atomic_write_json(Path(path), replay.to_json())


def _check_facts(stored: dict, source: str) -> None:
    checks = {
        "map": (lambda value: isinstance(value, str) and value in MAPS, "the name of a map"),
        "player": (lambda value: isinstance(value, str), "a text"),
        "seed": (lambda value: _is_whole(value, 0, 2**64 - 1), "a seed"),
        "battle": (lambda value: _is_whole(value, 0, 2**31 - 1), "the number of a battle"),
        "limit": (lambda value: _is_whole(value, 1, 2**16 - 1), "a number of steps"),
        "result": (lambda value: isinstance(value, str) and value in RESULTS, f"one of {', '.join(RESULTS)}"),
        "options": (_are_options, "options with a sight above 0"),
    }
    for name, (holds, expected) in checks.items():
        if not holds(stored.get(name)):
            raise UserError(f"{source}: {name} is {_short(stored.get(name))}, expected {expected}")


def _are_options(value: object) -> bool:
    return isinstance(value, dict) and _is_number(value.get("sight")) and value["sight"] > 0


def _check_lengths(stored: dict, source: str) -> None:
    for name in (*OF_STATES, *OF_STEPS):
        if not isinstance(stored.get(name), list):
            raise UserError(f"{source}: {name} is missing or not a list: the file is damaged")
    steps = len(stored["actions"])
    for name in (*OF_STATES, *OF_STEPS):
        found, wanted = len(stored[name]), steps + (name in OF_STATES)
        if steps < 1 or found != wanted:
            raise UserError(f"{source}: {name} has {found} entries, expected {wanted}: the file is cut short")


def _check_rows(stored: dict, source: str) -> None:
    battle_map = MAPS[stored["map"]]
    units, agents, actions = battle_map.n_units, battle_map.n_agents, Layout.of(battle_map).n_actions
    checks = {name: lambda row: _is_row(row, units, _is_number) for name in NUMBERS}
    checks |= {
        "alive": lambda row: _are_flags(row, units),
        "targets": lambda row: _is_row(row, units, lambda value: _is_whole(value, NOBODY, units - 1)),
        "visible": lambda row: _is_row(row, agents, lambda value: _are_flags(value, units)),
        "actions": lambda row: _is_row(row, agents, lambda value: _is_whole(value, 0, actions - 1)),
        "rewards": _is_number,
        "returns": _is_number,
    }
    for name, holds in checks.items():
        for place, row in enumerate(stored[name]):
            if not holds(row):
                raise UserError(
                    f"{source}: entry {place} of {name} is {_short(row)}: not of a battle on {battle_map.name}, which"
                    f" has {agents} agents and {battle_map.n_enemies} enemies; the file is damaged"
                )


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < GREATEST


def _is_row(row: object, count: int, holds) -> bool:
    return isinstance(row, list) and len(row) == count and all(holds(value) for value in row)


def _are_flags(value: object, count: int) -> bool:
    return isinstance(value, str) and len(value) == count and set(value) <= {"0", "1"}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
