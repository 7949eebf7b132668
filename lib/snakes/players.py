"""Who can play a match: a scripted team, a trained network, or a competition submission in its own Python file."""

import contextlib
import difflib
import hashlib
import importlib.machinery
import importlib.util
import random
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from lib.errors import UserError
from lib.seeds import derive
from lib.snakes import jidi
from lib.snakes.network import Actor
from lib.snakes.rules import CONTROLLERS, FEATURES
from lib.snakes.state import GameState

EXTERNAL = CONTROLLERS["external"]
SCRIPTED = tuple(name for name in CONTROLLERS if name != "external")
# The original's numbers of difficulty for the two bots that have names.
LEVELS = {"level0": "random", "level2": "greedy"}
SUBMISSION_FILE = "submission.py"
OLD_INPUTS = FEATURES["jidi26"]

ReadExport = Callable[[str | Path], tuple[dict[str, torch.Tensor], dict]]


class ScriptedPlayer:
    """A team that the kernel plays by itself; `name` is one of rules.CONTROLLERS except external."""

    features = None

    def __init__(self, name: str):
        name = LEVELS.get(name, name)
        if name not in SCRIPTED:
            raise UserError(_unknown(name))
        self.name, self.controller = name, CONTROLLERS[name]

    def to(self, device) -> "ScriptedPlayer":
        return self


class NetworkPlayer:
    """A team that an actor plays: the most likely move of each snake, or with `sample` one drawn from the policy."""

    controller = EXTERNAL

    def __init__(self, actor: nn.Module, sample: bool = False, name: str = "network"):
        self.actor, self.sample, self.name = actor.eval(), sample, name
        self.features: str = actor.config.features

    def to(self, device) -> "NetworkPlayer":
        """Moves the actor to a device, in place."""
        self.actor.to(device)
        return self

    @torch.no_grad()
    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """Features (games, 3, F) of one team to logits (games, 3, 4)."""
        return self.actor(features)


class OldActor(nn.Module):
    """An actor of the original trainer, algo ddpg or bicnet: its state dict, its 26 numbers, its softmax output.

    Its first layer has no activation. Playing right, it sees the teams' numbers exchanged (layout jidi26), which the
    original's own submission does not do.
    """

    def __init__(self, weights: dict[str, torch.Tensor], source: str):
        super().__init__()
        self.config = types.SimpleNamespace(features="jidi26")
        hidden = _old_width(weights, source)
        talks = any(name.startswith("comm_net.") for name in weights)
        self.prev_dense = nn.Sequential(nn.Linear(OLD_INPUTS, hidden))
        self.comm_net = nn.Module()
        if talks:
            self.comm_net.lstm = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        self.post_dense = nn.Sequential(nn.Linear(2 * hidden if talks else hidden, hidden), nn.ReLU())
        self.post_dense.append(nn.Linear(hidden, 4))
        wanted = {name: tuple(value.shape) for name, value in self.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in weights.items()}
        for name in sorted({*wanted, *found}):
            if wanted.get(name) != found.get(name):
                raise UserError(
                    f"{source}: {name} is {found.get(name, 'missing')}, expected {wanted.get(name, 'no such tensor')}:"
                    " not an actor of the original trainer"
                )
        self.load_state_dict(weights)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(games, 3, 26) to (games, 3, 4)."""
        hidden = self.prev_dense(features)
        if hasattr(self.comm_net, "lstm"):
            hidden = self.comm_net.lstm(hidden)[0]
        return self.post_dense(hidden)


def _old_width(weights: dict[str, torch.Tensor], source: str) -> int:
    first = weights.get("prev_dense.0.weight")
    if first is None or first.ndim != 2:
        raise UserError(f"{source} is no actor of the original trainer: it has no tensor prev_dense.0.weight")
    if first.shape[1] != OLD_INPUTS:
        raise UserError(
            f"{source} takes {first.shape[1]} numbers a snake, expected {OLD_INPUTS}: only the 26-number actors of the"
            " original can be played"
        )
    return first.shape[0]


def load_old_actor(path: str | Path) -> OldActor:
    """An actor_<episode>.pth of the original trainer, read without running code. UserError for anything else."""
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the reader says of a file that is something else
        reason = " ".join(str(error).split())[:120]
        raise UserError(
            f"{path} is not readable as a file of weights ({type(error).__name__}: {reason}); expected an"
            " actor_<episode>.pth of the original trainer"
        ) from error
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise UserError(f"{path} holds {type(weights).__name__}, expected the state dict of an actor")
    return OldActor(weights, str(path)).eval()


class SubmissionPlayer:
    """A team that a Jidi submission plays: a file with my_controller(observation, action_space, is_continuous).

    The file is a program: it runs as it is, with the rights of this process. It is loaded anew for every game, in a
    namespace of its own and with its folder on the import path, so that no game depends on another.
    """

    controller = EXTERNAL
    features = None

    def __init__(self, path: str | Path):
        path = Path(path)
        self.path = (path / SUBMISSION_FILE if path.is_dir() else path).resolve()
        self.name = str(path)
        try:
            self.code = compile(self.path.read_bytes(), str(self.path), "exec")
        except OSError as error:
            raise UserError(f"{self.path} is not readable: {error.strerror or error}") from error
        except (SyntaxError, ValueError) as error:
            raise UserError(f"{self.path} is not a Python file: {' '.join(str(error).split())}") from error

    def to(self, device) -> "SubmissionPlayer":
        return self

    def start(self, game: int) -> "RunningSubmission":
        """Load the file for one game. UserError when loading raises or there is no my_controller."""
        return RunningSubmission(self, game)


class _Loader(importlib.machinery.SourceFileLoader):
    """Imports a submission from the code that was compiled once; writes no __pycache__ into the user's folder."""

    def __init__(self, name: str, player: SubmissionPlayer):
        super().__init__(name, str(player.path))
        self.compiled = player.code

    def get_code(self, fullname: str) -> types.CodeType:
        return self.compiled


