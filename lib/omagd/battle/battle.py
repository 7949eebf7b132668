"""`BattleVec`: many battles at once, as torch tensors that the Warp kernels write in place."""

import torch
import warp as wp

from lib.errors import UserError
from lib.omagd.battle.arrays import EPISODE, LAST, STEP
from lib.omagd.battle.kernel import REWARD_CODES, battle_kernels
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import find_map
from lib.omagd.battle.paths import turns
from lib.omagd.battle.players import PLAYERS
from lib.omagd.battle.rules import JITTER_MOST, REACH, REWARDS, SIGHT_MOST, TICK_RATES
from lib.warp_noise import WORD, seed_words
from lib.warp_run import check_count, check_tensors, launcher, signed, torch_stream, warp_device

SIGHT = 9.0
SPAWN_JITTER = 0.3
STORED = ("words", "units", "aims", "returns", "final_returns", "rewards", "done", "info")


class BattleVec:
    """`num_battles` battles of one map in lockstep on one device.

    Battle n has the global id `first_battle + n`; its course is a function of (seed, global id, episode) and the
    actions alone, whatever the number of battles, processes and the device. With `autoreset` a battle that ends is
    replaced at once: rewards, done, info and final_returns tell of the old one, everything else of the new one, and
    with `keep_final` final_obs, final_full_obs and final_state of the end of the old one. Without it a finished battle
    stands still until `reset`.

    sight: how far agents see (`leaky_mask`: attacks are available up to 6 even if that is farther, as in SMAC).
    tick_rate: ticks a second, 16 or 22.4. reward: see `rules.py`. smac_type_bits: "aligned", or "raw" for SMAC's own
    numbering of the enemies' types. limit: steps of an episode, the map's own unless given.

    Tensors, shared with the kernels and overwritten by every step; A agents, E enemies, U = A + E units, C actions:

    obs, full_obs float32 [N, A, obs], state float32 [N, state], avail uint8 [N, A, C], visible uint8 [N, A, U] (of the
    nodes itself, other allies, enemies), alive uint8 [N, U] (allies, enemies), actions int32 [N, A], rewards float32
    [N], returns float32 [N] (of the episode so far), final_returns float32 [N] (of the last one that ended), done uint8
    [N], info int32 [N, 4] (of the last one that ended: won, ended by the limit, dead allies, dead enemies), step_count
    and episode int32 [N].
    """

    # What only games of others need, see lib/omagd/foreign/vec.py: these battles never fail and can be saved.
    dropped = ()
    restarts = 0
    resumable = True

    def __init__(
        self,
        map_name: str,
        num_battles: int,
        *,
        device: str | torch.device = "cpu",
        seed: int = 0,
        first_battle: int = 0,
        sight: float = SIGHT,
        leaky_mask: bool = False,
        tick_rate: float = 16.0,
        reward: str = "signed",
        spawn_jitter: float = SPAWN_JITTER,
        smac_type_bits: str = "aligned",
        limit: int | None = None,
        autoreset: bool = True,
        keep_final: bool = False,
    ):
        self.map = find_map(map_name)
        self.layout = Layout.of(self.map)
        check_count("num_battles", num_battles, 1, 1 << 22)
        check_count("first_battle", first_battle, 0, (1 << 31) - num_battles)
        limit = self.map.limit if limit is None else limit
        check_count("limit", limit, 1, (1 << 16) - 1)
        if not 0 < sight <= SIGHT_MOST:
            raise UserError(f"sight is {sight}: expected a length above 0 and at most {SIGHT_MOST}")
        if tick_rate not in TICK_RATES:
            raise UserError(f"tick_rate is {tick_rate}: expected 16 or 22.4")
        if reward not in REWARDS:
            raise UserError(f"reward is {reward!r}: expected one of {', '.join(REWARDS)}")
        if smac_type_bits not in ("aligned", "raw"):
            raise UserError(f"smac_type_bits is {smac_type_bits!r}: expected aligned or raw")
        if not 0 <= spawn_jitter <= JITTER_MOST:
            raise UserError(f"spawn_jitter is {spawn_jitter}: expected a length from 0 to {JITTER_MOST}")
        self.num_battles, self.device = num_battles, torch.device(device)
        self.seed, self.first_battle, self.limit, self.sight = seed, first_battle, limit, float(sight)
        with torch_stream(self.device):
            self._kernels = battle_kernels(map_name)
            arrays = self._arrays = self._allocate(keep_final)
        arrays.limit = limit
        arrays.autoreset, arrays.keep_final = int(autoreset), int(keep_final)
        arrays.reward = REWARD_CODES[reward]
        arrays.swapped = int(smac_type_bits == "raw" and self.map.type_names == ("stalker", "zealot"))
        arrays.dt = 1.0 / tick_rate
        arrays.sight = sight
        arrays.attack_range = REACH if leaky_mask else min(REACH, sight)
        arrays.jitter = spawn_jitter
        self._record()
        self._launch_reset()

    def _allocate(self, keep_final: bool):
        """All arrays, and the tensors that share their memory."""
        device, layout, n = warp_device(self.device), self.layout, self.num_battles
        tables = self._kernels.tables
        agents, units, actions = layout.n_agents, layout.n_nodes, layout.n_actions
        arrays = self._kernels.Arrays()

        def shared(name, shape, dtype, view=None):
            array = wp.zeros(shape, dtype=dtype, device=device)
            setattr(arrays, name, array)
            tensor = wp.to_torch(array)
            return tensor if view is None else tensor.view(view)

        self.words = shared("words", (n, LAST + agents), wp.int32)
        self.units = shared("units", (n, 6), tables.floats)[..., :units]
        self.aims = shared("aims", (n, 3), tables.ints)[..., :units]
        self.actions = shared("actions", (n, agents), wp.int32)
        self.avail = shared("avail", (n * agents, actions), wp.uint8, (n, agents, actions))
        self.visible = shared("visible", (n * agents, units), wp.uint8, (n, agents, units))
        self.alive = shared("alive", (n, units), wp.uint8)
        for prefix, kept in (("", n), ("final_", n if keep_final else 0)):
            for name in ("obs", "full_obs"):
                shape = (kept * agents, layout.obs_size)
                tensor = shared(prefix + name, shape, wp.float32, (kept, agents, layout.obs_size))
                setattr(self, prefix + name, tensor)
            setattr(self, f"{prefix}state", shared(f"{prefix}state", (kept, layout.state_size), wp.float32))
        for name in ("rewards", "returns", "final_returns"):
            setattr(self, name, shared(name, (n,), wp.float32))
        self.done = shared("done", (n,), wp.uint8)
        self.info = shared("info", (n, 4), wp.int32)
        self._refused = shared("refused", (2 + actions,), wp.int32)
        self._values = shared("values", (n * agents, actions), wp.float32, (n, agents, actions))
        self._choice = shared("choice", (2,), wp.float32)
        if tables.has_walls:
            arrays.turns = wp.array(turns(self.map.terrain), dtype=wp.int16, device=device)
        self._chosen = (0.0, 0)
        self._unchecked = False  # whether a step since the last check may have refused an action
        self.step_count = self.words[:, STEP]
        self.episode = self.words[:, EPISODE]
        return arrays

    def _record(self) -> None:
        """Records the launches; again whenever a number of `_arrays` has changed."""
        first, second = seed_words(self.seed)
        self._arrays.seed_first, self._arrays.seed_second = wp.uint32(first), wp.uint32(second)
        self._arrays.first_battle = self.first_battle
        device = self._arrays.words.device
        kernels = [getattr(self._kernels, name) for name in ("step", "reset", "refresh", "choose", "script")]
        self._commands = [
            wp.launch(each, dim=self.num_battles, inputs=[self._arrays], device=device, record_cmd=True)
            for each in kernels
        ]
        launches = [launcher(command, self.device) for command in self._commands]
        self._launch_step, self._launch_reset, self._launch_refresh, self._launch_choose, self._launch_script = launches

    def reset(self, seed: int | None = None) -> None:
        """Begins a new battle in every slot; one that has begun goes on to its next episode. With a seed all start over
        at episode 0."""
        if seed is not None:
            seed_words(seed)
            self.seed = seed
            self.words.zero_()
            self._record()
        self._launch_reset()

    def step(self, actions: torch.Tensor | None = None, check: bool = True) -> None:
        """One step of all battles. The caller has filled `actions`, or gives them: whole numbers [N, A].

        An action that is not available counts as no-op; with `check` (which on CUDA waits for the device) the first is
        told of by UserError after the step.
        """
        if actions is not None:
            if tuple(actions.shape) != tuple(self.actions.shape) or actions.is_floating_point():
                found = f"{tuple(actions.shape)} {actions.dtype}"
                raise UserError(f"actions are {found}: expected whole numbers {tuple(self.actions.shape)}")
            self.actions.copy_(actions)
        if check and self._unchecked:
            self._refused.zero_()
        self._unchecked = not check
        self._launch_step()
        if check and int(self._refused[0]):
            row, action, *mask = self._refused.tolist()
            self._refused.zero_()
            battle, agent = divmod(row - 1, self.layout.n_agents)
            raise UserError(
                f"battle {self.first_battle + battle}: agent {agent} cannot take action {action}; available are"
                f" {[number for number, free in enumerate(mask) if free]} (mask {mask})"
            )

    def choose(self, values: torch.Tensor, epsilon: float = 0.0) -> None:
        """Writes `actions`: the available action of the highest value [N, A, C], with probability epsilon a random one.

        The noise is a function of seed, battle, episode, step and agent.
        """
        if tuple(values.shape) != tuple(self._values.shape):
            raise UserError(f"values have shape {tuple(values.shape)}: expected {tuple(self._values.shape)}")
        self._values.copy_(values.detach())
        self._set_choice(epsilon, 0)
        self._launch_choose()

    def script(self, player: str = "nearest", epsilon: float = 0.0) -> None:
        """Writes `actions` of a scripted player of `players.PLAYERS`, with probability epsilon a random one."""
        if player not in PLAYERS:
            raise UserError(f"player {player!r} is not known: there are {', '.join(PLAYERS)}")
        self._set_choice(epsilon, PLAYERS.index(player))
        self._launch_script()

    def _set_choice(self, epsilon: float, player: int) -> None:
        if not 0.0 <= epsilon <= 1.0:
            raise UserError(f"epsilon is {epsilon}: expected a number from 0 to 1")
        if (epsilon, player) != self._chosen:
            self._choice.copy_(torch.tensor([epsilon, float(player)]))
            self._chosen = (epsilon, player)

    def refresh(self) -> None:
        """Computes what is told anew from the battles as they stand."""
        self._launch_refresh()

    def get_state(self) -> dict[str, torch.Tensor]:
        """Everything a later `set_state` needs to continue bit for bit, as copies on the CPU."""
        state = {name: getattr(self, name).detach().cpu().clone() for name in STORED}
        low, high = self.seed & WORD, self.seed >> 32
        state["origin"] = torch.tensor([signed(low), signed(high), self.first_battle], dtype=torch.int64)
        return state

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Continues from `get_state` of as many battles of the same map; seed and first_battle come along."""
        check_tensors(state, self.get_state())
        for name in STORED:
            getattr(self, name).copy_(state[name])
        low, high, self.first_battle = state["origin"].tolist()
        self.seed = (low & WORD) | (high & WORD) << 32
        self._record()
        self.refresh()

    def close(self) -> None:
        """Nothing has to be closed."""
