"""No launch form trains in a world other than the one that was asked for. Every case is really launched.

A launch costs 5 to 15 s on two cores, so each is made once and read by several assertions.
"""

from unittest import mock

import pytest
import yaml
from accelerate.commands.config import cluster
from accelerate.state import DistributedType
from launching import ACCELERATE, CONFIGS, PROBES, PYTHON, TORCHRUN, begin, environment, finish, free_port, launch

WORLD = PROBES / "world.py"


@pytest.fixture
def environ(tmp_path):
    return environment(tmp_path / "cache")


def assert_two_ranks(ended) -> None:
    """Two ranks that have counted each other."""
    assert ended.code == 0, ended.stderr
    assert [line["rank"] for line in ended.ranks] == [0, 1]
    for line in ended.ranks:
        assert (line["world"], line["counted"], line["device"]) == (2, 2.0, "cpu")
        assert (line["kind"], line["backend"]) == ("MULTI_CPU", "gloo")
    assert ended.stdout.count("processes      2 on 1 machine, multi_cpu over gloo") == 1
    assert "destroy_process_group" not in ended.stderr


def assert_refused(ended, words: str) -> None:
    """One line that says why, from one rank, and nothing trained."""
    assert ended.code != 0
    assert ended.ranks == []
    assert len(ended.errors) == 1, ended.stderr
    assert words in ended.errors[0]


def wizard_answers(kind: DistributedType, processes: int) -> dict:
    """What `accelerate config` writes for `kind`: its own questionnaire with every other answer left at its default."""

    def choose(question, options, convert=None, default=None):
        if question.startswith("Which type of machine"):
            return kind
        return "no" if "mixed precision" in question.lower() else default

    def fill(question, convert=None, default=None, error_message=None):
        return processes if "for distributed training" in question else default

    with mock.patch.object(cluster, "_ask_options", choose), mock.patch.object(cluster, "_ask_field", fill):
        return cluster.get_cluster_input()


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """Three launches of one process each, side by side."""
    commands = {
        "python": [*PYTHON, WORLD, "--precision", "auto", "--lr_scale", "sqrt"],
        "no config": [*ACCELERATE, "--mixed_precision", "bf16", WORLD, "--precision", "auto"],
        "cpu_1": [*ACCELERATE, "--config_file", CONFIGS / "cpu_1.yaml", WORLD, "--precision", "fp32"],
    }
    cache = environment(tmp_path_factory.mktemp("cache"))
    running = {name: begin(command, cache) for name, command in commands.items()}
    return {name: finish(process) for name, process in running.items()}


def test_plain_python_is_one_process(single):
    ended = single["python"]
    assert ended.code == 0 and ended.stderr == ""
    (only,) = ended.ranks
    assert (only["world"], only["device"], only["kind"], only["backend"]) == (1, "cpu", "NO", None)
    assert only["precision"] in ("no", "bf16") and "auto" in only["notes"][-1]
    assert ended.stdout.startswith("trainer        probe\nprocesses      1 on 1 machine, no process group\n")
    assert "learning rate  0.0001 = base 0.0001 x 1 (--lr_scale sqrt, n = 1)" in ended.stdout
    assert "extra          note" in ended.stdout
    facts = only["facts"]
    assert facts["processes"] == 1 and facts["precision"] == only["precision"]
    assert {"torch", "accelerate", "python"} <= set(facts["versions"])
    assert facts["ranks"][0]["device"].startswith("cpu") and facts["ranks"][0]["threads"] == 1
    assert facts["command"].endswith("world.py --precision auto --lr_scale sqrt")


def test_accelerate_launch_without_a_config_takes_its_mixed_precision(single):
    ended = single["no config"]
    assert ended.code == 0
    (only,) = ended.ranks
    assert (only["world"], only["precision"]) == (1, "bf16")
    assert only["notes"] == ["precision bf16: the launcher's mixed precision"]


def test_cpu_1_config(single):
    ended = single["cpu_1"]
    assert ended.code == 0 and ended.stderr == ""
    (only,) = ended.ranks
    assert (only["world"], only["device"], only["precision"]) == (1, "cpu", "no")


def test_cpu_2_config(environ):
    command = [*ACCELERATE, "--config_file", CONFIGS / "cpu_2.yaml", "--mixed_precision", "bf16", WORLD]
    ended = launch([*command, "--lr_scale", "linear", "--precision", "bf16"], environ)
    assert_two_ranks(ended)
    assert ended.stderr == ""
    assert {line["precision"] for line in ended.ranks} == {"bf16"}
    assert "learning rate  0.0002 = base 0.0001 x 2 (--lr_scale linear, n = 2)" in ended.stdout


