"""The kernel and the plain Python game side by side: every step of every game compared in everything it has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from reference import SNAKES, TEAM, Game, new_game, step
from reference_bots import TEAMS
from reference_features import FEATURES
from reference_noise import Noise

from lib.snakes import GameState, SnakesVec

KEPT_MESSAGES = 20


def to_state(game: Game, episode: int = 0) -> GameState:
    """A reference game as what `SnakesVec.inject` takes."""
    return GameState(
        snakes=[list(body) for body in game.snakes],
        beans=list(game.beans),
        directions=list(game.directions),
        last_directions=None if game.last_directions is None else list(game.last_directions),
        step=game.step_count,
        episode=episode,
    )


class Lockstep:
    """`num_envs` games in SnakesVec and in the reference; `differences` counts, `messages` keeps the first ones.

    teams: names of the controllers of left and right; where it is "external" the caller's actions count.
    autoreset=False: a game that has ended stays as it is, and is compared like that; inject another before going on.
    feature_every: features are compared in every such step (0: never). state_every: likewise bodies, beans, directions.
    """

    def __init__(self, num_envs, teams=("external", "external"), *, seed=0, first_game=0, features="team",
                 episode_steps=200, autoreset=True, feature_every=1, state_every=1):  # fmt: skip
        self.teams, self.seed, self.first_game, self.features = teams, seed, first_game, features
        self.episode_steps, self.feature_every, self.state_every = episode_steps, feature_every, state_every
        self.vec = SnakesVec(
            num_envs, seed=seed, first_game=first_game, features=features, observe="both", left=teams[0],
            right=teams[1], episode_steps=episode_steps, autoreset=autoreset,
        )  # fmt: skip
        self.autoreset = autoreset
        self.vec.reset()
        self.games: list[Game] = []
        self.noises: list[Noise] = []
        self.episodes = [0] * num_envs
        self.past_events: Counter = Counter()
        self.differences, self.steps, self.messages = 0, 0, []
        for slot in range(num_envs):
            self.noises.append(Noise(seed, first_game + slot, 0))
            self.games.append(new_game(self.noises[slot], episode_steps))
        self._compare_games(features=True, states=True)

    @property
    def events(self) -> Counter:
        """What all games have met so far."""
        return sum((game.events for game in self.games), self.past_events)

    def inject(self, slot: int, game: Game) -> None:
        """Put a position into both."""
        game.episode_steps = self.episode_steps
        self.past_events += self.games[slot].events
        self.games[slot] = game
        self.vec.inject(slot, to_state(game, self.episodes[slot]))

    def step(self, actions: np.ndarray) -> None:
        """One step with actions [num_envs, 6] for the external teams; the others choose themselves, on both sides."""
        chosen = np.array(actions, dtype=np.int32)
        for slot, game in enumerate(self.games):
            for team, name in enumerate(self.teams):
                if name != "external":
                    own = slice(team * TEAM, team * TEAM + TEAM)
                    chosen[slot, own] = TEAMS[name](game, team, self.noises[slot])
        self.vec.step(torch.from_numpy(np.array(actions, dtype=np.int32)))
        results = [step(game, list(map(int, row)), noise) for game, row, noise in zip(self.games, chosen, self.noises)]
        expected = {
            "actions": chosen,
            "rewards": [result.rewards for result in results],
            "deaths": [result.deaths for result in results],
            "ate": [result.ate for result in results],
            "done": [result.done for result in results],
            "scores": [game.scores for game in self.games],
        }
        for name, value in expected.items():
            self._compare(name, getattr(self.vec, name).numpy(), np.array(value))
        for slot, result in enumerate(results):
            if result.done:
                self._game_over(slot)
        self.steps += 1
        self._compare_games(
            features=bool(self.feature_every) and self.steps % self.feature_every == 0,
            states=bool(self.state_every) and self.steps % self.state_every == 0,
        )

    def _game_over(self, slot: int) -> None:
        finished = self.games[slot]
        finished.events["game_over"] += 1
        finished.events["early_end"] += finished.step_count < self.episode_steps
        self._compare("final_scores", self.vec.final_scores[slot].numpy(), np.array(finished.scores))
        if not self.autoreset:
            return
        self.past_events += finished.events
        self.episodes[slot] += 1
        self.noises[slot] = Noise(self.seed, self.first_game + slot, self.episodes[slot])
        self.games[slot] = new_game(self.noises[slot], self.episode_steps)

    def _compare_games(self, *, features: bool, states: bool) -> None:
        if states:
            for slot, game in enumerate(self.games):
                self._compare_state(slot, game)
            self._compare("step_count", self.vec.step_count.numpy(), np.array([game.step_count for game in self.games]))
            self._compare("episode", self.vec.episode.numpy(), np.array(self.episodes))
        if features:
            row = FEATURES[self.features]
            expected = [[row(game, snake) for snake in range(SNAKES)] for game in self.games]
            found = self.vec.features.numpy().reshape(len(self.games), SNAKES, -1)
            self._compare("features", found, np.array(expected, dtype=np.float32))

    def _compare_state(self, slot: int, game: Game) -> None:
        if (found := self.vec.snapshot(slot)) != (expected := to_state(game, self.episodes[slot])):
            self._report(f"state of game {slot}: {found} instead of {expected}")

    def _compare(self, name: str, found: np.ndarray, expected: np.ndarray) -> None:
        if found.shape != expected.shape or not np.array_equal(found, expected):
            places = np.argwhere(found != expected)[:5].tolist() if found.shape == expected.shape else "shape"
            self._report(f"{name} at {places}: {found.tolist()} instead of {expected.tolist()}"[:2000])

    def _report(self, message: str) -> None:
        self.differences += 1
        if len(self.messages) < KEPT_MESSAGES:
            self.messages.append(f"step {self.steps}: {message}")
