"""The Warp kernels of a map: one thread is one battle, and `step` does everything that a step needs.

A map's numbers are constants of its kernels, which are compiled when the map is first used; see `tables.py`.
"""

import functools
from types import SimpleNamespace

import warp as wp

from lib.omagd.battle.arrays import (
    CALM,
    COOLDOWN,
    DEAD_ALLIES,
    DEAD_ENEMIES,
    DEFEAT,
    DRAW,
    EPISODE,
    HEALTH,
    KEY_A,
    KEY_B,
    LAST,
    LIMIT,
    OVER,
    PATIENT,
    RUNS,
    SHIELD,
    STEP,
    STRUCK,
    TARGET,
    VICTORIOUS,
    WON,
    X,
    Y,
    arrays_of,
)
from lib.omagd.battle.fight import fight_functions
from lib.omagd.battle.layout import EAST, FIRST_ATTACK, NORTH, SOUTH, WEST
from lib.omagd.battle.maps import find_map
from lib.omagd.battle.players import RANDOM, player_functions
from lib.omagd.battle.rules import (
    EXPLORE,
    GREATEST_RETURN,
    KILL,
    MOVE,
    REWARDS,
    SPAWN,
    START_ENERGY,
    TICKS,
    VICTORY,
)
from lib.omagd.battle.tables import unit_tables
from lib.omagd.battle.targets import NOBODY
from lib.omagd.battle.tell import tell_functions
from lib.warp_noise import draw, game_key, uniform

OPTIONS = {"max_unroll": 1, "enable_backward": False}
REWARD_CODES = {name: code for code, name in enumerate(REWARDS)}


@functools.cache
def battle_kernels(name: str) -> SimpleNamespace:
    """`Arrays` (the one argument of every kernel) and the kernels of a map."""
    t = unit_tables(find_map(name))
    f = fight_functions(t)
    tell = tell_functions(t, f)
    arrays = arrays_of(t)
    parts = _parts(t, f, tell, arrays)
    kernels = vars(_kernels(t, f, parts, arrays)) | vars(_players(t, player_functions(t, f), arrays))
    return SimpleNamespace(tables=t, Arrays=arrays, **kernels)


