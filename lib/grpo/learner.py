"""A step of training from trajectories: log-probabilities that are needed first, losses, the optimiser.

Every process makes the same number of passes, empty ones where it has nothing, and takes part in the same collectives.
"""

import math
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from lib.divided import release
from lib.errors import UserError
from lib.grpo.continual.methods import Method, borrowed, trainable
from lib.grpo.continual.penalties import SquaredGradients
from lib.grpo.learning.losses import Objective, describe_statistics, merge_statistics, no_statistics
from lib.grpo.learning.packing import PackedBatch, Sample, empty_batch, pack
from lib.grpo.learning.policy import log_probs
from lib.grpo.options import GrpoOptions
from lib.grpo.progress import Progress
from lib.grpo.run_results import update_row
from lib.grpo.run_setup import objective_of
from lib.grpo.trajectory import Trajectory

Part = tuple[list[Sample], Objective]


def minibatches(groups: Iterable[tuple[str, int]], count: int) -> dict[int, int]:
    """The minibatch, 0 to count - 1, of each (domain, group): of nearly equal size, each with a share of every domain.

    The same on any number of processes. Groups are dealt to them in turn, so a minibatch takes neighbours of a domain,
    and of every second domain from the other end: each process then has work in it, as far as there are groups enough.
    """
    of_domain: dict[str, list[int]] = {}
    for domain, group in sorted(set(groups)):
        of_domain.setdefault(domain, []).append(group)
    places = []
    for number, members in enumerate(of_domain.values()):
        ordered = members[::-1] if number % 2 else members
        places += [((at + 0.5) / len(members), number, group) for at, group in enumerate(ordered)]
    return {group: at * count // len(places) for at, (_, _, group) in enumerate(sorted(places))}


class Learner:
    """`policy` in the wrapper of its processes (`ranks`: lib.ranks.Ranks), and its optimiser.

    progress: read for messages alone.
    """

    def __init__(
        self, ranks, policy: nn.Module, optimiser: torch.optim.Optimizer, config: GrpoOptions, progress: Progress
    ):  # fmt: skip
        self.ranks, self.policy, self.optimiser, self.config, self.progress = ranks, policy, optimiser, config, progress

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Those that are trained, by their names in the language model."""
        return trainable(self.ranks.unwrapped(self.policy).model)

    def teach(
        self, trajectories: list[Trajectory], advantages: dict[tuple[int, int], float], domains: tuple[str, ...],
        method: Method, reference: dict[str, Tensor] | None, rate: float,
    ) -> dict:  # fmt: skip
        """The updates of a step of GRPO from this process's trajectories, while `domains` are learnt; its figures.

        advantages: by (group, sample); trajectories without one carry no gradient. reference: the weights that the KL
        term compares with, where there is one. rate: learning rate.
        """
        config, start = self.config, time.monotonic()
        parts = self._parts(trajectories, advantages, domains, method, reference)
        taught = {(each.trajectory.domain, each.trajectory.group) for samples, _ in parts for each in samples}
        minibatch = minibatches(self.ranks.gather(sorted(taught)), config.minibatches)
        figures, learning = {}, time.monotonic()
        for _ in range(config.updates_per_batch):
            # One without a group would move nothing, and its figures would stand for the step's.
            for number in sorted(set(minibatch.values())) or [0]:
                chosen = [
                    ([s for s in samples if minibatch[s.trajectory.group] == number], objective)
                    for samples, objective in parts
                ]
                found = self.update(chosen, rate, method.add_gradients)
                # Later updates compare with weights that are no longer those of the rollout.
                kept = {name: value for name, value in figures.items() if name.startswith("logprob_diff")}
                figures = {**found, **kept}
        tokens = sum(len(sample.trajectory.ids) for samples, _ in parts for sample in samples)
        total = self.ranks.sums({"tokens": float(tokens)})["tokens"] * config.updates_per_batch
        now = time.monotonic()
        return figures | {"train_tokens_per_s": total / max(now - learning, 1e-9), "train_s": now - start}

    def _parts(self, trajectories, advantages, domains, method: Method, reference) -> list[Part]:
        """Samples with what their losses need; equally many parts, of the same objectives, on every process."""
        config = self.config
        sets: dict[float, list[Sample]] = {}
        for each in trajectories:
            value = advantages.get((each.group, each.sample))
            terms = method.terms(each.domain, domains)
            if value is not None or terms.anchor:
                sets.setdefault(terms.anchor, []).append(Sample(each, terms.policy * (value or 0.0)))
        parts = []
        for anchor in sorted(set(self.ranks.gather(list(sets)))):
            samples = sets.get(anchor, [])
            if config.is_correction != "off":
                self.fill(samples, "old_log_probs")
            if anchor or config.beta:
                with borrowed(self.parameters, method.snapshot if anchor else reference):
                    self.fill(samples, "reference_log_probs")
            parts.append((samples, objective_of(config, beta=anchor or config.beta)))
        return parts

    @torch.no_grad()
    def fill(self, samples: list[Sample], name: str) -> None:
        """Set `name` of the samples: log-probabilities under the weights that the model has now. Collective."""
        batches = [batch.to(self.ranks.device) for batch in pack(samples, self.config.micro_batch_tokens)]
        passes = max(self.ranks.gather([len(batches)]))
        batches += [empty_batch().to(self.ranks.device)] * (passes - len(batches))
        model = self.ranks.unwrapped(self.policy)
        values = log_probs(model, batches, len(samples), self.config.temperature)
        for sample, own in zip(samples, values, strict=True):
            setattr(sample, name, own)
        release(self.policy)

    def update(self, parts: list[Part], rate: float, add_gradients: Callable[[dict], float] | None = None) -> dict:
        """One optimiser step along the loss of all processes' samples, each part by its objective; its figures.

        The loss is a sum divided by the global count. add_gradients: adds those of a penalty and returns the penalty.
        Collective. Raises UserError when loss or gradient are not finite.
        """
        ranks, config = self.ranks, self.config
        batches: list[tuple[PackedBatch, Objective]] = []
        records: list[list[str]] = []
        divisor = 0.0
        for samples, objective in parts:
            packed = pack(samples, config.micro_batch_tokens)
            batches += [(batch, objective) for batch in packed]
            records += [["/".join(samples[at].trajectory.key) for at in batch.members] for batch in packed]
            divisor += objective.divisor(sample.trajectory.sampled_tokens for sample in samples)
        sizes = ranks.gather([(len(batches), divisor)])
        divisor, passes = sum(size[1] for size in sizes), max(size[0] for size in sizes)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        rows = [no_statistics(ranks.device)]
        for number in range(passes):
            batch, objective = batches[number] if number < len(batches) else (empty_batch(), parts[0][1])
            with ranks.updating(self.policy, last=number == passes - 1):
                loss, statistics = self.policy(batch.to(ranks.device), objective)
                # Gradients are averaged over the processes: times their number, over the global count, is the sum.
                ranks.backward(loss * (ranks.count / max(divisor, 1.0)))
            rows.append(statistics)
        penalty = add_gradients(self.parameters) if add_gradients is not None and passes else 0.0
        everyone = torch.tensor(ranks.gather([merge_statistics(torch.stack(rows)).tolist()]), dtype=torch.float64)
        norm = torch.zeros(())
        if passes:
            norm = ranks.clip(self.policy.parameters(), config.max_grad_norm or math.inf)
            if not (math.isfinite(float(norm)) and everyone.isfinite().all()):
                raise self._not_finite(records, [bool(row.isfinite().all()) for row in rows[1 : len(records) + 1]])
            self.optimiser.step()
            self.optimiser.zero_grad()
        compared = any(objective.beta for _, objective in parts)
        return update_row(describe_statistics(merge_statistics(everyone), divisor), float(norm), penalty, compared)

    def _not_finite(self, records: list[list[str]], fine: list[bool]) -> UserError:
        """What to say of a loss that is no number; `records` and `fine` are of this process's micro-batches."""
        broken = self.ranks.gather([name for names, good in zip(records, fine) if not good for name in names])
        names = sorted(set(broken or self.ranks.gather([name for names in records for name in names])))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return UserError(
            f"the loss or its gradient is not finite at step {self.progress.step + 1}, records {', '.join(names[:5])}"
            f"{more}: nothing after step {self.progress.saved_step} was saved; look at these tasks, or lower"
            " --learning-rate"
        )

    def squared_gradients(self, trajectories: list[Trajectory]) -> dict[str, Tensor]:
        """Mean squared gradients of the policy's log-probability of each trajectory, over all processes. Collective."""
        model = self.ranks.unwrapped(self.policy)
        objective = Objective(kind="reinforce", temperature=self.config.temperature)
        parameters = self.parameters
        squared = SquaredGradients(parameters)
        for trajectory in trajectories:
            for batch in pack([Sample(trajectory, 1.0)], self.config.micro_batch_tokens):
                loss, _ = model(batch.to(self.ranks.device), objective)
                loss.backward()
                squared.add(parameters)
                model.zero_grad()
        for name in squared.sums:
            squared.sums[name] = self.ranks.sum_tensor(squared.sums[name])
        squared.count = int(self.ranks.sums({"count": float(squared.count)})["count"])
        return squared.mean()
