"""Packing: from blueprints to backbone coordinates of chains and of entries of two chains. Angstrom and radians."""

from dataclasses import dataclass

import numpy as np

from lib.protein.synthetic_blueprint import (
    FACE_LEVER,
    HELIX,
    LONGEST_CHAIN,
    LOOP_LENGTHS,
    RISE,
    SHORTEST_CHAIN,
    STRAND,
    Blueprint,
    draw_blueprint,
)
from lib.protein.synthetic_geometry import (
    BASIN_INDEX,
    CANDIDATES,
    JOINTS,
    LIBRARY_LOOPS,
    LOCAL_CA,
    LOCAL_CB,
    LOOP_BASINS,
    LOOP_WEIGHTS,
    OMEGA_SPREAD,
    Loops,
    backbone,
    chain_frames,
    close_loops,
    draw_torsions,
    loop_frames,
    open_loops,
)

LONGEST_ELEMENT, LONGEST_TAIL = 22, 4
CA_CONTACT, CB_CONTACT = 4.2, 3.7  # angstrom; nearer than this costs in the choice of a loop
CA_CLASH = 3.8  # angstrom; no CA pair with |i - j| > 2 may be nearer
CLASH_WEIGHT = 4.0  # of the squared overlap (A^2) against the squared miss of the target (A^2)
ATTEMPTS = 12
ENOUGH = 0.4  # share of its blueprint that a chain must reach
CLASH_COST = 30.0  # for each pair of CA atoms nearer than CA_CLASH
BAD_COST = 12.0  # angstrom^2; if nothing costs less, the chain ends before this element
GOOD_COST = 0.7  # angstrom^2; a loop that costs more is tried again one residue longer
LONGER_LOOPS = 4
TAIL_CANDIDATES = 32
JOINING_PSI, JOINING_PHI = (-40.0, 140.0), (-63.0, -85.0, -120.0)  # degrees


@dataclass(slots=True)
class Elements:
    """All elements of a batch, each in the frame of its own first residue."""

    torsions: np.ndarray  # (chains, elements, residues, 2) phi, psi
    rotations: np.ndarray  # (chains, elements, residues, 3, 3)
    origins: np.ndarray  # (chains, elements, residues, 3)
    points: np.ndarray  # (chains, elements, 4, 3) control points
    kinds: np.ndarray  # (chains, elements)
    lengths: np.ndarray  # (chains, elements); 0 where a chain has fewer elements


