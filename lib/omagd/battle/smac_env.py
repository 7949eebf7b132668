"""One battle behind SMAC's interface: what is written for `smac.env.StarCraft2Env` runs on it."""

import numpy as np
import torch

from lib.errors import UserError
from lib.omagd.battle.arrays import LIMIT, WON
from lib.omagd.battle.battle import BattleVec


class BattleEnv:
    """A battle with the methods of SMAC's `MultiAgentEnv`; keywords beyond these go to `BattleVec`.

    continuing_episode: the time limit is said in `info["episode_limit"]`, for learners that value what comes after it.
    Arrays are copies, float32; masks are lists of 0 and 1, as in SMAC.
    """

    def __init__(self, map_name: str = "3m", seed: int = 0, continuing_episode: bool = False, **options):
        self.battle = BattleVec(map_name, 1, seed=seed, autoreset=False, **options)
        self.map_name, self.continuing_episode = map_name, continuing_episode
        layout = self.battle.layout
        self.n_agents, self.n_enemies, self.n_actions = layout.n_agents, layout.n_enemies, layout.n_actions
        self.episode_limit = self.battle.limit
        self.battles_game = self.battles_won = self.timeouts = 0

    def reset(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Begins the next battle: (observations of the agents, state)."""
        self.battle.reset()
        return self.get_obs(), self.get_state()

    def step(self, actions) -> tuple[float, bool, dict]:
        """(reward of the team, whether the battle is over, info).

        UserError for an action that is not available; then nothing has happened.
        """
        actions = torch.as_tensor([int(action) for action in actions]).view(1, -1)
        if self.battle.done[0]:
            raise UserError("the battle is over: call reset() first")
        masks = self.get_avail_actions()
        for agent, action in enumerate(actions[0].tolist()):
            if not (0 <= action < self.n_actions and masks[agent][action]):
                free = [number for number, can in enumerate(masks[agent]) if can]
                raise UserError(
                    f"agent {agent} cannot take action {action}; available are {free} (mask {masks[agent]})"
                )
        self.battle.step(actions)
        done = bool(self.battle.done[0])
        allies, enemies = self.battle.alive[0].split((self.n_agents, self.n_enemies))
        info = {"battle_won": False, "dead_allies": int((allies == 0).sum()), "dead_enemies": int((enemies == 0).sum())}
        if done:
            last = self.battle.info[0].tolist()
            info["battle_won"] = bool(last[WON])
            self.battles_game += 1
            self.battles_won += last[WON]
            self.timeouts += last[LIMIT]
            if last[LIMIT] and self.continuing_episode:
                info["episode_limit"] = True
        return float(self.battle.rewards[0]), done, info

    def get_obs(self, no_range_limit: bool = False) -> list[np.ndarray]:
        """The observation of every agent; without the limit of their sight where asked."""
        return [self.get_obs_agent(agent, no_range_limit) for agent in range(self.n_agents)]

    def get_obs_agent(self, agent_id: int, no_range_limit: bool = False) -> np.ndarray:
        """The observation of one agent."""
        rows = self.battle.full_obs if no_range_limit else self.battle.obs
        return rows[0, agent_id].cpu().numpy().copy()

    def get_obs_size(self) -> int:
        return self.battle.layout.obs_size

    def get_state(self) -> np.ndarray:
        """The state of the whole battle."""
        return self.battle.state[0].cpu().numpy().copy()

    def get_state_size(self) -> int:
        return self.battle.layout.state_size

    def get_avail_actions(self) -> list[list[int]]:
        """The masks of all agents."""
        return self.battle.avail[0].tolist()

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        """The mask of one agent."""
        return self.battle.avail[0, agent_id].tolist()

    def get_total_actions(self) -> int:
        return self.n_actions

    def get_visibility_matrix(self) -> np.ndarray:
        """(agents, agents + enemies) bool: whom each agent sees, in the order of its nodes (`layout.py`)."""
        return self.battle.visible[0].cpu().numpy().astype(bool)

    def get_env_info(self) -> dict:
        """Sizes and blocks; see `layout.py`."""
        return self.battle.layout.env_info(self.battle.map) | {"episode_limit": self.episode_limit}

    def get_stats(self) -> dict:
        """Counts since the environment was made."""
        games = self.battles_game
        return {
            "battles_won": self.battles_won,
            "battles_game": games,
            "battles_draw": self.timeouts,
            "win_rate": self.battles_won / games if games else 0.0,
            "timeouts": self.timeouts,
            "restarts": 0,
        }

    def seed(self, seed: int | None = None) -> int:
        """The seed; with an argument everything starts over with it."""
        if seed is not None:
            self.battle.reset(seed)
        return self.battle.seed

    def close(self) -> None:
        """Nothing has to be closed."""
