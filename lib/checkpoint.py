"""Checkpoints that are whole or absent, verified before use, and free of anything that can run code.

    checkpoints/step-00001000/  model.safetensors  optimizer.safetensors  optimizer.json  state.json  manifest.json
                                common.safetensors  rank-00000.safetensors ...  where a trainer has such state
    export/                     model.safetensors  config.json  README.md

The manifest (step, world size, size and sha256 of each file, and a digest of itself) is written last, in a temporary
sibling that is then renamed. Random generators are not saved: every draw derives from (seed, step, rank), as in
lib/seeds.py.
"""

import time
from pathlib import Path

from accelerate import Accelerator
from safetensors.torch import save_file

from lib import training_state as states
from lib.errors import UserError
from lib.files import (
    atomic_directory,
    atomic_write_json,
    atomic_write_text,
    clean_leftovers,
    read_json,
    sha256_file,
    to_json,
)
from lib.manifests import (
    MANIFEST,
    forget_old,
    newest_checkpoint,
    readable_manifests,
    verify_checkpoint,
    write_manifest,
)
from lib.rank_files import COMMON, load_common, load_rank, raise_anywhere, staged
from lib.runs import RunDirectory, on_main, run_of
from lib.stopping import StopSignals
from lib.tensor_files import read_tensors

__all__ = [
    "RunDirectory",
    "StopSignals",
    "atomic_write_json",
    "atomic_write_text",
    "best_checkpoint",
    "find_checkpoint",
    "load_checkpoint",
    "load_common",
    "load_export",
    "load_export_tensors",
    "load_rank",
    "newest_checkpoint",
    "on_main",
    "save_checkpoint",
    "save_export",
]

EXPORT_FORMAT = "quartet-export-1"
PICKLED = (".pt", ".pth", ".ckpt", ".pkl", ".bin")
# JSON files, headers and folder entries beside the tensors, generously.
OVERHEAD_BYTES = 1 << 20


def save_checkpoint(
    acc: Accelerator,
    run: RunDirectory,
    step: int,
    *,
    model,
    optimizer,
    state: dict,
    keep: int,
    best: bool = False,
    common: states.Tensors | None = None,
    rank_tensors: states.Tensors | None = None,
) -> Path:
    """Save everything that a resume needs; keep the newest `keep` checkpoints and the newest one marked `best`.

    `state` holds numbers, text, lists, tuples and dicts (non-finite floats and tuples come back as they were). `common`
    are further tensors that are the same on all ranks, `rank_tensors` those of each rank (None on all or on none).
    Collective: every process calls it, the main process writes, a failure is raised on all of them. Raises UserError on
    a full or read-only disk; then the temporary folder is gone and earlier checkpoints are untouched.
    """
    states.refuse_unsaveable(acc)
    weights = states.gather_weights(acc, model)
    described, moments = states.gather_optimizer(acc, model, optimizer)
    final = run.checkpoints / f"step-{step:08d}"

    def write():
        former = readable_manifests(run.checkpoints)
        header = {
            "trainer": run.trainer,
            "step": step,
            "sequence": max((manifest.sequence for manifest in former), default=0) + 1,
            "world_size": acc.num_processes,
            "saved_unix_s": round(time.time(), 3),
            # Saving the same step again (at a stop signal, say) does not take the mark from it.
            "best": best or any(manifest.best for manifest in former if manifest.step == step),
        }
        texts = {
            "optimizer.json": states.strict_json(described),
            "state.json": states.strict_json(states.encode(state, {}, "state")),
        }
        files = {"model.safetensors": weights, "optimizer.safetensors": moments}
        files |= {} if common is None else {COMMON: states.savable(common)}
        notes = _write_folder(final, files, texts, header, move)
        return notes + forget_old(run.checkpoints, keep)

    with staged(acc, final, rank_tensors) as move:
        for note in on_main(acc, write):
            run.note(acc, note)
    return final


def _write_folder(
    final: Path, tensor_files: dict[str, states.Tensors], texts: dict[str, str], header: dict, move_ranks
) -> list[str]:
    notes = []
    needed = sum(states.size_bytes(tensors) for tensors in tensor_files.values())
    needed += sum(len(text) for text in texts.values()) + OVERHEAD_BYTES
    with atomic_directory(final, needed, notes) as folder:
        for name, tensors in tensor_files.items():
            save_file(tensors, folder / name)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        move_ranks(folder)
        write_manifest(folder, header)
    return notes


