"""What `reconstruction.py` does beside products of matrices, as two Warp kernels: one thread is one agent of a battle.

`look` takes in what is seen now; `complete` writes guesses over the zeros that are observed of what is not seen.
"""

import warp as wp

from lib.omagd.recon.predictor import FLAGS

SIGNS = 4
TELLS = 3  # before the row: how likely the unit lives, how much of what was seen last still holds, the deviation
_FLAGS, _SIGNS, _TELLS = wp.constant(FLAGS), wp.constant(SIGNS), wp.constant(TELLS)
OPTIONS = {"max_unroll": 1, "enable_backward": False}


@wp.struct
class Arrays:
    """R agents of all battles, N nodes of F numbers; `told` begins with the O observed, and has 4 (N - 1) more."""

    nodes: int
    width: int
    observed: int
    forgets: int  # 1: nothing is kept from step to step
    decoded: int  # 1: `rows` are what is guessed
    fading: float
    visible: wp.array2d(dtype=wp.uint8)  # [R, N]
    source: wp.array2d(dtype=wp.int32)  # [N, F]: place in the observation; -1: 0, -2: 1
    starts: wp.array(dtype=wp.int32)  # [N]: first number of a node's block in the observation
    widths: wp.array(dtype=wp.int32)  # [N]: how many it has
    slots: wp.array3d(dtype=wp.float32)  # [R, N, F + FLAGS]: rows as seen last, with flags
    normal: wp.array2d(dtype=wp.float32)  # [N, F]
    deviation: wp.array2d(dtype=wp.float32)  # [N, F]
    columns: wp.array2d(dtype=wp.float32)  # [N, F]
    living: wp.array(dtype=wp.int32)  # [1]: how many agents live, L
    place: wp.array(dtype=wp.int32)  # [R]: which of the living an agent is
    tells: wp.array(dtype=wp.float32)  # [N - 1, TELLS + F, L], one behind the other
    rows: wp.array3d(dtype=wp.float32)  # [N - 1, R, F], the first L of R
    told: wp.array2d(dtype=wp.float32)  # [R, O + 4 (N - 1)]


@wp.kernel(module_options=OPTIONS, module="unique")
def look(a: Arrays):
    row = wp.tid()
    width = a.width
    for node in range(a.nodes):
        if a.visible[row, node] != wp.uint8(0):
            for column in range(width):
                at = a.source[node, column]
                value = 0.0
                if at >= 0:
                    value = a.told[row, at]
                elif at == -2:
                    value = 1.0
                a.slots[row, node, column] = value
            a.slots[row, node, width] = 1.0
            a.slots[row, node, width + 2] = 1.0
            a.slots[row, node, width + 3] = 1.0
        else:
            a.slots[row, node, width] = 0.0
            a.slots[row, node, width + 3] = a.slots[row, node, width + 3] * a.fading
            if a.forgets != 0:
                for column in range(width + _FLAGS):
                    a.slots[row, node, column] = 0.0


@wp.kernel(module_options=OPTIONS, module="unique")
def complete(a: Arrays):
    row = wp.tid()
    width, observed, living, place = a.width, a.observed, a.living[0], a.place[row]
    if a.visible[row, 0] == wp.uint8(0):  # dead: it observes zeros as it is
        for column in range(_SIGNS * (a.nodes - 1)):
            a.told[row, observed + column] = 0.0
        return
    for other in range(a.nodes - 1):
        node, signs = other + 1, observed + _SIGNS * other
        if a.visible[row, node] != wp.uint8(0):
            a.told[row, signs] = 1.0
            a.told[row, signs + 1] = 0.0
            a.told[row, signs + 2] = 1.0
            a.told[row, signs + 3] = 0.0
            continue
        first = other * (_TELLS + width) * living + place
        lives = a.tells[first]
        keeps = a.tells[first + living] * a.slots[row, node, width + 2]
        start = a.starts[node]
        # The first number, visible or attackable, is 0 as it is.
        for column in range(1, a.widths[node]):
            if a.decoded != 0:
                if lives > 0.5:
                    a.told[row, start + column] = a.rows[other, place, column]
            else:
                base = a.normal[node, column]
                base = base + keeps * (a.slots[row, node, column] - base)
                value = base + a.deviation[node, column] * a.tells[first + (_TELLS + column) * living]
                a.told[row, start + column] = value * a.columns[node, column] * lives
        a.told[row, signs] = lives
        a.told[row, signs + 1] = a.tells[first + 2 * living]
        a.told[row, signs + 2] = a.slots[row, node, width + 3]
        a.told[row, signs + 3] = 1.0
