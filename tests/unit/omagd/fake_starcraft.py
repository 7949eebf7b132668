"""Stand-ins for SMAC and SMACv2: their classes' methods, attributes and habits, with a simple battle inside.

SMAC keeps the dead with health 0 and says by an empty info that its process has gone; SMACv2 wraps, draws teams without
a seed, may return nothing from `reset` and forgets all enemies while one has never been seen.
"""

import math
from types import SimpleNamespace

import numpy as np
from fake_failures import next_failure

SMAC_MAPS = {
    "3m": ("T", "T", 0, "marines", 20, ["marine"] * 3, ["marine"] * 3),
    "2s3z": ("P", "P", 2, "stalkers_and_zealots", 30, ["stalker", "stalker"] + ["zealot"] * 3,
             ["stalker", "stalker"] + ["zealot"] * 3),
    "MMM": ("T", "T", 3, "MMM", 30, ["marauder", "marine", "marine", "medivac"],
            ["marine", "medivac", "marauder", "marine"]),
}  # fmt: skip
ENEMY_NUMBERS = {"marine": 48, "marauder": 51, "medivac": 54, "stalker": 74, "zealot": 73, "colossus": 4}
HEALTH = {"marine": 45, "marauder": 125, "medivac": 150, "stalker": 80, "zealot": 100, "colossus": 200}
SHIELD = {"stalker": 80, "zealot": 50, "colossus": 150}
FIRST_OWN = 1970  # number of the first of the types that SMAC adds


