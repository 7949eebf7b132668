"""Measure a trained model on a folder of structures: masked, any order and one shot, with table baselines beside.

One:  accelerate launch scripts/evaluate_protein.py --checkpoint RUN/export --pdb_path FOLDER --report_json FILE
Two:  accelerate launch --config_file accelerate_configs/cpu_2.yaml scripts/evaluate_protein.py ...
"""

import csv
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lib import launch
from lib.args import option
from lib.checkpoint import StopSignals, atomic_write_json, atomic_write_text, load_export, load_export_tensors
from lib.distributed import gather_rows, main_only_first
from lib.errors import UserError
from lib.protein.batching import eval_shares
from lib.protein.evaluation import Scores, per_amino_acid, score_units, summarise
from lib.protein.model import ModelConfig, ProteinModel
from lib.protein.options import DataOptions
from lib.protein.prepare import build_store, open_store, select_units
from lib.protein.reporting import result_table
from lib.protein.tables import Tables

PRECISIONS = ("auto", "fp32", "bf16")
# Fields of the trainer's data options that a measurement has no use for.
WITHOUT_EFFECT = {
    *("output_dir", "resume", "max_steps", "max_minutes", "eval_every", "save_every", "keep_checkpoints", "report_to"),
    *("lr_scale", "gradient_accumulation_steps", "max_grad_norm", "dry_run", "val_split", "split", "val_files"),
    *("test_files", "use_predefined_split"),
}


@dataclass
class Config(DataOptions):
    """What is measured on what."""

    checkpoint: str | None = option(None, "export folder of a run (RUN/export) or the run itself", "model")
    model_path: str | None = option(None, "the original's name of --checkpoint", "model")
    report_json: str | None = option(None, "write the results here, with the keys of results.json", "run")
    rows_csv: str | None = option(None, "write one row per chain here", "run")
    only: str | None = option(None, "text file of names: measure these files or entries only", "data")
    use_test_split: bool = option(False, "measure the names in test.txt of the cache folder", "data")
    max_tokens: int = option(2000, "residues of a batch", "run", minimum=20)
    precision: str | None = option(
        None, "default: the launcher's, else fp32; auto: bf16 where the hardware has it", "run", choices=PRECISIONS
    )
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")


def main(config: Config) -> None:
    for name in sorted(WITHOUT_EFFECT & config.explicit):
        raise UserError(
            f"--{name} has no effect here: drop it; --only FILE or --use_test_split choose what is measured"
        )
    if config.only and config.use_test_split:
        raise UserError("--only and --use_test_split both name what is measured: give one of them")
    if config.checkpoint and config.model_path:
        raise UserError("--checkpoint and --model_path are two names of one thing: give one of them")
    source = config.checkpoint or config.model_path
    if source is None:
        raise UserError("--checkpoint is missing: give the export folder of a run, RUN/export")
    acc = launch.start(config, precision=config.precision, sharding=False)
    weights, described = load_export(source)
    tables = Tables.from_tensors(load_export_tensors(source, "tables.safetensors"))
    model = ProteinModel(ModelConfig.from_dict(described))
    model.load_state_dict(weights)
    model.to(acc.device).eval()

    with main_only_first(acc):
        store = build_store(config, acc.print) if acc.is_main_process else open_store(config)
    units = select_units(config, store, acc.print)
    share = eval_shares(units, acc.num_processes)[acc.process_index]
    started = time.monotonic()
    with StopSignals() as signals:
        scores = score_units(
            model,
            store,
            share,
            tables,
            seed=config.seed,
            max_tokens=config.max_tokens,
            device=acc.device,
            autocast=acc.autocast,
            should_stop=lambda: signals.requested,
        )
        if signals.agreed(acc):
            acc.print(f"stopped by {signals.name or 'a signal'}: nothing was written")
            return
    merged = Scores()
    for part in gather_rows(acc, [scores]):
        merged.merge(part)
    if acc.is_main_process:
        report(config, merged, time.monotonic() - started, acc.num_processes)


def report(config: Config, scores: Scores, seconds: float, processes: int) -> None:
    results = summarise(scores)
    results |= {
        "wall_s": round(seconds, 3),
        "residues_per_s": results["val_residues"] / seconds,
        "processes": processes,
        "per_amino_acid_one_shot": per_amino_acid(scores, "one_shot"),
        "per_amino_acid_masked": per_amino_acid(scores, "masked"),
    }
    print(result_table(results), flush=True)
    if config.report_json:
        atomic_write_json(Path(config.report_json), results)
    if config.rows_csv:
        rows = sorted(scores.rows, key=lambda row: row["id"])
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        atomic_write_text(Path(config.rows_csv), text.getvalue())


if __name__ == "__main__":
    sys.exit(launch.run(main, Config))
