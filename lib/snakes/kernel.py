"""The Warp kernels of the batched game; one thread is one game, and `step_kernel` does everything a step needs.

`GameArrays` holds every array and setting, so that a launch has one argument and can be recorded once.
"""

import warp as wp

from lib.snakes.bots import evasion_choice, greedy_choice, level3_choice, random_choice, single_choice
from lib.snakes.bots_hunter import hunter_choice
from lib.snakes.features_jidi import write_jidi
from lib.snakes.features_tables import DELTAS, FACTS
from lib.snakes.features_team import vec4f, write_team
from lib.snakes.kernel_board import EPISODE, KEY_A, KEY_B, LENGTH, OVER, PLACES, STEP, WORDS
from lib.snakes.kernel_rules import new_game, play_step
from lib.snakes.noise import EXPLORE
from lib.snakes.rules import CONTROLLERS, FEATURES, SNAKES, START_LENGTH, TEAM
from lib.warp_noise import bounded, draw, uniform

# Rolled loops compile twice as fast and run faster on CPU; there is nothing to differentiate.
wp.set_module_options({"max_unroll": 1, "enable_backward": False})

RANDOM = CONTROLLERS["random"]
LEVEL1 = CONTROLLERS["level1"]
GREEDY = CONTROLLERS["greedy"]
LEVEL3 = CONTROLLERS["level3"]
LEVEL4 = CONTROLLERS["level4"]
EVASION = CONTROLLERS["evasion"]
HUNTER = CONTROLLERS["hunter"]

NO_FEATURES, TEAM_FEATURES, JIDI_FEATURES = 0, 1, 2
FEATURE_KINDS = {"none": NO_FEATURES, "team": TEAM_FEATURES, "jidi26": JIDI_FEATURES}
TEAM_COUNT = FEATURES["team"]
JIDI_COUNT = FEATURES["jidi26"]

SCRATCH = 1024
CODE_BYTES = wp.constant(wp.uint64(PLACES))
NEIGHBOURS = PLACES * 8
MASKED = 2048.0
"""Moves whose logit is this far below the best are never explored."""


@wp.struct
class GameArrays:
    """Everything a launch needs; shapes in `game.py`. [games, ...] unless it is a table.

    logits [games * teams * 3, 4] and choice (epsilon, 1 for sampling) belong to `choose_kernel`.
    """

    words: wp.array2d(dtype=int)
    codes: wp.array2d(dtype=wp.uint8)
    scratch: wp.array2d(dtype=wp.int16)
    controllers: wp.array2d(dtype=int)
    sides: wp.array(dtype=int)
    actions: wp.array2d(dtype=int)
    rewards: wp.array2d(dtype=float)
    deaths: wp.array2d(dtype=wp.uint8)
    ate: wp.array2d(dtype=wp.uint8)
    done: wp.array(dtype=wp.uint8)
    scores: wp.array2d(dtype=int)
    final_scores: wp.array2d(dtype=int)
    logits: wp.array2d(dtype=float)
    choice: wp.array(dtype=float)
    features: wp.array2d(dtype=float)
    final_features: wp.array2d(dtype=float)
    neighbours: wp.array(dtype=wp.int16)
    deltas: wp.array(dtype=int)
    facts: wp.array(dtype=vec4f)
    seed_first: wp.uint32
    seed_second: wp.uint32
    first_game: int
    steps: int
    autoreset: int
    kind: int
    both: int
    keep_final: int


@wp.func
def words_of(arrays: GameArrays, game: int) -> wp.array(dtype=int):
    """The 64 words of a game; a fixed shape makes every index a constant."""
    return wp.array(ptr=arrays.words.ptr + wp.uint64(game) * wp.uint64(4 * WORDS), shape=(WORDS,), dtype=int)


@wp.func
def codes_of(arrays: GameArrays, game: int) -> wp.array(dtype=wp.uint8):
    """The 320 codes of a game."""
    return wp.array(ptr=arrays.codes.ptr + wp.uint64(game) * CODE_BYTES, shape=(PLACES,), dtype=wp.uint8)


@wp.func
def neighbours_of(arrays: GameArrays) -> wp.array(dtype=wp.int16):
    """The neighbour table with its shape fixed."""
    return wp.array(ptr=arrays.neighbours.ptr, shape=(NEIGHBOURS,), dtype=wp.int16)


@wp.func
def integers_of(rows: wp.array2d(dtype=int), game: int) -> wp.array(dtype=int):
    """One number per snake of a game."""
    return wp.array(ptr=rows.ptr + wp.uint64(game) * wp.uint64(4 * SNAKES), shape=(SNAKES,), dtype=int)


