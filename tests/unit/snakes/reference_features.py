"""The feature rows "team" (140 numbers) and "jidi26" (26 numbers) of one snake, in plain Python."""

from __future__ import annotations

import heapq
from itertools import permutations

from reference import BEANS, HEIGHT, NEIGHBOUR, SNAKES, TEAM, WIDTH, Game, row_col

TEAM_FEATURES, JIDI_FEATURES = 140, 26


def wrapped_delta(cell: int, origin: int) -> tuple[int, int]:
    """Rows and columns from origin to cell on the torus: -5..4 and -10..9."""
    row, col = row_col(cell)
    origin_row, origin_col = row_col(origin)
    half_height, half_width = HEIGHT // 2, WIDTH // 2
    return (row - origin_row + half_height) % HEIGHT - half_height, (col - origin_col + half_width) % WIDTH - half_width


def torus_distance(cell: int, other: int) -> int:
    """Moves between two cells on the empty board."""
    (row, col), (other_row, other_col) = row_col(cell), row_col(other)
    rows, cols = abs(row - other_row), abs(col - other_col)
    return min(rows, HEIGHT - rows) + min(cols, WIDTH - cols)


def mates_and_enemies(snake: int) -> tuple[list[int], list[int]]:
    """The two mates and the three enemies of a snake, each by ascending number."""
    team = [other for other in range(SNAKES) if other // TEAM == snake // TEAM]
    return [other for other in team if other != snake], [other for other in range(SNAKES) if other not in team]


def team_features(game: Game, snake: int) -> list[float]:
    """The 140 numbers of one snake; all 0 for an empty body."""
    if not game.snakes[snake]:
        return [0.0] * TEAM_FEATURES
    mates, enemies = mates_and_enemies(snake)
    mate_heads = [game.snakes[other][0] for other in mates if game.snakes[other]]
    enemy_heads = [game.snakes[other][0] for other in enemies if game.snakes[other]]
    head, length = game.snakes[snake][0], len(game.snakes[snake])
    own_sum = length + sum(len(game.snakes[other]) for other in mates)
    enemy_sum = sum(len(game.snakes[other]) for other in enemies)
    row = [float(game.directions[snake] == move) for move in range(4)]
    row += [length / 20, game.step_count / 200, (own_sum - enemy_sum) / 20, (length - 3) / 10]
    for cell in NEIGHBOUR[head]:
        row += _move_features(game, cell, mate_heads, enemy_heads)
    row += _bean_features(game.beans, head, mate_heads, enemy_heads)
    for other in mates + enemies:
        row += _other_features(game.snakes[other], head)
    row += _window_features(game, head)
    return row + _target_features(game, snake) + _pocket_features(game, snake) + _race_features(game, snake)


def _move_features(game: Game, cell: int, mate_heads: list[int], enemy_heads: list[int]) -> list[float]:
    segments = {segment for body in game.snakes for segment in body}
    tails = {body[-1] for body in game.snakes if len(body) >= 2}
    not_tails = {segment for body in game.snakes for segment in (body[:-1] if len(body) >= 2 else body)}
    blocked = 1.0 if cell in not_tails else 0.5 if cell in tails else 0.0
    return [
        blocked,
        float(cell in game.beans),
        sum(neighbour not in segments for neighbour in NEIGHBOUR[cell]) / 4,
        float(sum(torus_distance(cell, other) == 1 for other in enemy_heads)),
        float(sum(torus_distance(cell, other) == 1 for other in mate_heads)),
    ]


def _bean_features(beans: list[int], head: int, mate_heads: list[int], enemy_heads: list[int]) -> list[float]:
    row: list[float] = []
    for bean in sorted(beans, key=lambda cell: torus_distance(cell, head)):
        d_row, d_col = wrapped_delta(bean, head)
        distance = torus_distance(bean, head)
        mate_nearer = any(torus_distance(bean, other) < distance for other in mate_heads)
        enemy_nearer = any(torus_distance(bean, other) <= distance for other in enemy_heads)
        row += [d_row / 5, d_col / 10, distance / 15, float(mate_nearer), float(enemy_nearer)]
    return row + [0.0, 0.0, 1.0, 0.0, 0.0] * (BEANS - len(beans))


def _other_features(body: list[int], head: int) -> list[float]:
    if not body:
        return [0.0, 0.0, 0.0]
    d_row, d_col = wrapped_delta(body[0], head)
    return [d_row / 5, d_col / 10, len(body) / 20]


def _window_features(game: Game, head: int) -> list[float]:
    """The 48 cells around the head: 1 for each that holds a segment."""
    segments = {segment for body in game.snakes for segment in body}
    head_row, head_col = row_col(head)
    seen = [
        ((head_row + d_row) % HEIGHT) * WIDTH + (head_col + d_col) % WIDTH in segments
        for d_row in range(-3, 4)
        for d_col in range(-3, 4)
    ]
    del seen[24]  # the head itself
    return [float(cell) for cell in seen]


def _away(game: Game, snake: int, cell: int) -> int:
    """Distance of a snake's head from a cell; an empty body is 31 away from everything."""
    return torus_distance(game.snakes[snake][0], cell) if game.snakes[snake] else 31


def _targets(game: Game, team: int) -> list[int]:
    """The place in the list of beans of each snake's target; places beyond the list are beans that are missing."""
    own = range(TEAM * team, TEAM * team + TEAM)

    def cost(snake: int, place: int) -> int:
        if place >= len(game.beans):
            return 100
        bean = game.beans[place]
        distance = _away(game, snake, bean)
        enemy = min(_away(game, other, bean) for other in range(SNAKES) if other not in own)
        return distance + (8 if enemy < distance else 4 if enemy == distance else 0)

    def total(places: tuple[int, ...]) -> int:
        return sum(cost(snake, place) for snake, place in zip(own, places, strict=True))

    return list(min(permutations(range(BEANS), TEAM), key=total))  # the first of equals: in ascending order


def _target_features(game: Game, snake: int) -> list[float]:
    place = _targets(game, snake // TEAM)[snake % TEAM]
    if place >= len(game.beans):
        return [0.0] * 6 + [1.0, 0.0]
    bean, head = game.beans[place], game.snakes[snake][0]
    distance = torus_distance(bean, head)
    d_row, d_col = wrapped_delta(bean, head)
    toward = [float(torus_distance(bean, cell) < distance) for cell in NEIGHBOUR[head]]
    contested = any(_away(game, other, bean) <= distance for other in mates_and_enemies(snake)[1])
    return [*toward, d_row / 5, d_col / 10, distance / 15, float(contested)]


def _closed(game: Game) -> set[int]:
    """Cells with a segment; tails of snakes that cannot eat are open."""
    closed = {cell for body in game.snakes for cell in body}
    return closed - {body[-1] for body in game.snakes if body and not _stays(game, body)}


def _stays(game: Game, body: list[int]) -> bool:
    """Whether a tail may stay, as the head has a bean beside it."""
    return any(cell in game.beans for cell in NEIGHBOUR[body[0]])


def _pocket_features(game: Game, snake: int) -> list[float]:
    closed = _closed(game)
    shares, own, others = [], [], []
    wanted = len(game.snakes[snake]) + 2
    for cell in NEIGHBOUR[game.snakes[snake][0]]:
        pocket, edge = {cell}, [cell]
        while edge:
            edge = [near for near in {n for c in edge for n in NEIGHBOUR[c]} if near not in closed | pocket]
            pocket |= set(edge)
        share = 1.0 if cell in closed else max(wanted - len(pocket), 0) / wanted
        around = pocket | {near for c in pocket for near in NEIGHBOUR[c]}
        tails = [body[-1] in around if body else False for body in game.snakes]
        narrow = 0.0 < share < 1.0
        shares.append(share)
        own.append(float(narrow and tails[snake]))
        others.append(float(narrow and any(tails)))
    return shares + own + others


def _race_features(game: Game, snake: int) -> list[float]:
    """By the step at which each cell opens and at which it is first reached: searches in the order of these steps."""
    if len(game.snakes[snake]) < 6:
        return [0.0] * 4
    opens = {}
    for body in filter(None, game.snakes):
        opens[body[0]] = 99
        opens |= {cell: behind + 1 + _stays(game, body) for behind, cell in enumerate(reversed(body[1:]))}
    heads = [body[0] for other, body in enumerate(game.snakes) if body and other != snake]
    others = _arrivals(dict.fromkeys(heads, 0), opens, {})

    def share(start: int) -> float:
        if opens.get(start, 0) > 1:
            return 1.0
        own = _arrivals({start: 1}, opens, others)
        sizes = {step: sum(reached <= step for reached in own.values()) for step in range(2, 13)}
        return next(((13 - step) / 12 for step in sizes if sizes[step] < step), 0.0)

    return [share(cell) for cell in NEIGHBOUR[game.snakes[snake][0]]]


def _arrivals(starts: dict[int, int], opens: dict[int, int], others: dict[int, int]) -> dict[int, int]:
    """The first step at which each cell is reached: once it is open, and before any of the others reaches it."""
    steps, queue = {}, [(step, cell) for cell, step in starts.items()]
    while queue:
        step, cell = heapq.heappop(queue)
        if cell not in steps:
            steps[cell] = step
            for near in NEIGHBOUR[cell]:
                then = max(step + 1, opens.get(near, 0))
                if then < min(others.get(near, 99), 99):
                    heapq.heappush(queue, (then, near))
    return steps


def jidi_features(game: Game, snake: int) -> list[float]:
    """The original's 26 numbers; a snake of the right team sees the teams' numbers exchanged."""
    if not game.snakes[snake]:
        return [0.0] * JIDI_FEATURES
    own_team = snake // TEAM
    seen_as = {other: (other + own_team * TEAM) % SNAKES for other in range(SNAKES)}
    content = dict.fromkeys(game.beans, 1)
    for other in range(SNAKES):
        content.update(dict.fromkeys(game.snakes[other], seen_as[other] + 2))
    head = game.snakes[snake][0]
    row = [*row_col(head)]
    row += [content.get(cell, 0) for cell in NEIGHBOUR[head]]
    for bean in game.beans:
        row += row_col(bean)
    row += [0, 0] * (BEANS - len(game.beans))
    for other in sorted(range(SNAKES), key=seen_as.get):
        if other != snake:
            body = game.snakes[other]
            row += row_col(body[0]) if body else (0, 0)
    return [float(number) for number in row]


FEATURES = {"team": team_features, "jidi26": jidi_features}
