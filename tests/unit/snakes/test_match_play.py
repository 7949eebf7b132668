"""Matches: each game once, the same whatever the batch, the share and the way a team is played."""

import math

import pytest
import torch
from samples import wild_actor

from lib.errors import UserError
from lib.snakes.match import MatchResult, Tally, difference_interval, play_match, wilson
from lib.snakes.network import Actor, ActorConfig
from lib.snakes.players import NetworkPlayer, ScriptedPlayer, SubmissionPlayer
from lib.snakes.submission import export_submission

GREEDY, RANDOM = ScriptedPlayer("greedy"), ScriptedPlayer("random")


def masked_player(seed: int = 0, sample: bool = False, features: str = "team") -> NetworkPlayer:
    torch.manual_seed(seed)
    return NetworkPlayer(Actor(ActorConfig(features=features, hidden=(16, 16))), sample=sample)


def test_the_better_bot_wins_and_the_counts_agree():
    result = play_match(GREEDY, RANDOM, 101, seed=1)
    assert result.games == 101 and result.wins + result.draws + result.losses == 101
    assert (result.per_side["left"].games, result.per_side["right"].games) == (51, 50)
    assert result.win_rate > 0.9 and result.score_left_mean > 10 > 4 > result.score_right_mean
    assert result.per_side["left"].wins > 40 and result.per_side["right"].wins > 40
    assert result.deaths_left_mean < result.deaths_right_mean
    assert result.total.steps <= 101 * 200 and result.total.steps > 100 * 190
    mirrored = play_match(RANDOM, GREEDY, 101, seed=1)
    assert mirrored.loss_rate > 0.9


@pytest.mark.parametrize("pair", ["scripted", "network", "sampled", "two layouts"])
def test_the_batch_and_the_shares_change_nothing(pair):
    left, right = {
        "scripted": (ScriptedPlayer("evasion"), GREEDY),
        "network": (masked_player(), RANDOM),
        "sampled": (masked_player(sample=True), masked_player(1)),
        "two layouts": (masked_player(sample=True, features="jidi26"), masked_player(1)),
    }[pair]
    whole = play_match(left, right, 12, seed=4)
    assert whole.games == 12
    assert play_match(left, right, 12, seed=4) == whole
    assert play_match(left, right, 12, seed=4, num_envs=5) == whole
    shares = [play_match(left, right, 12, seed=4, first_game=a, game_count=n) for a, n in ((7, 5), (0, 7), (12, 0))]
    assert shares[0] + shares[1] + shares[2] == whole
    assert play_match(left, right, 12, seed=5) != whole


def test_the_exported_submission_plays_the_very_same_games(tmp_path):
    actor = wild_actor(2)
    file = export_submission(actor.state_dict(), actor.config.to_dict(), tmp_path)
    network = play_match(NetworkPlayer(actor), GREEDY, 4, seed=2)
    submission = play_match(SubmissionPlayer(file), GREEDY, 4, seed=2)
    assert submission.per_side == network.per_side
    both = play_match(SubmissionPlayer(file), NetworkPlayer(wild_actor(3)), 2, seed=2)
    assert both.per_side == play_match(NetworkPlayer(actor), NetworkPlayer(wild_actor(3)), 2, seed=2).per_side
    twice = play_match(SubmissionPlayer(file), SubmissionPlayer(file), 1, seed=2)
    assert twice.per_side == play_match(NetworkPlayer(actor), NetworkPlayer(actor), 1, seed=2).per_side


def test_one_side_only():
    result = play_match(GREEDY, RANDOM, 10, seed=0, both_sides=False)
    assert result.per_side["right"] == Tally() and result.per_side["left"].games == 10


def test_the_mask_of_a_network_that_plays_right_is_its_own():
    """An untrained network that avoids bodies dies far less than one that does not, on either side."""
    careful, careless = masked_player(), wild_actor(mask=False)
    result = play_match(careful, NetworkPlayer(careless), 20, seed=0)
    for side in ("left", "right"):
        tally = result.per_side[side]
        assert 3 * tally.deaths < tally.deaths_against, side


def test_drawing_from_the_policy_is_not_the_arg_max():
    still, drawn = (play_match(masked_player(sample=sample), GREEDY, 20, seed=0) for sample in (False, True))
    assert still.per_side != drawn.per_side


def test_a_stop_keeps_whole_games():
    asked = iter(range(10_000))
    result = play_match(GREEDY, RANDOM, 9, seed=1, num_envs=3, should_stop=lambda: next(asked) > 450)
    assert result.games == 6
    assert result == play_match(GREEDY, RANDOM, 9, seed=1, game_count=6)


@pytest.mark.parametrize(
    ("games", "options"),
    [(0, {}), (5, {"first_game": 3, "game_count": 4}), (5, {"first_game": -1}), (5, {"num_envs": 0})],
)
def test_impossible_numbers_of_games(games, options):
    with pytest.raises(UserError, match="expected"):
        play_match(GREEDY, RANDOM, games, seed=0, **options)


def test_wilson_intervals_of_known_cases():
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    for wins, games, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        assert wilson(wins, games) == pytest.approx((low, high), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(80, 80)[1] == 1.0 and wilson(0, 80)[0] == 0.0


def test_intervals_of_differences_of_known_cases():
    # Newcombe, Statistics in Medicine 17 (1998), 873-890, table II, method 10.
    for cells, low, high in (
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ):
        assert difference_interval(*cells) == pytest.approx((low, high), abs=5e-5)


def test_results_as_json():
    tally = Tally(games=4, wins=3, draws=1, losses=0, score=40, score_against=8, deaths=6, deaths_against=2, steps=800)
    result = MatchResult("a", "b", {"left": tally, "right": Tally()})
    found = result.to_dict()
    assert (found["win_rate"], found["draw_rate"], found["loss_rate"], found["games"]) == (0.75, 0.25, 0.0, 4)
    assert found["interval"] == list(wilson(3, 4))
    assert (found["score_left_mean"], found["score_right_mean"]) == (10.0, 2.0)
    assert (found["deaths_left_mean"], found["deaths_right_mean"]) == (1.5, 0.5)
    assert found["per_side"]["left"]["wins"] == 3
    assert math.isnan(MatchResult("a", "b").win_rate)
    with pytest.raises(AssertionError):
        result + MatchResult("b", "a")
