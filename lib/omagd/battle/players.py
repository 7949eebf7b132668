"""How agents act in the kernels: by the values of a network with exploration, at random, or by a script.

Every player writes available actions for all agents of a battle. Scripts are baselines and data, not opponents:

    random      one of the available actions, uniform
    nearest     SMAC's own heuristic: attack the nearest enemy that can be hit, keep it until it is dead (a healer: heal
                the nearest wounded ally that can be healed); what cannot be reached is walked to
    focus       as nearest, but all attack the enemy in reach of most of them, of equals the one with the least left
    kite        as nearest, but steps away from a nearer enemy while the weapon cools down
    retreat     as nearest, but steps away from the nearest enemy with less than a third of health and shield left

Random numbers: stream EXPLORE, see `rules.py`.
"""

from types import SimpleNamespace

import warp as wp

from lib.omagd.battle.layout import EAST, FIRST_ATTACK, NO_OP, NORTH, SOUTH, STOP, WEST
from lib.warp_noise import bounded

PLAYERS = ("random", "nearest", "focus", "kite", "retreat")
RANDOM, NEAREST, FOCUS, KITE, RETREAT = range(5)
LOW = wp.constant(0.33)  # share of health and shield below which `retreat` retreats
CLOSE = wp.constant(4.0)  # an enemy this near is stepped away from


def player_functions(t: SimpleNamespace, f: SimpleNamespace) -> SimpleNamespace:
    """`best_action` and `scripted_action` of a map."""
    Floats = t.floats
    n_agents, count, n_actions = t.n_agents, t.count, t.layout.n_actions
    heals, max_health, max_shield, can_hit, length = t.heals, t.max_health, t.max_shield, f.can_hit, f.length

    @wp.func
    def any_action(avail: wp.array2d(dtype=wp.uint8), row: int, word: wp.uint32) -> int:
        """Uniform among the available actions."""
        allowed = int(0)
        for action in range(n_actions):
            allowed += int(avail[row, action])
        wanted = bounded(word, allowed)
        chosen = int(0)
        for action in range(n_actions):
            if avail[row, action] != wp.uint8(0):
                if wanted == 0:
                    chosen = action
                wanted -= 1
        return chosen

    @wp.func
    def best_action(values: wp.array2d(dtype=float), avail: wp.array2d(dtype=wp.uint8), row: int) -> int:
        """The available action of the highest value, the first of equal ones."""
        chosen = int(-1)
        best = float(0.0)
        for action in range(n_actions):
            if avail[row, action] != wp.uint8(0):
                value = float(values[row, action])
                if chosen < 0 or value > best:
                    best = value
                    chosen = action
        return chosen

    @wp.func
    def towards(avail: wp.array2d(dtype=wp.uint8), row: int, dx: float, dy: float) -> int:
        """The available move that leads farthest along (dx, dy); STOP where none leads that way."""
        chosen = int(STOP)
        best = float(0.0)
        for action in range(NORTH, FIRST_ATTACK):
            if avail[row, action] != wp.uint8(0):
                along = dx * (float(action == EAST) - float(action == WEST))
                along += dy * (float(action == NORTH) - float(action == SOUTH))
                if along > best:
                    best = along
                    chosen = action
        return chosen

    @wp.func
    def focus_target(health: Floats, shield: Floats, avail: wp.array2d(dtype=wp.uint8), battle: int) -> int:
        """The enemy slot in reach of most fighters, of equals the one with the least left; -1 where there is none."""
        chosen = int(-1)
        most = int(0)
        least = float(0.0)
        for slot in range(wp.static(t.n_enemies)):
            able = int(0)
            for agent in range(n_agents):
                if heals(agent) == 0 and can_hit(agent, n_agents + slot):
                    able += int(avail[battle * n_agents + agent, FIRST_ATTACK + slot])
            left = health[n_agents + slot] + shield[n_agents + slot]
            if able > 0 and (able > most or (able == most and left < least)):
                chosen = slot
                most = able
                least = left
        return chosen

    @wp.func
    def scripted_action(
        player: int,
        x: Floats,
        y: Floats,
        health: Floats,
        shield: Floats,
        cooldown: Floats,
        avail: wp.array2d(dtype=wp.uint8),
        battle: int,
        agent: int,
        former: int,
        focus: int,
    ) -> int:
        """The action of a living or dead agent; `former` is the slot it attacked in the step before, or -1."""
        row = battle * n_agents + agent
        if health[agent] <= 0.0:
            return NO_OP
        here_x = x[agent]
        here_y = y[agent]
        near = int(-1)
        nearest = float(1.0e9)
        first = int(n_agents)
        last = int(count)
        if heals(agent) != 0:
            first = int(0)
            last = n_agents
        other = int(first)
        while other < last:
            wanted = health[other] > 0.0 and other != agent
            if heals(agent) != 0:
                wanted = wanted and heals(other) == 0 and health[other] < max_health(other)
            else:
                wanted = wanted and can_hit(agent, other)
            if wanted:
                away = length(x[other] - here_x, y[other] - here_y)
                if away < nearest:
                    nearest = away
                    near = other
            other += 1
        if near < 0:
            return STOP
        if heals(agent) == 0 and nearest < CLOSE:
            tired = player == KITE and cooldown[agent] > 0.25
            left = (health[agent] + shield[agent]) / (max_health(agent) + max_shield(agent))
            if tired or (player == RETREAT and left < LOW):
                step = towards(avail, row, here_x - x[near], here_y - y[near])
                if step != STOP:
                    return step
        slot = near - first
        if heals(agent) == 0:
            if player == FOCUS and focus >= 0:
                if avail[row, FIRST_ATTACK + focus] != wp.uint8(0) and can_hit(agent, n_agents + focus):
                    slot = focus
            elif former >= 0:
                if avail[row, FIRST_ATTACK + former] != wp.uint8(0):
                    slot = former
        if avail[row, FIRST_ATTACK + slot] != wp.uint8(0):
            return FIRST_ATTACK + slot
        return towards(avail, row, x[near] - here_x, y[near] - here_y)

    return SimpleNamespace(
        any_action=any_action, best_action=best_action, scripted_action=scripted_action, focus_target=focus_target
    )
