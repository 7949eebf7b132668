"""How strong a team is: matches against the scripted bots on both sides of the board, and its place among them."""

from collections.abc import Callable
from dataclasses import dataclass

from lib.snakes.elo import Result, fit_ratings
from lib.snakes.match import MatchResult, play_match
from lib.snakes.network import Actor
from lib.snakes.options import BOTS
from lib.snakes.players import NetworkPlayer, ScriptedPlayer

FINAL = ("greedy", "hunter", "random")  # the bots of results.json
BOT_GAMES = 100  # of each pair of bots, for the table of ratings
TEAM_NAME = "team"
ANCHOR = "greedy"


def play_shares(
    pairs: list[tuple[str, str, int]],
    actor: Actor | None,
    *,
    seed: int,
    rank: int,
    processes: int,
    device,
    should_stop: Callable[[], bool],
) -> list[MatchResult]:
    """This process's share of every match (left, right, games); "team" is the actor, playing arg-max.

    Shares of all processes add up to the whole, every game once.
    """
    shares = []
    for left, right, games in pairs:
        players = [
            NetworkPlayer(actor, name=TEAM_NAME) if name == TEAM_NAME else ScriptedPlayer(name)
            for name in (left, right)
        ]
        first, end = rank * games // processes, (rank + 1) * games // processes
        shares.append(
            play_match(
                *players, games, seed=seed, device=device, first_game=first, game_count=end - first,
                should_stop=should_stop,
            )
        )  # fmt: skip
    return shares


def play_all(ranks, pairs: list, actor: Actor, *, seed: int, signals) -> list[MatchResult] | None:
    """The matches, divided over the processes of `ranks` (lib.ranks.Ranks), whole on each. Collective.

    None when a signal came to any process, as `signals` (lib.stopping.StopSignals) knows.
    """
    shares = play_shares(
        pairs, actor, seed=seed, rank=ranks.index, processes=ranks.count, device=ranks.device,
        should_stop=lambda: signals.requested,
    )  # fmt: skip
    if ranks.any(signals.requested):
        return None
    parts = ranks.gather([shares])
    return [sum(shares[1:], shares[0]) for shares in zip(*parts, strict=True)]


def judge_pairs(judges: list[str], games: int) -> list[tuple[str, str, int]]:
    """The matches of an evaluation while training."""
    return [(TEAM_NAME, name, games) for name in judges]


def final_pairs(games: int) -> list[tuple[str, str, int]]:
    """The matches at the end: `games` against those of results.json, fewer against and among the other bots."""
    few = min(games, BOT_GAMES)
    pairs = [(TEAM_NAME, name, games if name in FINAL else few) for name in BOTS]
    return pairs + [(one, other, few) for i, one in enumerate(BOTS) for other in BOTS[i + 1 :]]


@dataclass
class Standing:
    """All matches at the end, and the ratings that explain them best (greedy = 1000)."""

    matches: list[MatchResult]

    def against(self, name: str) -> MatchResult:
        """The team's match against a bot."""
        return next(match for match in self.matches if (match.left, match.right) == (TEAM_NAME, name))

    def ratings(self) -> dict[str, float]:
        """Elo, highest first."""
        games = [Result(m.left, m.right, m.wins, m.draws, m.losses) for m in self.matches]
        return fit_ratings(games, anchor=ANCHOR)

    def results(self) -> dict:
        """Keys of results.json."""
        ratings = self.ratings()
        found = {"elo": ratings[TEAM_NAME], "elo_table": ratings}
        for name in BOTS:
            match = self.against(name)
            key = "bot" if name == "hunter" else name
            low, high = match.interval()
            found |= {
                f"win_rate_{key}": match.win_rate,
                f"draw_rate_{key}": match.draw_rate,
                f"games_{key}": match.games,
            }
            found |= {f"win_rate_{key}_low": low, f"win_rate_{key}_high": high}
            found |= {f"score_{key}": match.score_left_mean, f"score_against_{key}": match.score_right_mean}
        return found
