"""The grounds of the maps: 32 x 32 cells, y upwards. A unit may stand where the cell under its centre is walkable."""

WIDTH = HEIGHT = 32

# For each ground: (lowest y, highest y, lowest x, highest x) of its walkable cells, all inclusive; later parts add.
_RECTANGLES = {
    "simple": [(8, 23, 0, 31)],
    "open": [(3, 28, 3, 28)],
    "corridor": [
        (30, 30, 20, 29),
        (29, 29, 19, 30),
        *[(y, y, left, 30) for y, left in zip(range(28, 21, -1), range(18, 11, -1), strict=True)],
        (18, 21, 11, 30),
        (17, 17, 12, 29),
        (16, 16, 13, 28),
        (15, 15, 13, 27),
        (14, 14, 12, 26),
        (13, 13, 11, 25),
        (12, 12, 2, 14),
        (11, 11, 1, 13),
        (3, 10, 1, 12),
        (2, 2, 1, 13),
        (1, 1, 2, 13),
    ],
    "octagon": [
        (10, 21, 5, 26),
        *[(9 - k, 9 - k, 6 + k, 25 - k) for k in range(5)],
        *[(22 + k, 22 + k, 6 + k, 25 - k) for k in range(5)],
    ],
    "pentagon": [
        (8, 19, 7, 20),
        (7, 7, 8, 19),
        *[(20 + k, 20 + k, 8 + k, 19 - k) for k in range(5)],
    ],
    "ravine": [
        (9, 11, 0, 31),
        (12, 12, 0, 3),
        (12, 12, 28, 31),
        (13, 16, 0, 31),
        (8, 8, 1, 30),
        (17, 17, 1, 30),
        (7, 7, 2, 29),
        (18, 18, 2, 29),
        (6, 6, 3, 28),
        (19, 19, 3, 28),
    ],
}  # fmt: skip
TERRAINS = tuple(_RECTANGLES)
WALLED = ("corridor", "ravine")  # between some of their places no straight way leads


def walkable(name: str) -> list[list[bool]]:
    """Whether a ground unit may stand on the cell, [y][x]."""
    cells = [[False] * WIDTH for _ in range(HEIGHT)]
    for low_y, high_y, low_x, high_x in _RECTANGLES[name]:
        for y in range(low_y, high_y + 1):
            for x in range(low_x, high_x + 1):
                cells[y][x] = True
    return cells


def largest_rectangle(name: str) -> tuple[int, int, int, int]:
    """(lowest x, lowest y, highest x, highest y) of the largest rectangle of walkable cells, inclusive."""
    cells = walkable(name)
    best, found = 0, (0, 0, -1, -1)
    for low in range(HEIGHT):
        open_columns = [True] * WIDTH
        for high in range(low, HEIGHT):
            open_columns = [free and cells[high][x] for x, free in enumerate(open_columns)]
            start = 0
            for x in range(WIDTH + 1):
                if x == WIDTH or not open_columns[x]:
                    size = (x - start) * (high - low + 1)
                    if size > best:
                        best, found = size, (start, low, x - 1, high)
                    start = x + 1
    return found


def row_bits(name: str) -> list[int]:
    """Bit x of number y: whether cell (x, y) is walkable. As int32."""
    rows = [sum(1 << x for x, free in enumerate(row) if free) for row in walkable(name)]
    return [row - (1 << 32) if row >> 31 else row for row in rows]
