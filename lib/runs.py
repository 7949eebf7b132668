"""Run directories: numbering, ownership and what was asked. `lib.checkpoint` re-exports the public names."""

import contextlib
import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from accelerate import Accelerator

from lib.args import config_dict, without_secrets
from lib.distributed import broadcast_value, main_only_first
from lib.errors import UserError
from lib.files import REPLACED, SCRATCH, atomic_write_json, clean_leftovers, disk_errors, read_json, to_json
from lib.launch import environment_facts
from lib.manifests import newest_checkpoint
from lib.runlock import RunLock
from lib.training_state import refuse_unsaveable

RUNS = "runs"
# What may differ between a run and its continuation without a word.
FREE_OPTIONS = {
    *("resume", "output_dir", "max_steps", "max_minutes", "report_to", "dist_timeout", "keep_checkpoints", "dry_run"),
    *("save_every", "config"),
}
# What a folder without environment.json may hold: the traces of a start that was killed, and of the shell.
HARMLESS = ("run.lock", "checkpoints")
HARMLESS_ENDINGS = (".log", ".out")
NEW_FOLDER = "nothing was touched; give --output_dir a new or an empty folder"


def on_main(acc: Accelerator, action: Callable[[], object]):
    """Run `action` on the main process and return its value, which is JSON-like, on all.

    An exception is raised on every process, so that nobody waits for a process that has left. However long the action
    takes (hashing, a slow disk), the others do not run into the collective timeout. Collective.
    """
    value = None
    with main_only_first(acc):
        if acc.is_main_process:
            value = action()
    return broadcast_value(acc, value)


@dataclass
class RunDirectory:
    """One run's folder. `resumed_step` is None for a run that starts from nothing.

    `notes` are the lines printed so far about the run itself; RunLog copies them to metrics.jsonl. `description` is
    what config.json and environment.json are still to hold. While a RunLog is open it is `log`.
    """

    path: Path
    trainer: str
    resumed_from: Path | None = None
    resumed_step: int | None = None
    notes: list[str] = field(default_factory=list)
    lock: RunLock | None = None
    description: dict[str, dict] = field(default_factory=dict)
    log: object | None = None

    @property
    def checkpoints(self) -> Path:
        """Folder of the resumable states."""
        return self.path / "checkpoints"

    @classmethod
    def create(cls, acc: Accelerator, config, trainer: str, facts: dict | None = None) -> "RunDirectory":
        """Choose, make and lock the run directory; write config.json and environment.json (which gets `facts` too).

        Those of a run that is continued are left alone until RunLog starts: the checkpoint may still be refused.

        Without `config.output_dir` it is runs/<trainer>/run<N> with the next free N, or, with `--resume`, the run to
        continue. Collective. Raises UserError when the folder holds another run or somebody's own files, is in use or
        cannot be written, and when checkpoints are wanted (`--save_every` is not 0) that this way of sharding cannot
        save.
        """
        if config.save_every != 0:
            refuse_unsaveable(acc)
        run = cls(Path("."), trainer)
        # Only an Accelerator of lib.launch.start knows its world; tests and notebooks bring their own.
        known = environment_facts(acc) if hasattr(acc, "world_facts") else {}
        facts = {**known, **(facts or {})}

        def prepare():
            run.path = _choose(config, trainer, run.notes)
            run.lock = RunLock(run.path / "run.lock")
            run.notes.extend(run.lock.acquire())
            try:
                # Another launch may have had the folder, trained and left since it was looked at.
                _refuse_other_run(run.path, config, trainer)
                for folder in (run.path, run.checkpoints):
                    run.notes.extend(clean_leftovers(folder))
                run.description, notes = _describe(run.path, config, trainer, facts)
                run.notes.extend(notes)
                if not holds_run(run.path):
                    run.write_description()
            except BaseException:
                run.close()
                raise
            return str(run.path), run.notes

        path, notes = on_main(acc, prepare)
        run.path, run.notes = Path(path), notes
        for note in notes:
            acc.print(note, flush=True)
        return run

    def write_description(self) -> None:
        """config.json and environment.json, if they are still to be written. On the main process only."""
        while self.description:
            name, content = self.description.popitem()
            atomic_write_json(self.path / name, content)

    def note(self, acc: Accelerator, text: str) -> None:
        """One log line on the main process, also for metrics.jsonl."""
        self.notes.append(text)
        if self.log is not None:
            self.log.note(text)
        else:
            acc.print(text, flush=True)

    def close(self) -> None:
        """Give the folder free for another process. Also done when the process ends, however it ends."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None


def holds_run(path: Path) -> bool:
    """True when something was trained here; a run that ended before its first step may be started again."""
    metrics = path / "metrics.jsonl"
    trained = metrics.is_file() and metrics.stat().st_size > 0
    saved = path.joinpath("checkpoints").is_dir() and any(path.joinpath("checkpoints").glob("step-*"))
    return trained or saved or (path / "results.json").exists()


def run_of(resume: str) -> Path | None:
    """The run directory that a `--resume PATH` belongs to; None when it belongs to none."""
    path = Path(resume)
    if path.joinpath("checkpoints").is_dir():
        return path
    if path.absolute().name == "checkpoints":
        return path / ".." if path == Path(".") else path.parent
    inside = path.absolute().parent.name == "checkpoints"
    return path.absolute().parent.parent if inside else None


def _choose(config, trainer: str, notes: list[str]) -> Path:
    """The folder of this run, made if need be. Runs on the main process only."""
    resume = config.resume
    if resume not in (None, "auto") and not Path(resume).exists():
        raise UserError(f"--resume {resume}: no such checkpoint; give auto, a folder checkpoints/step-... or a run")
    if config.output_dir:
        path = Path(config.output_dir)
        with disk_errors(path.parent, 0, f"make {path.name}"):
            if path.exists() and not path.is_dir():
                raise UserError(f"--output_dir {path}: is a file, expected a folder; give another name")
            path.mkdir(parents=True, exist_ok=True)
        _refuse_other_run(path, config, trainer)
        return path
    if resume == "auto":
        found = _newest_run(trainer, notes)
        if found is not None:
            return found
        notes.append(f"--resume auto: no run with a checkpoint in {Path(RUNS, trainer)}, starting a new one")
    elif resume:
        home = run_of(resume)
        if home is not None:
            _refuse_other_run(home, config, trainer)
            return home
    return _next_numbered(Path(RUNS, trainer))


def _refuse_other_run(path: Path, config, trainer: str) -> None:
    described = path / "environment.json"
    content = read_json(described) if described.is_file() else {"trainer": trainer}
    if not isinstance(content, dict) or "trainer" not in content:
        raise UserError(f"{path} holds files that are not of a run, environment.json among them: {NEW_FOLDER}")
    owner = content["trainer"]
    if owner != trainer and holds_run(path):
        raise UserError(f"{path} holds a run of {owner}, this is {trainer}: give another --output_dir")
    if holds_run(path) and not config.resume:
        raise UserError(
            f"{path} holds a run already, nothing was touched: add --resume auto to continue it, or give another"
            " --output_dir"
        )
    if not described.is_file():
        _refuse_foreign_files(path)
    if not holds_run(path):
        return
    home = None if config.resume == "auto" else run_of(config.resume)
    if home is not None and home.resolve() != path.resolve():
        raise UserError(
            f"--output_dir {path} holds a run, and --resume names a checkpoint of another one, {home}: give a new"
            " --output_dir, or none to continue that run"
        )


def _refuse_foreign_files(path: Path) -> None:
    """Our names (config.json, export, plots) in a folder that we have not made are somebody's own."""
    for entry in sorted(path.iterdir()):
        ours = entry.name in HARMLESS or entry.name.startswith((SCRATCH, REPLACED))
        if not ours and entry.suffix not in HARMLESS_ENDINGS:
            raise UserError(f"{path} holds files that are not of a run, {entry.name} among them: {NEW_FOLDER}")


