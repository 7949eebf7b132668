"""One battle as a PettingZoo `ParallelEnv`: agents `ally_0` ..., the reward of the team for each."""

from typing import ClassVar

import numpy as np

from lib.errors import UserError
from lib.omagd.battle.smac_env import BattleEnv

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise UserError(
        f"{error.name} is not installed, the PettingZoo interface needs it: pip install pettingzoo gymnasium"
    ) from error


class ParallelBattle(ParallelEnv):
    """See PettingZoo's `ParallelEnv`; keywords go to `BattleEnv`.

    An observation is {"observation": float32, "action_mask": int8}; the mask is in `infos`, too. An agent that has
    died stays, with the no-op as its only action, until the battle is over; the time limit truncates. `state()` is that
    of the whole battle. `reset` begins the next battle, or the same where no step was made.
    """

    metadata: ClassVar[dict] = {"name": "quartet_battle_v0", "render_modes": [], "is_parallelizable": True}

    def __init__(self, map_name: str = "3m", seed: int = 0, **options):
        self.battle = BattleEnv(map_name, seed=seed, continuing_episode=True, **options)
        self.possible_agents = [f"ally_{number}" for number in range(self.battle.n_agents)]
        self.agents: list[str] = []
        self.render_mode = None
        seen = spaces.Box(-np.inf, np.inf, (self.battle.get_obs_size(),), np.float32)
        mask = spaces.Box(0, 1, (self.battle.n_actions,), np.int8)
        self.observation_spaces = {
            agent: spaces.Dict({"observation": seen, "action_mask": mask}) for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(self.battle.n_actions) for agent in self.possible_agents}
        self.state_space = spaces.Box(-np.inf, np.inf, (self.battle.get_state_size(),), np.float32)

    def observation_space(self, agent: str) -> spaces.Dict:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Begins the next battle, or with a seed the first one of that seed."""
        if seed is not None:
            self.battle.seed(seed)
        else:
            self.battle.reset()
        self.agents = list(self.possible_agents)
        observations = self._observations()
        return observations, {agent: {"action_mask": told["action_mask"]} for agent, told in observations.items()}

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        """One step with an action of every agent. UserError where one is missing or not available."""
        missing = [agent for agent in self.possible_agents if agent not in actions]
        if missing:
            raise UserError(f"no action for {', '.join(missing)}: the dead take 0 until the battle is over")
        reward, done, info = self.battle.step([actions[agent] for agent in self.possible_agents])
        late = bool(info.get("episode_limit", False))
        agents = self.agents
        observations = self._observations()
        if done:
            self.agents = []
        return (
            observations,
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, done and not late),
            dict.fromkeys(agents, late),
            {agent: {**info, "action_mask": observations[agent]["action_mask"]} for agent in agents},
        )

    def state(self) -> np.ndarray:
        return self.battle.get_state()

    def _observations(self) -> dict:
        masks = self.battle.get_avail_actions()
        return {
            agent: {
                "observation": self.battle.get_obs_agent(number),
                "action_mask": np.asarray(masks[number], dtype=np.int8),
            }
            for number, agent in enumerate(self.possible_agents)
        }
