"""A database as tables of plain rows, copied on write: a reset costs microseconds, an error costs nothing.

Rows are what JSON knows: dict, list, str, int, float, bool, None. A `Base` is loaded or generated once and never
changes; every episode looks at it through its own `Database`, which keeps copies of the rows it changed. All changes of
one tool call belong to a transaction: `commit` keeps them, `rollback` forgets them.
"""

import hashlib
import json
from collections.abc import Iterator

Row = dict
DICT, LIST, SINGLE = "dict", "list", "single"


def copy_row(value):
    """Deep copy of a JSON value; `copy.deepcopy` takes ten times as long."""
    if type(value) is dict:
        return {key: copy_row(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_row(item) for item in value]
    return value


def canonical(value) -> str:
    """The text that the hash sees: sorted keys, so 1, 1.0 and true stay three different values."""
    return json.dumps(value, sort_keys=True)


class Base:
    """The tables as they were before anybody acted.

    `tables`: name -> key -> row, in file order. `shapes`: name -> how the table lies in a file: "dict" (key -> row),
    "list" (rows that hold their key) or "single" (the table is one row, under the key ""). Rows must not be changed.
    """

    __slots__ = ("_digest", "shapes", "tables")

    def __init__(self, tables: dict[str, dict[str, Row]], shapes: dict[str, str]):
        if tables.keys() != shapes.keys():
            raise ValueError(f"tables {sorted(tables)} and shapes {sorted(shapes)} differ")
        self.tables = tables
        self.shapes = shapes
        self._digest = None

    def digest(self) -> str:
        """sha256 of the canonical text of all tables, computed once."""
        if self._digest is None:
            self._digest = Database(self).full_hash()
        return self._digest


class Database:
    """One episode's view of a `Base`."""

    __slots__ = ("base", "changed", "pending")

    def __init__(self, base: Base):
        self.base = base
        self.changed: dict[tuple[str, str], Row] = {}
        self.pending: dict[tuple[str, str], Row] = {}

    # What tools use.

    def find(self, table: str, key: str) -> Row | None:
        """The row, to be read only; None when there is none."""
        place = (table, key)
        row = self.pending.get(place)
        if row is None:
            row = self.changed.get(place)
            if row is None:
                row = self.base.tables[table].get(key)
        return row

    def edit(self, table: str, key: str) -> Row:
        """The row as this transaction's own copy, to be changed in place. Raises KeyError when there is none."""
        row = self.pending.get((table, key))
        if row is None:
            found = self.find(table, key)
            if found is None:
                raise KeyError(f"{table} has no row {key!r}")
            row = self.pending[table, key] = copy_row(found)
        return row

    def insert(self, table: str, key: str, row: Row) -> Row:
        """A new row at the end of its table. Raises KeyError when the key is taken."""
        if self.find(table, key) is not None:
            raise KeyError(f"{table} already has a row {key!r}")
        self.pending[table, key] = row
        return row

    def rows(self, table: str) -> Iterator[tuple[str, Row]]:
        """All (key, row) of a table, to be read only: the base's in file order, then new ones in order of insertion."""
        base = self.base.tables[table]
        if not self.changed and not self.pending:
            yield from base.items()
            return
        for key in base:
            yield key, self.find(table, key)
        for place in (*self.changed, *(place for place in self.pending if place not in self.changed)):
            if place[0] == table and place[1] not in base:
                yield place[1], self.find(*place)

    # What the engine uses.

    def commit(self) -> None:
        """Keep what was edited and inserted since the last commit or rollback."""
        if self.pending:
            self.changed.update(self.pending)
            self.pending.clear()

    def rollback(self) -> None:
        """Forget what was edited and inserted since the last commit or rollback."""
        self.pending.clear()

    def differences(self) -> dict[tuple[str, str], str]:
        """(table, key) -> canonical text of every row that is not as in the base; two views of one base are in the
        same state exactly when these are equal, but for the order of new rows in "list" tables (see `state`)."""
        found = {}
        for place, row in self.changed.items():
            text = canonical(row)
            before = self.base.tables[place[0]].get(place[1])
            if before is None or canonical(before) != text:
                found[place] = text
        return found

    def state(self) -> tuple:
        """What two views of one base must share to be in the same state; the order of new rows counts in lists."""
        differences = self.differences()
        new = [place for place in self.changed if self.base.shapes[place[0]] == LIST]
        order = [place for place in new if place[1] not in self.base.tables[place[0]]]
        # The order within a table, not which table came first.
        return tuple(sorted(differences.items())), tuple(sorted(order, key=lambda place: place[0]))

    def state_hash(self) -> str:
        """sha256 of the base's digest and the changes: equal for equal states of one base."""
        text = self.base.digest() + repr(self.state())
        return hashlib.sha256(text.encode()).hexdigest()

    def dump(self) -> dict:
        """All tables in the shapes of their files; rows are shared, not copied."""
        out = {}
        for table, shape in self.base.shapes.items():
            rows = dict(self.rows(table))
            out[table] = rows if shape == DICT else list(rows.values()) if shape == LIST else rows[""]
        return out

    def full_hash(self) -> str:
        """sha256 of the whole content as JSON with sorted keys: the hash of tau2-bench, for checks against it."""
        return hashlib.sha256(canonical(self.dump()).encode()).hexdigest()
