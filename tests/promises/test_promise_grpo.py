"""What only the GRPO trainer has to keep: tasks that divide unevenly, ranks without work, methods with a state."""

import json
import signal

import pytest
from grpo_case import GRPO
from runs import last_step, tree

# Shares of 15 episodes on 1, 2 and 3 processes; several micro-batches a step, not equally many on every rank.
UNEVEN = (
    "--prompts_per_step 5 --group_size 3 --dynamic_sampling 1 --micro_batch_tokens 400 --warmstart_dialogues 3 "
    "--cl replay --replay_choice reservoir --eval_every 0 --save_every 0 --held_out_templates 0"
)
KEY = "sk-promise-0123456789"
METHODS = {
    "ewc and a gate": ("--cl ewc --cl_strength 100 --stage_gate 0.9,1", "3,6,14"),
    "replay": ("--cl replay --replay_choice balanced --updates_per_batch 2 --minibatches 2", "2,7,10"),
}


@pytest.fixture
def grpo(stages):
    return stages(GRPO)


def uneven(grpo, processes: int):
    """(finished run, its episodes by key) of a troubled run."""
    folder = grpo.folder / f"episodes_{processes}"
    folder.mkdir(exist_ok=True)
    probe = ("probes_grpo:troubled_worlds", str(folder))
    found = grpo.once(f"uneven_{processes}", lambda run: grpo.group(processes, run, UNEVEN, probe=probe).finish())
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    episodes = {tuple(key): rest for key, *rest in rows}
    assert len(episodes) == len(rows) > 0
    return found, episodes


@pytest.mark.parametrize("processes", [2, 3])
def test_uneven_tasks_idle_ranks_and_raising_worlds(grpo, processes):
    """The same episodes token for token, the same losses, on any number of processes."""
    (one, played), (more, played_by_more) = uneven(grpo, 1), uneven(grpo, processes)
    assert played_by_more == played
    assert sum(error is not None for *_, error in played.values()) > 0
    assert more.results["processes"] == processes
    assert max(abs(a - b) for a, b in zip(one.losses, more.losses)) < 1e-5
    assert [row["zero_std_fraction"] for row in one.rows if "ratio" in row] == [
        row["zero_std_fraction"] for row in more.rows if "ratio" in row
    ]
    assert one.results["matrix"] == more.results["matrix"]


@pytest.mark.parametrize("kind", ["kl-anchor", "kl", "adapters"])
def test_weights_divided_by_fsdp2(grpo, kind):
    """Two ranks of which each holds a half of the weights, by the rules of ZeRO's stage 2 or 3: losses, successes and
    export of two that hold all of them; stopped after a stage and resumed they end with the same bits."""
    flags = {
        "kl-anchor": "--beta 0 --cl kl-anchor",
        "kl": "--beta 0.1 --is_correction tis",
        "adapters": "--beta 0.1 --lora r=4",
    }[kind]
    flags += " --updates_per_batch 2 --micro_batch_tokens 400 --save_every 3 --keep_checkpoints 20"
    probe = ("probes_grpo:divided_weights", {"kl-anchor": "2", "kl": "3", "adapters": "3"}[kind])
    whole = grpo.once(f"{kind} whole", lambda run: grpo.pair(run, flags).finish())
    divided = grpo.once(f"{kind} divided", lambda run: grpo.pair(run, flags, probe=probe).finish())
    apart = [abs(a - b) for a, b in zip(whole.losses, divided.losses, strict=True)]
    print([f"{value:.1e}" for value in apart])
    assert len(apart) == 12 and max(apart) < 1e-5, apart
    assert divided.results["matrix"] == whole.results["matrix"]
    pairs = [(whole.weights[name], value) for name, value in divided.weights.items()]
    assert max(float((one - other).abs().max()) for one, other in pairs) < GRPO.weight_tolerance
    run = grpo.folder / f"{kind} again"
    ended = grpo.pair(run, flags, "--max_steps 9", probe=probe).finish()
    assert ended.code == 0, ended.stderr
    ended = grpo.pair(run, flags, "--resume auto", probe=probe).finish()
    assert ended.code == 0 and "at step 9\n" in ended.stdout, ended.stderr
    grpo.outcome(run).assert_equal(divided)


def test_fewer_episodes_than_ranks(grpo):
    """One task and two samples for three processes; one process has nothing to do, in training and evaluation."""
    flags = "--prompts_per_step 1 --group_size 2 --warmstart_dialogues 1 --eval_tasks 1 --save_every 0 --max_steps 7"
    flags += " --domains airline --eval_every 0 --held_out_templates 0"
    one, three = (
        grpo.once(f"few_{count}", lambda run, count=count: grpo.group(count, run, flags).finish()) for count in (1, 3)
    )
    pairs = [[row["loss"] for row in found.rows if "loss" in row] for found in (one, three)]
    assert len(pairs[0]) == len(pairs[1]) == 7
    assert max(abs(a - b) for a, b in zip(*pairs)) < 1e-5
    assert three.results["processes"] == 3


def test_a_limit_inside_a_stage_loses_nothing(grpo):
    """--max_steps ends the run with results; without it, the same run goes on as if it had never been there."""
    whole = grpo.once("alone", lambda run: grpo.alone(run).finish())
    run = grpo.folder / "limited"
    # Between two evaluations of the first stage; the rest of the stage is still to come.
    ended = grpo.alone(run, f"--max_steps 7 --visualize --openai_api_key {KEY}").finish()
    assert ended.code == 0 and ended.stderr == "", ended.stderr
    assert {"report.html", "samples.html"} <= {path.name for path in run.iterdir()}
    assert [path for path in run.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []
    assert KEY not in ended.stdout
    limited = grpo.outcome(run)
    assert limited.results["steps"] == 7 and len(limited.results["matrix"]) == 2
    ended = grpo.alone(run, "--resume auto").finish()
    assert ended.code == 0 and "at step 7\n" in ended.stdout, ended.stderr
    grpo.outcome(run).assert_equal(whole)
    # Other tasks or other stages are another run, and this one is left as it is.
    (run / "results.json").unlink()
    before = tree(run)
    for flags, words in (("--tasks_per_domain 5", "holds other tasks"), ("--joint", "these flags give stage_0_warm")):
        ended = grpo.alone(run, "--resume auto", flags).finish()
        assert ended.code == 2 and words in ended.stderr and tree(run) == before, ended.stderr


@pytest.mark.parametrize("name", METHODS)
def test_killed_with_a_method_that_has_a_state(grpo, name):
    """In the warm start and in both stages, after the row of a step and after an evaluation; --max_minutes is on."""
    flags, steps = METHODS[name]
    flags = f"{flags} --save_every 2 --max_minutes 60"
    slug = name.split()[0]
    fewer = ("probes_grpo:few_fisher_samples", "6")
    whole = grpo.once(f"method_{slug}", lambda run: grpo.alone(run, flags, probe=fewer).finish())
    run = grpo.folder / f"killed_{slug}"
    for number, step in enumerate(steps.split(",")):
        probe = ("probes_grpo:killed_at", step, "evaluated" if number == 2 else "after")
        ended = grpo.alone(run, flags, "--resume auto", probe=probe).finish()
        assert ended.code == -signal.SIGKILL and last_step(run) == int(step), ended.stdout + ended.stderr
    ended = grpo.alone(run, flags, "--resume auto", probe=fewer).finish()
    assert ended.code == 0 and "resuming from" in ended.stdout, ended.stderr
    grpo.outcome(run).assert_equal(whole)
