import random

import numpy as np
import pytest

from lib.protein.text_columns import Column, TextColumns, pack, parse_integers, parse_numbers, unpack


def right_aligned(text, filling=" "):
    return int.from_bytes(text.rjust(8, filling).encode(), "little")


def parsed(texts, filling=" "):
    return parse_numbers(np.array([right_aligned(text, filling) for text in texts], np.uint64))


@pytest.mark.parametrize("filling", [" ", "\0"])
def test_numbers_equal_python_floats(filling):
    rng = random.Random(5)
    texts = [f"{rng.uniform(-999, 9999):.{rng.randrange(1, 4)}f}"[:8] for _ in range(5000)]
    texts += ["0", "-0.001", "9999.999", "-999.999", ".5", "-.5", "5.", "12345678", "-1", "0.000"]
    values, bad = parsed(texts, filling)
    assert not bad.any()
    assert values.tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["", "-", "nan", "1.2.3", "1-2.3", "1 2.300", "--1.000", "1e5", "+1.0", "********", "1,5"]
)
def test_fields_that_are_no_plain_number_are_marked(text):
    values, bad = parsed(["1.000", text])
    assert bad.tolist() == [False, True]
    assert values.tolist() == [1.0, 0.0]


def test_integers():
    texts = ["-5", "0", "9999", "-999", "   7"]
    values, bad = parse_integers(np.array([right_aligned(text) for text in texts], np.uint64))
    assert values.tolist() == [-5, 0, 9999, -999, 7]
    assert not bad.any()
    assert parse_integers(np.array([right_aligned("A000"), right_aligned(" 1 2")], np.uint64))[1].all()


def test_words_up_to_the_last_character_of_a_text():
    columns = TextColumns(b"abcdefghijkl")
    words = columns.words(np.array([0, 4, 5, 11, 60]))
    assert [unpack(word) for word in words] == ["abcdefgh", "efghijkl", "fghijkl", "l", ""]
    assert unpack(columns.first(np.array([4]), 3)[0]) == "efg"
    assert [unpack(word) for word in TextColumns(b"ab").words(np.array([0, 1]))] == ["ab", "b"]


def test_column_tokens():
    text = b"1.5 -2 1234567.25 x chain_name_longer\n"
    starts = np.array([0, 4, 7, 18, 20])
    ends = np.array([3, 6, 17, 19, 37])
    column = Column(TextColumns(text), starts, ends)
    assert column.texts() == ["1.5", "-2", "1234567.25", "x", "chain_name_longer"]
    assert column.take([0, 1, 2]).numbers().tolist() == [1.5, -2.0, 1234567.25]
    assert np.isnan(column.take([3]).numbers()).all()
    assert column.words()[0] == pack("1.5")
    assert column.exceeds_word()
