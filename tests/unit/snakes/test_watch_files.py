"""Replay files, the platform's log, pictures, the terminal."""

import copy
import io
import itertools
import json

import pytest

pytest.importorskip("warp")
from PIL import Image
from watch_samples import bots_replay

from lib.errors import UserError
from lib.snakes import terminal
from lib.snakes.pictures import LIGHT, body_runs, draw_state, write_gif, write_png
from lib.snakes.replay import Replay, load_replay, save_replay
from lib.snakes.rules import CELLS, SNAKES, WIDTH
from lib.snakes.state import GameState

CELL = 40


def test_a_recorded_game_obeys_the_sum_rule():
    """Rewards of a game add up to the final scores (section 3 of the rules), deaths and steps are all there."""
    replay = bots_replay()
    assert replay.steps == 200 == len(replay.states) - 1
    totals = [sum(rewards[snake] for rewards in replay.rewards) for snake in range(SNAKES)]
    assert totals == replay.states[-1].scores
    assert sum(replay.death_counts()) > 20 and replay.death_counts(0) == [0] * SNAKES
    left, right = replay.team_scores()
    assert replay.result_line() == f"greedy wins {left} : {right}" and left > right


def test_saved_and_read_again(tmp_path):
    replay = bots_replay()
    save_replay(replay, tmp_path / "game.json")
    assert load_replay(tmp_path / "game.json") == replay
    assert (tmp_path / "game.json").stat().st_size < 400_000


def damaged():
    """(what was done to a sound file, words of the message)."""

    def change(**values):
        return lambda stored: stored.update(values)

    def reach(*path, value):
        def do(stored):
            for key in path[:-1]:
                stored = stored[key]
            stored[path[-1]] = value

        return do

    return {
        "another file": (lambda stored: stored.pop("format"), "not a replay"),
        "a list": (None, "not a replay"),
        "newer": (change(version=2), "version 2"),
        "names": (change(names=["one"]), "names is"),
        "cut short": (lambda stored: stored["beans"].pop(), "beans has 200 entries, expected 201"),
        "no states": (change(snakes=[], beans=[], directions=[]), "expected"),
        "missing": (lambda stored: stored.pop("deaths"), "deaths is missing"),
        "action": (reach("actions", 3, 2, value=4), "actions of step 3"),
        "text": (reach("actions", 3, 2, value="1"), "actions of step 3"),
        "five": (reach("rewards", 9, value=[0] * 5), "rewards of step 9"),
        "cell": (reach("snakes", 5, 0, 0, value=CELLS), "state 5"),
        "fraction": (reach("snakes", 5, 0, 0, value=1.0), "state 5"),
        "overlap": (reach("beans", 7, 0, value=0), "state 7"),
        "gap": (reach("snakes", 8, 1, value=[0, 50, 99]), "state 8"),
        "empty body": (reach("snakes", 9, 1, value=[]), "state 9"),
        "directions": (reach("directions", 2, value=[0, 1]), "state 2"),
        "last directions": (change(last_directions=[0]), "last_directions"),
    }


@pytest.mark.parametrize("name", damaged())
def test_damaged_files_are_refused_in_one_line(tmp_path, name):
    change, words = damaged()[name]
    stored = copy.deepcopy(bots_replay().to_json())
    if name == "overlap":
        stored["beans"][7][0] = stored["snakes"][7][0][0]
    elif change is None:
        stored = [stored]
    else:
        change(stored)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError) as caught:
        load_replay(path)
    message = str(caught.value)
    assert words in message and str(path) in message and "\n" not in message


