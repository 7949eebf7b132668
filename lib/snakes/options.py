"""The flags of snakes training. Names, meanings and defaults of the originals are kept; contradictions are refused."""

from dataclasses import dataclass
from typing import ClassVar

from lib.args import RunArgs, option
from lib.errors import UserError
from lib.snakes.learner import LearnerConfig
from lib.snakes.network import ActorConfig
from lib.snakes.rules import CONTROLLERS, STEPS

STRATEGIES = ("curriculum", "linear", "exponential", "fixed", "league")
BOTS = tuple(name for name in CONTROLLERS if name != "external")
LATEST, PAST = "latest", "past"
ALIASES = {"game": "game_name"}


@dataclass
class GameOptions(RunArgs):
    """What is played, against whom."""

    seed: int = option(1, "every random draw derives from it", "game")
    game_name: str = option("snakes_3v3", "the game", "game", choices=("snakes_3v3",))
    max_episodes: int = option(50_000, "games per process", "game", minimum=1)
    episode_length: int = option(STEPS, "steps after which a game is cut off", "game", minimum=2, maximum=STEPS)
    num_envs: int = option(64, "games played at once by each process", "game", minimum=1)
    swap_sides: bool = option(True, "play the right side in every second game", "game")
    features: str = option("team", "what a snake sees; jidi26: the original's", "game", choices=("team", "jidi26"))
    opponent_difficulty_strategy: str = option(
        "curriculum",
        "levels 0 to 4 by the share of --max_episodes played; fixed: --opponent; league: --league",
        "game",
        choices=STRATEGIES,
    )
    opponent: str = option("greedy", "the bot of --opponent_difficulty_strategy fixed", "game", choices=BOTS)
    league: str = option(
        "greedy=0.2,hunter=0.3,latest=0.3,past=0.2", "shares of the games against bots, itself and its past", "game"
    )
    enable_opponent_evasion: bool = option(False, "the evading bot replaces the level, from some episode on", "game")
    opponent_evasion_start_episode: int = option(40_000, "games per process before it does", "game", minimum=0)


@dataclass
class SnakesOptions(GameOptions):
    """Network, learning, run; the flags of the originals first in each group."""

    algo: str = option("ddpg", "bicnet: --comm lstm", "network", choices=("ddpg", "bicnet"))
    output_activation: str = option("softmax", "tanh: logits are 5 tanh(x)", "network", choices=("softmax", "tanh"))
    hidden: tuple[int, ...] = option((128, 128), "widths of the hidden layers", "network", minimum=1)
    comm: str = option("none", "lstm: over the three mates, between two layers", "network", choices=("none", "lstm"))
    mask: bool = option(True, "blocked moves are not chosen", "network")
    relaxation: str = option(
        "linear", "critic linear in the policy vector, or Gumbel straight-through", "network",
        choices=("linear", "gumbel_st"),
    )  # fmt: skip
    critic: str = option(
        "independent", "what a critic sees: the snake's own, or all of the team", "network",
        choices=("independent", "central"),
    )  # fmt: skip
    critics: int = option(2, "how many; the minimum is the target", "network", minimum=1, maximum=4)

    batch_size: int = option(128, "transitions of three snakes, per process and update", "learning", minimum=1)
    buffer_size: int = option(100_000, "transitions of three snakes, per process", "learning", minimum=1)
    a_lr: float = option(3e-4, "learning rate of the actor, before --lr_scale", "learning", above=0)
    c_lr: float = option(3e-4, "learning rate of the critics, before --lr_scale", "learning", above=0)
    lr_schedule: str = option("constant", "linear: to a tenth at the end", "learning", choices=("constant", "linear"))
    gamma: float = option(0.99, "discount of a step", "learning", minimum=0, maximum=1)
    tau: float = option(0.01, "share of the live weights that the targets take over at each update", "learning")
    epsilon: float = option(0.5, "share of random moves at the start", "learning", minimum=0, maximum=1)
    epsilon_speed: float = option(0.9995, "factor at each step of all games", "learning", above=0, maximum=1)
    epsilon_min: float = option(0.02, "never below", "learning", minimum=0, maximum=1)
    n_step: int = option(3, "rewards summed before the critic's estimate", "learning", minimum=1, maximum=50)
    updates_per_step: float = option(0.5, "updates for each step of all games", "learning", above=0)
    update_interval: int = option(1, "steps between updates; their number stays", "learning", minimum=1)
    entropy_bonus: float = option(0.01, "weight of the policy's entropy", "learning", minimum=0)
    huber: float = option(
        10.0, "critic error, in beans, above which it counts by its size: a death costs many", "learning", above=0
    )
    team_reward: float = option(0.2, "weight of (own team - enemy team) in a snake's reward", "learning", minimum=0)
    death_penalty: float = option(0.5, "taken from the reward at a death", "learning", minimum=0)

    shaping: float = option(
        0.0, "weight of a potential, - distance in cells to a bean within reach; needs --features team", "learning",
        minimum=0,
    )  # fmt: skip

    save_interval: int = option(1000, "games per process between checkpoints, 0 = none", "run", minimum=0)
    eval_games: int = option(200, "games of an evaluation while training; 1,000 at the end", "run", minimum=2)
    judges: str = option("greedy,hunter", "bots of those evaluations; their mean win rate says what is best", "run")
    final_games: int = option(1000, "games against each opponent at the end", "run", minimum=2)
    log_interval: int = option(500, "games of all processes between two blocks of the log", "run", minimum=1)
    log_every: int = option(100, "updates between rows of metrics.jsonl", "run", minimum=1)
    load_model: bool = option(False, "start from the weights of another run, targets included", "run")
    load_model_run: int = option(2, "its number", "run", minimum=0)
    load_model_run_episode: int = option(4000, "its episode", "run", minimum=0)
    model_episode: int = option(0, "start value of the episode counter in file names", "run", minimum=0)
    log_dir: str | None = option(None, "kept in config.json; --output_dir names the folder", "run")
    report_json: str | None = option(None, "also write results.json here", "run")
    visualize: bool = option(True, "report.html and plots at the end", "run")
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    local_rank: int | None = option(None, "accepted where it agrees with the launcher", "run")
    memory_remedies: ClassVar[tuple[str, ...]] = ("batch_size", "buffer_size", "num_envs", "hidden")

    def learner_config(self) -> LearnerConfig:
        """What the update is made of."""
        comm = "lstm" if self.algo == "bicnet" else self.comm
        actor = ActorConfig(self.features, tuple(self.hidden), comm, self.mask, self.output_activation)
        central = self.critic == "central"
        return LearnerConfig(actor, self.relaxation, central, self.critics, self.entropy_bonus, self.huber)