def _parts(t: SimpleNamespace, f: SimpleNamespace, tell: SimpleNamespace, Arrays: type) -> SimpleNamespace:
    """Functions that several kernels use."""
    Floats, Ints = t.floats, t.ints
    layout, n_agents, count = t.layout, t.n_agents, t.count
    n_actions, obs_size, state_size, words_count = layout.n_actions, layout.obs_size, layout.state_size, LAST + n_agents
    max_health, max_shield, heals, flies, spawn_x, spawn_y = (
        t.max_health, t.max_shield, t.heals, t.flies, t.spawn_x, t.spawn_y,
    )  # fmt: skip
    # Bytes of a row, for addresses; a number of the map itself would become an address wherever it stands.
    avail_bytes, seen_bytes = wp.constant(wp.uint64(n_actions)), wp.constant(wp.uint64(count))
    obs_bytes, state_bytes = wp.constant(wp.uint64(4 * obs_size)), wp.constant(wp.uint64(4 * state_size))
    words_bytes, last_bytes = wp.constant(wp.uint64(4 * words_count)), wp.constant(wp.uint64(4 * LAST))
    stands, write_agent, write_state = f.stands, tell.write_agent, tell.write_state

    @wp.func
    def words_of(arrays: Arrays, battle: int) -> wp.array(dtype=int):
        """The words of a battle; a fixed shape makes every index a constant."""
        return wp.array(ptr=arrays.words.ptr + wp.uint64(battle) * words_bytes, shape=(words_count,), dtype=int)

    @wp.func
    def write_all(arrays: Arrays, battle: int, obs_at: wp.uint64, full_at: wp.uint64, state_at: wp.uint64):
        """Everything that is told of a battle; observations and state begin at the addresses."""
        x = arrays.units[battle, X]
        y = arrays.units[battle, Y]
        health = arrays.units[battle, HEALTH]
        shield = arrays.units[battle, SHIELD]
        cooldown = arrays.units[battle, COOLDOWN]
        for agent in range(n_agents):
            row = wp.uint64(battle * n_agents + agent)
            avail = wp.array(ptr=arrays.avail.ptr + row * avail_bytes, shape=(n_actions,), dtype=wp.uint8)
            obs = wp.array(ptr=obs_at + row * obs_bytes, shape=(obs_size,), dtype=float)
            full = wp.array(ptr=full_at + row * obs_bytes, shape=(obs_size,), dtype=float)
            visible = wp.array(ptr=arrays.visible.ptr + row * seen_bytes, shape=(count,), dtype=wp.uint8)
            write_agent(
                x, y, health, shield, agent, arrays.sight, arrays.attack_range, arrays.swapped, avail, obs, full,
                visible,
            )  # fmt: skip
        last = wp.array(
            ptr=arrays.words.ptr + wp.uint64(battle) * words_bytes + last_bytes,
            shape=(n_agents,), dtype=int,
        )  # fmt: skip
        state = wp.array(ptr=state_at + wp.uint64(battle) * state_bytes, shape=(state_size,), dtype=float)
        alive = wp.array(ptr=arrays.alive.ptr + wp.uint64(battle) * seen_bytes, shape=(count,), dtype=wp.uint8)
        write_state(x, y, health, shield, cooldown, arrays.swapped, last, state, alive)

    @wp.func
    def new_battle(arrays: Arrays, battle: int):
        """Sets everything for the first step; words[EPISODE] stays and picks the random numbers."""
        words = words_of(arrays, battle)
        a, b = game_key(
            arrays.seed_first, arrays.seed_second, wp.uint32(arrays.first_battle + battle), wp.uint32(words[EPISODE])
        )
        words[KEY_A] = int(a)
        words[KEY_B] = int(b)
        words[STEP] = 0
        words[OVER] = 0
        for agent in range(n_agents):
            words[LAST + agent] = NOBODY
        x = Floats()
        y = Floats()
        health = Floats()
        shield = Floats()
        cooldown = Floats()
        nobody = Ints()
        for unit in range(count):
            x[unit] = spawn_x(unit)
            y[unit] = spawn_y(unit)
            move_x = arrays.jitter * (2.0 * uniform(draw(a, b, SPAWN, 0, 2 * unit)) - 1.0)
            move_y = arrays.jitter * (2.0 * uniform(draw(a, b, SPAWN, 0, 2 * unit + 1)) - 1.0)
            if flies(unit) != 0 or stands(x[unit] + move_x, y[unit] + move_y):
                x[unit] = x[unit] + move_x
                y[unit] = y[unit] + move_y
            health[unit] = max_health(unit)
            shield[unit] = max_shield(unit)
            if heals(unit) != 0:
                cooldown[unit] = START_ENERGY
            nobody[unit] = NOBODY
        arrays.units[battle, X] = x
        arrays.units[battle, Y] = y
        arrays.units[battle, HEALTH] = health
        arrays.units[battle, SHIELD] = shield
        arrays.units[battle, COOLDOWN] = cooldown
        arrays.units[battle, CALM] = Floats()
        arrays.aims[battle, TARGET] = nobody
        arrays.aims[battle, STRUCK] = nobody
        arrays.aims[battle, PATIENT] = nobody
        arrays.returns[battle] = 0.0

    @wp.func
    def outcome(health: Floats) -> int:
        """DEFEAT, VICTORIOUS, DRAW or RUNS."""
        allies = int(0)
        fighters = int(0)
        enemies = int(0)
        enemy_healers = int(0)
        for unit in range(count):
            if health[unit] > 0.0:
                if unit < n_agents:
                    allies += 1
                    fighters += 1 - heals(unit)
                else:
                    enemies += 1
                    enemy_healers += heals(unit)
        if allies == 0 and enemies > 0:
            return DEFEAT
        if wp.static(t.allies_heal):
            if fighters == 0:
                return DEFEAT
        if allies > 0 and enemies == 0:
            return VICTORIOUS
        if enemies == 1 and enemy_healers == 1:
            return VICTORIOUS
        if allies == 0 and enemies == 0:
            return DRAW
        return RUNS

    return SimpleNamespace(words_of=words_of, write_all=write_all, new_battle=new_battle, outcome=outcome)