@wp.func
def choose_actions(
    arrays: GameArrays,
    words: wp.array(dtype=int),
    codes: wp.array(dtype=wp.uint8),
    neighbours: wp.array(dtype=wp.int16),
    actions: wp.array(dtype=int),
    game: int,
):
    """The actions of the scripted teams."""
    for team in range(2):
        player = arrays.controllers[game, team]
        if player == GREEDY:
            greedy_choice(words, neighbours, team, actions)
        elif player == RANDOM:
            random_choice(words, team, actions)
        elif player == LEVEL1:
            single_choice(words, neighbours, team, actions, 0)
        elif player == LEVEL3:
            level3_choice(words, neighbours, team, actions)
        elif player == LEVEL4:
            single_choice(words, neighbours, team, actions, 1)
        elif player == EVASION:
            evasion_choice(words, neighbours, team, actions)
        elif player == HUNTER:
            scratch = wp.array(
                ptr=arrays.scratch.ptr + wp.uint64(game) * wp.uint64(2 * SCRATCH), shape=(SCRATCH,), dtype=wp.int16
            )
            hunter_choice(words, codes, neighbours, scratch, team, actions)


@wp.func
def write_features(
    words_at: wp.uint64,
    codes_at: wp.uint64,
    neighbours_at: wp.uint64,
    deltas_at: wp.uint64,
    facts_at: wp.uint64,
    kind: int,
    both: int,
    side: int,
    rows_at: wp.uint64,
):
    """The features of the observed teams of one game.

    Addresses, because this function is too large to be put into the kernels, and what is handed over is copied: with
    the arrays as they are that would take a third of the time of a step.
    """
    words = wp.array(ptr=words_at, shape=(WORDS,), dtype=int)
    codes = wp.array(ptr=codes_at, shape=(PLACES,), dtype=wp.uint8)
    neighbours = wp.array(ptr=neighbours_at, shape=(NEIGHBOURS,), dtype=wp.int16)
    count = wp.where(kind == TEAM_FEATURES, TEAM_COUNT, JIDI_COUNT)
    for index in range(1 + both):
        team = wp.where(both != 0, index, side & 1)
        address = rows_at + wp.uint64(index) * wp.uint64(4 * TEAM * count)
        if kind == TEAM_FEATURES:
            deltas = wp.array(ptr=deltas_at, shape=(DELTAS + 256,), dtype=int)
            facts = wp.array(ptr=facts_at, shape=(FACTS,), dtype=vec4f)
            out = wp.array(ptr=address, shape=(TEAM * TEAM_COUNT,), dtype=float)
            write_team(words, codes, neighbours, deltas, facts, team, out)
        else:
            row = wp.array(ptr=address, shape=(TEAM * JIDI_COUNT,), dtype=float)
            write_jidi(words, codes, neighbours, team, row)


@wp.func
def write_seen(arrays: GameArrays, game: int, features: wp.uint64):
    """The features of a game into the array that begins at the address `features`."""
    count = wp.where(arrays.kind == TEAM_FEATURES, TEAM_COUNT, JIDI_COUNT)
    write_features(
        arrays.words.ptr + wp.uint64(game) * wp.uint64(4 * WORDS),
        arrays.codes.ptr + wp.uint64(game) * CODE_BYTES,
        arrays.neighbours.ptr,
        arrays.deltas.ptr,
        arrays.facts.ptr,
        arrays.kind,
        arrays.both,
        arrays.sides[game],
        features + wp.uint64(game * (1 + arrays.both)) * wp.uint64(4 * TEAM * count),
    )


@wp.func
def write_outcome(arrays: GameArrays, words: wp.array(dtype=int), game: int, dead: int, eaten: int, done: int):
    """Deaths, beans eaten, scores and the end of the game of this step."""
    scores = integers_of(arrays.scores, game)
    deaths = wp.array(ptr=arrays.deaths.ptr + wp.uint64(game * SNAKES), shape=(SNAKES,), dtype=wp.uint8)
    ate = wp.array(ptr=arrays.ate.ptr + wp.uint64(game * SNAKES), shape=(SNAKES,), dtype=wp.uint8)
    for snake in range(SNAKES):
        scores[snake] = words[LENGTH + snake] - START_LENGTH
        deaths[snake] = wp.uint8((dead >> snake) & 1)
        ate[snake] = wp.uint8((eaten >> snake) & 1)
    arrays.done[game] = wp.uint8(done)


