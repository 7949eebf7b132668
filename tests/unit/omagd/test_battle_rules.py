"""The kernels play the same battles as plain Python: whole battles on every map, and every rule in a made-up position.

QUARTET_BATTLE_STEPS=200000 compares that many steps of battles over all maps instead of a few thousand.
"""

import math
import os
from collections import Counter

import numpy as np
import pytest
import torch
from reference_lockstep_battle import FINAL, Lockstep, attacking_actions, mixed_actions, random_actions

from lib.errors import UserError
from lib.omagd.battle.arrays import HEALTH
from lib.omagd.battle.layout import EAST, FIRST_ATTACK, NO_OP, NORTH, SOUTH, STOP, WEST
from lib.omagd.battle.maps import MAPS
from lib.omagd.battle.rules import ENERGY_RATE, FIRST_ENERGY, REWARDS
from lib.omagd.battle.terrain import walkable

STEPS_A_MAP = math.ceil(int(os.environ.get("QUARTET_BATTLE_STEPS", "0")) / len(MAPS)) or 132
BATTLES = 4
COMPARED: dict[str, int] = {}
MET: Counter = Counter()
NOBODY = -1
NEVER = 1000.0  # a cooldown of one that is not to fire


def assert_equal(lockstep: Lockstep) -> None:
    assert lockstep.differences == 0, f"{lockstep.differences} differences\n" + "\n".join(lockstep.messages[:5])


def weaken(lockstep: Lockstep) -> None:
    """One army of every second battle that begins has little health, so that battles end in every way."""
    begun = [n for n, battle in enumerate(lockstep.battles) if battle.step_count == 0 and n % 4 in (1, 3)]
    agents = lockstep.vec.map.n_agents
    for n in begun:
        army = slice(agents, None) if n % 4 == 1 else slice(0, agents)
        lockstep.vec.units[n, HEALTH, army] *= 0.3
    if begun:
        lockstep.adopt()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", MAPS)
def test_battles_on_every_map(name):
    turn = list(MAPS).index(name)
    lockstep = Lockstep(
        name,
        BATTLES,
        seed=turn,
        first_battle=100 * turn,
        reward=REWARDS[turn % len(REWARDS)],
        tick_rate=(16.0, 22.4)[turn % 2],
        sight=(9.0, 6.0, 4.0)[turn % 3],
        leaky_mask=turn % 4 == 0,
        smac_type_bits=("raw", "aligned")[turn % 2],
        limit=24 if turn % 3 == 1 else None,
        keep_final=turn % 2 == 0,
    )
    rng = np.random.default_rng(turn)
    while lockstep.steps < STEPS_A_MAP:
        weaken(lockstep)
        lockstep.step(mixed_actions(lockstep.vec, rng, shares=(0.05, 0.05, 1.0, 0.3)), check=True)
    assert_equal(lockstep)
    COMPARED[name] = lockstep.steps
    MET.update(lockstep.events)


def test_what_was_met_on_all_maps():
    if len(COMPARED) < len(MAPS):
        pytest.skip("only where test_battles_on_every_map has run on every map in this process")
    total = sum(COMPARED.values())
    print(f"\n{total} steps of battles compared on {len(COMPARED)} maps: {dict(sorted(MET.items()))}")
    assert total >= STEPS_A_MAP * len(MAPS) and total >= int(os.environ.get("QUARTET_BATTLE_STEPS", "0"))
    wanted = {
        "shot": 2000, "ally_killed": 200, "enemy_killed": 200, "ally_heal": 50, "enemy_heal": 50, "splash_on_many": 10,
        "blast": 20, "blast_on_many": 10, "shield_regeneration": 50, "zerg_regeneration": 100, "victory": 3,
        "defeat": 3, "limit": 3, "blocked": 50, "blocked_in_x": 10, "push": 10000,
        "retaliation": 5, "chosen_anew": 50, "hit_on_fallen": 20,
    }  # fmt: skip
    assert not {name: MET[name] for name, least in wanted.items() if MET[name] < least}


# Made-up positions.


def position(name: str, units: dict[int, dict[str, float]], **options) -> Lockstep:
    """One battle in which only these units live, where and how they are said to be."""
    lockstep = Lockstep(name, 1, **options)
    for unit in range(lockstep.vec.map.n_units):
        if unit in units:
            lockstep.put(unit, **units[unit])
        else:
            lockstep.put(unit, health=0.0, shield=0.0)
    lockstep.adopt()
    return lockstep


def order(lockstep: Lockstep, actions: dict[int, int] | None = None, steps: int = 1) -> None:
    """Steps with these actions; other agents stop. Nothing may differ after any."""
    for _ in range(steps):
        alive = lockstep.vec.alive[0].tolist()
        chosen = [
            (actions or {}).get(agent, STOP) if alive[agent] else NO_OP for agent in range(lockstep.vec.map.n_agents)
        ]
        lockstep.step(np.array([chosen]))
    assert_equal(lockstep)


