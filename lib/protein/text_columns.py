"""Numbers and short names out of text by whole columns: eight characters are handled as one 64-bit word.

A field of up to eight characters is gathered as a little-endian word (first character in the lowest byte). Comparing,
masking and converting such words with numpy treats a whole column at once, without a Python object per field. The digit
arithmetic is the well-known parallel one (Lemire, "Quickly parsing eight digits", 2018).
"""

from __future__ import annotations

import numpy as np

ONES = 0x0101010101010101
HIGH_BITS = 0x80 * ONES
LOW_BITS = 0x7F * ONES
BLANKS = 0x20 * ONES
ALL_BITS = 0xFFFFFFFFFFFFFFFF
# mask that keeps the first n characters of a word, n = 0..8
FIRST_CHARACTERS = np.array([(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64)
PADDING = 96  # bytes behind the text, so that a gather near the end stays inside


def pack(text: str) -> int:
    """Word of up to eight characters, left-aligned, filled with NUL."""
    return int.from_bytes(text.encode("latin-1")[:8], "little")


def unpack(word: int) -> str:
    """Text of a word without filling NULs and blanks at both ends."""
    return int(word).to_bytes(8, "little").decode("latin-1").strip("\0 ")


class TextColumns:
    """Random access to the eight characters at any position of a text, without copying it."""

    def __init__(self, text: bytes):
        self.text = text
        self.bytes = np.frombuffer(text, np.uint8)
        # Words overlap and are not aligned; the last ones are taken from a padded copy of the end.
        self._limit = max(len(text) - 7, 0)  # number of words inside the text
        tail = text[self._limit :] + bytes(PADDING)
        self._inside = np.ndarray((self._limit,), "<u8", text, 0, (1,))
        self._behind = np.ndarray((len(tail) - 7,), "<u8", tail, 0, (1,))

    def words(self, starts: np.ndarray) -> np.ndarray:
        """uint64 words of the eight characters from each start; same shape as starts (0 .. len(text) + 80)."""
        if not starts.size or starts.max() < self._limit:
            return self._inside[starts]
        late = starts >= self._limit
        words = np.empty(starts.shape, np.uint64)
        words[~late] = self._inside[starts[~late]]
        words[late] = self._behind[starts[late] - self._limit]
        return words

    def first(self, starts: np.ndarray, count: int) -> np.ndarray:
        """Words of the first `count` characters, the rest NUL."""
        return self.words(starts) & FIRST_CHARACTERS[count]


class Column:
    """One column of tokens: positions of each token's first character and of the character behind it."""

    def __init__(self, columns: TextColumns, starts: np.ndarray, ends: np.ndarray):
        self.columns, self.starts, self.ends = columns, starts, ends

    def take(self, rows) -> Column:
        return Column(self.columns, self.starts[rows], self.ends[rows])

    def words(self) -> np.ndarray:
        """Left-aligned words; only the first eight characters of longer tokens."""
        return self.columns.words(self.starts) & FIRST_CHARACTERS[np.minimum(self.ends - self.starts, 8)]

    def exceeds_word(self) -> bool:
        return bool((self.ends - self.starts > 8).any())

    def texts(self) -> list[str]:
        text = self.columns.text
        return [text[a:b].decode("latin-1") for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    def numbers(self) -> np.ndarray:
        """float64 values; NaN where the token is no number."""
        lengths = self.ends - self.starts
        keep = ~(FIRST_CHARACTERS[8 - np.minimum(lengths, 8)])
        begins = self.ends - 8
        if len(begins) and begins.min() < 0:  # a token at the very start of the text
            return np.array([number_or_nan(text) for text in self.texts()])
        values, bad = parse_numbers(self.columns.words(begins) & keep)
        bad |= lengths > 8
        return repaired(values, bad, lambda index: self.columns.text[self.starts[index] : self.ends[index]])


def repaired(values: np.ndarray, bad: np.ndarray, text_of) -> np.ndarray:
    """Values with the bad ones read again by Python's float; text_of(flat index) gives the field."""
    for index in np.flatnonzero(bad).tolist():
        values.flat[index] = number_or_nan(text_of(index))
    return values


def number_or_nan(text: bytes | str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def parse_numbers(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decimal numbers in right-aligned words (blanks or NUL in front), as float64, and where that failed.

    Accepted: blanks, at most one minus, digits with at most one point. All else (exponents, plus signs, nan, blank
    fields) is marked bad and has value 0.
    """
    words = words | np.uint64(BLANKS)  # NUL becomes a blank; digits, minus and point stay as they are
    points = _equal_bytes(words, ord("."))
    if points.size == 0:
        return np.zeros(points.shape), np.zeros(points.shape, bool)
    first = points.flat[0]
    if (points == first).all():
        return _parse_pattern(words, int(first))
    values = np.zeros(words.shape)
    bad = np.zeros(words.shape, bool)
    for pattern in np.unique(points).tolist():
        chosen = points == np.uint64(pattern)
        values[chosen], bad[chosen] = _parse_pattern(words[chosen], pattern)
    return values, bad


def _parse_pattern(words: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """`parse_numbers` for words whose points are all at the same place (bit 7 of that byte set in `points`)."""
    if points & (points - 1):
        return np.zeros(words.shape), np.ones(words.shape, bool)
    places = 0
    if points:
        places = 7 - (points.bit_length() - 1) // 8
        below = (points >> 7) - 1
        above = ALL_BITS & ~((points << 1) - 1)
        words = (words & np.uint64(above)) | ((words & np.uint64(below)) << np.uint64(8)) | np.uint64(0x20)
    integers, bad = parse_integers(words)
    return integers / 10.0**places, bad


def parse_integers(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers in right-aligned words (blank or NUL filled), as float64, and where the field is none."""
    words = words | np.uint64(BLANKS)
    digits = words ^ np.uint64(0x30 * ONES)  # a digit becomes its value 0..9
    other = (((digits & np.uint64(LOW_BITS)) + np.uint64(0x76 * ONES)) | digits) & np.uint64(HIGH_BITS)
    filling = (other >> np.uint64(7)) * np.uint64(0xFF)  # whole bytes; they must be the first ones
    after = filling + np.uint64(1)
    filler = (words ^ np.uint64(BLANKS)) & filling  # 0 for blanks only
    minus = filler == (after >> np.uint64(8)) * np.uint64(ord("-") ^ ord(" "))  # a minus right before the digits
    minus &= filler != 0
    bad = (filling & after != 0) | (after == 0) | ((filler != 0) & ~minus)
    value = digits & ~filling
    value = (value * np.uint64(2561)) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    value = (value * np.uint64(6553601)) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    value = ((value * np.uint64(42949672960001)) >> np.uint64(32)).astype(np.float64)
    np.negative(value, out=value, where=minus)
    if bad.any():
        value[bad] = 0.0
    return value, bad


def _equal_bytes(words: np.ndarray, character: int) -> np.ndarray:
    """Bit 7 set in every byte that equals the character."""
    difference = words ^ np.uint64(character * ONES)
    unequal = ((difference & np.uint64(LOW_BITS)) + np.uint64(LOW_BITS)) | difference
    return ~unequal & np.uint64(HIGH_BITS)