class FakeStarCraft2Env:
    """The methods and attributes of `smac.env.StarCraft2Env` that its users see."""

    registry = SMAC_MAPS
    own_names: tuple[str, ...] | None = None  # fixed numbers of types, as SMACv2 has

    def __init__(self, map_name="8m", seed=None, difficulty="7", game_version=None, continuing_episode=False):
        a_race, b_race, self.unit_type_bits, self.map_type, self.episode_limit, allies, enemies = self.registry[
            map_name
        ]
        self._set_up(allies, enemies, a_race, b_race, seed, difficulty)

    def _set_up(self, allies, enemies, a_race, b_race, seed, difficulty):
        self.team, self.opponents, self.difficulty, self._seed = allies, enemies, difficulty, seed
        self.n_agents, self.n_enemies = len(allies), len(enemies)
        self.n_actions = 6 + self.n_enemies
        self.shield_bits_ally, self.shield_bits_enemy = int(a_race == "P"), int(b_race == "P")
        self.agents, self.enemies = {}, {}
        self.launched = self.closed = 0
        self.marauder_id = self.medivac_id = self.stalker_id = self.zealot_id = self.colossus_id = 0
        self.last_action = np.zeros((self.n_agents, self.n_actions))
        self._random = np.random.default_rng(seed)
        self._fails, self._played = next_failure(), 0

    def get_env_info(self):
        obs = 4 + self.n_enemies * (5 + self.shield_bits_enemy + self.unit_type_bits)
        obs += (self.n_agents - 1) * (5 + self.shield_bits_ally + self.unit_type_bits) + self.own_size()
        state = self.n_agents * (4 + self.shield_bits_ally + self.unit_type_bits)
        state += self.n_enemies * (3 + self.shield_bits_enemy + self.unit_type_bits) + self.n_agents * self.n_actions
        return {
            "state_shape": state, "obs_shape": obs, "n_actions": self.n_actions, "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }  # fmt: skip

    def own_size(self):
        return 1 + self.shield_bits_ally + self.unit_type_bits

    def reset(self):
        if self._fails[0] == 0:
            raise ConnectionError("no port is free")
        self.launched += 1
        self._number_types()
        spread = self._random.uniform(-0.5, 0.5, (self.n_agents + self.n_enemies, 2))
        # Sorted by type as SMAC does; the lists above are in that order.
        self.agents = {
            n: self._unit(name, self.numbers[name], 9 + spread[n][0], 14 + n + spread[n][1])
            for n, name in enumerate(self.team)
        }
        self.enemies = {
            n: self._unit(name, ENEMY_NUMBERS[name], 19 + spread[-n][0], 14 + n + spread[-n][1])
            for n, name in enumerate(self.opponents)
        }
        self.last_action = np.zeros((self.n_agents, self.n_actions))
        self._steps = 0
        return self.get_obs(), self.get_state()

    def _number_types(self):
        names = self.own_names or sorted(set(self.team))
        self.numbers = {name: FIRST_OWN + k for k, name in enumerate(names)}
        for name, number in self.numbers.items():
            setattr(self, f"{name}_id", number)

    @staticmethod
    def _unit(name, number, x, y):
        return SimpleNamespace(
            name=name, unit_type=number, health=HEALTH[name], health_max=HEALTH[name], shield=SHIELD.get(name, 0),
            shield_max=SHIELD.get(name, 0), energy=50, weapon_cooldown=3.0, pos=SimpleNamespace(x=float(x), y=float(y)),
        )  # fmt: skip

    def step(self, actions):
        self._played += 1
        if self._played == self._fails[0]:
            if self._fails[1] == "silent":
                return 0, True, {}
            raise ConnectionError("Error during step: Connection already closed.\nSC2 probably crashed")
        for agent, action in enumerate(actions):
            assert self.get_avail_agent_actions(agent)[action] == 1, f"Agent {agent} cannot perform action {action}"
        self.last_action = np.eye(self.n_actions)[np.array(actions)]
        before = sum(unit.health + unit.shield for unit in self.enemies.values())
        for agent, action in enumerate(actions):
            self._obey(self.agents[agent], action)
        for enemy in [unit for unit in self.enemies.values() if unit.health > 0]:
            self._attack_nearest(enemy)
        self._steps += 1
        reward = (before - sum(unit.health + unit.shield for unit in self.enemies.values())) / 10
        info = {"battle_won": False, "dead_allies": 0, "dead_enemies": 0}
        done = False
        if not any(unit.health > 0 for unit in self.enemies.values()):
            done, info["battle_won"] = True, True
        elif not any(unit.health > 0 for unit in self.agents.values()) or self._steps >= self.episode_limit:
            done = True
        return reward, done, info

    def _obey(self, unit, action):
        if 2 <= action <= 5:
            unit.pos.x += {4: 1.5, 5: -1.5}.get(action, 0.0)
            unit.pos.y += {2: 1.5, 3: -1.5}.get(action, 0.0)
        elif action >= 6:
            if unit.unit_type == self.medivac_id:
                other = self.agents[action - 6]
                other.health = min(other.health + 5, other.health_max)
            else:
                self._hit(self.enemies[action - 6], 20)

    def _attack_nearest(self, enemy):
        targets = [unit for unit in self.agents.values() if unit.health > 0]
        if not targets or enemy.name == "medivac":
            return
        near = min(targets, key=lambda unit: self.distance(enemy.pos.x, enemy.pos.y, unit.pos.x, unit.pos.y))
        if self.distance(enemy.pos.x, enemy.pos.y, near.pos.x, near.pos.y) <= 5:
            self._hit(near, 8)
        else:
            enemy.pos.x -= 1.0

    @staticmethod
    def _hit(unit, damage):
        kept = min(unit.shield, damage)
        unit.shield -= kept
        unit.health = max(unit.health - (damage - kept), 0)

    @staticmethod
    def distance(x1, y1, x2, y2):
        return math.hypot(x2 - x1, y2 - y1)

    def unit_sight_range(self, agent_id):
        return 9

    def unit_shoot_range(self, agent_id):
        return 6

    def unit_max_shield(self, unit):
        return SHIELD.get(unit.name)

    def get_unit_type_id(self, unit, ally):
        if ally:
            return unit.unit_type - FIRST_OWN
        if self.map_type == "stalkers_and_zealots":
            return unit.unit_type - 73  # the other way round than the allies', as SMAC has it
        return {51: 0, 48: 1, 54: 2}[unit.unit_type]

    def get_avail_agent_actions(self, agent_id):
        unit, avail = self.agents[agent_id], [0] * self.n_actions
        if unit.health <= 0:
            return [1] + avail[1:]
        avail[1] = 1
        for action, (x, y) in {2: (0, 1), 3: (0, -1), 4: (1, 0), 5: (-1, 0)}.items():
            avail[action] = int(0 <= int(unit.pos.x + x) < 32 and 8 <= int(unit.pos.y + y) < 24)
        targets = self.enemies.items()
        if unit.unit_type == self.medivac_id:
            targets = [(n, other) for n, other in self.agents.items() if other.unit_type != self.medivac_id]
        for number, other in targets:
            far = self.distance(unit.pos.x, unit.pos.y, other.pos.x, other.pos.y)
            if other.health > 0 and far <= self.unit_shoot_range(agent_id):
                avail[6 + number] = 1
        return avail

    def get_avail_actions(self):
        return [self.get_avail_agent_actions(agent) for agent in range(self.n_agents)]

    def get_obs(self):
        return [self.get_obs_agent(agent) for agent in range(self.n_agents)]

    def get_obs_agent(self, agent_id):
        me, avail = self.agents[agent_id], self.get_avail_agent_actions(agent_id)
        if me.health <= 0:
            return np.zeros(self.get_env_info()["obs_shape"], dtype=np.float32)
        row = list(map(float, avail[2:6]))
        for number, other in self.enemies.items():
            row += self._block(me, agent_id, other, avail[6 + number], False)
        for number, other in self.agents.items():
            if number != agent_id:
                row += self._block(me, agent_id, other, 1.0, True)
        return np.array(row + self._own(me), dtype=np.float32)

    def _block(self, me, agent_id, other, first, ally):
        sight = self.unit_sight_range(agent_id)
        shields = self.shield_bits_ally if ally else self.shield_bits_enemy
        far = self.distance(me.pos.x, me.pos.y, other.pos.x, other.pos.y)
        if far >= sight or other.health <= 0:
            return [0.0] * (5 + shields + self.unit_type_bits)
        block = [first, far / sight, (other.pos.x - me.pos.x) / sight, (other.pos.y - me.pos.y) / sight]
        return block + self._body(other, shields, ally)

    def _own(self, me):
        return self._body(me, self.shield_bits_ally, True)

    def _body(self, unit, shields, ally):
        numbers = [unit.health / unit.health_max]
        if shields:
            numbers.append(unit.shield / self.unit_max_shield(unit))
        bits = [0.0] * self.unit_type_bits
        if bits:
            bits[self.get_unit_type_id(unit, ally)] = 1.0
        return numbers + bits

    def get_state(self):
        row = []
        for ally, units in ((True, self.agents), (False, self.enemies)):
            shields = self.shield_bits_ally if ally else self.shield_bits_enemy
            for unit in units.values():
                numbers = [unit.health / unit.health_max] + ([unit.weapon_cooldown / 15] if ally else [])
                numbers += [(unit.pos.x - 16) / 32, (unit.pos.y - 16) / 32, *self._body(unit, shields, ally)[1:]]
                row += numbers if unit.health > 0 else [0.0] * len(numbers)
        return np.array(row + self.last_action.flatten().tolist(), dtype=np.float32)

    def close(self):
        self.closed += 1


class FakeDraw:
    """A distribution of SMACv2 with a generator of its own, or with another distribution in it."""

    def __init__(self, make):
        self.inner = SimpleNamespace(rng=np.random.default_rng(), generate=lambda: self.inner.rng.random())
        self.rng, self.make = np.random.default_rng(), make

    def generate(self):
        return self.make(self)


class FakeV2Core(FakeStarCraft2Env):
    """`smacv2.env.StarCraft2Env` with generated teams."""

    own_names = ("colossus", "marauder", "marine", "medivac", "stalker", "zealot")

    def __init__(
        self, capability_config, map_name, seed, use_unit_ranges, obs_own_pos, difficulty="7", game_version=None,
        conic_fov=True, min_attack_range=0, prob_obs_enemy=1.0, action_mask=True,
    ):  # fmt: skip
        assert use_unit_ranges and obs_own_pos and not conic_fov and min_attack_range == 2
        race = {"10gen_protoss": "P", "10gen_terran": "T"}[map_name]
        self.obs_own_pos, self.action_mask = True, action_mask
        self.unit_type_bits, self.map_type = 3, {"P": "protoss_gen", "T": "terran_gen"}[race]
        self.order = capability_config["team_gen"]["unit_types"]
        self.episode_limit = 20
        numbers = capability_config["n_units"], capability_config["n_enemies"]
        self._set_up(self.order[:1] * numbers[0], self.order[:1] * numbers[1], race, race, seed, difficulty)
        if race == "T" and self.n_agents > self.n_enemies:
            self.n_actions = 6 + self.n_agents
        self.last_action = np.zeros((self.n_agents, self.n_actions))
        self.seen = set()

    def own_size(self):
        return super().own_size() + 2

    def reset(self, episode_config):
        self.team, self.opponents = episode_config["team_gen"]
        self.seen = set()
        return super().reset()

    def unit_sight_range(self, agent_id):
        return 10 if self.agents[agent_id].name in ("stalker", "marauder", "colossus") else 9

    def unit_shoot_range(self, agent_id):
        return 2 if self.agents[agent_id].name == "zealot" else 6

    def get_unit_type_id(self, unit, ally):
        return self.order.index(unit.name)

    def get_true_avail_agent_actions(self, agent_id):
        return super().get_avail_agent_actions(agent_id)

    def get_avail_agent_actions(self, agent_id):
        avail = super().get_avail_agent_actions(agent_id)
        if not self.action_mask and self.agents[agent_id].health > 0:
            avail[6 : 6 + self.n_enemies] = [int(unit.health > 0) for unit in self.enemies.values()]
        return avail

    def get_obs_agent(self, agent_id):
        row, me = super().get_obs_agent(agent_id), self.agents[agent_id]
        if me.health <= 0:
            return row
        width = 5 + self.shield_bits_enemy + self.unit_type_bits
        true = self.get_true_avail_agent_actions(agent_id)
        for number, other in self.enemies.items():
            near = self.distance(me.pos.x, me.pos.y, other.pos.x, other.pos.y) < self.unit_sight_range(agent_id)
            if near:
                self.seen.add(number)
                row[4 + number * width] = true[6 + number] if other.health > 0 else 0.0
            if number not in self.seen:
                row[4 : 4 + (number + 1) * width] = 0.0  # all that was told of the enemies before
        return row

    def _own(self, me):
        body = self._body(me, self.shield_bits_ally, True)
        at = 1 + self.shield_bits_ally
        return body[:at] + [me.pos.x / 32, me.pos.y / 32] + body[at:]


class FakeCapabilityEnv:
    """`smacv2.env.StarCraftCapabilityEnvWrapper`."""

    def __init__(self, **kwargs):
        config = kwargs["capability_config"]
        self.env = FakeV2Core(**kwargs)

        def team(draw):
            names = [config["team_gen"]["unit_types"][int(draw.rng.random() * 3)] for _ in range(self.env.n_agents)]
            names = sorted(names)
            return {"team_gen": (names, [names[n % len(names)] for n in range(self.env.n_enemies)])}

        places = {"start_positions": FakeDraw(lambda draw: {"where": draw.inner.generate()})}
        self.env_key_to_distribution_map = {"team_gen": FakeDraw(team)} | places
        self.drawn = {}

    def reset(self):
        self.drawn = {}
        for draw in self.env_key_to_distribution_map.values():
            self.drawn |= draw.generate()
        self.env.reset(self.drawn)

    def get_env_info(self):
        return self.env.get_env_info() | {"cap_shape": 3}

    def __getattr__(self, name):
        return getattr(self.env, name)
