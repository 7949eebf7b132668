"""What is told of a battle, written straight into the tensors: observations, state, available actions; see `layout.py`.

Every function writes one battle's part of an array, which it gets as an address: the shapes are then constants.
"""

from types import SimpleNamespace

import warp as wp

from lib.omagd.battle.layout import EAST, FIRST_ATTACK, MOVES, NO_OP, NORTH, SOUTH, STOP, WEST
from lib.omagd.battle.terrain import HEIGHT, WIDTH


def tell_functions(t: SimpleNamespace, f: SimpleNamespace) -> SimpleNamespace:
    """`write_all` of a map, from its `unit_tables` and `fight_functions`."""
    layout = t.layout
    Floats = t.floats
    heals, max_health, max_shield, told_cooldown, type_bit = (
        t.heals, t.max_health, t.max_shield, t.told_cooldown, t.type_bit,
    )  # fmt: skip
    walkable, length = f.walkable, f.length
    n_agents, n_enemies, count = t.n_agents, t.n_enemies, t.count
    n_actions, obs_size, state_size = layout.n_actions, layout.obs_size, layout.state_size
    enemy_width, ally_width = layout.enemy_width, layout.ally_width
    type_bits, ally_shield, enemy_shield = layout.type_bits, layout.ally_shield, layout.enemy_shield
    allies_at = MOVES + n_enemies * enemy_width
    own_at = allies_at + (n_agents - 1) * ally_width
    actions_at = layout.last_actions_at

    @wp.func
    def write_moves(x: float, y: float, row: wp.array(dtype=wp.uint8)):
        """What a living agent may do without an aim."""
        row[NO_OP] = wp.uint8(0)
        row[STOP] = wp.uint8(1)
        row[NORTH] = wp.uint8(walkable(int(x), int(y + 1.0)))
        row[SOUTH] = wp.uint8(walkable(int(x), int(y - 1.0)))
        row[EAST] = wp.uint8(walkable(int(x + 1.0), int(y)))
        row[WEST] = wp.uint8(walkable(int(x - 1.0), int(y)))

    @wp.func
    def can_heal(x: Floats, y: Floats, health: Floats, agent: int, slot: int, attack_range: float) -> bool:
        """Whether a healer may be sent to ally `slot`."""
        if slot >= n_agents or slot == agent:
            return False
        if heals(slot) != 0 or health[slot] <= 0.0:
            return False
        return length(x[slot] - x[agent], y[slot] - y[agent]) <= attack_range

    @wp.func
    def write_unit(
        row: wp.array(dtype=float), at: int, health: float, shield: float, unit: int, shields: int, bit: int
    ):
        """Health, shield where the army has one, type bits."""
        row[at] = health / max_health(unit)
        if shields != 0:
            row[at + 1] = shield / wp.max(max_shield(unit), 1.0)
        if wp.static(type_bits > 0):
            row[at + 1 + shields + bit] = 1.0

    @wp.func
    def enemy_bit(unit: int, swapped: int) -> int:
        """The type bit of an enemy; SMAC counts its types from the other end where there are two."""
        bit = type_bit(unit)
        if swapped != 0:
            bit = type_bits - 1 - bit
        return bit

    @wp.func
    def write_place(row: wp.array(dtype=float), at: int, first: float, away: float, dx: float, dy: float):
        """The first numbers of the block of a living unit."""
        row[at] = first
        row[at + 1] = away
        row[at + 2] = dx
        row[at + 3] = dy

    @wp.func
    def write_agent(
        x: Floats,
        y: Floats,
        health: Floats,
        shield: Floats,
        agent: int,
        sight: float,
        attack_range: float,
        swapped: int,
        avail: wp.array(dtype=wp.uint8),
        obs: wp.array(dtype=float),
        full: wp.array(dtype=float),
        visible: wp.array(dtype=wp.uint8),
    ):
        """Available actions of an agent, both its observations, and which nodes it sees."""
        for place in range(obs_size):
            obs[place] = 0.0
            full[place] = 0.0
        for node in range(count):
            visible[node] = wp.uint8(0)
        for action in range(n_actions):
            avail[action] = wp.uint8(0)
        if health[agent] <= 0.0:
            avail[NO_OP] = wp.uint8(1)
            return
        write_moves(x[agent], y[agent], avail)
        for move in range(MOVES):
            can = float(avail[NORTH + move])
            obs[move] = can
            full[move] = can
        for slot in range(n_enemies):
            other = n_agents + slot
            dx = x[other] - x[agent]
            dy = y[other] - y[agent]
            away = wp.sqrt(dx * dx + dy * dy)
            possible = health[other] > 0.0 and away <= attack_range
            if wp.static(t.allies_heal):
                if heals(agent) != 0:
                    possible = can_heal(x, y, health, agent, slot, attack_range)
            avail[FIRST_ATTACK + slot] = wp.uint8(possible)
            if health[other] > 0.0:
                at = MOVES + slot * enemy_width
                bit = enemy_bit(other, swapped)
                write_place(full, at, float(possible), away / sight, dx / sight, dy / sight)
                write_unit(full, at + 4, health[other], shield[other], other, enemy_shield, bit)
                if away < sight:
                    visible[n_agents + slot] = wp.uint8(1)
                    write_place(obs, at, float(possible), away / sight, dx / sight, dy / sight)
                    write_unit(obs, at + 4, health[other], shield[other], other, enemy_shield, bit)
        for slot in range(wp.static(n_agents - 1)):
            other = wp.where(slot < agent, slot, slot + 1)
            if health[other] > 0.0:
                at = allies_at + slot * ally_width
                dx = x[other] - x[agent]
                dy = y[other] - y[agent]
                away = wp.sqrt(dx * dx + dy * dy)
                bit = type_bit(other)
                write_place(full, at, float(away < sight), away / sight, dx / sight, dy / sight)
                write_unit(full, at + 4, health[other], shield[other], other, ally_shield, bit)
                if away < sight:
                    visible[1 + slot] = wp.uint8(1)
                    write_place(obs, at, 1.0, away / sight, dx / sight, dy / sight)
                    write_unit(obs, at + 4, health[other], shield[other], other, ally_shield, bit)
        visible[0] = wp.uint8(1)
        write_unit(obs, own_at, health[agent], shield[agent], agent, ally_shield, type_bit(agent))
        write_unit(full, own_at, health[agent], shield[agent], agent, ally_shield, type_bit(agent))

    @wp.func
    def write_state(
        x: Floats,
        y: Floats,
        health: Floats,
        shield: Floats,
        cooldown: Floats,
        swapped: int,
        last_actions: wp.array(dtype=int),
        state: wp.array(dtype=float),
        alive: wp.array(dtype=wp.uint8),
    ):
        """The state of the battle, and who lives."""
        for place in range(state_size):
            state[place] = 0.0
        at = int(0)
        for unit in range(count):
            lives = health[unit] > 0.0
            alive[unit] = wp.uint8(lives)
            ally = unit < n_agents
            if lives:
                place = at + 1
                if ally:
                    state[at + 1] = cooldown[unit] * told_cooldown(unit)
                    place = at + 2
                state[at] = health[unit] / max_health(unit)
                state[place] = (x[unit] - float(WIDTH) / 2.0) / float(WIDTH)
                state[place + 1] = (y[unit] - float(HEIGHT) / 2.0) / float(HEIGHT)
                place += 2
                shields = wp.where(ally, ally_shield, enemy_shield)
                if shields != 0:
                    state[place] = shield[unit] / wp.max(max_shield(unit), 1.0)
                    place += 1
                if wp.static(type_bits > 0):
                    bit = type_bit(unit)
                    if not ally:
                        bit = enemy_bit(unit, swapped)
                    state[place + bit] = 1.0
            at += wp.where(ally, wp.static(layout.ally_state_width), wp.static(layout.enemy_state_width))
        for agent in range(n_agents):
            action = last_actions[agent]
            if action >= 0:
                state[actions_at + agent * n_actions + action] = 1.0

    return SimpleNamespace(write_agent=write_agent, write_state=write_state)
