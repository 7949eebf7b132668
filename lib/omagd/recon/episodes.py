"""Episodes of many kinds of play, from which tokens and their predictors are learnt, told apart by their numbers.

An episode is a function of its number, of who plays it, the seed, the map and its options; who plays it follows from
the mixture and the number of all episodes. Every process plays all of them itself, and a resumed run plays them again,
unless they are kept (`stored.py`).
By a hash of its number an episode is for training, validation or test: the same for every stage and number of
processes.

What an agent sees need not be kept beside what there is: `seen` is the one where the other is visible.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from lib.errors import UserError
from lib.omagd.battle.arrays import WON
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import find_map
from lib.omagd.battle.players import PLAYERS
from lib.omagd.recon.nodes import Nodes
from lib.room import check_room

MIXTURE = "random:1,nearest:1,nearest@0.3:2,focus@0.1:2,kite@0.1:1,kite@0.3:1,retreat@0.1:2"
AT_ONCE = 512
TRAIN, VALIDATION, TEST = "train", "validation", "test"
_PARTS = (TEST, VALIDATION, *[TRAIN] * 8)


@dataclass(frozen=True)
class Policy:
    """A player that takes a random action with probability `epsilon`, and its part of the episodes.

    player: one of `battle.players.PLAYERS`, or the folder of a trained team.
    """

    player: str
    epsilon: float
    share: float

    @property
    def name(self) -> str:
        return f"{self.player}@{self.epsilon:g}" if self.epsilon else self.player


def read_mixture(text: str, kept: bool = False) -> tuple[Policy, ...]:
    """`player[@epsilon]:part,...`; UserError for what is no player or no number.

    kept: the episodes have been played, and the folders of the teams that played them need not be there any more.
    """
    found = []
    for word in filter(None, text.split(",")):
        name, _, part = word.partition(":")
        player, _, epsilon = name.partition("@")
        try:
            policy = Policy(player, float(epsilon) if "@" in name else 0.0, float(part) if ":" in word else 1.0)
        except ValueError:
            policy = Policy(player, -1.0, 0.0)
        known = player in PLAYERS or kept or (player and Path(player).is_dir())
        if not known or not 0 <= policy.epsilon <= 1 or not 0 < policy.share < 1e6:
            raise UserError(
                f"--policies {word}: expected player@epsilon:part with a player of {', '.join(PLAYERS)} or the folder"
                " of a trained team, an epsilon from 0 to 1 and a part above 0, like nearest@0.3:2"
            )
        found.append(policy)
    if not found:
        raise UserError(f"--policies is empty: give player@epsilon:part, like {MIXTURE}")
    return tuple(found)


def blocks(mixture: tuple[Policy, ...], count: int) -> Iterator[tuple[Policy, int, int]]:
    """(policy, its first episode, the first one after): `count` episodes divided by the shares, in the order given."""
    total, before, first = sum(policy.share for policy in mixture), 0.0, 0
    for policy in mixture:
        before += policy.share
        end = round(count * before / total)
        if end > first:
            yield policy, first, end
        first = end


def part_of(number: int) -> str:
    """What an episode is for: eight of ten for training, one for validation, one for test."""
    word = (number * 0x9E3779B1 + 0x7F4A7C15) & 0xFFFFFFFF  # Fibonacci hashing (Knuth, TAOCP 3, 6.4)
    word = (word ^ (word >> 15)) * 0x85EBCA6B & 0xFFFFFFFF
    return _PARTS[(word ^ (word >> 13)) % len(_PARTS)]


class EpisodeSet:
    """Whole episodes, step behind step: S steps, A agents, N = U nodes or units.

    full_obs float16 [S, A, obs], visible uint8 [S, A, N], alive uint8 [S, U], actions uint8 [S, A], rewards float32
    [S]; firsts and lengths int64 [episodes], numbers int64 [episodes], won bool [episodes], policies: names by episode.
    """

    ARRAYS = ("full_obs", "visible", "alive", "actions", "rewards")

    def __init__(self, layout: Layout, arrays: dict[str, Tensor], lengths: Tensor, won: Tensor, policies: list[str]):
        self.layout, self.nodes = layout, Nodes(layout)
        for name in self.ARRAYS:
            setattr(self, name, arrays[name])
        self.lengths, self.won, self.policies = lengths, won, policies
        self.firsts = lengths.cumsum(0) - lengths
        self.numbers = torch.arange(len(lengths))

    def __len__(self) -> int:
        return len(self.lengths)

    def digest(self) -> str:
        """Of who did what: processes with another one have played other episodes."""
        parts = (self.lengths, self.actions, self.alive)
        return hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()

    def of_part(self, part: str) -> Tensor:
        """The numbers of the episodes that are for it, ascending."""
        mine = [number for number in self.numbers.tolist() if part_of(number) == part]
        return torch.tensor(mine, dtype=torch.int64)

    def steps_of(self, episodes: Tensor, firsts: Tensor | None = None) -> tuple[Tensor, tuple[int, ...]]:
        """(places of the steps, how many episodes have a first, second ... step): the longest episodes come first.

        The layout of `lib.omagd.learning.networks`: first the first steps of all, then the second ones, and so on.
        firsts: where each of these episodes begins, in arrays other than those of the set.
        """
        if not len(episodes):
            return torch.empty(0, dtype=torch.int64), ()
        order = self.lengths[episodes].argsort(descending=True, stable=True)
        firsts = self.firsts[episodes][order] if firsts is None else firsts[order]
        lengths = self.lengths[episodes][order]
        time = torch.arange(int(lengths[0])).unsqueeze(1)
        inside = time < lengths
        return (firsts + time)[inside], tuple(inside.sum(1).tolist())

    def seen(self, places: Tensor) -> Tensor:
        """What the agents saw, float32 [steps, A, obs]: the rows of what was not visible are 0."""
        rows = self.nodes.build(self.full_obs[places].float())
        return self.nodes.flatten(rows * self.visible[places].unsqueeze(-1))


def collect(
    map_name: str,
    mixture: tuple[Policy, ...],
    count: int,
    *,
    seed: int,
    teams: Mapping | None = None,
    neighbours: int = 1,
    **options,
) -> EpisodeSet:
    """Episodes 0 .. count - 1 of the mixture, played on the CPU. `options`: those of BattleVec.

    teams: of the players that are no scripts, by name; a `lib.omagd.players.NetworkPlayer` each. UserError when the
    episodes do not fit into this process's share of the memory, or when a team was trained for other sizes.
    """
    layout, limit = Layout.of(find_map(map_name)), options.get("limit") or find_map(map_name).limit
    step = layout.n_agents * (2 * layout.obs_size + layout.n_nodes + 1) + layout.n_nodes + 4
    check_room("--graph_pretrain_episodes", count, count * limit * step, "cpu", neighbours)
    parts, lengths, won, names = [], [], [], []
    for policy, first, end in blocks(mixture, count):
        for start in range(first, end, AT_ONCE):
            many = min(AT_ONCE, end - start)
            battles = BattleVec(map_name, many, seed=seed, first_battle=start, autoreset=False, **options)
            if policy.player in PLAYERS:
                act = partial(battles.script, policy.player, policy.epsilon)
            else:
                act = teams[policy.player].start(battles, policy.epsilon)
            arrays, steps = _play(battles, act)
            parts.append(arrays)
            lengths.append(steps)
            won.append(battles.info[:, WON] != 0)
            names += [policy.name] * many
    arrays = {name: torch.cat([part[name] for part in parts]) for name in EpisodeSet.ARRAYS}
    return EpisodeSet(layout, arrays, torch.cat(lengths), torch.cat(won), names)


def _play(battles: BattleVec, act: Callable[[], None]) -> tuple[dict[str, Tensor], Tensor]:
    """(arrays of all steps, episode behind episode; lengths) of battles that have just begun."""
    rows: dict[str, list[Tensor]] = {name: [] for name in EpisodeSet.ARRAYS}
    running = []
    while not bool(battles.done.all()):
        running.append(battles.done == 0)
        rows["full_obs"].append(battles.full_obs.half())
        for name in ("visible", "alive"):
            rows[name].append(getattr(battles, name).clone())
        act()
        rows["actions"].append(battles.actions.to(torch.uint8))
        battles.step(check=False)
        rows["rewards"].append(battles.rewards.clone())
    inside = torch.stack(running).T  # [battles, steps]
    return {name: torch.stack(parts).transpose(0, 1)[inside] for name, parts in rows.items()}, inside.sum(1)
