"""The protein trainer in the promise suite."""

import json
from pathlib import Path

import numpy as np
from protein_inputs import BAD_INPUTS
from trainer_case import ROOT, TrainerCase

from lib.protein.synthetic import MARKER, write_synthetic

CHAINS = 24


def make_structures(folder: Path) -> list[str]:
    """The smallest synthetic set, without the marker that would have every run measured against its known law."""
    write_synthetic(folder / "structures", chains=CHAINS, seed=0, log=lambda _: None)
    (folder / "structures" / MARKER).unlink()
    return ["--pdb_path", str(folder / "structures"), "--cache_dir", str(folder / "cache")]


def pick_record(run: Path) -> str:
    """The last training unit: with 12 steps of 2 units and fewer than 24 of them, every one is drawn."""
    return json.loads((run / "split.json").read_text(encoding="utf-8"))["train"][-1]


def break_record(name: str) -> None:
    """In a run: the coordinates of one training record are not finite."""
    from lib.protein import loader

    def poisoned(store, draws, *args, **options):
        batch, order, target = make(store, draws, *args, **options)
        ends = np.cumsum(batch.unit_lengths)
        for draw, length, end in zip(draws, batch.unit_lengths, ends):
            if draw.unit.name == name:
                batch.coordinates[end - length : end] = float("nan")
        return batch, order, target

    make, loader.training_batch = loader.training_batch, poisoned


PROTEIN = TrainerCase(
    name="protein",
    script=ROOT / "scripts" / "train_protein.py",
    flags=(
        "--hidden_dim 16 --k_neighbors 8 --precision fp32 --learning_rate 1e-2 --batch_size 2 --max_steps 12 "
        "--save_every 1 --eval_every 3 --report_to none --no_visualize --dist_timeout 60"
    ),
    steps=12,
    make_data=make_structures,
    result_keys=frozenset(
        "val_ppl_masked val_recovery_masked val_ppl_any_order val_ppl_one_shot val_recovery_one_shot "
        "baseline_unigram_ppl baseline_table_ppl baseline_table_recovery calibration_ece residues_per_s train_residues "
        "train_chains val_chains steps cpu_s wall_s processes weights_sha256".split()
    ),
    still="--dropout 0 --eval_every 0",
    whole="--batch_size 4",
    halved="--batch_size 2",
    diverge="--learning_rate 1e30",
    poison="protein_case:break_record",
    pick_record=pick_record,
    evaluation="lib.protein.evaluation:score_units",
    other_model="--hidden_dim 24",
    bad_inputs=BAD_INPUTS,
)
