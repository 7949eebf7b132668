"""Stage 1 as a task: which rows an update learns from, how codebooks follow on many processes, what is measured."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lib.omagd.battle.layout import HEALTH_AT
from lib.omagd.recon.episodes import TEST, TRAIN, VALIDATION, EpisodeSet
from lib.omagd.recon.nodes import ALLY, ENEMY, OWN_AT, SELF, TYPES
from lib.omagd.recon.tokenizer import BEGINS, PARTS, STATISTICS, Tokenizer
from lib.seeds import derive, numpy_generator
from lib.task import Task

SAMPLE = 2048  # graphs that codebooks begin with
MEASURED = 4096  # graphs in memory at once, where all are gone through


@dataclass(frozen=True)
class Graphs:
    """What living agents could see with unlimited sight: one for each of them and step, by place and agent, (G,)."""

    played: EpisodeSet
    places: Tensor
    agents: Tensor

    @staticmethod
    def of(played: EpisodeSet, part: str) -> "Graphs":
        places, _ = played.steps_of(played.of_part(part))
        rows, agents = (played.alive[places][:, : played.layout.n_agents] != 0).nonzero(as_tuple=True)
        return Graphs(played, places[rows], agents)

    def __len__(self) -> int:
        return len(self.places)

    def rows(self, chosen: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """(rows float32 (M, F), types (M,)) of the living nodes of some graphs."""
        nodes, places, agents = self.played.nodes, self.places[chosen], self.agents[chosen]
        rows = nodes.build(self.played.full_obs[places, agents].float())
        alive = torch.gather(self.played.alive[places], 1, nodes.units[agents]) != 0
        return rows[alive].to(device), nodes.types.expand(alive.shape)[alive].to(device)


def perplexity(counts: Tensor) -> Tensor:
    """How many codes would be used as evenly as these are used alike, from how often each was."""
    share = counts / counts.sum().clamp_min(1.0)
    return torch.exp(-(share * share.clamp_min(1e-12).log()).sum())


@torch.no_grad()
def measured(module: Tokenizer, graphs: Graphs, sight: float, rank: int, ranks: int) -> Tensor:
    """Sums of this process's share: of every kind of node rows, places' and health errors, squared errors, sums and
    squares of F numbers; then how often each code was used."""
    width, device = module.config.node_width, module.mean.device
    found = torch.zeros(len(TYPES), 3 + 3 * width, dtype=torch.float64, device=device)
    used = [torch.zeros(codes, dtype=torch.float64, device=device) for codes in module.config.codes]
    tables = module.tables()
    for first in range(0, len(graphs), MEASURED):
        chosen = torch.arange(first, min(first + MEASURED, len(graphs)))[rank::ranks]
        rows, types = graphs.rows(chosen, device)
        tokens = module.tokens(rows, types)
        told = sum(table[types, tokens[:, k]] for k, table in enumerate(tables))
        for node_type in range(len(TYPES)):
            mine = types == node_type
            true, guess = rows[mine].double(), told[mine].double()
            off = guess - true
            health = OWN_AT if node_type == SELF else HEALTH_AT
            far = sight * off[:, 2:4].norm(dim=-1).sum() if node_type != SELF else off.new_zeros(())
            sums = torch.stack([off.new_tensor(float(len(true))), far, off[:, health].abs().sum()])
            found[node_type] += torch.cat([sums, off.square().sum(0), true.sum(0), true.square().sum(0)])
        for k, counts in enumerate(used):
            counts += torch.bincount(tokens[:, k], minlength=len(counts))
    return torch.cat([found.flatten(), *used])


class TokenizerTask(Task):
    """Real epochs over the graphs of the training episodes, `graphs` of each process in an update."""

    statistics: ClassVar[tuple[str, ...]] = STATISTICS

    def __init__(self, module: Tokenizer, played: EpisodeSet, described: dict, *, graphs: int, seed: int, ranks):
        self.module, self.seed, self.device, self.about = module, seed, ranks.device, described
        self.parts = {part: Graphs.of(played, part) for part in (TRAIN, VALIDATION, TEST)}
        self.sight, self.whole = described["sight"], graphs * ranks.count
        self.epoch_updates = max(len(self.parts[TRAIN]) // self.whole, 1)
        self._order: tuple[int, Tensor] = (-1, torch.empty(0))
        train = self.parts[TRAIN]
        module.measure(train.rows(chosen, self.device) for chosen in torch.arange(len(train)).split(MEASURED))

    def described(self) -> dict:
        return self.about

    def batch(self, update: int, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
        epoch, at = divmod(update, self.epoch_updates)
        if self._order[0] != epoch:
            count = len(self.parts[TRAIN])
            order = numpy_generator(self.seed, "graphs", epoch).permutation(count)
            self._order = (epoch, torch.from_numpy(order))
        chosen = self._order[1][at * self.whole : (at + 1) * self.whole]
        return self.parts[TRAIN].rows(chosen[rank::ranks], self.device)

    def _encoded(self, count: int, ranks, *purpose) -> list[Tensor]:
        """Encoded rows of `count` graphs drawn by purpose, for each part; those of the first process, on all."""
        train = self.parts[TRAIN]
        drawn = numpy_generator(self.seed, *purpose).integers(0, len(train), min(count, len(train)))
        with torch.no_grad():
            found = self.module.encode(*train.rows(torch.from_numpy(drawn), self.device))
        # Processors differ in the last bit of a sum.
        return [ranks.sum_tensor(one if ranks.index == 0 else torch.zeros_like(one)) for one in found]

    def begin(self, update: int, ranks) -> None:
        if update not in BEGINS:
            return
        for number, samples in enumerate(self._encoded(SAMPLE, ranks, "begin", update)):
            generator = torch.Generator().manual_seed(derive(self.seed, "k-means", update, number) % 2**63)
            book = self.module.parts[number].codebook
            book.begin(samples, generator)
            for buffer in book.buffers():
                buffer.copy_(ranks.sum_tensor(buffer if ranks.index == 0 else torch.zeros_like(buffer)))

    def learnt(self, update: int, found: tuple, ranks) -> dict[str, float | Tensor]:
        encoded, tokens = found
        numbers = {}
        for number, name in enumerate(PARTS):
            book = self.module.parts[number].codebook
            statistics = ranks.sum_tensor(book.statistics(encoded[number], tokens[number]))

            def spare(number=number, book=book) -> Tensor:
                return self._encoded(len(book.codes), ranks, "spare", update)[number]

            numbers[f"{name} codes set anew"] = float(book.absorb(statistics, spare))
            numbers[f"{name} perplexity"] = perplexity(statistics[:, 0])
        return numbers

    def measure(self, part: str, rank: int, ranks: int) -> Tensor:
        return measured(self.module, self.parts[part], self.sight, rank, ranks)

    def judge(self, sums: Tensor) -> dict[str, float]:
        """`r2`: 1 - error / variance, over all numbers that are told and vary, each in units of its own variance."""
        module, width = self.module, self.module.config.node_width
        codes = list(module.config.codes)
        kinds, *used = sums.split([len(TYPES) * (3 + 3 * width), *codes])
        kinds = kinds.view(len(TYPES), -1)
        figures, error, spread = {}, 0.0, 0.0
        for node_type, name in enumerate(TYPES):
            (count, far, health), numbers = kinds[node_type, :3].tolist(), kinds[node_type, 3:].view(3, width)
            if count == 0:
                continue
            told = (module.columns[:, node_type].sum(0) > 0).to(numbers.device)
            variance = numbers[2] / count - (numbers[1] / count).square()
            told &= variance > 1e-6
            ratio = numbers[0][told] / count / variance[told]
            error, spread = error + count * float(ratio.sum()), spread + count * int(told.sum())
            figures |= {f"{name}_r2": 1.0 - float(ratio.mean()), f"{name}_worst_r2": 1.0 - float(ratio.max())}
            figures[f"{name}_health_error"] = health / count
            if node_type in (ALLY, ENEMY):
                figures[f"{name}_position_error"] = far / count
        for counts, name in zip(used, PARTS, strict=True):
            figures[f"{name}_codes_in_use"] = float((counts > 0).double().mean())
            figures[f"{name}_perplexity"] = float(perplexity(counts))
        loss = error / max(spread, 1.0)
        in_use = sum(float((counts > 0).sum()) for counts in used) / sum(codes)
        return {"loss": loss, "r2": 1.0 - loss, "codes_in_use": in_use, **figures}
