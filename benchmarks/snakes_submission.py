"""An exported submission in the original's own Python game, against the original's greedy team and its shipped model.

    OMP_NUM_THREADS=1 python benchmarks/snakes_submission.py --peer_dir CHECKOUT --checkpoint RUN/export

CHECKOUT is a checkout of github.com/jidiai/Competition_3v3snakes. Its game (env/snakes.py), its greedy team
(rl_trainer/common.py) and its shipped submission (agent/rl/) are used unmodified. The checkpoint is exported to a
temporary folder and loaded from there as the platform loads a submission; it changes sides after every game. The same
checkpoint plays the same opponents in our kernel. Bar: against greedy the two win rates agree (0 lies in the 95 %
interval of their difference), and against the shipped model at least --bar of the original's games are won. On the
right side the original's submission drops the wrong heads, our reading of its model does not: against it the two games
have opponents that differ there.
"""

import argparse
import importlib
import importlib.util
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from record import write_result

from lib.checkpoint import load_export
from lib.errors import UserError
from lib.snakes.match import MatchResult, Tally, difference_interval, play_match
from lib.snakes.players import SubmissionPlayer, load_player
from lib.snakes.rules import ACTIONS, SNAKES, TEAM
from lib.snakes.submission import export_submission

PARTS = (
    "env/chooseenv.py",
    "env/snakes.py",
    "rl_trainer/common.py",
    "agent/rl/submission.py",
    "agent/rl/actor_2000.pth",
)


class Peer:
    """The original: its game and its players, imported from the checkout."""

    def __init__(self, folder: Path):
        missing = [part for part in PARTS if not (folder / part).is_file()]
        if missing:
            raise UserError(f"--peer_dir {folder} has no {missing[0]}: give a checkout of jidiai/Competition_3v3snakes")
        if importlib.util.find_spec("gym") is None:
            # The original takes the seeding of its action spaces from gym, whose successor has the same.
            for name in ("", ".utils", ".utils.seeding"):
                sys.modules[f"gym{name}"] = importlib.import_module(f"gymnasium{name}")
        sys.path.insert(0, str(folder))
        self.game = importlib.import_module("env.chooseenv").make("snakes_3v3")
        self.common = importlib.import_module("rl_trainer.common")
        self.shipped = SubmissionPlayer(folder / "agent" / "rl").start(0).controller

    def greedy_actions(self, states: list[dict], team: int) -> list[int]:
        """The original's greedy team on the current state."""
        state = states[0]
        bodies = [state[index + 2] for index in range(SNAKES)]
        board = self.common.make_grid_map(
            state["board_width"],
            state["board_height"],
            state[1],
            {index + 2: body for index, body in enumerate(bodies)},
        )
        board = np.squeeze(np.array(board), axis=2)
        own = list(range(team * TEAM, (team + 1) * TEAM))
        return self.common.greedy_snake(board, state[1], bodies, state["board_width"], state["board_height"], own)

    def shipped_actions(self, states: list[dict], team: int) -> list[int]:
        """The original's shipped submission, asked as the platform asks it."""
        return controller_actions(self.shipped, self.game, states, team)


def controller_actions(controller, game, states: list[dict], team: int) -> list[int]:
    """The answers of one my_controller for the three snakes of a team."""
    answers = []
    for snake in range(team * TEAM, (team + 1) * TEAM):
        answer = controller(states[snake], game.get_single_action_space(snake), game.is_act_continuous)
        answers.append(answer[0].index(1))
    return answers


