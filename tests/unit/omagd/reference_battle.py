"""The rules of battles in plain Python, to measure the kernels against; nothing outside tests uses it.

Written from `lib/omagd/battle/rules.py`, not from the kernels: units are objects, a tick is a list of plans and then
shots, heals, motion and timers. Numbers are numpy.float32 scalars, as the kernels have them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from reference_ways import ways_on

from lib.omagd.battle.layout import EAST, FIRST_ATTACK, NO_OP, NORTH, SOUTH, STOP, WEST, Layout
from lib.omagd.battle.maps import BattleMap
from lib.omagd.battle.rules import (
    BLAST,
    CALM_S,
    ENERGY_HEALS,
    ENERGY_MOST,
    ENERGY_RATE,
    FIRST_ENERGY,
    GREATEST_RETURN,
    HEAL,
    HEALER_SCAN,
    JITTER,
    KILL,
    LOOPS_PER_S,
    MOVE,
    PUSH_MOST,
    REACH,
    SHIELD_RATE,
    SLACK,
    SPAWN,
    SPLASH_DEPTH,
    SPLASH_WIDTH,
    START_ENERGY,
    TICKS,
    VICTORY,
)
from lib.omagd.battle.terrain import HEIGHT, WIDTH, walkable
from lib.omagd.battle.units import UnitType
from lib.warp_noise import WORD, key_words, mix_word

NOBODY = -1
F = np.float32
ZERO = F(0)
NEAR_ZERO = F(1e-6)  # closer than this two centres are one point
AIR_EDGE = F(0.001)  # a flyer's place has a cell of the map under it: it stays this far from where the map ends
DIRECTIONS = {NORTH: (0, 1), SOUTH: (0, -1), EAST: (1, 0), WEST: (-1, 0)}


@dataclass(eq=False)
class Unit:
    """One unit. `target`, `struck` (who hit it first in the tick before) and `patient` are numbers of units."""

    number: int
    type: UnitType
    x: F
    y: F
    health: F
    shield: F
    cooldown: F = ZERO
    energy: F = ZERO
    calm: F = ZERO
    target: int = NOBODY
    struck: int = NOBODY
    patient: int = NOBODY
    point: tuple[F, F] | None = None  # where an ally's order sends it

    def __post_init__(self):
        # float32 of the sum, and float32 of the radius: two numbers of a gap.
        self.reach, self.radius = F(self.type.range + self.type.radius), F(self.type.radius)

    @property
    def lives(self) -> bool:
        return self.health > 0

    @property
    def heals(self) -> bool:
        return self.type.heals

    def can_hit(self, other: Unit) -> bool:
        return self.type.hits_air or not other.type.flies


@dataclass
class Plan:
    """What a unit does in a tick: it acts on `target` (fires at, heals) or walks `way` towards `point`, or nothing."""

    unit: Unit
    target: Unit | None = None
    point: tuple[F, F] | None = None
    way: F = ZERO
    speed: F = ZERO


@dataclass
class StepResult:
    """What a step gave: `info` is (won, ended by the limit, dead allies, dead enemies)."""

    reward: float
    done: bool
    won: bool
    limit: bool
    info: tuple[int, int, int, int]


@dataclass
class Losses:
    """What each side lost in a step by hits and by its banelings' own ends; shields and health together."""

    enemies: float = 0.0
    allies: float = 0.0


def between(a: Unit, x: F, y: F) -> tuple[F, F, F]:
    """The way from a unit to a point in x and y, and its length."""
    dx, dy = x - a.x, y - a.y
    return dx, dy, np.sqrt(dx * dx + dy * dy)