@pytest.mark.parametrize(
    ("reward", "regained", "fought", "exploded"),
    [
        ("signed", -1.0, 18.0, 30.0),
        ("smac_abs", 1.0, 18.0, 30.0),
        ("damage", 0.0, 18.0, 30.0),
        ("negative", -1.0, 8.0, 7.5),
        ("sparse", 0.0, 0.0, 0.0),
    ],
)
def test_rewards(reward, regained, fought, exploded):
    far = {0: {"x": 2, "y": 16}, 7: {"x": 30, "y": 16, "shield": 10}}
    lockstep = position("2s3z", far, reward=reward)
    order(lockstep)
    assert float(lockstep.vec.rewards[0]) == pytest.approx(regained / 51, abs=1e-5)  # 8 ticks of a sixteenth of 2
    # A stalker kills a zealot of 8 left, a stalker of the enemy a zealot of 10 left.
    units = {
        0: {"x": 10, "y": 16}, 2: {"x": 15, "y": 16, "health": 10, "shield": 0},
        5: {"x": 15, "y": 20}, 7: {"x": 14, "y": 16, "health": 3, "shield": 5, "cooldown": NEVER},
    }  # fmt: skip
    lockstep = position("2s3z", units, reward=reward)
    order(lockstep, {0: FIRST_ATTACK + 2})
    assert [lockstep.of(unit, "health") for unit in (0, 2, 5, 7)] == [80, 0, 80, 0]
    assert float(lockstep.vec.rewards[0]) == pytest.approx(fought / 51, abs=1e-5)
    # A baneling of 20 left takes a zergling along.
    units = {
        4: {"x": 16.5, "y": 16},
        5: {"x": 6, "y": 11},
        24: {"x": 16, "y": 16, "health": 20},
        28: {"x": 25, "y": 20},
    }
    lockstep = position("bane_vs_bane", units, reward=reward)
    order(lockstep)
    assert lockstep.events["blast"] == 1 and float(lockstep.vec.rewards[0]) == pytest.approx(exploded / 63, abs=1e-5)


@pytest.mark.parametrize("reward", REWARDS)
def test_whole_battles_with_every_reward(reward):
    lockstep = Lockstep("2s3z", 4, seed=3, reward=reward, limit=40)
    rng = np.random.default_rng(0)
    for _ in range(30):
        weaken(lockstep)
        lockstep.step(mixed_actions(lockstep.vec, rng))
    assert_equal(lockstep)
    assert lockstep.events["victory"] and lockstep.events["defeat"]


@pytest.mark.parametrize(
    ("ally", "enemy", "limit", "info", "signed", "sparse"),
    [
        ({"health": 6}, {"health": 6}, 60, [0, 0, 3, 3], 16.0, 0.0),
        ({"health": 6}, {"health": 6, "cooldown": NEVER}, 60, [1, 0, 2, 3], 216.0, 1.0),
        ({"health": 6, "cooldown": NEVER}, {"health": 6}, 60, [0, 0, 3, 2], 0.0, -1.0),
        ({"cooldown": NEVER}, {"cooldown": NEVER}, 1, [0, 1, 2, 2], 0.0, 0.0),
        ({"health": 6}, {"health": 6, "cooldown": NEVER}, 1, [1, 0, 2, 3], 216.0, 1.0),
        ({"health": 6}, {"health": 6}, 1, [0, 0, 3, 3], 16.0, 0.0),
    ],
    ids=["draw", "victory", "defeat", "limit", "victory at the limit", "draw at the limit"],
)
@pytest.mark.parametrize("autoreset", [True, False])
def test_ends(ally, enemy, limit, info, signed, sparse, autoreset):
    units = {0: {"x": 14, "y": 16} | ally, 3: {"x": 16, "y": 16} | enemy}
    for reward, expected in (("signed", signed / 18.25), ("sparse", sparse)):
        options = {"limit": limit, "reward": reward, "autoreset": autoreset, "keep_final": autoreset}
        lockstep = position("3m", units, **options)
        order(lockstep, {0: FIRST_ATTACK})
        assert lockstep.vec.done.tolist() == [1] and lockstep.vec.info[0].tolist() == info
        for name in ("rewards", "final_returns"):
            assert float(getattr(lockstep.vec, name)[0]) == pytest.approx(expected, abs=1e-5)
        if autoreset:
            assert lockstep.vec.alive.all() and lockstep.vec.episode.tolist() == [1]
            for name in FINAL:
                final, new = getattr(lockstep.vec, f"final_{name}"), getattr(lockstep.vec, name)
                assert final.shape == new.shape and not torch.equal(final, new)
        order(lockstep, steps=3)
        if not autoreset:
            assert lockstep.vec.rewards.tolist() == [0.0] and lockstep.vec.done.tolist() == [1]
            assert lockstep.vec.step_count.tolist() == [1]
        lockstep.reset()
        episodes = 1 if not autoreset else 2 if limit > 1 else 4
        assert lockstep.vec.episode.tolist() == [episodes] and lockstep.vec.done.tolist() == [0]
        assert_equal(lockstep)


