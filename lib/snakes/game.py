"""`SnakesVec`: many games of 3v3 snakes at once, as torch tensors that the Warp kernels write in place."""

from __future__ import annotations

import torch
import warp as wp

from lib.errors import UserError
from lib.snakes.features_tables import delta_table, fact_table
from lib.snakes.features_team import vec4f
from lib.snakes.game_state import read_game, write_beans, write_game
from lib.snakes.kernel import (
    FEATURE_KINDS,
    SCRATCH,
    GameArrays,
    choose_kernel,
    refresh_kernel,
    reset_kernel,
    step_kernel,
)
from lib.snakes.kernel_board import EPISODE, PLACES, STEP, WORDS, neighbour_table
from lib.snakes.rules import CONTROLLERS, SNAKES, START_LENGTH, STEPS, TEAM, controller_code, feature_count
from lib.snakes.state import GameState
from lib.warp_noise import WORD, seed_words
from lib.warp_run import check_count, check_tensors, launcher, signed, torch_stream, warp_device

MOST_STEPS = 10_000
STATE = ("words", "codes", "controllers", "sides", "actions", "rewards", "deaths", "ate", "done")
STATE_SCORES = ("scores", "final_scores")


class SnakesVec:
    """`num_envs` games in lockstep on one device.

    Game n has the global id `first_game + n`; its course is a function of (seed, global id, episode) and the actions
    alone, whatever the number of games, processes and the device. left, right: "external" (the caller writes
    `actions`) or a scripted player of `rules.CONTROLLERS`. With `autoreset` (SAME_STEP) a game that ends is replaced at
    once: rewards, deaths, done and scores tell of the old game, features, step_count and episode of the new one, and
    with `keep_final` final_features of the end of the old one. Without it a finished game stands still until `reset`.

    Tensors, shared with the kernels and overwritten by every step; T = 1 team (observe="own": the team `sides[n]`) or
    2 (observe="both": left, right); F numbers per snake of the layout `features` ("team", "jidi26", "none"):

    features float32 [N, T, 3, F], final_features the same (keep_final), actions int32 [N, 6] (read for external teams;
    after a step also what the others did), rewards float32 [N, 6] (the game's own), deaths, ate uint8 [N, 6], done
    uint8 [N], scores int32 [N, 6] (length - 3 after this step, before a reset), final_scores int32 [N, 6] (of the last
    game that ended), step_count int32 [N], episode int32 [N] (games finished in this slot), sides int32 [N] and
    controllers int32 [N, 2] (may be written between steps).

    On CUDA the kernels run on torch's current stream of the time of the call, and nothing is read back.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        device: str | torch.device = "cpu",
        seed: int = 0,
        first_game: int = 0,
        features: str = "team",
        observe: str = "own",
        left: str = "external",
        right: str = "greedy",
        episode_steps: int = STEPS,
        autoreset: bool = True,
        keep_final: bool = False,
    ):
        check_count("num_envs", num_envs, 1, 1 << 24)
        check_count("episode_steps", episode_steps, 1, MOST_STEPS)
        check_count("first_game", first_game, 0, (1 << 31) - num_envs)
        if observe not in ("own", "both"):
            raise UserError(f"observe is {observe!r}: expected 'own' or 'both'")
        self.num_envs = num_envs
        self.device = torch.device(device)
        self.feature_name = features
        self.feature_count = feature_count(features)
        self.teams = 2 if observe == "both" else 1
        self.seed, self.first_game = seed, first_game
        with torch_stream(self.device):
            self._arrays = self._allocate(keep_final)
        self._arrays.kind = FEATURE_KINDS[features]
        self._arrays.both = int(observe == "both")
        self._arrays.steps = episode_steps
        self._arrays.autoreset = int(autoreset)
        self._arrays.keep_final = int(keep_final and features != "none")
        self.set_controllers(left, right)
        self._record()
        self._launch_reset()

    def _allocate(self, keep_final: bool) -> GameArrays:
        """All arrays, and the tensors that share their memory."""
        device = warp_device(self.device)
        games, teams, count = self.num_envs, self.teams, self.feature_count
        arrays = GameArrays()

        def shared(name, shape, dtype, tensor_shape=None):
            array = wp.zeros(shape, dtype=dtype, device=device)
            setattr(arrays, name, array)
            tensor = wp.to_torch(array)
            return tensor if tensor_shape is None else tensor.view(tensor_shape)

        self._words = shared("words", (games, WORDS), wp.int32)
        self._codes = shared("codes", (games, PLACES), wp.uint8)
        shared("scratch", (games, SCRATCH), wp.int16)
        self.controllers = shared("controllers", (games, 2), wp.int32)
        self.sides = shared("sides", (games,), wp.int32)
        self.actions = shared("actions", (games, SNAKES), wp.int32)
        self.rewards = shared("rewards", (games, SNAKES), wp.float32)
        self.deaths = shared("deaths", (games, SNAKES), wp.uint8)
        self.ate = shared("ate", (games, SNAKES), wp.uint8)
        self.done = shared("done", (games,), wp.uint8)
        self.scores = shared("scores", (games, SNAKES), wp.int32)
        self.final_scores = shared("final_scores", (games, SNAKES), wp.int32)
        self.features = shared("features", (games, teams * TEAM * count), wp.float32, (games, teams, TEAM, count))
        kept = games if keep_final else 0
        self.final_features = shared(
            "final_features", (kept, teams * TEAM * count), wp.float32, (kept, teams, TEAM, count)
        )
        self._logits = shared("logits", (games * teams * TEAM, 4), wp.float32, (games, teams, TEAM, 4))
        self._choice = shared("choice", (2,), wp.float32)
        self._chosen = (0.0, False)
        self.step_count = self._words[:, STEP]
        self.episode = self._words[:, EPISODE]
        arrays.neighbours = wp.array(neighbour_table(), dtype=wp.int16, device=device)
        arrays.deltas = wp.array(delta_table(), dtype=wp.int32, device=device)
        arrays.facts = wp.array(fact_table(), dtype=vec4f, device=device)
        return arrays

    def _record(self) -> None:
        """Records the launches; again whenever a number of `_arrays` has changed."""
        first, second = seed_words(self.seed)
        self._arrays.seed_first, self._arrays.seed_second = wp.uint32(first), wp.uint32(second)
        self._arrays.first_game = self.first_game

        kernels = (step_kernel, refresh_kernel, reset_kernel, choose_kernel)
        device = self._arrays.words.device
        self._commands = [
            wp.launch(kernel, dim=self.num_envs, inputs=[self._arrays], device=device, record_cmd=True)
            for kernel in kernels
        ]
        launchers = [launcher(command, self.device) for command in self._commands]
        self._launch_step, self._launch_refresh, self._launch_reset, self._launch_choose = launchers

    def reset(self, seed: int | None = None) -> torch.Tensor:
        """Begins a new game in every slot and returns `features`.

        A slot whose game has begun goes on to its next episode. With a seed everything starts over at episode 0.
        """
        if seed is not None:
            seed_words(seed)
            self.seed = seed
            self.step_count.zero_()
            self.episode.zero_()
            self._record()
        self._launch_reset()
        return self.features

    def step(self, actions: torch.Tensor | None = None) -> None:
        """One step of all games. The caller has filled `actions`, or gives them: [N, 6], whole numbers 0 to 3.

        Given actions are checked, which on CUDA waits for the device; of actions written in place the lowest two bits
        count.
        """
        if actions is not None:
            self.actions.copy_(self._checked_actions(actions))
        self._launch_step()

    def refresh(self) -> torch.Tensor:
        """Computes `features` anew from the games as they stand (after a change of `sides` or an injected game)."""
        self._launch_refresh()
        return self.features

    def choose(self, logits: torch.Tensor, *, epsilon: float = 0.0, sample: bool = True) -> None:
        """Writes `actions` of the observed external teams from logits [N, T, 3, 4].

        sample: a draw from the softmax of the logits (Gumbel-max with the noise of stream EXPLORE, a function of seed,
        game, episode, step and snake), and with probability epsilon for each snake a uniform one among the moves whose
        logit is less than 15 below the best. Otherwise the largest logit, the first of equal ones.
        """
        if tuple(logits.shape) != tuple(self._logits.shape):
            raise UserError(f"logits have shape {tuple(logits.shape)}: expected {tuple(self._logits.shape)}")
        if not 0.0 <= epsilon <= 1.0:
            raise UserError(f"epsilon is {epsilon}: expected a number from 0 to 1")
        self._logits.copy_(logits.detach())
        if (epsilon, sample) != self._chosen:
            self._choice.copy_(torch.tensor([epsilon, float(sample)]))
            self._chosen = (epsilon, sample)
        self._launch_choose()

    def set_controllers(self, left: str | torch.Tensor, right: str | torch.Tensor) -> None:
        """Who plays each team: a name for all games, or an integer tensor [N] of codes of `rules.CONTROLLERS`."""
        for team, player in enumerate((left, right)):
            if isinstance(player, str):
                codes = torch.full((self.num_envs,), controller_code(player), dtype=torch.int32)
            else:
                codes = _checked_codes(player, self.num_envs)
            self.controllers[:, team] = codes.to(self.device)

    def get_state(self) -> dict[str, torch.Tensor]:
        """Everything a later `set_state` needs to continue bit for bit, as copies on the CPU."""
        state = {name.lstrip("_"): tensor.detach().cpu().clone() for name, tensor in self._stored().items()}
        low, high = self.seed & WORD, self.seed >> 32
        state["origin"] = torch.tensor([signed(low), signed(high), self.first_game], dtype=torch.int64)
        return state

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Continues from `get_state` of a SnakesVec with the same number of games; seed and first_game come along."""
        check_tensors(state, self.get_state())
        for name, tensor in self._stored().items():
            tensor.copy_(state[name.lstrip("_")])
        low, high, self.first_game = state["origin"].tolist()
        self.seed = (low & WORD) | (high & WORD) << 32
        self._record()
        self.refresh()

    def _stored(self) -> dict[str, torch.Tensor]:
        names = ("_words", "_codes", *STATE[2:], *STATE_SCORES)
        return {name: getattr(self, name) for name in names}

    def snapshot(self, n: int) -> GameState:
        """Game n as plain data."""
        return read_game(self._words[self._slot(n)].tolist(), self._codes[n].tolist())

    def inject(self, n: int, state: GameState) -> None:
        """Replaces game n; call `refresh` before reading `features`. UserError for a position that cannot be."""
        state.check()
        words, codes = write_game(state, self.seed, self.first_game + self._slot(n))
        self._words[n] = torch.tensor(words, dtype=torch.int32)
        self._codes[n] = torch.tensor(codes, dtype=torch.uint8)
        self.scores[n] = torch.tensor([len(snake) - START_LENGTH for snake in state.snakes], dtype=torch.int32)

    def inject_beans(self, n: int, beans: list[int]) -> None:
        """Replaces the beans of game n (cells in list order); call `refresh` before reading `features`."""
        words = self._words[self._slot(n)].tolist()
        write_beans(words, list(beans))
        self._words[n] = torch.tensor(words, dtype=torch.int32)

    def _slot(self, n: int) -> int:
        if not 0 <= n < self.num_envs:
            raise UserError(f"game {n}: expected 0 to {self.num_envs - 1}")
        return n

    def _checked_actions(self, actions) -> torch.Tensor:
        if not isinstance(actions, torch.Tensor):
            actions = torch.as_tensor(actions)
        if tuple(actions.shape) != (self.num_envs, SNAKES):
            raise UserError(f"actions have shape {tuple(actions.shape)}: expected ({self.num_envs}, {SNAKES})")
        if actions.is_floating_point() or actions.is_complex() or actions.dtype == torch.bool:
            raise UserError(f"actions are {actions.dtype}: expected whole numbers 0 to 3 (torch.int32)")
        low, high = actions.aminmax()
        if int(low) < 0 or int(high) > 3:
            found = int(low) if int(low) < 0 else int(high)
            raise UserError(f"an action is {found}: expected 0 up, 1 down, 2 left or 3 right")
        return actions


def _checked_codes(player, num_envs: int) -> torch.Tensor:
    if not isinstance(player, torch.Tensor) or tuple(player.shape) != (num_envs,) or player.is_floating_point():
        raise UserError(f"players of a team: expected a name or an integer tensor of shape ({num_envs},)")
    codes = player.to("cpu", torch.int32)
    if bool(((codes < 0) | (codes >= len(CONTROLLERS))).any()):
        raise UserError(f"a player code is outside 0 to {len(CONTROLLERS) - 1}: see lib.snakes.rules.CONTROLLERS")
    return codes
