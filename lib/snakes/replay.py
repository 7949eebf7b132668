"""The record of one game: every state, action, reward and death; its JSON forms, ours and the platform's."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lib.errors import UserError
from lib.files import atomic_write_json, read_json
from lib.snakes.rules import ACTIONS, CELLS, HEIGHT, OPPOSITE, SNAKES, TEAM, WIDTH, neighbour
from lib.snakes.state import GameState

if TYPE_CHECKING:
    from lib.snakes.game import SnakesVec

FORMAT = "quartet-snakes-replay"
VERSION = 1
TIME = "%Y-%m-%d %H:%M:%S"


@dataclass
class Replay:
    """One game: `states` has one entry more than `actions`, `deaths` and `rewards`, which have six numbers a step.

    states[0] is the start, states[k + 1] follows from actions[k]. names: left team, right team. seed: what the game
    was made with, when it is known. started: local time as the platform writes it, for its log.
    """

    names: tuple[str, str]
    states: list[GameState] = field(default_factory=list)
    actions: list[list[int]] = field(default_factory=list)
    deaths: list[list[int]] = field(default_factory=list)
    rewards: list[list[int]] = field(default_factory=list)
    seed: int | None = None
    started: str | None = None

    def append(self, state: GameState, actions: list[int], deaths: list[int], rewards: list[float]) -> None:
        """Add the step that led to `state`; the replay must hold its start already."""
        assert self.states, "the first state of a replay goes into `states`"
        self.states.append(state)
        self.actions.append([int(action) for action in actions])
        self.deaths.append([int(death) for death in deaths])
        self.rewards.append([int(reward) for reward in rewards])

    @property
    def steps(self) -> int:
        return len(self.actions)

    def team_scores(self, index: int = -1) -> tuple[int, int]:
        """Sum of (length - 3) of the left and the right team in state `index`."""
        scores = self.states[index].scores
        return sum(scores[:TEAM]), sum(scores[TEAM:])

    def death_counts(self, index: int = -1) -> list[int]:
        """Deaths of each snake up to state `index`."""
        made = len(self.deaths) if index == -1 else index
        return [sum(dead[snake] for dead in self.deaths[:made]) for snake in range(SNAKES)]

    def result_line(self) -> str:
        """The end of the game in a few words."""
        left, right = self.team_scores()
        if left == right:
            return f"a draw, {left} : {right}"
        return f"{self.names[0] if left > right else self.names[1]} wins {left} : {right}"

    def crash_cell(self, step: int, snake: int) -> int | None:
        """The cell where a snake died on `step` (0-based); None when it lived.

        After a reversal the direction was drawn and is not on record: the cell that the head left.
        """
        if not self.deaths[step][snake]:
            return None
        before, action = self.states[step], self.actions[step][snake]
        head = before.snakes[snake][0]
        return head if action == OPPOSITE[before.directions[snake]] else neighbour(head, action)

    def to_json(self) -> dict:
        """Our own form: plain lists, one entry a state or a step. See `from_json`."""
        states = self.states
        return {
            "format": FORMAT,
            "version": VERSION,
            "names": list(self.names),
            "seed": self.seed,
            "started": self.started,
            "episode": states[0].episode,
            "first_step": states[0].step,
            "last_directions": states[0].last_directions,
            "snakes": [state.snakes for state in states],
            "beans": [state.beans for state in states],
            "directions": [state.directions for state in states],
            "actions": self.actions,
            "deaths": self.deaths,
            "rewards": self.rewards,
        }

    @staticmethod
    def from_json(stored: object, source: str = "the replay") -> Replay:
        """The replay of `to_json`; UserError naming `source` for anything that is not one, whole and sound."""
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise UserError(f"{source} is not a replay: expected a file that watch_snakes.py --json wrote")
        if stored.get("version") != VERSION:
            raise UserError(f"{source} has version {stored.get('version')!r}: this program reads version {VERSION}")
        names = stored.get("names")
        if not isinstance(names, list) or len(names) != 2 or not all(isinstance(name, str) for name in names):
            raise UserError(f"{source}: names is {names!r}, expected the names of the two teams")
        columns = {name: _column(stored, name, source) for name in ("snakes", "beans", "directions")}
        events = {name: _column(stored, name, source) for name in ("actions", "deaths", "rewards")}
        count = len(columns["snakes"])
        for name, values in (columns | events).items():
            wanted = count - (name in events)
            if len(values) != wanted or count < 1:
                raise UserError(f"{source}: {name} has {len(values)} entries, expected {wanted}: the file is cut short")
        _check_events(events, source)
        states = _states(stored, columns, source)
        return Replay(
            (names[0], names[1]), states, **events, seed=_whole(stored, "seed"), started=_text(stored, "started")
        )

    def to_jidi_log(self) -> dict:
        """The platform's JSON log, which its own replay page opens.

        `winner` is what the platform's check_win gives, the id (2..7) of the best single snake; `winner_team` is ours:
        0 left, 1 right, -1 a draw by the sum of the team, which is how a match is decided.
        """
        left, right = self.team_scores()
        winner_team = -1 if left == right else int(right > left)
        scores = self.states[-1].scores
        started = self.started or datetime.datetime.now().strftime(TIME)
        return {
            "game_name": "snakes_3v3",
            "n_player": SNAKES,
            "board_height": HEIGHT,
            "board_width": WIDTH,
            "init_info": {**_jidi_board(self.states[0]), "directions": _direction_names(self.states[0].directions)},
            "start_time": started,
            "mode": "terminal",
            "seed": self.seed,
            "map_size": None,
            "steps": [self._jidi_step(step, started) for step in range(self.steps)],
            "winner": scores.index(max(scores)) + 2,
            "winner_team": winner_team,
            "winner_information": scores,
            "n_return": [sum(rewards[snake] for rewards in self.rewards) for snake in range(SNAKES)],
            "names": list(self.names),
            "end_time": started,
        }

    def _jidi_step(self, step: int, time: str) -> dict:
        after = self.states[step + 1]
        return {
            "time": time,
            "info_before": {"directions": _direction_names(self.states[step].directions)},
            "joint_action": [[[int(move == action) for move in range(4)]] for action in self.actions[step]],
            "reward": self.rewards[step],
            "info_after": {**_jidi_board(after), "hit": self.deaths[step], "score": after.scores},
        }


def record(
    game: SnakesVec, choose: Callable[[SnakesVec], None], *, names: tuple[str, str], seed: int | None = None
) -> Replay:
    """Play slot 0 of `game`, from where it stands, to the end of its game.

    `choose(game)` fills `game.actions` for teams whose controller is external; it may do nothing for scripted ones.
    `game` must have been made with autoreset=False, so that the last state is still there to be recorded.
    """
    replay = Replay(names, [game.snapshot(0)], seed=seed, started=datetime.datetime.now().strftime(TIME))
    while True:
        choose(game)
        game.step()
        events = [values[0].tolist() for values in (game.actions, game.deaths, game.rewards)]
        state = game.snapshot(0)
        assert state.step > 0, "record needs SnakesVec(..., autoreset=False): the end of the game is gone"
        replay.append(state, *events)
        if game.done[0]:
            return replay


def load_replay(path: str | Path) -> Replay:
    """Read a file of `save_replay`; UserError when it is missing or not a sound replay."""
    return Replay.from_json(read_json(Path(path)), str(path))


def save_replay(replay: Replay, path: str | Path) -> None:
    """Write our own JSON form."""
    atomic_write_json(Path(path), replay.to_json())


def _jidi_board(state: GameState) -> dict:
    return {
        "snakes_position": [[list(divmod(cell, WIDTH)) for cell in snake] for snake in state.snakes],
        "beans_position": [list(divmod(cell, WIDTH)) for cell in state.beans],
    }


def _direction_names(directions: list[int]) -> list[str]:
    return [ACTIONS[direction] for direction in directions]


def _column(stored: dict, name: str, source: str) -> list:
    values = stored.get(name)
    if not isinstance(values, list) or not all(isinstance(value, list) for value in values):
        raise UserError(f"{source}: {name} is missing or not a list of lists: the file is damaged")
    return values


def _whole(stored: dict, name: str) -> int | None:
    value = stored.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(stored: dict, name: str) -> str | None:
    value = stored.get(name)
    return value if isinstance(value, str) else None


def _check_events(events: dict[str, list], source: str) -> None:
    allowed = {"actions": range(4), "deaths": range(2), "rewards": range(-CELLS, 2)}
    for name, rows in events.items():
        for step, row in enumerate(rows):
            if not _is_row(row, allowed[name], SNAKES):
                raise UserError(f"{source}: {name} of step {step} are {row}: expected {SNAKES} whole numbers in range")


def _is_row(values: object, numbers: range, count: int | None = None) -> bool:
    """Whether `values` is a list of whole numbers in `numbers`, `count` of them if that is given."""
    if not isinstance(values, list) or (count is not None and len(values) != count):
        return False
    return all(type(value) is int and value in numbers for value in values)


def _states(stored: dict, columns: dict[str, list], source: str) -> list[GameState]:
    states, last_directions = [], stored.get("last_directions")
    if last_directions is not None and not _is_row(last_directions, range(4), SNAKES):
        raise UserError(f"{source}: last_directions is {last_directions!r}, expected none or {SNAKES} directions")
    first_step, episode = _whole(stored, "first_step") or 0, _whole(stored, "episode") or 0
    for index, (snakes, beans, directions) in enumerate(zip(*columns.values(), strict=True)):
        where = f"{source}: state {index}"
        if not all(_is_row(cells, range(CELLS)) for cells in [*snakes, beans, directions]):
            raise UserError(f"{where}: expected lists of cells from 0 to {CELLS - 1}: the file is damaged")
        state = GameState(snakes, beans, directions, last_directions, first_step + index, episode)
        try:
            state.check()
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        if not all(snakes) and index + 1 < len(columns["snakes"]):
            raise UserError(f"{where}: an empty snake ends a game, but more states follow: the file is damaged")
        states.append(state)
        last_directions = directions
    return states
