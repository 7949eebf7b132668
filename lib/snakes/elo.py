"""Elo ratings of players: fitted to a whole table of results, or moved match by match while a league runs.

The model is Elo's: a player rated r points higher scores 1 / (1 + 10^(-r / 400)) of the games, a draw counting half to
each (A. E. Elo, The Rating of Chessplayers, Past and Present, 1978). The fit is the maximum of its likelihood, which is
that of Bradley and Terry (Biometrika 39, 1952) with the results as shares.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lib.errors import UserError

POINTS = 400.0 / math.log(10.0)
ANCHOR_RATING = 1000.0
_NEWTON_STEPS = 200
_LONGEST_STEP = 2.0
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Result:
    """What `first` reached against `second`. Counts are those of `first`; halves are allowed."""

    first: str
    second: str
    wins: float
    draws: float
    losses: float

    @property
    def games(self) -> float:
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        return self.wins + 0.5 * self.draws


def expected_score(rating: float, opponent: float) -> float:
    """The share of points, 0 to 1, that Elo's model expects of a player against an opponent."""
    return 1.0 / (1.0 + 10.0 ** ((opponent - rating) / 400.0))


def update_ratings(rating: float, opponent: float, score: float, *, k: float = 16.0) -> tuple[float, float]:
    """Both ratings after a match in which the first player took the share `score` (0 to 1) of the points.

    `k` is the largest change in points, reached when an outcome was thought impossible. The sum of both stays. A match
    of many games passes their mean and a `k` that suits how much one match shall count.
    """
    if not 0.0 <= score <= 1.0:
        raise UserError(f"the score of a match is {score}, expected a share of the points from 0 to 1")
    change = k * (score - expected_score(rating, opponent))
    return rating + change, opponent - change


def fit_ratings(
    results: Iterable[Result], *, anchor: str | None = None, anchor_rating: float = ANCHOR_RATING, virtual: float = 1.0
) -> dict[str, float]:
    """The ratings under which the results are most likely, highest first; `anchor` is put at `anchor_rating`.

    virtual: that many drawn games are added to every pair that met. A player that won all its games would else be rated
    at infinity; with 0 this is the plain maximum of the likelihood. Without `anchor` the mean is `anchor_rating`.
    UserError: no results, negative counts, players that no chain of matches connects, and with `virtual=0` a player or
    group that only won or only lost against all others (no finite maximum).
    """
    pairs = _pairs(results, virtual)
    names = sorted({name for pair in pairs for name in pair})
    if not names:
        raise UserError("there are no results to rate: play at least one match")
    if anchor is not None and anchor not in names:
        raise UserError(f"the anchor {anchor!r} has played no match; players: {', '.join(names)}")
    index = {name: i for i, name in enumerate(names)}
    points = np.zeros((len(names), len(names)))  # (player, opponent)
    for (first, second), (won, lost) in pairs.items():
        points[index[first], index[second]] += won
        points[index[second], index[first]] += lost
    _check_connected(names, points)
    ratings = _maximise(points) * POINTS
    shift = anchor_rating - (ratings[index[anchor]] if anchor is not None else ratings.mean())
    rated = {name: float(ratings[index[name]] + shift) for name in names}
    return dict(sorted(rated.items(), key=lambda item: (-item[1], item[0])))


def _pairs(results: Iterable[Result], virtual: float) -> dict[tuple[str, str], tuple[float, float]]:
    """(points of the first, points of the second) of every pair of different players that met."""
    pairs: dict[tuple[str, str], tuple[float, float]] = {}
    for result in results:
        if min(result.wins, result.draws, result.losses) < 0:
            raise UserError(f"{result.first} against {result.second} has a negative count of games: {result}")
        if result.first == result.second or result.games == 0:
            continue
        key = (min(result.first, result.second), max(result.first, result.second))
        won, lost = result.points, result.games - result.points
        if key[0] != result.first:
            won, lost = lost, won
        before = pairs.get(key, (virtual / 2, virtual / 2))
        pairs[key] = (before[0] + won, before[1] + lost)
    return pairs


def _check_connected(names: list[str], points: np.ndarray) -> None:
    """A finite maximum exists where every player reaches every other over opponents it took points from (Ford 1957)."""
    reached = (points > 0) | np.eye(len(names), dtype=bool)
    for _ in names:
        reached = reached | (reached.astype(int) @ reached.astype(int) > 0)
    if reached.all():
        return
    row, column = np.argwhere(~reached)[0]
    raise UserError(
        f"{names[row]} and {names[column]} cannot be rated together: no chain of points leads from one to the other; "
        "let them play common opponents, or fit with virtual draws"
    )


def _maximise(points: np.ndarray) -> np.ndarray:
    """Natural-log strengths with mean 0 at the maximum of the likelihood: Newton's method with a limited step."""
    games = points + points.T
    strengths = np.zeros(len(points))
    for _ in range(_NEWTON_STEPS):
        expected = 1.0 / (1.0 + np.exp(strengths[None, :] - strengths[:, None]))  # (player, opponent)
        gradient = (points - games * expected).sum(1)
        weights = games * expected * (1.0 - expected)
        curvature = np.diag(weights.sum(1)) - weights
        # The likelihood does not change along (1, ..., 1): the added matrix fixes the mean.
        step = np.linalg.solve(curvature + 1.0 / len(points), gradient)
        step *= min(1.0, _LONGEST_STEP / max(np.abs(step).max(), 1e-300))
        strengths += step - step.mean()
        if np.abs(step).max() < _TOLERANCE:
            return strengths
    raise AssertionError(f"the ratings did not settle in {_NEWTON_STEPS} steps: {points.tolist()}")
