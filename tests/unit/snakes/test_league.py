"""Who plays whom in a league, what a generation changes, and that it comes back from a checkpoint."""

import pytest
import torch

from lib.snakes.league import LEARNER, POOL, League
from lib.snakes.network import Actor, ActorConfig
from lib.snakes.rules import CONTROLLERS

CONFIG = ActorConfig(hidden=(8, 8))
SHARES = "greedy=0.25,latest=0.25,past=0.5"


def totals(league: League, score: float, games: float = 10.0) -> dict[str, float]:
    """Every opponent of this generation was met `games` times and gave `score` of the points."""
    played = league.results(torch.zeros(16, 3))
    for chunk in league.chunks:
        if chunk.name != "latest":
            played[f"{chunk.name} games"] += games
            played[f"{chunk.name} points"] += score * games
    return played


def test_games_are_divided_by_their_shares():
    league = League(SHARES, 16, CONFIG, seed=0)
    assert [(chunk.name, len(chunk.games)) for chunk in league.chunks] == [("greedy", 4), ("latest", 4)] + [
        ("greedy", 2)
    ] * 4
    assert sorted(torch.cat([chunk.games for chunk in league.chunks]).tolist()) == list(range(16))
    assert league.latest.tolist() == [4, 5, 6, 7]
    codes = league.controllers()
    external, greedy = CONTROLLERS["external"], CONTROLLERS["greedy"]
    assert codes.tolist() == [greedy] * 4 + [external] * 4 + [greedy] * 8


def test_results_are_counted_by_opponent():
    league = League(SHARES, 16, CONFIG, seed=0)
    sums = torch.zeros(16, 3)
    sums[:, 0] = 2  # games
    sums[0, 1] = 1  # won against greedy
    sums[8, 2] = 1  # a draw in the share of the past, which greedy plays for now
    sums[4, 1] = 1  # against itself: counts for nobody
    assert league.results(sums) == {"greedy games": 24.0, "greedy points": 1.5}


def test_a_generation_that_is_won_leaves_a_snapshot_that_then_plays():
    league, actor = League(SHARES, 16, CONFIG, seed=0), Actor(CONFIG)
    assert league.next_generation(totals(league, 0.5), actor) is None
    assert league.past_slices() == []
    name = league.next_generation(totals(league, 0.9), actor)
    assert name == "generation_00002"
    slices = league.past_slices()
    assert len(slices) == 4 and all(
        torch.equal(games, chunk.games) for (_, games), chunk in zip(slices, league.chunks[2:])
    )
    assert (league.controllers()[8:] == CONTROLLERS["external"]).all()
    with torch.no_grad():  # what the learner becomes later does not change its past
        for parameter in actor.parameters():
            parameter.add_(1.0)
    frozen = slices[0][0]
    assert all(not torch.equal(a, b) for a, b in zip(frozen.parameters(), actor.parameters()))
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_ratings_rise_with_wins_and_greedy_stays_the_anchor():
    league, actor = League(SHARES, 16, CONFIG, seed=0), Actor(CONFIG)
    for _ in range(30):
        league.next_generation(totals(league, 0.8), actor)
    assert league.ratings["greedy"] == 1000.0
    assert league.ratings[LEARNER] > 1100
    assert len(league.snapshots) == POOL
    assert set(league.ratings) == {LEARNER, "greedy", *league.snapshots} and set(league.scores) == set(league.snapshots)


def test_hard_snapshots_are_drawn_more_often():
    league, actor = League(SHARES, 16, CONFIG, seed=0), Actor(CONFIG)
    for _ in range(2):
        league.next_generation(totals(league, 0.9), actor)
    easy, hard = sorted(league.snapshots)
    drawn = {easy: 0, hard: 0}
    for _ in range(200):
        league.scores = {easy: 0.95, hard: 0.3}
        league.generation += 1
        league._draw()
        for chunk in league.chunks[2:]:
            drawn[chunk.name] += 1
    assert drawn[hard] > 3 * drawn[easy] > 0


def test_a_league_comes_back_from_a_checkpoint():
    league, actor = League(SHARES, 16, CONFIG, seed=0), Actor(CONFIG)
    for score in (0.9, 0.4, 0.7):
        league.next_generation(totals(league, score), actor)
    other = League(SHARES, 16, CONFIG, seed=0)
    other.set_state(*league.get_state())
    assert [chunk.name for chunk in other.chunks] == [chunk.name for chunk in league.chunks]
    assert (other.ratings, other.scores, other.generation) == (league.ratings, league.scores, league.generation)
    for name, frozen in league.snapshots.items():
        assert all(torch.equal(a, b) for a, b in zip(frozen.parameters(), other.snapshots[name].parameters()))
    for each in (league, other):
        each.next_generation(totals(each, 0.7), actor)
    assert [chunk.name for chunk in other.chunks] == [chunk.name for chunk in league.chunks]


@pytest.mark.parametrize("games", range(1, 70))
def test_every_game_has_one_opponent(games):
    """Also where the middle of a game's place lies on a border of the shares, and where a share is too small."""
    for shares in ("greedy=0.2,hunter=0.3,latest=0.3,past=0.2", "greedy=0.25,latest=0.75", "hunter=0.5,past=0.5"):
        league = League(shares, games, CONFIG, seed=0)
        assert sorted(torch.cat([chunk.games for chunk in league.chunks]).tolist()) == list(range(games))
        assert len(league.controllers()) == games


def test_a_past_without_its_anchor_among_the_bots():
    """Until there is a snapshot greedy plays the past, whatever the shares name."""
    league, actor = League("hunter=0.5,past=0.5", 8, CONFIG, seed=0), Actor(CONFIG)
    played = league.results(torch.tensor([[2.0, 1.0, 1.0]]).expand(8, 3))
    assert league.next_generation(played, actor) is not None
    assert league.ratings["greedy"] == 1000.0
