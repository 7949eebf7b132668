"""Copy on write: what an episode sees, what a transaction keeps, and when two states are the same."""

import hashlib
import json
import random

import pytest

from lib.grpo.worlds.store import DICT, LIST, SINGLE, Base, Database, canonical, copy_row


def base() -> Base:
    """One table of each shape, and a second list; keys are not in alphabetical order."""
    tables = {
        "users": {
            "zoe": {"name": "Zoe", "tags": ["a", {"deep": [1]}], "balance": 1},
            "ann": {"name": "Ann", "tags": [], "balance": 2.5},
        },
        "lines": {"L2": {"line_id": "L2", "used": 1.0}, "L1": {"line_id": "L1", "used": 2.0}},
        "bills": {"B1": {"bill_id": "B1", "paid": False}},
        "phone": {"": {"on": True, "signal": None}},
    }
    return Base(tables, {"users": DICT, "lines": LIST, "bills": LIST, "phone": SINGLE})


@pytest.fixture
def db():
    content = base()
    before = canonical(content.tables)
    database = Database(content)
    yield database
    assert canonical(content.tables) == before, "the base has changed"


def put(database: Database, table: str, key: str, **fields) -> None:
    database.edit(table, key).update(fields)
    database.commit()


def same(first: Database, second: Database) -> bool:
    """Whether two views of one base are in the same state, by each of the three ways to ask, which must agree."""
    answers = {
        first.state() == second.state(),
        first.state_hash() == second.state_hash(),
        first.full_hash() == second.full_hash(),
    }
    assert len(answers) == 1, "state, state_hash and full_hash do not agree"
    return answers.pop()


# Reading and changing rows.


def test_a_base_needs_a_shape_for_every_table():
    with pytest.raises(ValueError, match=r"tables \['a'\] and shapes \['b'\] differ"):
        Base({"a": {}}, {"b": DICT})


def test_rows_are_shared_until_they_are_edited(db):
    found = db.find("users", "zoe")
    assert found is db.base.tables["users"]["zoe"]
    row = db.edit("users", "zoe")
    assert row == found and row is not found
    row["tags"][1]["deep"].append(2)
    assert found["tags"] == ["a", {"deep": [1]}], "an edit reached the base"
    assert db.find("users", "zoe") is row is db.edit("users", "zoe")
    assert db.find("users", "ann") is db.base.tables["users"]["ann"]


def test_views_of_one_base_do_not_see_each_other(db):
    other = Database(db.base)
    put(db, "users", "zoe", balance=7)
    db.insert("users", "eve", {"balance": 0})
    db.commit()
    assert other.find("users", "zoe")["balance"] == 1 and other.find("users", "eve") is None
    assert [key for key, _ in other.rows("users")] == ["zoe", "ann"]


def test_missing_and_taken_keys(db):
    assert db.find("users", "eve") is None
    with pytest.raises(KeyError, match="users has no row 'eve'"):
        db.edit("users", "eve")
    with pytest.raises(KeyError, match="users already has a row 'ann'"):
        db.insert("users", "ann", {})
    db.insert("users", "eve", {})
    with pytest.raises(KeyError, match="already has a row 'eve'"):
        db.insert("users", "eve", {})
    db.commit()
    with pytest.raises(KeyError, match="already has a row 'eve'"):
        db.insert("users", "eve", {})


def test_rows_come_in_file_order_and_new_ones_last(db):
    assert [key for key, _ in db.rows("lines")] == ["L2", "L1"]
    db.insert("lines", "L9", {"line_id": "L9"})
    db.commit()
    db.insert("lines", "L0", {"line_id": "L0"})
    db.edit("lines", "L1")["used"] = 5.0
    db.edit("lines", "L9")["used"] = 6.0
    wanted = [("L2", 1.0), ("L1", 5.0), ("L9", 6.0), ("L0", None)]
    assert [(key, row.get("used")) for key, row in db.rows("lines")] == wanted
    db.commit()
    assert [(key, row.get("used")) for key, row in db.rows("lines")] == wanted
    assert [key for key, _ in db.rows("bills")] == ["B1"]