def test_limit():
    lockstep = Lockstep("8m", 3, limit=7, autoreset=False)
    rng = np.random.default_rng(1)
    for step in range(1, 9):
        lockstep.step(random_actions(lockstep.vec, rng))
        assert lockstep.vec.done.tolist() == [int(step >= 7)] * 3
        assert lockstep.vec.step_count.tolist() == [min(step, 7)] * 3
    assert lockstep.vec.info[:, :2].tolist() == [[0, 1]] * 3 and lockstep.events["limit"] == 3
    assert_equal(lockstep)


@pytest.mark.parametrize("name", ["3m", "2s3z", "bane_vs_bane"])
def test_every_victory_gives_20(name):
    """Enemies that do not fire: allies win in any case, with whatever regenerates meanwhile."""
    lockstep = Lockstep(name, 2, seed=5, tick_rate=22.4, autoreset=False)
    for battle in range(2):
        for unit in range(lockstep.vec.map.n_agents, lockstep.vec.map.n_units):
            lockstep.put(unit, battle, cooldown=NEVER)
    lockstep.adopt()
    while not lockstep.vec.done.all():
        pause = name == "2s3z" and 10 <= lockstep.launches < 40
        lockstep.step(np.full((2, 5), STOP) if pause else attacking_actions(lockstep.vec))
    assert_equal(lockstep)
    assert lockstep.vec.info[:, 0].tolist() == [1, 1] and lockstep.vec.info[:, 2].sum() < 8
    assert (lockstep.vec.final_returns - 20).abs().max() < 1e-4
    assert (lockstep.events["shield_regeneration"] > 0) == (name == "2s3z")


@pytest.mark.parametrize("leaky", [False, True])
def test_sight_of_4_and_the_leaky_mask(leaky):
    lockstep = position("3m", {0: {"x": 10, "y": 16}, 3: {"x": 15, "y": 16}, 4: {"x": 13.9, "y": 16}},
                        sight=4.0, leaky_mask=leaky)  # fmt: skip
    assert lockstep.vec.avail[0, 0, FIRST_ATTACK:].tolist() == [int(leaky), 1, 0]
    assert lockstep.vec.visible[0, 0].tolist() == [1, 0, 0, 0, 1, 0]
    assert lockstep.vec.obs[0, 0, 4:9].tolist() == [0.0] * 5
    assert lockstep.vec.full_obs[0, 0, 4:9].tolist() == [float(leaky), 1.25, 1.25, 0.0, 1.0]
    order(lockstep, {0: FIRST_ATTACK})
    assert lockstep.of(3, "health") == (39 if leaky else 45)  # without it the order is none
    lockstep = Lockstep("MMM", 2, sight=4.0, leaky_mask=leaky)
    rng = np.random.default_rng(2)
    for _ in range(20):
        lockstep.step(mixed_actions(lockstep.vec, rng))
    assert_equal(lockstep)
    hidden = lockstep.vec.visible.numpy() < lockstep.vec.alive.numpy()[:, None]
    assert hidden.any()


def test_edges_of_sight_and_attack():
    """Seen is who is nearer than the sight, attacked who is not farther than 6."""
    lockstep = position("3m", {0: {"x": 10, "y": 16}, 3: {"x": 16, "y": 16}, 4: {"x": 10, "y": 22.001}}, sight=6.0)
    assert lockstep.vec.visible[0, 0].tolist() == [1, 0, 0, 0, 0, 0]
    assert lockstep.vec.avail[0, 0, FIRST_ATTACK:].tolist() == [1, 0, 0]
    assert_equal(lockstep)


def test_ticks_of_starcraft():
    for rate, way, loaded in ((16.0, 3.15 * 0.5, 8 / 16), (22.4, 3.15 * 8 / 22.4, 8 / 22.4)):
        units = {0: {"x": 5, "y": 10, "cooldown": 0.61}, 3: {"x": 30, "y": 20}}
        lockstep = position("3m", units, tick_rate=rate)
        order(lockstep, {0: EAST})
        assert lockstep.of(0, "x") == pytest.approx(5 + way, abs=1e-5)
        assert lockstep.of(0, "cooldown") == pytest.approx(0.61 - loaded, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "swapped"), [("2s3z", True), ("3s5z_vs_3s6z", True), ("1c3s5z", False), ("MMM", False)]
)
def test_raw_type_bits(name, swapped):
    raw, aligned = (Lockstep(name, 1, smac_type_bits=kind, sight=30.0) for kind in ("raw", "aligned"))
    layout = raw.vec.layout
    assert_equal(raw)
    bits = layout.type_bits
    for told, at, first in (
        ("obs", 4 + layout.enemy_width, layout.type_bits),
        ("full_obs", 4 + layout.enemy_width, layout.type_bits),
        ("state", layout.n_agents * layout.ally_state_width + layout.enemy_state_width, layout.type_bits),
    ):
        one, other = (getattr(each.vec, told).reshape(-1)[at - first : at] for each in (raw, aligned))
        assert one.sum() == other.sum() == 1
        assert torch.equal(one, other.flip(0) if swapped else other)
    allies = slice(layout.obs_size - bits, layout.obs_size)
    assert torch.equal(raw.vec.obs[..., allies], aligned.vec.obs[..., allies])


