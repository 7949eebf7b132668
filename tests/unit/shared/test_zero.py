"""lib.zero: what a launch with DeepSpeed asks for, as FSDP2 is told it; ranks that do it: test_promise_grpo.py."""

import json
import os
from types import SimpleNamespace

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env

from lib import launch
from lib.args import RunArgs
from lib.errors import UserError
from lib.sharding import keeps_layers
from lib.world import SHIPPED_CONFIGS, Hardware
from lib.zero import fsdp2_variables

ASKED = {"ACCELERATE_USE_DEEPSPEED": "true"}


def exported(file: str, monkeypatch) -> dict[str, str]:
    """What `accelerate launch --config_file` leaves to the processes."""
    monkeypatch.setattr("accelerate.utils.launch._filter_args", lambda args, *rest: args)
    args = launch_command_parser().parse_args(["--num_processes", "8", "train.py"])
    config = load_config_from_file(str(SHIPPED_CONFIGS / file))
    for name, value in config.deepspeed_config.items():
        setattr(args, name, value)
    args.mixed_precision, args.num_machines, args.deepspeed_fields_from_accelerate_config = "no", 1, ""
    return prepare_deepspeed_cmd_env(args)[1]


@pytest.mark.parametrize("stage", [2, 3])
def test_the_shipped_files_become_fsdp2(stage, monkeypatch):
    environ = exported(f"deepspeed_zero{stage}.yaml", monkeypatch)
    assert environ["ACCELERATE_USE_DEEPSPEED"] == "true"
    variables, note = fsdp2_variables(environ)
    assert variables["ACCELERATE_USE_DEEPSPEED"] == "false" and variables["ACCELERATE_USE_FSDP"] == "true"
    assert f"stage {stage} is done by FSDP2" in note
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2 and plugin.reshard_after_forward == (stage == 3)
    assert type(plugin.cpu_offload).__name__ == "OffloadPolicy", "nothing is offloaded"
    acc = SimpleNamespace(
        distributed_type=DistributedType.FSDP, is_fsdp2=True, state=SimpleNamespace(fsdp_plugin=plugin)
    )
    assert keeps_layers(acc) == (stage == 2)


def test_another_launch_is_left_alone():
    assert fsdp2_variables({}) == ({}, "") == fsdp2_variables({"ACCELERATE_USE_DEEPSPEED": "false"})
    variables, note = fsdp2_variables(ASKED | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "0"})
    assert variables == {"ACCELERATE_USE_DEEPSPEED": "false"} and "plain data parallel" in note


def test_stage_1_keeps_what_stage_2_keeps():
    one, two = (fsdp2_variables(ASKED | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": stage})[0] for stage in "12")
    assert one == two == fsdp2_variables(ASKED)[0]


def test_a_file_of_deepspeed_goes_before_the_variables(tmp_path):
    file = tmp_path / "zero.json"
    file.write_text(json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}))
    environ = ASKED | {"ACCELERATE_DEEPSPEED_CONFIG_FILE": str(file), "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"}
    variables, _ = fsdp2_variables(environ)
    assert variables["FSDP_RESHARD_AFTER_FORWARD"] == "true" and variables["ACCELERATE_MIXED_PRECISION"] == "bf16"


@pytest.mark.parametrize(
    "stated, words",
    [
        ({"optimizer": {"type": "AdamW"}}, "'optimizer', which is the trainer's own"),
        ({"scheduler": {"type": "WarmupLR"}}, "'scheduler', which is the trainer's own"),
        ({"fp16": {"enabled": True}}, "asks for fp16"),
        ({"zero_optimization": {"stage": 4}}, "stage 4, expected 0, 1, 2 or 3"),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}, "on 'nvme'"),
        ({"zero_optimization": 3}, "expected an object"),
        ({"gradient_accumulation_steps": 4}, "4 accumulation steps"),
        ({"bf16": {"enabled": True}}, "no section zero_optimization"),
        ([], "no JSON object"),
    ],
)
def test_what_is_not_done_is_refused(stated, words, tmp_path):
    file = tmp_path / "zero.json"
    file.write_text(json.dumps(stated))
    with pytest.raises(UserError, match=words):
        fsdp2_variables(ASKED | {"ACCELERATE_DEEPSPEED_CONFIG_FILE": str(file)})


def test_offloading_by_variable_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(UserError, match="on 'cpu'"):
        fsdp2_variables(ASKED | {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": "cpu"})
    with pytest.raises(UserError, match="cannot be read"):
        fsdp2_variables(ASKED | {"ACCELERATE_DEEPSPEED_CONFIG_FILE": str(tmp_path / "none.json")})


def test_auto_is_what_the_launch_says_and_what_has_no_effect_is_named(tmp_path):
    file = tmp_path / "zero.json"
    zero = {"stage": "auto", "offload_optimizer": {"device": "auto"}}
    file.write_text(json.dumps({"zero_optimization": zero, "train_batch_size": 64, "gradient_clipping": "auto"}))
    environ = ASKED | {"ACCELERATE_DEEPSPEED_CONFIG_FILE": str(file), "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
    variables, note = fsdp2_variables(environ)
    assert variables["FSDP_RESHARD_AFTER_FORWARD"] == "true"
    assert note.endswith("train_batch_size of " + str(file) + " have no effect")


def test_the_variables_are_there_when_the_accelerator_is_built(monkeypatch):
    """A launch on GPUs with everything behind the decision replaced: what Accelerate finds, and what the log says."""
    for name, value in (ASKED | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}).items():
        monkeypatch.setenv(name, value)
    for name in ("ACCELERATE_USE_FSDP", "FSDP_RESHARD_AFTER_FORWARD"):
        monkeypatch.setenv(name, "")
    seen = {}

    class Built(Exception):
        pass

    def build(**_):
        seen.update(os.environ)
        raise Built

    monkeypatch.setattr(launch, "follow_launcher", lambda environ: None)
    monkeypatch.setattr(launch, "find_request", lambda environ: None)
    monkeypatch.setattr(launch, "see_hardware", lambda: Hardware("cuda", 8, 64))
    monkeypatch.setattr(launch, "Accelerator", build)
    with pytest.raises(Built):
        launch.start(RunArgs(), precision="fp32", sharding=True)
    assert seen["ACCELERATE_USE_DEEPSPEED"] == "false" and seen["ACCELERATE_USE_FSDP"] == "true"
    assert seen["FSDP_RESHARD_AFTER_FORWARD"] == "true"
    with pytest.raises(UserError, match="needed whole"):
        monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
        launch.start(RunArgs(), precision="fp32")
