"""Alignments against a plain implementation, clusters against exhaustive ones and against the shared MANIFEST."""

import csv
import os
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lib.errors import UserError
from lib.protein import homology
from lib.protein.alignment import BLOSUM62, LETTERS, banded_scores, pack, self_scores
from lib.protein.homology import candidate_diagonals, cluster_sequences, seed_hits

STRUCTURES = Path(
    os.environ.get("QUARTET_STRUCTURES", Path(__file__).parents[3].parent / "shared" / "data" / "structures")
)
FREQUENCIES = np.array([83, 14, 55, 67, 39, 71, 23, 59, 58, 97, 24, 41, 47, 39, 55, 66, 53, 69, 11, 29])  # of LETTERS


def cluster(sequences, **arguments):
    return cluster_sequences(sequences, log=lambda _: None, **arguments)


def random_sequence(generator, length: int) -> str:
    letters = np.array(list(LETTERS[:20]))
    return "".join(generator.choice(letters, length, p=FREQUENCIES / FREQUENCIES.sum()))


def relative(generator, ancestor: str, identity: float, gaps: int = 2) -> str:
    """A descendant: substitutions at random, and a few insertions or deletions of 1..6 residues."""
    fresh = random_sequence(generator, len(ancestor))
    keep = generator.random(len(ancestor)) < identity
    text = "".join(old if kept else new for old, new, kept in zip(ancestor, fresh, keep))
    for _ in range(gaps):
        place, length = int(generator.integers(5, len(text) - 5)), int(generator.integers(1, 7))
        inserted = random_sequence(generator, length) if generator.random() < 0.5 else ""
        text = text[:place] + inserted + text[place + (0 if inserted else length) :]
    return text


def plain_score(first: str, second: str, limit=None, diagonal=0) -> int:
    """Gotoh's recursion cell by cell; `limit` keeps |i - j - diagonal| <= limit."""
    minus = -(10**6)
    codes = [[LETTERS.index(letter) for letter in text] for text in (first, second)]
    score = np.zeros((len(first) + 1, len(second) + 1), int)
    down, right = np.full_like(score, minus), np.full_like(score, minus)
    for i in range(1, len(first) + 1):
        for j in range(1, len(second) + 1):
            if limit is not None and abs((i - 1) - (j - 1) - diagonal) > limit:
                continue
            down[i, j] = max(score[i - 1, j] - 11, down[i - 1, j] - 1)
            right[i, j] = max(score[i, j - 1] - 11, right[i, j - 1] - 1)
            match = score[i - 1, j - 1] + BLOSUM62[codes[0][i - 1], codes[1][j - 1]]
            score[i, j] = max(0, match, down[i, j], right[i, j])
    return int(score.max())


def same_partition(first, second) -> bool:
    return len(set(zip(first, second))) == len(set(first)) == len(set(second))


@pytest.fixture(scope="module")
def families():
    """(sequences, family numbers): 12 unrelated families of 1..8 at 45..95 % identity, lengths 60..300."""
    generator = np.random.default_rng(5)
    sequences, family = [], []
    for number in range(12):
        ancestor = random_sequence(generator, int(generator.integers(60, 300)))
        for _ in range(1 + number % 8):
            sequences.append(relative(generator, ancestor, generator.uniform(0.5, 0.95)))
            family.append(number)
    return sequences, family


@pytest.fixture(scope="module")
def real():
    """(file, sequence, cluster of the file in the MANIFEST) of every chain, read by this project's reader."""
    if not (STRUCTURES / "MANIFEST.csv").is_file():
        pytest.skip(f"needs the development structures: no MANIFEST.csv in {STRUCTURES}")
    reading = pytest.importorskip("lib.protein.reading")
    with open(STRUCTURES / "MANIFEST.csv", newline="") as stream:
        manifest = {row["file"]: row for row in csv.DictReader(stream)}
    chains = []
    for path in reading.find_structure_files(STRUCTURES / "files"):
        row = manifest[path.name]
        if not row["homology_cluster"]:
            continue
        listed = set(row["chains"].split())
        for chain in reading.read_file(path, STRUCTURES / "files").chains:
            if chain.name in listed:
                sequence = "".join(LETTERS[code] for code in chain.aa)
                chains.append((path.name, sequence, int(row["homology_cluster"])))
    return chains


