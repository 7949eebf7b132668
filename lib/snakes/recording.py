"""One game of two players of any kind, recorded step by step."""

import torch

from lib.seeds import derive
from lib.snakes.game import SnakesVec
from lib.snakes.match import CERTAIN
from lib.snakes.players import NetworkPlayer, Player, SubmissionPlayer, own_generators, seed_generators
from lib.snakes.replay import Replay, record
from lib.snakes.rules import TEAM


def record_game(left: Player, right: Player, *, seed: int, number: int = 0) -> Replay:
    """Game `number` of `seed` as `match.play_match` plays it with the left player on the left, on the CPU.

    Raises UserError when a submission fails.
    """
    players = (left.to("cpu"), right.to("cpu"))
    with own_generators():
        if any(isinstance(player, SubmissionPlayer) for player in players):
            seed_generators(seed, number)
        table = Seats(players, seed, number)
        return record(table.game, table.choose, names=(left.name, right.name), seed=seed)


class Seats:
    """The two players at one game. A network whose features differ from the game's sees a copy of it."""

    def __init__(self, players: tuple[Player, Player], seed: int, number: int):
        self.players = players
        layouts = list(dict.fromkeys(player.features for player in players if player.features is not None)) or ["none"]
        self.copies = {layout: _one_game(seed, number, layout) for layout in layouts}
        self.game = self.copies[layouts[0]]
        self.game.set_controllers(*(torch.tensor([player.controller], dtype=torch.int32) for player in players))
        self.submissions = {
            team: player.start(number) for team, player in enumerate(players) if isinstance(player, SubmissionPlayer)
        }

    @torch.no_grad()
    def choose(self, game: SnakesVec) -> None:
        """Write the actions of the teams that the kernel does not play itself."""
        networks = {team: player for team, player in enumerate(self.players) if isinstance(player, NetworkPlayer)}
        state = game.snapshot(0) if self.submissions or len(self.copies) > 1 else None
        if networks:
            drawn = any(player.sample for player in networks.values())
            logits = torch.zeros(1, 2, TEAM, 4)
            for team, player in networks.items():
                seen = self.copies[player.features]
                if seen is not game:
                    seen.inject(0, state)
                    seen.refresh()
                values = player.logits(seen.features[:, team])
                if drawn and not player.sample:
                    # One call draws for both teams: what is certain stays the most likely move.
                    values = CERTAIN * torch.nn.functional.one_hot(values.argmax(-1), 4).to(values.dtype)
                logits[:, team] = values
            game.choose(logits, sample=drawn)
        for team, submission in self.submissions.items():
            for snake in range(team * TEAM, (team + 1) * TEAM):
                game.actions[0, snake] = submission.act(state, snake)


def _one_game(seed: int, number: int, layout: str) -> SnakesVec:
    return SnakesVec(
        1,
        seed=derive(seed, "match"),
        first_game=number,
        features=layout,
        observe="both",
        autoreset=False,
        left="external",
        right="external",
    )