@wp.kernel
def step_kernel(arrays: GameArrays):
    """One step of every game: scripted choices, rules, the end of games, features."""
    game = wp.tid()
    words = words_of(arrays, game)
    codes = codes_of(arrays, game)
    neighbours = neighbours_of(arrays)
    actions = integers_of(arrays.actions, game)
    rewards = wp.array(ptr=arrays.rewards.ptr + wp.uint64(game) * wp.uint64(4 * SNAKES), shape=(SNAKES,), dtype=float)
    if words[OVER] != 0:
        for snake in range(SNAKES):
            rewards[snake] = 0.0
        write_outcome(arrays, words, game, 0, 0, 1)
        return
    choose_actions(arrays, words, codes, neighbours, actions, game)
    dead, eaten, done = play_step(words, codes, neighbours, actions, rewards, arrays.steps)
    write_outcome(arrays, words, game, dead, eaten, done)
    if done != 0:
        final_scores = integers_of(arrays.final_scores, game)
        for snake in range(SNAKES):
            final_scores[snake] = words[LENGTH + snake] - START_LENGTH
        if arrays.keep_final != 0:
            write_seen(arrays, game, arrays.final_features.ptr)
        if arrays.autoreset != 0:
            words[EPISODE] = words[EPISODE] + 1
            new_game(words, codes, neighbours, arrays.seed_first, arrays.seed_second, arrays.first_game + game)
        else:
            words[OVER] = 1
    if arrays.kind != NO_FEATURES:
        write_seen(arrays, game, arrays.features.ptr)


@wp.kernel
def refresh_kernel(arrays: GameArrays):
    """The features of every game as it stands."""
    game = wp.tid()
    if arrays.kind != NO_FEATURES:
        write_seen(arrays, game, arrays.features.ptr)


@wp.kernel
def reset_kernel(arrays: GameArrays):
    """A new game everywhere; a slot whose game has begun goes on to its next episode."""
    game = wp.tid()
    words = words_of(arrays, game)
    if words[STEP] != 0:
        words[EPISODE] = words[EPISODE] + 1
    neighbours = neighbours_of(arrays)
    codes = codes_of(arrays, game)
    new_game(words, codes, neighbours, arrays.seed_first, arrays.seed_second, arrays.first_game + game)
    write_outcome(arrays, words, game, 0, 0, 0)
    if arrays.kind != NO_FEATURES:
        write_seen(arrays, game, arrays.features.ptr)


@wp.kernel
def choose_kernel(arrays: GameArrays):
    """Actions of the observed external teams from `logits`; noise of the stream EXPLORE."""
    epsilon = arrays.choice[0]
    sample = int(arrays.choice[1])
    game = wp.tid()
    words = words_of(arrays, game)
    a = wp.uint32(words[KEY_A])
    b = wp.uint32(words[KEY_B])
    step = words[STEP]
    for index in range((1 + arrays.both) * TEAM):
        team = wp.where(arrays.both != 0, index // TEAM, arrays.sides[game] & 1)
        if arrays.controllers[game, team] == 0:
            snake = TEAM * team + index % TEAM
            row = game * (1 + arrays.both) * TEAM + index
            move = best_move(arrays.logits, row, a, b, step, snake, sample)
            if sample != 0 and epsilon > 0.0 and uniform(draw(a, b, EXPLORE, step, 8 * snake + 4)) < epsilon:
                move = any_move(arrays.logits, row, draw(a, b, EXPLORE, step, 8 * snake + 5))
            arrays.actions[game, snake] = move


@wp.func
def best_move(
    logits: wp.array2d(dtype=float), row: int, a: wp.uint32, b: wp.uint32, step: int, snake: int, sample: int
) -> int:
    """The first largest logit, with Gumbel noise when sampling."""
    move = int(0)
    best = float(0.0)
    for k in range(4):
        value = float(logits[row, k])
        if sample != 0:
            value = value - wp.log(-wp.log(uniform(draw(a, b, EXPLORE, step, 8 * snake + k))))
        if k == 0 or value > best:
            best = value
            move = k
    return move


@wp.func
def any_move(logits: wp.array2d(dtype=float), row: int, word: wp.uint32) -> int:
    """Uniform among the moves whose logit is not MASKED below the best."""
    best = wp.max(wp.max(logits[row, 0], logits[row, 1]), wp.max(logits[row, 2], logits[row, 3]))
    allowed = int(0)
    for k in range(4):
        if logits[row, k] > best - MASKED:
            allowed += 1
    wanted = bounded(word, allowed)
    move = int(0)
    for k in range(4):
        if logits[row, k] > best - MASKED:
            if wanted == 0:
                move = k
            wanted -= 1
    return move
