"""Battles by the name of their environment: the embedded ones, or those of a game of others."""

from collections.abc import Callable

from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import find_map
from lib.omagd.foreign.choose import EMBEDDED, foreign_battles, start_game
from lib.omagd.foreign.vec import ForeignVec

Battles = BattleVec | ForeignVec


def layout_and_limit(env: str, map_name: str, env_args: dict) -> tuple[Layout, int]:
    """What agents are told on a map, and its limit in steps; nothing is started. UserError where there is no such."""
    if env == EMBEDDED:
        battle_map = find_map(map_name)
        return Layout.of(battle_map), battle_map.limit
    game = start_game(env, map_name, 0, env_args)
    game.close()
    return game.layout, game.map.limit


def make_battles(
    env: str,
    map_name: str,
    num_battles: int,
    *,
    begin: bool = True,
    strict: bool = False,
    log: Callable[[str], None] = print,
    **options,
) -> Battles:
    """Many battles of a map. `options`: device, seed, first_battle, autoreset and those of the environment.

    begin, strict, log: see `ForeignVec`; the embedded battles always begin and do not fail.
    """
    if env == EMBEDDED:
        return BattleVec(map_name, num_battles, **options)
    return foreign_battles(env, map_name, num_battles, begin=begin, strict=strict, log=log, **options)
