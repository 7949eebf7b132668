"""Self-play: games against bots, against the team as it is, and against snapshots of its past, with Elo ratings.

Every process holds the same league: its shares of the games are the same, and results are summed over the processes
before `next_generation` draws conclusions from them. A generation is as long as a game.
"""

from dataclasses import dataclass

import torch

from lib.seeds import numpy_generator
from lib.snakes.elo import ANCHOR_RATING, update_ratings
from lib.snakes.network import Actor, ActorConfig
from lib.snakes.options import LATEST, PAST, league_shares
from lib.snakes.rules import CONTROLLERS

LEARNER = "learner"
ANCHOR = "greedy"
PAST_CHUNKS = 4  # so many snapshots play in one generation
POOL = 24  # snapshots kept; the oldest goes first
SNAPSHOT_SCORE = 0.6  # share of the points that makes the learner worth keeping
LONGEST_WAIT = 25  # generations after which it is kept anyway
RATING_STEP = 24.0  # Elo points for a generation that came out quite unexpectedly
SCORE_MEMORY = 0.8  # of the running score against a snapshot


@dataclass
class Chunk:
    """Games (by number in this process) with one opponent: a bot, "latest", or a snapshot by name."""

    name: str
    games: torch.Tensor
    past: bool = False


class League:
    """The opponents of `games` parallel games and what is known of their strength."""

    def __init__(self, shares: str, games: int, actor: ActorConfig, seed: int, device="cpu"):
        self.seed, self.device, self.generation, self.waited = seed, device, 0, 0
        self.config = actor
        self.ratings = {LEARNER: ANCHOR_RATING}
        self.scores: dict[str, float] = {}  # running share of the points against each snapshot
        self.snapshots: dict[str, Actor] = {}
        self.chunks = self._divide(league_shares(shares), games)
        for chunk in self.chunks:
            if chunk.name != LATEST:  # games against the past begin against the anchor
                self.ratings.setdefault(chunk.name, ANCHOR_RATING)

    def _divide(self, shares: dict[str, float], games: int) -> list[Chunk]:
        """Games by the middle of their place: the shares as nearly as whole games allow."""
        names, chunks, start = list(shares), [], 0.0
        places = (torch.arange(games, dtype=torch.float64) + 0.5) / games
        for name in names:
            # Sums of shares round: the same tolerance at both ends, so that a place on a border is taken once.
            inside = ((places >= start - 1e-9) & (places < start + shares[name] - 1e-9)).nonzero().squeeze(1)
            start += shares[name]
            if name == PAST:
                # Until there is a snapshot these games are played against the anchor.
                parts = inside.tensor_split(PAST_CHUNKS)
                chunks += [Chunk(ANCHOR, part.to(self.device), past=True) for part in parts if len(part)]
            elif len(inside):
                chunks.append(Chunk(name, inside.to(self.device)))
        assert sum(len(chunk.games) for chunk in chunks) == games, "every game has one opponent"
        return chunks

    @property
    def latest(self) -> torch.Tensor:
        """Games in which both teams are the learner."""
        own = [chunk.games for chunk in self.chunks if chunk.name == LATEST]
        return torch.cat(own) if own else torch.zeros(0, dtype=torch.int64, device=self.device)

    def controllers(self) -> torch.Tensor:
        """Controller code (games,) of every game's opponent; networks are external to the game."""
        codes = torch.zeros(sum(len(chunk.games) for chunk in self.chunks), dtype=torch.int64)
        for chunk in self.chunks:
            codes[chunk.games.cpu()] = CONTROLLERS.get(chunk.name, CONTROLLERS["external"])
        return codes

    def past_slices(self) -> list[tuple[Actor, torch.Tensor]]:
        """(frozen actor, its games) of this generation."""
        return [(self.snapshots[chunk.name], chunk.games) for chunk in self.chunks if chunk.name in self.snapshots]

    def results(self, sums: torch.Tensor) -> dict[str, float]:
        """{"<opponent> games": ..., "<opponent> points": ...} from (games, [games, wins, draws]) on the CPU.

        Every process gives the same keys, whatever it has played.
        """
        totals = {f"{name} {what}": 0.0 for name in self._rated() for what in ("games", "points")}
        for chunk in self.chunks:
            if chunk.name != LATEST:
                played, won, drawn = sums[chunk.games.cpu()].sum(0).tolist()
                totals[f"{chunk.name} games"] += played
                totals[f"{chunk.name} points"] += won + 0.5 * drawn
        return totals

    def _rated(self) -> list[str]:
        return [name for name in self.ratings if name != LEARNER]

    def next_generation(self, totals: dict[str, float], actor: Actor) -> str | None:
        """Rate, keep a snapshot of `actor` where it has earned one, draw the next opponents from the past.

        `totals` are `results` summed over all processes. Returns the name of the new snapshot, or None.
        """
        self.generation += 1
        self.waited += 1
        self._rate(totals)
        games = sum(value for name, value in totals.items() if name.endswith(" games"))
        points = sum(value for name, value in totals.items() if name.endswith(" points"))
        due = games > 0 and points / games > SNAPSHOT_SCORE
        name = self._keep(actor) if due or self.waited >= LONGEST_WAIT else None
        self._draw()
        return name

    def _rate(self, totals: dict[str, float]) -> None:
        for name in self._rated():
            games = totals[f"{name} games"]
            if not games:
                continue
            score = totals[f"{name} points"] / games
            pair = (self.ratings[LEARNER], self.ratings[name])
            self.ratings[LEARNER], self.ratings[name] = update_ratings(*pair, score, k=RATING_STEP)
            if name in self.scores:
                self.scores[name] = SCORE_MEMORY * self.scores[name] + (1 - SCORE_MEMORY) * score
        shift = ANCHOR_RATING - self.ratings.get(ANCHOR, ANCHOR_RATING)
        self.ratings = {name: rating + shift for name, rating in self.ratings.items()}

    def _keep(self, actor: Actor) -> str:
        name, self.waited = f"generation_{self.generation:05d}", 0
        self.snapshots[name] = self._frozen(actor.state_dict())
        self.ratings[name], self.scores[name] = self.ratings[LEARNER], 0.5
        if len(self.snapshots) > POOL:
            oldest = min(self.snapshots)
            for table in (self.snapshots, self.ratings, self.scores):
                del table[oldest]
        return name

    def _frozen(self, tensors: dict[str, torch.Tensor]) -> Actor:
        copy = Actor(self.config).to(self.device).requires_grad_(False)
        copy.load_state_dict(tensors)
        return copy.eval()

    def _draw(self) -> None:
        """Snapshots that the learner finds hard are drawn more often."""
        names = sorted(self.snapshots)
        past = [chunk for chunk in self.chunks if chunk.past]
        if not names or not past:
            return
        generator = numpy_generator(self.seed, "league", self.generation)
        weights = [(1.0 - self.scores[name]) ** 2 + 0.05 for name in names]
        share = [weight / sum(weights) for weight in weights]
        for chunk, pick in zip(past, generator.choice(len(names), len(past), p=share), strict=True):
            chunk.name = names[int(pick)]

    def get_state(self) -> tuple[dict, dict[str, torch.Tensor]]:
        """(JSON, tensors) of everything that moves."""
        state = {
            "generation": self.generation,
            "waited": self.waited,
            "ratings": self.ratings,
            "scores": self.scores,
            "playing": [chunk.name for chunk in self.chunks if chunk.past],
        }
        tensors = {
            f"{name}/{key}": value
            for name, actor in self.snapshots.items()
            for key, value in actor.state_dict().items()
        }
        return state, tensors

    def set_state(self, state: dict, tensors: dict[str, torch.Tensor]) -> None:
        """Restore `get_state`."""
        self.generation, self.waited = state["generation"], state["waited"]
        self.ratings, self.scores = dict(state["ratings"]), dict(state["scores"])
        names = sorted({key.split("/")[0] for key in tensors})
        self.snapshots = {
            name: self._frozen({k.split("/")[1]: v for k, v in tensors.items() if k.split("/")[0] == name})
            for name in names
        }
        for chunk, name in zip((chunk for chunk in self.chunks if chunk.past), state["playing"], strict=False):
            chunk.name = name
