"""Scripts as modules: their `main` and `Config`, without a process of their own."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def load(name: str, folder: Path = SCRIPTS) -> ModuleType:
    """<folder>/<name>.py, known to sys.modules by that name (its dataclasses look themselves up there)."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
