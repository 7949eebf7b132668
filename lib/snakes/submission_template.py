"""A trained team for the game "3v3 snakes" of the Jidi platform: one file, numpy only.

Made by Quartet (scripts/export_snakes.py) from a trained policy. The platform calls my_controller once for each snake
and step. Two things are not in the state it passes, so that this file remembers them for each snake it controls:

- the step: calls since the last state whose last_direction is None, which is the first one of a game;
- the direction a snake looks: where its head came from, unless it was put down anew since the last call.
"""

import base64
import itertools
import zlib
from pathlib import Path

import numpy as np

CONFIG = {}
WEIGHTS = ""

HEIGHT, WIDTH, TEAM, SNAKES, BEANS, STEPS = 10, 20, 3, 6, 5, 200
TEAM_FEATURES, JIDI_FEATURES = 140, 26
RACE_LENGTH, RACE_STEPS = 6, 12
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right
OPPOSITE = (1, 0, 3, 2)
SIGHT = range(-3, 4)  # rows and columns of the window around the head
WINDOW = [(rows, columns) for rows in SIGHT for columns in SIGHT if (rows, columns) != (0, 0)]


def my_controller(observation, action_space=None, is_act_continuous=False):
    """The move of the snake observation["controlled_snake_index"] as [[one-hot of up, down, left, right]]."""
    action = PLAYER.act(observation)
    return [[int(move == action) for move in range(4)]]


