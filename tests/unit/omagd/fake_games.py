"""Packages of the names of SMAC, SMACv2 and SMAClite, made of stand-ins: `install(folder)` for sys.path or PYTHONPATH.

This folder must be on the path, too: they import from it.
"""

from pathlib import Path

PACKAGES = {
    "smac/__init__.py": "",
    "smac/env/__init__.py": "from fake_starcraft import FakeStarCraft2Env as StarCraft2Env\n",
    "smac/env/starcraft2/__init__.py": "",
    "smac/env/starcraft2/maps/__init__.py": "",
    "smac/env/starcraft2/maps/smac_maps.py": "from fake_starcraft import SMAC_MAPS\n\n"
    "def get_smac_map_registry():\n    return SMAC_MAPS\n",
    "smacv2/__init__.py": "",
    "smacv2/env/__init__.py": "from fake_starcraft import FakeCapabilityEnv as StarCraftCapabilityEnvWrapper\n",
    "smacv2/env/starcraft2/__init__.py": "",
    "smacv2/env/starcraft2/maps/__init__.py": "",
    "smacv2/env/starcraft2/maps/smac_maps.py": "def get_smac_map_registry():\n"
    "    return dict.fromkeys(['10gen_terran', '10gen_zerg', '10gen_protoss', '3m'])\n",
    "smaclite/__init__.py": "",
    "smaclite/env/__init__.py": "from fake_smaclite import FakeSMACliteEnv as SMACliteEnv\n",
    "smaclite/env/maps/__init__.py": "",
    "smaclite/env/maps/map.py": "from fake_smaclite import FakeMapPreset as MapPreset\n",
}
# The other program of that name: it must not even be imported.
AUTOML = {"smac/__init__.py": "raise SystemExit('AutoML was imported')\n", "smac/main/__init__.py": ""}


def write(folder: Path, files: dict[str, str]) -> Path:
    """Files with their folders, below `folder`."""
    for name, text in files.items():
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(text)
    return folder


def install(folder: Path) -> Path:
    """Packages of the three games, and what looks like StarCraft II in `folder`/starcraft."""
    for name in ("Versions", "Maps/SMAC_Maps"):
        folder.joinpath("starcraft", name).mkdir(parents=True)
    return write(folder, PACKAGES)
