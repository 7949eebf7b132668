"""Ratings against cases whose answer is known."""

import math

import numpy as np
import pytest

from lib.errors import UserError
from lib.snakes.elo import Result, expected_score, fit_ratings, update_ratings


def gap(share: float) -> float:
    return 400.0 * math.log10(share / (1.0 - share))


def test_two_players_are_apart_by_the_odds():
    ratings = fit_ratings([Result("strong", "weak", 70, 20, 10)], anchor="weak", virtual=0)
    assert ratings["weak"] == pytest.approx(1000.0)
    assert ratings["strong"] - ratings["weak"] == pytest.approx(gap(0.8), abs=1e-6)
    assert list(ratings) == ["strong", "weak"]


def test_the_order_of_a_pair_and_split_results_change_nothing():
    together = fit_ratings([Result("a", "b", 30, 4, 10), Result("b", "c", 5, 5, 5)], anchor="a")
    apart = [
        Result("b", "a", 10, 0, 30),
        Result("a", "b", 0, 4, 0),
        Result("c", "b", 5, 5, 5),
        Result("a", "a", 9, 0, 0),
    ]
    assert fit_ratings(apart, anchor="a") == pytest.approx(together)


def test_consistent_odds_of_three_are_found_exactly():
    true = {"a": 1250.0, "b": 1000.0, "c": 870.0}
    results = [
        Result(x, y, 1000 * expected_score(true[x], true[y]), 0, 1000 * expected_score(true[y], true[x]))
        for x, y in (("a", "b"), ("b", "c"), ("c", "a"))
    ]
    fitted = fit_ratings(results, anchor="b", virtual=0)
    assert fitted == pytest.approx(true, abs=1e-6)


def test_at_the_maximum_every_player_scores_what_was_expected():
    random = np.random.default_rng(3)
    names = list("abcdef")
    results = [
        Result(x, y, *map(float, random.integers(1, 60, 3))) for i, x in enumerate(names) for y in names[i + 1 :]
    ]
    ratings = fit_ratings(results, virtual=0)
    assert np.mean(list(ratings.values())) == pytest.approx(1000.0)
    for name in names:
        taken = sum(r.points for r in results if r.first == name)
        taken += sum(r.games - r.points for r in results if r.second == name)
        expected = sum(
            r.games * expected_score(ratings[name], ratings[r.second if r.first == name else r.first])
            for r in results
            if name in (r.first, r.second)
        )
        assert taken == pytest.approx(expected, abs=1e-6)


def test_a_virtual_draw_keeps_a_winner_of_everything_finite():
    ratings = fit_ratings([Result("winner", "loser", 99, 0, 0)], anchor="loser")
    assert ratings["winner"] == pytest.approx(1000.0 + gap(99.5 / 100))
    with pytest.raises(UserError, match="virtual draws"):
        fit_ratings([Result("winner", "loser", 99, 0, 0)], virtual=0)


@pytest.mark.parametrize(
    ("results", "options", "said"),
    [
        ([], {}, "no results"),
        ([Result("a", "b", 1, 0, 1)], {"anchor": "z"}, "'z' has played no match; players: a, b"),
        ([Result("a", "b", 1, 0, -1)], {}, "negative"),
        ([Result("a", "b", 1, 0, 1), Result("c", "d", 1, 0, 1)], {}, "common opponents"),
    ],
)
def test_what_cannot_be_rated_is_said(results, options, said):
    with pytest.raises(UserError, match=said):
        fit_ratings(results, **options)


def test_the_incremental_update_moves_both_and_settles_at_the_fit():
    assert update_ratings(1000.0, 1000.0, 1.0, k=16) == (1008.0, 992.0)
    assert update_ratings(1000.0, 1000.0, 0.5) == (1000.0, 1000.0)
    assert update_ratings(1400.0, 1000.0, 10 / 11) == pytest.approx((1400.0, 1000.0))
    first, second = 1000.0, 1000.0
    for _ in range(2000):
        first, second = update_ratings(first, second, 0.8, k=8)
    assert first - second == pytest.approx(gap(0.8), abs=0.01)
    with pytest.raises(UserError, match="from 0 to 1"):
        update_ratings(1000.0, 1000.0, 7.0)
