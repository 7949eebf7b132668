"""The game as Gymnasium environments: `SnakesVectorEnv`, many games at once, and `SnakesEnv`, one game."""

from typing import ClassVar

import numpy as np
import torch

from lib.errors import UserError
from lib.snakes.game import SnakesVec
from lib.snakes.network import BLOCKED, BLOCKED_FROM
from lib.snakes.players import NetworkPlayer, ScriptedPlayer
from lib.snakes.rules import ACTIONS, FEATURES, STEPS, TEAM

try:
    import gymnasium
    from gymnasium.spaces import Box, Discrete, MultiDiscrete
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise UserError(
        f"{error.name} is not installed, the Gymnasium interface needs it: pip install gymnasium"
    ) from error

MOVES = len(ACTIONS)
# Above every number of either layout (199 cells of score difference / 20, or a raw coordinate).
LIMIT = 20.0
CHOICES = {"view": ("team", "snake"), "features": ("team", "jidi26"), "side": ("left", "right", "both")}
REWARDS = ("difference", "own")


class SnakesVectorEnv(VectorEnv):
    """Many games of 3v3 snakes against an opponent, all in one kernel launch a step.

    view "team": one environment a game, observations float32 (num_envs, 3, F), actions (num_envs, 3). view "snake": one
    environment a snake, three neighbouring ones a game, for a policy that the three mates share: observations
    (num_envs, F), actions (num_envs,); num_envs is a multiple of 3. F = 140 for features "team", 26 for "jidi26".

    opponent: the name of a scripted team, or a NetworkPlayer (frozen; it must see the same features). side: which side
    of the board the agent plays; "both" means left in even games and right in odd ones. reward "own": the game's own
    (+1 a bean, 3 - length a death; team view: summed); "difference": that sum of the own team less that of the enemy,
    which adds up to the final difference of scores; in the snake view "difference" is not available.

    Autoreset is AutoresetMode.SAME_STEP: when a game ends, the observation that step() returns is already the first one
    of the next game; the last one of the old game is infos["final_obs"][i], as Gymnasium's own vector environments give
    it, with infos["_final_obs"] telling where, and infos["final_info"] the result: "score", "score_against" (sums of
    length - 3 of the teams) and "outcome" (1 won, 0 drawn, -1 lost). infos["action_mask"] (features "team" only) is
    int8, 1 where a move leads into no body. A game ends (terminated) after 200 steps, on a full board, or when a
    respawn finds no place; episode_steps below 200 cuts it off (truncated).

    reset(seed=s) starts the first games of seed s; without a seed the games go on with the next ones.
    """

    metadata: ClassVar[dict] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
    render_mode = None
    spec = None

    def __init__(
        self,
        num_envs: int = 1,
        *,
        view: str = "team",
        opponent: str | ScriptedPlayer | NetworkPlayer = "greedy",
        features: str = "team",
        reward: str | None = None,
        side: str = "left",
        seed: int = 0,
        device="cpu",
        episode_steps: int = STEPS,
    ):
        for name, value in (("view", view), ("features", features), ("side", side)):
            if value not in CHOICES[name]:
                raise UserError(f"{name} is {value!r}: expected one of {', '.join(CHOICES[name])}")
        reward = reward or ("difference" if view == "team" else "own")
        if reward not in REWARDS or (view == "snake" and reward != "own"):
            raise UserError(f"reward is {reward!r}: expected own" + (" or difference" if view == "team" else ""))
        if num_envs < 1 or (view == "snake" and num_envs % TEAM):
            raise UserError(
                f"num_envs is {num_envs}: expected at least 1"
                + (f" and a multiple of {TEAM}, one for each snake of a team" if view == "snake" else "")
            )
        player = ScriptedPlayer(opponent) if isinstance(opponent, str) else opponent
        if isinstance(player, NetworkPlayer) and player.features != features:
            raise UserError(f"the opponent {player.name} sees {player.features}, expected the features {features}")
        self.num_envs, self.view, self.reward_kind = num_envs, view, reward
        self.games = num_envs if view == "team" else num_envs // TEAM
        self.features, self.episode_steps, self.device = features, episode_steps, torch.device(device)
        self.opponent = player.to(self.device)
        numbers = torch.arange(self.games, device=self.device)
        self.sides = (numbers % 2 if side == "both" else torch.full_like(numbers, int(side == "right"))).to(torch.int32)
        shape = (TEAM, FEATURES[features]) if view == "team" else (FEATURES[features],)
        self.single_observation_space = Box(-LIMIT, LIMIT, shape, np.float32)
        self.single_action_space = MultiDiscrete([MOVES] * TEAM) if view == "team" else Discrete(MOVES)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._make(seed)

    def _make(self, seed: int) -> None:
        frozen = isinstance(self.opponent, NetworkPlayer)
        self.game = SnakesVec(
            self.games,
            device=self.device,
            seed=seed,
            features=self.features,
            observe="both" if frozen else "own",
            episode_steps=self.episode_steps,
            keep_final=True,
        )
        rows = torch.arange(self.games, device=self.device)
        controllers = torch.zeros(self.games, 2, dtype=torch.int32, device=self.device)
        controllers[rows, 1 - self.sides.long()] = self.opponent.controller
        self.game.set_controllers(controllers[:, 0].contiguous(), controllers[:, 1].contiguous())
        self.game.sides.copy_(self.sides)
        self.rows = rows
        self.seat = self.sides.long() if frozen else torch.zeros_like(rows)  # where the own features lie
        self.own = self.sides.long()[:, None] * TEAM + torch.arange(TEAM, device=self.device)  # (games, 3) snakes
        self.enemy = (1 - self.sides.long())[:, None] * TEAM + torch.arange(TEAM, device=self.device)
        self.begun = False

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """(observations, infos); `options` has no effect."""
        if seed is not None:
            if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
                raise UserError(f"seed is {seed!r}: expected one whole number for all games")
        self.game.reset(None if seed is None else int(seed))
        self.begun = True
        observations = self._own(self.game.features)
        return observations, self._mask_info(observations)

    def step(self, actions):
        """(observations, rewards, terminations, truncations, infos), arrays of num_envs rows; copies, never views."""
        if not self.begun:
            raise UserError("the games have not begun: call reset() first")
        self._act(self._checked(actions))
        steps = self.game.step_count + 1
        self.game.step()
        done = self.game.done.bool()
        truncated = done & (steps >= self.episode_steps) if self.episode_steps < STEPS else torch.zeros_like(done)
        own = torch.gather(self.game.rewards, 1, self.own)  # (games, 3)
        if self.view == "snake":
            rewards = own.reshape(-1)
        else:
            rewards = own.sum(1)
            if self.reward_kind == "difference":
                rewards = rewards - torch.gather(self.game.rewards, 1, self.enemy).sum(1)
        observations = self._own(self.game.features)
        infos = self._mask_info(observations)
        if bool(done.any()):
            infos |= self._final_info(done)
        return (
            observations,
            rewards.double().cpu().numpy(),
            self._rows(done & ~truncated),
            self._rows(truncated),
            infos,
        )

    def close_extras(self, **kwargs) -> None:
        """Nothing is held."""

    def _checked(self, actions) -> torch.Tensor:
        """(games, 3) int32 on the device. UserError for a wrong shape, type or move."""
        array = np.asarray(actions)
        shape = self.action_space.shape
        if array.shape != shape or array.dtype.kind not in "iu":
            raise UserError(f"actions have shape {array.shape} and type {array.dtype}: expected {shape} whole numbers")
        if array.size and (array.min() < 0 or array.max() >= MOVES):
            raise UserError(
                f"an action is {array.min() if array.min() < 0 else array.max()}: expected 0 to 3 for"
                f" {', '.join(ACTIONS)}"
            )
        return torch.from_numpy(array.astype(np.int32)).reshape(self.games, TEAM).to(self.device)

    @torch.no_grad()
    def _act(self, actions: torch.Tensor) -> None:
        if isinstance(self.opponent, NetworkPlayer):
            logits = torch.zeros(self.games, 2, TEAM, MOVES, device=self.device)
            values = self.opponent.logits(self.game.features[self.rows, 1 - self.seat])
            logits[self.rows, 1 - self.seat] = values
            self.game.choose(logits, sample=self.opponent.sample)
        # After choose(), which writes both teams.
        self.game.actions.scatter_(1, self.own, actions)

    def _own(self, features: torch.Tensor) -> np.ndarray:
        """The own team's rows of a feature tensor, in the shape of the view; a copy."""
        chosen = features[self.rows, self.seat].cpu().numpy()  # (games, 3, F)
        return chosen if self.view == "team" else chosen.reshape(self.num_envs, -1)

    def _rows(self, games: torch.Tensor) -> np.ndarray:
        """A value of each game for each environment."""
        values = games.cpu().numpy()
        return values if self.view == "team" else np.repeat(values, TEAM)

    def _mask_info(self, observations: np.ndarray) -> dict:
        if self.features != "team":
            return {}
        mask = (observations[..., BLOCKED] < BLOCKED_FROM).astype(np.int8)
        mask[~mask.any(-1)] = 1  # a snake without a way out may do as it likes
        return {"action_mask": mask, "_action_mask": np.ones(self.num_envs, dtype=bool)}

    def _final_info(self, done: torch.Tensor) -> dict:
        ended = self._rows(done)
        last = np.full(self.num_envs, None, dtype=object)
        final = self._own(self.game.final_features)
        for index in np.flatnonzero(ended):
            last[index] = final[index]
        scores = self.game.final_scores.long()
        own, enemy = (torch.gather(scores, 1, team).sum(1) for team in (self.own, self.enemy))
        facts = {"score": own, "score_against": enemy, "outcome": torch.sign(own - enemy)}
        info = {}
        for name, values in facts.items():
            info |= {name: np.where(ended, self._rows(values), 0), f"_{name}": ended.copy()}
        return {"final_obs": last, "_final_obs": ended, "final_info": info, "_final_info": ended.copy()}


