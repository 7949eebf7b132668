"""The adapters of SMAC, SMACv2 and SMAClite on stand-ins: the contract, and what they tell, number by number."""

import numpy as np
import pytest
from fake_smaclite import Kind
from fake_starcraft import FakeStarCraft2Env
from foreign_samples import EVERY_MAP, begun

from lib.errors import UserError
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import find_map
from lib.omagd.battles import layout_and_limit, make_battles
from lib.omagd.foreign.choose import start_game


@pytest.mark.parametrize(("env", "name"), EVERY_MAP)
def test_every_adapter_keeps_the_contract(games, env, name):
    game = start_game(env, name, 3, {})
    layout, info = game.layout, game.env_info()
    assert (info["n_agents"], info["n_enemies"], info["n_actions"]) == (
        layout.n_agents,
        layout.n_enemies,
        layout.n_actions,
    )
    assert info["obs_component"][3] == layout.own_width and info["episode_limit"] == game.map.limit > 0
    width = 4 + sum(count * each for count, each in info["obs_component"][1:3]) + layout.own_width
    assert info["obs_shape"] == width == layout.obs_size
    agents, units = layout.n_agents, layout.n_nodes
    rng, steps = np.random.default_rng(0), 0
    for battle in range(3):
        game.reset(battle)
        done = False
        while not done:
            assert game.obs().shape == game.full_obs().shape == (agents, layout.obs_size)
            assert game.obs().dtype == game.full_obs().dtype == game.state().dtype == np.float32
            assert game.state().shape == (layout.state_size,) and game.avail().shape == (agents, layout.n_actions)
            assert game.visible().shape == (agents, units) and game.alive().shape == (units,)
            alive, told = game.alive()[:agents].astype(bool), game.full_obs() != 0
            assert not told[~alive].any() and not game.visible()[~alive].any() and game.avail()[~alive, 0].all()
            assert (game.obs()[game.obs() != 0] == game.full_obs()[game.obs() != 0]).all()
            assert game.mismatch() is None  # what is visible is laid out as what we write
            outcome = game.step([rng.choice(np.flatnonzero(mask)) for mask in game.avail()])
            done, steps = outcome.done, steps + 1
        assert (
            outcome.won == (not game.alive()[agents:].any())
            and outcome.dead_allies == (game.alive()[:agents] == 0).sum()
        )
    assert steps <= 3 * game.map.limit
    game.close()
    game.close()


def test_numbers_of_smac_by_hand(games):
    game = begun(
        "smac", "3m", ally_0=(10, 16, 45), ally_1=(13, 20, 30), ally_2=(9, 9, 0), enemy_0=(16, 16, 9),
        enemy_1=(22, 21, 45), enemy_2=(10, 15, 0),
    )  # fmt: skip
    near, hidden = [1, 6 / 9, 6 / 9, 0, 9 / 45], [0, 13 / 9, 12 / 9, 5 / 9, 1]
    ally, none, own = [1, 5 / 9, 3 / 9, 4 / 9, 30 / 45], [0] * 5, [1]
    assert game.obs()[0] == pytest.approx([1, 1, 1, 1, *near, *none, *none, *ally, *none, *own], abs=1e-6)
    assert game.full_obs()[0] == pytest.approx([1, 1, 1, 1, *near, *hidden, *none, *ally, *none, *own], abs=1e-6)
    assert game.visible()[0].tolist() == [1, 1, 0, 1, 0, 0] and game.alive().tolist() == [1, 1, 0, 1, 1, 0]
    assert game.avail()[0].tolist() == [0, 1, 1, 1, 1, 1, 1, 0, 0] and not game.full_obs()[2].any()


def test_shields_and_type_bits_of_smac_by_hand(games):
    far = {f"{army}_{number}": (9, 16, 0) for army in ("ally", "enemy") for number in range(5)}
    far |= {"ally_0": (4, 10, 40), "ally_3": (13, 22, 50), "enemy_0": (8, 13, 80), "enemy_4": (24, 25, 25)}
    game = begun("smac", "2s3z", **far)
    game._env.agents[3].shield, game._env.enemies[4].shield = 25, 10
    game._look()
    enemies, allies = game.full_obs()[0][4:44].reshape(5, 8), game.full_obs()[0][44:76].reshape(4, 8)
    assert enemies[0] == pytest.approx([1, 5 / 9, 4 / 9, 3 / 9, 1, 1, 0, 1])  # SMAC's bits of enemies: zealot, stalker
    assert enemies[4] == pytest.approx([0, 25 / 9, 20 / 9, 15 / 9, 0.25, 0.2, 1, 0], abs=1e-6)
    assert allies[2] == pytest.approx([0, 15 / 9, 9 / 9, 12 / 9, 0.5, 0.5, 0, 1], abs=1e-6)  # out of sight: 0 first
    assert not game.obs()[0][36:76].any() and game.full_obs()[0][76:] == pytest.approx([0.5, 1, 1, 0])
    assert game.visible()[0].tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_numbers_of_smacv2_by_hand(games):
    """Sight of each type, own place, and the enemies that it forgets: told of is not who is near."""
    game = begun("smacv2", "protoss_5_vs_5")
    core = game._env.env
    for army in (core.agents, core.enemies):
        for unit in army.values():
            unit.health = 0
    me, ally, near, hidden = core.agents[0], core.agents[4], core.enemies[0], core.enemies[3]
    for unit, name, (x, y) in ((me, "stalker", (8, 16)), (ally, "zealot", (8, 28)), (near, "colossus", (11, 20)),
                               (hidden, "zealot", (20, 21))):  # fmt: skip
        unit.name, unit.pos.x, unit.pos.y, unit.health, unit.health_max = name, x, y, 50, 100
        unit.shield = core.unit_max_shield(unit) / 2
    core.seen.clear()
    game._look()
    width = 9
    told, full = game.obs()[0], game.full_obs()[0]
    assert not told[4 : 4 + width].any() and game.visible()[0].tolist() == [1] + [0] * 9
    assert full[4 : 4 + width] == pytest.approx([1, 0.5, 0.3, 0.4, 0.5, 0.5, 0, 0, 1])
    assert full[4 + 3 * width :][:width] == pytest.approx([0, 1.3, 1.2, 0.5, 0.5, 0.5, 0, 1, 0])
    assert full[4 + 8 * width :][:width] == pytest.approx([0, 1.2, 0, 1.2, 0.5, 0.5, 0, 1, 0])
    assert (
        full[4 + 9 * width :] == pytest.approx([0.5, 0.5, 8 / 32, 16 / 32, 1, 0, 0])
        and len(full) == game.layout.obs_size
    )
    core.seen.update(range(5))
    game._look()
    assert game.visible()[0].tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_smacv2_without_a_mask_still_tells_who_is_near(games):
    game = start_game("smacv2", "protoss_5_vs_5", 0, {"action_mask": False})
    game.reset(1)
    assert game.avail()[0, 6:].all()
    core = game._env.env
    core.enemies[2].pos.x, core.enemies[2].pos.y = core.agents[0].pos.x, core.agents[0].pos.y + 1
    game._look()
    blocks = game.full_obs()[0][4:49].reshape(5, 9)
    assert blocks[:, 0].tolist() == [0, 0, 1, 0, 0]


