"""Observations as nodes and back, on every map."""

import pytest
import torch

from lib.omagd.battle.arrays import HEALTH, SHIELD, X, Y
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS
from lib.omagd.recon.nodes import ALLY, ENEMY, OWN_AT, SELF, Nodes, feature_names


@pytest.mark.parametrize("name", sorted(MAPS))
def test_there_and_back(name):
    layout = Layout.of(MAPS[name])
    nodes = Nodes(layout)
    obs = torch.rand(3, 2, layout.obs_size)
    rows = nodes.build(obs)
    assert rows.shape == (3, 2, layout.n_nodes, layout.node_width)
    assert torch.equal(nodes.flatten(rows), obs)
    assert (rows[..., 0, :4] == torch.tensor([1.0, 0.0, 0.0, 0.0])).all()
    assert int(nodes.told.sum()) == layout.obs_size
    assert not rows[..., ~nodes.told][..., 1:].any()  # the 1 of the agent itself comes first
    for node_type in (SELF, ALLY, ENEMY):
        for row in nodes.told[nodes.types == node_type]:
            assert row.tolist() == [bool(text) for text in feature_names(layout, node_type)]


def test_one_agent_alone():
    layout = Layout(1, 3, 2, 1, 1)  # a map of SMACv2: protoss_1_vs_3
    nodes, obs = Nodes(layout), torch.rand(4, 1, layout.obs_size)
    assert torch.equal(nodes.flatten(nodes.build(obs)), obs) and nodes.units.tolist() == [[0, 1, 2, 3]]


def test_rows_are_the_blocks_of_the_units():
    """Number by number against the battle itself, seen and with unlimited sight, while units move and die."""
    battles = BattleVec("3s5z", 4, seed=2, sight=5.0, autoreset=False)
    nodes, layout = Nodes(battles.layout), battles.layout
    died = hidden_ones = 0
    for _ in range(60):
        battles.script("nearest", 0.2)
        battles.step()
        rows, full = nodes.build(battles.obs), nodes.build(battles.full_obs)
        alive = nodes.alive_of_nodes(battles.alive)
        hidden = nodes.hidden(battles.visible, battles.alive)
        x, y, health, shield = (battles.units[:, row] for row in (X, Y, HEALTH, SHIELD))
        for battle in range(4):
            for agent in range(layout.n_agents):
                lives = bool(battles.alive[battle, agent])
                for node, unit in enumerate(nodes.units[agent].tolist()):
                    assert bool(alive[battle, agent, node]) == bool(battles.alive[battle, unit])
                    seen = bool(battles.visible[battle, agent, node])
                    wanted = lives and bool(battles.alive[battle, unit]) and not seen
                    assert bool(hidden[battle, agent, node]) == wanted
                    hidden_ones, died = hidden_ones + wanted, died + (not battles.alive[battle, unit])
                    if node == 0:
                        share = float(rows[battle, agent, 0, OWN_AT])
                        assert share * MAPS["3s5z"].units[unit].health == pytest.approx(
                            float(health[battle, unit]), abs=1e-3
                        )
                        continue
                    told = torch.tensor([x[battle, unit] - x[battle, agent], y[battle, unit] - y[battle, agent]]) / 5
                    there = lives and bool(battles.alive[battle, unit])
                    assert torch.allclose(full[battle, agent, node, 2:4], told * there, atol=1e-5)
                    assert torch.allclose(rows[battle, agent, node, 2:4], told * (there and seen), atol=1e-5)
                    assert bool(full[battle, agent, node].any()) == there
                    if there:
                        kind = MAPS["3s5z"].units[unit]
                        shares = float(health[battle, unit]) / kind.health, float(shield[battle, unit]) / kind.shield
                        assert full[battle, agent, node, 4:6].tolist() == pytest.approx(shares, abs=1e-5)
                        assert full[battle, agent, node, 6:8].tolist() == [
                            kind.name == "stalker",
                            kind.name == "zealot",
                        ]
    assert died > 100 and hidden_ones > 100
