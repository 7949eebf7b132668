"""Playing the training games: all of them in lockstep, what the learner's seats saw and did goes to the replay."""

import torch

from lib.seeds import derive
from lib.snakes.game import SnakesVec
from lib.snakes.league import League
from lib.snakes.network import MOVES, Actor
from lib.snakes.opponents import opponent
from lib.snakes.options import SnakesOptions
from lib.snakes.replay_buffer import CUT, ENDED, ReplayBuffer
from lib.snakes.rules import CONTROLLERS, FEATURES, STEPS, TEAM

# The layout "team": distances / 15 to the five beans, and whether a mate or an enemy is nearer.
BEAN_DISTANCE, MATE_NEARER, ENEMY_NEARER, BEAN_END = 30, 31, 32, 53
DETOUR = (4.0, 2.0)  # cells added to the distance of a bean that a mate or an enemy reaches first
# What else is saved of a process, beside its games and its replay.
OWN = ("sums", "dying", "played", "enemies", "wanted", "potential")
STATISTICS = ("games", "wins", "draws", "snake_1", "snake_2", "snake_3", "enemy", "deaths")


class Collector:
    """The games of one process, their opponents and their replay; `neighbours` processes share this machine."""

    def __init__(
        self, config: SnakesOptions, league: League | None, *, rank: int, device: torch.device, neighbours: int = 1
    ):
        self.config, self.league, games = config, league, config.num_envs
        self.game = SnakesVec(
            games, device=str(device), seed=derive(config.seed, "games") % 2**31, first_game=rank * games,
            features=config.features, observe="own" if league is None else "both",
            episode_steps=config.episode_length,
        )  # fmt: skip
        number = rank * games + torch.arange(games, device=device)
        self.sides = (number % 2 if config.swap_sides else number * 0).to(self.game.sides.dtype)
        self.game.sides.copy_(self.sides)
        own = 2 * torch.arange(games, device=device) + self.sides.long()  # rows of (games x teams)
        if league is None:
            self.rows, self.seats = None, own
            self.enemies = torch.full((games,), CONTROLLERS["external"], device=device)
        else:
            self.enemies = league.controllers().to(device)
            self.rows = self.seats = torch.cat((own, own[league.latest] ^ 1))
            self.foes = own ^ 1
        self.buffer = ReplayBuffer(
            config.buffer_size, len(self.seats), FEATURES[config.features], config.n_step, config.gamma, device,
            batch_size=config.batch_size, neighbours=neighbours,
        )  # fmt: skip
        teams = 1 if league is None else 2
        self.logits = torch.zeros((games, teams, TEAM, MOVES), device=device)
        self.sums = torch.zeros((games, len(STATISTICS)), device=device)  # since the last look
        self.dying = torch.zeros(games, device=device)  # deaths of the own team in the game that runs
        self.played = torch.zeros((games, 3), device=device)  # games, wins, draws since the last turn
        self.steps = 0  # of all games together
        self.finished = 0  # games of this process that are over, as far as was looked
        self.epsilon = config.epsilon
        self.potential = torch.zeros((len(self.seats), TEAM), device=device)
        self.pending = 0  # steps in which games that end still get their new opponent
        self.wanted = self.enemies if league is not None else self._next_enemies()
        self._place(self.wanted)
        self.features = self.game.reset()
        self._see()
        if config.shaping:
            flat = self.game.features.view(-1, TEAM, self.game.features.shape[-1])
            self.potential = config.shaping * potential(flat if self.rows is None else flat[self.rows])

    def _next_enemies(self) -> torch.Tensor:
        code = CONTROLLERS[opponent(self.config, self.finished)]
        return torch.full_like(self.enemies, code)

    def _place(self, enemies: torch.Tensor) -> None:
        self.enemies = enemies
        external = torch.full_like(enemies, CONTROLLERS["external"])
        left = torch.where(self.sides.long() == 0, external, enemies)
        right = torch.where(self.sides.long() == 0, enemies, external)
        self.game.set_controllers(left, right)

    def _see(self) -> None:
        """What the seats see now goes to the replay."""
        flat = self.game.features.view(-1, TEAM, self.game.features.shape[-1])
        seen = flat if self.rows is None else flat[self.rows]
        self.buffer.see(seen)

    @torch.no_grad()
    def step(self, actor: Actor) -> None:
        """One step of all games."""
        self._act(actor)
        self.game.choose(self.logits, epsilon=self.epsilon, sample=True)
        lengths = self.game.step_count.clone() if self.config.episode_length < STEPS else None
        self.game.step()
        self._store(lengths)
        self.steps += 1
        self.epsilon = max(self.epsilon * self.config.epsilon_speed, self.config.epsilon_min)
        self._change_opponents()
        self._see()

    def _act(self, actor: Actor) -> None:
        flat = self.game.features.view(-1, TEAM, self.game.features.shape[-1])
        logits = self.logits.view(-1, TEAM, MOVES)
        if self.rows is None:
            logits.copy_(actor(flat))
            return
        logits[self.rows] = actor(flat[self.rows])
        for snapshot, games in self.league.past_slices():
            rows = self.foes[games]
            logits[rows] = snapshot(flat[rows])

    def _store(self, lengths: torch.Tensor | None) -> None:
        """Rewards as the learner counts them: own reward + team_reward x (own team - enemies) - death_penalty."""
        rewards = self.game.rewards.view(-1, TEAM)  # (games x teams, 3)
        deaths = self.game.deaths.view(-1, TEAM)
        own, enemy = rewards[self.seats], rewards[self.seats ^ 1]
        margin = (own.sum(-1, keepdim=True) - enemy.sum(-1, keepdim=True)) * self.config.team_reward
        shaped = own + margin - self.config.death_penalty * deaths[self.seats]
        actions = self.game.actions.view(-1, TEAM)[self.seats]
        done = self.game.done
        if self.config.shaping:
            shaped = shaped + self._progress(done)
        ends = done.to(torch.uint8) * ENDED
        if lengths is not None:
            ends = torch.where((done != 0) & (lengths + 1 >= self.config.episode_length), CUT, ends)
        self.buffer.complete(actions, shaped, ends[self.seats // 2])
        self._count(done)

    def _progress(self, done: torch.Tensor) -> torch.Tensor:
        """gamma x potential now - potential before, 0 at the end of a game: no policy gains by it (Ng et al. 1999)."""
        flat = self.game.features.view(-1, TEAM, self.game.features.shape[-1])
        after = self.config.shaping * potential(flat if self.rows is None else flat[self.rows])
        running = (done[self.seats // 2] == 0).unsqueeze(-1)
        gained = self.config.gamma * after * running - self.potential
        self.potential = after
        return gained

    def _count(self, done: torch.Tensor) -> None:
        rows = 2 * torch.arange(len(self.sides), device=done.device) + self.sides.long()
        self.dying += self.game.deaths.view(-1, TEAM)[rows].sum(-1)
        # On a GPU the question whether a game ended costs more than the sums.
        if done.device.type == "cpu" and not bool(done.any()):
            return
        scores = self.game.final_scores.view(-1, TEAM).float()
        own, enemy = scores[rows], scores[rows ^ 1].sum(-1)
        total = own.sum(-1)
        ended = done.float()
        parts = (ended, (total > enemy).float() * ended, (total == enemy).float() * ended)
        parts += tuple((own[:, snake] * ended) for snake in range(TEAM)) + (enemy * ended, self.dying * ended)
        self.sums += torch.stack(parts, -1)
        self.dying = self.dying * (1 - ended)
        self.played += torch.stack(parts[:3], -1)

    def _change_opponents(self) -> None:
        """A new opponent sits down where a game has ended, never in the midst of one."""
        if self.pending == 0:
            return
        self.pending -= 1
        self._place(torch.where(self.game.done.bool(), self.wanted, self.enemies))

    @property
    def turns(self) -> bool:
        """Whether as many steps as a game is long have passed since the last turn."""
        return self.steps % self.config.episode_length == 0

    def turn(self) -> torch.Tensor:
        """What was played since the last turn, (games, [games, wins, draws]) on the CPU."""
        played = self.played.cpu().clone()
        self.played.zero_()
        self.finished += int(played[:, 0].sum())
        return played

    def seat_opponents(self) -> None:
        """After a turn, and after the league has drawn: who comes next."""
        wanted = self._next_enemies() if self.league is None else self.league.controllers().to(self.enemies.device)
        if self.league is not None:
            # All games have just ended together; one that ended early changes its opponent in the midst of the next.
            self.wanted = wanted
            self._place(wanted)
        elif not torch.equal(wanted, self.wanted):
            self.wanted, self.pending = wanted, self.config.episode_length

    def look(self) -> dict[str, float]:
        """Sums over the games since the last look, by STATISTICS."""
        sums = self.sums.sum(0).tolist()
        self.sums.zero_()
        return dict(zip(STATISTICS, sums, strict=True))

    def name_of(self, seat: int) -> str:
        """The game a seat of the replay plays in, by its number over all processes."""
        return f"game-{self.game.first_game + int(self.seats[seat]) // 2:05d}"

    def get_state(self) -> tuple[dict, dict[str, torch.Tensor]]:
        """(JSON, tensors) of games, replay and counters of this process."""
        counters = {name: getattr(self, name) for name in ("steps", "finished", "epsilon", "pending")}
        own = {name: getattr(self, name).cpu() for name in OWN}
        return counters, {
            **{f"own.{name}": value for name, value in own.items()},
            **{f"game.{name}": value for name, value in self.game.get_state().items()},
            **{f"replay.{name}": value for name, value in self.buffer.get_state().items()},
        }

    def set_state(self, counters: dict, tensors: dict[str, torch.Tensor] | None) -> None:
        """Restore `get_state`; without tensors (another number of processes) games and replay begin anew."""
        for name, value in counters.items():
            setattr(self, name, value)
        if tensors is None:
            # The games begin anew: turns are to come at their ends.
            self.steps -= self.steps % self.config.episode_length
            self.pending, self.wanted = 0, self._next_enemies() if self.league is None else self.enemies
            self.seat_opponents()
            self._place(self.wanted)
            return
        parts = {kind: {} for kind in ("own", "game", "replay")}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            parts[kind][rest] = value
        self.buffer.set_state(parts["replay"])
        self.game.set_state(parts["game"])
        for name, value in parts["own"].items():
            setattr(self, name, value.to(self.sums.device))
        self._place(self.enemies)
        self.game.refresh()


def potential(features: torch.Tensor) -> torch.Tensor:
    """- distance in cells of each snake to the nearest bean it may hope for, (..., 3), from the layout "team"."""
    parts = [features[..., start:BEAN_END:5] for start in (BEAN_DISTANCE, MATE_NEARER, ENEMY_NEARER)]
    return -(15.0 * parts[0] + DETOUR[0] * parts[1] + DETOUR[1] * parts[2]).amin(-1)
