"""Episodes that tokens are learnt from: what they hold, who plays them, what they are for."""

from collections import Counter

import pytest
import torch
from squad_samples import described, network, write_squad

from lib.checkpoint import load_export
from lib.errors import UserError
from lib.omagd.battle.battle import BattleVec
from lib.omagd.players import teams_of
from lib.omagd.recon.episodes import MIXTURE, TEST, TRAIN, VALIDATION, blocks, collect, part_of, read_mixture


@pytest.fixture(scope="module")
def played():
    return collect("2s3z", read_mixture("random:1,nearest@0.25:2"), 9, seed=4, sight=5.0)


def test_episodes_are_those_of_the_battles_of_their_numbers(played):
    """Step by step against one battle at a time: the number alone decides, not who is played beside it."""
    assert len(played) == 9 and played.policies == ["random"] * 3 + ["nearest@0.25"] * 6
    assert len(played.full_obs) == int(played.lengths.sum())
    for number in (0, 2, 3, 8):
        battle = BattleVec("2s3z", 1, seed=4, first_battle=number, autoreset=False, sight=5.0)
        player, epsilon = ("random", 0.0) if number < 3 else ("nearest", 0.25)
        places = int(played.firsts[number]) + torch.arange(int(played.lengths[number]))
        seen = played.seen(places)
        for row, place in enumerate(places.tolist()):
            assert torch.equal(played.full_obs[place], battle.full_obs[0].half())
            assert torch.allclose(seen[row], battle.obs[0], atol=2e-3)
            assert torch.equal(played.visible[place], battle.visible[0])
            assert torch.equal(played.alive[place], battle.alive[0])
            battle.script(player, epsilon)
            assert played.actions[place].tolist() == battle.actions[0].tolist()
            battle.step()
            assert float(played.rewards[place]) == float(battle.rewards[0])
        assert bool(battle.done[0]) and bool(played.won[number]) == bool(battle.info[0, 0])


def test_steps_lie_as_the_networks_want_them(played):
    chosen = torch.tensor([7, 0, 4])
    places, sizes = played.steps_of(chosen)
    lengths = played.lengths[chosen].sort(descending=True).values
    assert len(places) == int(lengths.sum()) and len(sizes) == int(lengths[0]) and sizes[0] == 3
    order = chosen[played.lengths[chosen].argsort(descending=True, stable=True)]
    at = 0
    for step, size in enumerate(sizes):
        assert places[at : at + size].tolist() == (played.firsts[order[:size]] + step).tolist()
        at += size


def test_a_part_of_few_episodes_may_be_empty():
    few = collect("3m", read_mixture("nearest"), 1, seed=1)
    empty = [part for part in (TRAIN, VALIDATION, TEST) if not len(few.of_part(part))]
    assert len(empty) == 2
    places, sizes = few.steps_of(few.of_part(empty[0]))
    assert len(places) == 0 and sizes == ()


def test_every_episode_is_for_one_thing():
    found = Counter(part_of(number) for number in range(20_000))
    assert set(found) == {TRAIN, VALIDATION, TEST}
    assert abs(found[TEST] / 2000 - 1) < 0.1 and abs(found[VALIDATION] / 2000 - 1) < 0.1
    # Of every policy's block, too, and of neighbours not the same thing over and over.
    assert len({tuple(part_of(first + k) for k in range(10)) for first in range(0, 1000, 10)}) > 60
    for first in range(0, 20_000, 1000):
        assert 50 < sum(part_of(first + k) == TEST for k in range(1000)) < 150


def test_a_mixture_is_divided_by_its_parts():
    mixture = read_mixture("nearest@0.5:1,random:3")
    assert [(policy.name, first, end) for policy, first, end in blocks(mixture, 10)] == [
        ("nearest@0.5", 0, 2), ("random", 2, 10),
    ]  # fmt: skip
    assert sum(end - first for _, first, end in blocks(read_mixture(MIXTURE), 1001)) == 1001
    assert [policy.share for policy in read_mixture("kite,focus")] == [1.0, 1.0]


@pytest.mark.parametrize(
    "text",
    ["", "nearst:1", "nearest:", "nearest@", "nearest@2:1", "nearest@x", "nearest:0", "nearest:-1", "random:many"],
)
def test_mixtures_that_are_refused(text):
    with pytest.raises(UserError, match="--policies") as refused:
        read_mixture(text)
    assert "\n" not in str(refused.value)


def test_a_trained_team_plays_its_part(tmp_path, monkeypatch):
    """Greedily or with random actions, alike however many battles are played at once; what it sees is what is kept."""
    team = str(write_squad(tmp_path / "team", network(), described()))
    mixture = read_mixture(f"{team}:1,{team}@0.5:1,nearest:1")
    teams = teams_of((policy.player for policy in mixture), load_export)
    played = collect("3m", mixture, 12, seed=3, teams=teams, sight=5.0)
    assert list(teams) == [team] and played.policies == [team] * 4 + [f"{team}@0.5"] * 4 + ["nearest"] * 4
    monkeypatch.setattr("lib.omagd.recon.episodes.AT_ONCE", 3)
    assert collect("3m", mixture, 12, seed=3, teams=teams, sight=5.0).digest() == played.digest()
    for number, epsilon in ((1, 0.0), (5, 0.5)):
        battle = BattleVec("3m", 1, seed=3, first_battle=number, autoreset=False, sight=5.0)
        act = teams[team].start(battle, epsilon)
        for place in range(int(played.firsts[number]), int(played.firsts[number] + played.lengths[number])):
            act()
            assert torch.equal(played.actions[place].long(), battle.actions[0].long())
            battle.step()
    with pytest.raises(UserError, match="cannot play 2s3z: the map has"):
        collect("2s3z", mixture, 12, seed=3, teams=teams)


def test_teams_of_kept_episodes_need_not_be_there(tmp_path):
    gone = f"{tmp_path / 'gone'}@0.1:1"
    with pytest.raises(UserError, match="or the folder of a trained team"):
        read_mixture(gone)
    assert read_mixture(gone, kept=True)[0].epsilon == 0.1


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("lib.room.free_memory", lambda: 1 << 20)
    with pytest.raises(UserError, match="--graph_pretrain_episodes 5000 needs"):
        collect("3m", read_mixture(MIXTURE), 5000, seed=1)
