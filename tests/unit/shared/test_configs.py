"""Every accelerate_configs/*.yaml through Accelerate's own loader and checks, and the table that describes them."""

import re
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.state import DistributedType

from lib.world import read_request

CONFIGS = Path(__file__).resolve().parents[3] / "accelerate_configs"
# name: kind, processes, machines, on CPU
EXPECTED = {
    "cpu_1": ("NO", 1, 1, True),
    "cpu_2": ("MULTI_GPU", 2, 1, True),
    "gpu_1": ("NO", 1, 1, False),
    "gpu_8": ("MULTI_GPU", 8, 1, False),
    "multi_node": ("MULTI_GPU", 16, 2, False),
    "fsdp2": ("FSDP", 8, 1, False),
    "deepspeed_zero2": ("DEEPSPEED", 8, 1, False),
    "deepspeed_zero3": ("DEEPSPEED", 8, 1, False),
}


def validated(name: str, *flags: str):
    """The arguments with which Accelerate would start, after its own checks and defaults."""
    arguments = ["--config_file", str(CONFIGS / f"{name}.yaml"), *flags, "script.py"]
    return _validate_launch_command(launch_command_parser().parse_args(arguments))[0]


def test_no_file_is_forgotten():
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_loader_reads_the_file(name):
    kind, processes, machines, on_cpu = EXPECTED[name]
    config = load_config_from_file(str(CONFIGS / f"{name}.yaml"))
    assert config.distributed_type == DistributedType(kind)
    assert (config.num_processes, config.num_machines, config.use_cpu) == (processes, machines, on_cpu)
    # Left open, so that the trainer's own default decides and a flag of the launcher overrides.
    assert config.mixed_precision is None
    request = read_request(["--config_file", str(CONFIGS / f"{name}.yaml"), "script.py"])
    assert (request.kind, request.processes, request.machines, request.use_cpu) == EXPECTED[name]
    assert request.shipped


@pytest.mark.parametrize("name", EXPECTED)
def test_launcher_takes_the_form_the_table_says(name):
    kind, processes, _, on_cpu = EXPECTED[name]
    arguments = validated(name)
    assert arguments.num_processes == processes
    assert bool(arguments.multi_gpu) == (kind == "MULTI_GPU")
    assert bool(arguments.use_fsdp) == (kind == "FSDP")
    assert bool(arguments.use_deepspeed) == (kind == "DEEPSPEED")
    assert arguments.use_cpu == on_cpu
    assert validated(name, "--num_processes", "4").num_processes == 4


def test_single_machine_configs_never_meet_a_taken_port():
    for name in EXPECTED:
        if EXPECTED[name][1] > 1 and name != "multi_node":
            assert validated(name).main_process_port == 0, name


def test_cpu_config_hides_every_device():
    assert validated("cpu_2").gpu_ids == "-1,-1"


def test_gpu_configs_leave_the_choice_of_devices_to_the_user():
    # A list of ids in the file would silently override CUDA_VISIBLE_DEVICES.
    for name, (_, _, _, on_cpu) in EXPECTED.items():
        if not on_cpu:
            assert validated(name).gpu_ids in (None, "all"), name


def test_sharding_options():
    fsdp = load_config_from_file(str(CONFIGS / "fsdp2.yaml")).fsdp_config
    assert fsdp["fsdp_version"] == 2 and fsdp["fsdp_offload_params"] is False
    for stage in (2, 3):
        config = load_config_from_file(str(CONFIGS / f"deepspeed_zero{stage}.yaml")).deepspeed_config
        assert config["zero_stage"] == stage


def test_the_table_names_every_file_and_what_was_run():
    table = (CONFIGS / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z0-9_]+)\.yaml` \|(.*)$", table, flags=re.MULTILINE))
    assert set(rows) == set(EXPECTED)
    for name, row in rows.items():
        assert ("parsed only" in row) or ("run by the tests" in row), name
        assert ("run by the tests" in row) == name.startswith("cpu_"), name
