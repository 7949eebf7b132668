"""Calls every function of lib.distributed and prints what each rank got, one JSON line per rank."""

import json
import sys
import time
from dataclasses import dataclass

import torch

from lib.args import RunArgs
from lib.distributed import (
    any_rank,
    assert_equal_across_ranks,
    broadcast_value,
    gather_rows,
    global_sums,
    main_only_first,
    state_hash,
)
from lib.errors import UserError
from lib.launch import run, start
from lib.seeds import numpy_generator, seed_global


def caught(action) -> str:
    """The type and the message of the exception that `action` raises, "" when it raises none."""
    try:
        action()
    except (TypeError, RuntimeError, UserError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main_first(acc, error: Exception | None) -> None:
    with main_only_first(acc):
        if error is not None and acc.is_main_process:
            raise error


def collect(acc) -> dict:
    rank = acc.process_index
    facts = {"rank": rank}
    facts["rows"] = gather_rows(acc, [{"rank": rank, "item": i} for i in range(2 * rank + 1)])
    facts["uneven"] = gather_rows(acc, ["only rank 0"] if rank == 0 else [])
    facts["nothing"] = gather_rows(acc, [])
    facts["not_a_list"] = [caught(lambda value=value: gather_rows(acc, value)) for value in ({"a": 1}, "ab", (1,))]
    facts["sums"] = global_sums(
        acc, {"loss": 0.1 * (rank + 1), "count": 2.0**53} if rank else {"count": 1.0, "loss": 0.1}
    )
    facts["key_error"] = caught(lambda: global_sums(acc, {"a": 1.0} if rank else {"b": 1.0, "c": 2.0}))
    facts["any"] = [any_rank(acc, rank == 1), any_rank(acc, False), any_rank(acc, True)]
    facts["broadcast"] = broadcast_value(acc, {"who": rank, "list": [1, None, "x"]})
    facts["equal"] = caught(lambda: assert_equal_across_ranks(acc, "same", "the plan"))
    facts["unequal"] = caught(lambda: assert_equal_across_ranks(acc, f"mine is {rank}", "the plan"))
    seed_global(7, "weights")
    facts["hash"] = state_hash(torch.nn.Linear(5, 3))
    facts["data"] = numpy_generator(7, "data", rank).integers(0, 1 << 30, 3).tolist()
    before = time.monotonic()
    with main_only_first(acc):
        if acc.is_main_process:
            # Longer than the collective timeout of this launch: waiting is not a collective.
            time.sleep(4.0)
    facts["waited_s"] = time.monotonic() - before
    facts["main_first_user"] = caught(lambda: main_first(acc, UserError("no such folder")))
    facts["main_first_bug"] = caught(lambda: main_first(acc, TypeError("a bug on main")))
    facts["main_first_after"] = caught(lambda: main_first(acc, None))
    return facts


@dataclass
class Config(RunArgs):
    pass


def main(config: Config) -> None:
    acc = start(config, precision="fp32")
    sys.stdout.write(json.dumps(collect(acc)) + "\n")


if __name__ == "__main__":
    run(main, Config)
