"""Where data comes from: the synthetic set stands in only where it should, every other missing path is an error."""

import pytest
from cache_samples import write_many, write_structure

from lib.errors import UserError
from lib.protein.options import ProteinOptions
from lib.protein.prepare import build_store, locate, open_store, prepare, select_units, training_tables


def silent(text):
    pass


def options(tmp_path=None, **values):
    config = ProteinOptions(**values)
    config.explicit = frozenset(values)
    return config


def test_synthetic_stands_in_without_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, cache, write = locate(options(synthetic_chains=64))
    assert write and folder == cache and "64" in folder.name


def test_synthetic_stands_in_where_path_and_cache_are_one_absent_or_empty_folder(tmp_path):
    place = str(tmp_path / "data" / "cache")
    assert locate(options(pdb_path=place, cache_dir=place))[2]
    (tmp_path / "data" / "cache").mkdir(parents=True)
    assert locate(options(pdb_path=place, cache_dir=place))[2]


@pytest.mark.parametrize("made", [False, True])
def test_any_other_missing_or_empty_path_is_an_error(tmp_path, made):
    place = tmp_path / "structures"
    if made:
        place.mkdir()
    with pytest.raises(UserError, match="an empty folder" if made else "nothing"):
        locate(options(pdb_path=str(place)))
    with pytest.raises(UserError, match="expected structures"):
        locate(options(pdb_path=str(place), cache_dir=str(tmp_path / "cache")))


def test_a_folder_is_cached_split_and_tabulated(tmp_path):
    write_many(tmp_path / "pdb", 30)
    config = options(pdb_path=str(tmp_path / "pdb"), val_split=0.2)
    store = build_store(config, silent)
    again = open_store(config)
    assert again.ids == store.ids
    first, second = prepare(config, store, silent), prepare(config, again, silent)
    assert [unit.name for unit in first.sides["val"]] == [unit.name for unit in second.sides["val"]]
    results = first.results()
    assert results["train_units"] + results["val_units"] == 30
    assert results["train_chains"] + results["val_chains"] == len(store)
    assert not results["synthetic"]
    tables = training_tables(store, first.sides["train"])
    assert tables.unigram.shape == (20,)


def test_named_validation_files_decide(tmp_path):
    write_many(tmp_path / "pdb", 12)
    (tmp_path / "names.txt").write_text("x003.pdb\nx005  # a comment\n")
    config = options(pdb_path=str(tmp_path / "pdb"), val_files=str(tmp_path / "names.txt"))
    store = build_store(config, silent)
    data = prepare(config, store, silent)
    assert {unit.file for unit in data.sides["val"]} == {"x003.pdb", "x005.pdb"}
    config.only = str(tmp_path / "names.txt")
    config.use_test_split = False
    assert {unit.file for unit in select_units(config, store, silent)} == {"x003.pdb", "x005.pdb"}


def test_predefined_split_of_the_cache_folder(tmp_path):
    write_many(tmp_path / "pdb", 8)
    config = options(pdb_path=str(tmp_path / "pdb"), cache_dir=str(tmp_path / "cache"), use_predefined_split=True)
    store = build_store(config, silent)
    with pytest.raises(UserError, match=r"train\.txt and val\.txt"):
        prepare(config, store, silent)
    (tmp_path / "cache" / "train.txt").write_text("\n".join(f"x{index:03d}" for index in range(5)))
    (tmp_path / "cache" / "val.txt").write_text("x006\n")
    lines = []
    data = prepare(config, store, lines.append)
    assert [len(data.sides[side]) for side in ("train", "val")] == [5, 1]
    assert any("train.txt" in line for line in lines)


def test_no_validation_unit_is_an_error(tmp_path):
    write_many(tmp_path / "pdb", 8)
    config = options(pdb_path=str(tmp_path / "pdb"), val_split=0.0)
    with pytest.raises(UserError, match="no validation unit"):
        prepare(config, build_store(config, silent), silent)


def test_rejected_files_do_not_end_the_run_and_are_reported(tmp_path):
    write_many(tmp_path / "pdb", 6)
    (tmp_path / "pdb" / "noise.pdb").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "pdb" / "empty.cif").write_text("")
    write_structure(tmp_path / "pdb", "short.pdb", {"A": 7}, 1)
    store = build_store(options(pdb_path=str(tmp_path / "pdb")), silent)
    rejections = store.data_report().to_dict()["rejections"]
    named = {item["file"] for reason in rejections.values() for item in reason["items"]}
    assert named == {"noise.pdb", "empty.cif", "short.pdb"}
    assert len(set(store.files)) == 6
