"""The warm start: what a model is shown before it is rewarded. Copying first, then dialogues of a fallible expert.

Everything is a function of (seed, step): the examples of a step are the same whoever asks for them.
"""

from collections.abc import Callable, Sequence

from lib.errors import UserError
from lib.grpo.chat.format import ChatFormat
from lib.grpo.continual.tasks import TaskRow
from lib.grpo.demonstrations import fallible_expert
from lib.grpo.environment import Environment
from lib.grpo.episodes import demonstration
from lib.grpo.generation.draw import Draw
from lib.grpo.learning.packing import Sample
from lib.grpo.task import Task
from lib.grpo.trajectory import Trajectory
from lib.seeds import numpy_generator

# (share of the exercises, tokens of the text, pieces that come again, tokens of each, rows)
COPYING = ((0.7, 16, 2, 8, 40), (0.85, 48, 4, 8, 16), (1.0, 160, 8, 8, 6))


def parse_warm_start(text: str) -> int:
    """Steps of `--warmstart none|sft:STEPS`. Raises UserError."""
    kind, _, steps = text.partition(":")
    if text == "none":
        return 0
    if kind != "sft" or not steps.isdigit() or int(steps) < 1:
        raise UserError(f"--warmstart {text}: expected none or sft:STEPS, sft:300 say")
    return int(steps)


def copying_examples(
    vocabulary: int, seed: int, step: int, steps: int, share: tuple[int, int] = (0, 1)
) -> list[Sample]:
    """Rows of random tokens from which pieces come again, at any place, to be continued: step of `steps`.

    A network that has never seen text needs most of a warm start to learn that ids are to be copied; this takes a
    tenth of it. (Induction heads: Olsson et al. 2022, arXiv 2209.11895.) `share` (i, n): the i-th of n parts.
    """
    done = (step + 0.5) / steps
    _, text, pieces, length, rows = next(row for row in COPYING if done <= row[0])
    draw = numpy_generator(seed, "copying", step)
    samples = []
    for number in range(rows):
        ids, spans = draw.integers(0, vocabulary, text).tolist(), []
        for start in draw.integers(0, text - length + 1, pieces).tolist():
            # What begins a piece cannot be known; what follows can.
            spans.append((len(ids) + 1, len(ids) + length))
            ids += ids[start : start + length]
        if number % share[1] == share[0]:
            trajectory = Trajectory("copying", str(number), number, 0, ids, 0, 0, spans)
            samples.append(Sample(trajectory, 1.0))
    return samples


class Demonstrations:
    """Dialogues of the expert on training tasks; with probability `noise` a decision is another than the rules ask.

    `rows`: domain -> training rows; domains take turns. Without noise a policy would be certain where it is wrong, and
    there would be nothing for a reward to choose from.
    """

    def __init__(
        self,
        rows: dict[str, Sequence[TaskRow]],
        make_task: Callable[[TaskRow], Task],
        make_environment: Callable[[], Environment],
        chat: ChatFormat,
        noise: float,
        seed: int,
        solo: bool = False,
    ):
        self.rows = [(domain, list(pool)) for domain, pool in rows.items()]
        self.make_task, self.chat, self.noise, self.seed, self.solo = make_task, chat, noise, seed, solo
        self.environment = make_environment()

    def of_step(self, step: int, count: int, share: tuple[int, int] = (0, 1)) -> list[Sample]:
        """The dialogues of a step, or the i-th of n parts of them, for `share` (i, n)."""
        return [
            Sample(self.example(number), 1.0)
            for number in range(step * count, (step + 1) * count)
            if number % share[1] == share[0]
        ]

    def example(self, number: int) -> Trajectory:
        """The dialogue of this number: an endless, seeded walk through the tasks of all domains."""
        turn, place = divmod(number, len(self.rows))
        domain, pool = self.rows[place]
        order = numpy_generator(self.seed, "demonstrations", domain, turn // len(pool)).permutation(len(pool))
        task = self.make_task(pool[order[turn % len(pool)]])
        draw = Draw("demonstration", self.seed, number)
        messages = fallible_expert(task, draw, self.noise, self.solo)
        return demonstration(task, messages, self.environment, self.chat)