def _kernels(t: SimpleNamespace, f: SimpleNamespace, parts: SimpleNamespace, Arrays: type) -> SimpleNamespace:
    Floats, AgentFloats = t.floats, t.agent_floats
    n_agents, count, n_actions, heals = t.n_agents, t.count, t.layout.n_actions, t.heals
    words_of, write_all, new_battle, outcome, play_tick = (
        parts.words_of, parts.write_all, parts.new_battle, parts.outcome, f.play_tick,
    )  # fmt: skip
    scale = GREATEST_RETURN / (t.greatest + KILL * t.n_enemies + VICTORY)
    smac_abs, damage, negative, sparse = (REWARD_CODES[name] for name in REWARDS[1:])

    @wp.func
    def total(health: Floats, shield: Floats, first: int, last: int) -> float:
        """Health and shields of units first .. last - 1."""
        found = float(0.0)
        for unit in range(first, last):
            found += health[unit] + shield[unit]
        return found

    @wp.func
    def living(health: Floats, first: int, last: int) -> int:
        found = int(0)
        for unit in range(first, last):
            if health[unit] > 0.0:
                found += 1
        return found

    @wp.func
    def reward_of(
        kind: int, change: float, kills: int, lost_enemies: float, lost_allies: float, deaths: int, result: int
    ) -> float:
        """The reward of a step, scaled; `change` is what enemies lost less what they regained."""
        value = float(0.0)
        if kind == sparse:
            return float(result == VICTORIOUS) - float(result == DEFEAT)
        elif kind == damage:
            value = lost_enemies + KILL * float(kills)
        else:
            value = change + KILL * float(kills)
            if kind == smac_abs:
                value = wp.abs(value)
            elif kind == negative:
                value -= 0.5 * (lost_allies + KILL * float(deaths))
        if result == VICTORIOUS:
            value += VICTORY
        return value * scale

    @wp.kernel(module="unique", module_options=OPTIONS, enable_backward=False)
    def step(arrays: Arrays):
        """One step of every battle: orders, ticks, reward, the end of battles, what is told."""
        battle = wp.tid()
        words = words_of(arrays, battle)
        if words[OVER] != 0:
            arrays.rewards[battle] = 0.0
            return
        x = arrays.units[battle, X]
        y = arrays.units[battle, Y]
        health = arrays.units[battle, HEALTH]
        shield = arrays.units[battle, SHIELD]
        cooldown = arrays.units[battle, COOLDOWN]
        calm = arrays.units[battle, CALM]
        target = arrays.aims[battle, TARGET]
        struck = arrays.aims[battle, STRUCK]
        patient = arrays.aims[battle, PATIENT]
        moves = AgentFloats()
        order_x = AgentFloats()
        order_y = AgentFloats()
        for agent in range(n_agents):
            action = arrays.actions[battle, agent]
            allowed = action >= 0 and action < n_actions
            if allowed:
                allowed = arrays.avail[battle * n_agents + agent, action] != wp.uint8(0)
            if not allowed:
                row = battle * n_agents + agent
                if wp.atomic_cas(arrays.refused, 0, 0, row + 1) == 0:  # the first is told of
                    arrays.refused[1] = action
                    for each in range(n_actions):
                        arrays.refused[2 + each] = int(arrays.avail[row, each])
                action = int(0)
            words[LAST + agent] = action
            target[agent] = NOBODY
            if action >= FIRST_ATTACK:
                slot = action - FIRST_ATTACK
                target[agent] = wp.where(heals(agent) != 0, slot, n_agents + slot)
            elif action >= NORTH:
                moves[agent] = 1.0
                order_x[agent] = x[agent] + MOVE * (float(action == EAST) - float(action == WEST))
                order_y[agent] = y[agent] + MOVE * (float(action == NORTH) - float(action == SOUTH))
        before = total(health, shield, n_agents, count)
        enemies = living(health, n_agents, count)
        allies = living(health, 0, n_agents)
        lost_allies = float(0.0)
        lost_enemies = float(0.0)
        a = wp.uint32(words[KEY_A])
        b = wp.uint32(words[KEY_B])
        now = words[STEP]
        for tick in range(TICKS):
            x, y, health, shield, cooldown, calm, target, struck, patient, loss, gain = play_tick(
                x, y, health, shield, cooldown, calm, target, struck, patient, moves, order_x, order_y,
                arrays.turns.ptr, arrays.dt, a, b, now, tick,
            )  # fmt: skip
            lost_allies += loss
            lost_enemies += gain
        arrays.units[battle, X] = x
        arrays.units[battle, Y] = y
        arrays.units[battle, HEALTH] = health
        arrays.units[battle, SHIELD] = shield
        arrays.units[battle, COOLDOWN] = cooldown
        arrays.units[battle, CALM] = calm
        arrays.aims[battle, TARGET] = target
        arrays.aims[battle, STRUCK] = struck
        arrays.aims[battle, PATIENT] = patient
        words[STEP] = now + 1
        result = outcome(health)
        kills = enemies - living(health, n_agents, count)
        deaths = allies - living(health, 0, n_agents)
        change = before - total(health, shield, n_agents, count)
        reward = reward_of(arrays.reward, change, kills, lost_enemies, lost_allies, deaths, result)
        arrays.rewards[battle] = reward
        arrays.returns[battle] = arrays.returns[battle] + reward
        late = result == RUNS and now + 1 >= arrays.limit
        over = result != RUNS or late
        arrays.done[battle] = wp.uint8(over)
        if over:
            arrays.final_returns[battle] = arrays.returns[battle]
            arrays.info[battle, WON] = int(result == VICTORIOUS)
            arrays.info[battle, LIMIT] = int(late)
            arrays.info[battle, DEAD_ALLIES] = n_agents - (allies - deaths)
            arrays.info[battle, DEAD_ENEMIES] = count - n_agents - (enemies - kills)
            if arrays.keep_final != 0:
                write_all(arrays, battle, arrays.final_obs.ptr, arrays.final_full_obs.ptr, arrays.final_state.ptr)
            if arrays.autoreset != 0:
                words[EPISODE] = words[EPISODE] + 1
                new_battle(arrays, battle)
            else:
                words[OVER] = 1
        write_all(arrays, battle, arrays.obs.ptr, arrays.full_obs.ptr, arrays.state.ptr)

    @wp.kernel(module="unique", module_options=OPTIONS, enable_backward=False)
    def reset(arrays: Arrays):
        """A new battle everywhere; a slot whose battle has begun goes on to its next episode."""
        battle = wp.tid()
        words = words_of(arrays, battle)
        if words[STEP] != 0:
            words[EPISODE] = words[EPISODE] + 1
        new_battle(arrays, battle)
        arrays.rewards[battle] = 0.0
        arrays.done[battle] = wp.uint8(0)
        write_all(arrays, battle, arrays.obs.ptr, arrays.full_obs.ptr, arrays.state.ptr)

    @wp.kernel(module="unique", module_options=OPTIONS, enable_backward=False)
    def refresh(arrays: Arrays):
        """What is told of every battle as it stands."""
        battle = wp.tid()
        write_all(arrays, battle, arrays.obs.ptr, arrays.full_obs.ptr, arrays.state.ptr)

    return SimpleNamespace(step=step, reset=reset, refresh=refresh)


