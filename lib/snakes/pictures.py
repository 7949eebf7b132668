"""A game as pictures: one state as PNG, a whole game as GIF. Same looks as the page (assets/board.js, view.css)."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from lib.errors import UserError
from lib.files import atomic_write_bytes
from lib.snakes.replay import Replay
from lib.snakes.rules import HEIGHT, MOVES, SNAKES, STEPS, TEAM, WIDTH
from lib.snakes.state import GameState

FRAME = 1  # cells of the opposite side that are repeated, faded, around the board
SHARPNESS = 3  # drawn this much larger, then reduced: smooth edges
HEADER = 1.8  # cells above the board, for names and score
CRASH_STEPS = 3
GIF_COLOURS = 64
# The last picture stays, before the game starts again.
LAST_FRAME_S = 3.0

Place = tuple[float, float]


@dataclass(frozen=True)
class Theme:
    """Colours as #rrggbb; `veil` is laid over the frame with VEIL_ALPHA."""

    ink: str
    soft: str
    paper: str
    field: str
    grid: str
    edge: str
    label: str
    bean: str
    crash: str
    teams: tuple[str, str]
    snakes: tuple[str, ...]


VEIL_ALPHA = 0.69
LIGHT = Theme(
    *("#1b1f24", "#5b6570", "#ffffff", "#f6f7f4", "#e7e9e4", "#7b858f", "#ffffff", "#00855f", "#c00020"),
    teams=("#0a63a8", "#c2500a"),
    snakes=("#0a4f8a", "#0a63a8", "#2b7fc4", "#a63f00", "#c2500a", "#d9701f"),
)
DARK = Theme(
    *("#e6e9ec", "#a0aab4", "#14171a", "#1a1e22", "#24292e", "#78828c", "#0c1013", "#35d0a0", "#ff6b78"),
    teams=("#62b5f0", "#ff9a52"),
    snakes=("#4a9fe0", "#62b5f0", "#8fcdf8", "#f08238", "#ff9a52", "#ffb780"),
)
THEMES = {"light": LIGHT, "dark": DARK}


def write_png(replay: Replay, path: str | Path, *, index: int = -1, cell: int = 40, theme: str = "light") -> Path:
    """Write state `index` of a game; `cell` is the side of a board cell in pixels. UserError on a full disk."""
    buffer = io.BytesIO()
    draw_state(replay, index, cell=cell, theme=theme).save(buffer, format="PNG", optimize=True)
    atomic_write_bytes(path, buffer.getvalue())
    return Path(path)


