"""The kernel and the original game of a checkout side by side, the reference between them only for counting events."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from reference import OPPOSITE, SNAKES, TEAM, Game, new_game, step
from reference_boards import crowded_game
from reference_bots import greedy
from reference_lockstep import KEPT_MESSAGES, to_state
from reference_noise import Noise
from reference_peer import Peer

from lib.snakes import SnakesVec


class PeerMatch:
    """`num_games` games of SnakesVec, each beside an original; beans and reversals of the kernel are handed in there.

    A game that ends is put back as a new one in both. `differences` counts, `messages` keeps the first ones.
    """

    def __init__(self, folder: Path, *, num_games: int, seed: int):
        self.seed, self.count = seed, num_games
        self.peer = Peer(folder)
        self.peers = [self.peer] + [Peer(folder) for _ in range(num_games - 1)]
        self.vec = SnakesVec(
            num_games, seed=seed, features="jidi26", observe="both", left="external", right="external", autoreset=False
        )
        self.vec.reset()
        self.greedy_vec = SnakesVec(num_games, seed=seed, features="none", left="greedy", right="greedy")
        self.greedy_vec.reset()
        self.noises = [Noise(seed, slot) for slot in range(num_games)]
        self.games: list[Game] = [new_game(noise) for noise in self.noises]
        self.past_events: Counter = Counter()
        self.differences = self.steps = self.scripts_compared = 0
        self.messages: list[str] = []
        for slot, game in enumerate(self.games):
            self._put(slot, game)

    @property
    def events(self) -> Counter:
        """What all games have met so far."""
        return sum((game.events for game in self.games), self.past_events)

    def new_boards(self, rng: random.Random, *, crowded: bool, fill: int | None = None) -> None:
        """A new position in every game."""
        for slot in range(self.count):
            self._put(slot, self._new_board(rng, crowded, fill))

    def _new_board(self, rng: random.Random, crowded: bool, fill: int | None) -> Game:
        if crowded:
            return crowded_game(rng, fill or rng.choice((60, 120, 160, 190, 195)))
        return new_game(Noise(rng.randrange(2**32), 0))

    def _put(self, slot: int, game: Game) -> None:
        self.past_events += self.games[slot].events if self.games[slot] is not game else Counter()
        self.games[slot] = game
        self.vec.inject(slot, to_state(game))
        self.peers[slot].set(game)

    def forward_actions(self, rng: np.random.Generator) -> np.ndarray:
        """Random actions of which none is the reverse of its snake's direction."""
        directions = np.array([game.directions for game in self.games])
        turned = np.array(OPPOSITE)[directions]
        actions = rng.integers(0, 3, size=(self.count, SNAKES))
        return (actions + (actions >= turned)).astype(np.int32)

    def greedy_actions(self) -> np.ndarray:
        """Both teams by the greedy rule."""
        return np.array([greedy(game, 0) + greedy(game, 1) for game in self.games], dtype=np.int32)

    def step(self, actions: np.ndarray) -> None:
        """One step of all games, compared in rewards, deaths, scores, end, bodies, beans, directions."""
        self.vec.step(torch.from_numpy(actions))
        for slot, game in enumerate(self.games):
            moves, noise = list(map(int, actions[slot])), self.noises[slot]
            drawn = {
                snake: [move for move in range(4) if move != moves[snake]][noise.reversal(game.step_count, snake)]
                for snake in range(SNAKES)
                if moves[snake] == OPPOSITE[game.directions[snake]]
            }
            result = step(game, moves, noise)
            game.events["game_over"] += result.done
            game.events["early_end"] += result.done and game.step_count < game.episode_steps
            snapshot = self.vec.snapshot(slot)
            theirs = self.peers[slot].step(moves, drawn, snapshot.beans)
            ours = {name: getattr(self.vec, name)[slot].tolist() for name in ("rewards", "deaths", "scores", "done")}
            self._compare(slot, "results", {name: ours[name] for name in theirs}, theirs)
            position = (snapshot.snakes, snapshot.beans, snapshot.directions)
            self._compare(slot, "position", position, self.peers[slot].position())
            self._compare(slot, "number or order of beans", self.peers[slot].bean_differences, 0)
            if result.done:
                self._put(slot, new_game(Noise(self.seed + 1 + self.steps, slot)))
        self.steps += 1

    def compare_scripts(self) -> None:
        """What the kernel's greedy team would do now, and its 26 numbers, against the original's functions."""
        self.vec.refresh()
        for slot, game in enumerate(self.games):
            self.greedy_vec.inject(slot, to_state(game))
        self.greedy_vec.step()
        for slot, game in enumerate(self.games):
            for team in range(2):
                own = slice(team * TEAM, team * TEAM + TEAM)
                self._compare(
                    slot, "greedy", self.greedy_vec.actions[slot, own].tolist(), self.peers[slot].greedy(team)
                )
                if len(game.beans) == 5:
                    features = self.peers[slot].features(team).tolist()
                    self._compare(slot, "features", self.vec.features[slot, team].tolist(), features)
                self.scripts_compared += 1

    def _compare(self, slot: int, name: str, found, expected) -> None:
        if found != expected:
            self.differences += 1
            if len(self.messages) < KEPT_MESSAGES:
                self.messages.append(f"step {self.steps}, game {slot}, {name}: {found} instead of {expected}")
