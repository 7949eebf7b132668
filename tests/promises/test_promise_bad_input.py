"""Bad input ends, or is reported, in one clear line; nothing that was there is written over."""

import fnmatch

import pytest
from cases import TRAINERS
from runs import tree

ROWS = [(case, row) for case in TRAINERS for row in case.bad_inputs]


@pytest.mark.parametrize(("stage", "row"), ROWS, indirect=["stage"], ids=[f"{c.name}, {r.name}" for c, r in ROWS])
def test_bad_input(stage, row, tmp_path):
    if row.prepare is not None:
        row.prepare(tmp_path, stage.data)
    before = tree(tmp_path)
    ended = stage.warm.run(stage.argv(None, row.flags, good_data=row.good_data), tmp_path)
    after = tree(tmp_path)
    assert ended.code == row.code, ended.stderr
    if row.code:
        assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1, ended.stderr
    else:
        assert ended.stderr == ""
    said = ended.stderr if row.code else ended.stdout
    assert [word for word in row.words if word not in said] == [], said
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    assert [name for name in changed if not any(fnmatch.fnmatch(name, glob) for glob in row.writes)] == []


def test_a_run_that_is_there_is_not_touched(stage, alone):
    """The same command once more, with the folder of a finished run."""
    before = tree(alone.run)
    ended = stage.alone(alone.run).finish()
    assert ended.code == 2 and "holds a run already, nothing was touched: add --resume auto" in ended.stderr
    assert tree(alone.run) == before


def test_two_processes_say_it_once(stage):
    row = stage.case.bad_inputs[0]
    ended = stage.pair(None, row.flags).finish()
    assert ended.code == 2, ended.stderr
    assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1, ended.stderr
    assert all(word in ended.stderr for word in row.words), ended.stderr
