"""Packing: from blueprints to backbone coordinates of chains. Angstrom and radians.

A chain grows element by element. Each loop is chosen from a library so that the next element lands on its target,
refined by damped least squares with every torsion inside its basin, and judged by what it overlaps. Where no loop
will do, a longer one is tried; where none does, the chain ends.
"""

from dataclasses import dataclass

import numpy as np

from lib.protein.synthetic_blueprint import LONGEST_CHAIN, LOOP_LENGTHS, SHORTEST_CHAIN, Blueprint, draw_blueprint
from lib.protein.synthetic_elements import LONGEST_ELEMENT, Elements, Library, build_elements, ideal_alpha, superpose
from lib.protein.synthetic_geometry import (
    CONTACTS,
    JOINTS,
    Loops,
    backbone,
    beads,
    close_loops,
    loop_frames,
)
from lib.protein.synthetic_tails import place_tails

CANDIDATES = 4  # loops of the library that are refined for each step
CA_CLASH = 3.83  # angstrom; no CA pair with |i - j| > 2 may be nearer: 3.8, and room for rounding
CLASH_WEIGHT = 4.0  # of the squared overlap (A^2) against the squared miss of the target (A^2)
CLASH_COST = 30.0  # for each pair of CA atoms nearer than CA_CLASH
BAD_COST = 14.0  # angstrom^2; if nothing costs less, the chain ends before this element
GOOD_COST = 2.0  # angstrom^2; a loop that costs more is tried again one residue longer
LONGER_LOOPS = 4
ATTEMPTS = 8  # rounds of tries
TOGETHER, MOST_COPIES = 64, 8  # tries in a later round, if there are few chains left, and of one chain at most
ENOUGH = 0.4  # share of its blueprint that a chain must reach
FAR = 1e3  # angstrom; where beads lie that are not placed


