"""Watch a game of 3v3 snakes, or play one: a page for the browser, a GIF, a picture, the terminal, files for others.

In a browser:   python scripts/watch_snakes.py --left RUN/export --right greedy --html game.html
Play yourself:  python scripts/watch_snakes.py --play play.html --checkpoint RUN/export
In a terminal:  python scripts/watch_snakes.py --left hunter --right greedy --terminal
Keep and show:  python scripts/watch_snakes.py --left RUN/export --right greedy --json game.json --gif game.gif
                python scripts/watch_snakes.py --replay game.json --html game.html --jidi log.json
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from lib import launch
from lib.args import option
from lib.checkpoint import atomic_write_json, load_export
from lib.errors import UserError
from lib.snakes import terminal
from lib.snakes.network import Actor
from lib.snakes.page import write_page
from lib.snakes.page_network import pack_network
from lib.snakes.pictures import THEMES, write_gif, write_png
from lib.snakes.players import SCRIPTED, load_player
from lib.snakes.recording import record_game
from lib.snakes.replay import Replay, load_replay, save_replay

PLAYER_HELP = f"one of {', '.join(SCRIPTED)}; RUN/export; a submission.py or its folder; an old actor_<episode>.pth"
OUTPUTS = ("html", "gif", "png", "json", "jidi")
# The page knows whole numbers of this size exactly.
MOST_SEED = 10**15 - 1
GAME_OPTIONS = ("left", "right", "replay", "game", "sample", "png_step", *OUTPUTS, "terminal")


@dataclass
class Config:
    """What game, and in what form."""

    left: str | None = option(None, f"the left team: {PLAYER_HELP}", "game")
    right: str | None = option(None, "the right team, as --left", "game")
    replay: str | None = option(None, "instead of --left and --right: a game that --json or the page has saved", "game")
    seed: int | None = option(None, "the game is a function of it; default 0; --play: number of the first game", "game")
    game: int = option(0, "number of the game, as evaluate_snakes.py counts them", "game", minimum=0)
    sample: bool = option(False, "networks draw their moves from the policy instead of playing the likeliest", "game")
    html: str | None = option(None, "write a page to watch the game in a browser", "output")
    gif: str | None = option(None, "write an animated picture", "output")
    png: str | None = option(None, "write a picture of one state", "output")
    png_step: int | None = option(None, "the state of --png: steps made; default: the last state", "output", minimum=0)
    json: str | None = option(None, "write the game in our own form, for --replay", "output")
    jidi: str | None = option(None, "write the platform's log, for its replay page", "output")
    terminal: bool = option(False, "play the game in this terminal; the default without another output", "output")
    speed: float = option(8.0, "steps a second of --gif and --terminal", "output", above=0)
    theme: str = option("light", "colours of --gif and --png", "output", choices=tuple(THEMES))
    play: str | None = option(None, "write a page to play in a browser: you steer one snake", "play")
    checkpoint: str | None = option(
        None, "export folder of a run (RUN/export) or the run: who plays the others", "play"
    )
    title: str | None = option(None, "heading of the page", "output")


def main(config: Config) -> None:
    if config.play:
        write_play_page(config)
        return
    if config.checkpoint:
        raise UserError("--checkpoint is for --play FILE; to watch a checkpoint give it as --left or --right")
    replay = find_replay(config)
    written = []
    if config.html:
        title = config.title or f"{replay.names[0]} against {replay.names[1]}"
        written.append(write_page(replay, config.html, title=title))
    if config.gif:
        written.append(write_gif(replay, config.gif, steps_per_s=config.speed, theme=config.theme))
    if config.png:
        written.append(write_png(replay, config.png, index=state_index(config, replay), theme=config.theme))
    if config.json:
        save_replay(replay, config.json)
        written.append(config.json)
    if config.jidi:
        atomic_write_json(Path(config.jidi), replay.to_jidi_log())
        written.append(config.jidi)
    if config.terminal or not written:
        show_in_terminal(config, replay)
    else:
        print(f"{replay.result_line()} after {replay.steps} steps")
    for path in written:
        print(f"wrote {path}")


def show_in_terminal(config: Config, replay: Replay) -> None:
    """The game on standard output, until its end or until nobody reads any more (as in `| head`)."""
    try:
        terminal.show(replay, sys.stdout, steps_per_s=config.speed)
    except BrokenPipeError:
        # The interpreter flushes once more when it leaves: that must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def find_replay(config: Config) -> Replay:
    """The recorded game that --replay names, or a new one of the two players."""
    if config.replay:
        for name in ("left", "right", "seed", "game", "sample"):
            if name in config.explicit:
                raise UserError(f"--replay shows a game that was played: drop --{name}, or drop --replay")
        return load_replay(config.replay)
    for name in ("left", "right"):
        if getattr(config, name) is None:
            raise UserError(f"--{name} is missing: give --left and --right ({PLAYER_HELP}), or --replay FILE")
    players = [load_player(text, load_export, sample=config.sample) for text in (config.left, config.right)]
    return record_game(*players, seed=config.seed or 0, number=config.game)


def state_index(config: Config, replay: Replay) -> int:
    """Place of the state that --png_step asks for."""
    if config.png_step is None:
        return len(replay.states) - 1
    index = config.png_step - replay.states[0].step
    if not 0 <= index < len(replay.states):
        raise UserError(f"--png_step is {config.png_step}: this game has the steps 0 to {replay.states[-1].step}")
    return index


def write_play_page(config: Config) -> None:
    """The page in which a person plays; its network is the checkpoint's."""
    for name in GAME_OPTIONS:
        if name in config.explicit:
            raise UserError(f"--play writes a page to play in, --{name} is about a game to watch: give one of them")
    if (config.seed or 0) > MOST_SEED:
        raise UserError(f"--seed is {config.seed}: a game of the page has a number from 0 to {MOST_SEED}")
    network = None
    if config.checkpoint:
        tensors, described = load_export(config.checkpoint)
        actor = Actor.from_export(tensors, described, config.checkpoint)
        network = pack_network(actor, "the trained team")
    else:
        print("no --checkpoint: the greedy script plays all the other snakes")
    print(
        f"wrote {write_page(None, config.play, title=config.title or 'Snakes 3v3', network=network, seed=config.seed)}"
    )


if __name__ == "__main__":
    sys.exit(launch.run(main, Config))
