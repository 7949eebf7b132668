"""Files, compression, names; robustness against damage; and the development structures as a whole."""

import csv
import gzip
import os
import random
import warnings
from collections import Counter
from pathlib import Path

import gemmi
import numpy as np
import pytest
from structure_texts import chain, cif_text, pdb_text

from lib.errors import UserError
from lib.protein.data_report import DataReport
from lib.protein.reading import ReadOptions, decompress, file_stem, find_structure_files, read_bytes, read_file
from lib.protein.residues import sequence_text

STRUCTURES = Path(
    os.environ.get("QUARTET_STRUCTURES", Path(__file__).resolve().parents[4] / "shared" / "data" / "structures")
)


def test_find_structure_files(tmp_path):
    for name in ("b.pdb", "a.cif.gz", "deep/c.ent", "deep/d.mmCIF", "notes.txt", "deep/e.pdb.gz", "x.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in find_structure_files(tmp_path)]
    assert found == ["a.cif.gz", "b.pdb", "deep/c.ent", "deep/d.mmCIF", "deep/e.pdb.gz"]
    assert find_structure_files(tmp_path / "b.pdb") == [tmp_path / "b.pdb"]


def test_find_structure_files_refuses_with_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "1abc.pt").write_bytes(b"")
    for path, said in (
        (tmp_path / "none", "no such"),
        (tmp_path / "notes.txt", ".cif"),
        (tmp_path / "old", "--cache_dir"),
    ):
        with pytest.raises(UserError, match=said) as error:
            find_structure_files(path)
        assert "\n" not in str(error.value)
    (tmp_path / "empty").mkdir()
    assert find_structure_files(tmp_path / "empty") == []


def test_file_stem():
    assert file_stem("a/1abc.pdb.gz") == "a/1abc"
    assert file_stem("1abc.v2.cif") == "1abc.v2"
    assert file_stem("noext") == "noext"


