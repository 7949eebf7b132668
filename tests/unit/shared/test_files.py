"""Atomic writes to places that hold no file."""

import os
import stat

import pytest

from lib.errors import UserError
from lib.files import atomic_write_text


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "new" / "folder" / "text"
    atomic_write_text(path, "one")
    atomic_write_text(path, "two")
    assert path.read_text() == "two" and [entry.name for entry in path.parent.iterdir()] == ["text"]


def test_a_folder_is_not_written_over(tmp_path):
    with pytest.raises(UserError, match="is no file"):
        atomic_write_text(tmp_path, "text")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_regular_file_keeps_its_kind(tmp_path):
    """As root a rename would put a file in the place of a device."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UserError, match="is no file"):
        atomic_write_text(path, "text")
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_parent_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file" / "text", tmp_path / "file" / "folder" / "text"):
        with pytest.raises(UserError, match="is no folder and cannot be made one") as raised:
            atomic_write_text(path, "text")
        assert "\n" not in str(raised.value)
    assert (tmp_path / "file").read_text() == "kept"
