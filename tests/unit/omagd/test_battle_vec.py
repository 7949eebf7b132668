"""Many battles at once: seeds, states, choices, scripted players, bad input."""

import pytest
import torch

from lib.errors import UserError
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.players import PLAYERS

TOLD = ("obs", "full_obs", "state", "avail", "visible", "alive", "rewards", "returns", "done", "step_count", "episode")


def play(battles: BattleVec, steps: int, player: str = "nearest", epsilon: float = 0.3) -> list[torch.Tensor]:
    """Everything that is told after each step."""
    found = []
    for _ in range(steps):
        battles.script(player, epsilon)
        battles.step()
        found.append({name: getattr(battles, name).clone() for name in TOLD})
    return found


@pytest.mark.parametrize("name", ["3m", "MMM"])
def test_battles_do_not_depend_on_how_many_there_are(name):
    many = play(BattleVec(name, 6, seed=5), 90)
    few = play(BattleVec(name, 2, seed=5, first_battle=3), 90)
    for one, other in zip(many, few, strict=True):
        for told in TOLD:
            assert torch.equal(one[told][3:5], other[told]), told
    assert int(many[-1]["episode"].sum()) > 0
    other_seed = play(BattleVec(name, 6, seed=6), 1)
    assert not torch.equal(other_seed[0]["obs"], many[0]["obs"])
    first, second = many[0]["state"][0], many[0]["state"][1]
    assert not torch.equal(first, second)  # other battles, other spawns


def test_a_state_continues_bit_for_bit():
    battles = BattleVec("2s3z", 4, seed=9)
    play(battles, 25)
    state = battles.get_state()
    expected = play(battles, 60)
    other = BattleVec("2s3z", 4, seed=1, first_battle=77)
    other.set_state(state)
    for one, two in zip(expected, play(other, 60), strict=True):
        assert all(torch.equal(one[told], two[told]) for told in TOLD)
    with pytest.raises(UserError, match="the same number of games"):
        BattleVec("2s3z", 5).set_state(state)


def test_reset_goes_on_and_a_seed_starts_over():
    battles = BattleVec("3m", 2, seed=3)
    start = battles.obs.clone()
    play(battles, 3)
    battles.reset()
    assert battles.episode.tolist() == [1, 1] and not torch.equal(battles.obs, start)
    battles.reset(seed=3)
    assert battles.episode.tolist() == [0, 0] and torch.equal(battles.obs, start)


def test_an_action_that_is_not_available_is_told_of():
    battles = BattleVec("3m", 3, seed=0)
    actions = torch.ones(3, 3, dtype=torch.int64)
    actions[1, 2] = 7  # an enemy far away
    with pytest.raises(UserError, match=r"battle 1: agent 2 cannot take action 7; available are \[1, 2, 3, 4, 5\]"):
        battles.step(actions)
    battles.step(torch.ones(3, 3, dtype=torch.int64))  # said once
    battles.step(actions, check=False)
    assert battles.step_count.tolist() == [3, 3, 3]
    for wrong in (torch.ones(3, 2, dtype=torch.int64), torch.ones(3, 3)):
        with pytest.raises(UserError, match=r"expected whole numbers \(3, 3\)"):
            battles.step(wrong)
    actions[1, 2] = 400
    with pytest.raises(UserError, match="cannot take action 400"):
        battles.reset()
        battles.step(actions)


def test_choices_are_the_best_available_or_random_ones():
    battles = BattleVec("3m", 512, seed=2)
    values = torch.randn(battles.avail.shape, generator=torch.Generator().manual_seed(0))
    battles.choose(values)
    best = values.masked_fill(battles.avail == 0, -torch.inf).argmax(-1)
    assert torch.equal(battles.actions.long(), best)
    battles.choose(values, epsilon=0.25)
    kept = (battles.actions.long() == best).float().mean().item()
    assert abs(kept - (0.75 + 0.25 / 5)) < 0.03  # five actions are available at the start
    assert battles.avail.gather(-1, battles.actions.long().unsqueeze(-1)).all()
    battles.choose(values, epsilon=1.0)
    counts = torch.bincount(battles.actions.flatten().long(), minlength=9)
    assert counts[0] == 0 and counts[6:].sum() == 0 and (counts[1:6] / counts.sum() - 0.2).abs().max() < 0.04
    with pytest.raises(UserError, match="values have shape"):
        battles.choose(values[:1])
    with pytest.raises(UserError, match=r"epsilon is 1\.5"):
        battles.choose(values, epsilon=1.5)


def won(name: str, player: str, battles: int = 128, **options) -> float:
    """The share of battles that a scripted player wins."""
    games = BattleVec(name, battles, seed=4, autoreset=False, **options)
    for _ in range(games.limit):
        games.script(player)
        games.step()
    assert games.done.all()
    return games.info[:, 0].float().mean().item()


def test_scripts_win_what_they_should():
    """A start without chance would make every script win all or nothing."""
    assert won("3m", "random") == won("2s3z", "random") == 0.0
    assert 0.05 < won("3m", "nearest") < 0.6 and 0.2 < won("2s3z", "nearest") < 0.8
    assert won("2s3z", "focus") > won("2s3z", "nearest")  # all on one is the stronger way
    assert won("3s5z", "kite") > won("3s5z", "nearest")
    assert set(PLAYERS) == {"random", "nearest", "focus", "kite", "retreat"}
    with pytest.raises(UserError, match="player 'walk' is not known: there are random, nearest"):
        BattleVec("3m", 1).script("walk")


def test_a_step_of_walking_is_as_long_as_the_unit_is_fast():
    for rate, expected in ((16.0, 3.15 * 0.5), (22.4, 3.15 * 8 / 22.4)):
        battles = BattleVec("3m", 1, tick_rate=rate, spawn_jitter=0.0)
        before = battles.units[0, :2, :3].clone()
        battles.step(torch.full((1, 3), 4))
        moved = battles.units[0, :2, :3] - before
        assert moved[0].tolist() == pytest.approx([expected] * 3, abs=1e-4) and moved[1].abs().max() < 1e-5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sight": 0}, "sight is 0: expected a length above 0 and at most 1000"),
        ({"tick_rate": 10.0}, "expected 16 or 22.4"),
        ({"reward": "dense"}, "expected one of signed, smac_abs"),
        ({"smac_type_bits": "odd"}, "aligned or raw"),
        ({"spawn_jitter": 3.0}, "spawn_jitter is 3.0"),
        ({"limit": 0}, "limit is 0"),
    ],
)
def test_bad_settings_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        BattleVec("3m", 1, **options)