def test_colossus_splash():
    """A box 2.8 across the line of fire and 0.3 along it, both to the edges."""
    places = {2: (15, 14.5), 3: (15, 16.2), 4: (15, 16.3), 5: (15.5, 14.5), 6: (15.55, 14.5)}
    units = {unit: {"x": x, "y": y} for unit, (x, y) in places.items()}
    lockstep = position("2c_vs_64zg", units | {0: {"x": 10, "y": 14.5}})
    order(lockstep, {0: FIRST_ATTACK})
    left = 35 - 2 * 15 + 0.38 * 0.5
    assert [lockstep.of(unit, "health") for unit in places] == pytest.approx([left, left, 35, left, 35], abs=1e-5)
    assert lockstep.events["splash_on_many"] == 1
    assert [lockstep.of(unit, "struck") for unit in places] == [NOBODY] * 5  # of the last tick
    # On a slope, with crowds on both sides.
    lockstep = Lockstep("1c3s5z", 2, seed=4)
    rng = np.random.default_rng(3)
    for battle in range(2):
        for unit in range(18):
            x, y = rng.uniform(-1.8, 1.8, 2)
            lockstep.put(unit, battle, x=(10 if unit < 9 else 15) + x, y=(12 if unit < 9 else 16) + y)
    lockstep.adopt()
    for _ in range(14):
        lockstep.step(attacking_actions(lockstep.vec))
    assert_equal(lockstep)
    assert lockstep.events["splash_on_many"] > 5


def test_banelings():
    places = {4: (16.6, 16), 5: (18.5, 16), 6: (18.65, 16), 24: (16, 16), 28: (16, 17.5)}
    units = {unit: {"x": x, "y": y, "cooldown": NEVER * (unit != 24)} for unit, (x, y) in places.items()}
    lockstep = position("bane_vs_bane", units)
    order(lockstep)
    assert [lockstep.of(unit, "health") for unit in places] == [0, 0, 35, 0, 35]
    # Two that fall to each other both go off.
    lockstep = position("bane_vs_bane", {unit: {"x": 15.5 + 0.6 * (unit > 20), "y": 16} for unit in (0, 4, 24, 28)})
    order(lockstep, {0: FIRST_ATTACK})
    assert lockstep.events["blast"] == 2 and lockstep.vec.info[0].tolist() == [0, 0, 24, 24]
    assert lockstep.events["draw"] == 1
    for seed in range(2):
        lockstep = Lockstep("so_many_baneling", 1, seed=seed, reward="negative")
        for _ in range(14):
            lockstep.step(attacking_actions(lockstep.vec))
        assert_equal(lockstep)
        assert lockstep.events["blast_on_many"] > 5


def hospital(energy: float, patient: int, health: float = 10.0) -> Lockstep:
    """A medivac of the allies heals a marine; the enemy is far away."""
    marine = {"x": 11, "y": 16, "health": health}
    medivac = {"x": 10, "y": 16, "energy": energy, "patient": patient}
    lockstep = position("MMM", {2: marine, 9: medivac, 12: {"x": 31, "y": 9}})
    assert lockstep.vec.avail[0, 9, FIRST_ATTACK:].tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    order(lockstep, {9: FIRST_ATTACK + 2})
    return lockstep


def test_healing():
    gain = ENERGY_RATE / 16
    lockstep = hospital(energy=1.0, patient=2)  # runs out, and goes on with what comes in
    assert lockstep.of(2, "health") == pytest.approx(10 + 3 * (1 + 7 * gain), abs=1e-4)
    assert lockstep.of(9, "energy") == pytest.approx(gain, abs=1e-5)
    assert lockstep.events["heal_of_all_energy"] == 2
    lockstep = hospital(energy=1.0, patient=3)  # too little for another
    assert lockstep.of(2, "health") == 10 and lockstep.of(9, "patient") == 3
    assert lockstep.of(9, "energy") == pytest.approx(1 + 8 * gain, abs=1e-5)
    lockstep = hospital(energy=FIRST_ENERGY, patient=NOBODY)
    assert lockstep.of(2, "health") == 14.5 and lockstep.of(9, "patient") == 2
    assert lockstep.of(9, "energy") == pytest.approx(3.5 + 8 * gain, abs=1e-5)
    lockstep = hospital(energy=200.0, patient=NOBODY, health=44.0)
    assert lockstep.of(2, "health") == 45 and lockstep.of(9, "energy") == pytest.approx(
        200 - 1 / 3 + 7 * gain, abs=0.05
    )
    lockstep = hospital(energy=200.0, patient=NOBODY, health=45.0)
    assert lockstep.of(9, "energy") == 200 and lockstep.of(9, "patient") == NOBODY


