"""The launch room: builds the Accelerator of a world that is the one that was asked for, and ends it cleanly."""

import atexit
import contextlib
import io
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NoReturn

import accelerate
import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs

from lib.allocator import keep_freed_memory
from lib.announce import announce, device_name, environment_facts, scaled_learning_rate
from lib.args import config_dict, parse
from lib.distributed import gather_rows
from lib.errors import UserError
from lib.failure import Failure, Watch, describe, report
from lib.relaunch import replace_process
from lib.world import TWO_ON_CPU, LaunchRequest, World, decide, find_request, follow_launcher, see_hardware
from lib.zero import fsdp2_variables

PRECISIONS = ("auto", "fp32", "bf16")
# What may differ between the ranks' configurations.
PER_RANK = ("local_rank",)

_watch: Watch | None = None


def start(config, *, precision: str | None, sharding: bool = False, handlers: tuple = ()) -> Accelerator:
    """The Accelerator of this process, once the world is known to be the one that was asked for.

    `precision` is "auto", "fp32", "bf16" or None (the launcher's word, else fp32). Uses `config.dist_timeout` (s) and,
    where the trainer has them, the original's launch flags (`--ddp`, `--local_rank`, `--gpu_ids`, ...; see
    `check_flags`). Raises UserError for a world whose processes do not know each other, devices that are not there,
    contradicting precision. A launch of several processes of which Accelerate started one is started here, in place of
    this process. `sharding`: whether the trainer runs with a model that is divided over the ranks by FSDP2,
    or by the rules of ZeRO (lib.zero); else such a launch is refused.
    `handlers` are further kwargs handlers of the Accelerator, of DDP say.
    On the CPU freed memory is kept (lib.allocator), so this comes before the first large tensor.
    """
    global _watch
    environ = os.environ
    follow_launcher(environ)
    request, hardware = find_request(environ), see_hardware()
    on_request = getattr(config, "device", None) == "cpu"
    world = decide(environ, request, hardware, force_cpu=on_request, sharding=sharding)
    notes = list(world.notes) + check_flags(config, environ, world)
    if world.relaunch is not None:
        replace_process(world.relaunch)
    divided, division = fsdp2_variables(environ)
    environ.update({**world.environ, **divided})
    on_cpu = world.cpu or hardware.devices == 0
    if on_cpu:
        keep_freed_memory()
    mixed, reason = resolve_precision(precision, environ, request, on_cpu)
    timeout_s = float(getattr(config, "dist_timeout", 600.0))
    accelerator = Accelerator(
        mixed_precision=mixed,
        cpu=world.cpu,
        gradient_accumulation_steps=1,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=timeout_s)), *handlers],
    )
    _check_accumulation(accelerator)
    accelerator.dist_timeout_s = timeout_s
    notes += [division + ("; there is one process" if accelerator.num_processes == 1 else "")] if division else []
    accelerator.launch_notes = [*notes, f"precision {mixed if mixed != 'no' else 'fp32'}: {reason}"]
    _check_world(accelerator, world)
    accelerator.world_facts = _agree(accelerator, config)
    if accelerator.num_processes > 1:
        _watch = Watch().start()
    return accelerator


def check_flags(config, environ: Mapping[str, str], world: World) -> list[str]:
    """The original's own launch flags: accepted where they agree with the launcher, else refused, never ignored.

    Returns log lines. Looks at `ddp`, `local_rank`, `world_size`, `master_addr`, `master_port`, `gpu_ids`, `device` if
    the configuration has them and the user set them.
    """
    given = {name: getattr(config, name) for name in getattr(config, "explicit", ()) if hasattr(config, name)}
    command = f"accelerate launch --num_processes 2 {shlex.join(sys.argv[:1])} ..."
    notes = []
    if given.get("ddp"):
        if world.processes < 2 and not environ.get("WORLD_SIZE"):
            raise UserError(
                f"--ddp asks for several processes and this one was started alone; start it with: {command}"
            )
        notes.append(f"--ddp has no effect: the launcher started {world.processes} process(es)")
    rank, size = environ.get("LOCAL_RANK", "-1"), environ.get("WORLD_SIZE", str(world.processes))
    for name, actual in (("local_rank", rank), ("world_size", size)):
        if str(given.get(name, -1)) not in ("-1", actual):
            raise UserError(
                f"--{name} {given[name]} is the launcher's affair (here {actual}); drop it and use: {command}"
            )
    if given.get("gpu_ids"):
        raise UserError(
            f"--gpu_ids belongs before the script's name: accelerate launch --gpu_ids {given['gpu_ids']} "
            f"{shlex.join(sys.argv[:1])} ..."
        )
    for name, variable, option in (
        ("master_port", "MASTER_PORT", "--main_process_port"),
        ("master_addr", "MASTER_ADDR", "--main_process_ip"),
    ):
        if name in given and str(given[name]) != environ.get(variable):
            raise UserError(
                f"--{name} {given[name]} of the script has no effect; give accelerate launch {option} {given[name]}"
                + (" (0 = any free port) or torchrun --master_port" if name == "master_port" else "")
            )
    if given.get("device") not in (None, "cpu"):
        raise UserError(
            f"--device {given['device']}: the launcher places devices (accelerate launch --gpu_ids ...); only cpu here"
        )
    return notes


