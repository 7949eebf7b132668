"""PDB rules of the specification, section 3, each on a text written here."""

import numpy as np
import pytest
from structure_texts import OFFSETS, STEP, Atom, chain, pdb_text, residue

from lib.protein.reading import ReadOptions, read_bytes
from lib.protein.residues import sequence_text


def read(text, file="folder/test.pdb", **options):
    return read_bytes(text, file, ReadOptions(**options))


def only_chain(text, **options):
    result = read(text, **options)
    assert not result.rejections, result.rejections
    assert len(result.chains) == 1
    return result.chains[0]


def reasons(text, **options):
    result = read(text, **options)
    assert not result.chains
    return [(item.chain, item.reason) for item in result.rejections]


def test_a_plain_chain_comes_through_exactly():
    found = only_chain(pdb_text(chain(24, b_factor=300.0), header="HEADER    TEST" + " " * 48 + "1ABC\n"))
    assert (found.id, found.file, found.entry, found.name) == ("folder/test:A", "folder/test.pdb", "1ABC", "A")
    assert sequence_text(found.aa) == ("AGSLK" * 5)[:24]
    assert found.numbers.tolist() == list(range(1, 25))
    assert found.present.tolist() == [15] * 24
    assert found.confidence.tolist() == [255] * 24
    expected = np.array([[STEP * i + OFFSETS[name] for name in ("N", "CA", "C", "O")] for i in range(24)], np.float32)
    assert np.array_equal(found.coordinates[:, :, 0], expected.round(3))
    assert np.array_equal(found.coordinates[0, :, 1], np.array([0, 0.5, 0, -1.2], np.float32))
    assert found.coordinates.dtype == np.float32 and found.numbers.dtype == np.int32
    assert {array.dtype for array in (found.present, found.aa, found.confidence)} == {np.dtype(np.uint8)}
    assert not found.insertions and not found.is_plddt and found.copy_of == ""


def test_legacy_columns_73_to_80_do_no_harm():
    plain = pdb_text(chain(24))
    legacy = b"\n".join(
        line[:66].ljust(72) + b"1ABC%4d" % n if line.startswith(b"ATOM") else line
        for n, line in enumerate(plain.split(b"\n"))
    )
    result = read(legacy)
    assert result.counts["legacy_column_files"] == 1
    assert np.array_equal(result.chains[0].coordinates, only_chain(plain).coordinates)
    assert read(plain).counts["legacy_column_files"] == 0


def test_calcium_is_no_ca_atom():
    calcium = Atom(name="CA", residue="CA", het=True, number=900).pdb(999).replace("  CA  ", " CA   ", 1)
    atoms = chain(24, atoms=("N", "C", "O"))
    assert reasons(pdb_text([*atoms, calcium])) == [("A", "no_backbone")]
    assert len(only_chain(pdb_text([*chain(24), calcium]))) == 24


def test_windows_line_ends_and_short_records():
    text = pdb_text(chain(24))
    expected = only_chain(text)
    for changed in (text.replace(b"\n", b"\r\n"), b"\n".join(line[:54] for line in text.split(b"\n"))):
        found = only_chain(changed)
        assert np.array_equal(found.coordinates, expected.coordinates)
        assert np.array_equal(found.numbers, expected.numbers)
    assert only_chain(text.replace(b"\n", b"\r\n")).confidence.tolist() == [20] * 24


def altlocs(position, occupancies, **changes):
    atoms = []
    for letter, occupancy in occupancies.items():
        atoms += residue(position, altloc=letter, occupancy=occupancy, z=float(ord(letter) - 64), **changes)
    return atoms


@pytest.mark.parametrize(
    ("occupancies", "winner"),
    [
        ({"A": 0.4, "B": 0.6}, "B"),
        ({"A": 0.6, "B": 0.4}, "A"),
        ({"B": 0.5, "A": 0.5}, "A"),
        ({"C": 0.2, "B": 0.2}, "B"),
    ],
)
def test_altlocs_one_conformer_by_occupancy_then_letter(occupancies, winner):
    result = read(pdb_text([*chain(10), *altlocs(10, occupancies), *chain(13, first=11)]))
    assert result.counts["altlocs_resolved"] == 1
    found = result.chains[0]
    assert found.coordinates[10, :, 2].tolist() == [ord(winner) - 64] * 4
    assert len(found) == 24


