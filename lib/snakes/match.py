"""Matches of two players: many games at once, each asked-for game counted exactly once, the same for the same seed."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields

import torch

from lib.errors import UserError
from lib.intervals import wilson
from lib.seeds import derive
from lib.snakes.game import SnakesVec
from lib.snakes.players import NetworkPlayer, Player, SubmissionPlayer, own_generators, seed_generators
from lib.snakes.rules import SNAKES, STEPS, TEAM

DEFAULT_ENVS = 1024
SIDES = ("left", "right")
# Far above any Gumbel noise: a drawn move is then the most likely one.
CERTAIN = 1e4


@dataclass(frozen=True)
class Tally:
    """Sums over games, seen by one player. Scores are sums of length - 3 over its team, deaths those of its team."""

    games: int = 0
    wins: int = 0
    draws: int = 0
    losses: int = 0
    score: int = 0
    score_against: int = 0
    deaths: int = 0
    deaths_against: int = 0
    steps: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, entry.name) + getattr(other, entry.name) for entry in fields(Tally)))


@dataclass(frozen=True)
class MatchResult:
    """What the left player reached. `per_side` has its games on the left and on the right side of the board.

    Results of shares of one match add up; all counts are whole numbers, so the order does not matter.
    """

    left: str
    right: str
    per_side: dict[str, Tally] = field(default_factory=lambda: {side: Tally() for side in SIDES})

    def __add__(self, other: "MatchResult") -> "MatchResult":
        assert (self.left, self.right) == (other.left, other.right), f"two matches: {self} and {other}"
        return MatchResult(self.left, self.right, {side: self.per_side[side] + other.per_side[side] for side in SIDES})

    @property
    def total(self) -> Tally:
        return self.per_side["left"] + self.per_side["right"]

    @property
    def games(self) -> int:
        return self.total.games

    @property
    def wins(self) -> int:
        return self.total.wins

    @property
    def draws(self) -> int:
        return self.total.draws

    @property
    def losses(self) -> int:
        return self.total.losses

    @property
    def win_rate(self) -> float:
        return mean(self.wins, self.games)

    @property
    def draw_rate(self) -> float:
        return mean(self.draws, self.games)

    @property
    def loss_rate(self) -> float:
        return mean(self.losses, self.games)

    @property
    def score_left_mean(self) -> float:
        return mean(self.total.score, self.games)

    @property
    def score_right_mean(self) -> float:
        return mean(self.total.score_against, self.games)

    @property
    def deaths_left_mean(self) -> float:
        return mean(self.total.deaths, self.games)

    @property
    def deaths_right_mean(self) -> float:
        return mean(self.total.deaths_against, self.games)

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the win rate (Wilson)."""
        return wilson(self.wins, self.games)

    def to_dict(self) -> dict:
        """For JSON: rates, interval, means, and the counts of each side."""
        return {
            "left": self.left,
            "right": self.right,
            "games": self.games,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "win_rate": self.win_rate,
            "draw_rate": self.draw_rate,
            "loss_rate": self.loss_rate,
            "interval": list(self.interval()),
            "score_left_mean": self.score_left_mean,
            "score_right_mean": self.score_right_mean,
            "deaths_left_mean": self.deaths_left_mean,
            "deaths_right_mean": self.deaths_right_mean,
            "steps": self.total.steps,
            "per_side": {
                side: {
                    **asdict(tally),
                    "win_rate": mean(tally.wins, tally.games),
                    "interval": list(wilson(tally.wins, tally.games)),
                }
                for side, tally in self.per_side.items()
            },
        }


def mean(total: float, count: int) -> float:
    """total / count; not a number without any."""
    return total / count if count else math.nan


def difference_interval(wins: int, games: int, other_wins: int, other_games: int) -> tuple[float, float]:
    """The 95 % interval of the first win rate less the second (R. G. Newcombe, 1998, method 10)."""
    share, other = wins / games, other_wins / other_games
    (low, high), (other_low, other_high) = wilson(wins, games), wilson(other_wins, other_games)
    return (
        share - other - math.hypot(share - low, other_high - other),
        share - other + math.hypot(high - share, other - other_low),
    )


def play_match(
    left: Player,
    right: Player,
    games: int,
    *,
    seed: int,
    device="cpu",
    num_envs: int | None = None,
    both_sides: bool = True,
    should_stop: Callable[[], bool] | None = None,
    first_game: int = 0,
    game_count: int | None = None,
) -> MatchResult:
    """Play `games` games, or the share [first_game, first_game + game_count) of them; shares add up to the whole.

    Game number g is a function of (seed, g, the two players) alone, whatever `num_envs` (games at a time), device or
    share; only where a network holds two moves for equally good up to float32 rounding, which depends on the size of
    the batch, may it differ. With `both_sides` the left player sits right in the odd games. Networks play in batches;
    as soon as a submission plays, the games go one after the other, with Python's, numpy's and torch's generators
    seeded for each and put back at the end. `should_stop` is asked before every step: the result then has the games of
    finished batches, fewer than were asked for. UserError when a submission fails.
    """
    count = games - first_game if game_count is None else game_count
    if games < 1 or first_game < 0 or count < 0 or first_game + count > games:
        raise UserError(
            f"games {first_game} to {first_game + count} of {games} are asked for: expected --games of at least 1 and a"
            " share within"
        )
    if num_envs is not None and num_envs < 1:
        raise UserError(f"num_envs is {num_envs}: expected at least 1 game at a time")
    alone = isinstance(left, SubmissionPlayer) or isinstance(right, SubmissionPlayer)
    at_once = 1 if alone else min(num_envs or DEFAULT_ENVS, max(count, 1))
    result = MatchResult(left.name, right.name)
    with own_generators():
        for start in range(first_game, first_game + count, at_once):
            numbers = torch.arange(start, min(start + at_once, first_game + count))
            swapped = numbers % 2 == 1 if both_sides else torch.zeros_like(numbers, dtype=torch.bool)
            if alone:
                seed_generators(seed, start)
            table = Table(left.to(device), right.to(device), numbers, swapped, seed, device)
            if not table.play(should_stop or (lambda: False)):
                break
            result = result + table.result()
    return result