def test_blosum62_is_the_published_table():
    value = {(row, column): int(BLOSUM62[i, j]) for i, row in enumerate(LETTERS) for j, column in enumerate(LETTERS)}
    assert np.array_equal(BLOSUM62, BLOSUM62.T) and BLOSUM62.shape == (21, 21)
    # Diagonal of the published matrix, in the order A R N D C Q E G H I L K M F P S T W Y V X.
    diagonal = [value[letter, letter] for letter in "ARNDCQEGHILKMFPSTWYVX"]
    assert diagonal == [4, 5, 6, 6, 9, 5, 5, 6, 8, 4, 4, 5, 5, 6, 7, 4, 5, 11, 7, 4, -1]
    assert value["I", "V"] == 3 and value["W", "D"] == -4 and value["D", "E"] == 2 and value["F", "Y"] == 3
    parasail = pytest.importorskip("parasail")
    order = "ARNDCQEGHILKMFPSTWYVBZX*"
    rows = [order.index(letter) for letter in LETTERS]
    assert np.array_equal(BLOSUM62, parasail.blosum62.matrix[np.ix_(rows, rows)])


def test_gap_of_k_costs_open_plus_k_minus_1():
    left, right = "WWWWWHHHHH", "CCCCCWWWWW"
    packed = pack([left + right, left + "PPP" + right, left + "P" + right])
    full = 5 * 11 + 5 * 8 + 5 * 9 + 5 * 11
    scores = banded_scores(packed, [0, 0, 0], [0, 1, 2], [0, 0, 0], half_width=8)
    assert scores.tolist() == [full, full - 13, full - 11]
    assert self_scores(packed).tolist() == [full, full + 3 * 7, full + 7]


def test_wide_band_equals_plain_recursion():
    generator = np.random.default_rng(1)
    sequences = [random_sequence(generator, int(length)) for length in generator.integers(1, 50, 10)]
    sequences += [relative(generator, (sequences[-1] + random_sequence(generator, 30)), 0.6) for _ in range(3)] + [
        "XXXX"
    ]
    first, second = np.triu_indices(len(sequences))
    scores = banded_scores(pack(sequences), first, second, np.zeros(len(first)), half_width=120)
    expected = [plain_score(sequences[i], sequences[j]) for i, j in zip(first, second)]
    assert scores.tolist() == expected and max(expected) > 80


def test_narrow_band_equals_plain_recursion_in_the_band():
    generator = np.random.default_rng(2)
    sequences = [random_sequence(generator, 40)]
    sequences += [relative(generator, sequences[0], 0.7), random_sequence(generator, 23)]
    cases = [(i, j, d) for i in range(3) for j in range(3) for d in (-60, -44, -41, -9, -3, 0, 2, 8, 39, 43, 70)]
    first, second, diagonals = np.array(cases).T
    scores = banded_scores(pack(sequences), first, second, diagonals, half_width=4)
    for (i, j, diagonal), score in zip(cases, scores.tolist()):
        assert score == plain_score(sequences[i], sequences[j], 4, diagonal), (i, j, diagonal)


def test_scores_equal_parasail():
    parasail = pytest.importorskip("parasail")
    generator = np.random.default_rng(3)
    ancestor = random_sequence(generator, 180)
    sequences = [relative(generator, ancestor, identity) for identity in (0.3, 0.4, 0.5, 0.7, 0.9)]
    sequences += [random_sequence(generator, int(length)) for length in (30, 200, 400)] + ["ACDXXXXEFG"]
    first, second = np.triu_indices(len(sequences), 1)
    scores = banded_scores(pack(sequences), first, second, np.zeros(len(first)), half_width=600)
    for i, j, score in zip(first, second, scores):
        assert score == parasail.sw_striped_16(sequences[i], sequences[j], 11, 1, parasail.blosum62).score


def test_stopping_early_changes_no_decision(families):
    sequences, _ = families
    first, second = np.triu_indices(len(sequences), 1)
    zeros = np.zeros(len(first), dtype=int)
    exact = banded_scores(pack(sequences), first, second, zeros)
    for threshold in (30, 80, 300):
        stopped = banded_scores(pack(sequences), first, second, zeros, stop_at=threshold)
        assert np.array_equal(stopped >= threshold, exact >= threshold) and (stopped <= exact).all()
    assert (exact < 30).any() and (exact > 300).any()


