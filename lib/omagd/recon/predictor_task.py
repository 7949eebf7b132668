"""Stage 2 as a task: which episodes an update learns from, what is hidden in them, what is measured."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lib.errors import UserError
from lib.omagd.battle.layout import HEALTH_AT
from lib.omagd.recon.episodes import TEST, TRAIN, VALIDATION, EpisodeSet
from lib.omagd.recon.nodes import ALLY, ENEMY, TYPES
from lib.omagd.recon.predictor import HUNGARIAN, PLACE_AT, STATISTICS, Predictor, Views, last_seen
from lib.omagd.recon.references import REFERENCES, References, Told
from lib.omagd.recon.tokenizer import Tokenizer
from lib.seeds import numpy_generator
from lib.task import Task

AT_ONCE = 1 << 18  # rows of units in memory at once, where all are gone through
BINS = 20  # of the probability that a unit lives
# Of the slots in an update whose tokens are learnt, weighted so that they stand for all: the entropies over all codes
# are most of the work. Where slots are matched (--matching hungarian) it needs all of them.
TOKEN_SHARE = 0.25
GUESSERS = ("model", "tokens", *REFERENCES)  # `tokens`: the model's most likely tokens, decoded
KINDS = (ALLY, ENEMY)
# Sums of each guesser and kind: living slots; hits of the place, of the condition, of the place among five; distances
# and health errors; of those seen before: slots and distances.
SUMS = ("slots", "place_hits", "condition_hits", "top5_hits", "position", "health", "seen_slots", "seen_position")


class Frames:
    """Episodes as `Views`, with the tokens of everything that lives. To be made on all processes at once."""

    def __init__(self, played: EpisodeSet, tokenizer: Tokenizer, ranks):
        self.played, self.nodes, self.device = played, played.nodes, ranks.device
        layout = played.layout
        codes = max(tokenizer.config.codes)
        self.tokens = torch.zeros(len(played.actions), layout.n_agents, layout.n_nodes, 2,
                                  dtype=torch.uint8 if codes <= 256 else torch.int16)  # fmt: skip
        rows_of_step = layout.n_agents * layout.n_nodes
        steps = max(AT_ONCE // rows_of_step, 1)
        # Of the mean length; at most 64, whose recurrences are about as fast as can be.
        self.episodes_at_once = min(max(int(steps / float(played.lengths.double().mean())), 1), 64)
        chunks = torch.arange(len(played.actions)).split(steps)
        for first in range(0, len(chunks), ranks.count):  # one chunk each
            some = chunks[first : first + ranks.count]
            found = torch.zeros(sum(map(len, some)), *self.tokens.shape[1:], dtype=torch.int32)
            if ranks.index < len(some):
                start = sum(map(len, some[: ranks.index]))
                mine = self._tokens(tokenizer, some[ranks.index])
                found[start : start + len(mine)] = mine
            found = ranks.sum_tensor(found.to(self.device)).cpu()
            self.tokens[torch.cat(some)] = found.to(self.tokens.dtype)

    def _tokens(self, tokenizer: Tokenizer, places: Tensor) -> Tensor:
        """int32 (steps, A, N, 2); zeros where nothing lives."""
        rows, alive = self._rows(places), self._alive(places)
        told = (alive != 0) & (alive[..., :1] != 0)
        types = self.nodes.types.expand(told.shape)[told]
        found = tokenizer.tokens(rows[told].to(self.device), types.to(self.device)).cpu()
        return torch.zeros(*told.shape, 2, dtype=torch.int32).masked_scatter(told.unsqueeze(-1), found.int())

    def _rows(self, places: Tensor) -> Tensor:
        return self.nodes.build(self.played.full_obs[places].float())

    def _alive(self, places: Tensor) -> Tensor:
        return self.nodes.alive_of_nodes(self.played.alive[places])

    def views(self, episodes: Tensor, masked: Tensor | None = None) -> Views:
        """Of episodes; masked: bool (S, A, N) in the order of `EpisodeSet.steps_of`."""
        played = self.played
        places, sizes = played.steps_of(episodes)
        actions = played.actions[places].long()
        last = torch.full_like(actions, played.layout.n_actions)
        behind = torch.arange(sizes[0], len(places))
        last[behind] = played.actions[places[behind] - 1].long()
        visible = played.visible[places]
        masked = torch.zeros_like(visible, dtype=torch.bool) if masked is None else masked
        weights = torch.ones(visible.shape)
        found = (self._rows(places), visible, masked, self._alive(places), last, self.tokens[places].long(), weights)
        return Views(*(one.to(self.device) for one in found), sizes)

    def all_of(self, part: str, rank: int = 0, ranks: int = 1) -> Iterator[Views]:
        """Every so manieth chunk of the episodes of a part."""
        chunks = self.played.of_part(part).split(self.episodes_at_once)
        for chunk in chunks[rank::ranks]:
            yield self.views(chunk)


def hide(views: Views, share: float, draws: Tensor) -> Tensor:
    """bool (S, A, N): of what each living agent sees of others `share`, and one at least, by draws (S, A, N) in [0, 1).

    Those of the least draws; nothing where nothing is seen.
    """
    seen = (views.visible != 0) & (views.alive[..., :1] != 0)
    seen[..., 0] = False
    if not share:
        return torch.zeros_like(seen)
    wanted = (share * seen.sum(-1, keepdim=True)).round().clamp_min(1)
    ranks = torch.where(seen, draws, 2.0).argsort(-1).argsort(-1)
    return seen & (ranks < wanted)


class PredictorTask(Task):
    """Real epochs over the training episodes, `episodes` of each process in an update."""

    statistics: ClassVar[tuple[str, ...]] = STATISTICS
    logged: ClassVar[tuple[str, ...]] = (
        "loss", "model_position_error", "last_seen_position_error", "prior_position_error", "model_place",
        "last_seen_place", "prior_place", "model_condition", "existence_calibration_error",
    )  # fmt: skip

    def __init__(
        self, module: Predictor, tokenizer: Tokenizer, played: EpisodeSet, described: dict, *, episodes: int,
        mask_share: float, seed: int, ranks,
    ):  # fmt: skip
        self.module, self.seed, self.device, self.about = module, seed, ranks.device, described
        self.sight, self.whole, self.mask_share = described["sight"], episodes * ranks.count, mask_share
        self.parts = {part: played.of_part(part) for part in (TRAIN, VALIDATION, TEST)}
        if len(self.parts[TRAIN]) < ranks.count:
            raise UserError(
                f"--graph_pretrain_episodes: {len(self.parts[TRAIN])} for training and {ranks.count} processes; give"
                f" {2 * ranks.count} or more"
            )
        self.frames = Frames(played, tokenizer, ranks)
        self.epoch_updates = max(len(self.parts[TRAIN]) // self.whole, 1)
        for part in (VALIDATION, TEST):
            if not any(bool(module.asked(views)[1].any()) for views in self.frames.all_of(part)):
                raise UserError(
                    f"--sight {self.sight:g}: no living unit is out of sight in the episodes for {part}; give a shorter"
                    " sight, or more --graph_pretrain_episodes"
                )
        self.references = References(module, self.frames.all_of(TRAIN))

    def described(self) -> dict:
        return self.about

    def batch(self, update: int, rank: int, ranks: int) -> tuple:
        epoch, at = divmod(update, self.epoch_updates)
        train = self.parts[TRAIN]
        order = torch.from_numpy(numpy_generator(self.seed, "views", epoch).permutation(len(train)))
        chosen = train[order[at * self.whole : (at + 1) * self.whole]][rank::ranks]
        views = self.frames.views(chosen)
        draws = self._draws(update, chosen)
        views = views._replace(masked=hide(views, self.mask_share, draws))
        if self.module.config.matching == HUNGARIAN:
            return views
        # Later digits of the draws, which have nothing to do with what is hidden.
        return views._replace(weights=(draws * 4096 % 1 < TOKEN_SHARE).float() / TOKEN_SHARE)

    def _draws(self, update: int, episodes: Tensor) -> Tensor:
        """(S, A, N) in [0, 1), drawn episode by episode: whichever process has one hides the same."""
        played = self.frames.played
        shape, lengths = (played.layout.n_agents, played.layout.n_nodes), played.lengths[episodes]
        lots = [
            numpy_generator(self.seed, "masks", update, number).random((length, *shape))
            for number, length in zip(episodes.tolist(), lengths.tolist(), strict=True)
        ]
        places, _ = played.steps_of(episodes, lengths.cumsum(0) - lengths)
        return torch.from_numpy(np.concatenate(lots))[places].to(self.device)

    def begin(self, update: int, ranks) -> None:
        """Nothing has to be done."""

    def learnt(self, update: int, found: tuple, ranks) -> dict[str, float | Tensor]:
        return {}

    def measure(self, part: str, rank: int, ranks: int) -> Tensor:
        views = self.frames.all_of(part, rank, ranks)
        return measured(self.module, self.references, views, self.sight, hungarian=part == TEST)

    def judge(self, sums: Tensor) -> dict[str, float]:
        return judged(sums)


@torch.no_grad()
def measured(
    module: Predictor, references: References, views: Iterator[Views], sight: float, hungarian: bool = True
) -> Tensor:  # fmt: skip
    """Sums over all slots that had to be guessed: of every guesser and kind SUMS; of the model loss, slots asked, and
    for BINS of p(lives) how many slots, their p and how many lived; hits of its tokens where units of a kind may be
    exchanged, and of how many (without `hungarian` none: it takes long); of every reference's p(lives) the log loss.
    """
    device = module.normal.device
    found = torch.zeros(len(GUESSERS), len(KINDS), len(SUMS), dtype=torch.float64, device=device)
    bins = torch.zeros(3, BINS, dtype=torch.float64, device=device)
    # Loss, slots; matched slots, their hits of place and condition; log losses of p(lives).
    more = torch.zeros(6 + len(REFERENCES), dtype=torch.float64, device=device)
    tables = module.tables
    for one in views:
        guess = module.believe(one)
        asked, living = module.asked(one)
        lives = one.alive[asked] != 0
        nodes = asked.nonzero()[:, 2]
        types = module.types[nodes]
        logits = module.logits(guess.slots[asked][lives])
        best = torch.stack([each.argmax(-1) for each in logits], -1)
        top5 = logits[0].topk(min(5, logits[0].shape[-1]), -1).indices
        chances = torch.sigmoid(guess.lives[asked])
        model = guess.mean[asked][lives]
        decoded = sum(table[types[lives], best[:, k]] for k, table in enumerate(tables))
        told = references.told(one)
        tokens, truth = one.tokens[asked][lives], one.rows[asked][lives]
        seen_ever = last_seen((one.visible != 0) & ~one.masked, one.batch_sizes)[asked][lives] >= 0
        guesses = [Told(best, model, chances), Told(best, decoded, chances)]
        guesses += [Told(told[name].tokens[lives], told[name].rows[lives], told[name].lives) for name in REFERENCES]
        for number, each in enumerate(guesses):
            off = each.rows - truth
            far = sight * off[:, PLACE_AT].norm(dim=-1)
            hits = (each.tokens == tokens).double()
            among = (top5 == tokens[:, :1]).any(-1).double() if number < 2 else hits[:, 0]
            sums = [torch.ones_like(far), hits[:, 0], hits[:, 1], among, far, off[:, HEALTH_AT].abs(),
                    seen_ever.double(), far * seen_ever]  # fmt: skip
            sums = torch.stack([column.double() for column in sums], -1)
            for at, kind in enumerate(KINDS):
                found[number, at] += sums[types[lives] == kind].sum(0)
        at = (chances * BINS).long().clamp_max(BINS - 1)
        for row, weights in enumerate((torch.ones_like(chances), chances, lives)):
            bins[row].index_add_(0, at, weights.double())
        more[0] += module.losses(one, guess)[0].double()
        more[1] += float(asked.sum())
        if hungarian:
            more[2] += float(lives.sum())
            more[3:5] += (best == tokens[module.matched(logits, tokens, living)]).double().sum(0)
        for number, chance in enumerate([chances, *(told[name].lives for name in REFERENCES)]):
            more[5 + number] += nn.functional.binary_cross_entropy(
                chance.double().clamp(1e-6, 1 - 1e-6), lives.double(), reduction="sum"
            )
    return torch.cat([found.flatten(), bins.flatten(), more])


def judged(sums: Tensor) -> dict[str, float]:
    """Figures of `measured`. Keys `{guesser}_{kind}_{figure}`; without a kind, of all kinds together.

    `existence_calibration_error`: |p - share that lived| in bins of p, by how many slots a bin has (Guo et al. 2017,
    arXiv 1706.04599).
    """
    size = len(GUESSERS) * len(KINDS) * len(SUMS)
    table, bins, more = sums.split([size, 3 * BINS, 6 + len(REFERENCES)])
    table, bins = table.view(len(GUESSERS), len(KINDS), len(SUMS)), bins.view(3, BINS)
    asked = max(float(more[1]), 1.0)
    figures = {"loss": float(more[0]) / asked, "slots": float(more[1])}
    for number, guesser in enumerate(GUESSERS):
        rows = {"": table[number].sum(0), **{f"_{TYPES[kind]}": table[number, at] for at, kind in enumerate(KINDS)}}
        for kind, row in rows.items():
            value = dict(zip(SUMS, row.tolist(), strict=True))
            if not value["slots"]:
                continue
            name, slots = f"{guesser}{kind}", value["slots"]
            figures |= {f"{name}_{key}": value[f"{key}_hits"] / slots for key in ("place", "condition", "top5")}
            figures[f"{name}_position_error"] = value["position"] / slots
            figures[f"{name}_health_error"] = value["health"] / slots
            if value["seen_slots"]:
                figures[f"{name}_seen_position_error"] = value["seen_position"] / value["seen_slots"]
            if guesser == "model":
                figures[f"hidden{kind}_slots"], figures[f"hidden{kind}_seen_share"] = slots, value["seen_slots"] / slots
    figures["existence_calibration_error"] = float((bins[1] - bins[2]).abs().sum()) / asked
    figures["lives_share"] = float(bins[2].sum()) / asked
    for number, name in enumerate(("model", *REFERENCES)):
        figures[f"{name}_existence_loss"] = float(more[5 + number]) / asked
    if more[2]:
        for at, key in enumerate(("place", "condition")):
            figures[f"model_{key}_hungarian"] = float(more[3 + at] / more[2])
    return figures
