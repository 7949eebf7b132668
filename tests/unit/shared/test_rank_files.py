"""What each rank has of its own in a checkpoint: written beside the rest, under the same manifest, or not at all."""

import json

import pytest
import torch
from checkpoint_samples import build

from lib.checkpoint import find_checkpoint, load_common, load_rank, save_checkpoint
from lib.errors import UserError
from lib.rank_files import rank_file, under_prefix, with_prefix


def save(acc, run, step: int, **options):
    model, optimizer = build(torch.optim.Adam)
    return save_checkpoint(acc, run, step, model=model, optimizer=optimizer, state={}, keep=3, **options)


def test_tensors_of_all_and_of_each_rank_come_back(acc, run):
    common = {"a": torch.arange(6.0).reshape(2, 3), "view": torch.arange(10)[::2]}
    own = {"game": torch.tensor([1, 2, 255], dtype=torch.uint8), "time": torch.tensor(7)}
    path = save(acc, run, 1, common=common, rank_tensors=own)
    for found, given in ((load_common(acc, path), common), (load_rank(acc, path), own)):
        assert found.keys() == given.keys()
        assert all(torch.equal(found[name], given[name]) and found[name].dtype == given[name].dtype for name in given)
    manifest = json.loads((path / "manifest.json").read_text())
    assert {"common.safetensors", rank_file(0)} < set(manifest["files"])
    assert [entry.name for entry in run.checkpoints.iterdir()] == [path.name]


def test_a_damaged_rank_file_makes_the_checkpoint_unusable(acc, run):
    older = save(acc, run, 1, rank_tensors={"x": torch.ones(50)})
    newer = save(acc, run, 2, rank_tensors={"x": torch.ones(50)})
    file = newer / rank_file(0)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    assert find_checkpoint(acc, run, "auto") == older
    with pytest.raises(UserError, match=r"rank-00000.safetensors is corrupted"):
        find_checkpoint(acc, run, str(newer))


def test_a_checkpoint_without_them_says_what_is_missing(acc, run):
    path = save(acc, run, 1)
    assert not (path / rank_file(0)).exists() and not (path / "common.safetensors").exists()
    with pytest.raises(UserError, match=r"rank-00000.safetensors is missing on this machine"):
        load_rank(acc, path)


def test_a_failing_rank_leaves_nothing_behind(acc, run, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    save(acc, run, 1, rank_tensors={"x": torch.ones(3)})
    monkeypatch.setattr("lib.rank_files.save_file", full)
    with pytest.raises(UserError, match=r"cannot save step-00000002 in .*: no space left"):
        save(acc, run, 2, rank_tensors={"x": torch.ones(3)})
    assert [entry.name for entry in run.checkpoints.iterdir()] == ["step-00000001"]


def test_prefixes_keep_several_dicts_apart():
    one, two = {"a.b": torch.ones(1)}, {"a.b": torch.zeros(1)}
    both = with_prefix("first", one) | with_prefix("second", two)
    assert under_prefix("first", both) == one and under_prefix("second", both) == two
