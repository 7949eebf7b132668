"""Backbone geometry of the synthetic chains: bond frames, atoms from torsions, loops and their closure.

Bond lengths and angles are fixed (Engh & Huber 1991); atoms are placed bond by bond (NeRF, Parsons et al. 2005).
Angstrom and radians.
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
CLOSURE_ROUNDS = 7
CONTACTS = (4.2, 3.7, 2.9)  # angstrom; pairs of CA, of CB and of O nearer than this cost in the choice of a loop


def bond_turn(angle: float, torsion: np.ndarray) -> np.ndarray:
    """Rotation from one bond frame to the next: x along the bond, z normal to the last two bonds.  # (3, 3, ...)"""
    c, s = np.cos(angle), np.sin(angle)
    ct, st = np.cos(torsion), np.sin(torsion)
    matrix = np.empty((3, 3, *torsion.shape), torsion.dtype)
    matrix[0, 0], matrix[0, 1], matrix[0, 2] = -c, -s, 0.0
    matrix[1, 0], matrix[1, 1], matrix[1, 2] = s * ct, -c * ct, -st
    matrix[2, 0], matrix[2, 1], matrix[2, 2] = s * st, -c * st, ct
    return matrix


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Matrices (3, 3, ...) times matrices (3, 3, ...) or vectors (3, ...): faster than many small matmul."""
    out = np.empty(b.shape if b.ndim == a.ndim else a.shape[1:], a.dtype)
    for index, row in enumerate(a):
        out[index] = row[0] * b[0] + row[1] * b[1] + row[2] * b[2]
    return out


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
    """Rotation and shift from a residue's frame to the next one's, and the frame in which phi turns; axes first.

    psi is of the residue before the link, phi of the one after. Returns rotation (3, 3, ...), shift (3, ...), axis of
    phi (3, ...) and the position of the next CA (3, ...).
    """
    first = bond_turn(ANGLE_CA_C_N, psi)
    second = product(first, bond_turn(ANGLE_C_N_CA, omega))
    rotation = product(second, bond_turn(ANGLE_N_CA_C, phi))
    alpha = C_N * first[:, 0] + N_CA * second[:, 0]
    return rotation, alpha + CA_C * rotation[:, 0], second[:, 0], alpha


def _axes_last(values: np.ndarray, axes: int) -> np.ndarray:
    """(axes..., links, n) to (n, links, axes...), contiguous."""
    order = [values.ndim - 1, values.ndim - 2, *range(axes)]
    return np.ascontiguousarray(values.transpose(order))


def chain_frames(phi: np.ndarray, psi: np.ndarray, omega: np.ndarray):
    """Frames of all residues. phi, psi, omega (chains, residues); omega[:, i] is of the bond before residue i.

    Returns rotations (chains, residues, 3, 3) and origins (chains, residues, 3), the first frame being the identity.
    """
    turn, shift, _, _ = links(psi[:, :-1].T, omega[:, 1:].T, phi[:, 1:].T)
    rotations, origins = np.zeros((3, 3, *phi.T.shape)), np.zeros((3, *phi.T.shape))
    rotations[range(3), range(3), 0] = 1.0
    for index in range(phi.shape[1] - 1):
        origins[:, index + 1] = origins[:, index] + product(rotations[:, :, index], shift[:, index])
        rotations[:, :, index + 1] = product(rotations[:, :, index], turn[:, :, index])
    return _axes_last(rotations, 2), _axes_last(origins, 1)


def backbone(phi: np.ndarray, psi: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """N, CA, C, O of chains given by their torsions (chains, residues).  # (chains, residues, 4, 3) angstrom"""
    rotations, origins = chain_frames(phi, psi, omega)
    local = np.zeros((*phi.shape, 4, 3))
    local[..., 0, :], local[..., 1, :] = LOCAL_N, LOCAL_CA
    local[..., 3, :] = local_oxygen(psi)
    return np.einsum("nlij,nlaj->nlai", rotations, local) + origins[:, :, None]


def local_oxygen(psi: np.ndarray) -> np.ndarray:
    """O in the frame of its residue; it lies in the plane of the peptide that follows.  # (..., 3)"""
    return C_O * np.moveaxis(bond_turn(ANGLE_CA_C_O, psi + np.pi)[:, 0], 0, -1)


