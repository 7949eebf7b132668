"""A recorded battle is the battle, step by step; its JSON form; files that are something else."""

import copy
import json

import pytest
import torch
from squad_samples import described, network, scripted_battle

from lib.errors import UserError
from lib.omagd.battle.arrays import COOLDOWN, HEALTH, LIMIT, SHIELD, TARGET, WON, X, Y
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import FIRST_ATTACK
from lib.omagd.battle.maps import MAPS
from lib.omagd.battle.units import UNITS
from lib.omagd.page import LETTERS
from lib.omagd.players import NetworkPlayer, ScriptedPlayer
from lib.omagd.replay import BattleReplay, load_replay, record, record_battle, save_replay

ROWS = {"x": X, "y": Y, "health": HEALTH, "shield": SHIELD, "cooldown": COOLDOWN}


def check_state(replay: BattleReplay, index: int, battles: BattleVec) -> None:
    """State `index` is how the battle stands."""
    for name, row in ROWS.items():
        assert getattr(replay, name)[index] == pytest.approx(battles.units[0, row].tolist(), abs=5.1e-4), name
    assert replay.alive[index] == "".join(str(flag) for flag in battles.alive[0].tolist())
    agents, units = battles.layout.n_agents, battles.layout.n_nodes
    for agent in range(agents):
        # The nodes of an agent: itself, the other allies, the enemies.
        nodes = [agent, *(other for other in range(agents) if other != agent), *range(agents, units)]
        seen = dict(zip(nodes, battles.visible[0, agent].tolist(), strict=True))
        assert replay.visible[index][agent] == "".join(str(seen[unit]) for unit in range(units))


def check_battle(replay: BattleReplay, battles: BattleVec, act) -> None:
    """The battle played once more, every step compared."""
    battles.reset(replay.seed)
    check_state(replay, 0, battles)
    assert replay.targets[0] == [-1] * battles.layout.n_nodes
    for step in range(replay.steps):
        before = battles.alive[0].tolist()
        act()
        battles.step()
        assert replay.actions[step] == battles.actions[0].tolist()
        assert replay.rewards[step] == pytest.approx(float(battles.rewards[0]), abs=5.1e-4)
        assert replay.returns[step] == pytest.approx(float(battles.returns[0]), abs=5.1e-4)
        aims = battles.aims[0, TARGET].tolist()
        assert replay.targets[step + 1] == [aim if lived else -1 for aim, lived in zip(aims, before, strict=True)]
        check_state(replay, step + 1, battles)
        assert bool(battles.done[0]) == (step + 1 == replay.steps)
    won, late = battles.info[0, WON], battles.info[0, LIMIT]
    assert (replay.result == "victory") == bool(won) and (replay.result == "limit") == bool(late)


@pytest.mark.parametrize(("map_name", "name"), [("2s3z", "focus"), ("MMM", "nearest"), ("3m", "random")])
def test_a_replay_of_a_script_is_the_battle(map_name, name):
    replay = record_battle(ScriptedPlayer(name), seed=11, number=4, map_name=map_name, sight=5.0)
    battles = BattleVec(map_name, 1, seed=11, first_battle=4, sight=5.0, autoreset=False)
    check_battle(replay, battles, lambda: battles.script(name))
    assert (replay.map, replay.player, replay.seed, replay.battle) == (map_name, name, 11, 4)
    assert replay.options["sight"] == 5.0 and replay.limit == MAPS[map_name].limit


def test_a_replay_of_a_network_is_the_battle():
    """On the battles of its own run unless others are asked for."""
    player = NetworkPlayer(network(), described(sight=4.0, reward="damage", tick_rate=22.4), "team")
    replay = record_battle(player, seed=2)
    battles = BattleVec("3m", 1, seed=2, autoreset=False, sight=4.0, reward="damage", tick_rate=22.4)
    check_battle(replay, battles, NetworkPlayer(network(), described(), "team").start(battles))
    assert replay.options["reward"] == "damage" and replay.options["sight"] == 4.0 and "observe" not in replay.options
    assert record_battle(player, seed=2, sight=30.0).visible[0] == ["1" * 6] * 3 != replay.visible[0]


def test_targets_of_allies_are_what_their_actions_say():
    """A healer's among the allies."""
    replay = record_battle(ScriptedPlayer("nearest"), seed=0, map_name="MMM")
    battle_map, healed = MAPS["MMM"], 0
    for step, actions in enumerate(replay.actions):
        for agent, action in enumerate(actions):
            heals = battle_map.units[agent].heals
            slot = action - FIRST_ATTACK
            wanted = -1 if slot < 0 else slot if heals else battle_map.n_agents + slot
            assert replay.targets[step + 1][agent] == wanted
            healed += heals and slot >= 0
    assert healed > 0
    assert any(target >= 0 for row in replay.targets for target in row[battle_map.n_agents :])


