"""Write a trained team as a competition submission: submission.py, numpy only, weights inside.

python scripts/export_snakes.py --checkpoint RUN/export --output DIR
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from lib import launch
from lib.args import option
from lib.checkpoint import load_export
from lib.errors import UserError
from lib.snakes.submission import SUBMISSION_FILE, WEIGHTS_FILE, export_submission


@dataclass
class Config:
    """What is exported, and where to."""

    checkpoint: str = option(help="export folder of a run (RUN/export) or the run itself", group="model")
    output: str = option(help="folder for submission.py; made if missing", group="run")
    weights_beside: bool = option(False, f"write the weights to {WEIGHTS_FILE} beside the file, not into it", "run")
    overwrite: bool = option(False, f"replace a {SUBMISSION_FILE} that is already there", "run")


def main(config: Config) -> None:
    target = Path(config.output) / SUBMISSION_FILE
    if target.exists() and not config.overwrite:
        raise UserError(f"{target} exists already: give another --output, or --overwrite to replace it")
    tensors, described = load_export(config.checkpoint)
    path = export_submission(tensors, described, config.output, embed=not config.weights_beside)
    count = sum(value.numel() for value in tensors.values())
    print(f"{path}: {count:,} weights, {path.stat().st_size / 1024:,.0f} KiB; hand in this file", flush=True)
    if config.weights_beside:
        print(f"{path.with_name(WEIGHTS_FILE)} belongs beside it", flush=True)


if __name__ == "__main__":
    sys.exit(launch.run(main, Config))
