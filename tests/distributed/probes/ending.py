"""Ends in the way `--ending` names, on the rank `--who` names (-1 = all), after one collective of all ranks."""

import os
import signal
import sys
import time
from dataclasses import dataclass

from lib import launch
from lib.args import RunArgs, option
from lib.distributed import any_rank
from lib.errors import UserError
from lib.launch import run, start


@dataclass
class Config(RunArgs):
    ending: str = option("normal", "normal, user, late, bug, kill, hang, sleep, early")
    who: int = option(-1, "rank, -1 = all")
    late_s: float = option(7.0, "how much later rank 1 meets what rank 0 met, with --ending late")


def act(config: Config) -> None:
    if config.ending == "late" and os.environ["RANK"] == "1":
        # The thread that ends ranks that do not come at all would be first.
        launch._end_watch()
        time.sleep(config.late_s)
    if config.ending in ("user", "early", "late"):
        raise UserError("found nothing in the folder;\nexpected structures")
    if config.ending == "bug":
        raise KeyError("a real bug")
    if config.ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if config.ending == "hang":
        # As under StopSignals: SIGTERM alone does not end it.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)


def told_to_stop(rank: int) -> None:
    sys.stderr.write(f"rank {rank} was told to stop\n")
    sys.exit(3)


def main(config: Config) -> None:
    mine = config.who in (-1, int(os.environ.get("RANK", "0")))
    if mine and config.ending == "early":
        act(config)
    accelerator = start(config, precision="fp32")
    any_rank(accelerator, False)
    if config.ending == "sleep":
        signal.signal(signal.SIGTERM, lambda *_: told_to_stop(accelerator.process_index))
        # One write: print adds the line break in a second one, and the lines of the ranks mix.
        sys.stdout.write(f"rank {accelerator.process_index} pid {os.getpid()} parent {os.getppid()}\n")
        sys.stdout.flush()
        time.sleep(100)
    elif mine:
        act(config)
    any_rank(accelerator, False)
    sys.stdout.write(f"rank {accelerator.process_index} done\n")


if __name__ == "__main__":
    run(main, Config)
