"""The game as a PettingZoo ParallelEnv: one game, six agents, for libraries that read that interface."""

from typing import ClassVar

import numpy as np
import torch

from lib.errors import UserError
from lib.snakes.game import SnakesVec
from lib.snakes.planes import SHAPE, grid_planes, open_moves
from lib.snakes.replay import Replay
from lib.snakes.rules import ACTIONS, FEATURES, SNAKES, STEPS, TEAM
from lib.snakes.terminal import render as render_text

try:
    from gymnasium.spaces import Box, Discrete
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise UserError(
        f"{error.name} is not installed, the PettingZoo interface needs it: pip install pettingzoo gymnasium"
    ) from error

AGENTS = tuple(f"team{snake // TEAM}_{snake % TEAM}" for snake in range(SNAKES))
OBSERVATIONS = ("team", "jidi26", "grid")
# Above every number of either layout (199 cells of score difference / 20, or a raw coordinate).
LIMIT = 20.0


class SnakesParallelEnv(ParallelEnv):
    """One game of 3v3 snakes; agents team0_0 to team0_2 (left) and team1_0 to team1_2 (right).

    observations: "team", float32 (140,), the layout of docs and kernel; "jidi26", float32 (26,), the original's
    numbers; "grid", float32 (10, 20, 9), the planes of lib.snakes.planes with the own head in the middle. Actions 0 to
    3: up, down, left, right; the exact reverse of the direction becomes one of the other three at random (a rule of the
    game). Rewards are the game's: +1 a bean, 3 - length for a death. infos[agent]["action_mask"]: int8 (4,), 0 where
    the move leads into a body, all 1 when every move does; infos[agent]["died"] and ["score"] (length - 3) besides.

    All agents end together: terminated after 200 steps, on a full board or when a respawn finds no place; truncated
    when `episode_steps` is below 200 and reached. `reset(seed=s)` starts the first game of seed s; without a seed
    the next one, or the same where no step was made.
    """

    metadata: ClassVar[dict] = {"name": "snakes_3v3", "render_modes": ["ansi"], "is_parallelizable": True}

    def __init__(
        self, observations: str = "team", seed: int = 0, episode_steps: int = STEPS, render_mode: str | None = None
    ):
        if observations not in OBSERVATIONS:
            raise UserError(f"observations {observations!r}: expected one of {', '.join(OBSERVATIONS)}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"render_mode {render_mode!r}: expected ansi or None")
        self.observations, self.episode_steps = observations, episode_steps
        self.render_mode = render_mode
        self.possible_agents, self.agents = list(AGENTS), []
        shape = SHAPE if observations == "grid" else (FEATURES[observations],)
        low, high = (0.0, 1.0) if observations == "grid" else (-LIMIT, LIMIT)
        self.observation_spaces = {agent: Box(low, high, shape, np.float32) for agent in AGENTS}
        self.action_spaces = {agent: Discrete(len(ACTIONS)) for agent in AGENTS}
        self.game = SnakesVec(
            1,
            seed=seed,
            features="team" if observations == "grid" else observations,
            observe="both",
            left="external",
            right="external",
            episode_steps=episode_steps,
            autoreset=False,
        )

    def observation_space(self, agent: str) -> Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None):
        """(observations, infos) of a new game; `options` has no effect."""
        self.game.reset(seed)
        self.agents = list(AGENTS)
        return self._see(), self._infos(np.zeros(SNAKES))

    def step(self, actions: dict[str, int]):
        """(observations, rewards, terminations, truncations, infos), one entry an agent. UserError for bad actions."""
        if not self.agents:
            raise UserError("the game has ended or not begun: call reset() first")
        self.game.step(joint_actions(actions))
        done = bool(self.game.done[0])
        truncated = done and self.episode_steps < STEPS and int(self.game.step_count[0]) >= self.episode_steps
        if done:
            self.agents = []
        rewards = self.game.rewards[0].tolist()
        return (
            self._see(),
            dict(zip(AGENTS, rewards)),
            dict.fromkeys(AGENTS, done and not truncated),
            dict.fromkeys(AGENTS, truncated),
            self._infos(self.game.deaths[0].numpy()),
        )

    def state(self) -> np.ndarray:
        """The numbers of all six snakes in one row, float32 (408,) or with "jidi26" (156,), for centralised critics."""
        return self.game.features.reshape(-1).numpy().copy()

    def render(self) -> str | None:
        """The board as text with render_mode "ansi", else None."""
        if self.render_mode != "ansi":
            return None
        return render_text(Replay(("left", "right"), [self.game.snapshot(0)]), 0, colour=False)

    def close(self) -> None:
        """Nothing is held."""

    def _see(self) -> dict[str, np.ndarray]:
        self.shown = self.game.snapshot(0)
        if self.observations == "grid":
            return {agent: grid_planes(self.shown, snake) for snake, agent in enumerate(AGENTS)}
        rows = self.game.features.reshape(SNAKES, -1).numpy().copy()
        return dict(zip(AGENTS, rows))

    def _infos(self, deaths) -> dict[str, dict]:
        return {
            agent: {
                "action_mask": open_moves(self.shown, snake),
                "died": bool(deaths[snake]),
                "score": self.shown.scores[snake],
            }
            for snake, agent in enumerate(AGENTS)
        }


def parallel_env(**options) -> SnakesParallelEnv:
    """A new SnakesParallelEnv; takes its options."""
    return SnakesParallelEnv(**options)


def joint_actions(actions: dict[str, int]) -> torch.Tensor:
    """int32 (1, 6) of one move for each agent. UserError for an agent too few or too many, or another move."""
    if set(actions) != set(AGENTS):
        raise UserError(f"actions for {sorted(actions)}: expected one for each of {', '.join(AGENTS)}")
    for agent, action in actions.items():
        if isinstance(action, bool) or action not in range(len(ACTIONS)):
            raise UserError(f"the action of {agent} is {action!r}: expected 0 to 3 for {', '.join(ACTIONS)}")
    return torch.tensor([[int(actions[agent]) for agent in AGENTS]], dtype=torch.int32)
