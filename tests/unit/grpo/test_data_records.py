"""Casts that a data file goes through, and the places that errors name."""

import tomllib
from datetime import date, datetime

import pytest

from lib.grpo.worlds.records import (
    DataError,
    Default,
    boolean,
    choice,
    day,
    integer,
    list_of,
    map_of,
    moment,
    number,
    record,
    text,
    variant,
)

LINE = record(
    line_id=text,
    used=number,
    active=boolean,
    plan=choice("basic", "large"),
    bags=integer,
    ends=Default(day),
    tags=Default(list_of(text), []),
    roaming=Default(boolean, False),
)
GOOD = {"line_id": "L1", "used": 3, "active": True, "plan": "basic", "bags": 2.0}


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (integer, 3, "3"),
        (integer, 100.0, "100"),
        (integer, "12", "12"),
        (integer, -0.0, "0"),
        (integer, 10**20 + 1, "100000000000000000001"),
        (number, 3, "3.0"),
        (number, "2.5", "2.5"),
        (number, 2.5, "2.5"),
        (text, "", "''"),
        (boolean, False, "False"),
        (day, "2025-02-25", "'2025-02-25'"),
        (day, date(2025, 2, 25), "'2025-02-25'"),
        (moment, "2025-02-25T12:08:00", "'2025-02-25 12:08:00'"),
        (moment, datetime(2025, 2, 25, 12, 8), "'2025-02-25 12:08:00'"),
        (moment, date(2025, 2, 25), "'2025-02-25 00:00:00'"),
        (moment, "2025-02-25", "'2025-02-25 00:00:00'"),
    ],
)
def test_casts(kind, value, wanted):
    # By repr: number types count in the state's hash.
    assert repr(kind(value, "db")) == wanted


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (text, 3, "db is 3: expected a string"),
        (text, None, "db is None: expected a string"),
        (boolean, 1, "db is 1: expected true or false"),
        (integer, 1.5, "db is 1.5: expected a whole number"),
        (integer, True, "db is True: expected a number"),
        (integer, "many", "db is 'many': expected a number"),
        (integer, None, "db is None: expected a number"),
        (integer, float("inf"), "db is inf: expected a finite number"),
        (number, float("nan"), "db is nan: expected a finite number"),
        (number, "inf", "db is 'inf': expected a finite number"),
        (number, [1], r"db is \[1\]: expected a number"),
        (number, 10**400, "expected a number"),
        (number, False, "db is False: expected a number"),
        (day, "25.2.2025", "db is '25.2.2025': expected a date YYYY-MM-DD"),
        (day, datetime(2025, 2, 25), "expected a date YYYY-MM-DD"),
        (day, 20250225, "expected a date YYYY-MM-DD"),
        (moment, "noon", "db is 'noon': expected a date and time"),
        (moment, 5, "db is 5: expected a date and time"),
        (choice("yes", "no"), "Yes", "db is 'Yes': expected one of yes, no"),
        (choice("yes", "no"), ["yes"], "expected one of yes, no"),
        (list_of(text), "ab", "db is str: expected a list"),
        (map_of(text), ["ab"], "db is list: expected an object"),
        (LINE, None, "db is NoneType: expected an object"),
    ],
)
def test_casts_that_fail(kind, value, said):
    with pytest.raises(DataError, match=f"{said}$"):
        kind(value, "db")


def test_dates_of_toml():
    parsed = tomllib.loads("day = 2025-02-25\nmoment = 2025-02-25T12:08:00\n")
    assert record(day=day, moment=moment)(parsed, "db") == {"day": "2025-02-25", "moment": "2025-02-25 12:08:00"}


def test_a_record_has_its_fields_in_order_and_no_others():
    given = {"more": 1, **dict(reversed(GOOD.items()))}
    row = LINE(given, "db")
    assert repr(row) == (
        "{'line_id': 'L1', 'used': 3.0, 'active': True, 'plan': 'basic', 'bags': 2,"
        " 'ends': None, 'tags': [], 'roaming': False}"
    )
    assert given["used"] == 3 and next(iter(given)) == "more", "the file's own data stay as they are"


def test_defaults():
    assert LINE({**GOOD, "ends": None}, "db")["ends"] is None
    assert LINE({**GOOD, "ends": "2025-01-01"}, "db")["ends"] == "2025-01-01"
    first, second = LINE(GOOD, "db"), LINE(GOOD, "db")
    first["tags"].append("x")
    assert second["tags"] == [] == LINE(GOOD, "db")["tags"], "rows share the default"
    # Only what is absent by default may be null.
    with pytest.raises(DataError, match=r"^db.roaming is None: expected true or false"):
        LINE({**GOOD, "roaming": None}, "db")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"used": "x"}, "db.lines[1].used is 'x': expected a number"),
        ({"tags": ["a", 3]}, "db.lines[1].tags[1] is 3: expected a string"),
        ({"plan": "huge"}, "db.lines[1].plan is 'huge': expected one of basic, large"),
    ],
)
def test_the_place_of_a_wrong_value(change, said):
    with pytest.raises(DataError) as caught:
        record(lines=list_of(LINE))({"lines": [GOOD, {**GOOD, **change}]}, "db")
    assert str(caught.value) == said


def test_missing_and_unknown_fields():
    with pytest.raises(DataError, match=r"^db.lines.L7 has no field 'used'$"):
        record(lines=map_of(LINE))({"lines": {"L7": {"line_id": "L7"}}}, "db")
    with pytest.raises(DataError, match=r"^db has the unknown field 'bills'$"):
        record(closed=True, lines=map_of(LINE))({"lines": {}, "bills": {}, "zebras": {}}, "db")
    with pytest.raises(DataError, match=r"^db has no field 'lines'$"):
        record(closed=True, lines=map_of(LINE))({}, "db")


def test_a_map_may_complete_rows_from_their_keys():
    kind = map_of(record(name=text), fill=lambda key, row: {"name": key, **row})
    assert kind({"a": {}, "b": {"name": "c"}}, "db") == {"a": {"name": "a"}, "b": {"name": "c"}}


def test_variants():
    kind = variant("status", on_time=record(status=text, at=text), gone=record(status=text))
    assert kind({"status": "on time", "at": "noon"}, "db") == {"status": "on time", "at": "noon"}
    assert kind({"status": "gone", "at": "noon"}, "db") == {"status": "gone"}
    for odd in ({"status": "lost"}, {"status": ["gone"]}, {}, None, "gone"):
        with pytest.raises(DataError, match=r"^db.status is .*: expected one of on_time, gone$"):
            kind(odd, "db")
    with pytest.raises(DataError, match="db has no field 'at'"):
        kind({"status": "on time"}, "db")