def test_files_that_are_not_json(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        load_replay(tmp_path / "none.json")
    (tmp_path / "half.json").write_text('{"format": "quartet')
    with pytest.raises(UserError, match="not readable as JSON"):
        load_replay(tmp_path / "half.json")


def test_the_platforms_log():
    """Keys, order and meaning of the log that the original's run_log.py writes (spec 7.5)."""
    replay = bots_replay()
    log = replay.to_jidi_log()
    assert list(log) == [
        *("game_name", "n_player", "board_height", "board_width", "init_info", "start_time", "mode", "seed"),
        *("map_size", "steps", "winner", "winner_team", "winner_information", "n_return", "names", "end_time"),
    ]
    assert (log["game_name"], log["n_player"], log["board_height"], log["board_width"]) == ("snakes_3v3", 6, 10, 20)
    assert set(log["init_info"]) == {"snakes_position", "beans_position", "directions"}
    assert set(log["steps"][0]) == {"time", "info_before", "joint_action", "reward", "info_after"}
    assert set(log["steps"][0]["info_after"]) == {"snakes_position", "beans_position", "hit", "score"}
    for step, entry in enumerate(log["steps"]):
        before, after = replay.states[step], replay.states[step + 1]
        assert entry["info_before"]["directions"] == [("up", "down", "left", "right")[d] for d in before.directions]
        assert [[row * WIDTH + col for row, col in body] for body in entry["info_after"]["snakes_position"]] == (
            after.snakes
        )
        assert [row * WIDTH + col for row, col in entry["info_after"]["beans_position"]] == after.beans
        assert entry["info_after"]["hit"] == replay.deaths[step] and entry["reward"] == replay.rewards[step]
        assert [action[0].index(1) for action in entry["joint_action"]] == replay.actions[step]
    best = max(range(SNAKES), key=lambda snake: replay.states[-1].scores[snake])
    assert log["winner"] == best + 2 and log["winner_team"] == 0
    assert log["n_return"] == log["winner_information"] == replay.states[-1].scores
    json.dumps(log)


def pixel(image: Image.Image, cell: int, across: float = 0.0, down: float = 0.0) -> str:
    """Colour of a place of a cell as #rrggbb; (0, 0) is its middle, 0.5 its rim."""
    row, column = divmod(cell, WIDTH)
    at = (int((column + 1.5 + across) * CELL), int((row + 1.8 + 1.5 + down) * CELL))
    return "#{:02x}{:02x}{:02x}".format(*image.convert("RGB").getpixel(at))


def test_a_picture_shows_the_state():
    replay = bots_replay()
    for index in (0, 60, 200):
        state = replay.states[index]
        image = draw_state(replay, index, cell=CELL)
        assert image.size == (22 * CELL, round(13.8 * CELL))
        for snake, body in enumerate(state.snakes):
            assert pixel(image, body[0], across=0.25, down=-0.25) == LIGHT.snakes[snake]
            for cell in body[1:]:
                shown = {pixel(image, cell, a, d) for a, d in ((0.2, 0.2), (0.2, -0.2), (-0.2, 0.2), (-0.2, -0.2))}
                assert LIGHT.snakes[snake] in shown
        for bean in state.beans:
            assert pixel(image, bean) == LIGHT.bean
        taken = {*itertools.chain(*state.snakes), *state.beans}
        crashed = {replay.crash_cell(step, snake) for step in range(max(index - 3, 0), index) for snake in range(6)}
        former = {*itertools.chain(*replay.states[max(index - 1, 0)].snakes)}
        for cell in set(range(CELLS)) - taken - crashed - former:
            assert pixel(image, cell) == LIGHT.field


def test_bodies_across_the_seam_and_broken_ones():
    assert body_runs([0, 19, 18]) == [[(0, 0), (0, -1), (0, -2)]]
    assert body_runs([5, 185, 165]) == [[(0, 5), (-1, 5), (-2, 5)]]
    # After a respawn between two free cells: neck right of the head, the third cell left of it.
    assert body_runs([10, 11, 9]) == [[(0, 10), (0, 11)], [(0, 10), (0, 9)]]
    # The same body after it has eaten.
    assert body_runs([30, 10, 11, 9]) == [[(1, 10), (0, 10), (0, 11)], [(0, 10), (0, 9)]]


def test_gif_and_png(tmp_path):
    replay = bots_replay()
    short = Replay(replay.names, replay.states[:31], replay.actions[:30], replay.deaths[:30], replay.rewards[:30])
    write_gif(short, tmp_path / "game.gif", steps_per_s=10, theme="dark")
    with Image.open(tmp_path / "game.gif") as image:
        assert image.n_frames == 31 and image.info["duration"] == 100 and image.info["loop"] == 0
        image.seek(30)
        assert image.info["duration"] == 3000
    assert (tmp_path / "game.gif").stat().st_size < 250_000
    write_png(short, tmp_path / "state.png", index=7)
    with Image.open(tmp_path / "state.png") as image:
        assert image.size == (880, 552)
    with pytest.raises(UserError, match="GIF shows"):
        write_gif(short, tmp_path / "fast.gif", steps_per_s=200)
    assert not (tmp_path / "fast.gif").exists()


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_plain_text_of_a_state():
    """Without colours: letters, capitals for heads; exactly this board."""
    snakes = [[0, 19, 18], [23, 43, 63], [65, 66, 67], [180, 0 + 160, 140], [199, 198, 197], [105, 106, 107, 108]]
    snakes[0] = [1, 0, 19]
    replay = Replay(("left", "right"), [GameState(snakes, [50, 51, 90], [3, 0, 2, 1, 3, 2])])
    board = [
        "aA.................a",
        "...B................",
        "...b......oo........",
        "...b.Ccc............",
        "..........o.........",
        ".....Zzzz...........",
        "....................",
        "x...................",
        "x...................",
        "X................yyY",
    ]
    lines = terminal.render(replay, 0, colour=False).split("\n")
    assert lines[0] == "left  0 : 1  right   step 0 of 200"
    assert lines[1:11] == board
    assert lines[12].startswith("X (snake 3): length 3, deaths 0") and lines[12].endswith("length 4, deaths 0")


def test_terminal_and_pipe(monkeypatch):
    replay = bots_replay()
    short = Replay(replay.names, replay.states[:4], replay.actions[:3], replay.deaths[:3], replay.rewards[:3])
    pipe = io.StringIO()
    terminal.show(short, pipe)
    assert "\x1b" not in pipe.getvalue() and pipe.getvalue().count("step ") == 4
    assert pipe.getvalue().endswith(short.result_line() + "\n")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen()
    terminal.show(short, screen, steps_per_s=1000)
    shown = screen.getvalue()
    assert shown.startswith(terminal.HIDE_CURSOR) and shown.endswith(terminal.SHOW_CURSOR)
    assert f"\x1b[48;5;{terminal.BACKGROUNDS[4]};" in shown and shown.count(terminal.HOME) == 4
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    terminal.show(short, screen, steps_per_s=1000)
    assert "48;5" not in screen.getvalue() and screen.getvalue().count(terminal.HOME) == 4