def test_numbers_of_smaclite_by_hand(games):
    places = {"ally_0": (10, 16, 150), "ally_1": (10, 21, 45), "ally_2": (10, 17, 9), "ally_3": (10, 10, 0)}
    game = begun("smaclite", "MMM", **places, enemy_0=(13, 20, 150), enemy_1=(26, 28, 45), enemy_2=(1, 1, 0))
    full, told = game.full_obs(), game.obs()
    blocks = full[0][4:36].reshape(4, 8)  # of the healer: the first number says whom of its own it can heal
    assert blocks[0] == pytest.approx([0, 5 / 9, 3 / 9, 4 / 9, 1, 0, 0, 1], abs=1e-6)
    assert blocks[1] == pytest.approx([1, 20 / 9, 16 / 9, 12 / 9, 1, 0, 1, 0], abs=1e-6)
    assert not blocks[2].any() and not told[0][12:20].any()
    assert full[0][36:44] == pytest.approx([1, 5 / 9, 0, 5 / 9, 1, 0, 1, 0], abs=1e-6)
    assert full[0][44:52] == pytest.approx([1, 1 / 9, 0, 1 / 9, 0.2, 0, 1, 0], abs=1e-6)
    assert full[0][60:] == pytest.approx([1, 0, 0, 1]) and not full[3].any()
    assert game.alive().tolist() == [1, 1, 1, 0, 1, 1, 0, 1] and game.visible()[0].tolist()[:5] == [1, 1, 1, 0, 1]
    assert game.units().heals.tolist() == [True, False, False, False]
    # Who fires at the ground alone does not hit the enemy's healer.
    marauder = game._env.agents[2]
    marauder.type, marauder.valid_targets = Kind.MARAUDER, {marauder.plane}
    game._look()
    assert game.units().can_hit[:3].tolist() == [[False, True, True, True], [True] * 4, [False, True, True, True]]


def test_layouts_of_games_are_those_of_our_own_maps(games):
    """On SMAC's maps of the stand-ins' sizes: the same layout from the game's numbers as from our own table."""
    assert layout_and_limit("smac", "3m", {}) == (Layout.of(find_map("3m")), 20)
    assert layout_and_limit("smac", "2s3z", {})[0] == Layout.of(find_map("2s3z"))
    assert layout_and_limit("smaclite", "2s3z", {}) == (Layout.of(find_map("2s3z")), 120)  # SMAC's limit: it has none
    layout, limit = layout_and_limit("smacv2", "terran_4_vs_3", {})
    assert (layout.n_actions, layout.own_width, limit) == (10, 6, 20)  # heal four, know one's own place
    wrong = {"n_agents": 3, "n_enemies": 3, "type_bits": 0, "ally_shield": 0, "enemy_shield": 0, "own_more": 0}
    with pytest.raises(UserError, match="obs_shape is 31, in SMAC's layout of 3 agents against 3 enemies it is 30"):
        Layout.of_env_info(wrong | {"n_actions": 9, "obs_shape": 31, "state_shape": 48})


def test_a_game_with_another_layout_is_noticed(games):
    """Same width, other numbers: a line, and where agents would be told of the unseen by them an error."""
    distance = FakeStarCraft2Env.distance
    games.setattr(FakeStarCraft2Env, "distance", staticmethod(lambda *places: 0.5 * distance(*places)))
    lines = []
    make_battles("smac", "3m", 1, log=lines.append).close()
    assert (
        len(lines) == 1
        and "number 1 of enemy 0 of agent 0 is 0.5556, by the units 1.111" in lines[0]
        and "not to be trusted" in lines[0]
    )
    with pytest.raises(UserError, match="--observe obs takes its observations as they are"):
        make_battles("smac", "3m", 1, strict=True)