def test_healing_comes_after_the_shots():
    """A marine of 6 left falls before the healer of its side can help it; one of 6.5 left does not."""
    for health, expected in ((6.0, 0.0), (6.5, 0.5 + 8 * 9 / 16)):
        patient = {"x": 11, "y": 16, "cooldown": NEVER, "health": health}
        units = {2: patient, 3: {"x": 2, "y": 9}, 9: {"x": 7, "y": 16, "patient": 2}, 12: {"x": 15, "y": 16}}
        lockstep = position("MMM", units)
        order(lockstep, {9: FIRST_ATTACK + 2})
        assert lockstep.of(2, "health") == pytest.approx(expected, abs=1e-4)


def test_a_healer_that_falls_heals_no_more():
    patient, healer = {"x": 11, "y": 16, "health": 10}, {"x": 10, "y": 16, "health": 5, "patient": 2}
    lockstep = position("MMM", {2: patient, 9: healer, 12: {"x": 14.5, "y": 16}})
    order(lockstep, {9: FIRST_ATTACK + 2})
    assert [lockstep.of(unit, "health") for unit in (2, 9)] == [10, 0]


def test_sides_with_healers_end():
    shooter, prey = {"x": 14, "y": 16}, {"x": 16, "y": 16, "health": 6, "cooldown": NEVER}
    lone = position("MMM", {2: shooter, 12: prey, 19: {"x": 17, "y": 16}}, autoreset=False)
    order(lone, {2: FIRST_ATTACK + 2})
    assert lone.vec.info[0].tolist() == [1, 0, 9, 9] and lone.vec.done.tolist() == [1]
    assert float(lone.vec.rewards[0]) == pytest.approx(216 / 50.75, abs=1e-5)
    two = position("MMM", {2: shooter, 12: prey, 13: {"x": 30, "y": 9}, 19: {"x": 17, "y": 16}}, autoreset=False)
    order(two, {2: FIRST_ATTACK + 2})
    assert two.vec.done.tolist() == [0]
    healer = {"x": 2, "y": 16}
    only = position("MMM", {2: prey | {"x": 14}, 9: healer, 12: {"x": 16, "y": 16}}, autoreset=False, reward="sparse")
    order(only)
    assert only.vec.info[0].tolist() == [0, 0, 9, 9] and only.vec.rewards.tolist() == [-1.0]
    for with_healer in (False, True):  # nobody is left who fights: a defeat, though no enemy is left either
        units = {2: shooter | {"health": 6}, 12: {"x": 16, "y": 16, "health": 6}} | ({9: healer} if with_healer else {})
        both = position("MMM", units, autoreset=False, reward="sparse")
        order(both, {2: FIRST_ATTACK + 2})
        assert both.vec.info[0].tolist() == [0, 0, 10 - with_healer, 10] and both.vec.rewards.tolist() == [-1.0]


@pytest.mark.parametrize(("agent", "left"), [(2, 150 - 5), (0, 150)], ids=["marine", "marauder"])
def test_only_some_hit_flyers(agent, left):
    """An order to attack a medivac is available to all, but a marauder's does not hurt it."""
    units = {agent: {"x": 10, "y": 16}, 12: {"x": 31, "y": 9}, 19: {"x": 14, "y": 16}}
    lockstep = position("MMM", units, autoreset=False)
    order(lockstep, {agent: FIRST_ATTACK + 9})
    assert lockstep.of(19, "health") == left


def test_targets_of_the_script():
    enemy = {"x": 20, "y": 16, "cooldown": NEVER}
    # Of equals the lower number; the nearest; healers first; and who cannot hit them takes the nearest.
    lockstep = position("3m", {0: {"x": 17, "y": 17}, 1: {"x": 17, "y": 15}, 3: enemy})
    order(lockstep)
    assert lockstep.of(3, "target") == 0
    lockstep = position("3m", {0: {"x": 17, "y": 17}, 1: {"x": 17, "y": 15.1}, 3: enemy})
    order(lockstep)
    assert lockstep.of(3, "target") == 1
    units = {2: {"x": 17, "y": 16}, 9: {"x": 15.5, "y": 16}, 12: enemy, 10: enemy | {"y": 18}}
    lockstep = position("MMM", units)
    order(lockstep)
    assert (lockstep.of(12, "target"), lockstep.of(10, "target")) == (9, 2)
    # One that can be reached is kept, but not while a healer lives, however far.
    units = {2: {"x": 17, "y": 16}, 3: {"x": 18, "y": 16}, 12: enemy | {"target": 2}}
    for healer, expected in (({}, 2), ({9: {"x": 1, "y": 9}}, 3)):
        lockstep = position("MMM", units | healer)
        order(lockstep)
        assert lockstep.of(12, "target") == expected and (lockstep.events["chosen_anew"] > 0) == bool(healer)
    # One that aims back is kept beyond reach; another is not.
    units = {
        0: {"x": 14.1, "y": 16, "cooldown": NEVER},
        1: {"x": 15, "y": 16, "cooldown": NEVER},
        3: enemy | {"target": 0},
    }
    for actions, expected in (({0: FIRST_ATTACK}, 0), ({}, 1)):
        lockstep = position("3m", units)
        order(lockstep, actions)
        assert lockstep.of(3, "target") == expected


