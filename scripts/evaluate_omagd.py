"""How good a team for unit battles is: greedy battles beside scripted and random play of the same ones, 95 % intervals.

One process:   python scripts/evaluate_omagd.py --checkpoint RUN/export --episodes 512 --report_json FILE
Two on a CPU:  accelerate launch --config_file accelerate_configs/cpu_2.yaml scripts/evaluate_omagd.py ...
Another sight: python scripts/evaluate_omagd.py --checkpoint RUN/export --sight 6
A script:      python scripts/evaluate_omagd.py --checkpoint kite --map 3s_vs_3z
In SMAC:       python scripts/evaluate_omagd.py --checkpoint RUN/export --env smac --map 3m
"""

import contextlib
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from lib import launch
from lib.args import option
from lib.checkpoint import StopSignals, atomic_write_json, load_export
from lib.distributed import global_sums
from lib.errors import UserError
from lib.omagd.battle.maps import MAPS
from lib.omagd.battle.players import PLAYERS
from lib.omagd.battle.rules import REWARDS
from lib.omagd.evaluation import SCRIPTED, Tally, Trials, play_share
from lib.omagd.foreign.choose import (
    DEFAULTS,
    EMBEDDED,
    ENVIRONMENTS,
    OTHER_NAMES,
    OWN,
    check_own_options,
    enemies_of,
    read_arguments,
)
from lib.omagd.options import DECIDED, BattleOptions
from lib.omagd.players import Player, load_player
from lib.omagd.reporting import table_lines
from lib.seeds import derive

ALIASES = {"player": "checkpoint", "test_nepisode": "episodes", "map_name": "map"}
OF_BATTLES = "default: as it was trained"
MANY, FEW, AT_ONCE = 512, DEFAULTS["final_nepisode"], DEFAULTS["batch_size_run"]
SWAPPED = ("stalker", "zealot")  # types that SMAC numbers the other way round for enemies


@dataclass
class Config:
    """Who plays, on what, and how often."""

    checkpoint: str = option(help=f"RUN/export, or a script: {', '.join(PLAYERS)}", group="battle")
    episodes: int | None = option(
        None, f"battles over all processes; {MANY}, of a game of others {FEW} unless given", "battle", minimum=1
    )
    env: str | None = option(
        None, f"the game; {OF_BATTLES}, a script the embedded ones", "battle", choices=ENVIRONMENTS
    )
    map: str | None = option(None, f"one of the maps of SMAC; {OF_BATTLES}, a script on 3m", "battle")
    env_args: str | None = option(None, "comma list of name=value of the game of --env: difficulty=7", "battle")
    sight: float | None = option(None, f"how far agents see; {OF_BATTLES}", "battle", above=0)
    leaky_mask: bool | None = option(None, f"attacks up to 6 whatever the sight; {OF_BATTLES}", "battle")
    tick_rate: float | None = option(None, f"16 or 22.4; {OF_BATTLES}", "battle")
    reward: str | None = option(None, f"what the return counts; {OF_BATTLES}", "battle", choices=REWARDS)
    spawn_jitter: float | None = option(None, f"units start up to so far from their place; {OF_BATTLES}", "battle")
    batch_size_run: int | None = option(
        None, f"games of others at once in each process; default {AT_ONCE}", "battle", minimum=1
    )
    baselines: bool = option(True, f"also attack-{SCRIPTED} and random play of the same battles", "battle")
    seed: int = option(0, "the battles are a function of it", "run", minimum=0)
    report_json: str | None = option(None, "write the result here", "run")
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    dist_timeout: float = option(600.0, "seconds after which a waiting collective gives up", "run", above=0)

    def battle_options(self, player: Player) -> dict:
        """What is fought and what a network is told of it: as the export says, but for what was given here."""
        trained = {"env": EMBEDDED} | (player.battle or {})
        env = OTHER_NAMES.get(self.env, self.env) or trained["env"]
        arguments = read_arguments(env, self.env_args or "")
        given = {name: getattr(self, name) for name in ("map", *DECIDED) if getattr(self, name, None) is not None}
        if env == EMBEDDED:
            if self.batch_size_run is not None:
                raise UserError("--batch_size_run: embedded battles are all played at once; drop it")
            known = BattleOptions()
            usual = {"map": known.map, "observe": known.observe, **known.battle_options()}
        else:
            decided = {name: given.pop(name, None) for name in DECIDED}
            check_own_options(env, decided, frozenset(name for name in decided if decided[name] is not None))
            usual = {"map": None, "observe": "obs", "env_args": {}}
        kept = usual if trained["env"] == env else ("map", "observe")  # what means the same in another game
        options = usual | {name: trained[name] for name in kept if name in trained} | given
        if env != EMBEDDED:
            options["env_args"] = options["env_args"] | arguments
        if options["map"] is None:
            raise UserError(f"--map is missing: a script has none of its own; give one of the maps of {env}")
        if player.battle and trained["env"] != env:
            options |= same_meaning(player.name, trained, {"env": env} | options, given)
        return {"env": env} | options


