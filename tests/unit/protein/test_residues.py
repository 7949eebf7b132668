import gemmi
import numpy as np
import pytest

from lib.protein.residues import ALPHABET, THREE_LETTER, UNKNOWN, Kind, classify, residue_index, sequence_text


def letter(name):
    index = residue_index(name)
    return None if index is None else ALPHABET[index]


def test_alphabet_is_the_standard_twenty_in_one_letter_order_with_x_last():
    assert ALPHABET == "ACDEFGHIKLMNPQRSTVWYX"
    assert [gemmi.find_tabulated_residue(name).one_letter_code for name in THREE_LETTER[:20]] == list(ALPHABET[:20])
    assert [residue_index(name) for name in THREE_LETTER] == list(range(21))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("MSE", "M"), ("SEP", "S"), ("TPO", "T"), ("PTR", "Y"), ("HYP", "P"), ("CSO", "C"), ("KCX", "K"), ("MLY", "K"),
     ("PCA", "E"), ("DAL", "A")],
)  # fmt: skip
def test_modified_residues_take_their_parent(name, expected):
    assert letter(name) == expected
    assert classify(name).kind is Kind.MODIFIED


@pytest.mark.parametrize(
    ("name", "expected"),
    [("HIE", "H"), ("HID", "H"), ("HIP", "H"), ("HSD", "H"), ("CYX", "C"), ("CYM", "C"), ("GLH", "E"), ("ASH", "D"),
     ("LYN", "K"), ("NALA", "A"), ("CGLY", "G"), ("NHIE", "H")],
)  # fmt: skip
def test_force_field_names_that_gemmi_does_not_know(name, expected):
    assert not gemmi.find_tabulated_residue(name).is_amino_acid()
    assert letter(name) == expected


@pytest.mark.parametrize("name", ["SEC", "PYL", "UNK", "ASX", "GLX", "Q7Z9"])
def test_residues_without_a_letter_become_x(name):
    assert residue_index(name) == UNKNOWN


@pytest.mark.parametrize("name", ["ACE", "NH2", "NME", "HOH", "DA", "U", "GOL", "HEM", "CA"])
def test_caps_water_nucleotides_and_ligands_are_no_residues(name):
    assert residue_index(name) is None


def test_names_are_stripped_and_upper_cased():
    assert residue_index(" ala ") == 0


def test_sequence_text():
    assert sequence_text(np.array([0, 19, 20], np.uint8)) == "AYX"
