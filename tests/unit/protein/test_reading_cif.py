"""mmCIF rules of the specification, section 3, each on a text written here."""

import gemmi
import numpy as np
import pytest
from structure_texts import CIF_TAGS, ENTITIES, Atom, chain, cif_text, pdb_text, residue

from lib.protein.assembly import expand_operators
from lib.protein.reading import ReadOptions, read_bytes
from lib.protein.residues import sequence_text


def read(text, file="test.cif", **options):
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


def test_the_same_chain_as_pdb_and_mmcif():
    atoms = [*chain(10), *residue(10, name="MSE", het=True, insertion="C", b_factor=55.5), *chain(13, first=11)]
    one, other = only_chain(cif_text(atoms)), read_bytes(pdb_text(atoms), "test.pdb").chains[0]
    assert one.id == other.id == "test:A"
    for field in ("coordinates", "present", "aa", "confidence", "numbers"):
        assert np.array_equal(getattr(one, field), getattr(other, field)), field
    assert one.insertions == other.insertions == {10: "C"}


def test_author_names_and_label_order():
    atoms = [
        atom
        for i in reversed(range(24))
        for atom in residue(i, chain="H", asym="Q", number=500 - i, insertion="B" if i == 3 else "")
    ]
    found = only_chain(cif_text(atoms))
    assert found.name == "H"
    assert found.numbers.tolist() == list(range(500, 476, -1))
    assert np.all(np.diff(found.coordinates[:, 1, 0]) > 0)
    assert found.insertions == {3: "B"}


def test_polymer_by_entity_not_by_name():
    ligand = residue(80, name="LYS", het=True, number=500, asym="B", entity="2", label_seq=None)
    bases = [
        Atom(name=name, residue="DA", chain="D", asym="D", entity="3", label_seq=i, number=i)
        for i in range(1, 30)
        for name in ("P", "O")
    ]
    head = "loop_\n_entity_poly.entity_id\n_entity_poly.type\n1 'polypeptide(L)'\n3 polydeoxyribonucleotide\n#\n"
    result = read(cif_text([*chain(24), *ligand, *bases], head=head))
    assert [(item.name, len(item)) for item in result.chains] == [("A", 24)]
    assert not result.rejections
    only_bases = cif_text(bases, head=head)
    assert reasons(only_bases) == [("", "no_protein")]


def test_unknown_residue_of_a_polymer_entity_is_kept_without_any_backbone():
    atoms = [*chain(10), *residue(10, name="CRX", atoms=("CB",), het=True), *chain(13, first=11)]
    found = only_chain(cif_text(atoms))
    assert (len(found), sequence_text(found.aa)[10], int(found.present[10])) == (24, "X", 0)


def test_caps_are_dropped():
    atoms = [*residue(0, name="ACE", atoms=("C", "O")), *chain(24, first=1)]
    result = read(cif_text(atoms))
    assert len(result.chains[0]) == 24
    assert result.counts["caps_dropped"] == 1


def test_without_entity_categories_label_seq_tells_the_polymer():
    ligand = residue(80, name="LYS", het=True, asym="B", entity="2", label_seq=None)
    assert len(only_chain(cif_text([*chain(24), *ligand], head=""))) == 24


def test_without_label_seq_geometry_decides():
    ligand = residue(80, name="LYS", het=True)
    atoms = [*chain(10), *residue(10, name="MSE", het=True), *chain(13, first=11), *ligand]
    tags = [tag for tag in CIF_TAGS if tag not in ("label_seq_id", "label_entity_id")]
    found = only_chain(cif_text(atoms, head="", tags=tags))
    assert sequence_text(found.aa)[10] == "M"
    assert len(found) == 24


def test_altlocs_and_microheterogeneity():
    atoms = residue(10, name="SER", altloc="A", occupancy=0.65, z=1.0)
    atoms += residue(10, name="THR", altloc="B", occupancy=0.35, z=2.0)
    result = read(cif_text([*chain(10), *atoms, *chain(13, first=11)]))
    found = result.chains[0]
    assert sequence_text(found.aa)[10] == "S"
    assert found.coordinates[10, :, 2].tolist() == [1.0] * 4
    assert (result.counts["altlocs_resolved"], result.counts["microheterogeneity"]) == (1, 1)


def test_first_model_only():
    result = read(cif_text([*chain(24, z=1.0, model=4), *chain(24, z=2.0, model=7)]))
    assert set(result.chains[0].coordinates[:, :, 2].flat) == {1.0}
    assert result.counts["models_dropped"] == 1


def test_a_table_without_model_and_ids_is_missing_ids():
    tags = [tag for tag in CIF_TAGS if tag not in ("id", "pdbx_PDB_model_num")]
    text = cif_text(chain(24), tags=tags)
    assert len(gemmi.make_structure_from_block(gemmi.cif.read_string(text)[0])) == 0  # gemmi says nothing
    result = read(text)
    assert [(item.reason, item.detail) for item in result.rejections] == [
        ("missing_ids", "_atom_site has no id, pdbx_PDB_model_num")
    ]


@pytest.mark.parametrize("tag", ["label_atom_id", "Cartn_y", "label_comp_id"])
def test_a_table_without_a_needed_column_names_it(tag):
    result = read(cif_text(chain(24), tags=[name for name in CIF_TAGS if name != tag]))
    assert [item.reason for item in result.rejections] == ["missing_ids"]
    assert tag.lower() in result.rejections[0].detail.lower()


def test_optional_columns_may_be_absent():
    optional = ("group_PDB", "type_symbol", "label_alt_id", "pdbx_PDB_ins_code", "occupancy", "B_iso_or_equiv", "id")
    found = only_chain(cif_text(chain(24), tags=[name for name in CIF_TAGS if name not in optional]))
    assert len(found) == 24 and found.confidence.tolist() == [0] * 24