def test_score_does_not_depend_on_the_batch(families, monkeypatch):
    sequences, _ = families
    first, second = np.triu_indices(len(sequences), 1)
    together = banded_scores(pack(sequences), first, second, first - second)
    monkeypatch.setattr("lib.protein.alignment.BATCH_PAIRS", 7)
    assert np.array_equal(together, banded_scores(pack(sequences), first, second, first - second))


def test_long_sequences_do_not_overflow():
    text = random_sequence(np.random.default_rng(4), 9000)
    scores = banded_scores(pack([text, text]), [0, 0], [1, 1], [0, 0], stop_at=80)
    assert (scores >= 80).all() and (scores < 600).all()
    assert banded_scores(pack([text]), [0], [0], [0])[0] == self_scores(pack([text]))[0] > 40_000


def test_families_are_found(families):
    sequences, family = families
    labels = cluster(sequences)
    assert labels.dtype == np.int32 and same_partition(labels.tolist(), family)
    assert labels[0] == 0 and labels.max() == 11
    assert all(labels[index] <= labels[:index].max() + 1 for index in range(1, len(labels)))


def test_partition_does_not_depend_on_order_or_repeats(families):
    sequences, _ = families
    labels = cluster(sequences)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(sequences))
        repeated = np.concatenate([order, order[:9]])
        assert same_partition(cluster([sequences[index] for index in repeated]).tolist(), labels[repeated].tolist())
    assert np.array_equal(labels, cluster(sequences))


def test_single_linkage_equals_all_pairs():
    """A chain of drifting relatives, and two families tied by a sequence of two domains: every link is followed."""
    generator = np.random.default_rng(8)
    drifting = [random_sequence(generator, 150)]
    for _ in range(7):
        drifting.append(relative(generator, drifting[-1], 0.65, gaps=1))
    one, other, alone = (random_sequence(generator, 140) for _ in range(3))
    sequences = [*drifting, one, other, one[20:120] + other[10:130], alone]
    first, second = np.triu_indices(len(sequences), 1)
    scores = banded_scores(pack(sequences), first, second, np.zeros(len(first)), half_width=400)
    roots = list(range(len(sequences)))
    for i, j, score in zip(first, second, scores):
        if score >= 80:
            old, new = roots[j], roots[i]
            roots = [new if root == old else root for root in roots]
    assert scores[6] < 80 and roots[0] == roots[7], "the ends of the drift are linked only through the middle"
    assert roots[8] == roots[9] == roots[10] != roots[11]
    assert same_partition(cluster(sequences).tolist(), roots)


def test_threshold_decides():
    """Two sequences that share exactly one stretch, of a score known to the point."""
    generator = np.random.default_rng(11)
    core = "WCHWMPFWCDYH"
    first, second = (random_sequence(generator, 40) + core + random_sequence(generator, 40) for _ in range(2))
    score = plain_score(first, second)
    assert 70 < score < 130
    assert cluster([first, second], threshold=score).tolist() == [0, 0]
    assert cluster([first, second], threshold=score + 1).tolist() == [0, 1]


def test_short_unknown_and_equal_sequences():
    generator = np.random.default_rng(6)
    long = random_sequence(generator, 120)
    sequences = [
        "ACD",
        "ACD",
        "",
        "X" * 300,
        "X" * 301,
        "ACDE",
        long,
        long.lower(),
        long[:60] + "X" * 5 + long[65:],
        "",
    ]
    labels = cluster(sequences).tolist()
    assert labels[0] == labels[1] and labels[2] == labels[9]
    assert labels[6] == labels[8], "a few unknown residues do not part relatives"
    assert len({labels[index] for index in (0, 2, 3, 4, 5, 6, 7)}) == 7, "nothing else is linked"
    assert cluster([]).shape == (0,) and cluster(["ACD"]).tolist() == [0]


def test_letters_outside_the_twenty_count_as_unknown():
    assert pack(["ABZUOJ*-x"]).codes[1:-1].tolist() == [0, *[LETTERS.index("X")] * 8]