def same_meaning(name: str, trained: dict, battle: dict, given: dict) -> dict:
    """Options with which numbers mean in another game what they meant in training; UserError where it has none such."""
    found = {}
    for option_name in ("sight", "smac_type_bits"):
        wanted = OWN.get(trained["env"], trained).get(option_name)
        if option_name == "smac_type_bits" and getattr(MAPS.get(battle["map"]), "type_names", ()) != SWAPPED:
            continue
        if battle["env"] == EMBEDDED and option_name not in given and wanted is not None:
            found[option_name] = wanted
        elif battle["env"] != EMBEDDED and wanted != OWN[battle["env"]].get(option_name):
            raise UserError(
                f"{name}: was trained with {option_name} {wanted}, in {battle['env']} it is"
                f" {OWN[battle['env']].get(option_name)}: what the network is told would mean something else there"
            )
    return found


def main(config: Config) -> None:
    acc = launch.start(config, precision="fp32", sharding=False)
    player = load_player(config.checkpoint, load_export)
    battle = config.battle_options(player)
    options = {name: value for name, value in battle.items() if name not in ("map", "observe")}
    episodes = config.episodes or (MANY if battle["env"] == EMBEDDED else FEW)
    test = Trials(
        battle["map"], episodes, seed=derive(config.seed, "evaluate") % 2**63, rank=acc.process_index,
        processes=acc.num_processes, device=acc.device, strict=battle["observe"] == "full_obs",
        at_once=config.batch_size_run or AT_ONCE, **options,
    )  # fmt: skip
    players = {player.name: player}
    if config.baselines:
        players |= {name: load_player(name, load_export) for name in (SCRIPTED, "random")}
    started, tallies = time.monotonic(), {}
    with StopSignals() as signals, contextlib.closing(test):
        for name, each in players.items():
            mine = play_share(test, each.start, lambda: signals.requested)
            if signals.agreed(acc):
                acc.print(f"stopped by {signals.name or 'a signal'}: nothing was written")
                return
            tallies[name] = Tally(**global_sums(acc, asdict(mine)))
    if acc.is_main_process:
        report(config, tallies, battle, time.monotonic() - started)


def report(config: Config, tallies: dict[str, Tally], battle: dict, seconds: float) -> None:
    """Print the table; write the file."""
    first = next(iter(tallies.values()))
    sees = f", sight {battle['sight']:g}" if "sight" in battle else ""
    enemies = enemies_of(battle["env"], battle.get("env_args", {}))
    print(f"{battle['map']}{sees}, seed {config.seed}; {enemies}")
    rows = [(name, each.mean("won"), each.interval(), each.mean("returns"), int(each.battles)) for name, each in
            tallies.items()]  # fmt: skip
    print("\n".join(table_lines(rows)))
    print(f"{sum(tally.battles for tally in tallies.values()) / seconds:,.0f} battles/s", flush=True)
    if config.report_json:
        low, high = first.interval()
        rows = {name: {"win_rate": tally.mean("won"), "interval": tally.interval(), "return": tally.mean("returns"),
                       "steps": tally.mean("steps"), "ended_by_limit": tally.mean("late"),
                       "dead_allies": tally.mean("dead_allies"), "dead_enemies": tally.mean("dead_enemies"),
                       "battles": int(tally.battles)} for name, tally in tallies.items()}  # fmt: skip
        found = {"win_rate": first.mean("won"), "interval": [low, high], "battles": int(first.battles)}
        found |= {"players": rows, "battle": battle, "seed": config.seed, "wall_s": round(seconds, 3)}
        atomic_write_json(Path(config.report_json), found)


if __name__ == "__main__":
    sys.exit(launch.run(main, Config, aliases=ALIASES))
