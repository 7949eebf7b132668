"""The OMAGD trainer in the promise suite."""

from pathlib import Path

from trainer_case import ROOT, BadInput, TrainerCase


def no_data(folder: Path) -> list[str]:
    """The battles are the data."""
    return []


def pick_record(run: Path) -> str:
    """A batch: which episodes are drawn is decided while training."""
    return "batch-000003"


def break_record(name: str) -> None:
    """In a run: what one batch shows is not finite."""
    from lib.omagd.learning.replay import EpisodeReplay

    def poisoned(self, count, seed, update):
        batch = sample(self, count, seed, update)
        if update + 1 == int(name.removeprefix("batch-")):
            batch.obs[0] = float("nan")
        return batch

    sample, EpisodeReplay.sample = EpisodeReplay.sample, poisoned


def configuration(folder: Path, data: Path) -> None:
    (folder / "run.yaml").write_text("batch_size_runs: 8\n")


BAD_INPUTS = (
    BadInput("unknown map", "--map 3s6z", ("--map 3s6z", "did you mean 3s5z", "2c_vs_64zg")),
    BadInput("no sight", "--sight 0", ("--sight", "0", "> 0")),
    BadInput("ticks of another clock", "--tick_rate 20", ("--tick_rate 20", "16 or 22.4")),
    BadInput("unknown reward", "--reward dense", ("'dense'", "signed")),
    BadInput("unknown mixer", "--mixer qplex", ("'qplex'", "vdn")),
    BadInput("no episodes", "--per_device_batch_size 0", ("--per_device_batch_size", "0", ">= 1")),
    BadInput("a replay of nothing", "--buffer_size 3", ("--buffer_size 3", "never holds")),
    BadInput("a replay of few steps", "--buffer_steps 100", ("--buffer_steps 100 cannot hold", "720 or more")),
    BadInput("a mask that cannot leak", "--leaky_mask --sight 7", ("--leaky_mask", "--sight 7", "attacks reach 6")),
    BadInput("growing exploration", "--epsilon_start 0.1 --epsilon_finish 0.5", ("--epsilon_finish 0.5", "0.1")),
    BadInput("unknown flag", "--batch_size_runs 4", ("--batch_size_runs", "--batch_size_run")),
    BadInput("wrong type", "--lr fast", ("--lr", "'fast'", "number")),
    BadInput(
        "key of a YAML file", "--config run.yaml", ("run.yaml", "batch_size_runs", "batch_size_run"), configuration
    ),
    BadInput("unknown tracker", "--report_to pigeon", ("--report_to", "pigeon", "tensorboard")),
    BadInput("no such checkpoint", "--resume runs/x/step-00000001", ("--resume", "no such checkpoint")),
)  # fmt: skip

OMAGD = TrainerCase(
    name="omagd",
    script=ROOT / "scripts" / "train_omagd.py",
    flags=(
        "--map 3m --batch_size_run 12 --per_device_batch_size 6 --buffer_size 200 --buffer_steps 2500 "
        "--rnn_hidden_dim 16 --steps_per_update 48 --target_update_interval 6 --epsilon_anneal_time 2000 --lr 5e-3 "
        "--max_steps 12 --save_every 1 --log_every 1 --eval_every 3 --test_nepisode 6 --final_nepisode 6 "
        "--report_to none --no_visualize --dist_timeout 60"
    ),
    steps=12,
    make_data=no_data,
    result_keys=frozenset(
        "win_rate_test win_rate_random win_rate_scripted return_test env_steps env_steps_per_s updates updates_per_s "
        "epsilon map sight observe processes wall_s weights_sha256".split()
    ),
    still="--eval_every 0",
    whole="--batch_size_run 16 --per_device_batch_size 16 --steps_per_update 64",
    halved="--batch_size_run 8 --per_device_batch_size 8 --steps_per_update 32",
    diverge="--lr 1e30",
    poison="omagd_case:break_record",
    pick_record=pick_record,
    evaluation="lib.omagd.evaluation:play_share",
    other_model="--rnn_hidden_dim 24",
    bad_inputs=BAD_INPUTS,
    disk_kib=10 * 1024,
)
