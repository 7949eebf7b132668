"""Flags of GRPO training: what contradicts itself is refused in one line, defaults that depend on others, secrets."""

import json

import pytest
from accelerate import Accelerator

from lib.args import parse
from lib.checkpoint import RunDirectory
from lib.errors import UserError
from lib.grpo import run_setup
from lib.grpo.options import ALIASES, GrpoOptions, check_options, gate_of, levels_of, names_of, templates_of
from lib.grpo.progress import Progress, drop_evaluations
from lib.grpo.users.endpoint import Endpoint, EndpointError
from lib.runlog import RunLog

KEY = "sk-unit-0123456789"


def options(*words: str) -> GrpoOptions:
    return parse(GrpoOptions, [str(word) for word in words], aliases=ALIASES)


def refused(*words: str, processes: int = 1) -> str:
    """What is said, in one line, about flags that `check_options` refuses."""
    with pytest.raises(UserError) as error:
        check_options(options("--model", "tiny", *words), processes)
    (line,) = str(error.value).splitlines()
    return line


REFUSED = (
    ("--domains airline,bank", "--domains airline,bank: 'bank' is none of airline, retail, telecom"),
    ("--model tiny:70", "--model tiny:70: the width is a multiple of 64"),
    ("--lora r=8", "--lora with --model tiny: adapters need a model that has learnt something"),
    ("--copying_steps 5", "--copying_steps without --warmstart sft:STEPS"),
    ("--warmstart 300", "--warmstart 300: expected none or sft:STEPS"),
    ("--warmstart sft:0", "--warmstart sft:0: expected none or sft:STEPS"),
    ("--cl kl-anchor", "--cl kl-anchor with --beta 0.1: two references; give --beta 0"),
    ("--cl distill --beta 0.5", "--cl distill with --beta 0.5: two references"),
    ("--replay_ratio 0.3", "--replay_ratio has no effect with --cl none: give --cl replay"),
    ("--replay_adaptive --cl kl-anchor --beta 0", "--replay_adaptive has no effect with --cl kl-anchor"),
    ("--replay_choice recent --cl ewc", "--replay_choice has no effect with --cl ewc"),
    ("--cl_strength 2", "--cl_strength has no effect with --cl none: drop it"),
    ("--joint --cl ewc", "--joint with --cl ewc: there is one stage, nothing to forget"),
    ("--level two", "--level two: expected numbers from 0 to 4"),
    ("--level ,", "--level ,: expected numbers from 0 to 4"),
    ("--stage_gate 0.5", "--stage-gate 0.5: expected MIN_PASS,MAX_REPEATS"),
    ("--stage_gate 2,1", "--stage-gate 2,1: expected MIN_PASS,MAX_REPEATS"),
    ("--stage_gate 0.5,-1", "--stage-gate 0.5,-1: expected MIN_PASS,MAX_REPEATS"),
    ("--reward_shaping kindness:0.1", "--reward-shaping has 'kindness:0.1'"),
)


@pytest.mark.parametrize(("flags", "words"), REFUSED, ids=[flags for flags, _ in REFUSED])
def test_contradictions_are_refused(flags, words):
    assert refused(*flags.split()).startswith(words)


