"""Which processes belong together: reads what the launcher left and refuses ranks that do not know each other.

`decide` is a pure function of the environment, the launcher's command line and the hardware. What each launcher sets
was measured with Accelerate 1.15 and torch 2.13: `accelerate launch` runs either torchelastic, which sets RANK and
WORLD_SIZE, or its simple launcher, which starts one process and, when asked for more, sets only MASTER_ADDR and
MASTER_PORT.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch
from accelerate.commands.config.config_args import default_config_file, load_config_from_file
from accelerate.commands.launch import launch_command_parser

from lib.errors import UserError
from lib.relaunch import Relaunch
from lib.zero import is_true

SHIPPED_CONFIGS = Path(__file__).resolve().parents[1] / "accelerate_configs"
MPI_SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
MPI_RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
MPI_LOCAL_RANK = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK")
MPI_LOCAL_SIZE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE")
TWO_ON_CPU = "accelerate launch --config_file accelerate_configs/cpu_2.yaml --num_processes {n} SCRIPT ..."
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class LaunchRequest:
    """What the `accelerate launch` above this process was asked for, from its command line and its config file."""

    processes: int | None = None
    machines: int = 1
    machine_rank: int = 0
    use_cpu: bool = False
    kind: str = "NO"
    mixed_precision: str | None = None
    config_file: Path | None = None
    main_process_port: int | None = None

    @property
    def shipped(self) -> bool:
        return self.config_file is not None and self.config_file.resolve().parent == SHIPPED_CONFIGS

    @property
    def wants_devices(self) -> bool:
        return not self.use_cpu and self.kind not in ("NO", "MULTI_CPU")


@dataclass(frozen=True)
class Hardware:
    """Accelerator devices that this process can see (kind "cuda", "xpu", ..., "" for none) and usable CPU cores."""

    kind: str
    devices: int
    cores: int


@dataclass(frozen=True)
class World:
    """The decided world. `environ` holds variables to set before the Accelerator is built."""

    processes: int = 1
    rank: int = 0
    local_processes: int = 1
    cpu: bool = False
    relaunch: Relaunch | None = None
    notes: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


def decide(
    environ: Mapping[str, str],
    request: LaunchRequest | None,
    hardware: Hardware,
    *,
    force_cpu: bool = False,
    sharding: bool = False,
) -> World:
    """The world this process is part of, or a UserError that says what was found and how to start it right.

    `sharding`: whether the trainer runs with a model that is divided over the ranks; else such a launch is refused.
    """
    world = _ranks(environ, request)
    cpu = force_cpu or is_true(environ.get("ACCELERATE_USE_CPU")) or bool(request and request.use_cpu)
    _check_sharding(environ, request, cpu or hardware.devices == 0, sharding)
    if cpu or (hardware.devices == 0):
        notes = [] if cpu else _missing_devices(request, world, hardware)
        if world.local_processes > hardware.cores:
            notes.append(f"{world.local_processes} processes share {hardware.cores} CPU cores")
        return _replace(world, cpu=cpu or world.processes > 1 or hardware.kind == "", notes=tuple(notes))
    if world.processes > 1 and hardware.kind == "mps":
        return _replace(world, cpu=True, notes=("an Apple GPU serves one process only: the ranks run on CPU (gloo)",))
    if world.local_processes > hardware.devices:
        if world.processes > 1 and not environ.get("LOCAL_WORLD_SIZE") and not world.environ:
            raise UserError(
                f"LOCAL_WORLD_SIZE is not set, so all {world.processes} processes of WORLD_SIZE would be on this "
                f"machine, where {hardware.devices} {hardware.kind} device(s) are visible; export LOCAL_WORLD_SIZE "
                "(processes per machine), or start with accelerate launch or torchrun, which set it"
            )
        raise UserError(
            f"this launch asks for {world.local_processes} processes on this machine, and {hardware.devices} "
            f"{hardware.kind} device(s) are visible; give --num_processes {hardware.devices}, or use "
            "--config_file accelerate_configs/cpu_2.yaml for CPU"
        )
    if world.processes == 1 and hardware.devices > 1:
        count = hardware.devices
        hint = f"1 of {count} {hardware.kind} devices in use; accelerate launch --num_processes {count} uses all"
        return _replace(world, notes=(hint,))
    return world


def _ranks(environ: Mapping[str, str], request: LaunchRequest | None) -> World:
    """Number of processes and own rank, from what the launcher left in the environment."""
    if environ.get("WORLD_SIZE"):
        return _torch_world(environ)
    mpi_processes = _integer(environ, MPI_SIZE, 1)
    # One launcher per machine under MPI: the ranks are not MPI's.
    per_machine = request is not None and request.machines == mpi_processes
    if mpi_processes > 1 and not per_machine:
        return _mpi_world(environ, mpi_processes)
    half = [name for name in ("RANK", "LOCAL_RANK") if environ.get(name)]
    if half:
        raise UserError(
            f"found {' and '.join(half)} in the environment but no WORLD_SIZE: half a launch; unset "
            f"{' '.join(half)} for one process, or start all with: {TWO_ON_CPU.format(n=2)}"
        )
    if "ACCELERATE_MIXED_PRECISION" in environ and environ.get("MASTER_ADDR"):
        return _asked_for(environ, request)
    tasks = _integer(environ, ("SLURM_STEP_NUM_TASKS",), 1)
    if tasks > 1:
        raise UserError(
            f"srun started {tasks} tasks and none knows of the others (no WORLD_SIZE); start one launcher per node, as "
            "in slurm/one_node.sbatch and slurm/many_nodes.sbatch"
        )
    return World()


def _torch_world(environ: Mapping[str, str]) -> World:
    processes = _integer(environ, ("WORLD_SIZE",), 1)
    needed = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in needed if not environ.get(name)]
    if processes > 1 and missing:
        raise UserError(
            f"WORLD_SIZE={processes} is set but {', '.join(missing)} is not: these processes would each train alone; "
            "start them with accelerate launch or torchrun, or unset WORLD_SIZE for one process"
        )
    rank = _integer(environ, ("RANK",), 0)
    if not 0 <= rank < max(processes, 1):
        raise UserError(f"RANK={rank} does not fit WORLD_SIZE={processes}; ranks run from 0 to {processes - 1}")
    _check_tasks(environ, processes)
    local = _integer(environ, ("LOCAL_WORLD_SIZE",), processes)
    return World(processes=max(processes, 1), rank=rank, local_processes=max(local, 1))


def _check_tasks(environ: Mapping[str, str], processes: int) -> None:
    """Launchers that srun or mpirun started several times must be the nodes of one world, not a world each."""
    name = next((name for name in (*MPI_SIZE, "SLURM_STEP_NUM_TASKS") if environ.get(name)), None)
    if name is None:
        return
    tasks = _integer(environ, (name,), 1)
    # torchelastic tells how many launchers have met; without it every task is a rank.
    met = _integer(environ, ("GROUP_WORLD_SIZE",), processes)
    if tasks > 1 and tasks != met:
        raise UserError(
            f"srun or mpirun started {tasks} tasks ({name}) and this world has {met} of them and {processes} "
            "process(es): each launcher made its own world; give --num_machines, --machine_rank and --main_process_ip "
            f"as in slurm/many_nodes.sbatch, or start one task (in an interactive shell: unset {name})"
        )


def _mpi_world(environ: Mapping[str, str], processes: int) -> World:
    rank = _integer(environ, MPI_RANK, -1)
    local_rank = _integer(environ, MPI_LOCAL_RANK, -1)
    local = _integer(environ, MPI_LOCAL_SIZE, processes)
    if rank < 0 or local_rank < 0:
        raise UserError(
            f"MPI started {processes} processes but gives no rank ({', '.join(MPI_RANK)}); use accelerate launch"
        )
    if local < processes and not environ.get("MASTER_ADDR"):
        raise UserError(
            f"MPI started {processes} processes on several machines; export MASTER_ADDR with the first machine's name"
        )
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(local),
        "MASTER_ADDR": environ.get("MASTER_ADDR") or "127.0.0.1",
        "MASTER_PORT": environ.get("MASTER_PORT") or "29500",
    }
    return World(processes=processes, rank=rank, local_processes=local, environ=variables)


def _asked_for(environ: Mapping[str, str], request: LaunchRequest | None) -> World:
    """Accelerate's simple launcher: more than one process was asked for, one was started."""
    if request is None or request.processes is None:
        raise UserError(
            "accelerate launch was asked for several processes and started one; its command line cannot be read from "
            f"here; use: {TWO_ON_CPU.format(n=2)}"
        )
    if request.processes == 1 and request.machines == 1:
        _check_tasks(environ, 1)
        return World()
    local, rest = divmod(request.processes, request.machines)
    if rest or local < 1:
        raise UserError(
            f"--num_processes {request.processes} is the total over --num_machines {request.machines} and must be a "
            "multiple of it"
        )
    port = _integer(environ, ("MASTER_PORT",), 0)
    chosen = request.main_process_port not in (None, 0) or request.machines > 1
    start = Relaunch(local, request.machines, request.machine_rank, environ["MASTER_ADDR"], port if chosen else None)
    return World(processes=request.processes, local_processes=local, relaunch=start)