def test_altlocs_are_never_mixed_within_a_residue():
    # B has the higher sum although A has the better N: all four atoms must be B's
    atoms = residue(10, atoms=("N",), altloc="A", occupancy=0.9, z=1.0)
    atoms += residue(10, atoms=("N",), altloc="B", occupancy=0.1, z=2.0)
    for name in ("CA", "C", "O"):
        atoms += residue(10, atoms=(name,), altloc="A", occupancy=0.3, z=1.0)
        atoms += residue(10, atoms=(name,), altloc="B", occupancy=0.7, z=2.0)
    found = only_chain(pdb_text([*chain(10), *atoms, *chain(13, first=11)]))
    assert found.coordinates[10, :, 2].tolist() == [2.0] * 4


def test_atoms_without_letter_belong_to_every_conformer():
    atoms = residue(10, atoms=("N", "CA"), z=5.0)
    for letter, occupancy in (("A", 0.3), ("B", 0.7)):
        atoms += residue(10, atoms=("C", "O"), altloc=letter, occupancy=occupancy, z=float(ord(letter)))
    found = only_chain(pdb_text([*chain(10), *atoms, *chain(13, first=11)]))
    assert found.coordinates[10, :, 2].tolist() == [5.0, 5.0, 66.0, 66.0]


def test_microheterogeneity_keeps_the_residue_of_highest_occupancy():
    atoms = residue(10, name="SER", altloc="A", occupancy=0.35, z=1.0)
    atoms += residue(10, name="THR", altloc="B", occupancy=0.65, z=2.0)
    result = read(pdb_text([*chain(10), *atoms, *chain(13, first=11)]))
    found = result.chains[0]
    assert len(found) == 24
    assert sequence_text(found.aa)[10] == "T"
    assert found.coordinates[10, :, 2].tolist() == [2.0] * 4
    assert result.counts["microheterogeneity"] == 1


def test_insertion_codes_keep_file_order():
    atoms = chain(10)
    for position, (number, code) in enumerate([(52, ""), (52, "B"), (52, "A"), (53, "")], start=10):
        atoms += residue(position, number=number, insertion=code)
    result = read(pdb_text([*atoms, *chain(10, first=60)]))
    found = result.chains[0]
    assert found.numbers[10:14].tolist() == [52, 52, 52, 53]
    assert found.insertions == {11: "B", 12: "A"}
    assert result.counts["insertion_codes"] == 2


def test_numbers_below_one_and_numbering_that_runs_back():
    atoms = [
        atom
        for i, number in enumerate([-3, -2, 0, *range(50, 61), *range(5, 16)])
        for atom in residue(i, number=number)
    ]
    found = only_chain(pdb_text(atoms))
    assert found.numbers.tolist() == [-3, -2, 0, *range(50, 61), *range(5, 16)]
    assert np.all(np.diff(found.coordinates[:, 1, 0]) > 0)


def test_hybrid_36_numbers():
    text = pdb_text(chain(24)).replace(b" A  24 ", b" AA000 ")
    assert only_chain(text).numbers.tolist() == [*range(1, 24), 10000]


def test_modified_force_field_and_unknown_residues():
    names = {3: "MSE", 5: "HIE", 7: "SEC", 9: "ZZZ"}
    atoms = [atom for i in range(24) for atom in residue(i, name=names.get(i, ""), het=names.get(i) in ("MSE", "ZZZ"))]
    result = read(pdb_text(atoms))
    text = sequence_text(result.chains[0].aa)
    assert len(text) == 24
    assert (text[3], text[5], text[7], text[9]) == ("M", "H", "X", "X")
    assert result.counts["modified_mapped"] == 2
    assert result.counts["residues_x"] == 2


def test_unknown_polymer_residue_without_backbone_is_kept_where_the_sequence_lists_it():
    atoms = [*chain(10), *residue(10, name="QQQ", atoms=("CB",), het=True), *chain(13, first=11)]
    header = "SEQRES   1 A   24  ALA GLY SER LEU LYS ALA GLY SER LEU LYS QQQ\n"
    found = only_chain(pdb_text(atoms, header=header))
    assert len(found) == 24
    assert (sequence_text(found.aa)[10], int(found.present[10])) == ("X", 0)
    assert not found.coordinates[10].any()


def test_caps_are_dropped():
    cap = residue(-1, name="ACE", atoms=("C", "O"), number=0)
    result = read(pdb_text([*cap, *chain(24), *residue(24, name="NH2", atoms=("N",))]))
    assert len(result.chains[0]) == 24
    assert result.counts["caps_dropped"] == 2


@pytest.mark.parametrize("ter", [True, False])
def test_a_free_amino_acid_is_a_ligand(ter):
    ligand = [atom.pdb() for atom in residue(80, name="LYS", het=True, number=500)]
    lines = [*pdb_text(chain(24), ter=ter, end="").decode().splitlines(), *ligand]
    found = only_chain("\n".join(lines).encode() + b"\n")
    assert len(found) == 24
    assert 500 not in found.numbers


