"""Players by name and by export; exports that cannot be played."""

import json

import pytest
import torch
from squad_samples import described, network, write_squad

from lib.checkpoint import load_export
from lib.errors import UserError
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.players import PLAYERS
from lib.omagd.players import NetworkPlayer, ScriptedPlayer, load_player


def test_names_and_paths(tmp_path):
    for name in PLAYERS:
        player = load_player(name, load_export)
        assert isinstance(player, ScriptedPlayer) and player.name == name and player.battle is None
    agent = network()
    export = write_squad(tmp_path / "run" / "export", agent, described(sight=4.0, observe="full_obs"))
    for path in (export, tmp_path / "run"):
        player = load_player(str(path), load_export)
        assert player.name == str(path) and player.battle == described(sight=4.0, observe="full_obs")
        weights = player.agent.state_dict()
        assert all(torch.equal(value, weights[name]) for name, value in agent.state_dict().items())
    with pytest.raises(UserError, match=r"no player 'fokus': .* the nearest is focus, all are random, nearest"):
        load_player("fokus", load_export)
    with pytest.raises(UserError, match="is no export"):
        load_player(str(tmp_path), load_export)


def test_a_scripted_player_plays_its_script():
    one, other = (BattleVec("2s3z", 3, seed=5, autoreset=False) for _ in range(2))
    act = ScriptedPlayer("focus").start(one)
    for _ in range(10):
        act()
        one.step()
        other.script("focus")
        other.step()
    assert torch.equal(one.state, other.state)


@pytest.mark.parametrize("observe", ["obs", "full_obs"])
def test_a_network_plays_its_greatest_values_with_its_memory(observe):
    """Against the network over the whole episode at once, and on battles that begin anew at different times."""
    agent, player = network(), NetworkPlayer(network(), described(observe=observe))
    battles = BattleVec("3m", 4, seed=7, sight=5.0)  # with autoreset
    act, none = player.start(battles), battles.layout.n_actions
    seen, last = [[] for _ in range(4)], [[] for _ in range(4)]
    begun = 0
    for _ in range(90):
        for battle in range(4):
            if int(battles.step_count[battle]) == 0:
                begun += 1
                seen[battle], last[battle] = [], [torch.full((3,), none)]
            seen[battle].append(getattr(battles, observe)[battle].clone())
        free = battles.avail.clone()
        act()
        for battle in range(4):
            steps = len(seen[battle])
            with torch.no_grad():
                values = agent(torch.stack(seen[battle]), torch.stack(last[battle]), (1,) * steps)[-1]
            wanted = values.masked_fill(free[battle] == 0, -torch.inf).argmax(-1)
            assert battles.actions[battle].tolist() == wanted.tolist()
            last[battle].append(battles.actions[battle].long().clone())
        battles.step()
    assert begun > 5


def test_a_network_that_does_not_fit_the_map():
    player = NetworkPlayer(network("3m"), described(), "the team")
    with pytest.raises(
        UserError, match=r"the team cannot play 8m: the map has 8 agents, 14 .*3m of embedded.; play that"
    ):
        player.start(BattleVec("8m", 1))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"battle": None}, "has no battle: expected the export of a run of train_omagd.py"),
        ({"battle": {**described(), "fog": 1}}, "battle.fog of its config.json is not known"),
        (
            {"battle": {k: v for k, v in described().items() if k != "sight"}},
            "battle.sight of its config.json is missing",
        ),
        ({"battle": described(sight="far")}, "battle.sight of its config.json is 'far'"),
        ({"battle": described(leaky_mask=1)}, "battle.leaky_mask of its config.json is 1"),
        ({"battle": described(tick_rate=True)}, "battle.tick_rate of its config.json is True"),
        ({"battle": described("3n")}, "battle.map of its config.json is '3n': expected one of 3m"),
        ({"battle": described(observe="state")}, "battle.observe of its config.json is 'state'"),
        ({"battle": described("8m")}, "the map 8m has 8 agents, 14 actions"),
        ({"hidden": 0}, "hidden of its config.json is 0: expected a number above 0"),
        ({"hidden": 17}, r"last_action.weight is \(10, 16\), its config.json says \(10, 17\)"),
        ({"n_agents": None}, "n_agents of its config.json is None"),
    ],
)
def test_exports_that_cannot_be_played(tmp_path, changes, words):
    export = write_squad(tmp_path / "export", network(), **{"battle": described(), **changes})
    with pytest.raises(UserError, match=words) as caught:
        load_player(str(export), load_export)
    assert str(caught.value).startswith(str(export)) and "\n" not in str(caught.value)


def test_weights_that_are_not_a_team_s(tmp_path):
    export = write_squad(tmp_path / "export", network(), described())
    tensors, config = load_export(export)
    tensors["memory.bias"] = torch.zeros(3)
    with pytest.raises(UserError, match=r"memory.bias is \(3,\), its config.json says that there is none"):
        load_player(str(export), lambda path: (tensors, config))
    assert json.loads((export / "config.json").read_text())["battle"] == described()