def test_an_emptied_row_is_still_a_row(db):
    db.edit("users", "zoe").clear()
    db.insert("users", "eve", {})
    assert list(db.rows("users")) == [("zoe", {}), ("ann", db.find("users", "ann")), ("eve", {})]
    db.commit()
    assert [row for _, row in db.rows("users")][::2] == [{}, {}]
    assert db.find("users", "zoe") == {} and db.edit("users", "eve") == {}


def test_rows_may_be_edited_on_the_way(db):
    for key, _ in db.rows("users"):
        db.edit("users", key)["balance"] = 0
    for key, _ in db.rows("users"):
        db.edit("users", key)["balance"] += 1
    assert [row["balance"] for _, row in db.rows("users")] == [1, 1]


# Transactions.


def test_rollback_forgets_what_is_not_committed(db):
    put(db, "users", "zoe", balance=7)
    before = db.state()
    db.edit("users", "zoe")["balance"] = 8
    db.edit("users", "ann")["tags"].append("x")
    db.insert("users", "eve", {"balance": 0})
    assert db.find("users", "zoe")["balance"] == 8
    db.rollback()
    assert db.state() == before and db.find("users", "eve") is None
    assert (db.find("users", "zoe")["balance"], db.find("users", "ann")["tags"]) == (7, [])
    db.insert("users", "eve", {"balance": 1})
    assert db.find("users", "eve") == {"balance": 1}


def test_a_committed_row_outlives_a_later_rollback(db):
    put(db, "users", "zoe", balance=7)
    db.insert("users", "eve", {"tags": []})
    db.commit()
    db.edit("users", "eve")["tags"].append("x")
    db.rollback()
    assert db.find("users", "eve") == {"tags": []} and db.find("users", "zoe")["balance"] == 7


def test_random_transactions_agree_with_plain_copies():
    """The overlay against the obvious: a deep copy of all tables for every transaction."""
    rng = random.Random(3)
    content = base()
    before = canonical(content.tables)
    for _ in range(100):
        database, plain = Database(content), copy_row(content.tables)
        for step in range(20):
            trial = copy_row(plain)
            for change in range(rng.randint(1, 3)):
                table = rng.choice(["users", "lines"])
                if rng.random() < 0.3:
                    key = f"new{step}-{change}"
                    database.insert(table, key, {"n": step})
                    trial[table][key] = {"n": step}
                else:
                    key = rng.choice(list(trial[table]))
                    database.edit(table, key)["n"] = trial[table][key]["n"] = rng.randint(0, 2)
            if rng.random() < 0.5:
                database.commit()
                plain = trial
            else:
                database.rollback()
            for table, rows in plain.items():
                assert list(database.rows(table)) == list(rows.items())
        shaped = {**plain, "lines": list(plain["lines"].values()), "bills": list(plain["bills"].values())}
        assert canonical(database.dump()) == canonical({**shaped, "phone": plain["phone"][""]})
    assert canonical(content.tables) == before


# When two states are the same.


def test_number_types_are_different_states(db):
    views = [db] + [Database(db.base) for _ in range(3)]
    for view, value in zip(views, [1, 1.0, True, "1"]):
        put(view, "users", "zoe", balance=value)
    for place, first in enumerate(views):
        for second in views[place + 1 :]:
            assert not same(first, second)
    # 1 is what the base has.
    assert same(views[0], Database(db.base)) and not same(views[1], Database(db.base))


def test_change_and_back_is_no_change(db):
    untouched = Database(db.base)
    put(db, "users", "zoe", balance=7)
    assert not same(db, untouched)
    put(db, "users", "zoe", balance=1)
    assert same(db, untouched) and db.differences() == {}