class SnakesEnv(gymnasium.Env):
    """One game of the team view: observations float32 (3, F), actions MultiDiscrete([4, 4, 4]).

    Takes the options of SnakesVectorEnv except num_envs and view. After the end info holds score, score_against and
    outcome. reset() without a seed starts the next game of the seed before.
    """

    metadata: ClassVar[dict] = {"render_modes": []}

    def __init__(self, **options):
        self.games = SnakesVectorEnv(1, view="team", **options)
        self.observation_space = self.games.single_observation_space
        self.action_space = self.games.single_action_space
        self.fresh = None

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """(observation, info)."""
        super().reset(seed=seed)
        if seed is None and self.fresh is not None:
            # The games were already put back by the step that ended the last one.
            observation, info = self.fresh
        else:
            observations, infos = self.games.reset(seed=seed)
            observation, info = observations[0], _single(infos)
        self.fresh = None
        return observation, info

    def step(self, action):
        """(observation, reward, terminated, truncated, info)."""
        observations, rewards, terminated, truncated, infos = self.games.step(np.asarray(action)[None])
        observation, info = observations[0], _single(infos)
        if terminated[0] or truncated[0]:
            self.fresh = observation, info
            observation = infos["final_obs"][0]
            final = infos["final_info"]
            info = {name: int(values[0]) for name, values in final.items() if not name.startswith("_")}
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info


def _single(infos: dict) -> dict:
    return {"action_mask": infos["action_mask"][0]} if "action_mask" in infos else {}


NAME = "quartet/Snakes3v3-v0"
if NAME not in gymnasium.registry:
    gymnasium.register(
        NAME,
        entry_point="lib.snakes.gymnasium_env:SnakesEnv",
        vector_entry_point="lib.snakes.gymnasium_env:SnakesVectorEnv",
    )