def play(peer: Peer, controller, opponent, number: int) -> tuple[int, Tally]:
    """One game of the original: (team of the submission, what it reached)."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(number)
    team, steps, deaths = number % 2, 0, np.zeros(SNAKES, dtype=int)
    states, done, after = peer.game.reset(), False, {}
    while not done:
        own = controller_actions(controller, peer.game, states, team)
        other = opponent(states, 1 - team)
        actions = own + other if team == 0 else other + own
        assert all(action in range(len(ACTIONS)) for action in actions), actions
        states, _, done, _, after = peer.game.step(peer.game.encode(actions))
        steps += 1
        deaths += np.array(after["hit"])
    left, right = (sum(after["score"][start : start + TEAM]) for start in (0, TEAM))
    score, against = (left, right) if team == 0 else (right, left)
    fallen = deaths[:TEAM].sum(), deaths[TEAM:].sum()
    return team, Tally(
        games=1,
        wins=int(score > against),
        draws=int(score == against),
        losses=int(score < against),
        score=score,
        score_against=against,
        deaths=int(fallen[team]),
        deaths_against=int(fallen[1 - team]),
        steps=steps,
    )


def match(peer: Peer, submission: Path, opponent, name: str, games: int) -> MatchResult:
    """The exported file, loaded once as on the platform, in `games` games of the original."""
    controller = SubmissionPlayer(submission).start(0).controller
    sides = {"left": Tally(), "right": Tally()}
    started = time.monotonic()
    for number in range(games):
        team, tally = play(peer, controller, opponent, number)
        side = ("left", "right")[team]
        sides[side] = sides[side] + tally
        if (number + 1) % 20 == 0:
            wins = sides["left"].wins + sides["right"].wins
            print(f"{name}: {number + 1} games, {wins} won, {time.monotonic() - started:.0f} s", flush=True)
    return MatchResult("submission", name, sides)


def compare(theirs: MatchResult, ours: MatchResult) -> dict:
    """Both results, and whether they agree: 0 in the 95 % interval of the difference of the two win rates."""
    low, high = difference_interval(theirs.wins, theirs.games, ours.wins, ours.games)
    return {
        "win_rate_original_game": theirs.win_rate,
        "interval_original_game": list(theirs.interval()),
        "win_rate_our_kernel": ours.win_rate,
        "interval_our_kernel": list(ours.interval()),
        "interval_of_the_difference": [low, high],
        "agree": low <= 0.0 <= high,
        "original_game": theirs.to_dict(),
        "our_kernel": ours.to_dict(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer_dir", required=True, type=Path)
    parser.add_argument("--checkpoint", required=True, help="RUN/export")
    parser.add_argument("--games", type=int, default=1000, help="games of the original against its greedy team")
    parser.add_argument(
        "--games_shipped", type=int, default=400, help="games of the original against its shipped model"
    )
    parser.add_argument("--games_kernel", type=int, default=4000, help="games in our kernel against each")
    parser.add_argument("--bar", type=float, default=0.99, help="win rate expected against the shipped model")
    parser.add_argument("--dry_run", action="store_true", help="measure and print, write no result file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    try:
        figures = measure(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print_figures(figures)
    if not args.dry_run:
        print(f"written to {write_result('snakes_submission', figures, settings=dict(vars(args))).name}")
    return 0


def measure(args) -> dict:
    """All four matches."""
    player = load_player(args.checkpoint, load_export)
    peer = Peer(args.peer_dir.resolve())
    with tempfile.TemporaryDirectory() as folder:
        file = export_submission(*load_export(args.checkpoint), folder)
        greedy = match(peer, file, peer.greedy_actions, "greedy", args.games)
        shipped = match(peer, file, peer.shipped_actions, "actor_2000", args.games_shipped)
    old = load_player(str(args.peer_dir / PARTS[-1]), load_export)
    kernel = {
        "greedy": play_match(player, load_player("greedy", load_export), args.games_kernel, seed=0),
        "shipped": play_match(player, old, args.games_kernel, seed=0),
    }
    figures = {"greedy": compare(greedy, kernel["greedy"]), "shipped": compare(shipped, kernel["shipped"])}
    figures["bar_met"] = figures["greedy"]["agree"] and shipped.win_rate >= args.bar
    return figures


def print_figures(figures: dict) -> None:
    """One line an opponent."""
    for name in ("greedy", "shipped"):
        found = figures[name]
        texts = []
        for where in ("original_game", "our_kernel"):
            low, high = found[f"interval_{where}"]
            texts.append(f"{where} {100 * found[f'win_rate_{where}']:.1f} % ({100 * low:.1f} to {100 * high:.1f})")
        print(f"{name}: {', '.join(texts)}; {'they agree' if found['agree'] else 'they differ'}")
    print(f"the bar is {'met' if figures['bar_met'] else 'missed'}")


if __name__ == "__main__":
    sys.exit(main())
