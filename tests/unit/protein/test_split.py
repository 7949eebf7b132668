"""Units keep a file's chains together; splits keep homologs and entries on one side and depend on nothing else."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

from lib.errors import UserError
from lib.protein.split import Unit, group_chains, make_units, read_names, split_document, split_units


def quiet(_):
    pass


def store(*chains):
    """A stand-in for a ChainStore: chains given as (file, name, length, sequence key, cluster[, entry])."""
    full = [chain if len(chain) == 6 else (*chain, chain[0].split(".")[0].upper()) for chain in chains]
    files, names, lengths, keys, clusters, entries = zip(*full)
    return SimpleNamespace(
        ids=[f"{file.split('.')[0]}:{name}" for file, name in zip(files, names)],
        files=list(files),
        entries=list(entries),
        lengths=np.array(lengths, np.int32),
        sequence_keys=np.array(keys, np.uint64),
        clusters=np.array(clusters, np.int32),
    )


def many_units(count=200, seed=0):
    """Units of 40..120 residues in clusters of 1..4, and one giant cluster of a third of the units."""
    generator = np.random.default_rng(seed)
    units, cluster = [], 1
    for index in range(count):
        giant = index % 3 == 0
        cluster += generator.random() < 0.4
        units.append(
            Unit(
                name=f"f{index:03d}:A",
                rows=(index,),
                length=int(generator.integers(40, 120)),
                key=int(generator.integers(1, 2**62)),
                cluster=0 if giant else int(cluster),
                file=f"sub/f{index:03d}.pdb.gz",
                entry=f"F{index:03d}",
            )
        )
    return units


def names(side):
    return sorted(item.name for item in side)


def test_chains_are_grouped_up_to_the_maximum_and_never_dropped():
    assert group_chains([100, 200, 300], 1000) == [(0, 3)]
    assert group_chains([600, 400, 1], 1000) == [(0, 2), (2, 3)]
    assert group_chains([1500, 10, 20], 1000) == [(0, 1), (1, 3)]
    assert group_chains([10, 1500, 20], 1000) == [(0, 1), (1, 2), (2, 3)]
    assert group_chains([10, 20], 1000, "chain") == [(0, 1), (1, 2)]
    assert group_chains([], 1000) == []


def test_units_of_files():
    chains = store(
        ("a.pdb", "A", 300, 1, 0), ("a.pdb", "B", 300, 2, 1), ("a.pdb", "C", 900, 3, 2),
        ("b.pdb", "A", 300, 2, 1), ("b.pdb", "B", 300, 1, 0), ("c.pdb", "A", 30, 4, 3), ("d.pdb", "A", 2000, 5, 4),
    )  # fmt: skip
    units, counts = make_units(chains, max_length=1000, min_length=40, log=quiet)
    assert [(item.name, item.rows, item.length) for item in units] == [
        ("a:A+B", (0, 1), 600), ("a:C", (2,), 900), ("b:A+B", (3, 4), 600), ("d:A", (6,), 2000),
    ]  # fmt: skip
    assert units[0].key == units[2].key != units[1].key, "the same two chains in another order are one unit"
    assert units[0].cluster == units[1].cluster == units[2].cluster != units[3].cluster
    assert counts["short"] == 1 and counts["long"] == 1 and counts["divided_files"] == 1
    assert counts["units"] == 4 and counts["distinct"] == 3 and counts["clusters"] == 2


def test_clusters_join_through_chains_and_through_entries():
    chains = store(
        ("a.pdb", "A", 50, 1, 10), ("a.pdb", "B", 50, 2, 11), ("b.pdb", "A", 50, 3, 11), ("b.pdb", "B", 50, 4, 12),
        ("c1.pdb", "A", 50, 5, 13, "SAME"), ("c2.pdb", "A", 50, 6, 14, "SAME"), ("d.pdb", "A", 50, 7, 15),
        ("e.pdb", "A", 50, 8, 16, ""), ("f.pdb", "A", 50, 9, 17, ""),
    )  # fmt: skip
    units, _ = make_units(chains, log=quiet)
    cluster = {item.file: item.cluster for item in units}
    assert cluster["a.pdb"] == cluster["b.pdb"]
    assert cluster["c1.pdb"] == cluster["c2.pdb"]
    assert len(set(cluster.values())) == 5, "files without an entry id are not joined"


def test_cluster_split_keeps_clusters_whole_and_meets_the_fraction():
    units = many_units()
    lines = []
    sides = split_units(units, val_fraction=0.1, seed=3, log=lines.append)
    assert names(sides["train"] + sides["val"]) == names(units) and sides["test"] == []
    assert not {item.cluster for item in sides["train"]} & {item.cluster for item in sides["val"]}
    share = sum(item.length for item in sides["val"]) / sum(item.length for item in units)
    assert 0.09 <= share <= 0.1
    assert 0 not in {item.cluster for item in sides["val"]}
    assert any("largest homology cluster" in line and "always trains" in line for line in lines)


def test_the_split_is_a_function_of_seed_and_content_only():
    units = many_units()
    expected = names(split_units(units, seed=3, log=quiet)["val"])
    shuffled = units[:]
    random.Random(1).shuffle(shuffled)
    assert names(split_units(shuffled, seed=3, log=quiet)["val"]) == expected
    relabelled = [
        Unit(item.name, item.rows, item.length, item.key, 1000 - item.cluster, item.file, item.entry) for item in units
    ]
    assert names(split_units(relabelled, seed=3, log=quiet)["val"]) == expected
    assert names(split_units(units, seed=4, log=quiet)["val"]) != expected


def test_one_cluster_cannot_be_split_and_two_large_ones_can():
    one = [Unit(f"{index}:A", (index,), 50, index, 0, f"{index}.pdb", str(index)) for index in range(5)]
    with pytest.raises(UserError, match=r"one homology cluster.*--split random or --val_files"):
        split_units(one, log=quiet)
    assert len(split_units(one, val_fraction=0.0, log=quiet)["train"]) == 5
    assert len(split_units(one, mode="random", val_fraction=0.2, log=quiet)["val"]) == 1
    two = [Unit(f"{index}:A", (index,), 50, index, index // 3, f"{index}.pdb", str(index)) for index in range(5)]
    assert {item.cluster for item in split_units(two, val_fraction=0.01, log=quiet)["val"]} == {1}, "the smaller one"


def test_random_split_warns_and_keeps_entries_whole():
    units = [
        Unit(f"{index}:A", (index,), 50, index + 1, 0, f"{index}.pdb", str(index // 2)) for index in range(40)
    ]  # fmt: skip
    lines = []
    sides = split_units(units, mode="random", val_fraction=0.25, log=lines.append)
    assert any("homologs" in line for line in lines)
    assert len(sides["val"]) == 10
    assert not {item.entry for item in sides["val"]} & {item.entry for item in sides["train"]}


def test_names_match_with_and_without_extension_folder_and_by_entry(tmp_path):
    units = many_units(20)
    path = tmp_path / "val.txt"
    path.write_text("# validation\nf001.pdb.gz\nf002\n\nsub/f003.pdb.gz  # a path\nf004\nF005\nsub/f006\nf007.pdb\n")
    lines = []
    sides = split_units(units, mode="file", val_names=read_names(path), log=lines.append)
    assert names(sides["val"]) == [f"f00{index}:A" for index in range(1, 8)]
    assert names(sides["train"]) == sorted(set(names(units)) - set(names(sides["val"])))
    held = {item.cluster for item in sides["val"]}
    leaks = sum(item.cluster in held for item in sides["train"])
    assert leaks > 0 and any(line.startswith(f"split: {leaks} training units share") for line in lines)


def test_names_that_match_nothing_fail():
    units = many_units(20)
    with pytest.raises(UserError, match=r"2 of 3 val names match no file or entry \(first: f01\)"):
        split_units(units, val_names=["f001", "f01", "nothing.pdb"], log=quiet)
    with pytest.raises(UserError, match="list of val names is empty"):
        split_units(units, mode="file", val_names=[], log=quiet)
    with pytest.raises(UserError, match="without validation names"):
        split_units(units, mode="file", log=quiet)
    with pytest.raises(UserError, match="named for val and for test"):
        split_units(units, val_names=["f001", "f002"], test_names=["f002"], log=quiet)
    with pytest.raises(UserError, match="no unit to train on"):
        split_units(units, val_names=[item.file for item in units], log=quiet)


def test_a_named_file_without_usable_unit_is_counted():
    units, lines = many_units(20), []
    known = [item.file for item in units] + ["short.pdb"]
    sides = split_units(units, val_names=["f001", "short.pdb"], known_files=known, log=lines.append)
    assert names(sides["val"]) == ["f001:A"]
    assert any("1 of 2 val files gave no usable unit" in line for line in lines)
    with pytest.raises(UserError, match="has a usable unit"):
        split_units(units, val_names=["short"], known_files=known, log=quiet)


def test_train_and_test_names():
    units, lines = many_units(20), []
    sides = split_units(
        units, mode="file", train_names=["f000", "f001"], val_names=["f002"], test_names=["f003"], log=lines.append
    )
    assert [names(sides[side]) for side in ("train", "val", "test")] == [["f000:A", "f001:A"], ["f002:A"], ["f003:A"]]
    assert any("16 units are named on no side" in line for line in lines)
    sides = split_units(many_units(), test_names=["f001"], log=quiet)
    held = {item.cluster for item in sides["test"]}
    assert names(sides["test"]) == ["f001:A"]
    assert not held & {item.cluster for item in sides["train"] + sides["val"]}


def test_bad_settings_are_named():
    for settings, text in (
        ({"mode": "homology"}, "cluster, random, file"),
        ({"val_fraction": 1.0}, "--val_split"),
        ({"val_fraction": -0.1}, "--val_split"),
    ):
        with pytest.raises(UserError, match=text):
            split_units(many_units(20), log=quiet, **settings)
    with pytest.raises(UserError, match="entry or chain"):
        make_units(store(("a.pdb", "A", 50, 1, 0)), unit="file", log=quiet)


def test_the_document_names_every_unit():
    sides = split_units(many_units(), seed=1, log=quiet)
    document = json.loads(split_document(sides, {"mode": "cluster", "seed": 1}))
    assert {side: sorted(document[side]) for side in sides} == {side: names(units) for side, units in sides.items()}
    assert document["rule"] == {"mode": "cluster", "seed": 1}
