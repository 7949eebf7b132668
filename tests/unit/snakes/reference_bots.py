"""The scripted teams of the original and its fork, in plain Python, for either side.

Distances are Euclidean and do not wrap, as in the originals; the cell a move leads to does. Ties go to the first of
up, down, left, right, and to the first bean of the list. A team without beans to go for (never in a running game)
treats all cells as equally far.
"""

from __future__ import annotations

import math
from collections import deque

from reference import NEIGHBOUR, TEAM, Game, row_col

ALL_MOVES = (0, 1, 2, 3)


def team_of(team: int) -> range:
    return range(team * TEAM, (team + 1) * TEAM)


def squared(cell: int, other: int) -> int:
    (row, col), (other_row, other_col) = row_col(cell), row_col(other)
    return (row - other_row) ** 2 + (col - other_col) ** 2


def nearest(beans: list[int], head: int) -> int | None:
    """The nearest bean, the first in the list where several are."""
    return min(beans, key=lambda bean: squared(bean, head), default=None)


def taken_cells(game: Game) -> set[int]:
    return {cell for body in game.snakes for cell in body}


def best_move(head: int, cost, moves=ALL_MOVES) -> int:
    """The move of least cost(cell it leads to), the first where several are."""
    return min(moves, key=lambda move: cost(NEIGHBOUR[head][move]))


def distance_to(bean: int | None):
    return lambda cell: 0.0 if bean is None else math.sqrt(squared(cell, bean))


def random_team(game: Game, team: int, noise) -> list[int]:
    return [noise.random_action(game.step_count, snake) for snake in team_of(team)]


def greedy(game: Game, team: int, noise=None) -> list[int]:
    """Each in turn goes for the nearest bean that no mate before it has taken; a blocked cell is infinitely far."""
    beans, taken = list(game.beans), taken_cells(game)
    actions = []
    for snake in team_of(team):
        head = game.snakes[snake][0]
        bean = nearest(beans, head)
        if bean is not None:
            beans.remove(bean)
        far = distance_to(bean)
        actions.append(best_move(head, lambda cell, far=far: math.inf if cell in taken else far(cell)))
    return actions


def level_1(game: Game, team: int, noise=None) -> list[int]:
    """The nearest bean, whatever lies in the way."""
    heads = [game.snakes[snake][0] for snake in team_of(team)]
    return [best_move(head, distance_to(nearest(game.beans, head))) for head in heads]


def level_3(game: Game, team: int, noise=None) -> list[int]:
    """Distance, plus 5 for a blocked cell, plus the blocked neighbours of the head (equal for all four moves)."""
    taken = taken_cells(game)
    actions = []
    for snake in team_of(team):
        head = game.snakes[snake][0]
        far = distance_to(nearest(game.beans, head))
        crowd = sum(cell in taken for cell in NEIGHBOUR[head])

        def cost(cell, far=far, crowd=crowd):
            return far(cell) + 0.5 * ((10.0 if cell in taken else 0.0) + 2.0 * crowd)

        actions.append(best_move(head, cost))
    return actions


def level_4(game: Game, team: int, noise=None) -> list[int]:
    """Distance times a factor of the own length that is the same for all moves; a blocked cell costs 1000."""
    taken = taken_cells(game)
    actions = []
    for snake in team_of(team):
        head = game.snakes[snake][0]
        far = distance_to(nearest(game.beans, head))
        factor = max(0.3, 1 - len(game.snakes[snake]) / 20)

        def cost(cell, far=far, factor=factor):
            return 1000.0 if cell in taken else far(cell) * factor

        actions.append(best_move(head, cost))
    return actions


def evasion(game: Game, team: int, noise=None) -> list[int]:
    """Of the first moves with a free path of two steps, the one that leads nearest to the bean."""
    taken = taken_cells(game)
    actions = []
    for snake in team_of(team):
        head = game.snakes[snake][0]
        moves = safe_first_moves(head, taken) or ALL_MOVES
        actions.append(best_move(head, distance_to(nearest(game.beans, head)), moves))
    return actions


def safe_first_moves(head: int, taken: set[int]) -> list[int]:
    """First moves whose path reaches depth 2; each (cell, depth) belongs to the first path that marks it."""
    queue = deque([(head, 0, None)])
    marked = set()
    safe = set()
    while queue:
        cell, depth, first = queue.popleft()
        if depth == 2:
            safe.add(first)
            continue
        for move in ALL_MOVES:
            neighbour = NEIGHBOUR[cell][move]
            if neighbour in taken or (neighbour, depth + 1) in marked:
                continue
            marked.add((neighbour, depth + 1))
            queue.append((neighbour, depth + 1, move if first is None else first))
    return sorted(safe)


TEAMS = {
    "random": random_team,
    "level1": level_1,
    "greedy": greedy,
    "level3": level_3,
    "level4": level_4,
    "evasion": evasion,
}