def test_a_bonded_hetatm_residue_without_ter_is_polymer():
    atoms = [*chain(10), *residue(10, name="MSE", het=True), *chain(13, first=11)]
    assert sequence_text(only_chain(pdb_text(atoms, ter=False)).aa)[10] == "M"


def test_several_ter_in_one_chain_do_not_end_it():
    lines = [*(a.pdb() for a in chain(12)), "TER", *(a.pdb() for a in chain(12, first=12)), "TER"]
    assert len(only_chain(("\n".join(lines) + "\n").encode())) == 24


def test_only_the_first_model():
    one, two = (pdb_text(chain(24, z=z), end="ENDMDL\n").decode() for z in (1.0, 2.0))
    result = read(f"MODEL        1\n{one}MODEL        2\n{two}END\n".encode())
    assert len(result.chains) == 1
    assert set(result.chains[0].coordinates[:, :, 2].flat) == {1.0}
    assert result.counts["models_dropped"] == 1


def test_chains_in_file_order_with_blank_name():
    result = read(pdb_text([*chain(24, chain="B"), *chain(22, chain=" ", z=20.0), *chain(21, chain="A", z=40.0)]))
    assert [(item.id, len(item)) for item in result.chains] == [
        ("folder/test:B", 24),
        ("folder/test:_", 22),
        ("folder/test:A", 21),
    ]


def test_missing_backbone_atoms_keep_the_residue():
    atoms = [*chain(10), *residue(10, atoms=("N", "C", "O", "CB")), *residue(11, atoms=("N",)), *chain(12, first=12)]
    result = read(pdb_text(atoms))
    found = result.chains[0]
    assert found.present[9:13].tolist() == [15, 0b1101, 0b0001, 15]
    assert found.coordinates[10, 1].tolist() == [0, 0, 0]
    assert result.counts["residues_incomplete"] == 2


def test_breaks_are_counted_where_the_bond_is_long_or_an_atom_is_absent():
    assert read(pdb_text(chain(24))).counts["breaks"] == 0
    assert read(pdb_text([*chain(12), *chain(12, first=13)])).counts["breaks"] == 1
    atoms = [*chain(12), *residue(12, atoms=("CA", "C", "O")), *chain(11, first=13)]
    assert read(pdb_text(atoms)).counts["breaks"] == 1


def test_duplicated_records_are_repaired_and_counted():
    atoms = chain(24)
    plain = only_chain(pdb_text(atoms))
    for doubled in ([copy for atom in atoms for copy in (atom, atom)], atoms + atoms):
        result = read(pdb_text(doubled))
        assert result.counts["duplicate_atoms_repaired"] == 96
        assert np.array_equal(result.chains[0].coordinates, plain.coordinates)


def test_the_same_atoms_at_two_places_are_rejected():
    assert reasons(pdb_text([*chain(24), *chain(24, z=5.0)])) == [("A", "duplicate_atoms")]


def test_polymers_that_are_not_protein():
    bases = [Atom(name=name, residue="DA", number=i + 1) for i in range(25) for name in ("P", "C1'", "N9")]
    assert reasons(pdb_text(bases)) == [("", "no_protein")]
    water = [Atom(name="O", residue="HOH", het=True, number=i) for i in range(30)]
    assert reasons(pdb_text(water)) == [("", "no_protein")]


def test_length_limits_and_ca_only():
    assert reasons(pdb_text(chain(19))) == [("A", "too_short")]
    assert len(only_chain(pdb_text(chain(19)), min_length=10)) == 19
    assert reasons(pdb_text(chain(30)), max_chain_length=29) == [("A", "too_long")]
    traces = pdb_text(chain(24, atoms=("CA",)))
    assert reasons(traces) == [("A", "ca_only")]
    assert only_chain(traces, ca_only=True).present.tolist() == [0b0010] * 24


def test_a_rejected_chain_does_not_take_the_others_along():
    result = read(pdb_text([*chain(24), *chain(5, chain="P", z=9.0), *chain(24, chain="Q", z=20.0, x="nan")]))
    assert [item.name for item in result.chains] == ["A"]
    assert [(item.chain, item.reason) for item in result.rejections] == [("P", "too_short"), ("Q", "nan_coordinates")]


@pytest.mark.parametrize("value", ["nan", "********", "inf", "1e39"])
def test_coordinates_that_are_no_finite_numbers(value):
    atoms = [*chain(10), *residue(10, y=value), *chain(13, first=11)]
    assert reasons(pdb_text(atoms)) == [("A", "nan_coordinates")]


