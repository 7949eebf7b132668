"""Episodes kept in a folder: the same when read, and refused by name when they are others."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from lib.args import parse
from lib.errors import UserError
from lib.files import sha256_file
from lib.omagd.options import ALIASES, OmagdOptions
from lib.omagd.recon import stored
from lib.omagd.recon.episodes import EpisodeSet, collect, read_mixture

FLAGS = "--stage tokenizer --map 3m --sight 5 --graph_pretrain_episodes 25 --policies random:1,nearest@0.2:2"


def options(folder, words: str = "", flags: str = FLAGS) -> OmagdOptions:
    return parse(OmagdOptions, f"{flags} --pretrain_buffer_path {folder} {words}".split(), ALIASES)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder of three shards, and the episodes that are in it."""
    monkeypatch.setattr(stored, "SHARD", 10)
    config = options(tmp_path / "kept", "--save_pretrain_buffer")
    assert stored.settle_stored(config, []) == [] and not stored.are_kept(config)
    played = collect("3m", read_mixture(config.policies), 25, seed=7, **config.battle_options())
    stored.keep(played, config)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "episodes-00000.safetensors", "episodes-00001.safetensors", "episodes-00002.safetensors", "episodes.json",
    ]  # fmt: skip
    return tmp_path / "kept", played


def test_what_is_read_is_what_was_played(kept):
    folder, played = kept
    read = stored.read_episodes(options(folder))
    for name in (*EpisodeSet.ARRAYS, "lengths", "won", "firsts", "numbers"):
        one, other = getattr(read, name), getattr(played, name)
        assert one.dtype == other.dtype and torch.equal(one, other), name
    assert read.policies == played.policies and read.digest() == played.digest()


def test_the_folder_decides_what_no_flag_does(kept):
    config = options(kept[0], flags="--stage predictor --map 3m --sight 5 --seed 9 --reward sparse")
    (line,) = stored.settle_stored(config, [])
    assert "25 episodes by random:1,nearest@0.2:2 with --seed 1" in line
    assert (config.graph_pretrain_episodes, config.policies) == (25, "random:1,nearest@0.2:2")
    # As a resumed run and a later stage of --stage all give their flags again.
    assert stored.settle_stored(options(kept[0], "--save_pretrain_buffer"), [])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--map 8m --sight 5", "of --map 3m, this run has --map 8m"),
        ("--map 3m --sight 6", "of --sight 5.0, this run has --sight 6.0"),
        ("--map 3m --sight 5 --tick_rate 22.4", "of --tick_rate 16.0, this run has --tick_rate 22.4"),
        ("--map 3m --sight 5 --policies kite", "of --policies random:1,nearest@0.2:2, this run has --policies kite"),
        ("--map 3m --sight 5 --graph_pretrain_episodes 30", "25, this run has --graph_pretrain_episodes 30"),
        (f"{FLAGS} --save_pretrain_buffer --seed 2", "of --seed 1, this run has --seed 2"),
        (f"{FLAGS} --save_pretrain_buffer --reward sparse", "of --reward signed, this run has --reward sparse"),
    ],
)
def test_other_episodes_are_refused(kept, flags, words):
    with pytest.raises(UserError, match=words):
        stored.settle_stored(options(kept[0], flags=flags), [])


def test_folders_of_something_else_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"none: no episodes\.json is there, or not on this machine; add --save"):
        stored.settle_stored(options(tmp_path / "none"), [])
    with pytest.raises(UserError, match="--save_pretrain_buffer: give --pretrain_buffer_path"):
        stored.settle_stored(parse(OmagdOptions, [*FLAGS.split(), "--save_pretrain_buffer"], ALIASES), [])
    (tmp_path / "full").mkdir()
    assert stored.settle_stored(options(tmp_path / "full", "--save_pretrain_buffer"), []) == []
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="something else is there"):
        stored.settle_stored(options(tmp_path / "full", "--save_pretrain_buffer"), [])
    with pytest.raises(UserError, match=r"thesis\.txt: Not a directory; give a folder"):
        stored.settle_stored(options(tmp_path / "full" / "thesis.txt", "--save_pretrain_buffer"), [])
    for content, words in (("[]", "format 1"), ('{"format": 9}', "format 1"), ('{"format": 1, "map": "3m"}', "lacks"),
                           ("{", "JSON")):  # fmt: skip
        (tmp_path / "full" / "episodes.json").write_text(content)
        with pytest.raises(UserError, match=words):
            stored.settle_stored(options(tmp_path / "full"), [])


def test_damaged_and_missing_files_are_named(kept, monkeypatch):
    folder = kept[0]
    second = folder / "episodes-00001.safetensors"
    content = bytearray(second.read_bytes())
    content[-1] ^= 1
    second.write_bytes(content)
    with pytest.raises(UserError, match=r"episodes-00001\.safetensors is not the one"):
        stored.read_episodes(options(folder))
    second.unlink()
    with pytest.raises(UserError, match=r"episodes-00001\.safetensors: No such file"):
        stored.read_episodes(options(folder))


