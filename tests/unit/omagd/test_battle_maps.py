"""Maps, grounds and widths: equal to SMAC's published ones."""

import pytest

from lib.errors import UserError
from lib.omagd.battle import terrain
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS, find_map, off_ground

# Map: agents, enemies, limit, widths of observation and state, actions, nodes, width of a node.
SHAPES = {
    "3m": (3, 3, 60, 30, 48, 9, 6, 9),
    "8m": (8, 8, 120, 80, 168, 14, 16, 9),
    "25m": (25, 25, 150, 250, 950, 31, 50, 9),
    "5m_vs_6m": (5, 6, 70, 55, 98, 12, 11, 9),
    "8m_vs_9m": (8, 9, 120, 85, 179, 15, 17, 9),
    "10m_vs_11m": (10, 11, 150, 105, 243, 17, 21, 9),
    "27m_vs_30m": (27, 30, 180, 285, 1170, 36, 57, 9),
    "MMM": (10, 10, 150, 160, 290, 16, 20, 12),
    "MMM2": (10, 12, 180, 176, 322, 18, 22, 12),
    "2s3z": (5, 5, 120, 80, 120, 11, 10, 12),
    "3s5z": (8, 8, 150, 128, 216, 14, 16, 12),
    "3s5z_vs_3s6z": (8, 9, 170, 136, 230, 15, 17, 12),
    "3s_vs_3z": (3, 3, 150, 36, 54, 9, 6, 10),
    "3s_vs_4z": (3, 4, 200, 42, 61, 10, 7, 10),
    "3s_vs_5z": (3, 5, 250, 48, 68, 11, 8, 10),
    "1c3s5z": (9, 9, 180, 162, 270, 15, 18, 13),
    "2m_vs_1z": (2, 1, 150, 16, 26, 7, 3, 9),
    "2s_vs_1sc": (2, 1, 300, 17, 27, 7, 3, 10),
    "6h_vs_8z": (6, 8, 150, 78, 140, 14, 14, 9),
    "corridor": (6, 24, 400, 156, 282, 30, 30, 10),
    "2c_vs_64zg": (2, 64, 400, 332, 342, 70, 66, 10),
    "bane_vs_bane": (24, 24, 200, 336, 984, 30, 48, 11),
    "so_many_baneling": (7, 32, 100, 202, 397, 38, 39, 10),
}


def test_every_map_has_the_published_shapes():
    assert set(SHAPES) == set(MAPS)
    for name, expected in SHAPES.items():
        battle_map, layout = MAPS[name], Layout.of(MAPS[name])
        info = layout.env_info(battle_map)
        found = (
            info["n_agents"], info["n_enemies"], info["episode_limit"], info["obs_shape"], info["state_shape"],
            info["n_actions"], layout.n_nodes, layout.node_width,
        )  # fmt: skip
        assert found == expected, name
        moves, (n_e, f_e), (n_a, f_a), own = info["obs_component"]
        assert moves + n_e * f_e + n_a * f_a + own == info["obs_shape"]
        assert sum(count * width for count, width in info["state_component"]) == info["state_shape"]


def test_units_start_on_their_ground_and_apart():
    for battle_map in MAPS.values():
        assert off_ground(battle_map) == [], battle_map.name
        for one, first in enumerate(battle_map.spawns):
            for other in range(one):
                second = battle_map.spawns[other]
                away = ((first[0] - second[0]) ** 2 + (first[1] - second[1]) ** 2) ** 0.5
                both = battle_map.units[one].radius + battle_map.units[other].radius
                layers = battle_map.units[one].flies == battle_map.units[other].flies
                assert away > both or not layers, (battle_map.name, one, other)


def test_armies_are_ordered_by_type():
    assert [unit.name for unit in MAPS["MMM2"].units] == (
        ["marauder"] * 2 + ["marine"] * 7 + ["medivac"] + ["marauder"] * 3 + ["marine"] * 8 + ["medivac"]
    )
    assert MAPS["1c3s5z"].type_names == ("colossus", "stalker", "zealot") and MAPS["corridor"].type_names == ()
    # The enemies' grid is the allies', turned by half a circle.
    for ally, enemy in zip(MAPS["3m"].spawns[:3], MAPS["3m"].spawns[3:], strict=True):
        assert (ally[0] - 9, ally[1] - 16) == pytest.approx((23 - enemy[0], 16 - enemy[1]))


def test_grounds():
    cells = {name: terrain.walkable(name) for name in terrain.TERRAINS}
    assert sum(map(sum, cells["simple"])) == 16 * 32 and sum(map(sum, cells["open"])) == 26 * 26
    assert cells["corridor"][12][11:15] == [True] * 4 and not cells["corridor"][14][11]
    assert not any(cells["ravine"][12][4:28]) and cells["ravine"][12][3] and cells["ravine"][12][28]
    assert [sum(row) for row in cells["octagon"]][5:10] == [12, 14, 16, 18, 20]
    assert [x for x, free in enumerate(cells["pentagon"][24]) if free] == [12, 13, 14, 15]
    for name in terrain.TERRAINS:
        low_x, low_y, high_x, high_y = terrain.largest_rectangle(name)
        assert all(cells[name][y][x] for y in range(low_y, high_y + 1) for x in range(low_x, high_x + 1))
        assert [bits & 0xFFFFFFFF for bits in terrain.row_bits(name)] == [
            sum(1 << x for x, free in enumerate(row) if free) for row in cells[name]
        ]
    assert terrain.largest_rectangle("simple") == (0, 8, 31, 23)


def test_an_unknown_map_is_named_with_the_nearest():
    with pytest.raises(UserError, match=r"--map 3s5v: there is no such map, did you mean 3s5z\? There are 3m, 8m"):
        find_map("3s5v")
