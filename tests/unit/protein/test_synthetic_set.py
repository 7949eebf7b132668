"""The synthetic set on disk: what is read back is what was generated, and it is written whole or not at all."""

import hashlib
import json
import time
from collections import Counter, defaultdict

import gemmi
import numpy as np
import pytest

from lib.errors import UserError
from lib.protein import synthetic
from lib.protein.cache import build_cache
from lib.protein.reading import ReadOptions, find_structure_files, read_file
from lib.protein.synthetic import (
    MARKER,
    UNFINISHED,
    entry_record,
    generate_entries,
    is_synthetic,
    is_unfinished,
    load_law,
    write_synthetic,
)
from lib.protein.synthetic_bounds import bayes_bounds, law_record
from lib.protein.synthetic_files import FEATURES, Entry, add_feature, file_bytes, plain_chain
from lib.protein.synthetic_table import LAW

CHAINS, SMALL = 48, 4


def quiet(_):
    """A log that says nothing."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic") / "set"
    started = time.process_time()
    write_synthetic(folder, chains=CHAINS, seed=0, log=quiet)
    return folder, time.process_time() - started, generate_entries(CHAINS, 0)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic") / "small"
    write_synthetic(folder, chains=SMALL, seed=0, log=quiet)
    return folder


def digest(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_set_is_what_was_asked_for(made):
    folder, _, entries = made
    described = json.loads((folder / MARKER).read_text())
    assert is_synthetic(folder) and not is_unfinished(folder) and not (folder / UNFINISHED).exists()
    assert sum(len(entry.chains) for entry in entries) == described["chains"] == CHAINS
    assert 0.15 < np.mean([len(entry.chains) == 2 for entry in entries]) < 0.25
    assert {entry.feature for entry in entries} == {"", *FEATURES}
    assert Counter(path.name.split(".", 1)[1] for path in find_structure_files(folder)).keys() == {
        "pdb", "cif", "pdb.gz", "cif.gz"
    }  # fmt: skip
    twofold = entries[9].chains
    np.testing.assert_array_equal(twofold[0].units * [-1, -1, 1], twofold[1].units)
    assert not np.array_equal(twofold[0].aa, twofold[1].aa), "each chain has its own sequence"


def test_generation_is_quick(made):
    assert made[1] < 10, "CPU seconds for 48 chains; the default set has 512 and should stay below 20"


def test_equal_seeds_give_equal_files_and_other_seeds_do_not(made, small):
    for entry in made[2]:  # generated a second time, in memory
        path = next(made[0].glob(f"{entry.name}.*"))
        assert file_bytes(entry, path.name.removeprefix(entry.name)) == path.read_bytes()
    one, other = (generate_entries(SMALL, seed) for seed in (0, 1))
    assert not np.array_equal(one[0].chains[0].units, other[0].chains[0].units)
    assert file_bytes(one[0], ".pdb") == (small / "syn_0000.pdb").read_bytes()


def test_reading_gives_back_every_residue(made):
    folder, _, entries = made
    files = {path.name.split(".")[0]: path for path in find_structure_files(folder)}
    counts = Counter()
    for entry in entries:
        result = read_file(files[entry.name], folder, ReadOptions())
        assert not result.rejections and len(result.chains) == len(entry.chains)
        counts.update(dict(result.counts))
        for chain, read in zip(entry.chains, result.chains):
            assert read.name == chain.name
            np.testing.assert_array_equal(read.aa, chain.aa[chain.written])
            np.testing.assert_allclose(read.coordinates, chain.units[chain.written] * 0.01, atol=1e-5)
            np.testing.assert_array_equal(read.numbers, chain.numbers[chain.written])
            kept = [code for code, here in zip(chain.insertions, chain.written) if here]
            assert read.insertions == {at: code for at, code in enumerate(kept) if code}
            assert (read.present == 15).all()
    for what in ("altlocs_resolved", "insertion_codes", "modified_mapped", "seqres_missing"):
        assert counts[what] > 0, what


def test_the_law_is_the_same_from_files_and_from_the_cache(made, tmp_path):
    folder, _, entries = made
    generated = {entry.name: entry_record(entry) for entry in entries}
    store = build_cache(folder, tmp_path / "cache", ReadOptions(), log=quiet)
    rows = defaultdict(list)
    for row, file in enumerate(store.files):
        rows[file.split(".")[0]].append(row)
    left_out = []
    for name, own in rows.items():
        chain = np.repeat(own, [len(store.aa(row)) for row in own])
        aa, present = (np.concatenate([get(row) for row in own]) for get in (store.aa, store.present))
        cached = law_record(name, store.chain_batch(own), present, chain, aa)
        if not cached.complete:
            left_out.append(name)
            continue
        for field in ("state", "burial", "parent", "aa"):
            np.testing.assert_array_equal(
                getattr(cached, field), getattr(generated[name], field), err_msg=f"{name} {field}"
            )
    described = json.loads((folder / MARKER).read_text())
    assert left_out == described["left_out_of_bounds"] == described["features"]["missing_residues"]
    assert len(left_out) == 1


def test_the_bounds_in_the_description_can_be_computed_again(made):
    folder, _, entries = made
    described = json.loads((folder / MARKER).read_text())
    bounds = bayes_bounds(load_law(folder), [entry_record(entry) for entry in entries]).perplexities()
    for key, value in bounds.items():
        assert value == pytest.approx(described[key]), key
    assert described["bayes_ppl_any_order"] < described["bayes_ppl_one_shot"] < described["unigram_ppl"]
    assert 7.5 < described["bayes_ppl_one_shot"] < 11 and 16 < described["unigram_ppl"] < 20
    assert load_law(folder) == LAW


def test_gemmi_agrees_on_both_formats(made):
    _, _, entries = made
    altlocs = next(entry for entry in entries if entry.feature == "altlocs")
    pdb = gemmi.read_pdb_string(file_bytes(altlocs, ".pdb"))
    cif = gemmi.make_structure_from_block(gemmi.cif.read_string(file_bytes(altlocs, ".cif").decode()).sole_block())
    for structure in (pdb, cif):
        structure.setup_entities()
        shape = [(chain.name, len(chain), chain.count_atom_sites()) for chain in structure[0]]
        expected = [(c.name, len(c.aa), 4 * (len(c.aa) + len(c.second))) for c in altlocs.chains]
        assert shape == expected
        assert structure.entities[0].polymer_type == gemmi.PolymerType.PeptideL


def test_features_change_what_they_should():
    for feature in FEATURES:
        chain = plain_chain("A", 60)
        add_feature(np.random.default_rng(0), chain, feature)
        assert (~chain.written).sum() in ((3, 4, 5, 6) if feature == "missing_residues" else (0,))
        assert bool(chain.second) == (feature == "altlocs")
        labels = list(zip(chain.numbers.tolist(), chain.insertions))
        assert len(set(labels)) == 60, "residue labels stay unique"
        assert any(chain.insertions) == (feature == "insertion_codes")
        plain = [number for number, code in labels if not code]
        assert plain == list(range(1, len(plain) + 1))


def test_selenomethionine_is_written_as_such():
    chain = plain_chain("A", 3)
    chain.units, chain.aa = np.zeros((3, 4, 3), np.int64), np.array([10, 0, 10], np.uint8)
    text = file_bytes(Entry("syn_0000", "selenomethionine", [chain]), ".pdb").decode()
    atoms = [line for line in text.splitlines() if line.startswith(("ATOM", "HETATM"))]
    assert [line[:6].strip() for line in atoms[::4]] == ["HETATM", "ATOM", "HETATM"]
    assert "MET" not in text and atoms[0][17:20] == "MSE"


def test_a_killed_generation_starts_again(small, tmp_path, monkeypatch):
    folder = tmp_path / "set"
    written = []

    def fail_late(entry, suffix):
        written.append(entry.name)
        if len(written) == 3:
            raise KeyboardInterrupt
        return file_bytes(entry, suffix)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(synthetic, "file_bytes", fail_late)
        write_synthetic(folder, chains=SMALL, seed=0, log=quiet)
    assert is_unfinished(folder) and not is_synthetic(folder)
    assert [path.name for path in folder.iterdir()] == [UNFINISHED], "nothing half-written in the folder itself"
    (folder / "syn_0000.pdb").write_text("moved before the kill")
    write_synthetic(folder, chains=SMALL, seed=0, log=quiet)
    assert digest(folder) == digest(small)


def test_a_finished_set_is_left_alone_and_another_one_refused(made, monkeypatch):
    folder = made[0]
    monkeypatch.setattr(synthetic, "generate_entries", None)
    before = digest(folder)
    write_synthetic(folder, chains=CHAINS, seed=0, log=quiet)
    with pytest.raises(UserError, match="holds a synthetic set of 48 chains, seed 0"):
        write_synthetic(folder, chains=CHAINS, seed=3, log=quiet)
    assert digest(folder) == before


def test_a_folder_with_other_structures_is_refused(tmp_path):
    (tmp_path / "1abc.cif.gz").write_bytes(b"kept")
    with pytest.raises(UserError, match=r"holds 1 structure files \(1abc.cif.gz\)"):
        write_synthetic(tmp_path, chains=4, log=quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["1abc.cif.gz"]
    with pytest.raises(UserError, match="expected at least 2"):
        write_synthetic(tmp_path / "new", chains=1, log=quiet)


@pytest.mark.parametrize("damage", ["", "{}", '{"law": {"state_logits": 3}}', "version"])
def test_a_damaged_law_is_named(made, tmp_path, damage):
    described = json.loads((made[0] / MARKER).read_text())
    described["law"]["burial_edges"] = [1, 2]
    (tmp_path / MARKER).write_text(json.dumps(described) if damage == "version" else damage)
    with pytest.raises(UserError, match="delete the folder"):
        load_law(tmp_path)
