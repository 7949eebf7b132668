"""The GRPO trainer in the promise suite."""

import json
from pathlib import Path

from grpo_inputs import BAD_INPUTS, small_model
from trainer_case import ROOT, TrainerCase


def make_model(folder: Path) -> list[str]:
    """A small model with its tokenizer: what `--model tiny` would build anew in every run."""
    small_model(folder / "model")
    return ["--model", str(folder / "model")]


def pick_record(run: Path) -> str:
    """A task whose group had something to learn from, in an episode that the main process kept as text."""
    for file in sorted((run / "trajectories").glob("step_*.jsonl")):
        groups = {}
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            groups.setdefault((row["group"], row["domain"], row["task_id"]), set()).add(row["reward"])
        for (_, domain, task), rewards in groups.items():
            if len(rewards) > 1:
                return f"{domain}/{task}"
    raise AssertionError("no group with a contrast")


def break_record(name: str) -> None:
    """In a run: what is learnt from the episodes of one task is not finite."""
    from lib.grpo import learner

    def poisoned(samples, *args, **options):
        for sample in samples:
            if "/".join(sample.trajectory.key) == name:
                sample.advantage = float("nan")
        return pack(samples, *args, **options)

    pack, learner.pack = learner.pack, poisoned


GRPO = TrainerCase(
    name="grpo",
    script=ROOT / "scripts" / "train_grpo.py",
    # A policy that can do nothing yet: what tells its episodes apart is how soon they end, which step_cost rewards.
    flags=(
        "--domains airline,retail --level 0 --tasks_per_domain 6 --group_size 6 --prompts_per_step 4 --seed 1 "
        "--warmstart sft:3 --copying_steps 1 --warmstart_dialogues 4 --warmstart_lr 1e-2 --steps_per_domain 4 "
        "--learning_rate 1e-3 --reward_shaping format:0.2,step_cost:0.3 --max_new_tokens 6 --max_turns 8 "
        "--eval_every 2 --eval_tasks 2 --eval_trials 1 --held_out_templates 2 --save_every 1 --report_to none "
        "--no_visualize --dist_timeout 60"
    ),
    steps=12,
    make_data=make_model,
    result_keys=frozenset(
        "matrix domains acc fwt bwt forgetting pass_hat_k success_before success_after rollout_tokens_per_s "
        "train_tokens_per_s seconds_per_step zero_std_fraction logprob_diff_max processes wall_s weights_sha256".split()
    ),
    still="--eval_every 0",
    # The batch is that of all processes together.
    whole="--prompts_per_step 4",
    halved="--prompts_per_step 4",
    control="--prompts_per_step 2",
    diverge="--warmstart_lr 1e30",
    poison="grpo_case:break_record",
    pick_record=pick_record,
    evaluation="lib.grpo.rollouts:play",
    other_model="--model tiny:64,1 --quiet",
    bad_inputs=BAD_INPUTS,
    clocks=("_s", "seconds_per_step"),
    disk_kib=8 * 1024,
    loss_tolerance=1e-5,
    weight_tolerance=1e-2,
)
