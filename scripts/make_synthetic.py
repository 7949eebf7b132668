"""Writes the embedded synthetic set: structure files of generated backbones whose sequence law is known exactly.

python scripts/make_synthetic.py --output_path data/synthetic --chains 512 --seed 0
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from lib import launch
from lib.args import option
from lib.errors import UserError
from lib.protein.synthetic import write_synthetic


@dataclass
class Config:
    """Flags of scripts/make_synthetic.py."""

    output_path: str | None = option(None, "folder to fill: absent, or without structure files", "data")
    chains: int = option(512, "number of chains, 40 to 200 residues each", "data", minimum=2)
    seed: int = option(0, "equal seed and number of chains give equal files", "data")


def main(config: Config) -> None:
    """Write the set; a complete one of the same size and seed is left as it is."""
    if config.output_path is None:
        raise UserError("no --output_path: found none, expected the folder that the synthetic set is written to")
    write_synthetic(Path(config.output_path), chains=config.chains, seed=config.seed)


if __name__ == "__main__":
    sys.exit(launch.run(main, Config))