def test_an_enemy_answers_who_hits_it_from_afar():
    units = {0: {"x": 19.2, "y": 10}, 7: {"x": 13.3, "y": 10}}
    lockstep = position("2s3z", units)
    order(lockstep, {0: FIRST_ATTACK + 2})
    assert lockstep.of(7, "target") == 0 and lockstep.events["retaliation"] == 1
    assert lockstep.of(7, "x") > 13.3
    lockstep = position("2s3z", units)
    order(lockstep)
    assert lockstep.of(7, "target") == NOBODY and lockstep.of(7, "x") < 13.3
    # It was hit in the tick before, by one that lives, or by one that does not.
    for health, expected in ((80.0, 0), (0.0, NOBODY)):
        lockstep = position("2s3z", units | {7: units[7] | {"struck": 0}, 1: {"x": 30, "y": 20}})
        lockstep.put(0, health=health)
        lockstep.adopt()
        order(lockstep)
        assert lockstep.events["retaliation"] == (expected == 0)
    # Whom it cannot hit it does not answer.
    struck = {10: {"x": 20, "y": 10, "struck": 9}, 12: {"x": 20, "y": 20, "struck": 9}}
    lockstep = position("MMM", struck | {2: {"x": 1, "y": 9}, 9: {"x": 30, "y": 15}})
    order(lockstep)
    assert lockstep.events["retaliation"] == 1 and lockstep.of(10, "x") < lockstep.of(12, "x") - 0.1


def test_the_spine_crawler_looks_far_and_stays():
    for distance, expected in ((10.6, 0), (10.65, NOBODY)):
        units = {0: {"x": 13.92, "y": 20.04 - distance}, 2: {"x": 13.92, "y": 20.04}}
        lockstep = position("2s_vs_1sc", units)
        order(lockstep)
        assert lockstep.of(2, "target") == expected
        assert (lockstep.of(2, "x"), lockstep.of(2, "y")) == pytest.approx((13.92, 20.04))
    # A zealot looks 5 far, a stalker its range of 6.
    for unit, distance, expected in ((7, 5.6, 0), (7, 5.65, NOBODY), (5, 6.6, 0), (5, 6.65, NOBODY)):
        lockstep = position("2s3z", {0: {"x": 20, "y": 10}, unit: {"x": 20 - distance, "y": 10, "cooldown": NEVER}})
        order(lockstep)
        assert lockstep.of(unit, "target") == expected, (unit, distance)


def test_healers_of_the_script():
    ally, healer = {2: {"x": 1, "y": 9}}, {"x": 20, "y": 16}
    units = {
        10: {"x": 18, "y": 16, "health": 50}, 12: {"x": 22, "y": 16, "health": 40}, 13: {"x": 20, "y": 18},
        14: {"x": 21, "y": 22.5, "health": 5}, 19: healer,
    }  # fmt: skip
    lockstep = position("MMM", ally | units)
    order(lockstep)
    assert lockstep.of(19, "target") == 12 and lockstep.of(12, "health") == 44.5 and lockstep.of(14, "health") == 5
    # Nobody is wounded: the nearest that fights.
    units = {2: {"x": 26.9, "y": 16}, 12: {"x": 22, "y": 16, "target": 2}, 13: {"x": 20.5, "y": 14}, 19: healer}
    lockstep = position("MMM", units)
    order(lockstep)
    assert lockstep.of(19, "target") == 12
    # Alone it flies at its own speed, beside others at theirs.
    for others, way in (({12: {"x": 29, "y": 9}}, 1.75), ({12: {"x": 21, "y": 16}}, 1.575)):
        lockstep = position("MMM", ally | others | {19: healer})
        order(lockstep)
        assert lockstep.of(19, "x") == pytest.approx(20 - way, abs=1e-4) and lockstep.of(19, "target") == NOBODY


def test_damage_shields_and_armour():
    shots = {
        "2m_vs_1z": (0, 2, {"shield": 4}, (0, 100 - (2 - 1))),  # what the shield does not take, less the armour
        "3s_vs_3z": (0, 3, {"shield": 50}, (37, 100)),
        "6h_vs_8z": (0, 6, {"shield": 0, "calm": 10}, (0, 100 - (12 - 1))),
        "corridor": (0, 6, {}, (0, 35 - 2 * 8 + 8 * 0.38 / 16)),  # two attacks
        "2s_vs_1sc": (0, 2, {"health": 200}, (0, 200 - (13 + 5 - 2) + 8 * 0.38 / 16)),  # a bonus, armour of 2
        "MMM": (0, 10, {}, (0, 125 - (10 + 10 - 1))),
        "MMM2": (0, 13, {}, (0, 45 - 10)),  # no bonus against what is light
    }
    for name, (attacker, victim, numbers, expected) in shots.items():
        x, y = (20, 20) if name == "corridor" else (14, 16)
        units = {attacker: {"x": x, "y": y}, victim: {"x": x + 0.9, "y": y, "cooldown": NEVER} | numbers}
        lockstep = position(name, units, autoreset=False)
        order(lockstep, {attacker: FIRST_ATTACK + victim - lockstep.vec.map.n_agents})
        found = (lockstep.of(victim, "shield"), lockstep.of(victim, "health"))
        assert found == pytest.approx(expected, abs=1e-4), name