def _check_sharding(environ: Mapping[str, str], request: LaunchRequest | None, on_cpu: bool, sharding: bool) -> None:
    kind = request.kind if request else "NO"
    if is_true(environ.get("ACCELERATE_USE_MEGATRON_LM")) or kind == "MEGATRON_LM":
        raise UserError("the launch asks for Megatron-LM, which these trainers do not support; use FSDP")
    fsdp = is_true(environ.get("ACCELERATE_USE_FSDP")) or kind == "FSDP"
    deepspeed = is_true(environ.get("ACCELERATE_USE_DEEPSPEED")) or kind == "DEEPSPEED"
    asked = "FSDP" if fsdp else "DeepSpeed"
    if (fsdp or deepspeed) and on_cpu:
        raise UserError(
            f"the launch asks for {asked}, which needs GPUs; use --config_file accelerate_configs/cpu_2.yaml"
        )
    if (fsdp or deepspeed) and not sharding:
        raise UserError(
            f"the launch asks for {asked}, which shards the model, and the model is needed whole on every rank by this "
            "trainer; use --config_file accelerate_configs/gpu_8.yaml (--num_processes N)"
        )


def _missing_devices(request: LaunchRequest | None, world: World, hardware: Hardware) -> list[str]:
    """Words for a launch that may have meant GPUs on a machine that shows none."""
    if request is None:
        return []
    if request.shipped:
        raise UserError(
            f"{request.config_file.name} is for {world.local_processes} GPU(s) on this machine and no device is "
            "visible (see nvidia-smi and CUDA_VISIBLE_DEVICES); for CPU use accelerate_configs/cpu_1.yaml or cpu_2.yaml"
        )
    if not request.wants_devices:
        return []
    if world.local_processes > hardware.cores:
        raise UserError(
            f"the launch asks for {world.local_processes} GPU processes; no device is visible and this machine has "
            f"{hardware.cores} CPU cores; use --config_file accelerate_configs/cpu_2.yaml with at most as many"
        )
    return [f"the launch asks for GPUs and none is visible: {world.processes} processes run on CPU (gloo)"]


