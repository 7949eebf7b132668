"""What a predictor has to be better than: guesses of unseen units that need no learning.

    marginal    what is most common of the kind of node
    prior       what is most common of this slot of this agent at this step; else the marginal
    last seen   the unit as it was seen last; else the prior

Each guesses tokens (the most common ones), a row (the mean) and how likely the unit lives, from the training episodes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lib.omagd.recon.nodes import TYPES
from lib.omagd.recon.predictor import Predictor, Views, last_seen, times_of

REFERENCES = ("marginal", "prior", "last_seen")


class Told(NamedTuple):
    """A guess of M slots."""

    tokens: Tensor  # int64 (M, 2)
    rows: Tensor  # (M, F)
    lives: Tensor  # (M,) probability


class Common:
    """The most common tokens, the mean row and the share that lives, of each of `keys` keys."""

    def __init__(self, keys: int, codes: tuple[int, int], width: int):
        self.codes = codes
        # Of each part key * codes + token, and how often.
        self.counted = [[torch.empty(0, dtype=torch.int64)] * 2 for _ in codes]
        self.rows = torch.zeros(keys, width, dtype=torch.float64)
        self.living, self.asked = torch.zeros(keys, dtype=torch.float64), torch.zeros(keys, dtype=torch.float64)
        self.tokens = torch.zeros(keys, 2, dtype=torch.int64)

    def add(self, keys: Tensor, lives: Tensor, rows: Tensor, tokens: Tensor) -> None:
        """Keys (M,), whether each lives (M,); rows (L, F) and tokens (L, 2) of the living ones, in their order."""
        keys, lives, rows, tokens = (one.cpu() for one in (keys, lives, rows, tokens))
        ones = torch.ones(len(keys), dtype=torch.float64)
        self.asked.index_add_(0, keys, ones)
        mine = keys[lives]
        self.living.index_add_(0, mine, ones[: len(mine)])
        self.rows.index_add_(0, mine, rows.double())
        for k, codes in enumerate(self.codes):
            before, times = self.counted[k]
            pairs, places = torch.unique(torch.cat([before, mine * codes + tokens[:, k]]), return_inverse=True)
            counts = torch.zeros(len(pairs), dtype=torch.int64)
            counts.index_add_(0, places, torch.cat([times, torch.ones_like(mine)]))
            self.counted[k] = [pairs, counts]

    def close(self) -> "Common":
        """No more is added."""
        for k, codes in enumerate(self.codes):
            pairs, counts = self.counted[k]
            order = counts.argsort(stable=True)
            order = order[(pairs[order] // codes).argsort(stable=True)]  # by key, the most common last
            keys = pairs[order] // codes
            last = torch.ones_like(keys, dtype=torch.bool)
            last[:-1] = keys[1:] != keys[:-1]
            self.tokens[keys[last], k] = pairs[order][last] % codes
        self.counted = []
        return self

    def told(self, keys: Tensor) -> Told:
        """Of keys (M,), on their device."""
        device, keys = keys.device, keys.cpu()
        rows = self.rows[keys] / self.living[keys].clamp_min(1.0).unsqueeze(-1)
        lives = (self.living[keys] + 0.5) / (self.asked[keys] + 1.0)
        return Told(self.tokens[keys].to(device), rows.float().to(device), lives.float().to(device))


class References:
    """All of them, counted over the views that `views` gives (an iterable of `Views` of training episodes)."""

    def __init__(self, module: Predictor, views):
        config = module.config
        self.module = module
        self.kinds = Common(len(TYPES), config.codes, config.node_width)
        slots = config.n_agents * config.nodes
        self.slots = Common(slots * config.limit, config.codes, config.node_width)
        for one in views:
            asked, _ = module.asked(one)
            lives = one.alive[asked] != 0
            rows, tokens = one.rows[asked][lives], one.tokens[asked][lives]
            for common, keys in ((self.kinds, self._kinds(asked)), (self.slots, self._slots(asked, one))):
                common.add(keys, lives, rows, tokens)
        self.kinds.close()
        self.slots.close()

    def _kinds(self, asked: Tensor) -> Tensor:
        return self.module.types[asked.nonzero()[:, 2]]

    def _slots(self, asked: Tensor, views: Views) -> Tensor:
        places, agents, nodes = asked.nonzero().unbind(1)
        times = times_of(views.batch_sizes).to(places.device)[places]
        return (times * self.module.config.n_agents + agents) * self.module.config.nodes + nodes

    def told(self, views: Views) -> dict[str, Told]:
        """Of each reference, of the slots that `Predictor.asked` names first."""
        asked, _ = self.module.asked(views)
        marginal = self.kinds.told(self._kinds(asked))
        keys = self._slots(asked, views)
        own, lived, was_asked = self.slots.told(keys), self.slots.living[keys.cpu()], self.slots.asked[keys.cpu()]
        prior = _where((lived > 0).to(keys.device), own, marginal)
        prior = prior._replace(lives=torch.where((was_asked > 0).to(keys.device), own.lives, marginal.lives))
        seen = (views.visible != 0) & ~views.masked
        newest = last_seen(seen, views.batch_sizes)[asked]
        _, agents, nodes = asked.nonzero().unbind(1)
        then = Told(views.tokens[newest, agents, nodes], views.rows[newest, agents, nodes], prior.lives)
        return {"marginal": marginal, "prior": prior, "last_seen": _where(newest >= 0, then, prior)}


def _where(condition: Tensor, one: Told, other: Told) -> Told:
    flat = condition.unsqueeze(-1)
    return Told(torch.where(flat, one.tokens, other.tokens), torch.where(flat, one.rows, other.rows),
                torch.where(condition, one.lives, other.lives))  # fmt: skip
