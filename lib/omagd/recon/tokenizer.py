"""Stage 1: rows of nodes as two tokens each, a place and a condition, by a vector-quantised autoencoder.

A row is read in two parts, each with an encoder, a codebook and a decoder of its own: the place (visible or
attackable, dist, dx, dy; of the agent itself its moves) and the condition (health, shield, type bits). Of some hundred
codes for both together none would be left for where a unit stands. What a code means is then a table
(`Tokenizer.tables`), and the mean of many guesses is a product with it.

Numbers are normalised by mean and deviation of their kind of node over the training episodes. The codebooks follow
running means of what is assigned to them (van den Oord et al. 2017, arXiv 1711.00937, appendix A.1). They begin with
k-means of a sample, and again while the encoders still change much (`BEGINS`). A code that is hardly ever used
is set on a sample of what was encoded (Williams et al. 2020, arXiv 2002.08111). Sums over all processes decide: see
`Codebook.absorb`.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from lib.omagd.battle.layout import HEALTH_AT, Layout
from lib.omagd.recon.nodes import OWN_AT, TYPES

PARTS = ("place", "condition")
BEGINS = (0, 30, 100, 250)  # updates before which the codebooks begin anew
# Rows whose distances to all codes are in memory together: a CPU's cache holds them; others need more work at once.
CPU_ROWS, ROWS = 1 << 8, 1 << 15
STATISTICS = ("loss", "error", "commitment", "nodes")


@dataclass(frozen=True)
class TokenizerConfig:
    """Sizes. `codes`: of places and of conditions."""

    node_width: int
    codes: tuple[int, int] = (512, 128)
    code_dim: int = 32
    hidden: int = 64
    decay: float = 0.99
    commitment: float = 0.5

    def to_dict(self) -> dict:
        return asdict(self) | {"codes": list(self.codes)}


def part_columns(layout: Layout) -> Tensor:
    """bool [parts, types, F]: which columns of a row a part tells; constants and padding are in none."""
    told = torch.zeros(len(PARTS), len(TYPES), layout.node_width, dtype=torch.bool)
    for node_type, (first, split, width) in enumerate(
        (
            (HEALTH_AT, OWN_AT, OWN_AT + layout.own_width),  # without the constants before its moves
            (0, HEALTH_AT, layout.ally_width),
            (0, HEALTH_AT, layout.enemy_width),
        )
    ):
        told[0, node_type, first:split] = True
        told[1, node_type, split:width] = True
    return told


class Codebook(nn.Module):
    """K codes of width D, moved by counts and sums that `forward` gives and `absorb` takes, not by gradients."""

    def __init__(self, codes: int, width: int, decay: float):
        super().__init__()
        self.decay = decay
        # What a code begins with that is given a chance: unused, its count is below 1 after 1 / (1 - decay) batches.
        self.chance = decay ** (-1.0 / (1.0 - decay))
        self.register_buffer("codes", torch.randn(codes, width) * 0.02)
        self.register_buffer("counts", torch.zeros(codes))
        self.register_buffer("sums", torch.zeros(codes, width))

    def nearest(self, encoded: Tensor) -> Tensor:
        """The numbers of the nearest codes of (M, D), found in float32 whatever the precision of the training."""
        parts = encoded.float().split(CPU_ROWS if encoded.device.type == "cpu" else ROWS)
        with torch.autocast(encoded.device.type, enabled=False):
            lengths, table = self.codes.square().sum(-1), (-2.0 * self.codes).T.contiguous()
            # `min` finds the place three times as fast as `argmin` does.
            return torch.cat([torch.addmm(lengths, some, table).min(-1).indices for some in parts])

    @torch.no_grad()
    def statistics(self, encoded: Tensor, tokens: Tensor) -> Tensor:
        """(K, 1 + D): how many were assigned to each code, and their sums; to be added up over all processes."""
        found = torch.zeros(len(self.codes), 1 + encoded.shape[-1], device=encoded.device)
        ones = torch.ones(len(encoded), 1, device=encoded.device)
        return found.index_add_(0, tokens, torch.cat([ones, encoded], -1))

    @torch.no_grad()
    def absorb(self, statistics: Tensor, spare: Callable[[], Tensor]) -> int:
        """Move by the sums of all processes; codes hardly used are set on rows of `spare` (m, D). How many those were.

        `spare` is asked only where it is needed, then on every process, and has to give the same there, as the sums
        are: so the codebooks stay the same bit for bit.
        """
        self.counts.mul_(self.decay).add_(statistics[:, 0], alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(statistics[:, 1:], alpha=1 - self.decay)
        # A code is given up when what is assigned to it in the mean over 1 / (1 - decay) batches is below one node.
        poor = self.counts < 1.0
        if bool(poor.any()):
            rows = spare()
            self.counts[poor] = self.chance
            self.sums[poor] = self.chance * rows[poor.nonzero().squeeze(1) % len(rows)]
        self.codes.copy_(self.sums / self.counts.unsqueeze(-1))
        return int(poor.sum())

    @torch.no_grad()
    def begin(self, samples: Tensor, generator: torch.Generator, rounds: int = 10) -> None:
        """k-means of samples (M, D), which are the same on every process.

        The first codes are samples drawn by how far they are from those drawn before (k-means++, Arthur and
        Vassilvitskii 2007): drawn evenly, nearly all would lie where nearly all units are, and far from the others.
        """
        far = torch.full((len(samples),), torch.inf, device=samples.device)
        draws = torch.rand(len(self.codes), generator=generator).to(samples.device)
        for number, draw in enumerate(draws):
            # Where every sample is a code already, any of them.
            weights = far.clamp_max(1.0) if number == 0 or not bool(far.any()) else far
            sums = (weights + (weights.sum() == 0)).cumsum(0)
            chosen = torch.searchsorted(sums, draw * sums[-1]).clamp_max(len(samples) - 1)
            self.codes[number] = samples[chosen]
            torch.minimum(far, (samples - samples[chosen]).square().sum(-1), out=far)
        for _ in range(rounds):
            statistics = self.statistics(samples, self.nearest(samples))
            used = statistics[:, 0] > 0
            self.codes[used] = statistics[used, 1:] / statistics[used, :1]
        statistics = self.statistics(samples, self.nearest(samples))
        self.counts.copy_(statistics[:, 0].clamp_min(self.chance))
        self.sums.copy_(self.codes * self.counts.unsqueeze(-1))


class Reading(nn.Module):
    """Two hidden layers, and beside them a linear way: most of a place is its coordinates as they are."""

    def __init__(self, inputs: int, hidden: int, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.LayerNorm(hidden),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.LayerNorm(hidden),
            nn.Linear(hidden, outputs),
        )  # fmt: skip
        self.straight = nn.Linear(inputs, outputs, bias=False)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.layers(numbers) + self.straight(numbers)


class Part(nn.Module):
    """Encoder, codebook and decoder of one part of the rows."""

    def __init__(self, config: TokenizerConfig, codes: int):
        super().__init__()
        self.types = len(TYPES)
        self.encoder = Reading(config.node_width + self.types, config.hidden, config.code_dim)
        self.codebook = Codebook(codes, config.code_dim, config.decay)
        self.decoder = Reading(config.code_dim + self.types, config.hidden, config.node_width)

    def encode(self, rows: Tensor, kinds: Tensor) -> Tensor:
        """Normalised rows (M, F) of one-hot kinds of node (M, 3) -> (M, D)."""
        return self.encoder(torch.cat([rows, kinds], -1))

    def decode(self, codes: Tensor, kinds: Tensor) -> Tensor:
        """(M, D), (M, 3) -> normalised rows (M, F)."""
        return self.decoder(torch.cat([codes, kinds], -1))


class Tokenizer(nn.Module):
    """Rows of living nodes to tokens and back; `forward` is the loss of one batch, as a sum over nodes."""

    def __init__(self, layout: Layout, config: TokenizerConfig):
        super().__init__()
        self.config = config
        self.parts = nn.ModuleList(Part(config, codes) for codes in config.codes)
        self.register_buffer("columns", part_columns(layout).float(), persistent=False)
        self.register_buffer("mean", torch.zeros(len(TYPES), config.node_width))
        self.register_buffer("deviation", torch.ones(len(TYPES), config.node_width))

    @torch.no_grad()
    def measure(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Mean and deviation of every number of each kind of node, from rows (M, F) of types (M,)."""
        sums = torch.zeros(len(TYPES), 2 * self.config.node_width + 1, dtype=torch.float64, device=self.mean.device)
        for rows, types in batches:
            numbers = rows.double()
            ones = torch.ones(len(rows), 1, dtype=torch.float64, device=rows.device)
            sums.index_add_(0, types, torch.cat([ones, numbers, numbers.square()], -1))
        count = sums[:, :1].clamp_min(1.0)
        mean, square = (sums[:, 1:] / count).chunk(2, dim=-1)
        deviation = (square - mean.square()).clamp_min(0.0).sqrt()
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > 1e-4, deviation, 1.0))  # 1: a number that never varies

    def normalised(self, rows: Tensor, types: Tensor) -> Tensor:
        return (rows - self.mean[types]) / self.deviation[types]

    def encode(self, rows: Tensor, types: Tensor) -> list[Tensor]:
        """What the codebooks quantise, (M, D) for each part, of rows (M, F) of types (M,)."""
        rows, kinds = self.normalised(rows, types), nn.functional.one_hot(types, len(TYPES)).to(rows.dtype)
        return [part.encode(rows * self.columns[k][types], kinds) for k, part in enumerate(self.parts)]

    @torch.no_grad()
    def tokens(self, rows: Tensor, types: Tensor) -> Tensor:
        """(M, F), (M,) -> (M, 2) int64."""
        encoded = self.encode(rows, types)
        return torch.stack([part.codebook.nearest(one) for part, one in zip(self.parts, encoded, strict=True)], -1)

    def forward(self, rows: Tensor, types: Tensor) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
        """(loss summed over nodes, sums in the order of STATISTICS, encoded, tokens) of rows (M, F), types (M,)."""
        wanted = self.normalised(rows, types)
        kinds = nn.functional.one_hot(types, len(TYPES)).to(rows.dtype)
        error, commitment = wanted.new_zeros(()), wanted.new_zeros(())
        encoded, tokens = [], []
        for part, columns in zip(self.parts, self.columns, strict=True):
            mine = columns[types]
            code = part.encode(wanted * mine, kinds)
            token = part.codebook.nearest(code.detach())
            chosen = part.codebook.codes[token]
            guess = part.decode(code + (chosen - code).detach(), kinds)
            count = mine.sum(-1).clamp_min(1.0)
            error = error + (((guess - wanted).square() * mine).sum(-1) / count).sum()
            commitment = commitment + (code - chosen).square().mean(-1).sum()
            encoded.append(code.detach())
            tokens.append(token)
        loss = error + self.config.commitment * commitment
        nodes = torch.as_tensor(float(len(rows)), device=rows.device)
        return loss, torch.stack([loss.detach(), error.detach(), commitment.detach(), nodes]), encoded, tokens

    @torch.no_grad()
    def tables(self) -> list[Tensor]:
        """What the codes of each part mean, (3 types, K, F): zeros in the columns that the part does not tell."""
        found = []
        for part, columns in zip(self.parts, self.columns, strict=True):
            codes = part.codebook.codes
            rows = []
            for node_type in range(len(TYPES)):
                kinds = torch.zeros(len(codes), len(TYPES), device=codes.device)
                kinds[:, node_type] = 1.0
                row = part.decode(codes, kinds) * self.deviation[node_type] + self.mean[node_type]
                rows.append(row * columns[node_type])
            found.append(torch.stack(rows))
        return found

    def decode(self, tokens: Tensor, types: Tensor) -> Tensor:
        """(M, 2), (M,) -> rows (M, F); the constants of the agent's own row are left 0."""
        return sum(table[types, tokens[:, k]] for k, table in enumerate(self.tables()))
