"""The original game of a checkout, driven step by step: its draws (beans, reversals) are handed in, not made by it.

`Peer(folder)` imports the checkout's own modules from the folder; nothing of it is kept here.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path

from reference import SNAKES, TEAM, Game, cell_of, row_col

CODES = (-2, 2, -1, 1)  # the original's directions in the order up, down, left, right


class _Choices:
    """Stands in for the module `random` of the original: hands out the directions that were put in."""

    def __init__(self):
        self.waiting: list[int] = []

    def choice(self, options: list[int]) -> int:
        return self.waiting.pop(0)


class Peer:
    """One original game. `missing_parts(folder)` says what a folder lacks."""

    def __init__(self, folder: Path):
        with _importable(folder):
            self.module = importlib.import_module("env.snakes")
            self.common = importlib.import_module("rl_trainer.common")
        settings = json.loads((folder / "env" / "config.json").read_text())["snakes_3v3"]
        self.game = self.module.SnakeEatBeans(settings)
        self.choices = _Choices()
        self.beans_to_come: list[int] = []
        self.bean_differences = 0
        self.game.generate_beans = self._generate_beans

    def set(self, game: Game) -> None:
        """Make the original's position that of a reference game."""
        peer = self.game
        for player, body, direction in zip(peer.players, game.snakes, game.directions):
            player.segments = [list(row_col(cell)) for cell in body]
            player.headPos = player.segments[0]
            player.direction = CODES[direction]
            player.score = player.get_score()
            peer.snakes_position[player.player_id] = player.segments
        peer.beans_position = [list(row_col(cell)) for cell in game.beans]
        peer.cur_bean_num = len(game.beans)
        peer.step_cnt = game.step_count + 1
        peer.terminate_flg = False
        peer.current_state = peer.update_state()
        peer.all_observes = peer.get_all_observes()

    def step(self, actions: list[int], drawn: dict[int, int], beans_after: list[int]) -> dict[str, list[int] | bool]:
        """One step. drawn: the direction of each reversing snake; beans_after: the list of beans to end with."""
        self.choices.waiting = [CODES[drawn[snake]] for snake in sorted(drawn)]
        self.beans_to_come = beans_after
        own_random, self.module.random = self.module.random, self.choices
        _, rewards, done, _, info = self.game.step(self.game.encode(actions))
        self.module.random = own_random
        assert not self.choices.waiting, "a direction was handed in that the original did not ask for"
        return {"rewards": rewards, "deaths": list(info["hit"]), "done": bool(done), "scores": list(info["score"])}

    def position(self) -> tuple[list[list[int]], list[int], list[int]]:
        """Bodies, beans and directions as the reference writes them."""
        peer = self.game
        bodies = [[cell_of(*segment) for segment in player.segments] for player in peer.players]
        directions = [CODES.index(player.direction) for player in peer.players]
        return bodies, [cell_of(*bean) for bean in peer.beans_position], directions

    def greedy(self, team: int) -> list[int]:
        """What the original's greedy script does with three snakes."""
        state = self.game.all_observes[0]
        board = [[cell[0] for cell in row] for row in self.game.current_state]
        snakes = [state[number] for number in range(2, 2 + SNAKES)]
        own = list(range(team * TEAM, team * TEAM + TEAM))
        return self.common.greedy_snake(board, state[1], snakes, 20, 10, own)

    def features(self, team: int):
        """The original's 26 numbers of three snakes; for the right team with the teams' numbers exchanged."""
        state = dict(self.game.all_observes[0])
        if team == 1:
            state.update(
                {number: self.game.all_observes[0][(number - 2 + TEAM) % SNAKES + 2] for number in range(2, 8)}
            )
        return self.common.get_observations(state, [0, 1, 2], 26, 10, 20)

    def _generate_beans(self) -> None:
        peer = self.game
        here = [cell_of(*bean) for bean in peer.beans_position]
        free = 200 - len({*here}.union(*({cell_of(*part) for part in player.segments} for player in peer.players)))
        wanted = min(len(here) + min(peer.n_beans - peer.cur_bean_num, free), peer.n_beans)
        same_start = self.beans_to_come[: len(here)] == here
        self.bean_differences += not same_start or len(self.beans_to_come) != wanted
        for cell in self.beans_to_come[len(here) :]:
            peer.beans_position.append(list(row_col(cell)))
            peer.cur_bean_num += 1


def missing_parts(folder: str | None, name: str = "QUARTET_SNAKES_PEER") -> str | None:
    """Why the folder that `name` gives is no checkout of the original; None when it is one."""
    if not folder:
        return f"{name} is not set to a checkout of jidiai/Competition_3v3snakes"
    for part in ("env/snakes.py", "env/config.json", "rl_trainer/common.py"):
        if not (Path(folder) / part).is_file():
            return f"{part} is missing in the folder that {name} gives"
    return None


class _importable:
    """The checkout first on the path; an empty stand-in for `gym`, of which the original imports one unused module."""

    def __init__(self, folder: Path):
        self.folder = str(folder)

    def __enter__(self):
        sys.path.insert(0, self.folder)
        if importlib.util.find_spec("gym") is None:
            for name in ("gym", "gym.utils", "gym.utils.seeding"):
                sys.modules[name] = types.ModuleType(name)
            sys.modules["gym.utils"].seeding = sys.modules["gym.utils.seeding"]
            self.stood_in = True
        else:
            self.stood_in = False

    def __exit__(self, *_):
        sys.path.remove(self.folder)
        for name in ("gym", "gym.utils", "gym.utils.seeding") if self.stood_in else ():
            del sys.modules[name]
