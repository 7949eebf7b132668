"""An episode as the model saw it: token ids exactly as they were fed and sampled, and what came of it.

Token in, token out: nothing here is ever decoded and encoded again. Text belongs to the environment.
"""

from dataclasses import dataclass, field


@dataclass
class Trajectory:
    """One episode of one task.

    `ids` holds everything the model read and wrote, `spans` the half-open ranges [start, end) of `ids` that it sampled,
    `log_probs` the log-probability of each sampled token at sampling time, span after span (temperature applied).
    The first `shared_tokens` ids (policy and tools) are the same in every episode of the domain, the first
    `prompt_tokens` the same in every episode of the group.
    """

    domain: str
    task_id: str
    group: int
    sample: int
    ids: list[int]
    shared_tokens: int
    prompt_tokens: int
    spans: list[tuple[int, int]] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    reward: float = 0.0
    success: float = 0.0
    breakdown: dict[str, float] = field(default_factory=dict)
    end: str | None = None
    error: str | None = None
    turns: int = 0
    # A turn that met its limit of tokens, or an episode that outgrew the context.
    truncated: bool = False
    messages: list[dict] = field(default_factory=list, repr=False)
    facts: dict = field(default_factory=dict)

    @property
    def sampled_tokens(self) -> int:
        return sum(end - start for start, end in self.spans)

    @property
    def key(self) -> tuple[str, str]:
        return self.domain, self.task_id

    def mask(self) -> list[int]:
        """1 where the token was sampled, else 0, for each of `ids`."""
        mask = [0] * len(self.ids)
        for start, end in self.spans:
            mask[start:end] = [1] * (end - start)
        return mask
