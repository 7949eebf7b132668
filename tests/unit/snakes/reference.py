"""The rules of 3v3 snakes in plain Python, to measure the kernel against; nothing outside tests and benchmarks uses it.

Written from the rules, not from the kernel: lists of cells, sets, a real breadth-first search for the respawn. A cell
is row * WIDTH + col; a body is a list of cells, head first; moves and directions are 0 up, 1 down, 2 left, 3 right.
The random numbers come from `reference_noise.Noise`, or from any stand-in with the same methods.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

HEIGHT, WIDTH, CELLS, SNAKES, TEAM, BEANS, STEPS = 10, 20, 200, 6, 3, 5, 200
UP, DOWN, LEFT, RIGHT = 0, 1, 2, 3
OPPOSITE = (DOWN, UP, RIGHT, LEFT)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
START_LENGTH = 3


def cell_of(row: int, col: int) -> int:
    """The cell of a row and a column, both wrapped: the board is a torus."""
    return row % HEIGHT * WIDTH + col % WIDTH


def row_col(cell: int) -> tuple[int, int]:
    """Row and column of a cell."""
    return cell // WIDTH, cell % WIDTH


NEIGHBOUR = [[cell_of(cell // WIDTH + d_row, cell % WIDTH + d_col) for d_row, d_col in MOVES] for cell in range(CELLS)]


@dataclass
class StepResult:
    """What one step gave: one entry a snake."""

    rewards: list[int]
    deaths: list[bool]
    ate: list[bool]
    done: bool


@dataclass
class Game:
    """One game. `events` counts what was met, for tests that must not pass without having met it."""

    snakes: list[list[int]]
    beans: list[int]
    directions: list[int]
    last_directions: list[int] | None = None
    step_count: int = 0
    episode_steps: int = STEPS
    no_place: bool = False
    events: Counter = field(default_factory=Counter)

    @property
    def scores(self) -> list[int]:
        return [len(body) - START_LENGTH for body in self.snakes]

    def team_score(self, team: int) -> int:
        return sum(self.scores[team * TEAM : (team + 1) * TEAM])

    def free_cells(self) -> list[int]:
        """Cells without a snake and without a bean, in scan order."""
        taken = set(self.beans).union(*self.snakes)
        return [cell for cell in range(CELLS) if cell not in taken]


def new_game(noise, episode_steps: int = STEPS) -> Game:
    """Six snakes laid in order, each redrawn until its three cells are free, then five beans."""
    snakes: list[list[int]] = []
    directions = []
    taken: set[int] = set()
    for _ in range(SNAKES):
        body = None
        while body is None or not taken.isdisjoint(body):
            direction, row, col = noise.reset(4), noise.reset(HEIGHT), noise.reset(WIDTH)
            d_row, d_col = MOVES[direction]
            body = [cell_of(row + k * d_row, col + k * d_col) for k in (2, 1, 0)]
        taken.update(body)
        snakes.append(body)
        directions.append(direction)
    game = Game(snakes, [], directions, episode_steps=episode_steps)
    refill_beans(game, lambda placed, free: noise.reset(free))
    return game


def step(game: Game, actions: list[int], noise) -> StepResult:
    """Play one step in place: move, collide, punish, remove, respawn, refill, count."""
    ate = [False] * SNAKES
    game.last_directions = list(game.directions)
    for snake in range(SNAKES):
        ate[snake] = _move(game, snake, actions[snake], noise)
    deaths = _collisions(game.snakes)
    rewards = []
    for snake in range(SNAKES):
        reward = int(ate[snake])
        if deaths[snake]:
            reward += START_LENGTH - len(game.snakes[snake])
        rewards.append(reward)
    _count_deaths(game, ate, deaths)
    for snake in range(SNAKES):
        if deaths[snake]:
            game.snakes[snake] = []
    for snake in range(SNAKES):
        if deaths[snake]:
            _place_again(game, snake)
    refill_beans(game, lambda placed, free: noise.bean(game.step_count, placed, free))
    game.step_count += 1
    return StepResult(rewards, deaths, ate, is_done(game))


def is_done(game: Game) -> bool:
    """Time is up, the board is full, or a dead snake found no place."""
    full = BEANS + sum(map(len, game.snakes)) > CELLS
    game.events["board_full"] += full
    return game.step_count >= game.episode_steps or full or game.no_place


def _move(game: Game, snake: int, action: int, noise) -> bool:
    """Advance one snake; whether it ate. A reversing action becomes one of the three others at random."""
    direction = game.directions[snake]
    if action == OPPOSITE[direction]:
        others = [move for move in range(4) if move != action]
        action = others[noise.reversal(game.step_count, snake)]
        game.events["reversal"] += 1
    game.directions[snake] = action
    body = game.snakes[snake]
    head = NEIGHBOUR[body[0]][action]
    body.insert(0, head)
    if head in game.beans:
        game.beans.remove(head)
        return True
    body.pop()
    return False


def _collisions(snakes: list[list[int]]) -> list[bool]:
    """Who dies: a head whose cell holds any other segment, of whichever snake."""
    segments = Counter(cell for body in snakes for cell in body)
    return [bool(body) and segments[body[0]] > 1 for body in snakes]


def _count_deaths(game: Game, ate: list[bool], deaths: list[bool]) -> None:
    heads = Counter(body[0] for body in game.snakes if body)
    for snake in range(SNAKES):
        if not deaths[snake]:
            continue
        body = game.snakes[snake]
        game.events["death"] += 1
        game.events["death_after_eating"] += ate[snake]
        game.events["head_to_head"] += heads[body[0]] > 1
        game.events["self_collision"] += body[0] in body[1:]
        game.events["long_death"] += len(body) > 2 * START_LENGTH


def _place_again(game: Game, snake: int) -> None:
    """Respawn one dead snake among all that lives, that was respawned before it, and the beans."""
    found = find_place(set(game.beans).union(*game.snakes))
    game.events["respawn"] += 1
    if found is None:
        game.no_place = True
        game.events["quirk_c"] += 1
        return
    body, direction = found
    game.snakes[snake] = body
    game.directions[snake] = direction
    game.events["quirk_a"] += body[2] not in NEIGHBOUR[body[1]]
    game.events["quirk_b"] += NEIGHBOUR[body[0]][direction] == body[1]


def find_place(occupied: set[int]) -> tuple[list[int], int] | None:
    """Body and direction of a respawned snake; None where no three connected cells are free.

    Breadth-first from the first free cell in scan order, neighbours right, down, up, left. Cells are marked when they
    are pushed; the start is not, so it can be pushed once more and is then ignored. The marks of a component that was
    too small stay, which changes nothing for the others.
    """
    marked = [cell in occupied for cell in range(CELLS)]
    for start in range(CELLS):
        if marked[start]:
            continue
        queue = deque([start])
        found: list[int] = []
        while queue and len(found) < START_LENGTH:
            cell = queue.popleft()
            if cell not in found:
                found.append(cell)
            for move in (RIGHT, DOWN, UP, LEFT):
                neighbour = NEIGHBOUR[cell][move]
                if not marked[neighbour]:
                    marked[neighbour] = True
                    queue.append(neighbour)
        if len(found) == START_LENGTH:
            return _arranged(found)
    return None


def _arranged(found: list[int]) -> tuple[list[int], int]:
    """Swap the first two when the first is the corner; the direction by coordinates, blind to the wrap (quirk b)."""
    (row_0, col_0), (row_1, col_1), (row_2, col_2) = map(row_col, found)
    body = list(found)
    if (row_0, col_0) in ((row_1, col_2), (row_2, col_1)):
        body[0], body[1] = body[1], body[0]
    (head_row, head_col), (neck_row, neck_col) = row_col(body[0]), row_col(body[1])
    if head_row == neck_row:
        return body, RIGHT if head_col > neck_col else LEFT
    return body, DOWN if head_row > neck_row else UP


def refill_beans(game: Game, draw) -> None:
    """Append beans on uniform free cells until there are five, or no free cell is left.

    draw(j, n): a number 0 .. n-1 for the j-th bean placed now.
    """
    placed = 0
    while len(game.beans) < BEANS:
        free = game.free_cells()
        if not free:
            return
        game.beans.append(free[draw(placed, len(free))])
        placed += 1