def test_broken_texts_have_names():
    text = pdb_text(chain(24))
    assert reasons(b"") == [("", "empty")]
    assert reasons(b" \n\n") == [("", "empty")]
    assert reasons(b"HEADER    NOTHING\nREMARK   1\nEND\n") == [("", "empty")]
    assert reasons(b"MODEL        1\nENDMDL\n") == [("", "no_model")]
    assert reasons(bytes(range(256)) * 40) == [("", "unreadable")]
    for cut in (30, 45, 53, 60, 63):
        line = text.rfind(b"ATOM")
        assert reasons(text[: line + cut]) == [("", "cut_record")], cut
    assert reasons(text[: text.rfind(b"ATOM") + 3]) == [("", "cut_record")]
    lines = text.split(b"\n")
    assert reasons(b"\n".join([*lines[:50], lines[50][:40], *lines[51:]])) == [("", "cut_record")]


def test_a_text_cut_in_a_later_model_keeps_the_first():
    model = pdb_text(chain(24), end="ENDMDL\n").decode()
    text = f"MODEL        1\n{model}MODEL        2\n{model}"
    assert len(only_chain(text[: text.rfind("ATOM") + 40].encode())) == 24


def test_four_letter_residue_names_and_two_letter_chains():
    text = pdb_text(chain(24))
    assert sequence_text(only_chain(text.replace(b"ALA A", b"NALAA")).aa) == ("AGSLK" * 5)[:24]
    assert only_chain(text.replace(b"ALA A", b"NALAA")).name == "A"
    wide = b"\n".join(line[:20] + b"BC" + line[22:] if line.startswith(b"ATOM") else line for line in text.split(b"\n"))
    assert only_chain(wide).name == "BC"


def test_names_written_one_column_to_the_left():
    text = pdb_text(chain(24), ter=False)
    moved = b"\n".join(
        line[:12] + line[13:16] + b" " + line[16:] if line.startswith(b"ATOM") else line for line in text.split(b"\n")
    )
    result = read(moved)
    assert result.counts["shifted_name_files"] == 1
    assert np.array_equal(result.chains[0].coordinates, only_chain(text).coordinates)


def test_predictions_by_their_title():
    title = "TITLE     ALPHAFOLD MONOMER V2.0 PREDICTION FOR X\n"
    found = only_chain(pdb_text(chain(24, b_factor=91.4), header=title))
    assert found.is_plddt and found.confidence.tolist() == [91] * 24
    fractions = only_chain(pdb_text(chain(24, b_factor=0.91), header=title))
    assert fractions.confidence.tolist() == [91] * 24
    assert not only_chain(pdb_text(chain(24, b_factor=0.91))).is_plddt


ASSEMBLY = (
    "REMARK 350 BIOMOLECULE: 1\n"
    "REMARK 350 APPLY THE FOLLOWING TO CHAINS: A\n"
    "REMARK 350   BIOMT1   1  1.000000  0.000000  0.000000        0.00000\n"
    "REMARK 350   BIOMT2   1  0.000000  1.000000  0.000000        0.00000\n"
    "REMARK 350   BIOMT3   1  0.000000  0.000000  1.000000        0.00000\n"
    "REMARK 350   BIOMT1   2 -1.000000  0.000000  0.000000       10.00000\n"
    "REMARK 350   BIOMT2   2  0.000000 -1.000000  0.000000        0.00000\n"
    "REMARK 350   BIOMT3   2  0.000000  0.000000  1.000000        5.00000\n"
)


def test_assemblies_mark_copies_as_tied():
    atoms = [*chain(10), *residue(10, atoms=("N", "CA")), *chain(13, first=11), *chain(24, chain="B", z=30.0)]
    text = pdb_text(atoms, header=ASSEMBLY)
    assert [item.name for item in read(text).chains] == ["A", "B"]
    result = read(text, assembly=1)
    first, second = result.chains
    assert [(item.id, item.name, item.copy_of) for item in (first, second)] == [
        ("folder/test:A", "A", ""),
        ("folder/test:A-2", "A-2", "folder/test:A"),
    ]
    assert np.allclose(second.coordinates[0], first.coordinates[0] * [-1, -1, 1] + [10, 0, 5], atol=1e-4)
    assert not second.coordinates[10, 2:].any()
    assert result.counts["assembly_copies"] == 1
    assert result.counts["assembly_chains_left_out"] == 1
    assert reasons(text, assembly=2) == [("", "no_assembly")]
    assert read(pdb_text(chain(24)), assembly=1).counts["assembly_as_written"] == 1