def test_read_file_plain_and_gzip(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one.pdb").write_bytes(pdb_text(chain(24)))
    (tmp_path / "two.cif.gz").write_bytes(gzip.compress(cif_text(chain(24))))
    one = read_file(tmp_path / "sub" / "one.pdb", tmp_path)
    two = read_file(tmp_path / "two.cif.gz", tmp_path)
    assert (one.file, one.chains[0].id, one.chains[0].entry) == ("sub/one.pdb", "sub/one:A", "one")
    assert (two.file, two.chains[0].id) == ("two.cif.gz", "two:A")
    assert np.array_equal(one.chains[0].coordinates, two.chains[0].coordinates)
    missing = read_file(tmp_path / "gone.pdb", tmp_path)
    assert [(item.reason, item.chain) for item in missing.rejections] == [("unreadable", "")]


def test_gzip_damage_is_named():
    data = gzip.compress(pdb_text(chain(24)))
    for cut in (5, 12, len(data) // 2, len(data) - 3):
        assert [item.reason for item in read_bytes(data[:cut], "x.pdb.gz").rejections] == ["truncated_stream"], cut
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0xFF
    assert next(item.reason for item in read_bytes(bytes(damaged), "x.pdb.gz").rejections) in (
        "unreadable",
        "truncated_stream",
    )
    assert [item.reason for item in read_bytes(b"", "x.pdb.gz").rejections] == ["empty"]
    assert decompress(gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    assert len(read_bytes(pdb_text(chain(24)), "not_compressed.pdb.gz").chains) == 1


@pytest.mark.parametrize(
    "options", [{"min_length": 0}, {"assembly": 0}, {"model": "second"}, {"min_length": 30, "max_chain_length": 20}]
)
def test_options_are_checked(options):
    with pytest.raises(UserError):
        ReadOptions(**options)


def test_content_key_leaves_out_what_does_not_change_content():
    assert ReadOptions(strict=True).content_key() == ReadOptions().content_key()
    assert ReadOptions(ca_only=True).content_key() != ReadOptions().content_key()


def damaged(text: bytes, rng: random.Random) -> bytes:
    data = bytearray(text)
    way = rng.randrange(6)
    if way == 0:
        return bytes(data[: rng.randrange(len(data))])
    if way == 1:
        for _ in range(rng.randrange(1, 60)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
    if way == 2:
        start = rng.randrange(len(data))
        del data[start : start + rng.randrange(500)]
        return bytes(data)
    lines = text.split(b"\n")
    if way == 3:
        rng.shuffle(lines)
    elif way == 4:
        lines = [line for line in lines if rng.random() < 0.7]
    else:
        lines = [line[: rng.choice((20, 54, 60, 80))] for line in lines]
    return b"\n".join(lines)


@pytest.mark.parametrize(("file", "text"), [("x.pdb", pdb_text(chain(24))), ("x.cif", cif_text(chain(24)))])
def test_no_damage_raises_or_warns(file, text):
    rng = random.Random(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(300):
            result = read_bytes(damaged(text, rng), file, ReadOptions(assembly=rng.choice((None, 1))))
            assert result.chains or result.rejections
            for found in result.chains:
                assert np.isfinite(found.coordinates).all() and len(found) >= 20


@pytest.fixture(scope="module")
def everything():
    if not (STRUCTURES / "MANIFEST.csv").is_file():
        pytest.skip("development structures not found beside the checkout (set QUARTET_STRUCTURES)")
    root = STRUCTURES / "files"
    results = {path.name: read_file(path, root) for path in find_structure_files(root)}
    with open(STRUCTURES / "MANIFEST.csv", newline="") as file:
        manifest = {row["file"]: row for row in csv.DictReader(file)}
    return results, manifest


# What MANIFEST.csv counts and a protein chain does not hold, or the other way round: free amino acids and other ligands
# with an amino acid's atoms (1a4w DAR, 1bma 0QH, 1tmq 5HP, 3ems ARG, 3mht SAH, 4cum ARG, 6r79 GLY), and residues that
# have lost their CA atom, which stay in the chain with a presence bitmask. 2cfh writes a lipid-modified residue without
# C (P1L) behind its chain.
LIGANDS = {
    "1a4w.cif.gz",
    "1a4w.pdb.gz",
    "1bma.pdb.gz",
    "1tmq.pdb.gz",
    "3ems.pdb.gz",
    "3mht.pdb.gz",
    "4cum.pdb.gz",
    "6r79.pdb.gz",
}
CA_ONLY = {"1gdr.pdb.gz", "1ubi_ca.pdb.gz", "2k39_ca.pdb.gz"}


@pytest.mark.shared_data
def test_totals_agree_with_the_manifest(everything):
    results, manifest = everything
    assert results.keys() == manifest.keys() and len(results) == 632
    residues = sum(len(item) for result in results.values() for item in result.chains)
    chains = sum(len(result.chains) for result in results.values())
    assert abs(residues - 279_633) < 0.005 * 279_633
    assert abs(chains - 1_314) <= 3
    differing = set()
    for name, result in results.items():
        row = manifest[name]
        kept = [item for item in result.chains if item.present.any()]
        without_ca = sum(int((item.present & 2 == 0).sum()) for item in kept)
        stated = (int(row["n_chains"] or 0), int(row["residues"] or 0))
        if (len(kept), sum(map(len, kept)) - without_ca) != stated:
            differing.add(name)
        elif kept:
            assert [item.name for item in kept] == row["chains"].split()
    assert differing - LIGANDS - CA_ONLY - {"2cfh.pdb.gz", "bad_duplicate_atoms.pdb.gz"} == set()


@pytest.mark.shared_data
def test_broken_files_have_named_reasons(everything):
    results, _ = everything
    expected = {
        "bad_truncated_stream.pdb.gz": ("", "truncated_stream"),
        "bad_cut_midline.pdb.gz": ("", "cut_record"),
        "bad_empty.pdb.gz": ("", "empty"),
        "bad_garbage_bytes.pdb.gz": ("", "unreadable"),
        "bad_nan_coords.pdb.gz": ("A", "nan_coordinates"),
        "bad_no_backbone_o.pdb.gz": ("A", "no_backbone"),
        "1hbb_pdbx_seq_one_letter_code-ins.cif.gz": ("", "missing_ids"),
    }
    for name, reason in expected.items():
        assert [(item.chain, item.reason) for item in results[name].rejections] == [reason], name
        assert not results[name].chains
    repaired = results["bad_duplicate_atoms.pdb.gz"]
    assert repaired.counts["duplicate_atoms_repaired"] == 304
    assert np.array_equal(repaired.chains[0].coordinates, results["1ubi.pdb.gz"].chains[0].coordinates)


@pytest.mark.shared_data
def test_every_file_without_chains_has_a_reason(everything):
    results, manifest = everything
    report = DataReport()
    for result in results.values():
        assert result.chains or result.rejections, result.file
        report.add(result)
    flags = Counter(flag for row in manifest.values() for flag in row["flags"].split(";"))
    data = report.to_dict()
    assert (data["files"], data["counts"]["legacy_column_files"]) == (632, flags["legacy-cols-73-80"])
    assert data["counts"]["plddt_files"] == 2
    with_codes = sum(any(item.insertions for item in result.chains) for result in results.values())
    assert abs(with_codes - flags["icode"]) <= 2
    assert abs(sum(result.counts["models_dropped"] > 0 for result in results.values()) - flags["multi-model"]) <= 2


@pytest.mark.shared_data
def test_backbone_agrees_with_gemmi(everything):
    """One file in 27, atom by atom, against gemmi's own tree (atoms without altloc)."""
    results, _ = everything
    compared = 0
    for name in sorted(name for name, result in results.items() if result.chains and "bad_" not in name)[::27]:
        places = gemmi_places(name)
        for item in results[name].chains:
            for position, number in enumerate(item.numbers.tolist()):
                for kind, atom in enumerate(("N", "CA", "C", "O")):
                    key = (item.name, number, item.insertions.get(position, " "), atom)
                    if item.present[position] >> kind & 1 and key in places:
                        assert np.allclose(item.coordinates[position, kind], places[key], atol=1e-3), (name, key)
                        compared += 1
    assert compared > 25_000


def gemmi_places(name: str) -> dict:
    text = gzip.decompress((STRUCTURES / "files" / name).read_bytes())
    if ".cif" in name:
        structure = gemmi.make_structure_from_block(gemmi.cif.read_string(text)[0])
    else:
        lines = [line[:66] if line[:6] in (b"ATOM  ", b"HETATM", b"ANISOU") else line for line in text.split(b"\n")]
        structure = gemmi.read_pdb_string(b"\n".join(lines))
    places: dict = {}
    for part in structure[0]:
        for residue in part:
            for atom in residue:
                key = (part.name, residue.seqid.num, residue.seqid.icode, atom.name)
                if atom.name in ("N", "CA", "C", "O") and atom.altloc == "\0" and key not in places:
                    places[key] = atom.pos.tolist()
    return places


@pytest.mark.shared_data
def test_both_formats_of_one_entry_agree(everything):
    results, _ = everything
    pairs = 0
    for name in ("1a4w", "2xhe"):
        one, other = results[f"{name}.pdb.gz"].chains, results[f"{name}.cif.gz"].chains
        assert [item.name for item in one] == [item.name for item in other]
        for a, b in zip(one, other, strict=True):
            assert sequence_text(a.aa) == sequence_text(b.aa)
            assert np.array_equal(a.numbers, b.numbers) and a.insertions == b.insertions
            assert np.allclose(a.coordinates, b.coordinates, atol=1e-3)
            pairs += 1
    assert pairs == 4
