"""`SnakesVec`: the same games in any batch, exact continuation, resets, what it refuses, and facts that always hold."""

import itertools

import pytest
import torch

from lib.errors import UserError
from lib.snakes import GameState, SnakesVec
from lib.snakes.rules import neighbour

OUTPUTS = ("features", "actions", "rewards", "deaths", "ate", "done", "scores", "final_scores", "step_count", "episode")


def outputs(games: SnakesVec) -> list[torch.Tensor]:
    return [getattr(games, name).clone() for name in OUTPUTS]


@pytest.mark.parametrize("size", [32, 16, 1])
def test_the_same_games_in_batches_of_any_size(size):
    options = {"seed": 7, "left": "random", "right": "greedy", "observe": "both", "episode_steps": 60}
    whole = SnakesVec(64, first_game=100, **options)
    parts = [SnakesVec(size, first_game=100 + start, **options) for start in range(0, 64 if size > 1 else 3, size)]
    for _ in range(130):
        whole.step()
        for index, part in enumerate(parts):
            part.step()
            for ours, theirs in zip(outputs(whole), outputs(part)):
                assert torch.equal(ours[index * size : (index + 1) * size], theirs)
    assert whole.episode.tolist() == [2] * 64


def test_seeds_and_games_differ():
    options = {"left": "random", "right": "random", "features": "none"}
    first, second = SnakesVec(200, seed=1, **options), SnakesVec(200, seed=2, **options)
    starts = {tuple(map(tuple, games.snapshot(n).snakes)) for games in (first, second) for n in range(200)}
    assert len(starts) == 400


def test_state_round_trip_continues_identically():
    options = {"left": "random", "right": "evasion", "episode_steps": 50}
    games = SnakesVec(24, seed=5, first_game=10, **options)
    games.sides.copy_(torch.arange(24) % 2)
    for _ in range(77):
        games.step()
    state = games.get_state()
    other = SnakesVec(24, seed=6, **options)
    other.set_state(state)
    assert torch.equal(other.features, games.features)
    for _ in range(77):
        games.step()
        other.step()
        assert all(torch.equal(a, b) for a, b in zip(outputs(games), outputs(other)))
    assert (state["words"] != games.get_state()["words"]).any(), "the state must be a copy"


def test_states_that_do_not_fit_are_refused():
    games = SnakesVec(4, features="none")
    state = games.get_state()
    with pytest.raises(UserError, match="the same number of games"):
        SnakesVec(5, features="none").set_state(state)
    with pytest.raises(UserError, match="take it from get_state"):
        games.set_state({name: tensor for name, tensor in state.items() if name != "codes"})
    with pytest.raises(UserError, match="'done'"):
        games.set_state(state | {"done": state["done"].float()})
    with pytest.raises(UserError, match="take it from get_state"):
        games.set_state(None)


def test_autoreset_shows_the_next_game_and_keeps_the_last_one():
    games = SnakesVec(8, left="random", right="greedy", episode_steps=5, keep_final=True, observe="both")
    twin = SnakesVec(8, left="random", right="greedy", episode_steps=5, autoreset=False, observe="both")
    for _ in range(5):
        games.step()
        twin.step()
    assert games.done.tolist() == twin.done.tolist() == [1] * 8
    assert torch.equal(games.final_features, twin.features) and torch.equal(games.final_scores, twin.scores)
    assert torch.equal(games.scores, twin.scores) and torch.equal(games.rewards, twin.rewards)
    assert games.step_count.tolist() == [0] * 8 and games.episode.tolist() == [1] * 8
    assert twin.step_count.tolist() == [5] * 8 and twin.episode.tolist() == [0] * 8
    before = twin.snapshot(3)
    twin.step()
    assert twin.snapshot(3) == before and twin.rewards.count_nonzero() == 0 and twin.done.tolist() == [1] * 8
    assert torch.equal(twin.reset(), games.features)
    assert twin.done.tolist() == [0] * 8 and twin.snapshot(3) == games.snapshot(3)


def test_reset_with_a_seed_starts_over():
    games = SnakesVec(3, seed=4, left="random", right="random")
    start = games.features.clone()
    assert torch.equal(games.reset(), start), "nothing was played: the same games"
    for _ in range(3):
        games.step()
    assert not torch.equal(games.reset(), start) and games.episode.tolist() == [1] * 3
    assert torch.equal(games.reset(seed=4), start) and games.episode.tolist() == [0] * 3
    assert torch.equal(games.reset(seed=5), SnakesVec(3, seed=5).features)


def test_sides_and_controllers_are_read_each_step():
    games = SnakesVec(6, left="greedy", right="greedy")
    both = SnakesVec(6, left="greedy", right="greedy", observe="both")
    games.sides.copy_(torch.tensor([0, 1, 0, 1, 1, 0]))
    assert torch.equal(games.refresh()[:, 0], both.features[torch.arange(6), games.sides.long()])
    codes = torch.tensor([0, 1, 3, 0, 1, 3])
    games.set_controllers("external", codes)
    games.actions.fill_(2)
    games.step()
    assert (games.actions[:, :3] == 2).all() and (games.actions[[0, 3], 3:] == 2).all()
    assert (games.actions[[1, 2, 4, 5], 3:] != 2).any()