def test_those_who_fall_still_fire_and_shots_may_be_wasted():
    units = {
        0: {"x": 14, "y": 16},
        1: {"x": 14, "y": 17},
        3: {"x": 16, "y": 16, "health": 6, "target": 0},
        4: {"x": 30, "y": 9},
    }
    lockstep = position("3m", units)
    order(lockstep, {0: FIRST_ATTACK, 1: FIRST_ATTACK})
    assert [lockstep.of(unit, "health") for unit in (0, 1, 3)] == [39, 45, 0]
    assert lockstep.of(0, "cooldown") > 0 and lockstep.of(1, "cooldown") > 0
    assert lockstep.events["hit_on_fallen"] == 1 and lockstep.events["shot"] == 3


def test_cooldowns_differ_by_chance():
    lockstep = Lockstep("3m", 40, seed=7)
    for battle in range(40):
        for unit in range(6):
            x, y = (14 if unit < 3 else 17), 14 + unit % 3 * 2
            lockstep.put(unit, battle, x=x, y=y)
    lockstep.adopt()
    lockstep.step(np.tile(FIRST_ATTACK + np.arange(3), (40, 1)))
    assert_equal(lockstep)
    after = lockstep.vec.units[:, 4, :3] + 0.5 - 0.61  # eight ticks later
    assert after.min() >= -1 / 16 and after.max() <= 2 / 16 and after.min() < -0.05 and after.max() > 0.11
    assert abs(float(after.mean()) - 0.5 / 16) < 0.015


def test_a_shield_waits_ten_seconds():
    units = {0: {"x": 14, "y": 16}, 2: {"x": 14.9, "y": 16, "cooldown": NEVER}}
    lockstep = position("2m_vs_1z", units)
    order(lockstep, {0: FIRST_ATTACK})
    assert lockstep.of(2, "shield") == 44
    order(lockstep, steps=18)
    assert lockstep.of(2, "shield") == 44
    # The hit was at the beginning of the first tick: 10 s later is the end of the 160th, which gains again.
    order(lockstep)
    assert lockstep.of(2, "shield") == 44.125
    order(lockstep)
    assert lockstep.of(2, "shield") == 45.125


def test_overlapping_units_are_pushed():
    lockstep = position("3m", {0: {"x": 10, "y": 16}, 1: {"x": 10, "y": 16}, 3: {"x": 30, "y": 9}})
    order(lockstep)
    assert [lockstep.of(unit, "x") for unit in (0, 1)] == [9.625, 10.375]
    assert lockstep.events["push_from_one_point"] == 2
    units = {0: {"x": 13.92, "y": 19.5}, 2: {"x": 13.92, "y": 20.04, "cooldown": NEVER}}
    lockstep = position("2s_vs_1sc", units)
    order(lockstep)
    assert lockstep.of(0, "y") == pytest.approx(20.04 - 1.125, abs=1e-4) and lockstep.of(2, "y") == pytest.approx(20.04)
    assert lockstep.events["push_by_fixed"] == 1
    units = {2: {"x": 10, "y": 16}, 9: {"x": 10.1, "y": 16}, 12: {"x": 31, "y": 9}}  # a flyer above a marine
    lockstep = position("MMM", units)
    order(lockstep)
    assert [lockstep.of(unit, "x") for unit in (2, 9)] == pytest.approx([10, 10.1])


def test_flyers_stay_on_the_map():
    units = {2: {"x": 5, "y": 16}, 9: {"x": 30.9, "y": 16}, 12: {"x": 31, "y": 9}}
    moves = {EAST: ("x", 30.9, 31.999), WEST: ("x", 0.6, 0.0), NORTH: ("y", 22.9, 24.65), SOUTH: ("y", 9.05, 7.3)}
    for action, (name, place, expected) in moves.items():  # walls are not for them
        lockstep = position("MMM", units | {9: {"x": 15.0, "y": 16.0} | {name: place}})
        order(lockstep, {9: action})
        assert lockstep.of(9, name) == pytest.approx(expected, abs=1e-4), action
    lockstep = position("MMM", units | {9: {"x": 15.0, "y": 23.1}})
    assert lockstep.vec.avail[0, 9, NORTH:FIRST_ATTACK].tolist() == [0, 1, 1, 1]  # but available as to all
    lockstep = position(
        "MMM", {2: {"x": 5, "y": 16}, 9: {"x": 31.9, "y": 9}, 12: {"x": 5, "y": 10}, 19: {"x": 31, "y": 9}}
    )
    order(lockstep)
    assert lockstep.of(9, "x") == pytest.approx(31.999, abs=1e-4) and lockstep.events["flyer_at_edge"] == 1


