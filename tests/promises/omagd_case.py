"""The OMAGD trainer in the promise suite."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import torch
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
    BadInput("no run to stand beside", "--visualize --compare nowhere,runs", ("--compare nowhere", "no finished run")),
    BadInput("unknown map", "--map 3s6z", ("--map 3s6z", "did you mean 3s5z", "2c_vs_64zg")),
    BadInput("no sight", "--sight 0", ("--sight", "0", "> 0")),
    BadInput("ticks of another clock", "--tick_rate 20", ("--tick_rate 20", "16 or 22.4")),
    BadInput("unknown reward", "--reward dense", ("'dense'", "signed")),
    BadInput("a flag of the tokens", "--n_codes 64", ("--n_codes", "--stage qmix does not use it")),
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
        "--lr_schedule linear --t_max 8000 --max_steps 12 --save_every 1 --log_every 1 --eval_every 3 "
        "--test_nepisode 6 --final_nepisode 6 --report_to none --no_visualize --dist_timeout 60"
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


def break_views(name: str) -> None:
    """In a run: what one batch of the tokenizer shows is not finite."""
    from lib.omagd.recon.tokenizer_task import TokenizerTask

    def poisoned(self, update, rank, ranks):
        rows, types = batch(self, update, rank, ranks)
        if update + 1 == int(name.removeprefix("batch-")):
            rows = torch.full_like(rows, float("nan"))
        return rows, types

    batch, TokenizerTask.batch = TokenizerTask.batch, poisoned


TOKENIZER_INPUTS = (
    BadInput("tokens of a game of others", "--env smaclite --map 2s3z", ("--stage tokenizer", "drop --env")),
    BadInput("no such policy", "--policies nearst:1", ("--policies nearst:1", "nearest")),
    BadInput("episodes for one thing alone", "--graph_pretrain_episodes 2", ("--graph_pretrain_episodes 2", "or more")),
    BadInput("no kept episodes", "--pretrain_buffer_path nowhere", ("nowhere", "--save_pretrain_buffer")),
    BadInput("no codes", "--n_codes 1", ("--n_codes", "1", ">= 2")),
    BadInput("unknown map", "--map 3s6z", ("--map 3s6z", "did you mean 3s5z")),
    BadInput("a flag of the agents", "--mixer vdn", ("--mixer", "--stage tokenizer does not use it")),
    BadInput("no such checkpoint", "--resume runs/x/step-00000001", ("--resume", "no such checkpoint")),
)

TOKENIZER = TrainerCase(
    name="omagd_tokenizer",
    script=ROOT / "scripts" / "train_omagd.py",
    flags=(
        "--stage tokenizer --map 3m --sight 5 --graph_pretrain_episodes 40 --graph_batch_size 48 --n_codes 24 "
        "--n_condition_codes 8 --code_dim 8 --max_steps 12 --save_every 1 --log_every 1 --eval_every 3 "
        "--report_to none --no_visualize --dist_timeout 60"
    ),
    steps=12,
    make_data=no_data,
    result_keys=frozenset(
        "stage map sight r2 codes_in_use enemy_position_error enemy_health_error ally_r2 place_perplexity updates "
        "updates_per_s codebook_sha256 processes wall_s weights_sha256".split()
    ),
    still="--eval_every 0",
    whole="--graph_batch_size 96",
    halved="--graph_batch_size 48",
    diverge="--graph_lr 1e30",
    poison="omagd_case:break_views",
    pick_record=pick_record,
    evaluation="lib.omagd.recon.tokenizer_task:measured",
    other_model="--code_dim 12",
    bad_inputs=TOKENIZER_INPUTS,
    loss_tolerance=1e-5,
    weight_tolerance=1e-3,  # the running sums of the codebooks are far longer than the weights
)


BATTLES = "--map 3m --sight 5 --graph_pretrain_episodes 40 --report_to none --no_visualize"


def make_stage(folder: Path, words: str) -> None:
    """The run of an earlier stage, a few updates long."""
    words = f"{BATTLES} --max_steps 10 --save_every 0 --device cpu {words}"
    command = [sys.executable, str(OMAGD.script), *words.split(), "--output_dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_tokens(folder: Path) -> list[str]:
    """The export of stage 1 that stage 2 needs."""
    make_stage(folder / "tokens", "--stage tokenizer --n_codes 24 --n_condition_codes 8 --code_dim 8")
    return ["--tokenizer", str(folder / "tokens")]


def make_guesses(folder: Path) -> list[str]:
    """The export of stage 2 that agents with reconstruction need."""
    tokens = make_tokens(folder)
    make_stage(folder / "guesses", f"--stage predictor {' '.join(tokens)} --predictor_batch_size 3")
    return ["--predictor", str(folder / "guesses")]


def break_episodes(name: str) -> None:
    """In a run: what one batch of the predictor shows is not finite."""
    from lib.omagd.recon.predictor_task import PredictorTask

    def poisoned(self, update, rank, ranks):
        views = batch(self, update, rank, ranks)
        if update + 1 == int(name.removeprefix("batch-")):
            views = views._replace(rows=torch.full_like(views.rows, float("nan")))
        return views

    batch, PredictorTask.batch = PredictorTask.batch, poisoned


PREDICTOR_INPUTS = (
    BadInput("a flag of the tokens", "--n_codes 64", ("--n_codes", "--stage predictor does not use it")),
    BadInput("no tokens", "", ("--stage predictor needs --tokenizer", "--stage tokenizer --map 3m --sight 5 makes")),
    BadInput("tokens that are not there", "--tokenizer nowhere", ("nowhere",)),
    BadInput("tokens of another sight", "--sight 6", ("made with --sight 5.0", "--sight 6.0"), good_data=True),
    BadInput("tokens of another map", "--map 8m", ("made with --map 3m", "--map 8m"), good_data=True),
    BadInput("unknown memory", "--memory frames", ("'frames'", "belief")),
    BadInput("more than all", "--mask_share 2", ("--mask_share", "2", "<= 1")),
    BadInput("no such checkpoint", "--resume runs/x/step-00000001", ("--resume", "no such checkpoint"), good_data=True),
)

PREDICTOR = TrainerCase(
    name="omagd_predictor",
    script=ROOT / "scripts" / "train_omagd.py",
    flags=(
        f"--stage predictor {BATTLES} --predictor_batch_size 3 --graph_lr 3e-3 --max_steps 12 --save_every 1 "
        "--log_every 1 --eval_every 3 --dist_timeout 60"
    ),
    steps=12,
    make_data=make_tokens,
    result_keys=frozenset(
        "stage map sight model_position_error last_seen_position_error prior_position_error marginal_position_error "
        "model_place last_seen_place existence_calibration_error hidden_slots hidden_seen_share updates updates_per_s "
        "codebook_sha256 processes wall_s weights_sha256".split()
    ),
    still="--eval_every 0",
    whole="--predictor_batch_size 8",
    halved="--predictor_batch_size 4",
    diverge="--graph_lr 1e30",
    poison="omagd_case:break_episodes",
    pick_record=pick_record,
    evaluation="lib.omagd.recon.predictor_task:measured",
    other_model="--predictor_size large",
    bad_inputs=PREDICTOR_INPUTS,
    loss_tolerance=1e-5,
)


RECONSTRUCTED_INPUTS = (
    BadInput("a flag of the guesses", "--mask_share 0.5", ("--mask_share", "--stage qmix does not use it")),
    BadInput("no guesses", "", ("--observe reconstructed needs --predictor", "--stage predictor --map 3m --sight 5")),
    BadInput("guesses of another map", "--map 8m --buffer_steps 9999", ("made with --map 3m", "--map 8m"),
             good_data=True),
    BadInput("guesses of another sight", "--sight 9", ("made with --sight 5.0", "--sight 9.0"), good_data=True),
    BadInput("guesses for nobody", "--observe obs", ("--predictor has no effect", "--observe reconstructed"),
             good_data=True),
    BadInput("another guess", "--recon sampled", ("'sampled'", "argmax")),
)  # fmt: skip

RECONSTRUCTED = dataclasses.replace(
    OMAGD,
    name="omagd_reconstructed",
    flags=f"{OMAGD.flags} --sight 5 --observe reconstructed",
    make_data=make_guesses,
    # Longer between updates: with this sight no battle may end from one to the next, and both would draw the same.
    whole="--batch_size_run 16 --per_device_batch_size 16 --steps_per_update 256 --buffer_steps 5000",
    halved="--batch_size_run 8 --per_device_batch_size 8 --steps_per_update 128 --buffer_steps 5000",
    bad_inputs=RECONSTRUCTED_INPUTS,
)