class Table:
    """Some games side by side, from their start to their end.

    Two networks with different feature layouts see the same games through two copies that are stepped with the same
    actions: a game is a function of its number and the actions.
    """

    def __init__(self, left: Player, right: Player, numbers, swapped, seed: int, device):
        self.players, self.numbers, self.device = (left, right), numbers, torch.device(device)
        self.swapped = swapped.to(self.device)  # (games,)
        self.rows = torch.arange(len(numbers), device=self.device)
        layouts = list(dict.fromkeys(p.features for p in self.players if p.features is not None)) or ["none"]
        codes = [torch.full((len(numbers),), player.controller, dtype=torch.int32) for player in self.players]
        seats = torch.where(swapped, codes[1], codes[0]), torch.where(swapped, codes[0], codes[1])
        self.copies = {}
        for layout in layouts:
            copy = SnakesVec(
                len(numbers),
                device=device,
                seed=derive(seed, "match"),
                first_game=int(numbers[0]),
                features=layout,
                observe="both",
                left="external",
                right="external",
            )
            copy.set_controllers(*(seat.to(self.device) for seat in seats))
            copy.reset()
            self.copies[layout] = copy
        self.game = self.copies[layouts[0]]
        self.submissions = {
            seat: player.start(int(numbers[0]))
            for player, seat in zip(self.players, self._seats_of_first())
            if isinstance(player, SubmissionPlayer)
        }
        self.scores = torch.zeros(len(numbers), SNAKES, dtype=torch.int64, device=self.device)
        self.deaths = torch.zeros_like(self.scores)
        self.steps = torch.zeros(len(numbers), dtype=torch.int64, device=self.device)

    def _seats_of_first(self) -> tuple[int, int]:
        """The teams, 0 or 1, of the two players in the first game."""
        return (1, 0) if bool(self.swapped[0]) else (0, 1)

    def play(self, should_stop: Callable[[], bool]) -> bool:
        """To the end of all games; False when stopped before."""
        finished = torch.zeros(len(self.numbers), dtype=torch.bool, device=self.device)
        for _ in range(STEPS):
            if should_stop():
                return False
            self._choose()
            for copy in self.copies.values():
                if copy is not self.game:
                    copy.actions.copy_(self.game.actions)
                copy.step()
            playing = ~finished
            ended = self.game.done.bool() & playing
            self.deaths += self.game.deaths * playing[:, None]
            self.steps += playing
            self.scores = torch.where(ended[:, None], self.game.final_scores.long(), self.scores)
            finished |= ended
            # On a GPU the question costs a wait; a submission must not be asked after the end.
            if (self.device.type == "cpu" or self.submissions) and bool(finished.all()):
                break
        assert bool(finished.all()), "a game went on after its last step"
        return True

    def _choose(self) -> None:
        """Write the actions of the players that are not scripted."""
        networks = [player for player in self.players if isinstance(player, NetworkPlayer)]
        if networks:
            drawn = any(player.sample for player in networks)
            logits = torch.zeros(len(self.numbers), 2, TEAM, 4, device=self.device)
            for player, seat in zip(self.players, (self.swapped.long(), 1 - self.swapped.long())):
                if isinstance(player, NetworkPlayer):
                    seen = self.copies[player.features].features[self.rows, seat]  # (games, snakes, features)
                    values = player.logits(seen)
                    if drawn and not player.sample:
                        values = CERTAIN * torch.nn.functional.one_hot(values.argmax(-1), 4).to(values.dtype)
                    logits[self.rows, seat] = values
            self.game.choose(logits, sample=drawn)
        if self.submissions:
            state = self.game.snapshot(0)
            for team, submission in self.submissions.items():
                for snake in range(team * TEAM, (team + 1) * TEAM):
                    self.game.actions[0, snake] = submission.act(state, snake)

    def result(self) -> MatchResult:
        """The tallies of all games; only after `play` has ended them."""
        teams = torch.stack((self.scores[:, :TEAM].sum(1), self.scores[:, TEAM:].sum(1)), 1).cpu()  # (games, teams)
        deaths = torch.stack((self.deaths[:, :TEAM].sum(1), self.deaths[:, TEAM:].sum(1)), 1).cpu()
        steps, swapped = self.steps.cpu(), self.swapped.cpu()
        per_side = {}
        for own, side in enumerate(SIDES):
            chosen = swapped == bool(own)
            score, against = teams[chosen, own], teams[chosen, 1 - own]
            counts = (
                chosen,
                score > against,
                score == against,
                score < against,
                score,
                against,
                deaths[chosen, own],
                deaths[chosen, 1 - own],
                steps[chosen],
            )
            per_side[side] = Tally(*(int(values.sum()) for values in counts))
        return MatchResult(self.players[0].name, self.players[1].name, per_side)