def _newest_run(trainer: str, notes: list[str]) -> Path | None:
    """The run with the highest number that has a checkpoint that verifies; `notes` says why higher ones do not."""
    numbered = sorted(_numbered(Path(RUNS, trainer)), reverse=True)
    for number in numbered:
        path = Path(RUNS, trainer, f"run{number}")
        manifest, reasons = newest_checkpoint(path / "checkpoints", trainer)
        if manifest is not None:
            return path
        notes.extend(f"skipped {path}: {reason}" for reason in reasons)
    return None


def _numbered(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    matches = (re.fullmatch(r"run(\d+)", entry.name) for entry in folder.iterdir())
    return [int(match[1]) for match in matches if match]


def _next_numbered(folder: Path) -> Path:
    with disk_errors(folder, 0, "make a run directory"):
        folder.mkdir(parents=True, exist_ok=True)
        number = max(_numbered(folder), default=0) + 1
        while True:
            path = folder / f"run{number}"
            # mkdir is exclusive: of two launches at the same instant one gets the next number.
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path
            number += 1


def _describe(path: Path, config, trainer: str, facts: dict) -> tuple[dict[str, dict], list[str]]:
    """(content of config.json and environment.json, a line when a continued run is asked for something else)."""
    asked, notes = config_dict(config), []
    former = path / "config.json"
    if config.resume and former.is_file():
        try:
            before = read_json(former)
        except UserError as error:
            before = {}
            notes.append(f"{error}; it is written anew, so changed options cannot be named")
        # Through JSON, as the file was: a tuple has become a list.
        asked = json.loads(to_json(asked))
        changed = [
            f"{name} {before[name]} -> {asked[name]}"
            for name in asked
            if name in before and name not in FREE_OPTIONS and before[name] != asked[name]
        ]
        if changed:
            notes.append(f"resumed with other options than before: {', '.join(changed)}")
    command = shlex.join(without_secrets(config, word) for word in sys.argv)
    environment = {"trainer": trainer, "command": command, "started_unix_s": time.time(), **facts}
    return {"config.json": asked, "environment.json": environment}, notes
