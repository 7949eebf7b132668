"""The games of others by name, and what of our options each of them has."""

from lib.errors import UserError
from lib.fields import FALSE_WORDS, TRUE_WORDS
from lib.omagd.foreign.game import Game
from lib.omagd.foreign.smac import SmacGame
from lib.omagd.foreign.smaclite import SmacliteGame
from lib.omagd.foreign.smacv2 import Smacv2Game
from lib.omagd.foreign.vec import ForeignVec

EMBEDDED = "embedded"
GAMES: dict[str, type[Game]] = {"smac": SmacGame, "smacv2": Smacv2Game, "smaclite": SmacliteGame}
# Names of the environments in the original's configurations.
OTHER_NAMES = {"sc2": "smac", "sc2_v2": "smacv2"}
ENVIRONMENTS = (EMBEDDED, *GAMES, *OTHER_NAMES)

# What the options of the embedded battles are in each game; one that is missing the game does not have.
OWN = {
    "smac": {"sight": 9.0, "tick_rate": 22.4, "reward": "smac_abs", "smac_type_bits": "raw"},
    "smacv2": {"tick_rate": 22.4, "smac_type_bits": "aligned"},
    "smaclite": {
        "sight": 9.0, "tick_rate": 16.0, "reward": "damage", "spawn_jitter": 0.0, "smac_type_bits": "aligned",
    },
}  # fmt: skip
# In place of the trainer's defaults, which are made for hundreds of thousands of steps a second.
DEFAULTS = {"batch_size_run": 8, "test_nepisode": 32, "final_nepisode": 32, "epsilon_anneal_time": 50_000}

ENEMIES = {
    EMBEDDED: "the enemies follow the project's script, which is not StarCraft II's bot",
    "smac": "the enemies are StarCraft II's built-in bot, difficulty {difficulty}",
    "smacv2": "the enemies are StarCraft II's built-in bot, difficulty {difficulty}",
    "smaclite": "the enemies follow SMAClite's script, which is not StarCraft II's bot",
}
DIFFICULTY = "7"  # unless it is given: that of SMAC, "very hard"


def enemies_of(env: str, arguments: dict) -> str:
    """Who is fought, for the words of a run."""
    return ENEMIES[env].format(difficulty=arguments.get("difficulty", DIFFICULTY))


def check_own_options(env: str, values: dict, explicit: frozenset) -> dict:
    """Of the embedded battles' options (`values`) what they are in the game; UserError for those it does not have."""
    own = OWN[env]
    for name in values:
        if name in explicit and name not in own:
            raise UserError(f"--{name}: --env {env} has no such option, it is one of the embedded battles; drop it")
        if name in explicit and values[name] != own[name]:
            raise UserError(f"--{name} {values[name]}: in --env {env} it is {own[name]} and cannot be chosen; drop it")
    return own


def read_arguments(env: str, text: str) -> dict:
    """The keywords of the game's own from `--env_args name=value,name=value`; UserError for those not taken."""
    known = GAMES[env].arguments if env in GAMES else {}
    found = {}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "it has none"
            raise UserError(f"--env_args {word}: --env {env} has no {name} that may be chosen here, {there}")
        try:
            found[name] = _value(known[name], value)
        except ValueError:
            kind = {bool: "true or false", float: "a number", str: "a text"}[known[name]]
            raise UserError(f"--env_args {word}: expected {name}={kind}") from None
    return found


def _value(kind: type, text: str):
    if not text or (kind is bool and text.lower() not in TRUE_WORDS + FALSE_WORDS):
        raise ValueError
    return text.lower() in TRUE_WORDS if kind is bool else kind(text)


def start_game(env: str, map_name: str, seed: int, arguments: dict) -> Game:
    """A game that has not begun. UserError where it, its map or StarCraft II is not there, or its layout is unknown."""
    return GAMES[env](map_name, seed=seed, **arguments)


def foreign_battles(env: str, map_name: str, num_battles: int, env_args: dict | None = None, **options) -> ForeignVec:
    """Environments of the game; `options` are those of `ForeignVec`."""
    return ForeignVec(lambda seed: start_game(env, map_name, seed, env_args or {}), num_battles, **options)