class Battle:
    """One battle. `events` counts what was met, for tests that must not pass without having met it."""

    def __init__(
        self,
        battle_map: BattleMap,
        *,
        seed: int = 0,
        number: int = 0,
        sight: float = 9.0,
        leaky_mask: bool = False,
        tick_rate: float = 16.0,
        reward: str = "signed",
        spawn_jitter: float = 0.3,
        smac_type_bits: str = "aligned",
        limit: int | None = None,
    ):
        self.map, self.layout, self.cells = battle_map, Layout.of(battle_map), walkable(battle_map.terrain)
        self.ways = ways_on(battle_map.terrain)
        self.seed, self.number, self.reward = seed, number, reward
        self.sight, self.dt, self.jitter = F(sight), F(1 / tick_rate), F(spawn_jitter)
        self.attack_range = F(REACH if leaky_mask else min(REACH, sight))
        self.limit = battle_map.limit if limit is None else limit
        self.swapped = smac_type_bits == "raw" and battle_map.type_names == ("stalker", "zealot")
        self.type_names = battle_map.type_names
        self.events: Counter = Counter()
        self.episode = -1
        self.reset()

    def reset(self) -> None:
        """The next episode."""
        self.episode += 1
        self.key = key_words(self.seed, self.number, self.episode)
        self.step_count, self.total, self.over = 0, 0.0, False
        self.last_actions: list[int | None] = [None] * self.map.n_agents
        self.units = [self._spawn(u) for u in range(self.map.n_units)]

    def _spawn(self, number: int) -> Unit:
        kind, (x, y) = self.map.units[number], self.map.spawns[number]
        unit = Unit(number, kind, F(x), F(y), F(kind.health), F(kind.shield))
        if unit.heals:
            unit.energy = F(START_ENERGY)
        moved_x = unit.x + self._uniform(-self.jitter, self.jitter, SPAWN, 0, 2 * number)
        moved_y = unit.y + self._uniform(-self.jitter, self.jitter, SPAWN, 0, 2 * number + 1)
        if self._may_stand(unit, moved_x, moved_y):
            unit.x, unit.y = moved_x, moved_y
        else:
            self.events["spawn_unmoved"] += 1
        return unit

    def _uniform(self, a: F, b: F, stream: int, step: int, counter: int) -> F:
        first, second = self.key
        word = mix_word(mix_word(first ^ (step << 16 | stream << 12 | counter)) + second & WORD)
        return a + (b - a) * F(((word >> 9) + 0.5) / 2**23)

    def _free(self, x: F, y: F) -> bool:
        """Whether the cell is walkable, coordinates cut to integers."""
        column, row = int(x), int(y)
        return 0 <= column < WIDTH and 0 <= row < HEIGHT and self.cells[row][column]

    def _may_stand(self, unit: Unit, x: F, y: F) -> bool:
        if unit.type.flies:
            return 0 <= x <= WIDTH and 0 <= y <= HEIGHT
        return bool(x >= 0 and y >= 0) and self._free(x, y)

    # Who is who.

    @property
    def allies(self) -> list[Unit]:
        return self.units[: self.map.n_agents]

    @property
    def enemies(self) -> list[Unit]:
        return self.units[self.map.n_agents :]

    def is_ally(self, unit: Unit) -> bool:
        return unit.number < self.map.n_agents

    def opponents(self, unit: Unit) -> list[Unit]:
        """The living ones."""
        return [other for other in (self.enemies if self.is_ally(unit) else self.allies) if other.lives]

    # A step.

    def step(self, actions: list[int]) -> StepResult:
        """One step. An action that is not available counts as none."""
        if self.over:
            raise ValueError("the battle is over")
        self._give_orders(actions)
        before = self._totals()
        living = [unit for unit in self.units if unit.lives]
        self.losses = Losses()
        for tick in range(TICKS):
            self._tick(tick)
        self.step_count += 1
        died = [unit for unit in living if not unit.lives]
        end = self._end()
        reward = self._reward(before - self._totals(), died, end)
        self.total += reward
        self.over = end != "goes on"
        self.events[end] += self.over
        dead = [sum(not unit.lives for unit in army) for army in (self.allies, self.enemies)]
        info = (int(end == "victory"), int(end == "limit"), *dead)
        return StepResult(reward, self.over, end == "victory", end == "limit", info)

    def _give_orders(self, actions: list[int]) -> None:
        for unit, action in zip(self.allies, actions, strict=True):
            legal = 0 <= action < self.layout.n_actions and self.avail(unit.number)[action]
            self.last_actions[unit.number] = action if legal else NO_OP
            unit.target, unit.point = NOBODY, None
            if not legal or action in (NO_OP, STOP):
                continue
            if action < FIRST_ATTACK:
                step_x, step_y = DIRECTIONS[action]
                unit.point = unit.x + F(MOVE * step_x), unit.y + F(MOVE * step_y)
            else:
                unit.target = action - FIRST_ATTACK + (0 if unit.heals else self.map.n_agents)

    def _totals(self) -> float:
        return sum(float(enemy.health) + float(enemy.shield) for enemy in self.enemies)

    def _end(self) -> str:
        allies = [unit for unit in self.allies if unit.lives]
        enemies = [unit for unit in self.enemies if unit.lives]
        had_healer = any(unit.heals for unit in self.allies)
        if (not allies and enemies) or (had_healer and all(unit.heals for unit in allies)):
            return "defeat"
        if (allies and not enemies) or (len(enemies) == 1 and enemies[0].heals):
            return "victory"
        if not allies and not enemies:
            return "draw"
        return "limit" if self.step_count >= self.limit else "goes on"

    def _reward(self, lost: float, died: list[Unit], end: str) -> float:
        if self.reward == "sparse":
            return float((end == "victory") - (end == "defeat"))
        dead_allies = sum(self.is_ally(unit) for unit in died)
        kills = len(died) - dead_allies
        won = VICTORY * (end == "victory")
        gain = {
            "signed": lost + KILL * kills + won,
            "smac_abs": abs(lost + KILL * kills) + won,
            "damage": self.losses.enemies + KILL * kills + won,
            "negative": lost + KILL * kills + won - self.losses.allies / 2 - KILL / 2 * dead_allies,
        }[self.reward]
        greatest = sum(enemy.type.health + enemy.type.shield for enemy in self.enemies)
        return gain / ((greatest + KILL * len(self.enemies) + VICTORY) / GREATEST_RETURN)

    # A tick.

    def _tick(self, tick: int) -> None:
        self._measure()
        had_target = {unit.number for unit in self.enemies if unit.lives and unit.target != NOBODY}
        plans = [self._plan(unit, had_target) for unit in self.units if unit.lives]
        for unit in self.units:
            unit.struck = NOBODY
        living = [unit for unit in self.units if unit.lives]
        for plan in plans:
            if plan.target and not plan.unit.heals and plan.unit.cooldown == 0 and plan.unit.can_hit(plan.target):
                self._shoot(plan.unit, plan.target, tick)
        for unit in living:
            self.events["enemy_killed" if not self.is_ally(unit) else "ally_killed"] += not unit.lives
        for plan in plans:
            if plan.target and plan.unit.heals and plan.unit.lives:
                self._heal(plan.unit, plan.target)
        self._move([plan for plan in plans if plan.unit.lives])
        for unit in self.units:
            if unit.lives:
                self._timers(unit)

    def _measure(self) -> None:
        """Distances between all units, [from][to]."""
        x, y = np.array([unit.x for unit in self.units]), np.array([unit.y for unit in self.units])
        dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
        self.distances = np.sqrt(dx * dx + dy * dy)

    def distance(self, a: Unit, b: Unit) -> F:
        return self.distances[a.number, b.number]

    def gap(self, a: Unit, b: Unit) -> F:
        """What `a` lacks to reach `b`."""
        return self.distances[a.number, b.number] - a.reach - b.radius

    # Decisions.

    def _plan(self, unit: Unit, had_target: set[int]) -> Plan:
        speed = F(unit.type.speed)
        if self.is_ally(unit):
            if unit.target != NOBODY:
                target = self.units[unit.target]
                return self._approach(unit, target, speed) if target.lives else Plan(unit)
            return Plan(unit) if unit.point is None else self._walk(unit, unit.point, speed)
        if unit.heals:
            target, speed = self._followed(unit, had_target)
        else:
            target = self._aim(unit)
        unit.target = NOBODY if target is None else target.number
        if target is None:
            x, y = self.map.attack_point
            return self._walk(unit, self._heading(unit, F(x), F(y)), speed)
        return self._approach(unit, target, speed)

    def _walk(self, unit: Unit, point: tuple[F, F], speed: F) -> Plan:
        return Plan(unit, point=point, way=between(unit, *point)[2], speed=speed)

    def _approach(self, unit: Unit, target: Unit, speed: F) -> Plan:
        gap = self.gap(unit, target)
        if gap <= 0:
            return Plan(unit, target=target)
        corner = self._heading(unit, target.x, target.y)
        if corner != (target.x, target.y):
            return self._walk(unit, corner, speed)
        return Plan(unit, point=corner, way=gap + F(SLACK), speed=speed)

    def _heading(self, unit: Unit, x: F, y: F) -> tuple[F, F]:
        """Where it walks to that wants to (x, y): there, or to the corner where a shortest way there bends first."""
        if self.map.terrain not in ("corridor", "ravine") or unit.type.flies:
            return x, y
        corner = self.ways.first_corner((int(unit.x), int(unit.y)), (int(x), int(y)))
        if corner is None:
            return x, y
        self.events["around"] += 1
        return F(corner[0] + 0.5), F(corner[1] + 0.5)

    def _aim(self, unit: Unit) -> Unit | None:
        """The target of a fighter of the script."""
        if unit.target != NOBODY and self.units[unit.target].lives:
            target = self.units[unit.target]
            if target.target == unit.number or self.gap(unit, target) <= 0:
                if target.heals or not any(other.heals for other in self.opponents(unit)):
                    return target
                self.events["chosen_anew"] += 1
        looks = F(unit.type.looks)
        seen = [
            other
            for other in self.opponents(unit)
            if self.distances[unit.number, other.number] <= looks + other.radius and unit.can_hit(other)
        ]
        if seen:
            return min(seen, key=lambda other: (not other.heals, self.distance(unit, other), other.number))
        if unit.struck != NOBODY:
            striker = self.units[unit.struck]
            if striker.lives and unit.can_hit(striker):
                self.events["retaliation"] += 1
                return striker
        return None

    def _followed(self, unit: Unit, had_target: set[int]) -> tuple[Unit | None, F]:
        """Whom a healer of the script follows, and how fast it is."""
        near = [
            other
            for other in self.enemies
            if other.lives and not other.heals and self.distance(unit, other) <= F(HEALER_SCAN) + other.radius
        ]
        speed = min([F(unit.type.speed)] + [F(other.type.speed) for other in near])
        wounded = [other for other in near if other.health < F(other.type.health)]
        if wounded:
            return min(wounded, key=lambda other: (other.health, other.number)), speed
        fighting = [other for other in near if other.number in had_target]
        if fighting:
            return min(fighting, key=lambda other: (self.distance(unit, other), other.number)), speed
        return None, speed

    # Fire and healing.

    def _shoot(self, unit: Unit, target: Unit, tick: int) -> None:
        self.events["shot"] += 1
        counter = tick * len(self.units) + unit.number
        unit.cooldown = F(unit.type.cooldown_s) + self.dt * self._uniform(F(-1), F(2), JITTER, self.step_count, counter)
        if unit.type.splashes:
            hit = self._in_box(unit, target)
            self.events["splash_on_many"] += len(hit) > 1
        elif unit.type.explodes:
            hit = [
                other
                for other in self.opponents(unit)
                if not other.type.flies and self.distance(unit, other) <= F(BLAST) + other.radius
            ]
            self.events["blast"] += 1
            self.events["blast_on_many"] += len(hit) > 1
        else:
            hit = [target]
        for other in hit:
            self._hit(unit, other)
        if unit.type.explodes:
            self._lose(unit, unit.health)
            unit.health = ZERO

    def _in_box(self, unit: Unit, target: Unit) -> list[Unit]:
        dx, dy, length = between(unit, target.x, target.y)
        along_x, along_y = dx / length, dy / length
        hit = []
        for other in self.opponents(unit):
            off_x, off_y = other.x - target.x, other.y - target.y
            along, across = off_x * along_x + off_y * along_y, off_y * along_x - off_x * along_y
            inside = abs(along) <= F(SPLASH_DEPTH / 2) + other.radius
            if inside and abs(across) <= F(SPLASH_WIDTH / 2) + other.radius and not other.type.flies:
                hit.append(other)
        return hit

    def _hit(self, unit: Unit, other: Unit) -> None:
        if not other.lives:
            self.events["hit_on_fallen"] += 1
            return
        if other.struck == NOBODY:
            other.struck = unit.number
        other.calm = F(CALM_S)
        bonus = unit.type.bonus if unit.type.bonus_against and unit.type.bonus_against == other.type.attribute else 0.0
        for _ in range(unit.type.attacks):
            damage = F(unit.type.damage + bonus)
            shielded = min(damage, other.shield)
            other.shield -= shielded
            through = ZERO
            if damage > shielded:
                through = min(max(damage - shielded - F(other.type.armour), ZERO), other.health)
                other.health -= through
            self._lose(other, shielded + through)

    def _lose(self, unit: Unit, amount: F) -> None:
        if self.is_ally(unit):
            self.losses.allies += float(amount)
        else:
            self.losses.enemies += float(amount)

    def _heal(self, unit: Unit, patient: Unit) -> None:
        if not patient.lives or patient.heals:
            return
        if patient.number != unit.patient and unit.energy < F(FIRST_ENERGY):
            self.events["too_weak_for_another"] += 1
            return
        amount = min(F(HEAL) * self.dt, F(patient.type.health) - patient.health, F(ENERGY_HEALS) * unit.energy)
        if amount <= 0:
            return
        patient.health += amount
        unit.energy -= amount / F(ENERGY_HEALS)
        unit.patient = patient.number
        self.events["ally_heal" if self.is_ally(unit) else "enemy_heal"] += 1
        self.events["heal_of_all_energy"] += int(unit.energy <= NEAR_ZERO)

    # Motion and timers.

    def _move(self, plans: list[Plan]) -> None:
        start = {plan.unit: (plan.unit.x, plan.unit.y) for plan in plans}
        for plan in plans:
            if plan.point is not None:
                self._advance(plan)
        pushes = self._pushes([plan.unit for plan in plans])
        for unit, (old_x, old_y) in start.items():
            push_x, push_y = pushes[unit]
            pushed = np.sqrt(push_x * push_x + push_y * push_y)
            if self.map.terrain in ("corridor", "ravine") and pushed > F(PUSH_MOST):
                push_x, push_y = push_x * (F(PUSH_MOST) / pushed), push_y * (F(PUSH_MOST) / pushed)
                self.events["pushed_less"] += 1
            x, y = unit.x + push_x, unit.y + push_y
            if unit.type.flies:
                free_x, free_y = x, y
                x, y = min(max(x, ZERO), F(WIDTH) - AIR_EDGE), min(max(y, ZERO), F(HEIGHT) - AIR_EDGE)
                self.events["flyer_at_edge"] += (x, y) != (free_x, free_y)
            elif not self._may_stand(unit, x, y):
                self.events["blocked"] += 1
                if self._may_stand(unit, x, old_y):
                    y = old_y
                elif self._may_stand(unit, old_x, y):
                    x = old_x
                    self.events["blocked_in_x"] += 1
                else:
                    x, y = old_x, old_y
                    self.events["blocked_in_both"] += 1
            unit.x, unit.y = x, y

    def _advance(self, plan: Plan) -> None:
        dx, dy, length = between(plan.unit, *plan.point)
        if length > 0:
            share = min(plan.speed * self.dt, plan.way, length) / length
            plan.unit.x += dx * share
            plan.unit.y += dy * share

    def _pushes(self, living: list[Unit]) -> dict[Unit, tuple[F, F]]:
        """How far each unit is pushed by all others, from where they stand after walking."""
        self._measure()
        pushes = dict.fromkeys(living, (ZERO, ZERO))
        radii = np.array([unit.radius for unit in self.units])
        overlaps = radii[:, None] + radii[None, :] - self.distances
        for unit in living:
            for number in np.flatnonzero(overlaps[unit.number] > 0):
                other, overlap = self.units[number], overlaps[unit.number, number]
                if other is unit or not other.lives or other.type.flies != unit.type.flies or unit.type.speed == 0:
                    continue
                way = overlap if other.type.speed == 0 else overlap / 2
                dx, dy, length = between(other, unit.x, unit.y)
                if length > NEAR_ZERO:
                    push_x, push_y = dx * (way / length), dy * (way / length)
                else:
                    push_x, push_y = (-way if unit.number < other.number else way), ZERO
                    self.events["push_from_one_point"] += 1
                pushes[unit] = pushes[unit][0] + push_x, pushes[unit][1] + push_y
                self.events["push"] += 1
                self.events["push_by_fixed"] += other.type.speed == 0
        return pushes

    def _timers(self, unit: Unit) -> None:
        unit.cooldown = max(unit.cooldown - self.dt, ZERO)
        # A hit at the beginning of a tick stops what is gained at the end of the tick after CALM_S no more.
        unit.calm = max(unit.calm - self.dt, ZERO)
        if unit.calm == 0 and unit.shield < F(unit.type.shield):
            unit.shield = min(unit.shield + F(SHIELD_RATE) * self.dt, F(unit.type.shield))
            self.events["shield_regeneration"] += 1
        if unit.type.regeneration and unit.health < F(unit.type.health):
            unit.health = min(unit.health + F(unit.type.regeneration) * self.dt, F(unit.type.health))
            self.events["zerg_regeneration"] += 1
        if unit.heals:
            unit.energy = min(unit.energy + F(ENERGY_RATE) * self.dt, F(ENERGY_MOST))

    # What is told.

    def alive(self) -> list[int]:
        return [int(unit.lives) for unit in self.units]

    def nodes(self, agent: int) -> list[Unit]:
        """The agent itself, the other allies, the enemies."""
        return [self.units[agent], *(unit for unit in self.units if unit.number != agent)]

    def _sees(self, agent: Unit, other: Unit) -> bool:
        return bool(agent.lives and other.lives and between(agent, other.x, other.y)[2] < self.sight)

    def visible(self, agent: int) -> list[int]:
        return [int(self._sees(self.units[agent], other)) for other in self.nodes(agent)]

    def avail(self, agent: int) -> list[int]:
        unit = self.units[agent]
        answer = [0] * self.layout.n_actions
        if not unit.lives:
            answer[NO_OP] = 1
            return answer
        answer[STOP] = 1
        for action, (step_x, step_y) in DIRECTIONS.items():
            ahead_x, ahead_y = unit.x + F(MOVE / 2 * step_x), unit.y + F(MOVE / 2 * step_y)
            answer[action] = int(self._free(ahead_x, ahead_y))
        targets = self.allies if unit.heals else self.enemies
        for slot, other in enumerate(targets[: self.map.n_enemies]):
            near = between(unit, other.x, other.y)[2] <= self.attack_range
            answer[FIRST_ATTACK + slot] = int(other.lives and near and not (unit.heals and other.heals))
        return answer

    def obs(self, agent: int) -> np.ndarray:
        return self.observations(agent)[0]

    def full_obs(self, agent: int) -> np.ndarray:
        return self.observations(agent)[1]

    def observations(self, agent: int) -> tuple[np.ndarray, np.ndarray]:
        """(obs, full_obs) of an agent."""
        unit = self.units[agent]
        if not unit.lives:
            return np.zeros(self.layout.obs_size, np.float32), np.zeros(self.layout.obs_size, np.float32)
        avail = self.avail(agent)
        seen, full = list(avail[NORTH:FIRST_ATTACK]), list(avail[NORTH:FIRST_ATTACK])
        others = [*self.enemies, *(ally for ally in self.allies if ally is not unit)]
        for slot, other in enumerate(others):
            sees = self._sees(unit, other)
            block = self._block(unit, other, avail[FIRST_ATTACK + slot] if slot < self.map.n_enemies else int(sees))
            full += block
            seen += block if sees else [0] * len(block)
        own = [unit.health / F(unit.type.health), *self._shield_and_type(unit)]
        return np.array(seen + own, np.float32), np.array(full + own, np.float32)

    def _block(self, unit: Unit, other: Unit, first: int) -> list:
        if not other.lives:
            return [0] * (self.layout.ally_width if self.is_ally(other) else self.layout.enemy_width)
        dx, dy, length = between(unit, other.x, other.y)
        place = [length / self.sight, dx / self.sight, dy / self.sight]
        return [first, *place, other.health / F(other.type.health), *self._shield_and_type(other)]

    def _shield_and_type(self, unit: Unit) -> list:
        ally = self.is_ally(unit)
        shielded = self.layout.ally_shield if ally else self.layout.enemy_shield
        names = self.type_names[::-1] if self.swapped and not ally else self.type_names
        shield = [unit.shield / F(unit.type.shield)] if shielded else []
        return shield + [int(name == unit.type.name) for name in names]

    def state(self) -> np.ndarray:
        told = []
        for unit in self.units:
            ally = self.is_ally(unit)
            if not unit.lives:
                told += [0] * (self.layout.ally_state_width if ally else self.layout.enemy_state_width)
                continue
            told.append(unit.health / F(unit.type.health))
            if ally and unit.heals:
                told.append(unit.energy / F(ENERGY_MOST))
            elif ally:
                told.append(unit.cooldown * F(LOOPS_PER_S) / F(unit.type.max_cooldown))
            told += [(unit.x - F(WIDTH / 2)) / F(WIDTH), (unit.y - F(HEIGHT / 2)) / F(HEIGHT)]
            told += self._shield_and_type(unit)
        for action in self.last_actions:
            told += [int(action == each) for each in range(self.layout.n_actions)]
        return np.array(told, np.float32)