class Player:
    """Plays with one set of weights; remembers step and bodies for each snake it was asked about."""

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.memories = {}

    def act(self, observation):
        """The move, 0 to 3, of the snake that the state belongs to."""
        controlled = int(observation["controlled_snake_index"]) - 2
        if observation.get("last_direction") is None or controlled not in self.memories:
            self.memories[controlled] = Memory()  # a new game
        memory, board = self.memories[controlled], Board(observation)
        first = controlled // TEAM * TEAM
        # Without communication a snake's move depends on its own features alone.
        team = range(first, first + TEAM) if self.config["comm"] == "lstm" else [controlled]
        for snake in team:
            memory.look(board, snake)
        make = team_features if self.config["features"] == "team" else jidi_features
        rows = np.array([make(board, snake, memory) for snake in team], dtype=np.float32)  # (snakes, features)
        moves = np.argmax(self.logits(rows), axis=-1)
        memory.step += 1
        memory.moves = {snake: int(move) for snake, move in zip(team, moves)}
        return memory.moves[controlled]

    def logits(self, rows):
        """(snakes, features) to (snakes, 4)."""
        last = max(int(name.split(".")[1]) for name in self.tensors if name.startswith("layers."))
        hidden = rows
        for layer in range(last):
            hidden = np.maximum(self.linear(layer, hidden), 0)
            if self.config["comm"] == "lstm":
                hidden = np.concatenate(
                    [self.lstm(hidden, ""), self.lstm(hidden[::-1], "_reverse")[::-1]], axis=-1
                )  # (snakes, 2 x hidden)
        logits = self.linear(last, hidden)
        if self.config["output"] == "tanh":
            logits = 5 * np.tanh(logits)
        if self.config["mask"] and self.config["features"] == "team":
            logits = logits - 4096 * (rows[:, 8:28:5] >= 0.9)
        return logits

    def linear(self, layer, inputs):
        return inputs @ self.tensors[f"layers.{layer}.weight"].T + self.tensors[f"layers.{layer}.bias"]

    def lstm(self, inputs, suffix):
        """One direction over the snakes, (snakes, hidden) to (snakes, hidden); gates in the order i, f, g, o."""
        by_input, by_state, bias_input, bias_state = (
            self.tensors[f"lstm.{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        state = cell = np.zeros(by_state.shape[1], dtype=np.float32)
        states = []
        for row in inputs:
            gates = by_input @ row + bias_input + by_state @ state + bias_state
            i, f, g, o = np.split(gates, 4)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            state = sigmoid(o) * np.tanh(cell)
            states.append(state)
        return np.stack(states)


def sigmoid(values):
    return 0.5 * (1 + np.tanh(0.5 * values))


class Memory:
    """What one controlled snake knows of the game so far."""

    def __init__(self):
        self.step = 0
        self.bodies = {}
        self.moves = {}
        self.directions = {}

    def look(self, board, snake):
        """Find where a snake looks, from its body and its last one."""
        body, before = board.bodies[snake], self.bodies.get(snake)
        if len(body) >= 2:
            self.directions[snake] = self.direction(body, before, snake)
        self.bodies[snake] = body

    def direction(self, body, before, snake):
        head, neck = body[0], body[1]
        moved = next((move for move in range(4) if step_to(neck, move) == head), 0)
        if before is None or self.has_moved(body, before, snake):
            return moved
        # Put down anew: the game compares head and neck without wrapping, so that across the edge it looks back.
        if head[0] == neck[0]:
            return 3 if head[1] > neck[1] else 2
        return 1 if head[0] > neck[0] else 0

    def has_moved(self, body, before, snake):
        """Whether `body` is `before` one step later, and not put down anew after a death."""
        if body[1:] not in (before, before[:-1]):
            return False
        move, looking = self.moves[snake], self.directions[snake]
        # A move straight back is replaced by a random one.
        return move == OPPOSITE[looking] or body[0] == step_to(before[0], move)


class Board:
    """One state: cells are (row, column), bodies head first, snakes 0 to 5."""

    def __init__(self, observation):
        self.beans = [tuple(cell) for cell in observation[1]]
        self.bodies = [[tuple(cell) for cell in observation[snake + 2]] for snake in range(SNAKES)]
        self.cells = {cell for body in self.bodies for cell in body}
        # A tail of the last step's end may be free again when the head arrives.
        self.solid = {cell for body in self.bodies for cell in (body[:-1] if len(body) > 1 else body)}

    def heads(self, snakes):
        return [self.bodies[snake][0] for snake in snakes if self.bodies[snake]]


def step_to(cell, move):
    return (cell[0] + MOVES[move][0]) % HEIGHT, (cell[1] + MOVES[move][1]) % WIDTH


def delta(cell, origin):
    """Rows and columns from origin to cell the short way round: -5..4 and -10..9."""
    rows = (cell[0] - origin[0] + HEIGHT // 2) % HEIGHT - HEIGHT // 2
    columns = (cell[1] - origin[1] + WIDTH // 2) % WIDTH - WIDTH // 2
    return rows, columns


def distance(cell, other):
    rows, columns = delta(cell, other)
    return abs(rows) + abs(columns)


def team_features(board, snake, memory):
    """The 140 numbers of a snake: itself, its moves, beans by distance, mates, enemies, the cells around its head, its
    target among the beans, the pockets behind its moves, and the races for room with the other heads."""
    body = board.bodies[snake]
    if not body:
        return [0.0] * TEAM_FEATURES
    first = snake // TEAM * TEAM
    own = range(first, first + TEAM)
    mates = [other for other in own if other != snake]
    enemies = [other for other in range(SNAKES) if other not in own]
    head, near, far = body[0], board.heads(mates), board.heads(enemies)
    lead = sum(len(board.bodies[other]) for other in own) - sum(len(board.bodies[other]) for other in enemies)
    row = [float(memory.directions[snake] == move) for move in range(4)]
    row += [len(body) / 20, memory.step / STEPS, lead / 20, (len(body) - 3) / 10]
    for move in range(4):
        cell = step_to(head, move)
        row.append(1.0 if cell in board.solid else 0.5 if cell in board.cells else 0.0)
        row.append(float(cell in board.beans))
        row.append(sum(step_to(cell, onward) not in board.cells for onward in range(4)) / 4)
        row.append(float(sum(distance(cell, other) == 1 for other in far)))
        row.append(float(sum(distance(cell, other) == 1 for other in near)))
    for bean in sorted(board.beans, key=lambda bean: distance(bean, head)):
        rows, columns = delta(bean, head)
        away = abs(rows) + abs(columns)
        row += [rows / 5, columns / 10, away / 15]
        row.append(float(any(distance(bean, other) < away for other in near)))
        row.append(float(any(distance(bean, other) <= away for other in far)))
    row += [0.0, 0.0, 1.0, 0.0, 0.0] * (BEANS - len(board.beans))
    for other in mates + enemies:
        if board.bodies[other]:
            rows, columns = delta(board.bodies[other][0], head)
            row += [rows / 5, columns / 10, len(board.bodies[other]) / 20]
        else:
            row += [0.0, 0.0, 0.0]
    for rows, columns in WINDOW:
        row.append(float(((head[0] + rows) % HEIGHT, (head[1] + columns) % WIDTH) in board.cells))
    return row + target_features(board, snake) + pocket_features(board, snake) + race_features(board, snake)


def targets(board, team):
    """The place in the list of beans of each snake's target; places beyond the list stand for missing beans."""
    own = range(TEAM * team, TEAM * team + TEAM)
    away = [
        [distance(body[0], bean) if body else 31 for bean in board.beans] for body in board.bodies
    ]  # an empty body is far from everything
    costs = []
    for snake in own:
        enemies = [
            min(away[other][place] for other in range(SNAKES) if other not in own) for place in range(len(board.beans))
        ]
        cost = [mine + (8 if enemy < mine else 4 if enemy == mine else 0) for mine, enemy in zip(away[snake], enemies)]
        costs.append(cost + [100] * (BEANS - len(cost)))
    shares = itertools.permutations(range(BEANS), TEAM)  # in ascending order: the first of equals is taken
    return min(shares, key=lambda places: sum(cost[place] for cost, place in zip(costs, places)))


def target_features(board, snake):
    """Moves toward the target, where it lies, and whether an enemy is as near."""
    place = targets(board, snake // TEAM)[snake % TEAM]
    if place >= len(board.beans):
        return [0.0] * 6 + [1.0, 0.0]
    bean, head = board.beans[place], board.bodies[snake][0]
    rows, columns = delta(bean, head)
    away = abs(rows) + abs(columns)
    first = (1 - snake // TEAM) * TEAM
    contested = any(distance(bean, other) <= away for other in board.heads(range(first, first + TEAM)))
    toward = [float(distance(bean, step_to(head, move)) < away) for move in range(4)]
    return toward + [rows / 5, columns / 10, away / 15, float(contested)]


def closed_cells(board):
    """The cells with a segment but for tails that leave: those of snakes that cannot eat."""
    closed = set(board.cells)
    for body in board.bodies:
        if body and not stays(board, body):
            closed.discard(body[-1])
    return closed


def stays(board, body):
    """Whether the tail of a snake may stay: there is a bean beside its head."""
    return any(step_to(body[0], move) in board.beans for move in range(4))


def around(cells):
    """The neighbours of some cells."""
    return {step_to(cell, move) for cell in cells for move in range(4)}


def pocket_features(board, snake):
    """For each move the missing share of the room wanted behind it, own tail at that pocket, any tail at it."""
    closed = closed_cells(board)
    wanted = len(board.bodies[snake]) + 2
    shares, own, others = [1.0] * 4, [0.0] * 4, [0.0] * 4
    for move in range(4):
        start = step_to(board.bodies[snake][0], move)
        if start in closed:
            continue
        pocket, edge = {start}, [start]
        while edge and len(pocket) < wanted:
            edge = around(edge) - closed - pocket
            pocket |= edge
        shares[move] = max(wanted - len(pocket), 0) / wanted
        if shares[move]:
            near = pocket | around(pocket)
            own[move] = float(board.bodies[snake][-1] in near)
            others[move] = float(any(body and body[-1] in near for body in board.bodies))
    return shares + own + others


def race_features(board, snake):
    """For each move how soon a snake of some length may be shut in: all heads spread over the open cells, the others
    first, while the bodies leave a cell a step."""
    if len(board.bodies[snake]) < RACE_LENGTH:
        return [0.0] * 4
    heads = set(board.heads(other for other in range(SNAKES) if other != snake))
    bodies = [(body, stays(board, body)) for body in board.bodies if body]
    shares = [1.0] * 4
    for move in range(4):
        start = step_to(board.bodies[snake][0], move)
        closed = closed_cells(board)
        if start not in closed:
            own, others = {start}, heads | around(heads) - closed
            shares[move] = 0.0
            for step in range(2, RACE_STEPS + 1):
                closed -= {body[-left] for body, late in bodies if (left := step - late) < len(body)}
                others = others | around(others) - closed
                own = own | around(own) - closed - others
                if len(own) < step:
                    shares[move] = (RACE_STEPS + 1 - step) / RACE_STEPS
                    break
    return shares


def jidi_features(board, snake, memory):
    """The 26 numbers of the platform's example; a snake of the right team sees the teams' numbers exchanged."""
    body = board.bodies[snake]
    if not body:
        return [0.0] * JIDI_FEATURES
    order = [*range(TEAM, SNAKES), *range(TEAM)] if snake >= TEAM else list(range(SNAKES))
    names = {cell: 2 + order.index(other) for other in range(SNAKES) for cell in board.bodies[other]}
    names.update(dict.fromkeys(board.beans, 1))
    row = [*body[0], *(names.get(step_to(body[0], move), 0) for move in range(4))]
    for bean in board.beans:
        row += bean
    row += [0] * (2 * (BEANS - len(board.beans)))
    for other in order:
        if other != snake:
            row += board.bodies[other][0] if board.bodies[other] else (0, 0)
    return [float(number) for number in row]


def read_tensors():
    """The weights by name: from this file, or from the file beside it that CONFIG names."""
    if CONFIG.get("weights_file"):
        numbers = np.load(Path(__file__).resolve().parent / CONFIG["weights_file"], allow_pickle=False)
    else:
        numbers = np.frombuffer(zlib.decompress(base64.b64decode(WEIGHTS)), dtype="<f4").astype(np.float32)
    tensors, start = {}, 0
    for name, shape in CONFIG["tensors"]:
        size = int(np.prod(shape))
        tensors[name] = numbers[start : start + size].reshape(shape)
        start += size
    return tensors


# Filled in by the export; as it stands in the package this file is only the template.
PLAYER = Player(CONFIG, read_tensors()) if CONFIG else None
