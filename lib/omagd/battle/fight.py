"""One tick of a battle as Warp functions of a map's tables; the rules are in `rules.py`."""

# Warp compiles what it reads here: the annotations of its functions have to be objects, not text.
from types import SimpleNamespace

import warp as wp

from lib.omagd.battle.paths import CELLS, STRAIGHT
from lib.omagd.battle.rules import (
    BLAST,
    CALM_S,
    ENERGY_HEALS,
    ENERGY_MOST,
    ENERGY_RATE,
    FIRST_ENERGY,
    HEAL,
    JITTER,
    PUSH_MOST,
    SHIELD_RATE,
    SLACK,
    SPLASH_DEPTH,
    SPLASH_WIDTH,
)
from lib.omagd.battle.targets import FAR, NOBODY, target_functions
from lib.omagd.battle.terrain import HEIGHT, WIDTH
from lib.warp_noise import draw, uniform

NEAR_ZERO = wp.constant(1.0e-6)
AIR_EDGE = wp.constant(0.001)  # flyers stay this far inside the map's far edges


def fight_functions(t: SimpleNamespace) -> SimpleNamespace:
    """`play_tick`, and what else the kernels of a map need, from its `unit_tables`."""
    found = SimpleNamespace(**vars(_ground(t)))
    vars(found).update(vars(target_functions(t)))
    vars(found).update(vars(_fire(t)))
    vars(found).update(vars(_motion(t, found)))
    vars(found).update(vars(_tick(t, found)))
    return found