def _players(t: SimpleNamespace, play: SimpleNamespace, Arrays: type) -> SimpleNamespace:
    """The kernels that write actions."""
    n_agents = t.n_agents
    any_action, best_action, scripted_action, focus_target = (
        play.any_action, play.best_action, play.scripted_action, play.focus_target,
    )  # fmt: skip

    @wp.kernel(module="unique", module_options=OPTIONS, enable_backward=False)
    def choose(arrays: Arrays):
        """The best available action by `values`, with probability choice[0] a random available one."""
        epsilon = arrays.choice[0]
        battle = wp.tid()
        a = wp.uint32(arrays.words[battle, KEY_A])
        b = wp.uint32(arrays.words[battle, KEY_B])
        now = arrays.words[battle, STEP]
        for agent in range(n_agents):
            row = battle * n_agents + agent
            action = best_action(arrays.values, arrays.avail, row)
            if uniform(draw(a, b, EXPLORE, now, 2 * agent)) < epsilon:
                action = any_action(arrays.avail, row, draw(a, b, EXPLORE, now, 2 * agent + 1))
            arrays.actions[battle, agent] = action

    @wp.kernel(module="unique", module_options=OPTIONS, enable_backward=False)
    def script(arrays: Arrays):
        """The actions of player choice[1], with probability choice[0] random available ones."""
        epsilon = arrays.choice[0]
        player = int(arrays.choice[1])
        battle = wp.tid()
        x = arrays.units[battle, X]
        y = arrays.units[battle, Y]
        health = arrays.units[battle, HEALTH]
        shield = arrays.units[battle, SHIELD]
        cooldown = arrays.units[battle, COOLDOWN]
        a = wp.uint32(arrays.words[battle, KEY_A])
        b = wp.uint32(arrays.words[battle, KEY_B])
        now = arrays.words[battle, STEP]
        focus = focus_target(health, shield, arrays.avail, battle)
        for agent in range(n_agents):
            former = arrays.words[battle, LAST + agent] - FIRST_ATTACK
            explores = player == RANDOM or uniform(draw(a, b, EXPLORE, now, 2 * agent)) < epsilon
            if explores:
                word = draw(a, b, EXPLORE, now, 2 * agent + 1)
                arrays.actions[battle, agent] = any_action(arrays.avail, battle * n_agents + agent, word)
            else:
                arrays.actions[battle, agent] = scripted_action(
                    player, x, y, health, shield, cooldown, arrays.avail, battle, agent, former, focus
                )

    return SimpleNamespace(choose=choose, script=script)
