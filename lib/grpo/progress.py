"""How far a run is, and what it has measured: saved with every checkpoint."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from lib.files import atomic_write_bytes
from lib.grpo.continual.curriculum import GRPO, Cursor, Stage

# Figures of steps that are averaged over a run.
MEANS = ("zero_std_fraction", "rollout_tokens_per_s", "train_tokens_per_s")


@dataclass
class Progress:
    """Counts are over all processes. `matrix` has a row for each of `rows`; `last` is the newest evaluation as JSON.

    `closed` is the number of the stage at whose end the method has had its part; `evaluated` are [step, stage name] of
    the evaluations in metrics.jsonl.
    """

    step: int = 0
    episodes: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    began: bool = False  # whether GRPO has taken its snapshot
    matrix: list[list[float]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    last: dict = field(default_factory=dict)
    closed: int = 0
    evaluated: list[list] = field(default_factory=list)
    grpo_steps: int = 0
    grpo_s: float = 0.0
    sums: dict = field(default_factory=lambda: dict.fromkeys(MEANS, 0.0))
    logprob_diff_max: float = 0.0
    saved_step: int = 0  # of the newest checkpoint

    def note_step(self, stage: Stage, row: dict, seconds: float) -> None:
        """Take what results.json wants from a step's figures."""
        if stage.kind != GRPO:
            return
        self.grpo_steps += 1
        self.grpo_s += seconds
        for name in MEANS:
            self.sums[name] += row.get(name, 0.0)
        self.logprob_diff_max = max(self.logprob_diff_max, row.get("logprob_diff_max", 0.0))

    def means(self) -> dict[str, float]:
        """Means over the GRPO steps."""
        steps = max(self.grpo_steps, 1)
        return {name: self.sums[name] / steps for name in MEANS} | {"seconds_per_step": self.grpo_s / steps}

    def to_dict(self) -> dict:
        """As JSON, a copy."""
        return asdict(self)

    def load(self, data: dict) -> None:
        """Become what `to_dict` gave."""
        vars(self).update(vars(Progress(**{**data, "cursor": Cursor(**data["cursor"])})))


def drop_evaluations(metrics: Path, known: int) -> None:
    """Delete from metrics.jsonl all evaluations but the first `known`: those made after the checkpoint that a run is
    resumed from, which are made again. The step alone does not tell them: an evaluation has the step it comes after.
    """
    if not metrics.exists():
        return
    kept, seen = [], 0
    lines = metrics.read_bytes().splitlines(keepends=True)
    for line in lines:
        # A line torn by a kill is dropped elsewhere.
        evaluation = line.endswith(b"\n") and b'"eval/success"' in line
        seen += evaluation
        if not evaluation or seen <= known:
            kept.append(line)
    if len(kept) < len(lines):
        atomic_write_bytes(metrics, b"".join(kept))
