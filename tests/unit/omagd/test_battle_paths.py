"""Ways around walls: the table against a search in plain Python, where it leads, and enemies that follow it."""

import numpy as np
import pytest
import torch
from reference_ways import ways_on

from lib.omagd.battle.arrays import DEAD_ALLIES
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import NO_OP, STOP
from lib.omagd.battle.maps import MAPS
from lib.omagd.battle.paths import CELLS, STRAIGHT, corner_cells, free_lines, turns
from lib.omagd.battle.terrain import TERRAINS, WALLED, WIDTH, walkable


def cell_of(number: int) -> tuple[int, int]:
    return number % WIDTH, number // WIDTH


@pytest.mark.parametrize("name", WALLED)
def test_the_table_is_that_of_a_plain_search(name):
    table, ways = turns(name).reshape(CELLS, CELLS), ways_on(name)
    rng = np.random.default_rng(3)
    cells = np.flatnonzero(np.array(walkable(name)).reshape(-1))
    bends = 0
    for goal in [*rng.choice(cells, 6, replace=False), int(rng.choice(np.setdiff1d(np.arange(CELLS), cells)))]:
        for here in range(CELLS):
            corner = ways.first_corner(cell_of(here), cell_of(int(goal)))
            wanted = STRAIGHT if corner is None else corner[1] * WIDTH + corner[0]
            assert table[here, goal] == wanted, (cell_of(here), cell_of(int(goal)))
            bends += corner is not None
    assert bends > 300


@pytest.mark.parametrize("name", WALLED)
def test_every_way_ends_at_its_goal(name):
    """Corner after corner, from everywhere to everywhere; the first is never where the unit stands."""
    free = np.array(walkable(name)).reshape(-1)
    table, lines, cells = turns(name).reshape(CELLS, CELLS), free_lines(free), np.flatnonzero(free)
    here, goal = np.repeat(cells, len(cells)), np.tile(cells, len(cells))
    for _ in range(10):
        corner = table[here, goal]
        arrived = lines[here, goal]
        assert np.array_equal(corner == STRAIGHT, arrived)
        if arrived.all():
            break
        here, goal, corner = here[~arrived], goal[~arrived], corner[~arrived]
        assert lines[here, corner].all() and not (here == corner).any()
        here = corner
    assert arrived.all()


def test_grounds_without_a_table_need_none():
    """Every row and column of theirs is without a gap, and no corner is deeper than a step of their round edges."""
    for name in set(TERRAINS) - set(WALLED):
        cells = np.array(walkable(name))
        for lines in (cells, cells.T):
            for line in lines[lines.any(1)]:
                free = np.flatnonzero(line)
                assert free[-1] - free[0] + 1 == len(free), name
        for cell in corner_cells(cells):
            x, y = cell_of(cell)
            near = cells[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
            assert near.sum() >= near.size - 1, (name, x, y)


@pytest.mark.parametrize("name", sorted(set(MAPS) - {"2s_vs_1sc"}))
def test_enemies_come_to_allies_that_stand(name):
    """None stays behind a wall: within the limit of the map they have killed all that they can hit."""
    battles = BattleVec(name, 2, seed=1, autoreset=False)
    while not battles.done.all():
        battles.actions.copy_(torch.where(battles.avail[..., STOP] != 0, STOP, NO_OP))
        battles.step()
    healers = sum(unit.heals for unit in MAPS[name].units[: MAPS[name].n_agents])  # left alone, they have lost
    assert (battles.info[:, DEAD_ALLIES] >= MAPS[name].n_agents - healers).all()
