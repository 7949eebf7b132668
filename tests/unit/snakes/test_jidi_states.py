"""The platform's state dicts and actions."""

import copy

import numpy as np
import pytest

from lib.errors import UserError
from lib.snakes import jidi
from lib.snakes.state import GameState


def game() -> GameState:
    snakes = [[0, 1, 2], [25, 45, 65, 85], [199, 198, 197], [100, 101, 102], [120, 121, 122], [140, 141, 142]]
    return GameState(snakes, [7, 60, 61, 62, 63], [2, 0, 3, 2, 2, 2], [2, 0, 3, 2, 2, 1], step=4)


def test_the_dict_of_one_snake():
    state = jidi.state_dict(game(), 3)
    assert state[1] == [[0, 7], [3, 0], [3, 1], [3, 2], [3, 3]]
    assert state[2] == [[0, 0], [0, 1], [0, 2]]
    assert state[3] == [[1, 5], [2, 5], [3, 5], [4, 5]]
    assert state[4] == [[9, 19], [9, 18], [9, 17]]
    assert (state["board_width"], state["board_height"]) == (20, 10)
    assert state["last_direction"] == ["left", "up", "right", "left", "left", "down"]
    assert state["controlled_snake_index"] == 5
    assert list(state) == [1, 2, 3, 4, 5, 6, 7, *(name for name in state if isinstance(name, str))]


def test_the_first_state_has_no_last_directions():
    start = game()
    start.last_directions = None
    assert jidi.state_dict(start, 0)["last_direction"] is None


def test_nothing_is_shared_between_snakes_or_with_the_game():
    start = game()
    states = jidi.state_dicts(start)
    assert [state["controlled_snake_index"] for state in states] == [2, 3, 4, 5, 6, 7]
    untouched = copy.deepcopy(states[1])
    states[0][1].clear()
    states[0][2][0][0] = 99
    states[0]["last_direction"][0] = "nowhere"
    assert states[1] == untouched and jidi.state_dict(start, 1) == untouched


def test_actions_there_and_back():
    for action in range(4):
        encoded = jidi.encode_action(action)
        assert encoded[0].index(1) == action and sum(encoded[0]) == 1 and len(encoded) == 1
        assert jidi.decode_action(encoded) == action
    assert jidi.encode_actions(np.array([0, 1, 2, 3, 0, 1])) == [jidi.encode_action(a) for a in (0, 1, 2, 3, 0, 1)]
    assert jidi.decode_action([(0.0, 0.0, 1.0, 0.0)]) == 2
    assert jidi.decode_action([[False, True, False, False]]) == 1


@pytest.mark.parametrize("action", [4, -1, True, "up", None])
def test_actions_that_are_none(action):
    with pytest.raises(UserError, match="expected 0 to 3"):
        jidi.encode_action(action)


NONSENSE = [
    None,
    3,
    "up",
    [],
    [0, 0, 0, 1],
    [[0, 0, 1]],
    [[0, 0, 0, 0]],
    [[0, 1, 1, 0]],
    [[0, 0, 0, 2]],
    [[0.1, 0.2, 0.3, 0.4]],
    [["0", "0", "0", "1"]],
    [[0, 0, 0, float("nan")]],
    [[0, 0, 0, 1], [0, 0, 0, 1]],
    np.array([[0, 0, 0, 1]]),
    [np.array([0, 0, 0, 1])],
]


@pytest.mark.parametrize("returned", NONSENSE, ids=str)
def test_nonsense_is_refused_and_shown(returned):
    with pytest.raises(UserError, match=r"expected .* a single 1") as caught:
        jidi.decode_action(returned)
    assert "\n" not in str(caught.value)
    assert " ".join(repr(returned).split()) in str(caught.value)


def test_long_nonsense_is_cut():
    with pytest.raises(UserError) as caught:
        jidi.decode_action(list(range(10_000)))
    assert len(str(caught.value)) < 250 and "list" in str(caught.value)


def test_the_action_space_looks_like_the_platforms():
    (space,) = jidi.action_space()
    assert space.n == 4 and type(space).__name__ == "Discrete"
    assert {space.sample() for _ in range(200)} == {0, 1, 2, 3}
