"""SMAC's layout of what is told of a battle: the widths of every block, the order of the nodes, the environment info.

    obs of an agent   move 4 | enemies n_e x f_e | allies (n_a - 1) x f_a | own f_o
      enemy block     attackable, dist, dx, dy, health, [shield], [type bits]
      ally block      visible, dist, dx, dy, health, [shield], [type bits]
      own             health, [shield], [type bits]
    state             allies n_a x (health, cooldown, x, y, [shield], [type bits])
                      enemies n_e x (health, x, y, [shield], [type bits]) | last actions n_a x n_actions, one-hot
    actions           0 no-op, 1 stop, 2 north (+y), 3 south, 4 east (+x), 5 west, 6 + j attack enemy j (heal ally j)

The shield is there where the army is Protoss, the type bits where an army has more than one type. dist, dx and dy are
divided by the sight, health and shield by their greatest values; positions in the state are those of SMAC: the distance
from the middle of the map divided by its size.

Source: the observations, state and actions of SMAC (Samvelyan et al. 2019, arXiv 1902.04043) as its code writes them.
"""

from dataclasses import dataclass

from lib.errors import UserError
from lib.omagd.battle.maps import BattleMap

MOVES = 4
FIRST_ATTACK = 6
HEALTH_AT = 4  # in the block of another unit, behind visible or attackable, dist, dx, dy; then shield, type bits
NO_OP, STOP, NORTH, SOUTH, EAST, WEST = range(6)


@dataclass(frozen=True)
class Layout:
    """The widths of a map. Nodes of an agent: itself, the other allies by number, the enemies by number."""

    n_agents: int
    n_enemies: int
    type_bits: int
    ally_shield: int  # 1 where the allies are Protoss
    enemy_shield: int
    # Only of games of others, see lib/omagd/foreign.
    own_more: int = 0  # numbers that an agent is told of itself, between its shield and its type bits
    targets: int = 0  # that an agent can be sent to, where these are more than the enemies: allies of a healer

    @staticmethod
    def of(battle_map: BattleMap) -> "Layout":
        allies, enemies = battle_map.units[: battle_map.n_agents], battle_map.units[battle_map.n_agents :]
        return Layout(
            n_agents=battle_map.n_agents,
            n_enemies=battle_map.n_enemies,
            type_bits=len(battle_map.type_names),
            ally_shield=int(any(unit.race == "protoss" for unit in allies)),
            enemy_shield=int(any(unit.race == "protoss" for unit in enemies)),
        )

    @staticmethod
    def of_env_info(info: dict) -> "Layout":
        """From the `get_env_info` of a game of others, with its n_enemies, type_bits, ally_shield, enemy_shield and
        own_more beside it. UserError where its widths are not those of SMAC's layout."""
        names = ("n_agents", "n_enemies", "type_bits", "ally_shield", "enemy_shield", "own_more")
        targets = int(info["n_actions"]) - FIRST_ATTACK
        layout = Layout(**{name: int(info[name]) for name in names}, targets=targets * (targets > info["n_enemies"]))
        for name, key in (("obs_size", "obs_shape"), ("state_size", "state_shape"), ("n_actions", "n_actions")):
            if getattr(layout, name) != info[key]:
                raise UserError(
                    f"the game's {key} is {info[key]}, in SMAC's layout of {layout.n_agents} agents against"
                    f" {layout.n_enemies} enemies it is {getattr(layout, name)}: this version of it is not known"
                )
        return layout

    @property
    def enemy_width(self) -> int:
        return 5 + self.enemy_shield + self.type_bits

    @property
    def ally_width(self) -> int:
        return 5 + self.ally_shield + self.type_bits

    @property
    def own_width(self) -> int:
        return 1 + self.ally_shield + self.own_more + self.type_bits

    @property
    def n_actions(self) -> int:
        return FIRST_ATTACK + max(self.n_enemies, self.targets)

    @property
    def n_nodes(self) -> int:
        return self.n_agents + self.n_enemies

    @property
    def node_width(self) -> int:
        """Of a node of the graph that an observation is read as: the widest block, 8 + own for the agent itself."""
        return max(self.enemy_width, self.ally_width, 8 + self.own_width)

    @property
    def obs_size(self) -> int:
        own = MOVES + self.own_width
        return own + self.n_enemies * self.enemy_width + (self.n_agents - 1) * self.ally_width

    @property
    def ally_state_width(self) -> int:
        return 4 + self.ally_shield + self.type_bits

    @property
    def enemy_state_width(self) -> int:
        return 3 + self.enemy_shield + self.type_bits

    @property
    def last_actions_at(self) -> int:
        """Where in the state the last actions begin."""
        return self.n_agents * self.ally_state_width + self.n_enemies * self.enemy_state_width

    @property
    def state_size(self) -> int:
        return self.last_actions_at + self.n_agents * self.n_actions

    def env_info(self, battle_map: BattleMap, map_type: str | None = None) -> dict:
        """What SMAC's `get_env_info` says, and the blocks of observation and state.

        A map of another game needs a name and a limit alone; its map_type is given.
        """
        n_e, n_a = self.n_enemies, self.n_agents
        map_type = map_type or "+".join(battle_map.type_names) or battle_map.units[0].name
        return {
            "n_agents": n_a,
            "n_enemies": n_e,
            "n_allies": n_a - 1,
            "n_actions": self.n_actions,
            "state_shape": self.state_size,
            "obs_shape": self.obs_size,
            "episode_limit": battle_map.limit,
            "map_name": battle_map.name,
            "map_type": map_type,
            "obs_component": [MOVES, (n_e, self.enemy_width), (n_a - 1, self.ally_width), self.own_width],
            "state_component": [
                (n_a, self.ally_state_width), (n_e, self.enemy_state_width), (n_a, self.n_actions),
            ],
        }  # fmt: skip