def variants():
    plain = cif_text(chain(24)).decode()
    rows = plain.index("ATOM")
    yield "quoted names", plain.replace(" CA ", ' "CA" ').replace(" ALA ", " 'ALA' ")
    yield "blanks in quotes", plain.replace("ATOM 1 N N ", "ATOM 1 N 'N ' ").replace("ATOM 2 C CA ", "ATOM 2 'C X' CA ")
    yield "text field", plain.replace("\nATOM 3 C ", "\nATOM 3\n;C\n;\n")
    yield "comment", plain.replace("\nATOM 7", " # remark\nATOM 7", 1)
    yield "several rows a line", plain[:rows] + plain[rows:].replace("\nATOM", "   ATOM")
    yield "windows line ends", plain.replace("\n", "\r\n")
    yield "other category behind", plain.replace("\n#\n", "\n")[:-1] + "\n_cell.length_a 5\n"
    yield "no line end", plain.rstrip("#\n")
    yield "upper-case tags", plain.replace("_atom_site.Cartn_x", "_ATOM_SITE.CARTN_X")
    yield "categories behind", cif_text(chain(24), head="", tail="#\n" + ENTITIES).decode()


@pytest.mark.parametrize(("name", "text"), list(variants()))
def test_any_legal_writing_of_the_table_reads_the_same(name, text):
    expected = only_chain(cif_text(chain(24)))
    found = only_chain(text.encode())
    assert np.array_equal(found.coordinates, expected.coordinates)
    assert np.array_equal(found.aa, expected.aa)
    assert np.array_equal(found.numbers, expected.numbers)


def test_long_chain_names():
    found = read(cif_text([*chain(24, chain="assembly-A-1"), *chain(24, chain="assembly-A-2", z=20.0)]))
    assert [item.name for item in found.chains] == ["assembly-A-1", "assembly-A-2"]


def test_two_polymers_of_one_author_name_get_ids_of_their_own():
    result = read(cif_text([*chain(24, chain="A", asym="A"), *chain(24, chain="A", asym="B", z=20.0)]))
    assert [item.id for item in result.chains] == ["test:A", "test:A-B"]
    assert result.counts["chains_renamed"] == 1


def test_broken_texts_have_names():
    text = cif_text(chain(24))
    assert reasons(b"") == [("", "empty")]
    assert reasons(b"data_X\n_cell.length_a 5\n") == [("", "empty")]
    assert reasons(text[: text.rfind(b"ATOM") + 20]) == [("", "cut_record")]
    assert reasons(bytes(range(1, 256)) * 20) == [("", "unreadable")]
    assert reasons(cif_text([*chain(10), *residue(10, y="?"), *chain(13, first=11)])) == [("A", "nan_coordinates")]
    assert reasons(text.replace(b" 24 A 1\n", b" x A 1\n")) == [("", "missing_ids")]


def test_a_wrong_extension_is_read_by_content():
    text, other = cif_text(chain(24)), pdb_text(chain(24))
    assert len(read(text, file="test.pdb").chains) == 1
    assert len(read(other, file="test.cif").chains) == 1


@pytest.mark.parametrize(
    "head",
    [
        ENTITIES + "_ma_qa_metric.id 1\n_ma_qa_metric.name pLDDT\n#\n",
        ENTITIES + "_database_2.database_id AlphaFoldDB\n#\n",
        "_entry.id AF-P12345-F1\n#\n" + ENTITIES,
    ],
)
def test_predictions_by_their_metadata(head):
    found = only_chain(cif_text(chain(24, b_factor=88.6), head=head))
    assert found.is_plddt and found.confidence.tolist() == [89] * 24
    assert not only_chain(cif_text(chain(24))).is_plddt


def test_entry_from_entry_id_or_the_file_name():
    assert only_chain(cif_text(chain(24), head="_entry.id 4hhb\n" + ENTITIES)).entry == "4HHB"
    assert only_chain(cif_text(chain(24), name="1abc")).entry == "1ABC"
    assert only_chain(cif_text(chain(24), name="model")).entry == "test"


def test_assembly_by_label_asym():
    head = ENTITIES + (
        "_pdbx_struct_assembly_gen.assembly_id 1\n_pdbx_struct_assembly_gen.oper_expression 1,2\n"
        "_pdbx_struct_assembly_gen.asym_id_list Q\n#\nloop_\n_pdbx_struct_oper_list.id\n"
        + "".join(
            f"_pdbx_struct_oper_list.{part}\n"
            for row in (1, 2, 3)
            for part in (*(f"matrix[{row}][{column}]" for column in (1, 2, 3)), f"vector[{row}]")
        )
        + "1 1 0 0 0 0 1 0 0 0 0 1 0\n2 -1 0 0 7 0 -1 0 0 0 0 1 0\n#\n"
    )
    first, second = read(cif_text(chain(24, chain="H", asym="Q"), head=head), assembly=1).chains
    assert (first.id, second.id, second.copy_of) == ("test:H", "test:H-2", "test:H")
    assert np.allclose(second.coordinates, first.coordinates * [-1, -1, 1] + [7, 0, 0], atol=1e-4)


def test_operator_expressions():
    assert expand_operators("1") == [("1",)]
    assert expand_operators("1,P") == [("1",), ("P",)]
    assert expand_operators("(1-3)") == [("1",), ("2",), ("3",)]
    assert expand_operators("(X0)(1,4-5)") == [("X0", "1"), ("X0", "4"), ("X0", "5")]