def test_what_always_holds():
    """Sum of rewards = final length - 3; five beans; nothing overlaps; bodies touch; a game of 200 steps."""
    games = SnakesVec(48, seed=3, left="random", right="greedy", features="none")
    total, deaths = torch.zeros(48, 6), 0
    for step in range(200):
        games.step()
        total += games.rewards
        deaths += int(games.deaths.sum())
        assert ((games.rewards < 0) <= (games.deaths == 1)).all() and ((games.ate == 1) | (games.rewards <= 0)).all()
        assert games.done.tolist() == [int(step == 199)] * 48
        for n in range(step % 3, 48, 3) if step < 199 else ():
            check_position(games.snapshot(n))
    assert torch.equal(total, games.final_scores.float())
    assert deaths > 1000


def check_position(state: GameState) -> None:
    state.check()
    assert len(state.beans) == 5
    for snake in state.snakes:
        links = [cell in [neighbour(head, move) for move in range(4)] for head, cell in itertools.pairwise(snake)]
        assert all(links[:-1]), "only the last link may be broken (quirk a)"


def test_greedy_sees_the_board_as_it_is():
    """Regression of the original's issue 4, where the greedy team moved on the position of the step before."""
    games = SnakesVec(40, seed=9, left="greedy", right="greedy", features="none")
    differing = 0
    old = [games.snapshot(n) for n in range(40)]
    for _ in range(60):
        now = [games.snapshot(n) for n in range(40)]
        games.step()
        for n, actions in enumerate(games.actions.tolist()):
            assert actions == greedy(now[n], 0) + greedy(now[n], 1)
            differing += actions != greedy(old[n], 0) + greedy(old[n], 1)
        old = now
    assert differing > 100, "the stale position must lead to other moves, else this test says nothing"


def greedy(state: GameState, team: int) -> list[int]:
    """The original's greedy script on a position."""
    taken, moves = [], []
    body = set(itertools.chain.from_iterable(state.snakes))

    def distance(cell: int, bean: int) -> int:
        return (cell // 20 - bean // 20) ** 2 + (cell % 20 - bean % 20) ** 2

    for snake in state.snakes[3 * team : 3 * team + 3]:
        bean = min((bean for bean in state.beans if bean not in taken), key=lambda bean: distance(snake[0], bean))
        taken.append(bean)
        cells = [neighbour(snake[0], move) for move in range(4)]
        values = [distance(cell, bean) + (1000 if cell in body else 0) for cell in cells]
        moves.append(0 if all(cell in body for cell in cells) else values.index(min(values)))
    return moves


def test_a_snapshot_is_a_copy_and_inject_puts_it_back():
    games = SnakesVec(2, left="random", right="random")
    for _ in range(30):
        games.step()
    state, features = games.snapshot(1), games.features[1].clone()
    games.step()
    later = games.snapshot(1)
    assert state != later and state.step == 30
    games.inject(1, state)
    assert games.snapshot(1) == state and torch.equal(games.refresh()[1], features)
    games.step()
    assert games.snapshot(1) == later
    free = sorted(set(range(200)) - set(itertools.chain.from_iterable(later.snakes)), reverse=True)[:2]
    games.inject_beans(1, free)
    assert games.snapshot(1).beans == free


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0"),
        ({"num_envs": 2, "left": "gredy"}, "unknown player 'gredy'"),
        ({"num_envs": 2, "features": "pixels"}, "unknown features 'pixels'"),
        ({"num_envs": 2, "observe": "left"}, "observe is 'left'"),
        ({"num_envs": 2, "episode_steps": 0}, "episode_steps is 0"),
        ({"num_envs": 2, "seed": -1}, "seed is -1"),
        ({"num_envs": 2, "first_game": -1}, "first_game is -1"),
        ({"num_envs": 2, "device": "meta"}, "cannot run the game"),
        ({"num_envs": 2, "right": torch.tensor([1, 9])}, "outside 0 to 7"),
        ({"num_envs": 2, "right": torch.tensor([1])}, "shape \\(2,\\)"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(UserError, match=message) as caught:
        SnakesVec(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (torch.full((2, 6), 4), "an action is 4"),
        (torch.full((2, 6), -1), "an action is -1"),
        (torch.zeros(2, 3, dtype=torch.int32), r"shape \(2, 3\)"),
        (torch.zeros(2, 6), "torch.float32"),
    ],
)
def test_bad_actions_change_nothing(actions, message):
    games = SnakesVec(2, right="external")
    before = games.get_state()
    with pytest.raises(UserError, match=message):
        games.step(actions)
    assert all(torch.equal(before[name], tensor) for name, tensor in games.get_state().items())


def test_positions_that_cannot_be_are_refused():
    games = SnakesVec(1)
    state = games.snapshot(0)
    snakes, beans, directions = state.snakes, state.beans, state.directions
    bad = {
        "has 6 snakes": GameState(snakes[:5], beans, directions),
        "at most 5": GameState(snakes, [*beans, 0], directions),
        "on one cell": GameState(snakes, [snakes[0][0]], directions),
        "outside 0 to 199": GameState(snakes, [200], directions),
        "do not touch": GameState([[snakes[0][0], snakes[0][2], snakes[0][1]], *snakes[1:]], beans, directions),
        "at least 3": GameState([snakes[0][:2], *snakes[1:]], beans, directions),
        "numbers 0 to 3": GameState(snakes, beans, [4, *directions[1:]]),
    }
    for message, position in bad.items():
        with pytest.raises(UserError, match=message):
            games.inject(0, position)
    with pytest.raises(UserError, match="a snake lies on"):
        games.inject_beans(0, [snakes[0][0]])
    with pytest.raises(UserError, match="expected 0 to 0"):
        games.snapshot(1)
    assert games.snapshot(0) == state
