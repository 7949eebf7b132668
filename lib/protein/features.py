"""From backbone coordinates to the graph the model sees: neighbours, node features, edge features.

Nothing here depends on the residue type or on side-chain atoms. Everything is invariant to rotation and translation
and changes under reflection (dihedrals, relative frames). Runs without gradient: coordinates are data.

Distances in radial basis functions between N, CA, C, O and a virtual CB follow Dauparas et al. 2022
(ProteinMPNN, doi:10.1126/science.add2187); relative frames follow Ingraham et al. 2019.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

N, CA, C, OXYGEN, CB = range(5)
ATOM_PAIRS = tuple((a, b) for a in range(5) for b in range(5))
RBF_COUNT, RBF_MIN, RBF_MAX = 16, 2.0, 22.0  # angstrom
MAX_OFFSET = 32
OFFSET_ROWS = 2 * MAX_OFFSET + 2  # -32..32 along one chain, and one row for another chain
EDGE_FEATURES = len(ATOM_PAIRS) * RBF_COUNT + 3 + 9
BURIAL_RADII = (6.0, 8.0, 10.0, 12.0)  # angstrom
NODE_FEATURES = 6 + 3 + 4 + 2 + 2 * len(BURIAL_RADII)
CHAIN_BREAK = 2.5  # angstrom between C and the next N: no peptide bond
FEATURE_VERSION = 1


@dataclass(slots=True)
class Graph:
    """Flat batch as a graph of a fixed number of neighbour slots per residue.

    Slots that a short unit cannot fill point at the residue itself and have `slot_valid` False; `slot_valid` is None
    when every slot of the batch is filled.
    """

    neighbours: Tensor  # (residues, slots) absolute residue ids
    slot_valid: Tensor | None  # (residues, slots) bool
    offset_row: Tensor  # (residues, slots) row of the relative-position table
    nodes: Tensor  # (residues, NODE_FEATURES) float32
    atoms: Tensor  # (residues, 5, 3) float32 angstrom, N CA C O and virtual CB
    atom_valid: Tensor  # (residues, 5) bool
    frames: Tensor  # (residues, 3, 3) float32, rows are the axes


def virtual_cb(atoms: Tensor) -> Tensor:
    """Ideal CB from N, CA, C; (residues, 4, 3) -> (residues, 3). Constants of Dauparas et al. 2022."""
    b = atoms[:, CA] - atoms[:, N]
    c = atoms[:, C] - atoms[:, CA]
    a = torch.cross(b, c, dim=-1)
    return -0.58273431 * a + 0.56802827 * b - 0.54067466 * c + atoms[:, CA]


def dihedral(p0: Tensor, p1: Tensor, p2: Tensor, p3: Tensor) -> Tensor:
    """Signed dihedral angle in radians of four points (..., 3)."""
    b0, b1, b2 = p0 - p1, p2 - p1, p3 - p2
    b1 = b1 / b1.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    v = b0 - (b0 * b1).sum(-1, keepdim=True) * b1
    w = b2 - (b2 * b1).sum(-1, keepdim=True) * b1
    return torch.atan2((torch.cross(b1, v, dim=-1) * w).sum(-1), (v * w).sum(-1))


def backbone_frames(atoms: Tensor) -> Tensor:
    """Right-handed orthonormal frame at CA by Gram-Schmidt on CA->C and CA->N; (residues, 5, 3) -> (residues, 3, 3)."""
    x = torch.nn.functional.normalize(atoms[:, C] - atoms[:, CA], dim=-1)
    to_n = atoms[:, N] - atoms[:, CA]
    y = torch.nn.functional.normalize(to_n - (to_n * x).sum(-1, keepdim=True) * x, dim=-1)
    return torch.stack((x, y, torch.cross(x, y, dim=-1)), dim=1)


def nearest_neighbours(ca: Tensor, ca_valid: Tensor, unit_lengths: list[int], slots: int) -> tuple[Tensor, Tensor]:
    """The `slots` nearest CA of the same unit, the residue itself first.

    Args:
        ca: (residues, 3) float32; ca_valid: (residues,) bool; residues without CA are nobody's neighbour.

    Returns:
        neighbours (residues, slots) int64 absolute ids, valid (residues, slots) bool.
    """
    neighbours = torch.arange(len(ca), device=ca.device)[:, None].repeat(1, slots)
    valid = torch.zeros(len(ca), slots, dtype=torch.bool, device=ca.device)
    start = 0
    for length in unit_lengths:
        points = ca[start : start + length]
        usable = ca_valid[start : start + length]
        take = min(slots, length)
        # Rows in blocks: a unit of 10,000 residues would otherwise need a 400 MB distance matrix.
        for lo in range(0, length, 2048):
            block = points[lo : lo + 2048]
            distance = torch.cdist(block, points, compute_mode="donot_use_mm_for_euclid_dist")
            distance.masked_fill_(~usable[None, :], float("inf"))
            near, index = distance.topk(take, largest=False)
            rows = slice(start + lo, start + lo + len(block))
            good = torch.isfinite(near) & usable[lo : lo + 2048, None]
            neighbours[rows, :take] = torch.where(good, index + start, neighbours[rows, :take])
            valid[rows, :take] = good
        start += length
    return neighbours, valid


def _torsions(atoms: Tensor, present: Tensor, chain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """phi, psi, omega as sin/cos (residues, 6), their validity (residues, 3), and links (residues, 2).

    A link says whether the residue is bonded to the one before and to the one after.
    """
    count = len(atoms)
    bonded = torch.zeros(count + 1, dtype=torch.bool, device=atoms.device)  # bonded[i]: between i-1 and i
    gap = (atoms[1:, N] - atoms[:-1, C]).norm(dim=-1)
    bonded[1:-1] = (chain[1:] == chain[:-1]) & (gap < CHAIN_BREAK) & present[1:, N] & present[:-1, C]
    before, after = bonded[:-1], bonded[1:]
    frame = present[:, N] & present[:, CA] & present[:, C]
    previous, following = torch.roll(atoms, 1, 0), torch.roll(atoms, -1, 0)
    angles = torch.stack(
        (
            dihedral(previous[:, C], atoms[:, N], atoms[:, CA], atoms[:, C]),
            dihedral(atoms[:, N], atoms[:, CA], atoms[:, C], following[:, N]),
            dihedral(previous[:, CA], previous[:, C], atoms[:, N], atoms[:, CA]),
        ),
        dim=1,
    )
    valid = torch.stack((before & frame, after & frame, before & frame & torch.roll(present[:, CA], 1, 0)), dim=1)
    turn = torch.stack((angles.sin(), angles.cos()), dim=-1) * valid[..., None]
    return turn.flatten(1), valid, torch.stack((before, after), dim=1)


def _burial(atoms: Tensor, usable: Tensor, neighbours: Tensor, valid: Tensor) -> Tensor:
    """Soft counts of CB around each CB, all around and on the side-chain side; (residues, 2 x radii), about 0..2."""
    cb = atoms[:, CB]
    towards = cb[neighbours] - cb[:, None]  # (residues, slots, 3)
    distance = towards.norm(dim=-1)
    counted = valid & usable[neighbours] & usable[:, None] & (distance > 1e-3)
    outward = torch.nn.functional.normalize(cb - atoms[:, CA], dim=-1)
    cosine = (towards * outward[:, None]).sum(-1) / distance.clamp_min(1e-3)
    radii = torch.tensor(BURIAL_RADII, device=atoms.device)
    near = torch.sigmoid(2.0 * (radii - distance[..., None])) * counted[..., None]  # (residues, slots, radii)
    scale = 0.02 * radii**2
    return torch.cat((near.sum(1) / scale, (near * cosine[..., None].clamp_min(0)).sum(1) / (0.5 * scale)), dim=1)


@torch.no_grad()
def build_graph(
    coordinates: Tensor, present: Tensor, chain: Tensor, position: Tensor, unit_lengths: list[int], slots: int
) -> Graph:
    """Neighbours and node features of a flat batch.

    Args:
        coordinates: (residues, 4, 3) float32 angstrom, absent atoms anything finite.
        present: (residues, 4) bool.
        chain: (residues,) int, different for every chain of the batch.
        position: (residues,) int, index along the chain.
        unit_lengths: residues of each unit, in order; their sum is the number of residues.
        slots: neighbours per residue (k).
    """
    assert sum(unit_lengths) == len(coordinates)
    # Fewer slots than k when no unit is long enough to fill them.
    slots = min(slots, max(unit_lengths))
    frame = present[:, N] & present[:, CA] & present[:, C]
    atoms = torch.cat((coordinates, virtual_cb(coordinates)[:, None]), dim=1)
    atom_valid = torch.cat((present, frame[:, None]), dim=1)
    neighbours, valid = nearest_neighbours(atoms[:, CA], present[:, CA], unit_lengths, slots)
    turn, turn_valid, links = _torsions(atoms, present, chain)
    nodes = torch.cat(
        (turn, turn_valid.float(), present.float(), links.float(), _burial(atoms, frame, neighbours, valid)), dim=1
    )
    offset = (position[neighbours] - position[:, None]).clamp(-MAX_OFFSET, MAX_OFFSET) + MAX_OFFSET
    offset_row = torch.where(chain[neighbours] == chain[:, None], offset, OFFSET_ROWS - 1)
    frames = backbone_frames(atoms) * frame[:, None, None]
    return Graph(neighbours, None if bool(valid.all()) else valid, offset_row, nodes, atoms, atom_valid, frames)


@torch.no_grad()
def edge_features(graph: Graph, start: int, stop: int, dtype: torch.dtype) -> Tensor:
    """Features of the edges of residues start..stop; ((stop - start) * slots, EDGE_FEATURES).

    25 atom-pair distances in 16 Gaussians each, the direction to the neighbour's CA and the neighbour's frame, both
    seen from the residue's own frame. What involves an absent atom is zero.
    """
    neighbours = graph.neighbours[start:stop]  # (rows, slots)
    rows, slots = neighbours.shape
    flat = neighbours.reshape(-1)
    own, other = graph.atoms[start:stop], graph.atoms.index_select(0, flat).view(rows, slots, 5, 3)
    difference = other[:, :, None] - own[:, None, :, None]  # (rows, slots, own atom, other atom, 3)
    distance = difference.square().sum(-1).add_(1e-6).sqrt_().view(rows * slots, len(ATOM_PAIRS))
    centres = torch.linspace(RBF_MIN, RBF_MAX, RBF_COUNT, device=distance.device)
    width = (RBF_MAX - RBF_MIN) / RBF_COUNT
    out = torch.empty(rows * slots, EDGE_FEATURES, dtype=dtype, device=distance.device)
    gaussians = (distance[..., None] - centres).mul_(1.0 / width).square_().neg_().exp_()
    if not bool(graph.atom_valid.all()):
        own_valid = graph.atom_valid[start:stop, None, :, None]
        both = own_valid & graph.atom_valid.index_select(0, flat).view(rows, slots, 1, 5)
        gaussians *= both.view(rows * slots, len(ATOM_PAIRS), 1)
    count = len(ATOM_PAIRS) * RBF_COUNT
    out[:, :count] = gaussians.view(rows * slots, count)
    frames = graph.frames[start:stop]
    direction = torch.einsum("rab,rsb->rsa", frames, difference[:, :, CA, CA])
    direction = direction / direction.norm(dim=-1, keepdim=True).clamp_min(1.0)
    out[:, count : count + 3] = direction.view(-1, 3)
    turned = graph.frames.index_select(0, flat).view(rows, slots, 3, 3)
    out[:, count + 3 :] = torch.einsum("rab,rscb->rsac", frames, turned).reshape(-1, 9)
    return out