def beads(rotations: np.ndarray, origins: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """CA, CB and O of residues given by their frames, as float32.  # (3, ..., 3) angstrom"""
    local = np.stack(
        [np.broadcast_to(LOCAL_CA, origins.shape), np.broadcast_to(LOCAL_CB, origins.shape), local_oxygen(psi)]
    )
    return (origins + (rotations @ local[..., None])[..., 0]).astype(np.float32)


def draw_torsions(rng, basins: np.ndarray):
    """phi and psi (radians) drawn in basins of BASIN_INDEX, and the low and high limits of those.  # (..., 2) each"""
    names = list(BASINS)
    table = np.array([BASINS[name] for name in names])  # (basins, 3, 2)
    chosen = table[basins]  # (..., 3, 2)
    mean, half = np.deg2rad(chosen[..., 0, :]), np.deg2rad(chosen[..., 1, :])
    draw = np.clip(rng.vonmises(0.0, chosen[..., 2, :]), -half, half)
    return mean + draw, mean - half, mean + half  # each (..., 2)


BASIN_INDEX = {name: index for index, name in enumerate(BASINS)}


@dataclass(slots=True)
class Loops:
    """Loops as their links: psi of the residue before and phi of the one after; float32, padded to JOINTS links."""

    torsions: np.ndarray  # (loops, JOINTS, 2)
    low: np.ndarray  # limits of the torsions
    high: np.ndarray
    omega: np.ndarray  # (loops, JOINTS)
    used: np.ndarray  # (loops, JOINTS) bool, real links

    def take(self, chosen: np.ndarray) -> "Loops":
        """Some of the loops, by index or mask."""
        return Loops(*(getattr(self, name)[chosen] for name in self.__slots__))


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
        padded = np.zeros((count, JOINTS, 2), np.float32)
        padded[:, : length + 1, 0], padded[:, : length + 1, 1] = values[:, :-1, 1], values[:, 1:, 0]
        arrays.append(padded)
    omega = np.pi + rng.normal(0.0, OMEGA_SPREAD, (count, JOINTS))
    # Only loop links are cis, a third of all; and of those drawn about half are lost to loops that fit better.
    omega[rng.random((count, JOINTS)) < 7 * CIS_SHARE] -= np.pi
    used = np.broadcast_to(np.arange(JOINTS) <= length, (count, JOINTS))
    return Loops(*arrays, omega.astype(np.float32), used)


def open_loops(rng, count: int, length: int, before: int, after: int) -> Loops:
    """As draw_loops, without those in which the chain runs into itself."""
    loops = draw_loops(rng, 2 * count, length, before, after)
    rotations, origins, _, _ = loop_frames(loops)
    first = np.broadcast_to(np.eye(3), (2 * count, 1, 3, 3)), np.zeros((2 * count, 1, 3))
    rotations, origins = (np.concatenate(pair, axis=1)[:, : length + 2] for pair in zip(first, (rotations, origins)))
    psi = np.append(loops.torsions[:, : length + 1, 0], np.zeros((2 * count, 1)), axis=1)
    separate = np.triu(np.ones((length + 2, length + 2), bool), 3)
    closed = np.zeros(2 * count, bool)
    for points, contact in zip(beads(rotations, origins, psi), CONTACTS):
        distance = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
        closed |= (distance < contact)[:, separate].any(1)
    keep = np.argsort(closed, kind="stable")[:count]
    return loops.take(keep)


def loop_frames(loops: Loops):
    """Frames after each link and the lines about which psi and phi turn.

    Returns rotations (loops, JOINTS, 3, 3), origins (loops, JOINTS, 3), axes (loops, JOINTS, 2, 3) of psi and phi, zero
    where there is no link, and a point on each axis (loops, JOINTS, 2, 3).
    """
    psi, phi, omega, used = (
        values.T.copy() for values in (*loops.torsions.transpose(2, 0, 1), loops.omega, loops.used)
    )
    turn, shift, phi_axis, alpha = links(psi, omega, phi)
    rotations, origins = np.empty_like(turn), np.empty_like(shift)
    axes, pivots = np.empty((3, 2, *psi.shape), psi.dtype), np.empty((3, 2, *psi.shape), psi.dtype)
    rotation, origin = np.zeros_like(turn[:, :, 0]), np.zeros_like(shift[:, 0])
    rotation[range(3), range(3)] = 1.0
    for joint in range(JOINTS):
        axes[:, 0, joint], pivots[:, 0, joint] = rotation[:, 0], origin
        axes[:, 1, joint] = product(rotation, phi_axis[:, joint])
        pivots[:, 1, joint] = origin + product(rotation, alpha[:, joint])
        origin = np.where(used[joint], origin + product(rotation, shift[:, joint]), origin)
        rotation = np.where(used[joint], product(rotation, turn[:, :, joint]), rotation)
        rotations[:, :, joint], origins[:, joint] = rotation, origin
    axes *= used
    axes, pivots = (_axes_last(values, 2).swapaxes(-1, -2) for values in (axes, pivots))
    return _axes_last(rotations, 2), _axes_last(origins, 1), axes, pivots


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """np.cross over the last axis without its overhead."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), b.dtype)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return out


def close_loops(loops: Loops, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Turn the torsions, in place, to bring `points` (n, 4, 3) of the next element onto `targets` (n, 4, 3).

    Points are in the frame of the element's first residue, targets in that of the residue before the loop. Damped least
    squares; torsions stay inside their basins. Returns the remaining RMS distance (n,).
    """
    points, targets = points.astype(loops.torsions.dtype), targets.astype(loops.torsions.dtype)
    best, kept = np.full(len(targets), np.inf, points.dtype), loops.torsions
    damping, identity = np.full(len(targets), 2.0, points.dtype), np.eye(3 * CONTROL_POINTS, dtype=points.dtype)
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
        jacobian = cross(axes[..., None, :], lever).reshape(len(targets), 2 * JOINTS, -1)
        pull = (jacobian @ miss.reshape(len(targets), -1, 1)).reshape(loops.torsions.shape)
        stuck = ((loops.torsions <= loops.low) & (pull < 0)) | ((loops.torsions >= loops.high) & (pull > 0))
        jacobian *= ~stuck.reshape(len(targets), -1, 1)
        square = jacobian.transpose(0, 2, 1) @ jacobian + damping[:, None, None] * identity
        step = (jacobian @ np.linalg.solve(square, miss.reshape(len(targets), -1, 1))).reshape(loops.torsions.shape)
        loops.torsions = np.clip(loops.torsions + np.clip(step, -0.3, 0.3), loops.low, loops.high)
    loops.torsions = kept
    return best