def resolve_precision(
    precision: str | None, environ: Mapping[str, str], request: LaunchRequest | None, on_cpu: bool
) -> tuple[str, str]:
    """Accelerate's mixed precision ("no" or "bf16") and the reason, from the script's and the launcher's wishes."""
    if precision is not None and precision not in PRECISIONS:
        raise UserError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
    stated = environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    # Accelerate exports "no" whether it was asked for or not; only its command line or config file tells.
    launcher = stated if stated != "no" or (request and request.mixed_precision) else None
    if launcher not in (None, "no", "bf16"):
        raise UserError(f"the launcher asks for mixed precision {launcher}; these trainers run bf16 or no (fp32)")
    wanted = {"fp32": "no", "bf16": "bf16"}.get(precision)
    if wanted is not None and launcher is not None and wanted != launcher:
        raise UserError(
            f"--precision {precision} contradicts the launcher's mixed precision {launcher!r}; drop one of them, or "
            f"give accelerate launch --mixed_precision {wanted}"
        )
    if wanted is not None:
        return wanted, "--precision"
    if launcher is not None:
        return launcher, "the launcher's mixed precision"
    if precision is None:
        return "no", "default"
    if supports_bf16(on_cpu):
        return "bf16", "auto, the hardware computes in bf16"
    return "no", "auto, the hardware does not compute in bf16"


def supports_bf16(on_cpu: bool) -> bool:
    """Whether bf16 pays: native on the GPU, or AVX-512 BF16 or AMX on the CPU."""
    if not on_cpu:
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _check_accumulation(accelerator: Accelerator) -> None:
    """The trainers accumulate themselves; Accelerate's own setting would divide every gradient once more."""
    steps = accelerator.gradient_accumulation_steps
    if steps != 1:
        raise UserError(
            f"the launcher or ACCELERATE_GRADIENT_ACCUMULATION_STEPS asks for {steps} accumulation steps, which would "
            f"divide every gradient by {steps}; set it to 1 and give --gradient_accumulation_steps to the script"
        )


def _check_world(accelerator: Accelerator, world: World) -> None:
    if accelerator.num_processes != world.processes or accelerator.process_index != world.rank:
        raise UserError(
            f"the launcher started {world.processes} processes and Accelerate sees {accelerator.num_processes} (this "
            f"one is {accelerator.process_index}, launched as {world.rank}): they would each train alone; use "
            f"{TWO_ON_CPU.format(n=world.processes)}"
        )


def _agree(accelerator: Accelerator, config) -> list[dict]:
    """Every rank's facts, gathered; a UserError when ranks were started with different arguments or software."""
    facts = {
        "host": socket.gethostname(),
        "device": device_name(accelerator),
        "threads": torch.get_num_threads(),
        "pid": os.getpid(),
        "must_agree": {
            **{f"--{name}": value for name, value in config_dict(config).items() if name not in PER_RANK},
            "WORLD_SIZE": accelerator.num_processes,
            "distributed type": accelerator.distributed_type.value,
            "device type": accelerator.device.type,
            "precision": accelerator.mixed_precision,
            "torch": torch.__version__,
            "accelerate": accelerate.__version__,
        },
    }
    everyone = gather_rows(accelerator, [facts])
    first = everyone[0]["must_agree"]
    for rank, other in enumerate(everyone):
        for name, value in other["must_agree"].items():
            if first.get(name) != value:
                raise UserError(
                    f"rank {rank} on {other['host']} has {name} = {value}, rank 0 on {everyone[0]['host']} has "
                    f"{first.get(name)}; start all processes with the same command and software"
                )
    return [{name: value for name, value in fact.items() if name != "must_agree"} for fact in everyone]


def run(
    main: Callable[[object], None],
    config_class: type,
    argv: list[str] | None = None,
    aliases: dict[str, str] | None = None,
) -> NoReturn:
    """The entry of every script: parses, runs `main(config)`, leaves with 0, 2 (UserError) or 1 (anything else).

    A UserError is one line on stderr. Any other exception is printed with its traceback and its rank, and ends all
    ranks.
    """
    follow_launcher(os.environ)
    config, failure, grouped = None, None, False
    try:
        # All ranks read the same command line: one answer to --help is enough.
        quiet = (
            contextlib.nullcontext()
            if os.environ.get("RANK", "0") == "0"
            else contextlib.redirect_stdout(io.StringIO())
        )
        with quiet:
            config = parse(config_class, argv, aliases)
        main(config)
        grouped = end()
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise
        grouped = end()
    except (Exception, KeyboardInterrupt) as error:
        failure = describe(error, config)
    if failure is None and grouped:
        # The prepared model still holds gloo's threads; torn down by the interpreter, a rank in some forty aborts.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    if failure is None:
        sys.exit(0)
    _leave(failure)


def end() -> bool:
    """Destroys the process group of a run that ended well; True when there was one."""
    _end_watch()
    grouped = dist.is_available() and dist.is_initialized()
    if grouped:
        dist.destroy_process_group()
    return grouped


def _end_watch() -> None:
    global _watch
    if _watch is not None:
        _watch.stop()
        _watch = None


def _leave(failure: Failure) -> NoReturn:
    if threading.current_thread() is threading.main_thread():
        # The launcher ends all ranks as soon as one has left; this one is leaving already, with its own exit code.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # A store that goes away while the watch asks it makes torch print a warning.
    _end_watch()
    code = report(failure)
    if dist.is_available() and dist.is_initialized():
        # Destroying a process group whose ranks have gone may hang; the closed sockets tell the others.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


__all__ = [
    "announce",
    "check_flags",
    "end",
    "environment_facts",
    "resolve_precision",
    "run",
    "scaled_learning_rate",
    "start",
]
