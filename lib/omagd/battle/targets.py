"""Whom the enemies of a battle attack or heal, as Warp functions of a map's tables; the script is in `rules.py`."""

from types import SimpleNamespace

import warp as wp

from lib.omagd.battle.rules import HEALER_SCAN

NOBODY = -1
FAR = wp.constant(1.0e9)


def target_functions(t: SimpleNamespace) -> SimpleNamespace:
    """`enemy_targets`, and `length` and `can_hit`, which others need too."""
    reach, radius, looks, flies, hits_air, heals, speed, max_health = (
        t.reach, t.radius, t.looks, t.flies, t.hits_air, t.heals, t.speed, t.max_health,
    )  # fmt: skip
    Floats, Ints = t.floats, t.ints
    n_agents, count = t.n_agents, t.count
    farthest_look = wp.constant((t.farthest_look + t.widest) ** 2 + 1e-3)

    @wp.func
    def length(dx: float, dy: float) -> float:
        return wp.sqrt(dx * dx + dy * dy)

    @wp.func
    def can_hit(attacker: int, victim: int) -> bool:
        return flies(victim) == 0 or hits_air(attacker) != 0

    @wp.func
    def healer_target(enemy: int, x: Floats, y: Floats, health: Floats, target: Ints):
        """(whom to follow, the speed of the slowest comrade around)."""
        kept = int(NOBODY)
        least = float(FAR)
        nearest = float(FAR)
        slowest = float(speed(enemy))
        for other in range(n_agents, count):
            if other != enemy and heals(other) == 0 and health[other] > 0.0:
                away = length(x[other] - x[enemy], y[other] - y[enemy])
                if away <= HEALER_SCAN + radius(other):
                    slowest = wp.min(slowest, speed(other))
                    if health[other] < max_health(other):
                        if health[other] < least:
                            least = health[other]
                            kept = other
                    elif least >= FAR and target[other] >= 0 and away < nearest:
                        nearest = away
                        kept = other
        return kept, slowest

    @wp.func
    def enemy_targets(x: Floats, y: Floats, health: Floats, target: Ints, struck: Ints):
        """(targets: the allies' as they are, the enemies' by the script; the speed of every unit where some heal)."""
        healer_lives = bool(False)
        if wp.static(t.allies_heal):
            for ally in range(n_agents):
                if heals(ally) != 0 and health[ally] > 0.0:
                    healer_lives = True
        chosen = target
        pace = Floats()
        if wp.static(t.enemies_heal):
            for unit in range(count):
                pace[unit] = speed(unit)
        for enemy in range(n_agents, count):
            if health[enemy] > 0.0:
                if heals(enemy) != 0:
                    whom, slowest = healer_target(enemy, x, y, health, target)
                    chosen[enemy] = whom
                    pace[enemy] = slowest
                else:
                    here_x = x[enemy]
                    here_y = y[enemy]
                    kept = target[enemy]
                    if kept >= 0:
                        if health[kept] <= 0.0 or (healer_lives and heals(kept) == 0):
                            kept = NOBODY
                        elif target[kept] != enemy:
                            gap = length(x[kept] - here_x, y[kept] - here_y) - reach(enemy) - radius(kept)
                            if gap > 0.0:
                                kept = NOBODY
                    if kept < 0:
                        nearest = float(FAR)
                        of_healer = int(0)
                        for other in range(n_agents):
                            dx = x[other] - here_x
                            dy = y[other] - here_y
                            square = dx * dx + dy * dy
                            # Few are near: the farthest look first, which is one constant.
                            if square < farthest_look and health[other] > 0.0 and can_hit(enemy, other):
                                away = wp.sqrt(square)
                                if away <= looks(enemy) + radius(other):
                                    if heals(other) > of_healer or (heals(other) == of_healer and away < nearest):
                                        nearest = away
                                        of_healer = heals(other)
                                        kept = other
                        if kept < 0:
                            attacker = struck[enemy]
                            if attacker >= 0:
                                if health[attacker] > 0.0 and can_hit(enemy, attacker):
                                    kept = attacker
                    chosen[enemy] = kept
        return chosen, pace

    return SimpleNamespace(length=length, can_hit=can_hit, enemy_targets=enemy_targets)
