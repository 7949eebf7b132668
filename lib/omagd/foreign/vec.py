"""`ForeignVec`: many environments of a game of others, as the tensors of `lib.omagd.battle.battle.BattleVec`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from lib.errors import UserError
from lib.omagd.battle.arrays import DEAD_ALLIES, DEAD_ENEMIES, LIMIT, WON
from lib.omagd.battle.layout import NO_OP, STOP
from lib.omagd.foreign.game import Game, GameCrashed, Outcome
from lib.omagd.foreign.players import PLAYERS, nearest_actions, random_actions
from lib.omagd.foreign.slot import Slot
from lib.seeds import numpy_generator


class ForeignVec:
    """`num_battles` environments of one game in lockstep, environment n for battle `first_battle + n` of the run.

    Attributes, shapes and methods are those of `BattleVec`; beside them
    dropped: the places whose episode was lost in the last step, because the game failed and was started anew;
    restarts: how often that has happened. A game that fails again before an episode came to its end is a UserError.

    Games that run in processes of their own (StarCraft II) are stepped in threads, which wait side by side for what
    those compute; games in Python (SMAClite) one after the other: threads would take turns all the same. The first
    start is always one after the other: many StarCraft II at once take each other's ports.

    Draws of ours (exploration, the random player) are functions of (seed, battle, episode, step); so are the starts of
    battles as far as the game lets them be given. A game cannot be saved: `get_state` keeps the counts alone, and
    `set_state` begins new battles (`resumable`).

    make: starts a game from a seed. log: takes a line of text. strict: observations whose layout is not the one that
    full_obs is written in are a UserError, otherwise a log line. begin=False: nothing is started before `reset`.
    """

    resumable = False

    def __init__(
        self,
        make: Callable[[int], Game],
        num_battles: int,
        *,
        device: str | torch.device = "cpu",
        seed: int = 0,
        first_battle: int = 0,
        autoreset: bool = True,
        strict: bool = False,
        log: Callable[[str], None] = print,
        begin: bool = True,
    ):
        self.num_battles, self.device, self.autoreset = num_battles, torch.device(device), autoreset
        self.seed, self.first_battle, self.strict, self.log = seed, first_battle, strict, log
        self.slots = [Slot(make, seed, first_battle + number) for number in range(num_battles)]
        game = self.slots[0].game = make(self.slots[0].seed_of("game", 0))  # starts with its first battle
        self.layout, self.map, self.limit = game.layout, game.map, game.map.limit
        self.dropped: list[int] = []
        self._playing = num_battles  # places beyond these stand still
        self._pool = ThreadPoolExecutor(num_battles) if game.waits and num_battles > 1 else None
        self._allocate()
        self._begun = False
        if begin:
            self.reset()

    def _allocate(self) -> None:
        """The tensors, and the arrays on the CPU that are written and copied to them."""
        layout, n = self.layout, self.num_battles
        agents, units, actions = layout.n_agents, layout.n_nodes, layout.n_actions
        shapes = {
            "obs": ((n, agents, layout.obs_size), torch.float32),
            "full_obs": ((n, agents, layout.obs_size), torch.float32),
            "state": ((n, layout.state_size), torch.float32),
            "avail": ((n, agents, actions), torch.uint8),
            "visible": ((n, agents, units), torch.uint8),
            "alive": ((n, units), torch.uint8),
            "rewards": ((n,), torch.float32),
            "returns": ((n,), torch.float32),
            "final_returns": ((n,), torch.float32),
            "done": ((n,), torch.uint8),
            "info": ((n, 4), torch.int32),
            "step_count": ((n,), torch.int32),
            "episode": ((n,), torch.int32),
        }
        host = {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()}
        self._host = {name: tensor.numpy() for name, tensor in host.items()}
        self._pairs = []
        for name, tensor in host.items():
            shared = tensor if self.device.type == "cpu" else tensor.to(self.device)
            setattr(self, name, shared)
            if shared is not tensor:
                self._pairs.append((shared, tensor))
        self.actions = torch.zeros(n, agents, dtype=torch.int32, device=self.device)
        self._last_actions = np.full((n, agents), -1)

    @property
    def restarts(self) -> int:
        """How often a game failed and was started anew."""
        return sum(slot.restarts for slot in self.slots)

    def reset(self, seed: int | None = None, first_battle: int | None = None, playing: int | None = None) -> None:
        """Begins a new battle everywhere; with a seed (and numbers of battles) at episode 0.

        playing: only so many places play, the others stand still and are done.
        """
        first = self.first_battle if first_battle is None else first_battle
        self._playing = self.num_battles if playing is None else playing
        for number, slot in enumerate(self.slots):
            if seed is not None:
                slot.seed, slot.battle, slot.episode = seed, first + number, 0
            elif self._begun:
                slot.episode += 1
        self.seed, self.first_battle = self.seed if seed is None else seed, first
        for name in ("rewards", "returns", "done"):
            self._host[name][:] = 0
        self._host["done"][self._playing :] = 1
        self._begin_all()

    def _begin_all(self) -> None:
        playing = range(self._playing)
        begun = [n for n in playing if self._begun and self.slots[n].game is not None]
        errors = {n: self._try_begin(n) for n in playing if n not in begun}
        errors |= dict(zip(begun, self._each(self._try_begin, begun), strict=True))
        for number, error in errors.items():
            if error is not None:
                self.log(self.slots[number].restart(error, lost=False))
        self.dropped = []
        self._last_actions[:] = -1
        for number in playing:
            self._tell(number)
        if not self._begun:
            self._check_layout()
        self._begun = True
        self._publish()

    def _try_begin(self, number: int) -> GameCrashed | None:
        try:
            self.slots[number].begin()
        except GameCrashed as error:
            return error
        return None

    def _check_layout(self) -> None:
        """Once, at the first battles: whether the game's observations are laid out as we write them."""
        for slot in self.slots[: self._playing]:
            wrong = slot.game.mismatch()
            if wrong:
                text = f"{slot.game.name}: {wrong}: this version tells of units in another way than the known one"
                if self.strict:
                    raise UserError(f"{text}; --observe obs takes its observations as they are")
                self.log(f"{text}; full_obs is not to be trusted")
                return

    def _each(self, task: Callable, numbers) -> list:
        """task(number) of all numbers, side by side where that helps."""
        return list(self._pool.map(task, numbers)) if self._pool is not None else [task(number) for number in numbers]

    def step(self, actions: torch.Tensor | None = None, check: bool = True) -> None:
        """One step of all battles. The caller has filled `actions`, or gives them: whole numbers [N, A].

        An action that is not available is a UserError before anything is played; without `check` it counts as stop, of
        a dead agent as no-op.
        """
        if actions is not None:
            if tuple(actions.shape) != tuple(self.actions.shape) or actions.is_floating_point():
                found = f"{tuple(actions.shape)} {actions.dtype}"
                raise UserError(f"actions are {found}: expected whole numbers {tuple(self.actions.shape)}")
            self.actions.copy_(actions)
        host = self._host
        numbers = [n for n in range(self._playing) if self.autoreset or not host["done"][n]]
        chosen = self._available(self.actions.cpu().numpy(), numbers, check)
        host["rewards"][:] = 0.0
        self.dropped = []
        self._last_actions[numbers] = chosen[numbers]
        played = self._each(lambda n: self.slots[n].play(chosen[n].tolist(), self.autoreset), numbers)
        for number, (outcome, error) in zip(numbers, played, strict=True):
            if outcome is not None:
                self._note(number, outcome)
            if error is not None:
                self.log(self.slots[number].restart(error, lost=outcome is None))
            if outcome is None:
                self.dropped.append(number)
                host["returns"][number], host["done"][number] = 0.0, 0
            if outcome is None or outcome.done:
                self._last_actions[number] = -1
            self._tell(number)
        self._publish()

    def _available(self, actions: np.ndarray, numbers: list[int], check: bool) -> np.ndarray:
        """The actions, those that are not available replaced or refused."""
        avail = self._host["avail"]
        inside = (actions >= 0) & (actions < self.layout.n_actions)
        safe = np.where(inside, actions, NO_OP)
        allowed = inside & (np.take_along_axis(avail, safe[..., None].astype(np.int64), -1)[..., 0] != 0)
        wrong = [(n, *place) for n in numbers for place in np.argwhere(~allowed[n])]
        if check and wrong:
            number, agent = (int(place) for place in wrong[0])
            mask = avail[number, agent].tolist()
            free = [action for action, can in enumerate(mask) if can]
            raise UserError(
                f"battle {self.slots[number].battle}: agent {agent} cannot take action {int(actions[number, agent])};"
                f" available are {free} (mask {mask})"
            )
        return np.where(allowed, actions, np.where(avail[..., STOP] != 0, STOP, NO_OP))

    def _note(self, number: int, outcome: Outcome) -> None:
        """Rewards and, at the end of a battle, what is known of it."""
        host = self._host
        host["rewards"][number] = outcome.reward
        host["returns"][number] += outcome.reward
        host["done"][number] = outcome.done
        if outcome.done:
            info = host["info"][number]
            info[WON], info[LIMIT] = outcome.won, outcome.late
            info[DEAD_ALLIES], info[DEAD_ENEMIES] = outcome.dead_allies, outcome.dead_enemies
            host["final_returns"][number] = host["returns"][number]
            if self.autoreset:
                host["returns"][number] = 0.0

    def _tell(self, number: int) -> None:
        """What the game of a place tells now."""
        slot, host = self.slots[number], self._host
        for name in ("obs", "full_obs", "state", "avail", "visible", "alive"):
            host[name][number] = getattr(slot.game, name)()
        host["step_count"][number], host["episode"][number] = slot.step, slot.episode

    def _publish(self) -> None:
        for shared, tensor in self._pairs:
            shared.copy_(tensor)

    def choose(self, values: torch.Tensor, epsilon: float = 0.0) -> None:
        """Writes `actions`: the available action of the highest value [N, A, C], with probability epsilon a random one.

        The noise is a function of seed, battle, episode, step and agent.
        """
        avail = self._host["avail"]
        if tuple(values.shape) != avail.shape:
            raise UserError(f"values have shape {tuple(values.shape)}: expected {avail.shape}")
        best = np.where(avail != 0, values.detach().float().cpu().numpy(), -np.inf).argmax(-1)
        self._write_actions(lambda number: best[number], epsilon)

    def script(self, player: str = "nearest", epsilon: float = 0.0) -> None:
        """Writes `actions` of a scripted player of `players.PLAYERS`, with probability epsilon a random one."""
        if player not in PLAYERS:
            raise UserError(f"player {player!r} is not known: there are {', '.join(PLAYERS)}")
        if player == "random":
            self._write_actions(lambda number: np.zeros(self.layout.n_agents, int), 1.0)
        else:
            self._write_actions(lambda n: nearest_actions(self.slots[n].game, self._last_actions[n]), epsilon)

    def _write_actions(self, preferred: Callable[[int], np.ndarray], epsilon: float) -> None:
        if not 0.0 <= epsilon <= 1.0:
            raise UserError(f"epsilon is {epsilon}: expected a number from 0 to 1")
        chosen = np.zeros((self.num_battles, self.layout.n_agents), np.int64)
        for number in range(self._playing):
            slot = self.slots[number]
            chosen[number] = preferred(number)
            if epsilon > 0:
                noise = numpy_generator(slot.seed, "explore", slot.battle, slot.episode, slot.step)
                draws = noise.random((2, self.layout.n_agents))
                others = random_actions(self._host["avail"][number], draws[1])
                chosen[number] = np.where(draws[0] < epsilon, others, chosen[number])
        self.actions.copy_(torch.from_numpy(chosen))

    def get_state(self) -> dict[str, torch.Tensor]:
        """The counts that a later `set_state` continues, on the CPU; the battles themselves cannot be saved."""
        rows = [[slot.battle, slot.episode, slot.restarts] for slot in self.slots]
        return {"slots": torch.tensor(rows, dtype=torch.int64)}

    def set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Begins the battles that follow those of `get_state`: whatever was played then was another episode."""
        rows = state["slots"].tolist()
        if len(rows) != len(self.slots):
            raise UserError(
                f"{len(rows)} battles are saved, and this has {len(self.slots)}: resume with the saved --batch_size_run"
            )
        for slot, (battle, episode, restarts) in zip(self.slots, rows, strict=True):
            slot.battle, slot.episode, slot.restarts = battle, episode + 1, restarts
        for name in ("rewards", "returns", "done"):
            self._host[name][:] = 0
        self._begin_all()

    def close(self) -> None:
        """Ends all games."""
        for slot in self.slots:
            slot.close()
        if self._pool is not None:
            self._pool.shutdown()
