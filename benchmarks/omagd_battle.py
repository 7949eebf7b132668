"""The batched battles against SMAClite, one core: environment steps a second and ratios.

    OMP_NUM_THREADS=1 python benchmarks/omagd_battle.py --peer_dir CHECKOUT [--maps 3m,2s3z,3s5z] [--battles 64,1024]

The peer is a checkout of github.com/uoe-agents/smaclite with its own NumPy collision avoidance (it needs `pip install
gymnasium rtree scikit-learn`); maps it does not have are made from one of its own, with the same armies. Both sides
play random available actions; the draws are part of the time of both. In every step the peer gives observations, state
and available actions, the batched battles also the observations of unlimited sight, who sees whom, and who lives.

Everything takes turns inside a round, with as many steps as --seconds allow; seconds are the CPU seconds of the process
(both sides run on one thread). Each ratio is the median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path

import torch
import warp as wp
from record import interleaved, repeated, write_result

from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.maps import MAPS

BARS = {"3m": (2500, 4000), "2s3z": (1500, 2500), "3s5z": (1200, 2000)}  # at 64 battles: bar, stretch
NEEDED = ("gymnasium", "rtree", "sklearn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer_dir", type=Path, required=True, help="checkout of SMAClite")
    parser.add_argument("--maps", default="3m,2s3z,3s5z")
    parser.add_argument("--battles", default="64,256,1024", help="battles in one batch, comma separated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="about the time of one measurement")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    maps, sizes = arguments.maps.split(","), [int(text) for text in arguments.battles.split(",")]
    work: dict[str, tuple[Callable, int]] = {}
    for name in maps:
        work[f"{name}_peer"] = repeated(peer_steps(arguments.peer_dir, name), 1, arguments.seconds)
        for battles in sizes:
            work[f"{name}_{battles}"] = repeated(our_steps(name, battles), battles, arguments.seconds)
    seconds = interleaved({name: run for name, (run, _) in work.items()}, arguments.rounds, clock=time.process_time)
    rates = {name: [work[name][1] / value for value in values] for name, values in seconds.items()}
    figures = report(rates, maps, sizes)
    settings = {"maps": maps, "battles": sizes, "rounds": arguments.rounds, "seconds": arguments.seconds}
    settings |= {"clock": "process CPU time", "warp": wp.__version__}
    print(f"written: {write_result('omagd_battle', figures, settings=settings).name}")


def our_steps(name: str, battles: int) -> Callable[[], None]:
    """One step of all battles with random available actions, drawn in a kernel."""
    games = BattleVec(name, battles, seed=1)

    def step() -> None:
        games.script("random")
        games.step(check=False)

    return step


def peer_steps(folder: Path, name: str) -> Callable[[], None]:
    """One step of SMAClite with random available actions, and all that it tells; begins anew when a battle is over."""
    environment = peer_environment(folder, name)
    environment.reset()
    state = {"at": 0, "avail": environment.get_avail_actions()}
    limit = MAPS[name].limit

    def step() -> None:
        actions = [random.choice([a for a, free in enumerate(row) if free]) for row in state["avail"]]
        _, _, done, _, _ = environment.step(actions)
        environment.get_state()
        state["at"] += 1
        if done or state["at"] == limit:
            environment.reset()
            state["at"] = 0
        state["avail"] = environment.get_avail_actions()

    return step


def peer_environment(folder: Path, name: str):
    """SMAClite's environment for one of our maps."""
    if not (folder / "smaclite" / "env" / "smaclite.py").is_file():
        raise SystemExit(f"{folder.name} holds no smaclite/env/smaclite.py: give a checkout of SMAClite as --peer_dir")
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        raise SystemExit(f"SMAClite needs {', '.join(missing)}: pip install gymnasium rtree scikit-learn")
    if "pygame" not in sys.modules and importlib.util.find_spec("pygame") is None:
        sys.modules["pygame"] = types.ModuleType("pygame")  # for its pictures, which are not drawn here
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    random.seed(1)
    module = importlib.import_module("smaclite.env.smaclite")
    file = folder / "smaclite" / "env" / "maps" / "smaclite_maps" / f"{name}.json"
    if file.is_file():
        return module.SMACliteEnv(map_file=str(file), seed=1)
    found = json.loads((file.parent / "2s3z.json").read_text())
    battle_map = MAPS[name]
    assert not battle_map.type_names and battle_map.terrain == "simple", f"{name}: SMAClite has no such map"
    for group, army in zip(found["groups"], (battle_map.allies, battle_map.enemies), strict=True):
        group["units"] = {kind.upper(): count for kind, count in army[0].counts}
    found |= {"name": name, "num_allied_units": battle_map.n_agents, "num_enemy_units": battle_map.n_enemies}
    found |= {"ally_has_shields": False, "enemy_has_shields": False, "num_unit_types": 1}
    found["unit_type_ids"] = {kind.upper(): 0 for kind, _ in battle_map.allies[0].counts}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as written:
        written.write(json.dumps(found))
        written.flush()
        return module.SMACliteEnv(map_file=written.name, seed=1)


def report(rates: dict[str, list[float]], maps: list[str], sizes: list[int]) -> dict:
    """Prints the table and returns it."""
    figures = {}
    for name in maps:
        peer = rates[f"{name}_peer"]
        figures[name] = {"smaclite_steps_per_s": round(statistics.median(peer))}
        if name in BARS:
            figures[name] |= dict(zip(("bar", "stretch"), BARS[name], strict=True))
        for battles in sizes:
            values = rates[f"{name}_{battles}"]
            ratios = [value / base for value, base in zip(values, peer, strict=True)]
            figures[name][str(battles)] = {
                "steps_per_s": round(statistics.median(values)),
                "ratio": round(statistics.median(ratios)),
                "ratio_least": round(min(ratios)),
                "ratio_most": round(max(ratios)),
            }
        print(f"{name}: {json.dumps(figures[name])}")
    return figures


if __name__ == "__main__":
    main()
