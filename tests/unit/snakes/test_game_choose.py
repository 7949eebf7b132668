"""`SnakesVec.choose`: draws from the softmax, exploration that keeps to allowed moves, arg-max, who is written."""

import pytest
import torch

from lib.errors import UserError
from lib.snakes import SnakesVec

GAMES = 8192
LOGITS = torch.tensor([0.3, -1.0, 1.2, -4096.0])


def frequencies(games: SnakesVec, **options) -> torch.Tensor:
    """Share of each move for each of the three snakes of the left team."""
    games.choose(LOGITS.expand(games.num_envs, 1, 3, 4), **options)
    return torch.stack([(games.actions[:, :3] == move).float().mean(0) for move in range(4)])


@pytest.fixture(scope="module")
def games() -> SnakesVec:
    return SnakesVec(GAMES, features="none", seed=2)


def test_samples_follow_the_softmax(games):
    expected = LOGITS.softmax(0)
    spread = 4 * (expected * (1 - expected) / GAMES).sqrt() + 1e-6
    assert ((frequencies(games) - expected[:, None]).abs() <= spread[:, None]).all()


def test_exploration_is_uniform_and_leaves_masked_moves_out(games):
    found = frequencies(games, epsilon=1.0)
    assert (found[:3] - 1 / 3).abs().max() < 4 * (2 / 9 / GAMES) ** 0.5 and found[3].max() == 0
    mixed = frequencies(games, epsilon=0.5)[:3]
    expected = (LOGITS.softmax(0)[:3] + 1 / 3) / 2
    assert (mixed - expected[:, None]).abs().max() < 4 * 0.5 / GAMES**0.5


def test_exploration_is_drawn_for_each_snake(games):
    greedy = LOGITS.argmax()
    logits = torch.full((GAMES, 1, 3, 4), -10.0)
    logits[..., greedy] = 0.0
    games.choose(logits, epsilon=0.5)
    other = games.actions[:, :3] != greedy
    share = 0.5 * 0.75
    assert (other.float().mean(0) - share).abs().max() < 0.03
    assert abs((other[:, 0] & other[:, 1]).float().mean() - share**2) < 0.03


def test_draws_depend_on_game_and_step_only(games):
    frequencies(games)
    first = games.actions.clone()
    frequencies(games)
    assert torch.equal(games.actions[:, :3], first[:, :3])
    part = SnakesVec(100, features="none", seed=2, first_game=1000)
    part.choose(LOGITS.expand(100, 1, 3, 4))
    assert torch.equal(part.actions[:, :3], first[1000:1100, :3])
    part.step()
    part.choose(LOGITS.expand(100, 1, 3, 4))
    assert not torch.equal(part.actions[:, :3], first[1000:1100, :3])


def test_without_sampling_the_first_largest_wins():
    games = SnakesVec(2, right="external")
    logits = torch.tensor([[[1.0, 2.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0], [-5.0, -6.0, -4.0, -3.0]]] * 2)[:, None]
    games.actions.fill_(1)
    games.sides.copy_(torch.tensor([0, 1]))
    games.choose(logits, sample=False)
    assert games.actions.tolist() == [[1, 0, 3, 1, 1, 1], [1, 1, 1, 1, 0, 3]]


def test_scripted_teams_are_left_alone():
    games = SnakesVec(2, observe="both", right=torch.tensor([0, 3]))
    games.actions.fill_(2)
    logits = torch.zeros(2, 2, 3, 4)
    logits[..., 1] = 1.0
    games.choose(logits, sample=False)
    assert games.actions.tolist() == [[1] * 6, [1, 1, 1, 2, 2, 2]]


def test_bad_input():
    games = SnakesVec(2)
    with pytest.raises(UserError, match=r"expected \(2, 1, 3, 4\)"):
        games.choose(torch.zeros(2, 3, 4))
    with pytest.raises(UserError, match="epsilon is 2"):
        games.choose(torch.zeros(2, 1, 3, 4), epsilon=2)