def _ground(t: SimpleNamespace) -> SimpleNamespace:
    rows = t.rows
    low_x, low_y, high_x, high_y = t.open_ground

    @wp.func
    def walkable(x: int, y: int) -> bool:
        """Whether the cell is on the map and may be walked on."""
        # Most of the walkable ground is one rectangle: looking up its rows would take longer.
        if x >= low_x and x <= high_x and y >= low_y and y <= high_y:
            return True
        if x < 0 or y < 0 or x >= WIDTH or y >= HEIGHT:
            return False
        bits = rows
        return ((bits[y] >> x) & 1) != 0

    @wp.func
    def stands(x: float, y: float) -> bool:
        """Whether a ground unit may have its centre here."""
        return x >= 0.0 and y >= 0.0 and walkable(int(x), int(y))

    @wp.func
    def heading(turns: wp.uint64, x: float, y: float, goal_x: float, goal_y: float):
        """Where a ground unit at (x, y) walks to that wants to (goal_x, goal_y): there, or to where it has to turn."""
        table = wp.array(ptr=turns, shape=(CELLS * CELLS,), dtype=wp.int16)
        here = int(y) * WIDTH + int(x)
        there = int(goal_y) * WIDTH + int(goal_x)
        corner = int(table[here * CELLS + there])
        if corner == STRAIGHT:
            return goal_x, goal_y
        return float(corner % WIDTH) + 0.5, float(corner // WIDTH) + 0.5

    return SimpleNamespace(walkable=walkable, stands=stands, heading=heading)


def _fire(t: SimpleNamespace) -> SimpleNamespace:
    """What a shot does."""
    damage, bonus, bonus_against, attribute, attacks, armour = (
        t.damage, t.bonus, t.bonus_against, t.attribute, t.attacks, t.armour,
    )  # fmt: skip

    most_attacks = t.most_attacks

    @wp.func
    def after_hit(attacker: int, victim: int, health: float, shield: float):
        """(health, shield) of the victim after all attacks of a shot."""
        each = damage(attacker)
        if bonus_against(attacker) == attribute(victim):
            each += bonus(attacker)
        left = float(health)
        guard = float(shield)
        for attack in range(most_attacks):
            if attack < attacks(attacker):
                stopped = wp.min(guard, each)
                guard -= stopped
                left -= wp.max(each - stopped - armour(victim), 0.0)
        return wp.max(left, 0.0), guard

    return SimpleNamespace(after_hit=after_hit)


def _motion(t: SimpleNamespace, f: SimpleNamespace) -> SimpleNamespace:
    """Where the units of a tick end."""
    flies, speed, stands = t.flies, t.speed, f.stands
    Floats, radii, layers = t.floats, t.radii, t.layers
    immovable, count, lanes = t.has_immovable, t.count, t.lanes

    @wp.func
    def push_apart(x: Floats, y: Floats, health: Floats):
        """What overlapping units are moved by in x and y.

        The inner loop is over the units that are moved, without a branch: it runs on vectors.
        """
        px = Floats()
        py = Floats()
        wide = radii
        high = layers
        for other in range(count):
            if health[other] > 0.0:
                there_x = x[other]
                there_y = y[other]
                for one in range(lanes):
                    dx = x[one] - there_x
                    dy = y[one] - there_y
                    away = wp.sqrt(dx * dx + dy * dy)
                    both = wide[one] + wide[other]
                    meet = health[one] > 0.0 and high[one] == high[other] and one != other
                    half = wp.where(meet, 0.5 * wp.max(both - away, 0.0), 0.0)
                    if wp.static(immovable):
                        half = half * wp.where(speed(one) == 0.0, 0.0, wp.where(speed(other) == 0.0, 2.0, 1.0))
                    apart = away > NEAR_ZERO
                    part = half / wp.max(away, NEAR_ZERO)
                    px[one] = px[one] + wp.where(apart, dx * part, wp.where(one < other, -half, half))
                    py[one] = py[one] + wp.where(apart, dy * part, 0.0)
        return px, py

    @wp.func
    def on_ground(unit: int, x: float, y: float, from_x: float, from_y: float):
        """Where a unit stands that wanted to (x, y) and was at (from_x, from_y)."""
        if flies(unit) != 0:
            return wp.clamp(x, 0.0, float(WIDTH) - AIR_EDGE), wp.clamp(y, 0.0, float(HEIGHT) - AIR_EDGE)
        if stands(x, y):
            return x, y
        if stands(x, from_y):
            return x, from_y
        if stands(from_x, y):
            return from_x, y
        return from_x, from_y

    return SimpleNamespace(push_apart=push_apart, on_ground=on_ground)


def _tick(t: SimpleNamespace, f: SimpleNamespace) -> SimpleNamespace:
    Floats, Ints, AgentFloats = t.floats, t.ints, t.agent_floats
    max_health, max_shield, radius, reach, speed, heals = (
        t.max_health, t.max_shield, t.radius, t.reach, t.speed, t.heals,
    )  # fmt: skip
    cooldown_s, explodes, splashes, regeneration, flies = (
        t.cooldown_s, t.explodes, t.splashes, t.regeneration, t.flies,
    )  # fmt: skip
    length, can_hit, after_hit, enemy_targets, push_apart, on_ground, heading = (
        f.length, f.can_hit, f.after_hit, f.enemy_targets, f.push_apart, f.on_ground, f.heading,
    )  # fmt: skip
    attack_x, attack_y = t.attack_point
    n_agents, count, lanes = t.n_agents, t.count, t.lanes

    @wp.func
    def in_splash(dx: float, dy: float, aim_x: float, aim_y: float, wide: float) -> bool:
        """Whether a unit of radius `wide` at (dx, dy) from the target is in the box across the line (aim_x, aim_y)."""
        away = wp.max(length(aim_x, aim_y), NEAR_ZERO)
        ux = aim_x / away
        uy = aim_y / away
        along = wp.abs(dx * ux + dy * uy)
        across = wp.abs(dx * uy - dy * ux)
        return along <= SPLASH_DEPTH / 2.0 + wide and across <= SPLASH_WIDTH / 2.0 + wide

    @wp.func
    def settle(health: Floats, shield: Floats, cooldown: Floats, calm: Floats, dt: float):
        """Timers and regeneration at the end of a tick."""
        for unit in range(count):
            if health[unit] > 0.0:
                if heals(unit) != 0:
                    cooldown[unit] = wp.min(cooldown[unit] + ENERGY_RATE * dt, ENERGY_MOST)
                else:
                    cooldown[unit] = wp.max(cooldown[unit] - dt, 0.0)
                if wp.static(t.has_shields):
                    calm[unit] = wp.max(calm[unit] - dt, 0.0)
                    if calm[unit] <= 0.0:
                        shield[unit] = wp.min(shield[unit] + SHIELD_RATE * dt, max_shield(unit))
                if wp.static(t.has_regeneration):
                    health[unit] = wp.min(health[unit] + regeneration(unit) * dt, max_health(unit))
        return health, shield, cooldown, calm

    @wp.func
    def walk(
        x: Floats, y: Floats, health: Floats, goal_x: Floats, goal_y: Floats, way: Floats, pace: Floats, dt: float
    ):
        """Positions at the end of a tick; `way` is how far each unit is to go towards its goal."""
        nx = x
        ny = y
        for unit in range(lanes):
            if way[unit] > 0.0 and health[unit] > 0.0:
                dx = goal_x[unit] - x[unit]
                dy = goal_y[unit] - y[unit]
                away = wp.sqrt(dx * dx + dy * dy)
                if away > NEAR_ZERO:
                    fastest = speed(unit)
                    if wp.static(t.enemies_heal):
                        fastest = pace[unit]
                    part = wp.min(fastest * dt, wp.min(way[unit], away)) / away
                    nx[unit] = x[unit] + dx * part
                    ny[unit] = y[unit] + dy * part
        px, py = push_apart(nx, ny, health)
        for unit in range(count):
            if health[unit] > 0.0:
                if wp.static(t.has_walls):
                    pushed = wp.sqrt(px[unit] * px[unit] + py[unit] * py[unit])
                    if pushed > PUSH_MOST:
                        px[unit] = px[unit] * (PUSH_MOST / pushed)
                        py[unit] = py[unit] * (PUSH_MOST / pushed)
                wx, wy = on_ground(unit, nx[unit] + px[unit], ny[unit] + py[unit], x[unit], y[unit])
                nx[unit] = wx
                ny[unit] = wy
        return nx, ny

    @wp.func
    def heal(x: Floats, y: Floats, health: Floats, energy: Floats, target: Ints, patient: Ints, dt: float):
        """What the healers do: (health, energy, last patients)."""
        for healer in range(count):
            whom = target[healer]
            if heals(healer) != 0 and health[healer] > 0.0 and whom >= 0:
                gap = length(x[whom] - x[healer], y[whom] - y[healer]) - reach(healer) - radius(whom)
                missing = max_health(whom) - health[whom]
                enough = patient[healer] == whom or energy[healer] >= FIRST_ENERGY
                if health[whom] > 0.0 and missing > 0.0 and gap <= 0.0 and enough:
                    given = wp.min(wp.min(HEAL * dt, missing), ENERGY_HEALS * energy[healer])
                    health[whom] = health[whom] + given
                    energy[healer] = wp.max(energy[healer] - given / ENERGY_HEALS, 0.0)
                    patient[healer] = whom
        return health, energy, patient

    @wp.func
    def play_tick(
        x: Floats,
        y: Floats,
        health: Floats,
        shield: Floats,
        cooldown: Floats,
        calm: Floats,
        target: Ints,
        struck: Ints,
        patient: Ints,
        moves: AgentFloats,
        order_x: AgentFloats,
        order_y: AgentFloats,
        turns: wp.uint64,
        dt: float,
        a: wp.uint32,
        b: wp.uint32,
        step: int,
        tick: int,
    ):
        """One tick; allies with moves[ally] > 0 walk to (order_x, order_y), others attack target[ally] or stand.

        `turns` is the address of `paths.turns`. Returns what moves, and what allies and enemies lost by hits or their
        own end in this tick.
        """
        aims, pace = enemy_targets(x, y, health, target, struck)
        lives = health
        hits = Ints()
        way = Floats()
        goal_x = Floats()
        goal_y = Floats()
        lost_allies = float(0.0)
        lost_enemies = float(0.0)
        for unit in range(count):
            hits[unit] = NOBODY
        for unit in range(count):
            if lives[unit] > 0.0:
                aim = aims[unit]
                if aim >= 0:
                    if lives[aim] > 0.0:
                        away = length(x[aim] - x[unit], y[aim] - y[unit])
                        gap = away - reach(unit) - radius(aim)
                        if gap > 0.0:
                            goal_x[unit] = x[aim]
                            goal_y[unit] = y[aim]
                            way[unit] = gap + SLACK
                        elif heals(unit) == 0 and cooldown[unit] <= 0.0 and can_hit(unit, aim):
                            noise = uniform(draw(a, b, JITTER, step, tick * count + unit))
                            cooldown[unit] = cooldown_s(unit) + dt * (3.0 * noise - 1.0)
                            first = int(aim)
                            last = int(aim + 1)
                            wide = bool(False)
                            if wp.static(t.has_splash or t.has_blasts):
                                wide = splashes(unit) != 0 or explodes(unit) != 0
                                if wide:
                                    first = wp.where(unit < n_agents, n_agents, 0)
                                    last = wp.where(unit < n_agents, count, n_agents)
                            # A plain loop: a range with bounds that are no constants costs as much as what is inside.
                            other = int(first)
                            while other < last:
                                hit = bool(True)
                                if wide:
                                    hit = lives[other] > 0.0 and flies(other) == 0
                                    if splashes(unit) != 0:
                                        hit = hit and in_splash(
                                            x[other] - x[aim], y[other] - y[aim], x[aim] - x[unit], y[aim] - y[unit],
                                            radius(other),
                                        )  # fmt: skip
                                    else:
                                        hit = hit and length(x[other] - x[unit], y[other] - y[unit]) <= BLAST + radius(
                                            other
                                        )
                                if hit:
                                    left, guard = after_hit(unit, other, health[other], shield[other])
                                    lost = health[other] - left + (shield[other] - guard)
                                    if other < n_agents:
                                        lost_allies += lost
                                    else:
                                        lost_enemies += lost
                                    health[other] = left
                                    shield[other] = guard
                                    calm[other] = CALM_S
                                    if hits[other] < 0:
                                        hits[other] = unit
                                other += 1
                            if wp.static(t.has_blasts):
                                if explodes(unit) != 0:
                                    if unit < n_agents:
                                        lost_allies += health[unit] + shield[unit]
                                    else:
                                        lost_enemies += health[unit] + shield[unit]
                                    health[unit] = 0.0
                                    shield[unit] = 0.0
                else:
                    if unit >= n_agents:
                        goal_x[unit] = attack_x
                        goal_y[unit] = attack_y
                        way[unit] = FAR
                    elif moves[unit] > 0.0:
                        goal_x[unit] = order_x[unit]
                        goal_y[unit] = order_y[unit]
                        way[unit] = FAR
                if wp.static(t.has_walls):
                    if way[unit] > 0.0 and flies(unit) == 0 and (aim >= 0 or unit >= n_agents):
                        turn_x, turn_y = heading(turns, x[unit], y[unit], goal_x[unit], goal_y[unit])
                        if turn_x != goal_x[unit] or turn_y != goal_y[unit]:
                            goal_x[unit] = turn_x
                            goal_y[unit] = turn_y
                            way[unit] = FAR
        if wp.static(t.has_healers):
            health, cooldown, patient = heal(x, y, health, cooldown, aims, patient, dt)
        x, y = walk(x, y, health, goal_x, goal_y, way, pace, dt)
        health, shield, cooldown, calm = settle(health, shield, cooldown, calm, dt)
        return x, y, health, shield, cooldown, calm, aims, hits, patient, lost_allies, lost_enemies

    return SimpleNamespace(play_tick=play_tick)
