"""Stage 2: what an agent has seen, step by step, to what it is likely to miss: a guess for every unit out of sight.

A belief of the agent (a GRU) and what it saw of a unit last give, for each slot of the observation: how likely the unit
lives; its row, as a mean with a deviation of its position; and how likely each token of its place and of its condition
is. Mean and deviation are learnt beside the tokens, from the same trunk: agents that act need only them, and a product
with all codes for every unit of every agent would cost more than the agents themselves.

Slots are not exchanged: slot j of the guess is the unit of slot j, as actions are. A loss that matches guesses and
units of a kind first, the original's (`matching: hungarian`), is there for slots that may be exchanged.
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lib.omagd.learning import recurrence
from lib.omagd.recon.matching import matched
from lib.omagd.recon.nodes import ALLY, ENEMY, SELF, TYPES
from lib.omagd.recon.tokenizer import PARTS

STATISTICS = ("loss", "existence", "place", "condition", "error", "distance", "spread", "slots")
# Of the mean's parts of the loss, its error and its distance: it is what agents are told, and beside the entropies of
# the tokens both are small.
MEAN_WEIGHT = 10.0
NEAR = 1e-2  # sights: below, the distance is rather its square
FLAGS = 4  # of a slot: seen now, hidden to be guessed, seen ever, how lately
WAVES = 4  # sine and cosine of the time, of so many frequencies
FADING = 8.0  # steps after which what was seen counts for 1 / e in the flag of how lately
PLACE_AT = (2, 3)  # dx, dy in the rows of allies and enemies
MEMORIES = ("belief", "none")
SLOTWISE, HUNGARIAN = MATCHINGS = ("slots", "hungarian")


@dataclass(frozen=True)
class PredictorConfig:
    """Sizes. memory: `none` sees the present step alone. sha256_of_codes: of the tokens it was learnt in."""

    n_agents: int
    n_actions: int
    nodes: int
    node_width: int
    limit: int  # steps of an episode
    codes: tuple[int, int]
    hidden: int = 64
    slot: int = 16  # width of a slot
    memory: str = "belief"
    label_smoothing: float = 0.1
    matching: str = SLOTWISE
    sha256_of_codes: str = ""

    def to_dict(self) -> dict:
        return asdict(self) | {"codes": list(self.codes)}


class Views(NamedTuple):
    """Whole episodes in the layout of `lib.omagd.learning.networks`: S steps, A agents, N nodes."""

    rows: Tensor  # float32 (S, A, N, F), with unlimited sight
    visible: Tensor  # uint8 (S, A, N)
    masked: Tensor  # bool (S, A, N): visible ones that are hidden all the same, to be guessed
    alive: Tensor  # uint8 (S, A, N), of the nodes; node 0 is the agent itself
    last_actions: Tensor  # int64 (S, A)
    tokens: Tensor  # int64 (S, A, N, 2), of living nodes
    weights: Tensor  # float32 (S, A, N): of the tokens of a slot in the loss; of 0 they are not asked for
    batch_sizes: tuple[int, ...]


class Guess(NamedTuple):
    """Of every slot; node 0 is the agent itself and means nothing. Last dimensions (..., N) and (..., N, F)."""

    lives: Tensor  # logit of the unit's living, where it is not seen
    mean: Tensor  # its row if it lives
    spread: Tensor  # log of the variance of a coordinate of its position, in units of the row
    slots: Tensor  # (..., N, slot): what `Predictor.logits` reads


def times_of(batch_sizes: tuple[int, ...]) -> Tensor:
    """(S,) int64: the step of its episode that each row is."""
    return torch.repeat_interleave(torch.arange(len(batch_sizes)), torch.tensor(batch_sizes))


def last_seen(visible: Tensor, batch_sizes: tuple[int, ...]) -> Tensor:
    """(S, A, N) bool -> int64: the newest row so far in which a node was visible; -1 where it never was."""
    places = torch.arange(len(visible), device=visible.device).view(-1, 1, 1)
    found = torch.where(visible, places, -1)
    steps = found.split(batch_sizes)
    for before, now in pairwise(steps):
        torch.maximum(now, before[: len(now)], out=now)
    return found


class Predictor(nn.Module):
    """`forward` is the loss of whole episodes, as a sum over the slots that had to be guessed."""

    def __init__(self, config: PredictorConfig):
        super().__init__()
        self.config = config
        nodes, width, hidden = config.nodes, config.node_width, config.hidden
        self.sees = nn.Linear(nodes * (width + FLAGS) + 2 * WAVES, hidden)
        self.last_action = nn.Embedding(config.n_actions + 1, hidden)
        self.number = nn.Embedding(config.n_agents, hidden)
        # Without memory the same number of weights, nearly, reads the present step.
        self.memory = nn.GRU(hidden, hidden) if config.memory == "belief" else nn.Linear(hidden, hidden)
        self.expects = nn.Linear(hidden, nodes * config.slot)
        self.recalls = nn.Linear(width + FLAGS, len(TYPES) * config.slot, bias=False)
        # Of a slot: its living, how much of what was seen last still holds, the deviation, and the row.
        self.tells = nn.Linear(config.slot, 3 + width)
        self.tokens = nn.ModuleList(nn.Linear(config.slot, codes) for codes in config.codes)
        enemies = nodes - config.n_agents
        types = torch.tensor([SELF] + [ALLY] * (config.n_agents - 1) + [ENEMY] * enemies)
        self.register_buffer("types", types, persistent=False)
        self.register_buffer("others", types != SELF, persistent=False)
        # Of the tokenizer: what is normal of a row, which numbers its parts tell, what codes mean.
        self.register_buffer("normal", torch.zeros(nodes, width))
        self.register_buffer("deviation", torch.ones(nodes, width))
        self.register_buffer("columns", torch.zeros(nodes, width))
        for name, codes in zip(PARTS, config.codes, strict=True):
            self.register_buffer(f"{name}_table", torch.zeros(len(TYPES), codes, width))
        self.register_buffer("waves", math.pi * 2.0 ** torch.arange(-1, WAVES - 1), persistent=False)

    def follow(self, tokenizer) -> None:
        """Take over what the tokens of a `Tokenizer` mean."""
        types = self.types
        self.normal.copy_(tokenizer.mean[types])
        self.deviation.copy_(tokenizer.deviation[types])
        self.columns.copy_(tokenizer.columns.sum(0)[types])
        for name, table in zip(PARTS, tokenizer.tables(), strict=True):
            getattr(self, f"{name}_table").copy_(table)

    @property
    def tables(self) -> list[Tensor]:
        """What the codes of each part mean, (3 types, K, F)."""
        return [getattr(self, f"{name}_table") for name in PARTS]

    def inputs(self, rows: Tensor, seen: Tensor, masked: Tensor, known: Tensor, age: Tensor) -> Tensor:
        """(..., N, F + FLAGS): what is known of each slot. rows: as last seen, zeros where never."""
        lately = torch.exp(age.float() / -FADING) * known
        return torch.cat([rows, torch.stack([seen, masked, known, lately], -1)], -1)

    def waves_of(self, times: Tensor) -> Tensor:
        """(M, 2 WAVES): sine and cosine of times (M,) as shares of the limit."""
        phases = (times.float() / self.config.limit).unsqueeze(-1) * self.waves
        return torch.cat([phases.sin(), phases.cos()], -1)

    def trunk(self, slots: Tensor, last_actions: Tensor, times: Tensor) -> Tensor:
        """What goes into the memory, (rows, A, hidden), of slots (rows, A, N, F + FLAGS) at times (rows,)."""
        waves = self.waves_of(times).unsqueeze(1).expand(-1, slots.shape[1], -1)
        seen = self.sees(torch.cat([slots.flatten(-2), waves], -1))
        return torch.relu(seen + self.last_action(last_actions) + self.number.weight)

    def recalls_of(self, kind: int) -> Tensor:
        """(slot, F + FLAGS): the weights with which a kind of node reads what is known of it."""
        return self.recalls.weight[kind * self.config.slot : (kind + 1) * self.config.slot]

    def guess(self, belief: Tensor, slots: Tensor) -> Guess:
        """Of beliefs (..., hidden) and what is known of the slots (..., N, F + FLAGS)."""
        width, (nodes, slot) = self.config.node_width, (self.config.nodes, self.config.slot)
        expected = self.expects(belief).unflatten(-1, (nodes, slot))
        # Each kind of node reads what is known of it by weights of its own.
        recalled = torch.cat([
            slots[..., first:end, :] @ self.recalls_of(kind).T
            for kind, first, end in self._kinds()
        ], -2)  # fmt: skip
        found = torch.relu(expected + recalled)
        lives, keeps, spread, row = self.tells(found).split([1, 1, 1, width], -1)
        known = slots[..., width + 2].unsqueeze(-1)
        mean = self.normal + self.deviation * row
        mean = torch.lerp(mean, slots[..., :width] + self.deviation * row, torch.sigmoid(keeps) * known)
        return Guess(lives.squeeze(-1), mean * self.columns, spread.squeeze(-1), found)

    def _kinds(self) -> list[tuple[int, int, int]]:
        """(kind, first node, the one after its last): nodes of a kind lie side by side."""
        allies = self.config.n_agents
        return [(SELF, 0, 1), (ALLY, 1, allies), (ENEMY, allies, self.config.nodes)]

    def logits(self, slots: Tensor) -> list[Tensor]:
        """Of the tokens of each part, (..., codes), of slots (..., slot)."""
        return [tokens(slots) for tokens in self.tokens]

    def remember(self, inner: Tensor, hidden: Tensor) -> Tensor:
        """One step of the memory: (rows, hidden) of `trunk`, and as it was, -> (rows, hidden)."""
        if self.config.memory != "belief":
            return torch.relu(self.memory(inner))
        gru = self.memory
        weights = (gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
        return torch.gru_cell(inner, hidden, *weights)

    def decoded(self, slots: Tensor, types: Tensor) -> Tensor:
        """Rows (..., F) of the likeliest tokens of slots (..., slot) of types (...)."""
        best = [logits.argmax(-1) for logits in self.logits(slots)]
        return sum(table[types, tokens] for table, tokens in zip(self.tables, best, strict=True))

    def believe(self, views: Views) -> Guess:
        """Guesses of every step of whole episodes, from what was visible and not masked up to it."""
        seen = (views.visible != 0) & ~views.masked
        if self.config.memory == "belief":
            newest = last_seen(seen, views.batch_sizes)
        else:
            places = torch.arange(len(seen), device=seen.device).view(-1, 1, 1)
            newest = torch.where(seen, places, -1)
        times = times_of(views.batch_sizes).to(seen.device)
        known, newest = (newest >= 0).float(), newest.clamp_min(0)
        agents = torch.arange(seen.shape[1], device=seen.device).view(-1, 1)
        rows = views.rows[newest, agents, torch.arange(seen.shape[2], device=seen.device)] * known.unsqueeze(-1)
        age = times.view(-1, 1, 1) - times[newest]
        slots = self.inputs(rows, seen.float(), views.masked.float(), known, age)
        inner = self.trunk(slots, views.last_actions, times)
        flat = inner.flatten(0, 1)
        if self.config.memory == "belief":
            belief = recurrence.run(self.memory, flat, [size * inner.shape[1] for size in views.batch_sizes])
        else:
            belief = torch.relu(self.memory(flat))
        return self.guess(belief.view_as(inner), slots)

    def asked(self, views: Views) -> tuple[Tensor, Tensor]:
        """bool (S, A, N): slots that had to be guessed by living agents, living or not; those of them that live."""
        unseen = (views.visible == 0) | views.masked
        asked = unseen & self.others & (views.alive[..., :1] != 0)
        return asked, asked & (views.alive != 0)

    @torch.no_grad()
    def matched(self, logits: list[Tensor], tokens: Tensor, living: Tensor) -> Tensor:
        """(M,) for each of the M slots of `living` (S, A, N) the one whose tokens it is compared with, each once.

        Those of a kind that an agent misses at a step may be exchanged, and are so that the entropies' sum is least.
        """
        step, agent, node = living.nonzero().T
        groups = (step * living.shape[1] + agent) * len(TYPES) + self.types[node]
        return matched([each.log_softmax(-1) for each in logits], tokens, groups)

    def forward(self, *batch) -> tuple[Tensor, Tensor]:
        """(loss summed over the slots that had to be guessed, sums in the order of STATISTICS) of `Views`."""
        views = Views(*batch)
        return self.losses(views, self.believe(views))

    def losses(self, views: Views, guess: Guess) -> tuple[Tensor, Tensor]:
        """`forward`, of guesses that are there."""
        asked, living = self.asked(views)
        # Whether a visible unit lives is no question: its answer would be learnt for the others, too.
        wondered = asked & ~views.masked
        existence = nn.functional.binary_cross_entropy_with_logits(
            guess.lives[wondered], (views.alive[wondered] != 0).float(), reduction="sum"
        )
        weights, tokens, rows = views.weights[living], views.tokens[living], views.rows[living]
        drawn = weights > 0
        logits = self.logits(guess.slots[living][drawn])
        if self.config.matching == HUNGARIAN:
            chosen = self.matched(logits, tokens, living)
            tokens, rows = tokens[chosen], rows[chosen]
        entropies = [
            weights[drawn] @ nn.functional.cross_entropy(
                each, tokens[drawn, k], reduction="none", label_smoothing=self.config.label_smoothing
            )
            for k, each in enumerate(logits)
        ]  # fmt: skip
        nodes = living.nonzero()[:, 2]
        off = guess.mean[living] - rows * self.columns[nodes]
        scaled = (off / self.deviation[nodes]).square().sum(-1)
        error = (scaled / self.columns[nodes].sum(-1).clamp_min(1.0)).sum()
        distance = (off[:, PLACE_AT].square().sum(-1) + NEAR**2).sqrt().sum()
        # The mean is learnt without the variance: one variance that learns with it would forgive it what is hard.
        log_variance = guess.spread[living]
        square = off[:, PLACE_AT].detach().square().sum(-1)
        spread = (0.5 * square * torch.exp(-log_variance) + log_variance).sum()
        loss = existence + sum(entropies) + MEAN_WEIGHT * (error + distance) + spread
        count = asked.sum().to(loss.dtype)
        return loss, torch.stack([loss, existence, *entropies, error, distance, spread, count]).detach()