def check_options(config: SnakesOptions) -> list[str]:
    """Raise UserError for a flag that could have no effect; return the log lines of what was decided."""
    asked, notes = config.explicit, []
    if config.algo == "bicnet" and "comm" in asked and config.comm != "lstm":
        raise UserError(f"--algo bicnet with --comm {config.comm}: it means --comm lstm; give one of the two")
    learner = config.learner_config()
    if learner.actor.comm == "lstm" and len(set(config.hidden)) > 1:
        raise UserError(f"--hidden {config.hidden} with --comm lstm: all widths are equal there; give one number twice")
    if "mask" in asked and config.mask and config.features != "team":
        raise UserError(f"--mask has no effect with --features {config.features}: drop it, or use --features team")
    if config.shaping and config.features != "team":
        raise UserError(f"--shaping {config.shaping} with --features {config.features}: it needs --features team")
    for flag, strategy in (("opponent", "fixed"), ("league", "league")):
        if flag in asked and config.opponent_difficulty_strategy != strategy:
            raise UserError(
                f"--{flag} has no effect with --opponent_difficulty_strategy {config.opponent_difficulty_strategy}:"
                f" give --opponent_difficulty_strategy {strategy}"
            )
    if config.enable_opponent_evasion and config.opponent_difficulty_strategy == "league":
        raise UserError("--enable_opponent_evasion with a league: name the bot in --league instead, evasion=0.2 say")
    for flag in ("load_model_run", "load_model_run_episode"):
        if flag in asked and not config.load_model:
            raise UserError(f"--{flag} has no effect without --load_model: add it, or drop --{flag}")
    if config.load_model and config.resume:
        raise UserError("--load_model with --resume: the first takes weights, the second everything; give one of them")
    if not 0 <= config.tau <= 1:
        raise UserError(f"--tau {config.tau}: expected a share from 0 to 1")
    if config.epsilon_min > config.epsilon:
        if "epsilon_min" in asked:
            raise UserError(f"--epsilon {config.epsilon} is below --epsilon_min {config.epsilon_min}: give less there")
        config.epsilon_min = config.epsilon
    if config.gradient_accumulation_steps != 1:
        raise UserError(
            f"--gradient_accumulation_steps {config.gradient_accumulation_steps}: an update of this size gains nothing"
            " by being divided; give a larger --batch_size"
        )
    if config.episode_length < STEPS and config.episode_length <= config.n_step:
        raise UserError(
            f"--episode_length {config.episode_length} with --n_step {config.n_step}: every future would be cut off;"
            f" give a length above {config.n_step}"
        )
    if config.log_dir is not None:
        notes.append(
            f"--log_dir {config.log_dir}: kept in config.json, as in the original; --output_dir names the folder"
        )
    league_shares(config.league)
    judge_names(config.judges)
    if config.episode_length < STEPS:
        notes.append(f"--episode_length {config.episode_length}: games are cut off, which is not taken for their end")
    return notes


def judge_names(text: str) -> list[str]:
    """`greedy,hunter` as names of bots. UserError for an unknown one."""
    names = list(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    unknown = [name for name in names if name not in BOTS]
    if unknown or not names:
        raise UserError(
            f"--judges {text!r}: {unknown[0] if unknown else 'nobody'!r}; expected some of {', '.join(BOTS)}"
        )
    return names


def league_shares(text: str) -> dict[str, float]:
    """`greedy=0.4,latest=0.3,past=0.3` as shares of the games. UserError for an unknown name or a sum that is not 1."""
    shares = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, share = part.partition("=")
        known = (*BOTS, LATEST, PAST)
        if name not in known:
            raise UserError(f"--league {text}: {name!r} is not known; expected {', '.join(known)}")
        try:
            shares[name] = float(share)
        except ValueError:
            raise UserError(f"--league {text}: {part!r} has no share; expected {name}=0.3, say") from None
    if any(share <= 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise UserError(f"--league {text}: the shares sum to {sum(shares.values()):g}, expected positive ones, sum 1")
    return shares