def test_walls_and_available_moves():
    """In x alone, else in y alone, else not at all."""
    lockstep = position(
        "3m", {0: {"x": 0.4, "y": 23.2}, 1: {"x": 31.2, "y": 16}, 2: {"x": 16, "y": 8.5}, 3: {"x": 16, "y": 16}}
    )
    found = lockstep.vec.avail[0, :, NORTH:FIRST_ATTACK].tolist()  # north, south, east, west
    assert found == [[0, 1, 1, 1], [1, 1, 0, 1], [1, 0, 1, 1]]
    # Round a corner, where x alone and y alone are both free.
    lockstep = position("bane_vs_bane", {4: {"x": 5.2, "y": 9.2}, 28: {"x": 6.2, "y": 10.2, "target": 4}})
    order(lockstep)
    assert lockstep.of(28, "x") < 6 and lockstep.of(28, "y") > 10
    met = Counter()
    for name, battles in (("corridor", 2), ("2c_vs_64zg", 1), ("bane_vs_bane", 1), ("2s_vs_1sc", 8)):
        cells = np.argwhere(np.array(walkable(MAPS[name].terrain)))
        rng = np.random.default_rng(len(name))
        lockstep = Lockstep(name, battles, seed=1, reward="damage")
        edges = [(y, x) for y, x in cells if sum((cells == (y + dy, x + dx)).all(1).any() for dy, dx in NEXT) < 4]
        for battle in range(battles):
            for unit in range(lockstep.vec.map.n_units):
                y, x = edges[rng.integers(len(edges))] + rng.uniform(0.01, 0.99, 2)
                lockstep.put(unit, battle, x=x, y=y)
        lockstep.adopt()
        for _ in range(10):
            lockstep.step(random_actions(lockstep.vec, rng))
        assert_equal(lockstep)
        met += lockstep.events
    assert met["blocked"] > 200 and met["blocked_in_x"] > 20 and met["blocked_in_both"] > 5, met
    assert met["around"] > 1000 and met["pushed_less"] > 20, met


NEXT = ((0, 1), (0, -1), (1, 0), (-1, 0))


@pytest.mark.parametrize(("seed", "first_battle"), [(0, 0), (2**64 - 1, 2**31 - 30), (2**32, 5)])
def test_starts(seed, first_battle):
    """Where a unit may not stand it keeps the place of the grid."""
    unmoved = 0
    for name in ("2s_vs_1sc", "corridor", "3s_vs_3z"):
        lockstep = Lockstep(name, 20, seed=seed, first_battle=first_battle, spawn_jitter=2.0, limit=1)
        lockstep.step(random_actions(lockstep.vec, np.random.default_rng(0)))
        lockstep.reset(seed=seed ^ 5)
        lockstep.reset()  # not begun: the same battle again
        assert lockstep.vec.episode.tolist() == [0] * 20
        assert_equal(lockstep)
        unmoved += lockstep.events["spawn_unmoved"]
    assert unmoved > 5
    lockstep = Lockstep("3m", 1, spawn_jitter=0.0)
    assert_equal(lockstep)
    expected = np.array(MAPS["3m"].spawns, dtype=np.float32)
    assert np.array_equal(lockstep.vec.units[0, :2].numpy().T, expected)


def test_without_chance_at_the_start():
    lockstep = Lockstep("2s3z", 1, spawn_jitter=0.0)
    rng = np.random.default_rng(0)
    for _ in range(25):
        lockstep.step(mixed_actions(lockstep.vec, rng))
    assert_equal(lockstep)


def test_an_action_that_is_not_available_counts_as_none():
    units = {0: {"x": 10, "y": 23.5}, 3: {"x": 20, "y": 16}}
    for action in (NORTH, FIRST_ATTACK, FIRST_ATTACK + 1, NO_OP, -3, 99):
        lockstep = position("3m", units)
        lockstep.step(np.array([[action, NO_OP, NO_OP]]), check=False)
        assert_equal(lockstep)
        assert (lockstep.of(0, "x"), lockstep.of(0, "y")) == (10, 23.5)
        last = lockstep.vec.state[0, lockstep.vec.layout.last_actions_at :][: lockstep.vec.layout.n_actions]
        assert last.tolist() == [1.0] + [0.0] * 8
        assert int(lockstep.vec._refused[0]) == 1
        lockstep = position("3m", units)
        with pytest.raises(UserError, match=f"agent 0 cannot take action {action}"):
            lockstep.vec.step(torch.tensor([[action, NO_OP, NO_OP]]))
    lockstep = position("3m", units)
    lockstep.step(np.array([[STOP, WEST, NO_OP]]), check=False)  # of the dead
    assert int(lockstep.vec._refused[0]) == 2
    assert_equal(lockstep)