def test_the_global_number_is_that_of_many_battles():
    """Battle 5 of the seed, whether it is played alone or among others."""
    replay = record_battle(ScriptedPlayer("nearest"), seed=1, number=5, map_name="3m")
    many = BattleVec("3m", 8, seed=1, autoreset=False)
    while not many.done.all():
        many.script("nearest")
        many.step()
    assert replay.steps == int(many.step_count[5])
    assert replay.returns[-1] == pytest.approx(float(many.final_returns[5]), abs=5.1e-4)


def test_words_of_a_battle():
    replay = scripted_battle()
    lines = replay.summary().splitlines()
    assert lines[0] == ("focus on 2s3z, battle 0 of seed 3: 2 stalker 3 zealot against 2 stalker 3 zealot, sight 9")
    assert lines[-1] == replay.result_line() and len(lines) == 2 + len(replay.deaths())
    last = replay.alive[-1]
    assert len(replay.deaths()) == last.count("0")
    for (step, unit), line in zip(replay.deaths(), lines[1:-1], strict=True):
        assert replay.health[step][unit] == 0.0 < replay.health[step - 1][unit]
        side, number = ("ally", unit + 1) if unit < 5 else ("enemy", unit - 4)
        kind = "stalker" if number < 3 else "zealot"
        assert line == f"step {step:>3}  {side} {kind} {number} dies"
    words = {"victory": "victory", "defeat": "defeat"}[replay.result]
    assert replay.result_line() == (
        f"{words} after {replay.steps} steps, return {replay.returns[-1]:.2f}: {last[:5].count('1')} of 5 allies and"
        f" {last[5:].count('1')} of 5 enemies are left"
    )


def test_a_battle_that_ends_by_its_limit():
    battles = BattleVec("3m", 1, seed=0, limit=2, autoreset=False)
    replay = record(battles, lambda: battles.actions.fill_(1), name="nobody moves", options={})
    assert replay.steps == 2 and replay.result == "limit" and replay.result_line().startswith("ended by the time limit")


def test_a_letter_for_every_type():
    assert set(LETTERS) == set(UNITS) and len(set(LETTERS.values())) == len(LETTERS)


def test_the_json_form_comes_back_equal(tmp_path):
    replay = scripted_battle()
    stored = json.loads(json.dumps(replay.to_json()))
    assert BattleReplay.from_json(stored) == replay
    path = tmp_path / "a battle.json"
    save_replay(replay, path)
    assert load_replay(path) == replay
    assert all(len(str(value).partition(".")[2]) <= 3 for row in replay.x for value in row)
    with pytest.raises(UserError, match="it is there and is no file"):
        save_replay(replay, tmp_path)


def changed(change) -> dict:
    stored = copy.deepcopy(scripted_battle().to_json())
    change(stored)
    return stored


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ([1, 2], "it is not the replay of a battle: expected a file that watch_omagd.py --json wrote"),
        ({"format": "quartet-snakes-replay"}, "it is not the replay of a battle"),
        (changed(lambda s: s.update(version=2)), "it has version 2: this program reads version 1"),
        (changed(lambda s: s.update(map="4s")), "map is '4s', expected the name of a map"),
        (changed(lambda s: s.update(map="3m")), "entry 0 of x is .* not of a battle on 3m, which has 3 agents"),
        (changed(lambda s: s.update(seed=-1)), "seed is -1, expected a seed"),
        (changed(lambda s: s.update(result="won")), "result is 'won', expected one of victory, defeat, draw, limit"),
        (changed(lambda s: s["options"].pop("sight")), "expected options with a sight above 0"),
        (changed(lambda s: s.pop("alive")), "alive is missing or not a list"),
        (changed(lambda s: s["y"].pop()), "y has .* entries, expected .*: the file is cut short"),
        (changed(lambda s: s["actions"].clear()), "cut short"),
        (changed(lambda s: s["x"][3].__setitem__(1, float("nan"))), "entry 3 of x"),
        (changed(lambda s: s["health"][0].__setitem__(0, "80")), "entry 0 of health"),
        (changed(lambda s: s["targets"][2].__setitem__(4, 10)), "entry 2 of targets"),
        (changed(lambda s: s["visible"][1].__setitem__(0, "11")), "entry 1 of visible"),
        (changed(lambda s: s["alive"].__setitem__(1, "11111x1111")), "entry 1 of alive"),
        (changed(lambda s: s["actions"][0].__setitem__(0, 11)), "entry 0 of actions"),
        (changed(lambda s: s["rewards"].__setitem__(0, True)), "entry 0 of rewards is True"),
    ],
)  # fmt: skip
def test_what_is_no_replay_is_refused_in_one_line(stored, words):
    with pytest.raises(UserError, match=words) as caught:
        BattleReplay.from_json(stored, "it")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_record_wants_a_battle_that_begins():
    battles = BattleVec("3m", 1, autoreset=False)
    battles.step(torch.ones(1, 3, dtype=torch.int64))
    with pytest.raises(AssertionError, match="just begun"):
        record(battles, lambda: None, name="x", options={})