def write_gif(
    replay: Replay, path: str | Path, *, steps_per_s: float = 8.0, cell: int = 20, theme: str = "light"
) -> Path:
    """Write a whole game, one picture a step, without end. UserError on a full disk or a speed that GIF cannot have."""
    if not 0.1 <= steps_per_s <= 50:
        raise UserError(f"{steps_per_s:g} steps/s: a GIF shows 0.1 to 50 pictures a second")
    last = len(replay.states) - 1
    # One palette for all pictures, from three of them: colours do not flicker.
    samples = [draw_state(replay, index, cell=cell, theme=theme) for index in (0, last // 2, last)]
    width, height = samples[0].size
    sheet = Image.new("RGB", (width, 3 * height))
    for number, sample in enumerate(samples):
        sheet.paste(sample, (0, number * height))
    palette = sheet.quantize(GIF_COLOURS, method=Image.Quantize.MEDIANCUT)
    frames = [
        draw_state(replay, index, cell=cell, theme=theme).quantize(palette=palette, dither=Image.Dither.NONE)
        for index in range(last + 1)
    ]
    durations = [round(1000 / steps_per_s)] * last + [round(1000 * LAST_FRAME_S)]
    buffer = io.BytesIO()
    frames[0].save(
        buffer, format="GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True
    )
    atomic_write_bytes(path, buffer.getvalue())
    return Path(path)


def draw_state(replay: Replay, index: int = -1, *, cell: int = 40, theme: str = "light") -> Image.Image:
    """State `index` with names, score, the deaths of the last steps and the bodies that died on this one."""
    index = range(len(replay.states))[index]
    colours, scale = THEMES[theme], cell * SHARPNESS
    size = (WIDTH + 2 * FRAME) * scale, round((HEIGHT + 2 * FRAME + HEADER) * scale)
    image = Image.new("RGB", size, colours.paper)
    board = _draw_board(replay, index, scale, colours)
    image.paste(board, (0, round(HEADER * scale)))
    _draw_header(image, replay, index, scale, colours)
    return image.resize((size[0] // SHARPNESS, size[1] // SHARPNESS), Image.Resampling.BOX)


def _draw_board(replay: Replay, index: int, scale: int, colours: Theme) -> Image.Image:
    state, width, height = replay.states[index], (WIDTH + 2 * FRAME) * scale, (HEIGHT + 2 * FRAME) * scale
    image = Image.new("RGB", (width, height), colours.field)
    pen = Pen(ImageDraw.Draw(image), scale, colours)
    pen.grid()
    if index > 0:
        for snake in range(SNAKES):
            if replay.deaths[index - 1][snake]:
                pen.body(replay.states[index - 1].snakes[snake], snake, faded=True)
    for bean in state.beans:
        pen.bean(divmod(bean, WIDTH))
    for snake, cells in enumerate(state.snakes):
        if cells:
            pen.body(cells, snake)
            pen.head(state, snake)
    for step in range(max(index - CRASH_STEPS, 0), index):
        for snake in range(SNAKES):
            crashed = replay.crash_cell(step, snake)
            if crashed is not None:
                pen.cross(divmod(crashed, WIDTH), age=index - 1 - step)
    veiled = Image.blend(image, Image.new("RGB", image.size, colours.paper), VEIL_ALPHA)
    inside = (FRAME * scale, FRAME * scale, (WIDTH + FRAME) * scale, (HEIGHT + FRAME) * scale)
    veiled.paste(image.crop(inside), inside[:2])
    ImageDraw.Draw(veiled).rectangle(inside, outline=colours.edge, width=max(scale // 16, 1))
    return veiled


def _draw_header(image: Image.Image, replay: Replay, index: int, scale: int, colours: Theme) -> None:
    pen = ImageDraw.Draw(image)
    left, right = replay.team_scores(index)
    middle, line = image.width / 2, HEADER * scale * 0.42
    pen.text((middle, line), f"{left} : {right}", fill=colours.ink, font=_font(scale * 0.95), anchor="mm")
    step = f"step {replay.states[index].step} of {STEPS}"
    pen.text((middle, HEADER * scale * 0.86), step, fill=colours.soft, font=_font(scale * 0.42), anchor="mm")
    font = _font(scale * 0.6)
    room = middle - 4.5 * scale
    for team, (name, x, anchor) in enumerate(zip(replay.names, (scale, image.width - scale), ("lm", "rm"))):
        pen.text((x, line), _shortened(name, font, room), fill=colours.teams[team], font=font, anchor=anchor)


def _shortened(name: str, font: ImageFont.ImageFont, room: float) -> str:
    if font.getlength(name) <= room:
        return name
    while name and font.getlength(name + "…") > room:
        name = name[:-1]
    return name + "…"


@cache
def _font(size: float) -> ImageFont.ImageFont:
    return ImageFont.load_default(max(round(size), 6))


def body_runs(cells: list[int]) -> list[list[Place]]:
    """Runs of neighbouring cells as unwrapped (row, column), head first.

    After a respawn at a quirk the third cell touches the head instead of the neck: it is then joined to the head.
    """
    places: list[Place] = []
    runs: list[list[Place]] = []
    for index, cell in enumerate(cells):
        for back in (1, 2):
            delta = _touching(cells[index - back], cell) if index >= back else None
            if delta is None:
                continue
            start = places[index - back]
            places.append((start[0] + delta[0], start[1] + delta[1]))
            if back == 1:
                runs[-1].append(places[-1])
            else:
                runs.append([start, places[-1]])
            break
        else:
            places.append(divmod(cell, WIDTH))
            runs.append([places[-1]])
    return runs


def _touching(cell: int, other: int) -> tuple[int, int] | None:
    """Rows and columns from `cell` to `other` on the torus when they are neighbours, else None."""
    down = (other // WIDTH - cell // WIDTH + HEIGHT // 2) % HEIGHT - HEIGHT // 2
    right = (other % WIDTH - cell % WIDTH + WIDTH // 2) % WIDTH - WIDTH // 2
    return (down, right) if abs(down) + abs(right) == 1 else None


def _copies(low: float, high: float, size: int) -> list[int]:
    """Shifts by whole boards that bring any of low..high onto the board or its frame."""
    first, last = math.ceil((-1.7 - high) / size), math.floor((size + 0.7 - low) / size)
    return [shift * size for shift in range(first, last + 1)]


@dataclass
class Pen:
    """Draws in units of cells; places are (row, column), drawn wherever they show on the board or its frame."""

    draw: ImageDraw.ImageDraw
    scale: int
    colours: Theme

    def pixel(self, row: float, column: float) -> tuple[float, float]:
        return (column + FRAME + 0.5) * self.scale, (row + FRAME + 0.5) * self.scale

    def grid(self) -> None:
        width = max(self.scale // 32, 1)
        for row in range(1, HEIGHT):
            ends = [self.pixel(row - 0.5, -0.5), self.pixel(row - 0.5, WIDTH - 0.5)]
            self.draw.line(ends, fill=self.colours.grid, width=width)
        for column in range(1, WIDTH):
            ends = [self.pixel(-0.5, column - 0.5), self.pixel(HEIGHT - 0.5, column - 0.5)]
            self.draw.line(ends, fill=self.colours.grid, width=width)

    def wrapped(self, place: Place) -> list[tuple[float, float]]:
        row, column = place
        return [
            self.pixel(row + down, column + right)
            for down in _copies(row, row, HEIGHT)
            for right in _copies(column, column, WIDTH)
        ]

    def body(self, cells: list[int], snake: int, faded: bool = False) -> None:
        runs = body_runs(cells)
        rows = [place[0] for run in runs for place in run]
        columns = [place[1] for run in runs for place in run]
        colour = mixed(self.colours.snakes[snake], self.colours.field, 0.2 if faded else 1.0)
        for down in _copies(min(rows), max(rows), HEIGHT):
            for right in _copies(min(columns), max(columns), WIDTH):
                shifted = [[self.pixel(row + down, column + right) for row, column in run] for run in runs]
                self.stroke(shifted, colour, 0.66)
                # The right team carries a stripe, so that teams differ without colour too.
                if snake >= TEAM and not faded:
                    self.stroke(shifted, mixed(self.colours.label, colour, 0.85), 0.14)

    def stroke(self, runs: list[list[tuple[float, float]]], colour: str, width: float) -> None:
        radius = round(width * self.scale / 2)
        for run in runs:
            self.draw.line(run, fill=colour, width=2 * radius + 1)
            for x, y in run:
                self.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)

    def head(self, state: GameState, snake: int) -> None:
        down, right = MOVES[state.directions[snake]]
        colour, half = self.colours.snakes[snake], 0.45 * self.scale
        for x, y in self.wrapped(divmod(state.snakes[snake][0], WIDTH)):
            box = (x - half, y - half, x + half, y + half)
            if snake < TEAM:
                self.draw.ellipse(box, fill=colour)
            else:
                self.draw.rounded_rectangle(box, radius=0.12 * self.scale, fill=colour)
            nose = [(0.6 * right, 0.6 * down)]
            nose += [(0.36 * right - side * down, 0.36 * down + side * right) for side in (0.24, -0.24)]
            self.draw.polygon(
                [(x + across * self.scale, y + along * self.scale) for across, along in nose], fill=colour
            )
            font = _font(self.scale * 0.62)
            self.draw.text((x, y), str(snake), fill=self.colours.label, font=font, anchor="mm")

    def bean(self, place: Place) -> None:
        half = 0.3 * self.scale
        for x, y in self.wrapped(place):
            corners = [(x, y - half), (x + half, y), (x, y + half), (x - half, y)]
            self.draw.polygon(corners, fill=self.colours.bean)

    def cross(self, place: Place, age: int) -> None:
        arm, strength = 0.32 * self.scale, 1 - age / CRASH_STEPS
        for x, y in self.wrapped(place):
            for colour, width in ((self.colours.field, 0.3), (self.colours.crash, 0.15)):
                shown = colour if age == 0 else mixed(colour, self.colours.field, strength)
                for slope in (-1, 1):
                    ends = [(x - arm, y - arm * slope), (x + arm, y + arm * slope)]
                    self.draw.line(ends, fill=shown, width=round(width * self.scale))


def mixed(colour: str, other: str, share: float) -> str:
    """`share` of one #rrggbb colour, the rest of another."""
    channels = [
        round(share * int(colour[at : at + 2], 16) + (1 - share) * int(other[at : at + 2], 16)) for at in (1, 3, 5)
    ]
    return "#" + "".join(f"{channel:02x}" for channel in channels)
