"""What the promise suite has to know about a trainer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class BadInput:
    """One wrong or doubtful input and what is said about it.

    `prepare(folder, data)` makes what the row needs in `folder`, the working folder of the run; `data` is the folder of
    the good data. code 2: one line on stderr that holds all `words`; code 0: the run goes on and `words` are in its
    output. `writes` are globs below the folder of what may be made or changed.
    """

    name: str
    flags: str
    words: tuple[str, ...]
    prepare: Callable[[Path, Path], None] | None = None
    code: int = 2
    writes: tuple[str, ...] = ()
    good_data: bool = False  # adds the flags of the good data


@dataclass(frozen=True)
class TrainerCase:
    """One trainer. Flags are written as on a command line.

    flags: a whole run of a few seconds on a CPU, `steps` optimiser steps long, fp32, a checkpoint at every step, an
        evaluation now and then, with dropout or whatever else draws at random.
    make_data: called once with an empty folder; returns the flags that name the data it made there.
    control: what must not give the same curve, on 1 process; by default `halved`.
    still: takes away what depends on the process (dropout) for the comparison of 1 process with 2; whole and halved:
        the same global batch on 1 process and on each of 2; loss_tolerance: how far any loss of the two may be apart;
        weight_tolerance: the same for the weights, as a share of the way from the first weights to the last.
    diverge: the loss cannot stay finite. poison: ("module:function") makes one record's numbers not finite, called in
        the run with the name of the record; pick_record(run directory): a record that `flags` trains on.
    evaluation: ("module:function") what does one evaluation, called once for each.
    disk_kib: of a file system on which some of the checkpoints of `flags` fit, not all.
    other_model: no checkpoint of `flags` fits. clocks: endings of keys, in metrics and results, that tell time.
    """

    name: str
    script: Path
    flags: str
    steps: int
    make_data: Callable[[Path], list[str]]
    result_keys: frozenset[str]
    still: str
    whole: str
    halved: str
    diverge: str
    poison: str
    pick_record: Callable[[Path], str]
    evaluation: str
    other_model: str
    bad_inputs: tuple[BadInput, ...]
    clocks: tuple[str, ...] = ("_s",)
    disk_kib: int = 3 * 1024
    control: str | None = None
    loss_tolerance: float = 1e-4
    weight_tolerance: float = 5e-2