class Library:
    """Random loops for each (length, element before, element after), with the frames at their ends."""

    def __init__(self, rng: np.random.Generator):
        self.loops, self.ends = {}, {}
        for length in range(2, JOINTS):
            for before in (HELIX, STRAND):
                for after in (HELIX, STRAND):
                    loops = open_loops(rng, LIBRARY_LOOPS, length, before, after)
                    rotations, origins, _, _ = loop_frames(loops)
                    self.loops[length, before, after] = loops
                    self.ends[length, before, after] = (
                        rotations[:, -1].reshape(-1, 3).astype(np.float32),
                        origins[:, -1].astype(np.float32),
                    )

    def best(self, key: tuple[int, int, int], points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The CANDIDATES loops whose ends bring `points` (n, 4, 3) nearest to `targets` (n, 4, 3).  # (n, CANDIDATES)"""
        rotations, origins = self.ends[key]
        points, targets = points.astype(np.float32), targets.astype(np.float32)
        energy = np.empty((len(points), len(origins)), np.float32)
        for index, (single, goal) in enumerate(zip(points, targets)):
            miss = (rotations @ single.T).reshape(len(origins), 12)  # (loops, 3 axes x 4 points)
            miss += np.repeat(origins, 4, axis=1)
            miss -= goal.T.reshape(12)
            energy[index] = np.einsum("lc,lc->l", miss, miss)
        return np.argpartition(energy, CANDIDATES, axis=1)[:, :CANDIDATES]


def _elements(rng, blueprints: list[Blueprint]) -> Elements:
    most = max(len(blueprint.kinds) for blueprint in blueprints)
    kinds, lengths = np.zeros((len(blueprints), most), int), np.zeros((len(blueprints), most), int)
    for row, blueprint in enumerate(blueprints):
        kinds[row, : len(blueprint.kinds)], lengths[row, : len(blueprint.kinds)] = blueprint.kinds, blueprint.lengths
    basins = np.where(kinds == HELIX, BASIN_INDEX["helix"], BASIN_INDEX["strand"])
    basins = np.broadcast_to(basins[..., None], (*kinds.shape, LONGEST_ELEMENT))
    torsions, _, _ = draw_torsions(rng, basins)
    flat = torsions.reshape(-1, LONGEST_ELEMENT, 2)
    rotations, origins = chain_frames(flat[..., 0], flat[..., 1], np.full(flat.shape[:2], np.pi))
    points = _local_points(rotations, origins, kinds.reshape(-1), lengths.reshape(-1))
    shape = (*kinds.shape, LONGEST_ELEMENT)
    return Elements(
        torsions,
        rotations.reshape(*shape, 3, 3),
        origins.reshape(*shape, 3),
        points.reshape(*kinds.shape, *points.shape[1:]),
        kinds,
        lengths,
    )


def _local_points(rotations, origins, kinds, lengths) -> np.ndarray:
    """Control points of built elements: means of the first and last CA atoms, their middle, and the face of a strand."""
    alpha = origins + rotations @ LOCAL_CA  # (n, residues, 3)
    index = np.arange(LONGEST_ELEMENT)
    window = np.where(kinds == HELIX, 4, 2)[:, None]
    inside = index < lengths[:, None]

    def mean(chosen):
        return (alpha * chosen[..., None]).sum(1) / np.maximum(chosen.sum(1), 1)[:, None]

    start, end = mean(inside & (index < window)), mean(inside & (index >= lengths[:, None] - window))
    outward = rotations @ (LOCAL_CB - LOCAL_CA) * (-1.0) ** index[:, None]
    outward = (outward * inside[..., None]).sum(1)
    outward -= (
        ((end - start) * outward).sum(1, keepdims=True)
        / (((end - start) ** 2).sum(1, keepdims=True) + 1e-9)
        * (end - start)
    )
    outward /= np.linalg.norm(outward, axis=1, keepdims=True) + 1e-9
    outward *= (kinds == STRAND)[:, None]
    middle = (start + end) / 2
    return np.stack([start, end, middle, middle + FACE_LEVER * outward], axis=1)


def _superpose(points: np.ndarray, targets: np.ndarray):
    """Rotation and shift that bring `points` onto `targets` in the least squares sense (Kabsch).  # (n, 4, 3) each"""
    centre, goal = points.mean(1), targets.mean(1)
    u, _, vt = np.linalg.svd((points - centre[:, None]).transpose(0, 2, 1) @ (targets - goal[:, None]))
    flip = np.ones((len(points), 3))
    flip[:, 2] = np.linalg.det(u @ vt)
    rotation = (u * flip[:, None]) @ vt
    rotation = rotation.transpose(0, 2, 1)
    return rotation, goal - (rotation @ centre[..., None])[..., 0]


class _Batch:
    """Chains under construction, sorted by their number of elements so that the active ones come first."""

    def __init__(self, blueprints: list[Blueprint]):
        self.blueprints = blueprints
        count, longest = len(blueprints), LONGEST_CHAIN  # loops may grow
        self.torsions = np.zeros((count, longest, 3))  # phi, psi, omega
        self.torsions[..., 2] = np.pi
        self.alpha = np.full((count, longest, 3), 1e3, np.float32)  # far away until placed
        self.beta = np.full((count, longest, 3), 1e3, np.float32)
        self.position = np.array([blueprint.loops[0] for blueprint in blueprints])  # residue that comes next
        self.rotation, self.origin = np.zeros((count, 3, 3)), np.zeros((count, 3))  # frame of the last placed residue
        self.first_rotation, self.first_origin = self.rotation, self.origin  # frame of the first element
        self.planned = [
            np.cumsum(blueprint.loops[:-1] + np.append(0, blueprint.lengths[:-1])) for blueprint in blueprints
        ]
        for row, blueprint in enumerate(blueprints):
            for start, kind, length, points in zip(
                self.planned[row], blueprint.kinds, blueprint.lengths, blueprint.targets
            ):
                self.alpha[row, start : start + length] = ideal_alpha(kind, length, points)

    def forget_plan(self, row: int, step: int):
        """Remove the stand-in atoms of an element that is about to be placed."""
        start = max(self.planned[row][step], self.position[row])
        self.alpha[row, start : self.planned[row][step] + self.blueprints[row].lengths[step]] = 1e3

    def place(self, rows, first, rotations, origins, lengths):
        """Put residues `first`.. of chains `rows`, given by world frames (n, residues, 3, 3) and (n, residues, 3)."""
        alpha, beta = origins + rotations @ LOCAL_CA, origins + rotations @ LOCAL_CB
        keep = np.arange(alpha.shape[1]) < lengths[:, None]
        where = (np.broadcast_to(rows[:, None], keep.shape)[keep], (first[:, None] + np.arange(keep.shape[1]))[keep])
        self.alpha[where], self.beta[where] = alpha[keep], beta[keep]

    def overlap(self, rows, first, rotations, origins, inside):
        """Cost of the overlap of candidates (n, k, residues) with what is placed already.  # (n, k) angstrom^2"""
        cost = np.zeros(rotations.shape[:2])
        index = np.arange(self.alpha.shape[1])
        for low in range(0, len(rows), 16):
            part = slice(low, low + 16)
            near = np.abs(first[part, None, None] + np.arange(rotations.shape[2])[:, None] - index) <= 2
            for local, placed, contact in ((LOCAL_CA, self.alpha, CA_CONTACT), (LOCAL_CB, self.beta, CB_CONTACT)):
                new = (origins[part] + rotations[part] @ local).astype(np.float32)
                pairs = overlap_cost(new, placed[rows[part]][:, None], contact, near[:, None])
                cost[part] += (pairs * inside[part]).sum(-1)
        return cost


def overlap_cost(new: np.ndarray, old: np.ndarray, contact: float, near: np.ndarray) -> np.ndarray:
    """Cost of each of the points `new` (..., p, 3) against `old` (..., q, 3), pairs marked `near` aside.  # (..., p)"""
    square = new @ (-2 * old.swapaxes(-1, -2))
    square += (new**2).sum(-1)[..., None]
    square += (old**2).sum(-1)[..., None, :]
    *where, other = np.nonzero((square < contact**2) & ~near)
    short = contact - np.sqrt(np.maximum(square[(*where, other)], 0.0))
    cost = short**2
    if contact > CA_CLASH:
        cost += CLASH_COST * (short > contact - CA_CLASH)
    shape = square.shape[:-1]
    return np.bincount(np.ravel_multi_index(where, shape), cost, int(np.prod(shape))).reshape(shape)


def ideal_alpha(kind: int, length: int, points: np.ndarray) -> np.ndarray:
    """Stand-in CA atoms of an element that is not placed yet, so that earlier loops keep out of its way."""
    axis = points[1] - points[0]
    axis /= np.linalg.norm(axis)
    along = (np.arange(length) - (length - 1) / 2)[:, None] * RISE[kind] * axis
    side = np.cross(axis, [1.0, 0.3, 0.2])
    side /= np.linalg.norm(side)
    turn = np.deg2rad(100.0) * np.arange(length)[:, None]
    radius = 2.3 if kind == HELIX else 0.0
    return points[2] + along + radius * (np.cos(turn) * side + np.sin(turn) * np.cross(axis, side))


def _place_first(batch: _Batch, elements: Elements):
    rows = np.arange(len(batch.blueprints))
    targets = np.array([blueprint.targets[0] for blueprint in batch.blueprints])
    turn, shift = _superpose(elements.points[:, 0], targets)
    batch.first_rotation, batch.first_origin = turn, shift
    _place_element(batch, elements, rows, 0, turn, shift)


def _place_element(batch: _Batch, elements: Elements, rows, step, turn, shift):
    """Place element `step` of `rows` whose first residue has the world frame (turn, shift)."""
    lengths = elements.lengths[rows, step]
    rotations = turn[:, None] @ elements.rotations[rows, step]
    origins = shift[:, None] + (turn[:, None] @ elements.origins[rows, step][..., None])[..., 0]
    batch.place(rows, batch.position[rows], rotations, origins, lengths)
    for row, length in zip(rows, lengths):
        at = batch.position[row]
        # phi of the first residue and psi of the last belong to the loops on either side
        batch.torsions[row, at + 1 : at + length, 0] = elements.torsions[row, step, 1:length, 0]
        batch.torsions[row, at : at + length - 1, 1] = elements.torsions[row, step, : length - 1, 1]
    last = np.arange(len(rows)), lengths - 1
    batch.rotation[rows], batch.origin[rows] = rotations[last], origins[last]
    batch.position[rows] += lengths


def _grow(batch: _Batch, elements: Elements, library: Library, step: int):
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
    for extra in range(1, LONGER_LOOPS + 1):
        longer = lengths + extra
        room = np.array([batch.blueprints[row].residues + extra <= LONGEST_CHAIN for row in rows])
        again = np.flatnonzero((best.cost > GOOD_COST) & (longer <= LOOP_LENGTHS[1]) & room)
        if len(again):
            best.improve(again, _choose(batch, elements, library, rows[again], step, longer[again]))
    placed = best.cost < BAD_COST
    for row in rows[~placed]:
        elements.lengths[row, step:] = 0
        batch.blueprints[row].cut(step)
    rows, best = rows[placed], best.take(placed)
    if not len(rows):
        return
    for row, length in zip(rows, best.lengths):
        batch.blueprints[row].loops[step] = length
    _place_loop(batch, rows, best)
    _place_element(batch, elements, rows, step, best.rotations[:, -1], best.origins[:, -1])


@dataclass(slots=True)
class Choice:
    """The loop chosen for each chain: frames at its links in the world (chains, JOINTS, ...), torsions, cost, miss."""

    lengths: np.ndarray
    loops: Loops
    rotations: np.ndarray
    origins: np.ndarray
    cost: np.ndarray  # angstrom^2
    miss: np.ndarray  # angstrom

    def take(self, chosen: np.ndarray) -> "Choice":
        """Those of the chains that `chosen` marks."""
        loops = Loops(*(getattr(self.loops, name)[chosen] for name in Loops.__slots__))
        rest = (self.lengths, self.rotations, self.origins, self.cost, self.miss)
        lengths, rotations, origins, cost, miss = (values[chosen] for values in rest)
        return Choice(lengths, loops, rotations, origins, cost, miss)

    def improve(self, at: np.ndarray, other: "Choice"):
        """Take over those of `other` (for the chains `at`) that cost less."""
        better = other.cost < self.cost[at]
        for mine, theirs in ((self, other), (self.loops, other.loops)):
            for name in mine.__slots__:
                if name != "loops":
                    getattr(mine, name)[at[better]] = getattr(theirs, name)[better]


def _choose(batch, elements, library, rows, step, loop_lengths) -> Choice:
    targets = np.array([batch.blueprints[row].targets[step] for row in rows])
    targets = (targets - batch.origin[rows, None]) @ batch.rotation[rows]  # into the frame of the last residue
    points = elements.points[rows, step]
    keys = list(
        zip(loop_lengths.tolist(), elements.kinds[rows, step - 1].tolist(), elements.kinds[rows, step].tolist())
    )
    loops = _candidates(library, keys, points, targets)
    miss = close_loops(loops, np.repeat(points, CANDIDATES, 0), np.repeat(targets, CANDIDATES, 0))
    miss = miss.reshape(len(rows), CANDIDATES)
    rotations, origins, _, _ = loop_frames(loops)
    shape = (len(rows), CANDIDATES, JOINTS)
    world, shift = batch.rotation[rows][:, None, None], batch.origin[rows][:, None, None]
    rotations = world @ rotations.reshape(*shape, 3, 3)
    origins = shift + (world @ origins.reshape(*shape, 3)[..., None])[..., 0]
    cost = miss**2 + CLASH_WEIGHT * _candidate_overlap(batch, elements, rows, step, loop_lengths, rotations, origins)
    best = np.argmin(cost, axis=1)
    chosen, flat = (np.arange(len(rows)), best), np.arange(len(rows)) * CANDIDATES + best
    picked = Loops(loops.torsions[flat], loops.low[flat], loops.high[flat], loops.omega[flat], loops.used[flat])
    return Choice(loop_lengths.copy(), picked, rotations[chosen], origins[chosen], cost[chosen], miss[chosen])


def _candidates(library: Library, keys, points, targets) -> Loops:
    count = len(keys) * CANDIDATES
    loops = Loops(
        *(np.zeros((count, JOINTS, 2)) for _ in range(3)), np.zeros((count, JOINTS)), np.zeros((count, JOINTS), bool)
    )
    for key in sorted(set(keys)):
        at = np.array([index for index, other in enumerate(keys) if other == key])
        chosen = library.best(key, points[at], targets[at]).reshape(-1)
        slots = (at[:, None] * CANDIDATES + np.arange(CANDIDATES)).reshape(-1)
        source = library.loops[key]
        for name in ("torsions", "low", "high", "omega", "used"):
            getattr(loops, name)[slots] = getattr(source, name)[chosen]
    return loops


def _candidate_overlap(batch, elements, rows, step, loop_lengths, rotations, origins):
    """Overlap of each candidate loop and the element behind it.  # (n, CANDIDATES)"""
    first = batch.position[rows]
    inside = np.broadcast_to((np.arange(JOINTS) < loop_lengths[:, None])[:, None], rotations.shape[:3])
    cost = batch.overlap(rows, first, rotations, origins, inside)
    turn, shift = rotations[:, :, -1], origins[:, :, -1]
    element_rotations = turn[:, :, None] @ elements.rotations[rows, step][:, None]
    element_origins = shift[:, :, None] + (turn[:, :, None] @ elements.origins[rows, step][:, None, ..., None])[..., 0]
    cost = cost + _own_overlap(
        rotations, origins, element_rotations, element_origins, loop_lengths, elements.lengths[rows, step]
    )
    inside = np.arange(LONGEST_ELEMENT) < elements.lengths[rows, step][:, None]
    inside = np.broadcast_to(inside[:, None], element_rotations.shape[:3])
    return cost + batch.overlap(rows, first + loop_lengths, element_rotations, element_origins, inside)


def _own_overlap(rotations, origins, element_rotations, element_origins, loop_lengths, lengths):
    """Overlap of each candidate loop with itself and with the element behind it.  # (n, CANDIDATES)"""
    index = np.concatenate([np.arange(JOINTS), np.arange(LONGEST_ELEMENT)])
    of_loop = np.arange(len(index)) < JOINTS
    position = np.where(of_loop, index, loop_lengths[:, None] + index)  # (n, loop and element), along the chain
    real = np.where(of_loop, index < loop_lengths[:, None], index < lengths[:, None])
    near = (position[:, None] - position[:, :JOINTS, None] <= 2) | ~real[:, None] | ~real[:, :JOINTS, None]
    cost = 0.0
    for local, contact in ((LOCAL_CA, CA_CONTACT), (LOCAL_CB, CB_CONTACT)):
        loop, element = origins + rotations @ local, element_origins + element_rotations @ local
        points = np.concatenate([loop, element], axis=2).astype(np.float32)
        cost = cost + overlap_cost(points[:, :, :JOINTS], points, contact, near[:, None]).sum(-1)
    return cost


def _place_loop(batch: _Batch, rows, best: Choice):
    batch.place(rows, batch.position[rows], best.rotations, best.origins, best.lengths)
    for index, (row, length) in enumerate(zip(rows, best.lengths)):
        at, loops = batch.position[row], best.loops
        batch.torsions[row, at : at + length + 1, 0] = loops.torsions[index, : length + 1, 1]
        batch.torsions[row, at - 1 : at + length, 1] = loops.torsions[index, : length + 1, 0]
        batch.torsions[row, at : at + length + 1, 2] = loops.omega[index, : length + 1]
    batch.position[rows] += best.lengths


def _place_tails(rng, batch: _Batch):
    """Free ends: the least overlapping of TAIL_CANDIDATES random ones, first the C-terminal, then the N-terminal."""
    rows = np.arange(len(batch.blueprints))
    for row, position in enumerate(batch.position):
        batch.alpha[row, position:] = 1e3
    shape = (len(rows), TAIL_CANDIDATES, LONGEST_TAIL + 1)
    index = np.arange(LONGEST_TAIL + 1)
    for at_end in (True, False):
        lengths = np.array([blueprint.loops[-1 if at_end else 0] for blueprint in batch.blueprints])
        basins = rng.choice([BASIN_INDEX[name] for name in LOOP_BASINS], size=shape, p=LOOP_WEIGHTS)
        torsions, _, _ = draw_torsions(rng, basins)
        # The torsion that joins tail and element may leave the element's basin, or the first residue has one place only.
        joint = (0, 1) if at_end else (LONGEST_TAIL, 0)
        choices = np.deg2rad(JOINING_PSI if at_end else JOINING_PHI)
        torsions[..., joint[0], joint[1]] = rng.choice(choices, size=shape[:2]) + rng.normal(0.0, 0.12, shape[:2])
        omega = np.pi + rng.normal(0.0, OMEGA_SPREAD, shape)
        flat = (x.reshape(-1, LONGEST_TAIL + 1) for x in (torsions[..., 0], torsions[..., 1], omega))
        rotations, origins = chain_frames(*flat)
        rotations, origins = rotations.reshape(*shape, 3, 3), origins.reshape(*shape, 3)
        if at_end:
            world, shift, first = batch.rotation, batch.origin, batch.position - 1
            inside = (index > 0) & (index <= lengths[:, None])
        else:
            world, shift, first = batch.first_rotation, batch.first_origin, lengths - LONGEST_TAIL
            inside = (index >= LONGEST_TAIL - lengths[:, None]) & (index < LONGEST_TAIL)
            back = rotations[..., -1, :, :].swapaxes(-1, -2)[:, :, None]
            origins = (back @ (origins - origins[..., -1:, :])[..., None])[..., 0]
            rotations = back @ rotations
        rotations = world[:, None, None] @ rotations
        origins = shift[:, None, None] + (world[:, None, None] @ origins[..., None])[..., 0]
        cost = batch.overlap(rows, first, rotations, origins, np.broadcast_to(inside[:, None], shape))
        best = np.argmin(cost, axis=1)
        _store_tail(batch, at_end, lengths, [x[rows, best] for x in (torsions, omega, rotations, origins)])


def _store_tail(batch, at_end, lengths, chosen):
    torsions, omega, rotations, origins = chosen
    for row, length in enumerate(lengths):
        # residues of the tail and of the element's end that it joins, in the chain and in the candidate
        at = batch.position[row] - 1 if at_end else 0
        start = 0 if at_end else LONGEST_TAIL - length
        batch.torsions[row, at : at + length, 1] = torsions[row, start : start + length, 1]
        batch.torsions[row, at + 1 : at + length + 1, 0] = torsions[row, start + 1 : start + length + 1, 0]
        batch.torsions[row, at + 1 : at + length + 1, 2] = omega[row, start + 1 : start + length + 1]
        where = slice(at + 1, at + length + 1) if at_end else slice(0, length)
        part = slice(1, length + 1) if at_end else slice(start, start + length)
        batch.alpha[row, where] = origins[row, part] + rotations[row, part] @ LOCAL_CA
        batch.beta[row, where] = origins[row, part] + rotations[row, part] @ LOCAL_CB


def _pack_once(rng, blueprints: list[Blueprint], library: Library) -> list[np.ndarray]:
    """One attempt for every blueprint: N, CA, C, O of each chain (residues, 4, 3)."""
    order = sorted(range(len(blueprints)), key=lambda row: (-len(blueprints[row].kinds), row))
    batch = _Batch([blueprints[row] for row in order])
    elements = _elements(rng, batch.blueprints)
    _place_first(batch, elements)
    for step in range(1, elements.lengths.shape[1]):
        _grow(batch, elements, library, step)
    _place_tails(rng, batch)
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
    for _ in range(ATTEMPTS):
        rows = np.flatnonzero(scores < 1.0)
        if not len(rows):
            break
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