def _replace(world: World, **changes) -> World:
    return World(**{**world.__dict__, **changes})


def _integer(environ: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        if environ.get(name):
            try:
                return int(environ[name])
            except ValueError:
                raise UserError(
                    f"{name}={environ[name]!r} in the environment is not a whole number; unset it"
                ) from None
    return default


def see_hardware() -> Hardware:
    """The devices torch can see and the cores this process may run on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not torch.accelerator.is_available():
        return Hardware("", 0, cores)
    return Hardware(torch.accelerator.current_accelerator().type, torch.accelerator.device_count(), cores)


def find_request(environ: Mapping[str, str]) -> LaunchRequest | None:
    """The request of the nearest `accelerate launch` among this process's ancestors; None when none can be read."""
    if "ACCELERATE_MIXED_PRECISION" not in environ:
        return None
    try:
        commands = [process.cmdline() for process in psutil.Process().parents()]
    except psutil.Error:
        return None
    for command in commands:
        arguments = launch_arguments(command)
        if arguments is not None:
            return read_request(arguments)
    return None


def launch_arguments(command: list[str]) -> list[str] | None:
    """The arguments after `accelerate launch` in a process's command line, in any of its spellings; else None."""
    for index, word in enumerate(command[:4]):
        rest = command[index + 1 :]
        if Path(word).name == "accelerate" and rest[:1] == ["launch"]:
            return rest[1:]
        if word.endswith(("accelerate_cli", "accelerate_cli.py")) and rest[:1] == ["launch"]:
            return rest[1:]
        if Path(word).name == "accelerate-launch" or word.endswith(
            ("accelerate.commands.launch", "commands/launch.py")
        ):
            return rest
    return None


def read_request(arguments: list[str]) -> LaunchRequest:
    """Resolves the arguments of `accelerate launch` the way it does itself: flags first, then the config file."""
    flags = launch_command_parser().parse_args(arguments)
    path = None
    if flags.config_file is not None:
        path = flags.config_file
    elif os.path.isfile(default_config_file) and not flags.cpu:
        path = default_config_file
    config = load_config_from_file(path) if path is not None else None
    kind = "NO" if config is None else config.distributed_type.value
    for flag, name in (("multi_gpu", "MULTI_GPU"), ("use_fsdp", "FSDP"), ("use_deepspeed", "DEEPSPEED")):
        if getattr(flags, flag):
            kind = name

    def value(name: str, default=None):
        given = getattr(flags, name, None)
        return given if given is not None else getattr(config, name, default)

    return LaunchRequest(
        processes=value("num_processes"),
        machines=int(value("num_machines", 1) or 1),
        machine_rank=int(value("machine_rank", 0) or 0),
        use_cpu=bool(flags.cpu or getattr(config, "use_cpu", False)),
        kind=kind,
        mixed_precision=value("mixed_precision"),
        config_file=None if path is None else Path(path),
        main_process_port=value("main_process_port"),
    )


def follow_launcher(environ: Mapping[str, str]) -> None:
    """Asks Linux to send this process SIGTERM when its launcher dies, so that none is orphaned.

    Accelerate's simple launcher passes no signal on, and torchelastic is killed outright by SIGKILL or SIGUSR1.
    """
    launched = "ACCELERATE_MIXED_PRECISION" in environ or "TORCHELASTIC_RUN_ID" in environ
    if launched and sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
