"""Finding the games of others: what is there, what is not, and what to install, in one line."""

import difflib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from lib.errors import UserError, in_words

INSTALL = {
    "smac": "pip install git+https://github.com/oxwhirl/smac.git",
    "smacv2": "pip install git+https://github.com/oxwhirl/smacv2.git",
    "smaclite": "pip install git+https://github.com/uoe-agents/smaclite.git",
}
# A folder that only the game has: it is looked for before anything of a package is imported.
MARKS = {"smac": "env/starcraft2", "smacv2": "env/starcraft2", "smaclite": "env/maps"}
CLASSES = {"smac": "StarCraft2Env", "smacv2": "StarCraftCapabilityEnvWrapper", "smaclite": "SMACliteEnv"}
STARCRAFT = {"darwin": "/Applications/StarCraft II", "linux": "~/StarCraftII"}


def find_package(name: str, module: str) -> ModuleType:
    """`name.module` of a game; UserError where the game is not there, cannot be imported or is another package."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        aside = "; what the package index calls smac is another program (AutoML)" if name == "smac" else ""
        raise UserError(f"--env {name}: the package is not installed: {INSTALL[name]}{aside}")
    folders = list(spec.submodule_search_locations or ())
    if not any(Path(folder, MARKS[name]).is_dir() for folder in folders):
        what = "AutoML's optimiser" if name == "smac" else "another program"
        where = folders[0] if folders else spec.origin
        raise UserError(
            f"--env {name}: the package {name} in {where} is {what}, not the game:"
            f" pip uninstall {name}, then {INSTALL[name]}"
        )
    try:
        environments = importlib.import_module(f"{name}.env")
        found = importlib.import_module(f"{name}.{module}")
    except Exception as error:  # a package of others may raise anything where what it needs is missing
        raise UserError(f"--env {name}: its package cannot be imported ({in_words(error)}): {INSTALL[name]}") from error
    if not hasattr(environments, CLASSES[name]):
        raise UserError(f"--env {name}: its package has no {name}.env.{CLASSES[name]}: {INSTALL[name]}")
    return found


def find_starcraft(name: str) -> None:
    """UserError where StarCraft II or the maps of SMAC are not where pysc2 looks for them.

    On Windows pysc2 asks the game's own files: only a given SC2PATH is looked at.
    """
    given = os.environ.get("SC2PATH")
    usual = STARCRAFT.get(sys.platform)
    if given is None and usual is None:
        return
    folder = Path(given or usual).expanduser()
    if not folder.joinpath("Versions").is_dir():
        raise UserError(
            f"--env {name}: there is no StarCraft II in {folder}: install it (github.com/Blizzard/s2client-proto,"
            " Linux packages) and set SC2PATH to its folder"
        )
    maps = folder / "Maps" / "SMAC_Maps"
    if not maps.is_dir():
        raise UserError(f"--env {name}: there is no {maps}: unpack SMAC_Maps.zip of github.com/oxwhirl/smac there")


def unknown_map(name: str, map_name: str, maps: list[str]) -> UserError:
    """What to say of a map that the game does not have."""
    close = difflib.get_close_matches(map_name, maps, n=1, cutoff=0.0)
    nearest = f", did you mean {close[0]}" if close else ""
    return UserError(f"--map {map_name}: --env {name} has no such map{nearest}? There are {', '.join(maps)}")