class RunningSubmission:
    """One submission in one game."""

    def __init__(self, player: SubmissionPlayer, game: int):
        self.path, self.game = player.path, game
        self.action_space = jidi.action_space()
        name = f"submission_{hashlib.sha256(str(self.path).encode()).hexdigest()[:12]}"
        loader = _Loader(name, player)
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, self.path, loader=loader))
        with self._home(), self._told(f"{self.path}: game {game}: loading the file"):
            # Dataclasses look their module up by its name.
            sys.modules[name] = module
            loader.exec_module(module)
        self.controller = getattr(module, "my_controller", None)
        if not callable(self.controller):
            raise UserError(f"{self.path} has no function my_controller(observation, action_space, is_continuous)")

    def act(self, state: GameState, snake: int) -> int:
        """The move, 0 to 3, of one snake. UserError when the file raises or returns anything but [[one-hot of 4]]."""
        place = f"{self.path}: game {self.game}, step {state.step}, snake {snake}: my_controller"
        with self._home(), self._told(place):
            returned = self.controller(jidi.state_dict(state, snake), self.action_space, False)
        try:
            return jidi.decode_action(returned)
        except UserError as error:
            raise UserError(f"{place}: {error}") from None

    @contextlib.contextmanager
    def _home(self) -> Iterator[None]:
        """The file's folder can be imported from; what was imported from there is forgotten, other files have utils."""
        folder, before = str(self.path.parent), set(sys.modules)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)
            added = set(sys.modules) - before
            for name in [name for name in added if _lies_in(self.path.parent, name)]:
                del sys.modules[name]

    @contextlib.contextmanager
    def _told(self, place: str) -> Iterator[None]:
        """Whatever the file raises becomes one line that says where."""
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            lines = [
                frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path)
            ]
            where = f" (line {lines[-1]})" if lines else ""
            words = " ".join(str(error).split())[:200]
            raise UserError(
                f"{place} raised {type(error).__name__}: {words}{where}; correct the submission and start again"
            ) from error


def _lies_in(folder: Path, name: str) -> bool:
    """Whether a module was found because `folder` is on the import path; not what is installed somewhere below it."""
    module = sys.modules.get(name.partition(".")[0])
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if file is None:
        return False
    home = Path(file).parent
    return folder == (home.parent if Path(file).name == "__init__.py" else home)


@contextlib.contextmanager
def own_generators() -> Iterator[None]:
    """Puts Python's, numpy's and torch's global generators back: submissions draw from them."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def seed_generators(seed: int, game: int) -> None:
    """The global generators as a function of (seed, game), so that a submission that draws plays the game again."""
    random.seed(derive(seed, "submission", game))
    np.random.seed(derive(seed, "submission", game) % 2**32)
    torch.manual_seed(derive(seed, "submission", game))


Player = ScriptedPlayer | NetworkPlayer | SubmissionPlayer


def load_player(text: str, read_export: ReadExport, *, sample: bool = False) -> Player:
    """The player that `text` names: a scripted team, the folder of an export or run, a submission, an old actor file.

    read_export: lib.checkpoint.load_export, which scripts hand in. sample: networks draw from their policy instead of
    playing the most likely move; an old actor always draws, as it did. UserError names what is known.
    """
    text = str(text)
    if LEVELS.get(text, text) in SCRIPTED:
        return ScriptedPlayer(text)
    path = Path(text)
    if not path.exists():
        raise UserError(_unknown(text))
    if path.is_file():
        if path.suffix == ".py":
            return SubmissionPlayer(path)
        if path.suffix == ".pth":
            return NetworkPlayer(load_old_actor(path), sample=True, name=text)
        raise UserError(
            f"{path} is a {path.suffix or 'plain'} file, expected a submission (.py) or an old actor (.pth)"
        )
    if (path / "model.safetensors").exists() or (path / "export").is_dir():
        tensors, config = read_export(path)
        return NetworkPlayer(Actor.from_export(tensors, config, text), sample=sample, name=text)
    if (path / SUBMISSION_FILE).exists():
        return SubmissionPlayer(path)
    raise UserError(
        f"{path} holds neither export/ nor model.safetensors nor {SUBMISSION_FILE}: give the folder of an export or"
        " run, of a submission, or a scripted team"
    )


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, SCRIPTED, n=1, cutoff=0.0)
    return (
        f"no player {name!r}: neither a file or folder nor a scripted team; the nearest team is {nearest[0]}, all are"
        f" {', '.join(SCRIPTED)}"
    )
