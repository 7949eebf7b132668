"""A game in the terminal: coloured cells where colours are understood, letters everywhere else."""

from __future__ import annotations

import os
import shutil
import time
from typing import TextIO

from lib.snakes.replay import Replay
from lib.snakes.rules import CELLS, HEIGHT, SNAKES, STEPS, TEAM, WIDTH

# xterm's 256 colours: three blues, three oranges, green beans on a neutral board; readable with any colour vision.
BACKGROUNDS = (25, 32, 75, 130, 172, 215)
BEAN_COLOUR, BOARD_COLOURS = 35, (235, 236)
# Letters without colour: heads are capitals.
LETTERS = ("a", "b", "c", "x", "y", "z")
RESET = "\x1b[0m"
HIDE_CURSOR, SHOW_CURSOR, HOME, CLEAR_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[H", "\x1b[J"
CLEAR = "\x1b[2J"
NOSES = ("^", "v", "<", ">")


def render(replay: Replay, index: int, *, colour: bool) -> str:
    """State `index` as lines of text: score, board, snakes. Cells are two characters wide with colour, else one."""
    state = replay.states[index]
    left, right = replay.team_scores(index)
    rows = _coloured_rows(replay, index) if colour else _plain_rows(replay, index)
    counts = replay.death_counts(index)
    lines = [f"{replay.names[0]}  {left} : {right}  {replay.names[1]}   step {state.step} of {STEPS}", *rows]
    for team in range(2):
        texts = []
        for snake in range(team * TEAM, team * TEAM + TEAM):
            name = f"{snake}" if colour else f"{LETTERS[snake].upper()} (snake {snake})"
            texts.append(f"{name}: length {len(state.snakes[snake])}, deaths {counts[snake]}")
        lines.append("   ".join(texts))
    return "\n".join(lines)


def _grid(replay: Replay, index: int) -> list[tuple[str, int, int]]:
    """For each cell (kind, snake, place in its body): kind "free", "bean", "body" or "crash"."""
    state = replay.states[index]
    grid = [("free", -1, 0)] * CELLS
    for bean in state.beans:
        grid[bean] = ("bean", -1, 0)
    for snake, cells in enumerate(state.snakes):
        for place, cell in enumerate(cells):
            grid[cell] = ("body", snake, place)
    if index > 0:
        for snake in range(SNAKES):
            crashed = replay.crash_cell(index - 1, snake)
            if crashed is not None and grid[crashed][0] == "free":
                grid[crashed] = ("crash", snake, 0)
    return grid


def _plain_rows(replay: Replay, index: int) -> list[str]:
    signs = []
    for kind, snake, place in _grid(replay, index):
        if kind == "body":
            signs.append(LETTERS[snake].upper() if place == 0 else LETTERS[snake])
        else:
            signs.append({"free": ".", "bean": "o", "crash": "*"}[kind])
    return ["".join(signs[row * WIDTH : (row + 1) * WIDTH]) for row in range(HEIGHT)]


def _coloured_rows(replay: Replay, index: int) -> list[str]:
    directions, grid, rows = replay.states[index].directions, _grid(replay, index), []
    for row in range(HEIGHT):
        cells = []
        for column in range(WIDTH):
            kind, snake, place = grid[row * WIDTH + column]
            board = BOARD_COLOURS[(row + column) % 2]
            if kind == "body":
                text = f"{snake}{NOSES[directions[snake]]}" if place == 0 else "  " if snake < TEAM else "::"
                cells.append(f"\x1b[48;5;{BACKGROUNDS[snake]};38;5;{15 if snake < TEAM else 16};1m{text}")
            elif kind == "crash":
                cells.append(f"\x1b[48;5;{board};38;5;203;1m><")
            else:
                text = "<>" if kind == "bean" else "  "
                cells.append(f"\x1b[48;5;{board};38;5;{BEAN_COLOUR};1m{text}")
        rows.append("".join(cells) + RESET)
    return rows


def show(replay: Replay, stream: TextIO, *, steps_per_s: float = 8.0, colour: bool | None = None) -> None:
    """Play the game on `stream`: in place and in time on a terminal, else all states one after the other at once.

    colour: default is a terminal that understands it (TERM is not "dumb" and NO_COLOR is not set).
    """
    live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if colour is None:
        colour = live and not os.environ.get("NO_COLOR")
    if not live:
        for index in range(len(replay.states)):
            stream.write(render(replay, index, colour=colour) + "\n\n")
        stream.write(replay.result_line() + "\n")
        stream.flush()
        return
    stream.write(HIDE_CURSOR + CLEAR)
    try:
        for index in range(len(replay.states)):
            stream.write(HOME + _cut(render(replay, index, colour=colour), colour) + CLEAR_BELOW)
            stream.flush()
            if index + 1 < len(replay.states):
                time.sleep(1 / steps_per_s)
        stream.write(f"\n{replay.result_line()}\n")
    finally:
        stream.write(RESET + SHOW_CURSOR)
        stream.flush()


def _cut(text: str, colour: bool) -> str:
    """Lines that fit the window and erase what was right of them; coloured rows are left whole (40 columns)."""
    width = shutil.get_terminal_size().columns
    lines = [line if colour and "\x1b" in line else line[:width] for line in text.split("\n")]
    return "\x1b[K\n".join(lines)