def test_what_does_not_fit_into_memory(kept, monkeypatch):
    monkeypatch.setattr("lib.room.free_memory", lambda: 1 << 10)
    with pytest.raises(UserError, match=r"its episodes need .* GiB in each process"):
        stored.read_episodes(options(kept[0]))


HEADERS = (
    ("graph_pretrain_episodes", "25", "lacks graph_pretrain_episodes, or in it is something else"),
    ("graph_pretrain_episodes", 24, "do not agree"),
    ("graph_pretrain_episodes", -1, "none of them is for|do not agree"),
    ("seed", None, "lacks seed"),
    ("policies", 3, "lacks policies"),
    ("sha256", {}, "do not agree"),
    ("sha256", [], "lacks sha256"),
    ("sha256", {"episodes-00000.safetensors": 1}, "is not the one"),
    ("names", ["a"], "do not agree"),
    ("names", "ab", "lacks names"),
    ("names", [1, 2], "lacks names"),
    ("format", True, "format 1"),
)


@pytest.mark.parametrize(("name", "value", "words"), HEADERS)
def test_headers_that_are_damaged(kept, name, value, words):
    path = kept[0] / "episodes.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(UserError, match=words) as refused:
        config = options(kept[0], flags="--stage tokenizer --map 3m --sight 5")
        stored.settle_stored(config, [])
        stored.read_episodes(config)
    assert "\n" not in str(refused.value)


def test_a_shard_that_lacks_something(kept):
    path, file = kept[0] / "episodes.json", kept[0] / "episodes-00001.safetensors"
    tensors = load_file(file)
    del tensors["won"]
    save_file(tensors, file)
    header = json.loads(path.read_text())
    header["sha256"][file.name] = sha256_file(file)
    path.write_text(json.dumps(header))
    with pytest.raises(UserError, match=r"do not agree .*won"):
        stored.read_episodes(options(kept[0]))


def test_what_came_in_between_is_left_as_it_is(kept):
    folder, played = kept
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UserError, match="something was put there meanwhile"):
        stored.keep(played, options(folder, "--save_pretrain_buffer"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    # Another run's in the place of those that were looked at.
    (folder / "episodes.json").write_text(
        json.dumps(json.loads((folder / "episodes.json").read_text()) | {"map": "8m"})
    )
    with pytest.raises(UserError, match="of --map 8m, this run has --map 3m"):
        stored.read_episodes(options(folder))
    settled = options(folder, flags="--stage predictor --map 3m --sight 5")
    (folder / "episodes.json").write_bytes(before["episodes.json"])
    stored.settle_stored(settled, [])
    (folder / "episodes.json").write_text(
        json.dumps(json.loads((folder / "episodes.json").read_text()) | {"policies": "kite"})
    )
    with pytest.raises(UserError, match="of --policies kite, this run has --policies random:1"):
        stored.read_episodes(settled)
    (folder / "episodes.json").unlink()
    with pytest.raises(UserError, match=r"no episodes\.json is there any more"):
        stored.read_episodes(options(folder))


def test_places_where_nothing_can_be_kept(tmp_path, monkeypatch):
    """Said before anything is played."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "a"
    for place in (run, run.parent, run / "inside", "runs", "."):
        with pytest.raises(UserError, match="neither is nor holds a run's"):
            stored.settle_stored(options(place, "--save_pretrain_buffer"), [str(run)])
    assert stored.settle_stored(options(tmp_path / "runs" / "b", "--save_pretrain_buffer"), [str(run)]) == []
    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr("os.path.ismount", lambda path: str(path).endswith("mounted"))
    with pytest.raises(UserError, match="give a folder inside it"):
        stored.settle_stored(options(tmp_path / "mounted", "--save_pretrain_buffer"), [])
    (tmp_path / "mounted").rmdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"no folder can be made in .*file; give another"):
        stored.settle_stored(options(tmp_path / "file" / "kept", "--save_pretrain_buffer"), [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_link_is_kept(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    config = options(tmp_path / "link", "--save_pretrain_buffer")
    played = collect("3m", read_mixture("nearest"), 2, seed=7, **config.battle_options())
    stored.keep(played, config)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "disk" / "episodes.json").exists()
    shard = (tmp_path / "disk" / "episodes-00000.safetensors").stat().st_mode
    assert shard == (tmp_path / "disk" / "episodes.json").stat().st_mode


def test_a_disk_that_is_full_leaves_nothing(tmp_path, monkeypatch):
    config = options(tmp_path / "kept", "--save_pretrain_buffer")
    played = collect("3m", read_mixture("nearest"), 2, seed=7, **config.battle_options())
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(UserError, match=r"no space left.*give another --pretrain_buffer_path"):
        stored.keep(played, config)
    assert list(tmp_path.iterdir()) == []


def test_names_of_policies_are_in_the_header(kept):
    header = json.loads((kept[0] / "episodes.json").read_text())
    assert header["names"] == ["nearest@0.2", "random"] and len(header["sha256"]) == 3
    assert header["map"] == "3m" and header["sight"] == 5.0 and header["graph_pretrain_episodes"] == 25
