"""Backbone geometry of the synthetic chains: bond frames, a library of loops, and the packing of elements.

A chain is built in torsion space with fixed bond lengths and angles. Elements (helices, strands) are rigid; each loop is
chosen from a library of random loops so that the next element lands on its target, refined by damped least squares with
every torsion kept inside its basin, and rejected when it clashes. Angstrom and radians throughout.

Sources: bond lengths and angles of Engh & Huber 1991; placement of atoms by NeRF (Parsons et al. 2005).
"""

from dataclasses import dataclass

import numpy as np

from lib.protein.synthetic_blueprint import CONTROL_POINTS, HELIX, LOOP_LENGTHS, STRAND

N_CA, CA_C, C_N, C_O = 1.458, 1.525, 1.329, 1.231  # angstrom
ANGLE_N_CA_C, ANGLE_CA_C_N, ANGLE_C_N_CA, ANGLE_CA_C_O = np.deg2rad([111.0, 117.0, 122.0, 120.5])
CIS_SHARE = 0.003  # of all peptide bonds; they are drawn in loops
OMEGA_SPREAD = np.deg2rad(3.0)

# A basin of (phi, psi): mean, half width (both degrees), concentration of the von Mises draw.
BASINS = {
    "helix": ((-63, -43), (12, 12), (200.0, 200.0)),
    "strand": ((-120, 130), (15, 18), (90.0, 90.0)),
    "turn": ((-70, -30), (20, 25), (30.0, 20.0)),
    "polyproline": ((-67, 147), (14, 25), (60.0, 30.0)),
    "extended": ((-122, 135), (16, 28), (50.0, 25.0)),
    "left": ((57, 40), (22, 25), (30.0, 25.0)),
}
LOOP_BASINS = ("turn", "polyproline", "extended", "left")
LOOP_WEIGHTS = (0.34, 0.26, 0.22, 0.18)
ELEMENT_BASIN = {HELIX: "helix", STRAND: "strand"}

JOINTS = LOOP_LENGTHS[1] + 1  # a loop of n residues has n + 1 peptide links
LIBRARY_LOOPS = 1000
CANDIDATES = 4
CLOSURE_ROUNDS = 7
LONGEST_ELEMENT = 22
CA_CONTACT, CB_CONTACT = 4.1, 3.7  # angstrom; nearer than this costs in the choice of a loop
CA_CLASH = 3.8  # angstrom; no CA pair with |i-j| > 2 may be nearer


def bond_turn(angle: float, torsion: np.ndarray) -> np.ndarray:
    """Rotation from one bond frame to the next; x runs along the bond, z is normal to the last two bonds.  # (..., 3, 3)"""
    c, s = np.cos(angle), np.sin(angle)
    ct, st = np.cos(torsion), np.sin(torsion)
    matrix = np.empty((*torsion.shape, 3, 3), torsion.dtype)
    matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 0, 2] = -c, -s, 0.0
    matrix[..., 1, 0], matrix[..., 1, 1], matrix[..., 1, 2] = s * ct, -c * ct, -st
    matrix[..., 2, 0], matrix[..., 2, 1], matrix[..., 2, 2] = s * st, -c * st, ct
    return matrix


def _local(length: float, angle: float) -> np.ndarray:
    return length * np.array([-np.cos(angle), np.sin(angle), 0.0])


# In a residue's frame: origin at C, x along CA -> C.
LOCAL_CA = np.array([-CA_C, 0.0, 0.0])
LOCAL_N = LOCAL_CA + N_CA * np.array([np.cos(ANGLE_N_CA_C), np.sin(ANGLE_N_CA_C), 0.0])


def _local_cb() -> np.ndarray:
    b, c = LOCAL_CA - LOCAL_N, -LOCAL_CA
    return -0.58273431 * np.cross(b, c) + 0.56802827 * b - 0.54067466 * c + LOCAL_CA


LOCAL_CB = _local_cb()


def links(psi: np.ndarray, omega: np.ndarray, phi: np.ndarray):
    """Rotation and shift from a residue's frame to the next one's, and the frame in which phi turns.

    psi is of the residue before the link, phi of the one after. Returns rotation (..., 3, 3), shift (..., 3),
    rotation before phi (..., 3, 3) and the position of the next CA (..., 3).
    """
    first = bond_turn(ANGLE_CA_C_N, psi)
    second = first @ bond_turn(ANGLE_C_N_CA, omega)
    rotation = second @ bond_turn(ANGLE_N_CA_C, phi)
    alpha = C_N * first[..., 0] + N_CA * second[..., 0]
    return rotation, alpha + CA_C * rotation[..., 0], second, alpha


