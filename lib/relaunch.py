"""Starts the ranks that Accelerate's simple launcher was asked for and did not start; run as a program by lib.launch.

torchelastic does the work, as under `torchrun`; this wrapper keeps its noise down (the rank that fails has said why)
and passes the exit code of the first rank that failed on.
"""

import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import NoReturn

from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

from lib.failure import describe


@dataclass(frozen=True)
class Relaunch:
    """A world that was asked for but not started: this process must start it."""

    local_processes: int
    machines: int
    machine_rank: int
    master_address: str
    master_port: int | None


def replace_process(plan: Relaunch) -> NoReturn:
    """Replaces this process by the launcher of `plan`, which runs this very command in every rank.

    The process keeps its id, so whoever waits for it still does, and signals reach the launcher, which passes them on.
    """
    command = [sys.executable, "-P", "-m", "lib.relaunch", "--nproc_per_node", str(plan.local_processes)]
    if plan.machines == 1 and plan.master_port is None:
        command += ["--standalone"]
    else:
        command += ["--nnodes", str(plan.machines), "--node_rank", str(plan.machine_rank)]
        command += ["--master_addr", plan.master_address, "--master_port", str(plan.master_port)]
    command += ["--no_python", sys.executable, *sys.orig_argv[1:]]
    environ = {name: value for name, value in os.environ.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}
    # The launcher must find `lib` whatever the working folder is.
    parts = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(part for part in parts if part)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, environ)


def main(arguments: list[str]) -> int:
    """Runs torchelastic; the exit code is that of the first rank that failed, 128 + signal when it was killed."""
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    try:
        run(parse_args(arguments))
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode >= 0:
            return failure.exitcode
        name = signal.Signals(-failure.exitcode).name
        print(f"error: rank {rank} was killed by {name} from outside this program", file=sys.stderr)
        return 128 - failure.exitcode
    except SignalException as error:
        return 128 + error.sigval
    except DistError as error:
        # Before any rank was started: the port is taken, or the first machine does not answer.
        failure = describe(error)
        print(failure.text, file=sys.stderr)
        return failure.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
