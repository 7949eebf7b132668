"""A model on every rank whose gradients go through shared memory; prints what each rank got, one JSON line per rank."""

import json
import sys
import time
from dataclasses import dataclass

import torch

from lib import local_average
from lib.args import RunArgs
from lib.distributed import state_hash
from lib.launch import run, start
from lib.local_average import Averaging

UPDATES = 200


def rows_of(rank: int, update: int) -> int:
    return 3 + (rank + update) % 4


def gradient(model, rank: int, update: int, averaging: Averaging | None = None) -> torch.Tensor:
    """The flat gradient of a sum over data of this rank and update; with `averaging` of the mean over all ranks'."""
    generator = torch.Generator().manual_seed(1000 * rank + update)
    model.zero_grad()
    called = averaging.model if averaging else model
    called(torch.randn(rows_of(rank, update), 7, generator=generator)).square().sum().backward()
    if averaging:
        averaging.post(rows_of(rank, update), 10.0**rank)
        if update % 50 == 25 + rank:
            time.sleep(0.1)
        rows, told = averaging.take().tolist()
        assert rows == sum(rows_of(other, update) for other in range(averaging.ranks))
        assert told == sum(10.0**other for other in range(averaging.ranks))
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@dataclass
class Config(RunArgs):
    end: str = ""
    shared: bool = True


def main(config: Config) -> None:
    acc = start(config, precision="fp32")
    rank, ranks = acc.process_index, acc.num_processes
    torch.manual_seed(0)
    bare = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    model = acc.prepare(bare)
    if not config.shared:
        local_average._possible = lambda *_: False
    averaging = Averaging(acc, model, timeout_s=3.0)
    worst, found = 0.0, []
    for update in range(UPDATES):
        if update % 50 == rank:
            time.sleep(0.1)  # one is late, now this one and now that
        mean = gradient(model, rank, update, averaging)
        found.append(mean)
        single = torch.stack([gradient(bare, other, update) for other in range(ranks)]).sum(0)
        single /= sum(rows_of(other, update) for other in range(ranks))
        worst = max(worst, float((mean - single).abs().max()))
    facts = {"rank": rank, "shared": averaging.shared, "worst": worst, "same": state_hash({"g": torch.stack(found)})}
    if config.end == "silent" and rank == 0:
        time.sleep(4.5)
    elif config.end:
        started = time.monotonic()
        try:
            gradient(model, rank, UPDATES, averaging)
        except RuntimeError as error:
            facts |= {"error": str(error), "after_s": time.monotonic() - started}
    sys.stdout.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    run(main, Config)