def chain_frames(phi: np.ndarray, psi: np.ndarray, omega: np.ndarray):
    """Frames of all residues. phi, psi, omega (chains, residues); omega[:, i] is of the bond before residue i.

    Returns rotations (chains, residues, 3, 3) and origins (chains, residues, 3), the first frame being the identity.
    """
    turn, shift, _, _ = links(psi[:, :-1], omega[:, 1:], phi[:, 1:])
    rotations = np.empty((*phi.shape, 3, 3))
    origins = np.empty((*phi.shape, 3))
    rotations[:, 0], origins[:, 0] = np.eye(3), 0.0
    for index in range(phi.shape[1] - 1):
        origins[:, index + 1] = origins[:, index] + (rotations[:, index] @ shift[:, index, :, None])[..., 0]
        rotations[:, index + 1] = rotations[:, index] @ turn[:, index]
    return rotations, origins


def backbone(phi: np.ndarray, psi: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """N, CA, C, O of chains given by their torsions (chains, residues).  # (chains, residues, 4, 3) angstrom"""
    rotations, origins = chain_frames(phi, psi, omega)
    local = np.zeros((*phi.shape, 4, 3))
    local[..., 0, :], local[..., 1, :] = LOCAL_N, LOCAL_CA
    local[..., 3, :] = C_O * bond_turn(ANGLE_CA_C_O, psi + np.pi)[..., 0]
    return np.einsum("nlij,nlaj->nlai", rotations, local) + origins[:, :, None]


def draw_torsions(rng, basins: np.ndarray):
    """phi and psi (radians) drawn in the named basins, with their limits (low, high) for refinement; arrays like `basins`."""
    names = list(BASINS)
    table = np.array([BASINS[name] for name in names])  # (basins, 3, 2)
    chosen = table[basins]  # (..., 3, 2)
    mean, half = np.deg2rad(chosen[..., 0, :]), np.deg2rad(chosen[..., 1, :])
    draw = np.clip(rng.vonmises(0.0, chosen[..., 2, :]), -half, half)
    return mean + draw, mean - half, mean + half  # each (..., 2)


BASIN_INDEX = {name: index for index, name in enumerate(BASINS)}


@dataclass(slots=True)
class Loops:
    """Loops as their links: torsions (loops, JOINTS, 2) = psi before, phi after each link; `used` marks real links."""

    torsions: np.ndarray
    low: np.ndarray
    high: np.ndarray
    omega: np.ndarray  # (loops, JOINTS)
    used: np.ndarray  # (JOINTS,) or (loops, JOINTS)


def draw_loops(rng, count: int, length: int, before: int, after: int) -> Loops:
    """Random loops of `length` residues between two kinds of element; padded to JOINTS links."""
    basins = np.empty((count, length + 2), int)
    basins[:, 1:-1] = rng.choice([BASIN_INDEX[name] for name in LOOP_BASINS], size=(count, length), p=LOOP_WEIGHTS)
    if length == 2:
        # two left-handed residues make the tight hairpin (type I'); the draw alone would rarely hit it
        basins[: count // 2, 1:-1] = BASIN_INDEX["left"]
    basins[:, 0], basins[:, -1] = BASIN_INDEX[ELEMENT_BASIN[before]], BASIN_INDEX[ELEMENT_BASIN[after]]
    drawn = draw_torsions(rng, basins)
    arrays = []
    for values in drawn:
        padded = np.zeros((count, JOINTS, 2))
        padded[:, : length + 1, 0], padded[:, : length + 1, 1] = values[:, :-1, 1], values[:, 1:, 0]
        arrays.append(padded)
    omega = np.pi + rng.normal(0.0, OMEGA_SPREAD, (count, JOINTS))
    # Only loop links may be cis; three times the wanted share, since about a third of all links lie in loops.
    omega[rng.random((count, JOINTS)) < 3 * CIS_SHARE] -= np.pi
    used = np.broadcast_to(np.arange(JOINTS) <= length, (count, JOINTS))
    return Loops(*arrays, omega, used)


def open_loops(rng, count: int, length: int, before: int, after: int) -> Loops:
    """As draw_loops, without those in which the chain runs into itself."""
    loops = draw_loops(rng, 2 * count, length, before, after)
    rotations, origins, _, _ = loop_frames(loops)
    alpha = np.concatenate([np.broadcast_to(LOCAL_CA, (2 * count, 1, 3)), origins + rotations @ LOCAL_CA], axis=1)
    distance = np.linalg.norm(alpha[:, :, None] - alpha[:, None], axis=-1)[:, : length + 2, : length + 2]
    distance[:, ~np.triu(np.ones(distance.shape[1:], bool), 3)] = np.inf
    keep = np.argsort(distance.min((1, 2)) < CA_CONTACT, kind="stable")[:count]
    return Loops(*(getattr(loops, name)[keep] for name in Loops.__slots__))


def loop_frames(loops: Loops):
    """Frames at the end of each link: rotations (..., JOINTS, 3, 3), origins; axes and pivots of psi and phi (..., JOINTS, 2, 3)."""
    turn, shift, before_phi, alpha = links(loops.torsions[..., 0], loops.omega, loops.torsions[..., 1])
    shape = loops.omega.shape[:-1]
    kind = turn.dtype
    rotation, origin = np.broadcast_to(np.eye(3, dtype=kind), (*shape, 3, 3)), np.zeros((*shape, 3), kind)
    rotations, origins = np.empty((*shape, JOINTS, 3, 3), kind), np.empty((*shape, JOINTS, 3), kind)
    axes, pivots = np.empty((*shape, JOINTS, 2, 3), kind), np.empty((*shape, JOINTS, 2, 3), kind)
    for joint in range(JOINTS):
        used = loops.used[..., joint]
        axes[..., joint, 0, :], pivots[..., joint, 0, :] = rotation[..., 0], origin
        axes[..., joint, 1, :] = (rotation @ before_phi[..., joint, :, :1])[..., 0]
        pivots[..., joint, 1, :] = origin + (rotation @ alpha[..., joint, :, None])[..., 0]
        origin = np.where(used[..., None], origin + (rotation @ shift[..., joint, :, None])[..., 0], origin)
        rotation = np.where(used[..., None, None], rotation @ turn[..., joint, :, :], rotation)
        rotations[..., joint, :, :], origins[..., joint, :] = rotation, origin
    axes *= loops.used[..., None, None]
    return rotations, origins, axes, pivots


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """np.cross without its overhead."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), b.dtype)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return out


def close_loops(loops: Loops, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Damped least squares on the torsions, in place: bring `points` (n, 4, 3) of the next element onto `targets` (n, 4, 3).

    Both are in the frame of the residue before the loop. Torsions stay inside their basins. Returns the residual RMS.
    """
    points, targets = points.astype(loops.torsions.dtype), targets.astype(loops.torsions.dtype)
    best, kept = np.full(len(targets), np.inf, points.dtype), loops.torsions
    damping = np.full(len(targets), 2.0, points.dtype)
    for turn in range(CLOSURE_ROUNDS + 1):
        rotations, origins, axes, pivots = loop_frames(loops)
        reached = np.einsum("nij,naj->nai", rotations[:, -1], points) + origins[:, -1, None]
        miss = targets - reached
        rms = np.sqrt((miss**2).sum(-1).mean(-1))
        better = rms < best
        best, kept = np.where(better, rms, best), np.where(better[:, None, None], loops.torsions, kept)
        if turn == CLOSURE_ROUNDS:
            break
        damping = np.where(better, damping / 2, damping * 4)
        lever = reached[:, None, None] - pivots[..., None, :]  # (n, joints, 2, points, 3)
        jacobian = _cross(axes[..., None, :], lever).reshape(len(targets), 2 * JOINTS, -1)
        pull = (jacobian @ miss.reshape(len(targets), -1, 1)).reshape(loops.torsions.shape)
        stuck = ((loops.torsions <= loops.low) & (pull < 0)) | ((loops.torsions >= loops.high) & (pull > 0))
        jacobian *= ~stuck.reshape(len(targets), -1, 1)
        square = jacobian.transpose(0, 2, 1) @ jacobian + damping[:, None, None] * np.eye(
            3 * CONTROL_POINTS, dtype=points.dtype
        )
        step = (jacobian @ np.linalg.solve(square, miss.reshape(len(targets), -1, 1))).reshape(loops.torsions.shape)
        loops.torsions = np.clip(loops.torsions + np.clip(step, -0.3, 0.3), loops.low, loops.high)
    loops.torsions = kept
    return best
