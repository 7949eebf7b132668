"""Blueprints of synthetic folds: which elements a chain has, in which order, and where each one belongs in space.

Three topologies: a bundle of antiparallel helices, a meander of strands in stacked sheets, and alternating strands and
helices with right-handed crossings. Lengths in residues, coordinates in angstrom. The target of an element is given by
four control points (start, end, middle of its axis, and one point that fixes the face of a strand).
"""

from dataclasses import dataclass

import numpy as np

HELIX, STRAND = 0, 1
TOPOLOGIES = ("bundle", "meander", "alternating")
SHORTEST_CHAIN, LONGEST_CHAIN = 40, 200  # residues
HELIX_LENGTHS, STRAND_LENGTHS, LOOP_LENGTHS = (6, 22), (4, 9), (2, 8)  # residues, both ends included
RISE = {HELIX: 1.5, STRAND: 3.35}  # angstrom along the axis per residue
STRAND_SPACING, LAYER_SPACING, HELIX_SPACING = 4.85, 10.0, 10.2  # angstrom
STRAND_TILT = np.deg2rad(-16.0)  # between neighbouring strands, about the axis that runs across the sheet
FACE_LEVER = 3.0  # angstrom from the axis to the control point that fixes the face
CONTROL_POINTS = 4


@dataclass(slots=True)
class Blueprint:
    """One chain: `loops[k]` residues before element k and `loops[-1]` after the last one."""

    topology: str
    kinds: np.ndarray  # (elements,) HELIX or STRAND
    lengths: np.ndarray  # (elements,) residues
    loops: np.ndarray  # (elements + 1,) residues
    targets: np.ndarray  # (elements, 4, 3) control points, angstrom

    @property
    def residues(self) -> int:
        return int(self.lengths.sum() + self.loops.sum())

    def cut(self, elements: int):
        """Keep the first `elements`; the tail stays."""
        self.kinds, self.lengths, self.targets = self.kinds[:elements], self.lengths[:elements], self.targets[:elements]
        self.loops = np.append(self.loops[:elements], self.loops[-1])


def draw_blueprint(rng: np.random.Generator, topology: str) -> Blueprint:
    """Draw the segments of a chain of SHORTEST_CHAIN..LONGEST_CHAIN residues and place them on the template."""
    wanted = int(rng.integers(SHORTEST_CHAIN, LONGEST_CHAIN + 1))
    draw, place = {
        "bundle": (_bundle_segments, _bundle_targets),
        "meander": (_meander_segments, _meander_targets),
        "alternating": (_alternating_segments, _alternating_targets),
    }[topology]
    kinds, lengths, loops, layout = draw(rng, wanted)
    targets = place(rng, np.array(kinds), np.array(lengths), np.array(loops), layout)
    return Blueprint(topology, np.array(kinds), np.array(lengths), np.array(loops), targets)


def _near(rng, centre: int, spread: int, limits: tuple[int, int]) -> int:
    return int(np.clip(centre + rng.integers(-spread, spread + 1), *limits))


def _fill(rng, wanted: int, next_segment):
    """Append (loop, kind, length) segments until `wanted` residues are reached, never beyond LONGEST_CHAIN."""
    kinds, lengths, loops = [], [], [int(rng.integers(2, 4))]
    total = loops[0] + 2
    while total < wanted or len(kinds) < 2:
        loop, kind, length = next_segment(len(kinds))
        loop = loop if kinds else 0
        if total + loop + length > LONGEST_CHAIN:
            break
        if kinds:
            loops.append(loop)
        kinds.append(kind)
        lengths.append(length)
        total += loop + length
    loops.append(int(min(rng.integers(2, 5), 2 + LONGEST_CHAIN - total)))
    return kinds, lengths, loops


def _bundle_segments(rng, wanted: int):
    base = int(rng.integers(10, 21))

    def segment(_):
        return (
            int(rng.choice([3, 4, 5, 6, 7], p=[0.25, 0.35, 0.25, 0.1, 0.05])),
            HELIX,
            _near(rng, base, 2, HELIX_LENGTHS),
        )

    kinds, lengths, loops = _fill(rng, wanted, segment)
    return kinds, lengths, loops, 2 if len(kinds) < 6 else 3