class Batch:
    """Chains under construction, sorted by their number of elements so that the active ones come first."""

    def __init__(self, blueprints: list[Blueprint]):
        self.blueprints = blueprints
        shape = (len(blueprints), LONGEST_CHAIN, 3)
        self.torsions = np.zeros(shape)  # phi, psi, omega
        self.torsions[..., 2] = np.pi
        self.beads = np.full((3, *shape), FAR, np.float32)  # CA, CB, O
        self.position = np.array([blueprint.loops[0] for blueprint in blueprints])  # residue that comes next
        self.rotation, self.origin = np.zeros((shape[0], 3, 3)), np.zeros((shape[0], 3))  # of the last placed residue
        self.first_rotation, self.first_origin = self.rotation, self.origin  # of the first element
        self.planned = []  # first residue of each element, had the loops their first lengths
        for row, blueprint in enumerate(blueprints):
            starts = np.cumsum(blueprint.loops[:-1] + np.append(0, blueprint.lengths[:-1]))
            self.planned.append(starts)
            for start, *element in zip(starts, blueprint.kinds, blueprint.lengths, blueprint.targets):
                self.beads[0, row, start : start + element[1]] = ideal_alpha(*element)

    def forget_plan(self, row: int, step: int):
        """Remove the stand-in atoms of an element that is about to be placed."""
        start = self.planned[row][step]
        self.beads[0, row, max(start, self.position[row]) : start + self.blueprints[row].lengths[step]] = FAR

    def place(self, rows: np.ndarray, first: np.ndarray, points: np.ndarray, lengths: np.ndarray):
        """Put `lengths` residues from `first` on of chains `rows`, as beads (3, n, residues, 3)."""
        keep = np.arange(points.shape[2]) < lengths[:, None]
        row, residue = np.nonzero(keep)
        self.beads[:, rows[row], first[row] + residue] = points[:, keep]

    def overlap(self, rows: np.ndarray, first: np.ndarray, points: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """Cost of the overlap of candidates with what is placed already.  # (n, k) angstrom^2

        points (3, n, k, residues, 3) are residues `first`.. of chains `rows`; inside (n, residues) marks real ones.
        """
        cost = np.zeros(points.shape[1:3])
        index = np.arange(self.beads.shape[2])
        for low in range(0, len(rows), 16):  # few enough to stay in the processor's cache
            part = slice(low, low + 16)
            aside = np.abs(first[part, None, None] + np.arange(points.shape[3])[:, None] - index) <= 2
            aside |= ~inside[part, :, None]
            for new, placed, contact in zip(points, self.beads, CONTACTS):
                cost[part] += overlap_cost(new[part], placed[rows[part]][:, None], contact, aside[:, None])
        return cost


def overlap_cost(new: np.ndarray, old: np.ndarray, contact: float, aside: np.ndarray) -> np.ndarray:
    """Cost of points `new` (n, k, p, 3) against `old` (n, 1 or k, q, 3), but for pairs `aside` (n, 1, p, q)."""
    square = new @ (-2 * old.swapaxes(-1, -2))
    square += np.einsum("...i,...i->...", new, new)[..., None]
    square += np.einsum("...i,...i->...", old, old)[..., None, :]
    found = np.flatnonzero(square < contact**2)  # few; the mask is looked up for these only
    n, k, p, q = np.unravel_index(found, square.shape)
    keep = ~aside[n, 0, p, q]
    short = contact - np.sqrt(np.maximum(square.reshape(-1)[found[keep]], 0.0))
    cost = short**2
    if contact > CA_CLASH:
        cost += CLASH_COST * (short > contact - CA_CLASH)
    shape = square.shape[:2]
    return np.bincount((n * shape[1] + k)[keep], cost, shape[0] * shape[1]).reshape(shape)


def place_first(batch: Batch, elements: Elements):
    """Put the first element of every chain on its target."""
    rows = np.arange(len(batch.blueprints))
    targets = np.array([blueprint.targets[0] for blueprint in batch.blueprints])
    batch.first_rotation, batch.first_origin = superpose(elements.points[:, 0], targets)
    _place_element(batch, elements, rows, 0, batch.first_rotation, batch.first_origin)


def _place_element(batch: Batch, elements: Elements, rows, step, turn, shift):
    """Place element `step` of `rows` whose first residue has the world frame (turn, shift)."""
    lengths = elements.lengths[rows, step]
    points = _moved(elements.beads[:, rows, step], turn, shift)
    batch.place(rows, batch.position[rows], points, lengths)
    for row, length in zip(rows, lengths):
        at = batch.position[row]
        # phi of the first residue and psi of the last belong to the loops on either side
        batch.torsions[row, at + 1 : at + length, 0] = elements.torsions[row, step, 1:length, 0]
        batch.torsions[row, at : at + length - 1, 1] = elements.torsions[row, step, : length - 1, 1]
    batch.rotation[rows] = turn @ elements.rotations[rows, step, lengths - 1]
    batch.origin[rows] = shift + (turn @ elements.origins[rows, step, lengths - 1][..., None])[..., 0]
    batch.position[rows] += lengths


def _moved(points: np.ndarray, turn: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Beads (3, ..., residues, 3) in the frames (turn, shift)."""
    return (points @ turn.swapaxes(-1, -2) + shift[..., None, :]).astype(np.float32)


@dataclass(slots=True)
class Choice:
    """The loop chosen for each chain."""

    lengths: np.ndarray  # (chains,) residues
    loops: Loops
    points: np.ndarray  # (chains, 3, JOINTS, 3) beads in the world
    rotation: np.ndarray  # (chains, 3, 3) frame of the first residue of the next element
    origin: np.ndarray  # (chains, 3)
    cost: np.ndarray  # (chains,) angstrom^2

    def take(self, chosen: np.ndarray) -> "Choice":
        """Those of the chains that `chosen` marks."""
        return Choice(*(v.take(chosen) if isinstance(v, Loops) else v[chosen] for v in self._values()))

    def improve(self, at: np.ndarray, other: "Choice"):
        """Take over those of `other` (for the chains `at`) that cost less."""
        better = other.cost < self.cost[at]
        for name in Loops.__slots__:
            getattr(self.loops, name)[at[better]] = getattr(other.loops, name)[better]
        for mine, theirs in zip(self._values(), other._values()):
            if not isinstance(mine, Loops):
                mine[at[better]] = theirs[better]

    def _values(self) -> list:
        return [getattr(self, name) for name in self.__slots__]


def grow(batch: Batch, elements: Elements, library: Library, step: int):
    """Choose the loop before element `step` of every chain that has one, and place both.

    A loop that misses or overlaps is tried again one residue longer, a few times, while the chain has room.
    """
    rows = np.flatnonzero(elements.lengths[:, step] > 0)
    if not len(rows):
        return
    lengths = np.array([batch.blueprints[row].loops[step] for row in rows])
    for row in rows:
        batch.forget_plan(row, step)
    best = _choose(batch, elements, library, rows, step, lengths)
    again, longer = _longer_loops(batch, rows, lengths, best.cost > GOOD_COST)
    if len(again):
        other = _choose(batch, elements, library, rows[again], step, longer)
        order = np.argsort(-other.cost, kind="stable")  # of several for one chain the cheapest comes last and stays
        best.improve(again[order], other.take(order))
    placed = best.cost < BAD_COST
    for row in rows[~placed]:
        elements.lengths[row, step:] = 0
        batch.blueprints[row].cut(step)
    rows, best = rows[placed], best.take(placed)
    if len(rows):
        _place_loop(batch, rows, step, best)
        _place_element(batch, elements, rows, step, best.rotation, best.origin)


def _longer_loops(batch: Batch, rows, lengths, wanted):
    """Index into `rows` and loop length of all second tries: 1 to LONGER_LOOPS residues more, while there is room."""
    longer = lengths[:, None] + np.arange(1, LONGER_LOOPS + 1)
    total = np.array([batch.blueprints[row].residues for row in rows])[:, None] + np.arange(1, LONGER_LOOPS + 1)
    again, extra = np.nonzero(wanted[:, None] & (longer <= LOOP_LENGTHS[1]) & (total <= LONGEST_CHAIN))
    return again, longer[again, extra]


def _choose(batch: Batch, elements: Elements, library: Library, rows, step, loop_lengths) -> Choice:
    """The cheapest of CANDIDATES loops of the given lengths for each chain."""
    targets = np.array([batch.blueprints[row].targets[step] for row in rows])
    targets = (targets - batch.origin[rows, None]) @ batch.rotation[rows]  # into the frame of the last residue
    points = elements.points[rows, step]
    loops = _candidates(
        library, (loop_lengths, elements.kinds[rows, step - 1], elements.kinds[rows, step]), points, targets
    )
    miss = close_loops(loops, np.repeat(points, CANDIDATES, 0), np.repeat(targets, CANDIDATES, 0))
    rotations, origins, _, _ = loop_frames(loops)
    shape = (len(rows), CANDIDATES, JOINTS)
    world, shift = batch.rotation[rows][:, None, None], batch.origin[rows][:, None, None]
    rotations = world @ rotations.reshape(*shape, 3, 3)
    origins = shift + (world @ origins.reshape(*shape, 3)[..., None])[..., 0]
    psi = np.roll(loops.torsions[..., 0], -1, axis=1).reshape(shape)  # of the residue behind each link
    loop_points = beads(rotations, origins, psi)
    ends = rotations[:, :, -1], origins[:, :, -1]
    element_points = _moved(elements.beads[:, rows, step][:, :, None], *ends)
    lengths = elements.lengths[rows, step]
    first = batch.position[rows]
    cost = batch.overlap(rows, first, loop_points, np.arange(JOINTS) < loop_lengths[:, None])
    inside = np.arange(LONGEST_ELEMENT) < lengths[:, None]
    cost += batch.overlap(rows, first + loop_lengths, element_points, inside)
    cost += _own_overlap(loop_points, element_points, loop_lengths, lengths)
    cost = miss.reshape(shape[:2]) ** 2 + CLASH_WEIGHT * cost
    pick = np.arange(len(rows)), np.argmin(cost, axis=1)
    chosen_loops = loops.take(pick[0] * CANDIDATES + pick[1])
    chosen_points = np.ascontiguousarray(loop_points[:, *pick].swapaxes(0, 1))
    return Choice(loop_lengths.copy(), chosen_loops, chosen_points, ends[0][pick], ends[1][pick], cost[pick])


def _candidates(library: Library, keys: tuple[np.ndarray, ...], points: np.ndarray, targets: np.ndarray) -> Loops:
    """CANDIDATES loops for each chain, by its key (loop length, element before, element after)."""
    keys = list(zip(*(key.tolist() for key in keys)))
    parts, order = [], []
    for key in sorted(set(keys)):
        at = np.array([index for index, other in enumerate(keys) if other == key])
        best = library.best(key, points[at], targets[at], CANDIDATES)
        parts.append(library.get(key)[0].take(best.reshape(-1)))
        order.append((at[:, None] * CANDIDATES + np.arange(CANDIDATES)).reshape(-1))
    back = np.argsort(np.concatenate(order))
    return Loops(*(np.concatenate([getattr(part, name) for part in parts])[back] for name in Loops.__slots__))


def _own_overlap(loop: np.ndarray, element: np.ndarray, loop_lengths, lengths) -> np.ndarray:
    """Overlap of candidate loops with themselves and the element behind them, beads (3, n, k, residues, 3)."""
    index = np.concatenate([np.arange(JOINTS), np.arange(LONGEST_ELEMENT)])
    of_loop = np.arange(len(index)) < JOINTS
    position = np.where(of_loop, index, loop_lengths[:, None] + index)  # (n, loop and element), along the chain
    real = np.where(of_loop, index < loop_lengths[:, None], index < lengths[:, None])
    aside = (position[:, None] - position[:, :JOINTS, None] <= 2) | ~real[:, None] | ~real[:, :JOINTS, None]
    both = np.concatenate([loop, element], axis=3)
    return sum(overlap_cost(new, old, contact, aside[:, None]) for new, old, contact in zip(loop, both, CONTACTS))


def _place_loop(batch: Batch, rows, step: int, best: Choice):
    batch.place(rows, batch.position[rows], best.points.swapaxes(0, 1), best.lengths)
    for index, (row, length) in enumerate(zip(rows, best.lengths)):
        at, loops = batch.position[row], best.loops
        batch.torsions[row, at : at + length + 1, 0] = loops.torsions[index, : length + 1, 1]
        batch.torsions[row, at - 1 : at + length, 1] = loops.torsions[index, : length + 1, 0]
        batch.torsions[row, at : at + length + 1, 2] = loops.omega[index, : length + 1]
        batch.blueprints[row].loops[step] = length
    batch.position[rows] += best.lengths


def _pack_once(rng, blueprints: list[Blueprint], library: Library) -> list[np.ndarray]:
    """One attempt for every blueprint: N, CA, C, O of each chain (residues, 4, 3)."""
    order = sorted(range(len(blueprints)), key=lambda row: (-len(blueprints[row].kinds), row))
    batch = Batch([blueprints[row] for row in order])
    elements = build_elements(rng, batch.blueprints)
    place_first(batch, elements)
    for step in range(1, elements.lengths.shape[1]):
        grow(batch, elements, library, step)
    place_tails(rng, batch)
    atoms = backbone(*(batch.torsions[..., angle] for angle in range(3)))
    results = [None] * len(blueprints)
    for place, row in enumerate(order):
        results[row] = atoms[place, : blueprints[row].residues]
    return results


def pack(rng: np.random.Generator, topologies: list[str]) -> list[np.ndarray]:
    """Backbones of one chain per topology: N, CA, C, O (residues, 4, 3) angstrom.

    A chain that clashes, or ended too early, is drawn again from its blueprint on; after ATTEMPTS the best one stays.
    """
    library = Library(rng)
    chains, scores = [None] * len(topologies), np.full(len(topologies), -np.inf)
    for attempt in range(ATTEMPTS):
        rows = np.flatnonzero(scores < 1.0)
        if not len(rows):
            break
        if attempt:
            rows = np.repeat(rows, np.clip(TOGETHER // len(rows), 1, MOST_COPIES))  # a few cost hardly more than one
        blueprints = [draw_blueprint(rng, topologies[row]) for row in rows]
        wanted = [blueprint.residues for blueprint in blueprints]
        for row, residues, atoms in zip(rows, wanted, _pack_once(rng, blueprints, library)):
            score = min(1.0, len(atoms) / (ENOUGH * residues)) - clashes(atoms) - 100.0 * (len(atoms) < SHORTEST_CHAIN)
            if score > scores[row]:
                chains[row], scores[row] = atoms, score
    return chains


def clashes(atoms: np.ndarray) -> int:
    """Number of CA pairs with |i - j| > 2 nearer than CA_CLASH. atoms (residues, 4, 3)."""
    alpha = atoms[:, 1]
    square = ((alpha[:, None] - alpha) ** 2).sum(-1)
    return int((square[np.triu_indices(len(alpha), 3)] < CA_CLASH**2).sum())


def radius_of_gyration(alpha: np.ndarray) -> float:
    """Of CA atoms (residues, 3), angstrom."""
    return float(np.sqrt(((alpha - alpha.mean(0)) ** 2).sum(-1).mean()))