def test_what_the_wizard_writes_for_multi_cpu(environ, tmp_path):
    """As the user's cached default, found without --config_file: Accelerate starts one process and says nothing.

    From another folder, with arguments that need quoting. The form `--cpu --num_processes 2` is in test_endings.py.
    """
    word = "two words 'and' \"quotes\" $HOME"
    answers = wizard_answers(DistributedType.MULTI_CPU, 2)
    default = tmp_path / "cache" / "accelerate" / "default_config.yaml"
    default.parent.mkdir(parents=True)
    answers.to_yaml_file(str(default))
    written = yaml.safe_load(default.read_text(encoding="utf-8"))
    assert (written["distributed_type"], written["num_processes"], written["use_cpu"]) == ("MULTI_CPU", 2, True)
    ended = launch([*ACCELERATE, WORLD, "--precision", "auto", "--word", word], environ, cwd=tmp_path)
    assert_two_ranks(ended)
    for line in ended.ranks:
        assert (line["word"], line["cwd"], line["threads"]) == (word, str(tmp_path), 1)
    # The wizard's "no" is an answer, not a default.
    assert ended.ranks[0]["notes"] == ["precision fp32: the launcher's mixed precision"]


def test_what_the_wizard_writes_for_multi_gpu_on_a_machine_without(environ, tmp_path):
    """In Accelerate two processes that each believe they are alone."""
    file = tmp_path / "wizard.yaml"
    wizard_answers(DistributedType.MULTI_GPU, 2).to_yaml_file(str(file))
    ended = launch([*ACCELERATE, "--config_file", file, "--main_process_port", "0", WORLD], environ)
    assert_two_ranks(ended)
    assert "note: the launch asks for GPUs and none is visible: 2 processes run on CPU (gloo)" in ended.stdout


def test_torchrun_and_the_originals_flags(environ):
    command = [*TORCHRUN, "--nproc_per_node=2", "--master_port", str(free_port()), WORLD, "--ddp", "--local_rank", "-1"]
    ended = launch(command, environ)
    assert_two_ranks(ended)
    assert ended.stderr == ""
    assert ended.stdout.count("note: --ddp has no effect: the launcher started 2 process(es)") == 1


def test_two_launchers_form_one_world(environ):
    """Two nodes on loopback, one started by torchelastic's form and both with the simple launcher's."""
    port = free_port()
    shared = ["--num_machines", "2", "--num_processes", "2", "--main_process_ip", "127.0.0.1"]
    shared += ["--main_process_port", str(port), "--mixed_precision", "no", "--dynamo_backend", "no"]
    nodes = [
        begin([*ACCELERATE, "--multi_gpu", *shared, "--machine_rank", "0", WORLD], environ),
        begin([*ACCELERATE, "--cpu", *shared, "--machine_rank", "1", WORLD], environ),
    ]
    first, second = (finish(node) for node in nodes)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    lines = first.ranks + second.ranks
    assert [line["rank"] for line in lines] == [0, 1]
    assert [line["counted"] for line in lines] == [2.0, 2.0]
    assert "processes      2 on 1 machine" in first.stdout and "processes  " not in second.stdout


def test_nodes_with_different_arguments_do_not_train_together(environ):
    variables = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    variables["MASTER_PORT"] = str(free_port())
    nodes = [
        begin([*PYTHON, WORLD, "--seed", str(rank)], environ | variables | {"RANK": str(rank)}) for rank in range(2)
    ]
    ended = [finish(node) for node in nodes]
    assert [end.code for end in ended] == [2, 2]
    (line,) = ended[0].errors + ended[1].errors
    assert "rank 1" in line and "--seed = 1" in line and "has 0" in line


def test_gpu_configs_on_a_machine_without_gpu(environ):
    cases = [("gpu_8", 2, "gpu_8.yaml is for 2 GPU(s)"), ("fsdp2", 1, "FSDP, which needs GPUs")]
    running = [
        begin([*ACCELERATE, "--config_file", CONFIGS / f"{name}.yaml", "--num_processes", count, WORLD], environ)
        for name, count, _ in cases
    ]
    for process, (_, _, words) in zip(running, cases):
        assert_refused(finish(process), words)


def test_refusals_of_a_single_process_leave_with_2(environ):
    """One from lib.launch and one from lib.args; the others are in tests/unit/shared."""
    cases = [
        ({"WORLD_SIZE": "2", "RANK": "0"}, [], "LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not"),
        ({}, ["--lr_scales", "none"], "lr_scale"),
    ]
    running = [(begin([*PYTHON, WORLD, *flags], environ | extra), words) for extra, flags, words in cases]
    for process, words in running:
        ended = finish(process)
        assert ended.code == 2, ended.stderr
        assert ended.stderr.count("\n") == 1 and ended.stderr.startswith("error: "), ended.stderr
        assert words in ended.stderr