def test_seed_hits_are_all_pairs_of_places_in_a_small_set():
    text = "MKTAYIAKQR" + "GWGW" + "MKTAYIAKQR"
    packed = pack([text, "PPMKTAYPP"], padding=homology.WINDOW)
    found = Counter()
    for left, right in seed_hits(packed, (0, 1, 3)):
        found.update((min(a, b), max(a, b)) for a, b in zip(left.tolist(), right.tolist()))
    groups = {letter: number for number, letters in enumerate(homology.SEED_GROUPS) for letter in letters}
    seeds = {}
    for start, sequence in zip(packed.starts.tolist(), (text, "PPMKTAYPP")):
        for place in range(len(sequence) - 3):
            key = tuple(groups[sequence[place + offset]] for offset in (0, 1, 3))
            seeds.setdefault(key, []).append(start + place)
    expected = Counter((a, b) for places in seeds.values() for a in places for b in places if a < b)
    assert found == expected and len(expected) >= 9


def test_common_seeds_are_capped_but_near_relatives_stay(monkeypatch):
    generator = np.random.default_rng(9)
    ancestor = random_sequence(generator, 100)
    sequences = [relative(generator, ancestor, 0.9) for _ in range(60)]
    monkeypatch.setattr(homology, "HITS_PER_RESIDUE", 2)
    monkeypatch.setattr(homology, "CANDIDATES_PER_SEQUENCE", 4)
    packed = pack(sequences, padding=homology.WINDOW)
    for shape in homology.SEED_SHAPES:
        places = sum(len(text) for text in sequences)
        assert sum(len(left) for left, _ in seed_hits(packed, shape)) < 4 * places
    first, second, _ = candidate_diagonals(packed)
    assert (first < second).all() and len(first) <= 2 * 4 * 60
    assert cluster(sequences).max() == 0


def test_unusable_arguments_are_one_line(monkeypatch):
    for arguments, words in (
        ({"method": "blast"}, "builtin, parasail"),
        ({"threshold": 0}, "between 1 and 19999"),
    ):
        with pytest.raises(UserError, match=words):
            cluster(["ACDEFGHIKL" * 9], **arguments)
    with pytest.raises(UserError, match="leave it out"):
        cluster(["A" * homology.LONGEST])
    monkeypatch.setitem(sys.modules, "parasail", None)
    with pytest.raises(UserError, match="pip install parasail"):
        cluster(["ACDEFGHIKL" * 9, "ACDEFGHIKW" * 9], method="parasail")


def test_parasail_gives_the_same_families(families):
    pytest.importorskip("parasail")
    sequences, family = families
    assert same_partition(cluster(sequences, method="parasail").tolist(), family)


@pytest.mark.shared_data
def test_partition_of_the_shared_structures_is_the_manifest(real):
    started = time.process_time()
    lines = []
    labels = cluster_sequences([sequence for _, sequence, _ in real], log=lines.append)
    seconds = time.process_time() - started
    assert len(lines) == 1 and lines[0].startswith("homology: ")
    files = sorted({file for file, _, _ in real})
    number = {file: index for index, file in enumerate(files)}
    joined = homology.Components(len(files))  # the column is per file: the clusters of one file's chains are tied
    first_with: dict[int, int] = {}
    for (file, _, _), label in zip(real, labels.tolist()):
        joined.join(first_with.setdefault(label, number[file]), number[file])
    manifest = {file: cluster_number for file, _, cluster_number in real}
    found, column = joined.roots(), np.array([manifest[file] for file in files])
    rows, columns = np.triu_indices(len(files), 1)
    alike, listed = found[rows] == found[columns], column[rows] == column[columns]
    assert len(files) > 580 and listed.sum() > 23_000
    wrong = [(files[rows[index]], files[columns[index]]) for index in np.flatnonzero(alike != listed)]
    assert not wrong, f"{len(wrong)} of {listed.sum()} pairs of files differ: {wrong[:5]}"
    assert seconds < 40, "about 3 s of one idle core"


@pytest.mark.shared_data
def test_built_in_partition_is_the_exhaustive_one(real):
    """Against parasail on all pairs of a quarter of the sequences, below the level of files."""
    pytest.importorskip("parasail")
    sequences = sorted({sequence for _, sequence, _ in real})[::4]
    assert len(sequences) > 250
    assert same_partition(cluster(sequences).tolist(), cluster(sequences, method="parasail").tolist())
