"""The snakes trainer in the promise suite."""

from pathlib import Path

from trainer_case import ROOT, BadInput, TrainerCase

RUNS = ("runs/*",)


def no_data(folder: Path) -> list[str]:
    """The game is the data."""
    return []


def pick_record(run: Path) -> str:
    """The last of the four games of the first process: all are drawn at every step."""
    return "game-00003"


def break_record(name: str) -> None:
    """In a run: what one game shows is not finite."""
    from lib.snakes.replay_buffer import ReplayBuffer

    def poisoned(self, batch_size, seed, update, rank, processes):
        batch, seats = sample(self, batch_size, seed, update, rank, processes)
        batch.features[seats + rank * self.seats == int(name.removeprefix("game-"))] = float("nan")
        return batch, seats

    sample, ReplayBuffer.sample = ReplayBuffer.sample, poisoned


def saved_run(folder: Path, data: Path) -> None:
    """A run with one saved episode, as --load_model looks for it."""
    trained = folder / "runs" / "snakes" / "run3" / "trained_model"
    trained.mkdir(parents=True)
    (trained / "actor_50.safetensors").write_bytes(b"not looked into")


def other_weights(folder: Path, data: Path) -> None:
    """Saved weights of narrower networks."""
    from lib.snakes import former_runs
    from lib.snakes.learner import Learner
    from lib.snakes.options import SnakesOptions

    run = folder / "runs" / "snakes" / "run3"
    run.mkdir(parents=True)
    config = SnakesOptions(hidden=(8, 8))
    former_runs.write(run, config, 50, Learner(config.learner_config()))


def configuration(folder: Path, data: Path) -> None:
    (folder / "run.yaml").write_text("num_env: 8\n")


LEAGUE = "--opponent_difficulty_strategy league"

BAD_INPUTS = (
    BadInput("no run to load", "--load_model --load_model_run 7", ("Model not founded at", "run 7", "no saved model")),
    BadInput(
        "no episode to load", "--load_model --load_model_run 3 --load_model_run_episode 60",
        ("Model not founded at", "run 3", "episode 60", "run 3 with the episodes 50"), saved_run,
    ),
    BadInput(
        "half an episode to load", "--load_model --load_model_run 3 --load_model_run_episode 50",
        ("Model not founded at", "critic_50.safetensors", "the actor of this episode is there"), saved_run,
    ),
    BadInput(
        "a replay larger than memory", "--buffer_size 100000000000000",
        ("--buffer_size 100000000000000 needs", "GiB are free", "or less"), writes=RUNS,
    ),
    BadInput("a replay of nothing", "--buffer_size 8", ("--buffer_size 8 holds 2 steps of 4 games",), writes=RUNS),
    BadInput(
        "a batch that never comes", "--buffer_size 100 --batch_size 4000",
        ("--batch_size 4000", "never has more than"), writes=RUNS,
    ),
    BadInput(
        "weights of another network", "--load_model --load_model_run 3 --load_model_run_episode 50",
        ("is of another architecture", "actor.layers.0.bias is (8,) there and (16,) here", "--hidden"), other_weights,
    ),
    BadInput("no games", "--num_envs 0", ("--num_envs", "0", ">= 1")),
    BadInput("another game", "--game_name snake_1v1", ("--game_name", "snakes_3v3")),
    BadInput("unknown strategy", "--opponent_difficulty_strategy hard", ("'hard'", "curriculum")),
    BadInput("unknown opponent", "--opponent python", ("'python'", "greedy")),
    BadInput("unknown league", f"{LEAGUE} --league frog=1 ", ("'frog' is not known", "hunter")),
    BadInput("shares of a league", f"{LEAGUE} --league greedy=0.5", ("sum to 0.5",)),
    BadInput("ignored flag", "--opponent greedy --opponent_difficulty_strategy linear", ("--opponent has no effect",)),
    BadInput("two algorithms", "--algo bicnet --comm none", ("--algo bicnet", "--comm lstm")),
    BadInput("unknown flag", "--num_env 4", ("--num_env", "--num_envs")),
    BadInput("wrong type", "--a_lr fast", ("--a_lr", "'fast'", "number")),
    BadInput("key of a YAML file", "--config run.yaml", ("run.yaml", "num_env", "num_envs"), configuration),
    BadInput("unknown tracker", "--report_to pigeon", ("--report_to", "pigeon", "tensorboard")),
    BadInput("no such checkpoint", "--resume runs/x/step-00000001", ("--resume", "no such checkpoint")),
    BadInput("load and resume", "--load_model --resume auto", ("--load_model with --resume",)),
)  # fmt: skip

SNAKES = TrainerCase(
    name="snakes",
    script=ROOT / "scripts" / "train_snakes.py",
    # Games of eight steps: several end within a run, opponents change, and futures are cut off.
    flags=(
        "--num_envs 4 --batch_size 4 --buffer_size 400 --hidden 16 16 --updates_per_step 1 --episode_length 8 "
        "--max_episodes 20 --opponent_difficulty_strategy curriculum --a_lr 1e-2 --c_lr 1e-2 --epsilon 0.2 "
        "--max_steps 12 --save_every 1 --log_every 1 --eval_every 3 --eval_games 4 --final_games 4 "
        "--report_to none --no_visualize --dist_timeout 60"
    ),
    steps=12,
    make_data=no_data,
    result_keys=frozenset(
        "win_rate_greedy win_rate_bot win_rate_random elo env_steps env_steps_per_s updates updates_per_s "
        "seconds_to_50 seconds_to_80 processes wall_s weights_sha256".split()
    ),
    still="--eval_every 0",
    whole="--num_envs 8 --batch_size 8 --buffer_size 800",
    halved="--num_envs 4 --batch_size 4",
    diverge="--a_lr 1e30 --c_lr 1e30",
    poison="snakes_case:break_record",
    pick_record=pick_record,
    evaluation="lib.snakes.evaluation:play_shares",
    other_model="--hidden 24 24",
    bad_inputs=BAD_INPUTS,
    disk_kib=1536,
    clocks=("_s", "seconds_to_50", "seconds_to_80"),
)