def best_checkpoint(acc: Accelerator, run: RunDirectory) -> Path | None:
    """The newest checkpoint of this run marked best that verifies; None, with a log line, without one. Collective."""

    def look():
        marked = [manifest for manifest in readable_manifests(run.checkpoints) if manifest.best]
        notes = []
        for manifest in sorted(marked, key=lambda manifest: manifest.sequence, reverse=True):
            try:
                return str(verify_checkpoint(manifest.path, run.trainer).path), notes
            except UserError as error:
                notes.append(f"skipped checkpoint {manifest.path.name}: {error}")
        return None, notes

    found, notes = on_main(acc, look)
    for note in notes:
        run.note(acc, note)
    return None if found is None else Path(found)


def find_checkpoint(acc: Accelerator, run: RunDirectory, resume: str | None) -> Path | None:
    """The checkpoint to continue from, None to start from nothing; sets `run.resumed_from` and `run.resumed_step`.

    "auto": the newest of this run that verifies; every one skipped is named with its reason in one line. UserError when
    there are some and none verifies: starting anew would delete what may be repaired. A path (of a checkpoint or a
    run): UserError when it does not verify. Collective.
    """
    if resume is None:
        return None

    found, step, notes = on_main(acc, lambda: _look(run, resume, acc.num_processes))
    for note in notes:
        run.note(acc, note)
    run.resumed_from, run.resumed_step = (None if found is None else Path(found)), step
    return run.resumed_from


def _look(run: RunDirectory, resume: str, processes: int) -> tuple[str | None, int | None, list[str]]:
    """(path, step, log lines) of `find_checkpoint`; on the main process only."""
    path = Path(resume)
    if resume == "auto":
        manifest, notes = newest_checkpoint(run.checkpoints, run.trainer)
        if manifest is None and notes:
            raise UserError(
                f"--resume auto: no usable checkpoint in {run.checkpoints}, nothing was touched ({'; '.join(notes)});"
                " move these folders away to start from step 0, or give another --output_dir"
            )
        if manifest is None:
            return None, None, [f"no usable checkpoint in {run.checkpoints}: starting from step 0"]
    elif path.is_file():
        hint = _pickle_hint(path)
        raise UserError(f"--resume {resume}: is a file, expected a folder checkpoints/step-... or a run{hint}")
    elif path.joinpath(MANIFEST).exists() or run_of(resume) is None or path.name.startswith("step-"):
        manifest, notes = verify_checkpoint(path, run.trainer), []
    else:
        manifest, notes = newest_checkpoint(run_of(resume) / "checkpoints", run.trainer)
        if manifest is None:
            reasons = "; ".join(notes) or "it holds none"
            raise UserError(f"--resume {resume}: no usable checkpoint there ({reasons}); give another one")
    notes.append(f"resuming from {manifest.path} at step {manifest.step}")
    if manifest.world_size != processes:
        notes.append(
            f"{manifest.path.name} was written by {manifest.world_size} processes, this run has {processes}: weights"
            " and optimiser are the same, the continuation is not bit-equal, and with another global batch its steps"
            " hold other items"
        )
    return str(manifest.path), manifest.step, notes


def load_checkpoint(acc: Accelerator, path: str | Path, *, model, optimizer) -> dict:
    """Restore model and optimiser in place and return the saved `state`; `step` is added when it has none.

    Names, shapes, types and parameter groups are checked before anything is copied: a failure leaves both as they were.
    The optimiser's options (weight decay, betas, ...) stay this run's; the learning rate is the saved one.
    Collective; every process reads `path`. Raises UserError when a file is damaged or of another architecture.
    """
    path = Path(path)
    step = on_main(acc, lambda: verify_checkpoint(path, None).step)
    failure, weights, moments, scaler = "", {}, {}, None
    try:
        weights, moments, scaler = _read_for(acc, path, model, optimizer)
        state = states.decode(read_json(path / "state.json"), {})
    except UserError as error:
        failure = str(error)
    raise_anywhere(acc, failure)
    states.apply_weights(acc, model, weights)
    states.apply_optimizer(acc, model, optimizer, moments, scaler)
    return {"step": step, **state}


def refuse_other(path: str | Path, saved: dict, wanted: dict) -> None:
    """UserError when the run of a checkpoint was about something else than this one, by the first name that differs."""
    for name, value in saved.items():
        if wanted.get(name) != value:
            raise UserError(
                f"{name} is {wanted.get(name)}, and {path} was trained with {value}: they do not go together; resume"
                " with the saved value, or begin a new run"
            )