def _meander_segments(rng, wanted: int):
    """Strands up and down; the layout is (level of the first residue, direction, column, layer) of each strand.

    A tight turn fixes on which side the next strand lies from the side its last residue faces (Koga et al. 2012), so
    within a sheet a strand that goes up and moves to the right ends at an odd level, one that goes down at an even one.
    """
    base = int(rng.integers(5, 8))
    columns = int(np.clip(round(np.sqrt(1.8 * wanted / (base + 3))), 3, 6))
    layout = []

    def segment(index):
        layer, column = divmod(index, columns)
        sign, rightward = 1 if index % 2 == 0 else -1, layer % 2 == 0
        column = (column if rightward else columns - 1 - column) - (columns - 1) / 2
        turn, back = index > 0 and index % columns == 0, 0
        loop = int(rng.integers(6, 9) if turn else rng.choice([2, 3, 4, 5], p=[0.4, 0.15, 0.25, 0.2]))
        if index == 0:
            level = -(base // 2)
        else:
            before, length = layout[-1][0], layout[-1][4]
            back = int(loop in (4, 5) and rng.random() < 0.5)
            level = before - sign * (length - 1) + sign * back
        ends = [level + sign * (length - 1) for length in range(STRAND_LENGTHS[0], STRAND_LENGTHS[1] + 1)]
        odd = (sign > 0) == rightward
        wished = sign * (base // 2)
        end = min((end for end in ends if end % 2 == odd), key=lambda end: abs(end - wished))
        layout.append((level, sign, column, layer, abs(end - level) + 1))
        return loop, STRAND, layout[-1][4]

    kinds, lengths, loops = _fill(rng, wanted, segment)
    return kinds, lengths, loops, layout


def _alternating_segments(rng, wanted: int):
    base = int(rng.integers(4, 8))

    def segment(index):
        if index % 2 == 0:
            return int(rng.choice([4, 5, 6, 7], p=[0.3, 0.4, 0.2, 0.1])), STRAND, _near(rng, base, 1, STRAND_LENGTHS)
        loop = int(rng.choice([3, 4, 5, 6], p=[0.15, 0.35, 0.3, 0.2]))
        return loop, HELIX, _near(rng, round(2.2 * base), 1, HELIX_LENGTHS)

    return *_fill(rng, wanted, segment), None


def _control_points(kind, length, start, direction, face):
    """Four control points of an element whose first residue lies at `start` and whose axis runs along `direction`."""
    run = RISE[kind] * (length - 1) * direction
    inset = (1.5 if kind == HELIX else 0.5) * RISE[kind] * direction  # ends are means of 4 or 2 residues
    middle = start + run / 2
    return np.stack([start + inset, start + run - inset, middle, middle + FACE_LEVER * face])


def _tilted(rng, vector, spread_degrees: float):
    vector = vector + np.deg2rad(spread_degrees) * rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def _bundle_targets(rng, kinds, lengths, loops, columns):
    """Helices up and down on a hexagonal lattice, walked row by row like a plough."""
    targets, height = [], 0.0
    for index, length in enumerate(lengths):
        row, column = divmod(index, columns)
        column = columns - 1 - column if row % 2 else column
        x = HELIX_SPACING * (column + 0.5 * (row % 2)) + rng.normal(0, 0.4)
        y = HELIX_SPACING * np.sqrt(0.75) * row + rng.normal(0, 0.4)
        sign = 1.0 if index % 2 == 0 else -1.0
        run = RISE[HELIX] * (length - 1)
        start = 0.6 * height - 0.4 * sign * run / 2 if index else -run / 2
        direction = _tilted(rng, np.array([0.0, 0.0, sign]), 6.0)
        targets.append(_control_points(HELIX, length, np.array([x, y, start]), direction, np.zeros(3)))
        height = start + sign * run
    return np.array(targets)


def _sheet_frame(column: float):
    """Axis, face normal and position of a strand column in a twisted sheet that runs along x."""
    angle = STRAND_TILT * column
    direction = np.array([0.0, -np.sin(angle), np.cos(angle)])
    normal = np.array([0.0, np.cos(angle), np.sin(angle)])
    return direction, normal, np.array([STRAND_SPACING * column, 0.0, 0.0])


def _strand_points(rng, length, level, sign, column, layer):
    """A strand whose first residue is at `level` (in residues along the axis); even levels face up."""
    direction, normal, position = _sheet_frame(column)
    face = normal if level % 2 == 0 else -normal
    start = position + layer * LAYER_SPACING * normal + RISE[STRAND] * level * direction
    return _control_points(STRAND, length, start + rng.normal(0, 0.1, 3), sign * direction, face)


def _meander_targets(rng, kinds, lengths, loops, layout):
    """Antiparallel neighbours; each full sheet is followed by another one stacked on top of it."""
    return np.array([_strand_points(rng, length, *place[:4]) for length, place in zip(lengths, layout)])


def _alternating_columns(strands: int) -> tuple[list[float], list[float], list[float]]:
    """Columns of the strands, and columns and faces of the helices behind each.

    The first half of the strands walks to one side with its helices on one face, then the chain crosses over and the
    rest walks to the other side with its helices on the other face: both are right-handed. Helices need twice the room
    of strands, so each layer of them is spread about the middle of its half.
    """
    first = (strands + 1) // 2
    second = strands - first
    columns = [-float(step) for step in range(first)] + [1.0 + step for step in range(second)]
    helices = [-(first - 1) / 2 + (first - 2) - 2.0 * step for step in range(first - 1)]
    helices += [second / 2 - (second - 1) + 2.0 * step for step in range(second + 1)]
    return columns, helices, [1.0] * (first - 1) + [-1.0] * (second + 1)


def _alternating_targets(rng, kinds, lengths, loops, _):
    """Parallel strands, each helix on a face of the sheet on its way from one strand to the next."""
    columns, helices, faces = _alternating_columns(int((kinds == STRAND).sum()))
    targets, end = [], np.zeros(3)
    for index, (kind, length) in enumerate(zip(kinds, lengths)):
        if kind == STRAND:
            targets.append(_strand_points(rng, length, -(int(length) // 2), 1, columns[index // 2], 0))
            end = targets[-1][1]
            continue
        direction, normal, position = _sheet_frame(helices[index // 2])
        run = RISE[HELIX] * (length - 1)
        start = (
            position
            + faces[index // 2] * LAYER_SPACING * normal
            + (0.5 * (end @ direction + run / 2) + 1.0) * direction
        )
        targets.append(_control_points(HELIX, length, start, -_tilted(rng, direction, 4.0), np.zeros(3)))
    return np.array(targets)
