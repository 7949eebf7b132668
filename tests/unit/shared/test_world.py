"""The decision which processes belong together, for every environment a launcher may leave."""

from pathlib import Path

import pytest

from lib.errors import UserError
from lib.world import SHIPPED_CONFIGS, Hardware, LaunchRequest, decide, launch_arguments, read_request

CPU = Hardware("", 0, 2)
ONE_GPU = Hardware("cuda", 1, 16)
EIGHT_GPUS = Hardware("cuda", 8, 64)
APPLE = Hardware("mps", 1, 8)
TORCH = {
    "WORLD_SIZE": "2",
    "RANK": "1",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1234",
}
# What Accelerate's simple launcher leaves when it was asked for more than one process.
SIMPLE = {"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def refusal(environ, request=None, hardware=CPU, **options) -> str:
    with pytest.raises(UserError) as caught:
        decide(environ, request, hardware, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_one_process():
    for environ in ({}, {"ACCELERATE_MIXED_PRECISION": "no"}, {"MASTER_ADDR": "left over", "MASTER_PORT": "1"}):
        world = decide(environ, None, CPU)
        assert (world.processes, world.rank, world.cpu, world.relaunch) == (1, 0, True, None)
    assert not decide({}, None, ONE_GPU).cpu
    assert "accelerate launch --num_processes 8" in decide({}, None, EIGHT_GPUS).notes[0]
    assert decide({}, None, ONE_GPU, force_cpu=True).cpu
    assert not decide({}, None, APPLE).cpu


def test_ranks_of_torchelastic():
    world = decide(TORCH, None, CPU)
    assert (world.processes, world.rank, world.local_processes, world.cpu) == (2, 1, 2, True)
    assert not decide(TORCH, None, EIGHT_GPUS).cpu
    assert decide(TORCH, None, APPLE).cpu and "Apple" in decide(TORCH, None, APPLE).notes[0]
    assert decide(TORCH | {"ACCELERATE_USE_CPU": "True"}, None, EIGHT_GPUS).cpu
    assert decide({"WORLD_SIZE": "1", "RANK": "0"}, None, CPU).processes == 1


def test_fewer_devices_than_processes():
    assert "2 processes on this machine, and 1 cuda" in refusal(TORCH, None, ONE_GPU)
    # Two machines with one device each are fine.
    assert decide(TORCH | {"LOCAL_WORLD_SIZE": "1"}, None, ONE_GPU).processes == 2


@pytest.mark.parametrize("missing", ["RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_half_a_world_is_refused(missing):
    environ = {name: value for name, value in TORCH.items() if name != missing}
    assert f"WORLD_SIZE=2 is set but {missing} is not" in refusal(environ)


def test_other_half_worlds():
    assert "no WORLD_SIZE" in refusal({"LOCAL_RANK": "0"})
    assert "'two'" in refusal(TORCH | {"WORLD_SIZE": "two"})
    assert "RANK=5" in refusal(TORCH | {"RANK": "5"})
    assert "srun started 4 tasks" in refusal({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"})
    # An allocation alone, or one launcher per node, is no such case.
    assert decide({"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"}, None, CPU).processes == 1


@pytest.mark.parametrize("name", ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_launchers_that_made_a_world_each_are_refused(name):
    four = {name: "4"}
    eight = TORCH | {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "1"} | four
    words = refusal(eight, None, EIGHT_GPUS)
    assert f"started 4 tasks ({name})" in words and "--num_machines" in words
    # Eight nodes of eight ranks each are no world of eight.
    assert "made its own world" in refusal(eight | {name: "8"}, None, EIGHT_GPUS)
    assert "made its own world" in refusal(TORCH | {"WORLD_SIZE": "1", "RANK": "0"} | four)
    # One launcher per node, or one rank per task without torchelastic.
    assert decide(eight | {"WORLD_SIZE": "32", "GROUP_WORLD_SIZE": "4"}, None, EIGHT_GPUS).processes == 32
    assert decide(TORCH | {"WORLD_SIZE": "4"} | four, None, CPU).processes == 4
    # The batch step of sbatch: one task, or nothing said.
    assert decide(eight | {name: "1"}, None, EIGHT_GPUS).processes == 8
    del eight[name]
    assert decide(eight | {"SLURM_NTASKS": "4"}, None, EIGHT_GPUS).processes == 8


def test_tasks_under_the_simple_launcher():
    slurm = SIMPLE | {"SLURM_STEP_NUM_TASKS": "4"}
    assert "made its own world" in refusal(slurm, LaunchRequest(processes=1))
    # One simple launcher per machine, started by mpirun: the ranks are those the launchers were asked for.
    request = LaunchRequest(processes=4, machines=2, machine_rank=1, use_cpu=True, main_process_port=500)
    mpi = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    assert decide(SIMPLE | mpi, request, CPU).relaunch.local_processes == 2


def test_hand_started_ranks_without_a_local_count():
    sixteen = TORCH | {"WORLD_SIZE": "16"}
    del sixteen["LOCAL_WORLD_SIZE"]
    assert "LOCAL_WORLD_SIZE is not set" in refusal(sixteen, None, EIGHT_GPUS)
    assert "16 processes on this machine" in refusal(sixteen | {"LOCAL_WORLD_SIZE": "16"}, None, EIGHT_GPUS)


def test_simple_launcher_asked_for_several():
    world = decide(SIMPLE, LaunchRequest(processes=2, use_cpu=True), CPU)
    assert world.relaunch.local_processes == 2 and world.relaunch.machines == 1
    # The default port is nobody's wish: any free one. A port that was asked for is kept.
    assert world.relaunch.master_port is None
    assert decide(SIMPLE, LaunchRequest(processes=2, main_process_port=0), CPU).relaunch.master_port is None
    chosen = decide(SIMPLE | {"MASTER_PORT": "777"}, LaunchRequest(processes=2, main_process_port=777), CPU)
    assert chosen.relaunch.master_port == 777
    # MASTER_ADDR may be the user's own: one process was asked for.
    assert decide(SIMPLE, LaunchRequest(processes=1), CPU).relaunch is None
    assert "cpu_2.yaml" in refusal(SIMPLE, None)
    assert "1 cuda" in refusal(SIMPLE, LaunchRequest(processes=2), ONE_GPU)


def test_simple_launcher_over_machines():
    request = LaunchRequest(processes=4, machines=2, machine_rank=1, use_cpu=True, main_process_port=500)
    plan = decide(SIMPLE | {"MASTER_ADDR": "node0", "MASTER_PORT": "500"}, request, CPU).relaunch
    assert (plan.local_processes, plan.machines, plan.machine_rank) == (2, 2, 1)
    assert (plan.master_address, plan.master_port) == ("node0", 500)
    assert "multiple" in refusal(SIMPLE, LaunchRequest(processes=3, machines=2))
    assert "multiple" in refusal(SIMPLE, LaunchRequest(processes=1, machines=2))


def test_mpi_ranks_get_torch_variables():
    environ = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    world = decide(environ | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, None, CPU)
    assert (world.processes, world.rank, world.cpu) == (2, 1, True)
    assert world.environ["WORLD_SIZE"] == "2" and world.environ["LOCAL_RANK"] == "1"
    assert world.environ["MASTER_ADDR"] == "127.0.0.1"
    assert "MASTER_ADDR" in refusal(environ | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"})
    assert "no rank" in refusal({"PMI_SIZE": "2"})


def test_gpu_launch_without_a_gpu():
    wizard = LaunchRequest(processes=2, kind="MULTI_GPU", config_file=Path("default_config.yaml"))
    world = decide(TORCH, wizard, CPU)
    assert world.cpu and world.processes == 2
    assert world.notes == ("the launch asks for GPUs and none is visible: 2 processes run on CPU (gloo)",)
    eight = TORCH | {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}
    assert "8 GPU processes" in refusal(eight, wizard)
    shipped = LaunchRequest(processes=8, kind="MULTI_GPU", config_file=SHIPPED_CONFIGS / "gpu_8.yaml")
    assert refusal(eight, shipped).startswith("gpu_8.yaml is for 8 GPU(s)")
    # With enough cores it would run, slowly and unasked.
    assert "no device is visible" in refusal(eight, shipped, Hardware("", 0, 64))
    one = LaunchRequest(processes=1, config_file=SHIPPED_CONFIGS / "gpu_1.yaml")
    assert refusal({}, one).startswith("gpu_1.yaml is for 1 GPU(s)")
    assert "share 2 CPU cores" in decide(eight, None, CPU).notes[0]


def test_cpu_config_on_a_gpu_machine_stays_on_cpu():
    request = LaunchRequest(processes=2, kind="MULTI_GPU", use_cpu=True, config_file=SHIPPED_CONFIGS / "cpu_2.yaml")
    assert decide(TORCH, request, EIGHT_GPUS).cpu
    assert decide(TORCH, request, CPU).notes == ()


def test_sharded_launches():
    fsdp = TORCH | {"ACCELERATE_USE_FSDP": "true"}
    deepspeed = TORCH | {"ACCELERATE_USE_DEEPSPEED": "true"}
    assert "FSDP, which needs GPUs" in refusal(fsdp)
    assert "DeepSpeed, which needs GPUs" in refusal(deepspeed)
    assert decide(deepspeed, None, EIGHT_GPUS, sharding=True).processes == 2
    assert "FSDP" in refusal({}, LaunchRequest(processes=1, kind="FSDP"))
    assert "FSDP" in refusal(fsdp, None, EIGHT_GPUS, force_cpu=True, sharding=True)
    assert decide(fsdp, None, EIGHT_GPUS, sharding=True).processes == 2
    assert "Megatron" in refusal(TORCH | {"ACCELERATE_USE_MEGATRON_LM": "true"}, None, EIGHT_GPUS)


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED"])
def test_a_trainer_that_needs_the_whole_model_refuses_sharding(kind):
    environ = TORCH | {f"ACCELERATE_USE_{kind}": "true"}
    words = refusal(environ, None, EIGHT_GPUS, sharding=False)
    assert "needed whole" in words and "accelerate_configs/gpu_8.yaml" in words
    assert "gpu_8.yaml" in refusal({}, LaunchRequest(processes=1, kind=kind), ONE_GPU, sharding=False)
    assert "cpu_2.yaml" in refusal(environ, None, CPU, sharding=False)
    assert decide(TORCH, None, EIGHT_GPUS, sharding=False).processes == 2


@pytest.mark.parametrize(
    "command",
    [
        ["/v/bin/python3", "/v/bin/accelerate", "launch", "--cpu", "x.py"],
        ["/v/bin/accelerate-launch", "--cpu", "x.py"],
        ["python", "-m", "accelerate.commands.launch", "--cpu", "x.py"],
        ["python", "-m", "accelerate.commands.accelerate_cli", "launch", "--cpu", "x.py"],
        ["python", "/site-packages/accelerate/commands/launch.py", "--cpu", "x.py"],
    ],
)
def test_the_launcher_is_found_in_a_command_line(command):
    assert launch_arguments(command) == ["--cpu", "x.py"]


def test_other_programs_are_no_launcher():
    for command in (["bash", "run.sh"], ["vim", "accelerate"], ["torchrun", "x.py"], [], ["accelerate", "config"]):
        assert launch_arguments(command) is None


def test_flags_win_over_the_file(tmp_path, monkeypatch):
    file = tmp_path / "two.yaml"
    file.write_text("distributed_type: MULTI_CPU\nuse_cpu: true\nnum_processes: 2\nmixed_precision: bf16\n")
    monkeypatch.setattr("lib.world.default_config_file", str(tmp_path / "absent"))
    request = read_request(["--config_file", str(file), "--num-processes", "4", "x.py", "--num_processes", "9"])
    assert (request.processes, request.use_cpu, request.kind) == (4, True, "MULTI_CPU")
    assert request.mixed_precision == "bf16" and request.config_file == file and not request.shipped
    # Not said is not "no".
    assert read_request(["--num_processes", "2", "x.py"]).mixed_precision is None
    monkeypatch.setattr("lib.world.default_config_file", str(file))
    assert read_request(["x.py"]).processes == 2
    # Accelerate itself does not read its cached default under --cpu.
    assert read_request(["--cpu", "x.py"]).processes is None
    assert read_request(["--multi_gpu", "--num_processes=3", "x.py"]).kind == "MULTI_GPU"
