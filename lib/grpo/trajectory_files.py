"""Trajectories as files: trajectories/step_<n>.jsonl, one JSON object for each episode, and readable dialogues.

A file holds one step and is written whole or not at all, so a killed run leaves no half row; `drop_after` removes what
lies beyond the step that a run is resumed from.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lib.errors import UserError
from lib.files import atomic_write_text, to_json
from lib.grpo.show import message_lines, writable
from lib.grpo.trajectory import Trajectory

FOLDER = "trajectories"
FILE_NAME = re.compile(r"step_(\d+)\.jsonl")
Decode = Callable[[list[int]], str]

STYLE = """
.quartet-episode { border: 1px solid #8886; border-radius: 8px; padding: .6rem .9rem; margin: .8rem 0; }
.quartet-episode pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .25rem 0; padding: .1rem .3rem;
  font: 13px/1.45 ui-monospace, monospace; border-radius: 4px; }
.quartet-episode .agent, .quartet-episode mark { background: #2b6cb033; color: inherit; }
.quartet-episode summary { cursor: pointer; }
"""


def row_of(trajectory: Trajectory, step: int, decode: Decode | None = None) -> dict:
    """A trajectory as JSON, without its policy text and tool schemas, which are the same in all of a domain.

    With `decode` the row holds `pieces` too: [text, sampled] of each stretch of tokens after the shared ones, as the
    model saw them; sampled ones are those in the loss.
    """
    row = {
        "step": step,
        "domain": trajectory.domain,
        "task_id": trajectory.task_id,
        "group": trajectory.group,
        "sample": trajectory.sample,
        "reward": trajectory.reward,
        "success": trajectory.success,
        "breakdown": trajectory.breakdown,
        "end": trajectory.end,
        "error": trajectory.error,
        "turns": trajectory.turns,
        "truncated": trajectory.truncated,
        "tokens": len(trajectory.ids),
        "sampled_tokens": trajectory.sampled_tokens,
        "shared_tokens": trajectory.shared_tokens,
        "prompt_tokens": trajectory.prompt_tokens,
        "spans": [list(span) for span in trajectory.spans],
        "messages": [message for message in trajectory.messages if message.get("role") != "system"],
    }
    if decode is not None:
        row["pieces"] = pieces_of(trajectory, decode)
    return row


def pieces_of(trajectory: Trajectory, decode: Decode) -> list[list]:
    """[text, 1 where sampled else 0] of the stretches of `ids` after the shared ones, in order."""
    pieces, start = [], trajectory.shared_tokens
    for low, high in [*trajectory.spans, (len(trajectory.ids), len(trajectory.ids))]:
        assert start <= low <= high <= len(trajectory.ids), f"spans {trajectory.spans}: out of order or of range"
        for end, sampled in ((low, 0), (high, 1)):
            if end > start:
                pieces.append([decode(trajectory.ids[start:end]), sampled])
                start = end
    return pieces


def write_trajectories(run: str | Path, step: int, rows: Iterable[dict]) -> Path:
    """Write the rows of a step, ordered by (group, sample), for the main process. Raises UserError on a full disk."""
    ordered = sorted(rows, key=lambda row: (row["group"], row["sample"]))
    path = Path(run) / FOLDER / f"step_{step:08d}.jsonl"
    atomic_write_text(path, "".join(to_json(writable(row)) + "\n" for row in ordered))
    return path


def read_trajectories(run: str | Path, step: int | None = None) -> Iterator[dict]:
    """The rows of a step, or of all steps in order. Raises UserError naming a damaged line."""
    for number, path in _files(run):
        if step not in (None, number):
            continue
        # Not `splitlines`: a text may hold other line breaks, which JSON leaves as they are.
        for place, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise UserError(f"{path}: line {place} is damaged: {error}") from None


def drop_after(run: str | Path, step: int) -> int:
    """Delete the files of steps after `step`, from which a run is resumed; returns how many."""
    beyond = [path for number, path in _files(run) if number > step]
    for path in beyond:
        path.unlink()
    return len(beyond)


def _files(run: str | Path) -> list[tuple[int, Path]]:
    folder = Path(run) / FOLDER
    found = ((FILE_NAME.fullmatch(path.name), path) for path in folder.glob("step_*.jsonl"))
    return sorted((int(match[1]), path) for match, path in found if match)


def choose_samples(rows: Iterable[dict], count: int) -> list[dict]:
    """At most `count` rows to look at: the latest of each domain in turn, first those that succeeded, then failures.

    Deterministic; `rows` as `read_trajectories` gives them.
    """
    kinds: dict[tuple[str, bool], list[dict]] = {}
    for row in rows:
        kinds.setdefault((row["domain"], row["success"] == 1.0), []).append(row)
    order = sorted(kinds, key=lambda kind: (not kind[1], kind[0]))
    chosen: list[dict] = []
    while len(chosen) < count and any(kinds.values()):
        for kind in order:
            if kinds[kind] and len(chosen) < count:
                chosen.append(kinds[kind].pop())
    return chosen


def samples_fragment(rows: Iterable[dict]) -> str:
    """Dialogues as HTML for any page: what the agent wrote is shaded, rewards beside; nothing in it can run."""
    return f"<style>{STYLE}</style>" + "".join(_episode(row) for row in rows)


def write_samples(path: str | Path, rows: Iterable[dict], title: str) -> Path:
    """Write one self-contained page of dialogues (samples.html)."""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{_text(title)}</title></head>'
        '<body style="font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem">'
        f"<h1>{_text(title)}</h1>{samples_fragment(rows)}</body></html>\n"
    )
    atomic_write_text(path, page)
    return Path(path)


def _episode(row: dict) -> str:
    parts = ", ".join(f"{name} {value:g}" for name, value in row["breakdown"].items())
    facts = [
        f"step {row['step']}",
        f"sample {row['sample']}",
        f"reward <b>{row['reward']:g}</b>" + (f" ({_text(parts)})" if parts else ""),
        f"{row['turns']} turns",
        f"{row['sampled_tokens']:,} of {row['tokens']:,} tokens sampled",
        _text(f"ended with {row['end'] or 'nothing'}" + (", cut off" if row["truncated"] else "")),
    ]
    if row["error"]:
        facts.append(f"error: {_text(row['error'])}")
    said = "".join(
        f'<pre class="{"agent" if message["role"] == "assistant" else "other"}">'
        f"{_text(chr(10).join(message_lines(message)))}</pre>"
        for message in row["messages"]
    )
    seen = ""
    if row.get("pieces"):
        text = "".join(f"<mark>{_text(piece)}</mark>" if sampled else _text(piece) for piece, sampled in row["pieces"])
        seen = (
            f"<details><summary>As the model saw it; shaded: sampled, in the loss</summary><pre>{text}</pre></details>"
        )
    heading = f"<b>{_text(row['domain'])}: {_text(row['task_id'])}</b> "
    return f'<div class="quartet-episode"><p>{heading}{" &middot; ".join(facts)}</p>{said}{seen}</div>'


def _text(text: str) -> str:
    return html.escape(writable(str(text)))