def _read_for(acc: Accelerator, path: Path, model, optimizer) -> tuple[states.Tensors, dict, dict | None]:
    """What this process has to bring, checked against its model: under FSDP only the main process reads the tensors."""
    described = read_json(path / "optimizer.json")
    if states.is_sharded(acc, model) and not acc.is_main_process:
        # The groups and the scaler without tensors: those come from the main process.
        bare = {"param_groups": states.without_tensors(described["optimizer"]["param_groups"])}
        return {}, bare, states.decode(described.get("scaler"), {})
    weights, moments = read_tensors(path / "model.safetensors"), read_tensors(path / "optimizer.safetensors")
    inner = states.inner_optimizer(optimizer)
    states.check_weights(states.bare_model(acc, model), weights, path)
    names = states.parameter_names(acc, model, inner)
    states.check_optimizer(inner, names, described, path)
    return weights, *states.decode_optimizer(inner, names, described, moments, path)


def save_export(
    acc: Accelerator,
    run: RunDirectory,
    *,
    model,
    config: dict,
    card: str,
    extra: dict[str, states.Tensors] | None = None,
) -> Path:
    """export/: what a user takes away. `config` must suffice to rebuild the model; `card` is the README.md.

    `extra` are further tensor files by name ("tables.safetensors"), read back with `load_export_tensors`. Collective.
    Replaces an earlier export as a whole. Raises UserError on a full or read-only disk.
    """
    weights = states.gather_weights(acc, model)
    final = run.path / "export"

    def write():
        notes = clean_leftovers(run.path)
        files = {"model.safetensors": weights, **(extra or {})}
        needed = sum(states.size_bytes(tensors) for tensors in files.values()) + len(card) + OVERHEAD_BYTES
        with atomic_directory(final, needed, notes) as folder:
            for name, tensors in files.items():
                save_file(tensors, folder / name, metadata={"format": "pt"})
            digests = {name: sha256_file(folder / name) for name in files}
            described = {**config, "format": EXPORT_FORMAT, "sha256": digests}
            (folder / "config.json").write_text(to_json(described, indent=2) + "\n", encoding="utf-8")
            (folder / "README.md").write_text(card, encoding="utf-8")
        return notes

    for note in on_main(acc, write):
        run.note(acc, note)
    return final


def load_export(path: str | Path) -> tuple[states.Tensors, dict]:
    """(weights on the CPU, config) of an export folder; a run directory stands for its export/.

    Raises UserError when it is not an export, or its weights are not those it was written with.
    """
    folder, config = _export_folder(path)
    return _export_tensors(folder, config, "model.safetensors"), config


def load_export_tensors(path: str | Path, name: str) -> states.Tensors:
    """A further tensor file of an export, by the name it was saved under. Raises UserError as `load_export`."""
    return _export_tensors(*_export_folder(path), name)


def _export_folder(path: str | Path) -> tuple[Path, dict]:
    """The export folder at or in `path`, and its config.json."""
    path = Path(path)
    if path.is_file():
        raise UserError(
            f"{path} is a file, expected a folder with model.safetensors and config.json{_pickle_hint(path)}"
        )
    if not path.joinpath("model.safetensors").exists() and path.joinpath("export").is_dir():
        path = path / "export"
    if path.joinpath(MANIFEST).exists():
        raise UserError(f"{path} is a training checkpoint, expected an export: give {path.parent.parent / 'export'}")
    for name in ("config.json", "model.safetensors"):
        if not path.joinpath(name).is_file():
            raise UserError(f"{path} is no export: it has no {name}; give the folder RUN/export of a finished run")
    config = read_json(path / "config.json")
    if not isinstance(config, dict) or config.get("format") != EXPORT_FORMAT:
        raise UserError(f"{path / 'config.json'} is not of an export: expected the format {EXPORT_FORMAT}")
    return path, config


def _export_tensors(folder: Path, config: dict, name: str) -> states.Tensors:
    file = folder / name
    if not file.is_file():
        raise UserError(f"{file} is missing: copy the export folder as a whole")
    if sha256_file(file) != config.get("sha256", {}).get(name):
        raise UserError(f"{file} is damaged: its sha256 is not the one in config.json; copy it again")
    return read_tensors(file)


def _pickle_hint(path: Path) -> str:
    return "; pickled files can run code and are not read" if path.suffix in PICKLED else ""