def test_order_of_fields_and_of_changes_does_not_matter(db):
    other = Database(db.base)
    put(db, "users", "zoe", a=1, b=2)
    put(db, "lines", "L1", used=0.0)
    put(other, "lines", "L1", used=0.0)
    put(other, "users", "zoe", b=2, a=1)
    assert same(db, other)


def test_order_inside_a_row_matters(db):
    other = Database(db.base)
    put(db, "users", "ann", tags=["x", "y"])
    put(other, "users", "ann", tags=["y", "x"])
    assert not same(db, other)


@pytest.mark.parametrize(("table", "equal"), [("users", True), ("lines", False)])
def test_order_of_new_rows_counts_in_lists_only(db, table, equal):
    other = Database(db.base)
    for view, keys in ((db, ["n1", "n2"]), (other, ["n2", "n1"])):
        for key in keys:
            view.insert(table, key, {"id": key})
    db.commit(), other.commit()
    assert same(db, other) is equal


def test_new_rows_of_two_lists_may_come_in_any_order(db):
    other = Database(db.base)
    for view, tables in ((db, ["lines", "bills"]), (other, ["bills", "lines"])):
        for table in tables:
            view.insert(table, "new", {"id": "new"})
            view.commit()
    assert same(db, other)


def test_an_edit_between_insertions_does_not_count(db):
    other = Database(db.base)
    for key in ("n1", "n2"):
        for view in (db, other):
            view.insert("lines", key, {"id": key})
            view.commit()
    put(db, "lines", "n1", id="n1")
    assert same(db, other)


def test_what_is_not_committed_is_no_part_of_the_state(db):
    before = db.state(), db.state_hash()
    db.edit("users", "zoe")["balance"] = 9
    assert (db.state(), db.state_hash()) == before
    db.commit()
    assert db.state() != before[0] and db.state_hash() != before[1]


def test_states_of_different_bases_have_different_hashes():
    changed = base()
    changed.tables["users"]["zoe"]["balance"] = 1.0
    assert Database(base()).state() == Database(changed).state()
    assert Database(base()).state_hash() != Database(changed).state_hash()
    assert Database(base()).state_hash() == Database(base()).state_hash()


# Content as a whole.


def test_dump_has_the_shapes_of_the_files(db):
    put(db, "phone", "", on=False)
    db.insert("lines", "L3", {"line_id": "L3"})
    db.commit()
    dump = db.dump()
    assert list(dump["users"]) == ["zoe", "ann"]
    assert [row["line_id"] for row in dump["lines"]] == ["L2", "L1", "L3"]
    assert dump["phone"] == {"on": False, "signal": None}


def test_full_hash_is_the_benchmarks(db):
    text = json.dumps(db.dump(), sort_keys=True, default=str)
    assert db.full_hash() == hashlib.sha256(text.encode()).hexdigest() == db.base.digest()


def test_digest_tells_bases_apart_and_ignores_the_order_of_keys():
    first, reordered, other = base(), base(), base()
    users = reordered.tables["users"]
    users["zoe"] = users.pop("zoe")
    other.tables["lines"]["L1"] = other.tables["lines"].pop("L1")
    assert first.digest() == reordered.digest() == base().digest()
    assert other.digest() == first.digest(), "the last line is where it was"
    other.tables["lines"]["L2"] = other.tables["lines"].pop("L2")
    swapped = Base(other.tables, other.shapes)
    assert swapped.digest() != first.digest(), "lines are a list: their order counts"


def test_canonical_and_copies():
    value = {"b": [1, 1.0, True, None, "\u00fc"], "a": {"d": {}, "c": []}}
    assert canonical(value) == '{"a": {"c": [], "d": {}}, "b": [1, 1.0, true, null, "\\u00fc"]}'
    copied = copy_row(value)
    assert copied == value and list(copied) == ["b", "a"]
    assert copied["b"] is not value["b"] and copied["a"]["d"] is not value["a"]["d"]