@pytest.mark.parametrize(("asked", "processes", "words"), [(2, 1, "1 process started"), (1, 2, "2 processes started")])
def test_num_gpus_is_compared_with_the_launch(asked, processes, words):
    said = refused("--num-gpus", asked, processes=processes)
    assert said.startswith(f"--num-gpus {asked}, but {words}: accelerate launch --num_processes {asked} ")
    assert check_options(options("--model", "tiny", "--num-gpus", processes), processes) == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--group_size 1", "--group-size 1: expected at least 2"),
        ("--domains retail,retail", "--domains retail,retail: expected one or more domains, each once"),
        ("--level 7", "level 7: expected one or more of 0, 1, 2, 3, 4"),
        ("--templates airline=fly", "airline has no template 'fly': there are "),
        ("--templates bank=loan", "--templates bank=loan: 'bank=loan' is not DOMAIN=NAME,NAME"),
        (
            "--templates telecom=refuel --domains retail",
            "--templates names telecom, which is not among --domains",
        ),
        ("--cl replay --replay_ratio 1", "--replay-ratio 1: expected a share between 0 and 1"),
        ("--airline_tasks missing.jsonl", "missing.jsonl cannot be read"),
    ],
)
def test_tasks_that_do_not_exist(flags, words):
    """Found by the plan of a run, before a model is loaded or a file written."""
    config = options("--model", "tiny", *flags.split())
    check_options(config, 1)
    with pytest.raises(UserError) as error:
        run_setup.plan(config)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize(
    ("flags", "values"),
    [
        ("--model tiny", {"warmstart_lr": 3e-3, "copying_steps": 0, "is_correction": "off"}),
        ("--model tiny --warmstart sft:9", {"copying_steps": 80}),
        ("--model tiny --warmstart sft:9 --copying_steps 4 --warmstart_lr 1", {"copying_steps": 4, "warmstart_lr": 1}),
        ("--model Qwen/Qwen3-4B --warmstart sft:9", {"warmstart_lr": 1e-5, "copying_steps": 0}),
        ("--model Qwen/Qwen3-4B --engine vllm", {"is_correction": "tis"}),
        ("--model Qwen/Qwen3-4B --engine vllm --is_correction mis", {"is_correction": "mis"}),
    ],
)
def test_defaults_that_depend_on_others(flags, values):
    config = options(*flags.split())
    check_options(config, 1)
    assert {name: getattr(config, name) for name in values} == pytest.approx(values)


def test_lists_in_text():
    assert names_of(" a, b,,") == ("a", "b")
    assert levels_of("1,2") == (1, 2)
    assert gate_of("0.5,2") == (0.5, 2)
    assert templates_of("airline=upgrade, add_bags;retail=") == {"airline": ("upgrade", "add_bags"), "retail": ()}


@pytest.mark.parametrize("flag", ["--openai_api_key {}", "--openai-api-key={}"])
def test_the_key_is_in_no_file_and_no_log(tmp_path, monkeypatch, capsys, flag):
    words = ["--output_dir", str(tmp_path / "run"), *flag.format(KEY).split(), "--report_to", "tensorboard"]
    monkeypatch.setattr("sys.argv", ["train_grpo.py", *words])
    config = options(*words)
    assert config.openai_api_key == KEY
    acc = Accelerator(cpu=True)
    run = RunDirectory.create(acc, config, "grpo")
    with RunLog(acc, run, config, 1, "tokens") as log:
        log.log(1, {"loss": 1.0})
    run.close()
    said = "".join(capsys.readouterr())
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"config.json", "environment.json", "metrics.jsonl"} <= {path.name for path in files}
    assert [path for path in files if KEY.encode() in path.read_bytes()] == [] and KEY not in said
    command = json.loads((tmp_path / "run" / "environment.json").read_text())["command"]
    assert "openai" in command and "(not shown)" in command
    assert json.loads((tmp_path / "run" / "config.json").read_text())["openai_api_key"] == "(not shown)"


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", f"{KEY}\nmore", f"{KEY}\u00e9"])
def test_a_key_that_no_header_can_carry_is_not_repeated(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    said = ""
    try:
        Endpoint("http://127.0.0.1:9/v1", "model", retries=0).complete([{"role": "user", "content": "?"}], [])
    except (UserError, EndpointError) as error:
        said = str(error)
    assert said and KEY not in said


def test_evaluations_after_a_checkpoint_are_dropped(tmp_path):
    """They have the step of the checkpoint: the step does not tell them from those that it knows."""
    metrics = tmp_path / "metrics.jsonl"
    rows = [
        {"step": 3, "eval/success": 0.0},
        {"step": 4, "loss": 1.0},
        {"note": "eval/success is meant"},
        {"step": 4, "eval/success": 0.5},
        {"step": 4, "eval/success": 1.0},
    ]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 5, "eval/suc')
    drop_evaluations(metrics, 2)
    kept = metrics.read_text().split("\n")
    assert [json.loads(line) for line in kept[:-1]] == rows[:4]
    drop_evaluations(tmp_path / "none.jsonl", 2)
    progress = Progress()
    progress.load(json.loads(json.dumps(Progress(step=4, evaluated=[[3, "start"]]).to_dict())))
    assert progress == Progress(step=4, evaluated=[[3, "start"]])
